//! What replaces libc inside the guest: raw system calls, mappings, a lock, an allocator.
//!
//! Rules for everything in the guest's process, made true here by construction:
//!
//! - no libc, no thread-local storage (`fs` belongs to the guest), no unwinding;
//! - no allocation from the guest's heap, no `brk`;
//! - descriptors are moved to a high private range at once ([`fd`]).
//!
//! Errors are the kernel's: a system call returns `Err(errno)`.

#![cfg_attr(not(test), no_std)]

pub mod alloc;
pub mod fd;
pub mod lock;
pub mod mem;
pub mod raw;

pub use linux_raw_sys::general as abi;
pub use raw::{Errno, result};

/// Ends the process after one line on `fd`. For errors that leave nothing to go back to.
pub fn die(fd: i32, message: &[u8]) -> ! {
    fd::write_all(fd, message);
    // SAFETY: exit_group takes one integer and does not return.
    unsafe { raw::syscall6(abi::__NR_exit_group as u64, 1, 0, 0, 0, 0, 0) };
    loop {
        core::hint::spin_loop();
    }
}
