//! The context switch between guest and engine.
//!
//! Leaving the code cache: an exit stub stores the exit's number and jumps to [`exit_plain`] when all
//! guest registers are in the machine, or to [`exit_spilled`] when `r10` and `r11` are already in
//! their slots. The registers are stored, the engine's stack is entered, and
//! [`ThreadState::on_exit`](crate::thread::ThreadState) decides where to resume. The guest's stack
//! is never written: the red zone below its pointer is in use.

use crate::thread::{RFLAGS_DISP, ThreadState, disp, gpr_disp};
use core::arch::naked_asm;
use core::mem::offset_of;

const XMM: i32 = offset_of!(ThreadState, xmm) as i32;

/// Leaves the code cache with all guest registers in the machine.
///
/// # Safety
///
/// Jumped to from generated code only; not a function.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_plain() {
    naked_asm!(
        "mov gs:[{r10}], r10",
        "mov gs:[{r11}], r11",
        "jmp {spilled}",
        r10 = const gpr_disp(10),
        r11 = const gpr_disp(11),
        spilled = sym exit_spilled,
    )
}

/// Leaves the code cache because a return did not match the shadow stack.
///
/// # Safety
///
/// Jumped to from generated code only; not a function. `r10` and `r11` are spilled.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_return() {
    naked_asm!(
        "mov dword ptr gs:[{id}], {value}",
        "jmp {spilled}",
        id = const disp!(exit_id),
        value = const crate::exit::special::RETURN,
        spilled = sym exit_spilled,
    )
}

/// [`exit_return`] for code that does not count: only `r11` is spilled there.
///
/// # Safety
///
/// Jumped to from generated code only; not a function.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_return_off() {
    naked_asm!(
        "mov gs:[{r10}], r10",
        "jmp {exit_return}",
        r10 = const gpr_disp(10),
        exit_return = sym exit_return,
    )
}

/// [`exit_spilled`] for returns of code that does not count: only `r11` is spilled there.
///
/// # Safety
///
/// Jumped to from generated code only; not a function.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_spilled_off() {
    naked_asm!(
        "mov gs:[{r10}], r10",
        "jmp {spilled}",
        r10 = const gpr_disp(10),
        spilled = sym exit_spilled,
    )
}

/// The continuation of a stack's bottom and of markers.
pub fn bottom(off: bool) -> u64 {
    if off { exit_return_off as *const () as u64 } else { exit_return as *const () as u64 }
}

/// True for the continuation of a stack's bottom and of markers.
pub fn is_bottom(continuation: u64) -> bool {
    continuation == bottom(false) || continuation == bottom(true)
}

/// Leaves the code cache because an indirect branch was not found in the lookup table.
///
/// # Safety
///
/// Jumped to from generated code only; not a function. `r11` is spilled.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_lookup() {
    naked_asm!(
        "mov gs:[{r10}], r10",
        "mov dword ptr gs:[{id}], {value}",
        "jmp {spilled}",
        id = const disp!(exit_id),
        value = const crate::exit::special::LOOKUP,
        r10 = const gpr_disp(10),
        spilled = sym exit_spilled,
    )
}

