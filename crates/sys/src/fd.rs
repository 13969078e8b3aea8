//! Descriptors of our own, kept out of the guest's way.

use crate::{Errno, abi, syscall};

/// Lowest number of a private descriptor. Below the usual soft limit of 1024, above what programs
/// use in practice.
pub const PRIVATE_BASE: u64 = 960;

/// Moves `fd` into the private range, close-on-exec.
pub fn make_private(fd: i32) -> Result<i32, Errno> {
    // SAFETY: duplicates a descriptor we own; a limit below the base leaves any free number.
    let high = unsafe { syscall!(abi::__NR_fcntl, fd, abi::F_DUPFD_CLOEXEC, PRIVATE_BASE) };
    let high = match high {
        Ok(high) => high,
        // SAFETY: as above.
        Err(_) => unsafe { syscall!(abi::__NR_fcntl, fd, abi::F_DUPFD_CLOEXEC, 3) }?,
    };
    close(fd);
    Ok(high as i32)
}

/// Opens a file read-only. `path` ends in a NUL byte.
pub fn open(path: &[u8], flags: u32, mode: u32) -> Result<i32, Errno> {
    debug_assert_eq!(path.last(), Some(&0));
    // SAFETY: the path is NUL-terminated.
    unsafe { syscall!(abi::__NR_openat, abi::AT_FDCWD, path.as_ptr(), flags | abi::O_CLOEXEC, mode) }
        .map(|fd| fd as i32)
}

/// Closes a descriptor of ours.
pub fn close(fd: i32) {
    // SAFETY: the caller owns the descriptor.
    let _ = unsafe { syscall!(abi::__NR_close, fd) };
}

/// Reads at `offset` until `to` is full or the file ends; returns the count.
pub fn pread(fd: i32, to: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < to.len() {
        let rest = &mut to[done..];
        // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`.
        match unsafe { syscall!(abi::__NR_pread64, fd, rest.as_mut_ptr(), rest.len(), offset + done as u64) }
        {
            Ok(0) => break,
            Ok(n) => done += n as usize,
            Err(Errno(4)) => continue,
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all of `bytes`, giving up silently on an error.
pub fn write_all(fd: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads at most `bytes.len()` bytes.
        match unsafe { syscall!(abi::__NR_write, fd, bytes.as_ptr(), bytes.len()) } {
            Ok(n) => bytes = &bytes[n as usize..],
            Err(Errno(4)) => continue,
            Err(_) => return,
        }
    }
}

/// Target of a symbolic link, without NUL. `path` ends in a NUL byte.
pub fn readlink<'b>(path: &[u8], buf: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    // SAFETY: path is NUL-terminated, the kernel writes at most `buf.len()` bytes.
    let n = unsafe { syscall!(abi::__NR_readlink, path.as_ptr(), buf.as_mut_ptr(), buf.len()) }?;
    Ok(&buf[..n as usize])
}

/// Size of an open file.
pub fn size(fd: i32) -> Result<u64, Errno> {
    // SAFETY: stat is plain data, zero is a valid value.
    let mut st: abi::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills the struct.
    unsafe { syscall!(abi::__NR_fstat, fd, &raw mut st) }?;
    Ok(st.st_size as u64)
}

/// One `pread`; returns the count, 0 at the end of the file.
pub fn pread_once(fd: i32, to: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `to.len()` bytes into `to`.
    unsafe { syscall!(abi::__NR_pread64, fd, to.as_mut_ptr(), to.len(), offset) }.map(|n| n as usize)
}

/// Writes all of `bytes` at `offset`, giving up silently on an error.
pub fn pwrite_all(fd: i32, mut bytes: &[u8], mut offset: u64) {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads at most `bytes.len()` bytes.
        match unsafe { syscall!(abi::__NR_pwrite64, fd, bytes.as_ptr(), bytes.len(), offset) } {
            Ok(n) => {
                bytes = &bytes[n as usize..];
                offset += n;
            }
            Err(Errno(4)) => continue,
            Err(_) => return,
        }
    }
}
