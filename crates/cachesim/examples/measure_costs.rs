//! Measures latency and reciprocal throughput of instruction classes on the machine at hand.
//!
//! Prints the rows of the table in `src/cost.rs`. Latency is the time per instruction of a chain in
//! which each needs the result of the one before; reciprocal throughput that of eight chains, or
//! of instructions without operands in common, side by side. The unit is one cycle, taken as the
//! time of one `add` in a chain of them; the least of many runs counts, so other load on the
//! machine matters little. Instructions that come in pairs (store and load of the same place,
//! call and return) are measured as pairs.
//!
//! ```text
//! cargo run --release -p tallygraph-cachesim --example measure_costs
//! ```

use std::arch::asm;
use std::arch::x86_64::_rdtsc;

const REPEATS: f64 = 100.0;
const LOOPS: u64 = 200;

/// Ticks per repetition of `body`, least of many runs, without the loop around it.
macro_rules! ticks {
    ($($body:expr),*) => {{
        let mut place = [0u64; 64];
        place[0] = place.as_ptr() as u64;
        let mut least = u64::MAX;
        for _ in 0..60 {
            // SAFETY: `_rdtsc` needs no feature beyond x86-64, and the bodies write only the
            // registers named here, their own stack red zone below rsp (kept free by `sub rsp`)
            // and `place`.
            let start = unsafe { _rdtsc() };
            unsafe {
                asm!(
                    "push rbx",
                    "push rbp",
                    "sub rsp, 512",
                    "mov rbx, 3",
                    "mov rbp, 5",
                    "2:",
                    ".rept 100",
                    $($body,)*
                    ".endr",
                    "dec r15",
                    "jnz 2b",
                    "add rsp, 512",
                    "pop rbp",
                    "pop rbx",
                    inout("r15") LOOPS => _,
                    inout("r14") place.as_mut_ptr() => _,
                    inout("rax") 7u64 => _, inout("rcx") 1u64 => _, inout("rdx") 0u64 => _,
                    inout("rsi") 5u64 => _, inout("rdi") 9u64 => _, inout("r8") 11u64 => _,
                    inout("r9") 13u64 => _, inout("r10") 15u64 => _, inout("r11") 17u64 => _,
                    inout("r12") 19u64 => _, inout("r13") 21u64 => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _,
                );
            }
            // SAFETY: as above.
            least = least.min(unsafe { _rdtsc() } - start);
        }
        std::hint::black_box(&place);
        least as f64 / LOOPS as f64 / REPEATS
    }};
}

/// The same instruction on eight general registers that do not depend on each other.
macro_rules! eight {
    ($head:literal, $tail:literal) => {
        ticks!(
            concat!($head, "rax", $tail),
            concat!($head, "rdx", $tail),
            concat!($head, "rsi", $tail),
            concat!($head, "rdi", $tail),
            concat!($head, "r8", $tail),
            concat!($head, "r9", $tail),
            concat!($head, "r10", $tail),
            concat!($head, "r11", $tail)
        ) / 8.0
    };
}

/// The same on eight vector registers, as both operands.
macro_rules! eight_vectors {
    ($op:literal, $tail:literal) => {
        ticks!(
            concat!($op, " xmm0, xmm0", $tail),
            concat!($op, " xmm1, xmm1", $tail),
            concat!($op, " xmm2, xmm2", $tail),
            concat!($op, " xmm3, xmm3", $tail),
            concat!($op, " xmm4, xmm4", $tail),
            concat!($op, " xmm5, xmm5", $tail),
            concat!($op, " xmm6, xmm6", $tail),
            concat!($op, " xmm7, xmm7", $tail)
        ) / 8.0
    };
}

/// Latency and throughput of a vector instruction on one register and on eight.
macro_rules! vector {
    ($op:literal, $tail:literal) => {
        (ticks!(concat!($op, " xmm0, xmm0", $tail)), eight_vectors!($op, $tail))
    };
}