/// Leaves the code cache with `r10` and `r11` already in their slots.
///
/// # Safety
///
/// Jumped to from generated code only; not a function.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_spilled() {
    naked_asm!(
        "mov gs:[{r0}], rax",
        "mov gs:[{r1}], rcx",
        "mov gs:[{r2}], rdx",
        "mov gs:[{r3}], rbx",
        "mov gs:[{r4}], rsp",
        "mov gs:[{r5}], rbp",
        "mov gs:[{r6}], rsi",
        "mov gs:[{r7}], rdi",
        "mov gs:[{r8}], r8",
        "mov gs:[{r9}], r9",
        "mov gs:[{r12}], r12",
        "mov gs:[{r13}], r13",
        "mov gs:[{r14}], r14",
        "mov gs:[{r15}], r15",
        "mov rsp, gs:[{engine_sp}]",
        "pushfq",
        "pop rax",
        "mov gs:[{rflags}], rax",
        "cld",
        // A guest that checks alignment does not expect it of us.
        "btr eax, 18",
        "jnc 2f",
        "push rax",
        "popfq",
        "cld",
        "2:",
        "mov rdi, gs:[0]",
        "movaps [rdi + {x} + 0x00], xmm0",
        "movaps [rdi + {x} + 0x10], xmm1",
        "movaps [rdi + {x} + 0x20], xmm2",
        "movaps [rdi + {x} + 0x30], xmm3",
        "movaps [rdi + {x} + 0x40], xmm4",
        "movaps [rdi + {x} + 0x50], xmm5",
        "movaps [rdi + {x} + 0x60], xmm6",
        "movaps [rdi + {x} + 0x70], xmm7",
        "movaps [rdi + {x} + 0x80], xmm8",
        "movaps [rdi + {x} + 0x90], xmm9",
        "movaps [rdi + {x} + 0xa0], xmm10",
        "movaps [rdi + {x} + 0xb0], xmm11",
        "movaps [rdi + {x} + 0xc0], xmm12",
        "movaps [rdi + {x} + 0xd0], xmm13",
        "movaps [rdi + {x} + 0xe0], xmm14",
        "movaps [rdi + {x} + 0xf0], xmm15",
        "call gs:[{on_exit}]",
        "jmp {resume}",
        r0 = const gpr_disp(0), r1 = const gpr_disp(1), r2 = const gpr_disp(2), r3 = const gpr_disp(3),
        r4 = const gpr_disp(4), r5 = const gpr_disp(5), r6 = const gpr_disp(6), r7 = const gpr_disp(7),
        r8 = const gpr_disp(8), r9 = const gpr_disp(9), r12 = const gpr_disp(12), r13 = const gpr_disp(13),
        r14 = const gpr_disp(14), r15 = const gpr_disp(15),
        rflags = const RFLAGS_DISP,
        engine_sp = const disp!(engine_sp),
        on_exit = const disp!(on_exit),
        x = const XMM,
        resume = sym resume,
    )
}

/// Enters the code cache at the address in `rax` with the guest registers of the current thread
/// block. `r10` and `r11` are loaded and stay in their slots too, so the target may be code that
/// expects them spilled.
///
/// # Safety
///
/// `gs` holds a thread block; `rax` is code of the cache or of the guest. Does not return.
#[unsafe(naked)]
pub unsafe extern "C" fn resume() {
    naked_asm!(
        "mov gs:[{resume}], rax",
        "mov rdi, gs:[0]",
        "movaps xmm0, [rdi + {x} + 0x00]",
        "movaps xmm1, [rdi + {x} + 0x10]",
        "movaps xmm2, [rdi + {x} + 0x20]",
        "movaps xmm3, [rdi + {x} + 0x30]",
        "movaps xmm4, [rdi + {x} + 0x40]",
        "movaps xmm5, [rdi + {x} + 0x50]",
        "movaps xmm6, [rdi + {x} + 0x60]",
        "movaps xmm7, [rdi + {x} + 0x70]",
        "movaps xmm8, [rdi + {x} + 0x80]",
        "movaps xmm9, [rdi + {x} + 0x90]",
        "movaps xmm10, [rdi + {x} + 0xa0]",
        "movaps xmm11, [rdi + {x} + 0xb0]",
        "movaps xmm12, [rdi + {x} + 0xc0]",
        "movaps xmm13, [rdi + {x} + 0xd0]",
        "movaps xmm14, [rdi + {x} + 0xe0]",
        "movaps xmm15, [rdi + {x} + 0xf0]",
        "mov rsp, gs:[{engine_sp}]",
        "push qword ptr gs:[{rflags}]",
        "popfq",
        "mov rax, gs:[{r0}]",
        "mov rcx, gs:[{r1}]",
        "mov rdx, gs:[{r2}]",
        "mov rbx, gs:[{r3}]",
        "mov rsp, gs:[{r4}]",
        "mov rbp, gs:[{r5}]",
        "mov rsi, gs:[{r6}]",
        "mov rdi, gs:[{r7}]",
        "mov r8, gs:[{r8}]",
        "mov r9, gs:[{r9}]",
        "mov r10, gs:[{r10}]",
        "mov r11, gs:[{r11}]",
        "mov r12, gs:[{r12}]",
        "mov r13, gs:[{r13}]",
        "mov r14, gs:[{r14}]",
        "mov r15, gs:[{r15}]",
        "jmp gs:[{resume}]",
        ".globl tallygraph_resume_end",
        "tallygraph_resume_end:",
        r0 = const gpr_disp(0), r1 = const gpr_disp(1), r2 = const gpr_disp(2), r3 = const gpr_disp(3),
        r4 = const gpr_disp(4), r5 = const gpr_disp(5), r6 = const gpr_disp(6), r7 = const gpr_disp(7),
        r8 = const gpr_disp(8), r9 = const gpr_disp(9), r10 = const gpr_disp(10), r11 = const gpr_disp(11),
        r12 = const gpr_disp(12), r13 = const gpr_disp(13), r14 = const gpr_disp(14), r15 = const gpr_disp(15),
        rflags = const RFLAGS_DISP,
        engine_sp = const disp!(engine_sp),
        resume = const disp!(resume),
        x = const XMM,
    )
}

