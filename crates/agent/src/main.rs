//! Entry point of the in-guest agent: a freestanding executable.

#![no_std]
#![no_main]

use core::arch::naked_asm;

/// Where the kernel starts: the stack pointer is at `argc`.
///
/// # Safety
///
/// Entered by the kernel only.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov rdi, rsp", "and rsp, -16", "call {start}", "ud2", start = sym start)
}

extern "C" fn start(stack: *mut u64) -> ! {
    // SAFETY: the kernel passed the initial stack; this is the process's first code.
    unsafe { tallygraph_agent::start(stack) }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    tallygraph_agent::report_panic(info)
}

/// `memcpy`, which compiled code calls. Short copies, the usual ones here, are two moves that may
/// overlap; `rep movsb` takes dozens of cycles to start. Instructions to be placed and records are a
/// little longer: those go by 16 bytes.
///
/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: by this function's contract; every access lies within the first `n` bytes. Both loads
    // come before the stores, so `memmove` may use the short cases too.
    unsafe {
        macro_rules! ends {
            ($word:ty) => {{
                let k = size_of::<$word>();
                let first = from.cast::<$word>().read_unaligned();
                let last = from.add(n - k).cast::<$word>().read_unaligned();
                to.cast::<$word>().write_unaligned(first);
                to.add(n - k).cast::<$word>().write_unaligned(last);
            }};
        }
        match n {
            0 => {}
            1 => *to = *from,
            2..=3 => ends!(u16),
            4..=7 => ends!(u32),
            8..=16 => ends!(u64),
            17..=32 => ends!(u128),
            33..=64 => ends!([u128; 2]),
            65..=256 => {
                let last = from.add(n - 16).cast::<u128>().read_unaligned();
                let mut at = 0;
                while at + 16 < n {
                    let word = from.add(at).cast::<u128>().read_unaligned();
                    to.add(at).cast::<u128>().write_unaligned(word);
                    at += 16;
                }
                to.add(n - 16).cast::<u128>().write_unaligned(last);
            }
            _ => {
                core::arch::asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
                    options(nostack, preserves_flags));
            }
        }
    }
    to
}

/// `memmove`, which compiled code calls.
///
/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if n <= 64 || (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: copying upwards is right when `to` does not lie inside `from`, and short copies
        // load everything first.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: by this function's contract; downwards, with the direction flag restored.
    unsafe {
        core::arch::asm!("std", "rep movsb", "cld",
            inout("rcx") n => _,
            inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _,
            options(nostack));
    }
    to
}

/// `memset`, which compiled code calls.
///
/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: by this function's contract.
    unsafe {
        if (16..=64).contains(&n) {
            let word = u128::from_ne_bytes([byte as u8; 16]);
            for at in [0, 16.min(n - 16), 32.min(n - 16), n - 16] {
                to.add(at).cast::<u128>().write_unaligned(word);
            }
            return to;
        }
        core::arch::asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// `memcmp`, which compiled code calls.
///
/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut equal = 0;
    while equal + 8 <= n {
        // SAFETY: eight bytes at `equal` are within both.
        let (x, y) = unsafe {
            (a.add(equal).cast::<u64>().read_unaligned(), b.add(equal).cast::<u64>().read_unaligned())
        };
        if x != y {
            break;
        }
        equal += 8;
    }
    for i in equal..n {
        // SAFETY: by this function's contract. Volatile, lest this loop become a call to itself.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return x as i32 - y as i32;
        }
    }
    0
}

/// `bcmp`, which compiled code calls.
///
/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: by this function's contract.
    unsafe { memcmp(a, b, n) }
}

/// `strlen`, which compiled code calls.
///
/// # Safety
///
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(s: *const u8) -> usize {
    let mut n = 0;
    // SAFETY: by this function's contract.
    while unsafe { s.add(n).read_volatile() } != 0 {
        n += 1;
    }
    n
}

/// Named by the unwind tables of the precompiled `alloc`; nothing unwinds here.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// Named by the landing pads of the precompiled `alloc`; panics end the process before any is reached.
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_Resume() -> ! {
    tallygraph_sys::die(2, b"tallygraph: internal error: unwinding\n")
}
