//! The system call instruction.

/// A kernel error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Performs a system call and returns what the kernel left in `rax`.
///
/// # Safety
///
/// The caller answers for the effect of the call on memory and on the process.
#[inline(always)]
pub unsafe fn syscall6(n: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> u64 {
    let ret;
    // SAFETY: the kernel changes rax, rcx and r11 only, all declared.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") n => ret,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    ret
}

/// Splits a raw return value into value and error.
#[inline]
pub fn result(ret: u64) -> Result<u64, Errno> {
    if ret > -4096i64 as u64 { Err(Errno(-(ret as i64) as i32)) } else { Ok(ret) }
}

/// Performs a system call with the given number and up to six arguments.
///
/// ```ignore
/// let pid = syscall!(abi::__NR_getpid)?;
/// ```
#[macro_export]
macro_rules! syscall {
    ($n:expr) => {
        $crate::syscall!($n, 0, 0, 0, 0, 0, 0)
    };
    ($n:expr, $a:expr) => {
        $crate::syscall!($n, $a, 0, 0, 0, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr) => {
        $crate::syscall!($n, $a, $b, 0, 0, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr) => {
        $crate::syscall!($n, $a, $b, $c, 0, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::syscall!($n, $a, $b, $c, $d, 0, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr) => {
        $crate::syscall!($n, $a, $b, $c, $d, $e, 0)
    };
    ($n:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::result($crate::raw::syscall6(
            $n as u64, $a as u64, $b as u64, $c as u64, $d as u64, $e as u64, $f as u64,
        ))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_values() {
        assert_eq!(result(-2i64 as u64), Err(Errno(2)));
        assert_eq!(result(-4096i64 as u64), Ok(-4096i64 as u64));
        assert_eq!(result(7), Ok(7));
    }

    #[test]
    fn the_kernel_answers() {
        // SAFETY: getpid has no effect.
        let pid = unsafe { syscall!(crate::abi::__NR_getpid) };
        assert_eq!(pid, Ok(std::process::id() as u64));
    }
}