unsafe extern "C" {
    static tallygraph_resume_end: u8;
    static tallygraph_syscall_window: u8;
    static tallygraph_syscall_insn: u8;
    static tallygraph_syscall_interrupted: u8;
}

/// True when `pc` is in [`resume`]: guest registers are being loaded.
pub fn is_resuming(pc: u64) -> bool {
    let start = resume as *const () as u64;
    (start..&raw const tallygraph_resume_end as u64).contains(&pc)
}

/// What [`guest_syscall`] gives when a signal came before the call was made.
pub const NOT_PERFORMED: u64 = -512i64 as u64;

/// Performs a system call of the guest: number, then six arguments, at `words`.
///
/// When a signal waits for a safe point, the call is not made and [`NOT_PERFORMED`] is given. A
/// signal that arrives between the check and the instruction is noticed by [`before_syscall`].
///
/// # Safety
///
/// `gs` holds the thread's block; the caller answers for the call.
#[unsafe(naked)]
pub unsafe extern "C" fn guest_syscall(words: &[u64; 7]) -> u64 {
    naked_asm!(
        "mov r11, rdi",
        "mov rax, [r11]",
        "mov rdi, [r11 + 8]",
        "mov rsi, [r11 + 16]",
        "mov rdx, [r11 + 24]",
        "mov r10, [r11 + 32]",
        "mov r8, [r11 + 40]",
        "mov r9, [r11 + 48]",
        ".globl tallygraph_syscall_window",
        "tallygraph_syscall_window:",
        "cmp dword ptr gs:[{pending}], 0",
        "jne tallygraph_syscall_interrupted",
        ".globl tallygraph_syscall_insn",
        "tallygraph_syscall_insn:",
        "syscall",
        "ret",
        ".globl tallygraph_syscall_interrupted",
        "tallygraph_syscall_interrupted:",
        "mov rax, {not_performed}",
        "ret",
        pending = const disp!(signal_pending),
        not_performed = const NOT_PERFORMED as i64,
    )
}

/// When `pc` is in [`guest_syscall`] with the call not made (or to be made again), the address to
/// go on at instead.
pub fn before_syscall(pc: u64) -> Option<u64> {
    let (start, insn) =
        (&raw const tallygraph_syscall_window as u64, &raw const tallygraph_syscall_insn as u64);
    (start..=insn).contains(&pc).then_some(&raw const tallygraph_syscall_interrupted as u64)
}