fn main() {
    let cycle = ticks!("add rax, rax");
    println!("one cycle: {cycle:.4} ticks of the time stamp counter");
    println!("{:<14} {:>10} {:>10}", "class", "latency", "throughput");
    let row = |class: &str, (latency, throughput): (f64, f64)| {
        println!("{class:<14} {:>10.2} {:>10.2}", latency / cycle, throughput / cycle);
    };
    row("Nop", (0.0, ticks!("nop")));
    row("Move", (ticks!("mov rax, rdx", "mov rdx, rax") / 2.0, eight!("mov ", ", r12")));
    row("Alu", (ticks!("add rax, rax"), eight!("add ", ", r12")));
    row("AluCarry", (ticks!("adc rax, rax"), eight!("adc ", ", r12")));
    row("Lea", (ticks!("lea rax, [rax+8]"), eight!("lea ", ", [r12+8]")));
    row("LeaScaled", (ticks!("lea rax, [rax+rax*4+8]"), eight!("lea ", ", [r12+r13*4+8]")));
    row("Shift", (ticks!("shl rax, 1"), eight!("shl ", ", 1")));
    row("DoubleShift", (ticks!("shld rax, rax, 3"), eight!("shld ", ", r12, 3")));
    row("Conditional", (ticks!("cmovz rax, r12"), eight!("cmovz ", ", r12")));
    row("BitScan", (ticks!("bsf rax, rax"), eight!("bsf ", ", r12")));
    row("BitCount", (ticks!("popcnt rax, rax"), eight!("popcnt ", ", r12")));
    row("Multiply", (ticks!("imul rax, rax"), eight!("imul ", ", r12")));
    row("MultiplyWide", (ticks!("mul rax"), ticks!("mov rax, r12", "mul r13")));
    row("Divide32", (ticks!("xor edx, edx", "div ebx"), ticks!("mov eax, r12d", "xor edx, edx", "div ebx")));
    row("Divide64", (ticks!("xor edx, edx", "div rbx"), ticks!("mov rax, r12", "xor edx, edx", "div rbx")));
    row("Crc32", (ticks!("crc32 rax, rax"), eight!("crc32 ", ", r12")));
    row("Branch", (0.0, ticks!("cmp rbp, rbx", "jz 3f", "3:")));
    row("Call+Return", (0.0, ticks!("call 4f", "4:", "add rsp, 8")));
    row("Push+Pop", (ticks!("push rax", "pop rax"), ticks!("push r12", "pop r13")));
    row("Load", (ticks!("mov r14, [r14]"), eight!("mov ", ", [r14]")));
    row("Store", (0.0, ticks!("mov [r14+64], r12", "mov [r14+128], r12", "mov [r14+192], r12") / 3.0));
    row("Store+Load", (ticks!("mov [r14+64], rax", "mov rax, [r14+64]"), 0.0));
    row("Locked", (ticks!("lock add [r14+64], rax"), ticks!("lock add [r14+64], r12")));
    row("Fence", (ticks!("mfence"), ticks!("mfence")));
    row("VectorMove", (0.0, ticks!("movaps xmm0, xmm8", "movaps xmm1, xmm8", "movaps xmm2, xmm8") / 3.0));
    row("VectorInteger", vector!("paddd", ""));
    row("VectorShuffle", vector!("pshufd", ", 27"));
    row("VectorMultiply", vector!("pmulld", ""));
    row("ToVector", (0.0, ticks!("movq xmm0, r12", "movq xmm1, r12", "movq xmm2, r12") / 3.0));
    row("ToVector+From", (ticks!("movq xmm0, rax", "movq rax, xmm0"), 0.0));
    row("FloatAdd", vector!("addsd", ""));
    row("FloatMultiply", vector!("mulsd", ""));
    row("FloatCompare", (0.0, ticks!("ucomisd xmm0, xmm8", "ucomisd xmm1, xmm8") / 2.0));
    row("FloatDivide", vector!("divsd", ""));
    row("FloatDivide32", vector!("divss", ""));
    row("FloatRoot", vector!("sqrtsd", ""));
    row("Convert", vector!("cvtdq2ps", ""));
    if is_x86_feature_detected!("fma") {
        row(
            "FloatFused",
            (
                ticks!("vfmadd213sd xmm0, xmm0, xmm0"),
                ticks!(
                    "vfmadd213sd xmm0, xmm0, xmm0",
                    "vfmadd213sd xmm1, xmm1, xmm1",
                    "vfmadd213sd xmm2, xmm2, xmm2",
                    "vfmadd213sd xmm3, xmm3, xmm3",
                    "vfmadd213sd xmm4, xmm4, xmm4",
                    "vfmadd213sd xmm5, xmm5, xmm5",
                    "vfmadd213sd xmm6, xmm6, xmm6",
                    "vfmadd213sd xmm7, xmm7, xmm7"
                ) / 8.0,
            ),
        );
    }
    if is_x86_feature_detected!("aes") {
        row("Crypto", vector!("aesenc", ""));
    }
    row("StringStep", (0.0, (ticks!("mov rdi, r14", "mov rsi, r14", "mov ecx, 32", "rep movsq")) / 32.0));
    row("X87", (ticks!("fld1", "fadd st(0), st(0)", "fstp st(0)"), 0.0));
    row("Serialize", (ticks!("rdtsc"), ticks!("rdtsc")));
}
