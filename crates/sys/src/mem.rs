//! Mappings.

use crate::{Errno, abi, syscall};

/// Page size; x86-64 Linux has only one base page size.
pub const PAGE: u64 = 4096;

/// Rounds up to a page boundary.
pub const fn page_up(n: u64) -> u64 {
    (n + PAGE - 1) & !(PAGE - 1)
}

/// Rounds down to a page boundary.
pub const fn page_down(n: u64) -> u64 {
    n & !(PAGE - 1)
}

/// Read and write.
pub const RW: u32 = abi::PROT_READ | abi::PROT_WRITE;
/// Read, write and execute.
pub const RWX: u32 = RW | abi::PROT_EXEC;

/// `mmap` as it is.
///
/// # Safety
///
/// As for the system call: a fixed mapping replaces what was there.
pub unsafe fn map(addr: u64, len: u64, prot: u32, flags: u32, fd: i32, offset: u64) -> Result<u64, Errno> {
    // SAFETY: passed on to the caller.
    unsafe { syscall!(abi::__NR_mmap, addr, len, prot, flags, fd as i64, offset) }
}

/// Range of our own mappings: apart from where the kernel puts the guest's, so that the guest's
/// addresses do not depend on what the engine does.
const OWN_START: u64 = 0x6000_0000_0000;
const OWN_END: u64 = 0x7000_0000_0000;

static NEXT_OWN: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(OWN_START);

/// A free place for `len` bytes of our own.
pub fn own_place(len: u64) -> u64 {
    use core::sync::atomic::Ordering::Relaxed;
    let len = page_up(len) + PAGE;
    loop {
        let at = NEXT_OWN.fetch_add(len, Relaxed);
        if at + len <= OWN_END {
            return at;
        }
        // Used up: what was freed at the start can be used again; what was not is refused.
        NEXT_OWN.store(OWN_START, Relaxed);
    }
}

/// True for addresses in the range of our own mappings.
pub fn is_own(address: u64) -> bool {
    (OWN_START..OWN_END).contains(&address)
}

/// A fresh anonymous private mapping in our own range, without swap reservation.
pub fn map_anywhere(len: u64, prot: u32) -> Result<u64, Errno> {
    map_in_place_of(len, len, prot)
}

/// A fresh anonymous mapping as [`map_anywhere`] makes it, with addresses behind it, up to `room` bytes in all,
/// where [`grow`] finds room for it.
pub fn map_with_room(len: u64, room: u64) -> Result<u64, Errno> {
    map_in_place_of(len, room, RW)
}

/// Grows a mapping where it is; false when something lies behind it.
pub fn grow(addr: u64, old_len: u64, new_len: u64) -> bool {
    // SAFETY: without permission to move it, the mapping stays or grows.
    unsafe { syscall!(abi::__NR_mremap, addr, old_len, new_len, 0) }.is_ok()
}

fn map_in_place_of(len: u64, room: u64, prot: u32) -> Result<u64, Errno> {
    for _ in 0..1 << 16 {
        match map_at(own_place(room), len, prot) {
            Err(Errno(abi_errno::EEXIST)) => continue,
            other => return other,
        }
    }
    Err(Errno(12))
}

/// A fresh anonymous private mapping at `addr`, or an error when anything is there.
pub fn map_at(addr: u64, len: u64, prot: u32) -> Result<u64, Errno> {
    let flags = abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_NORESERVE | abi::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE never replaces a mapping.
    let got = unsafe { map(addr, len, prot, flags, -1, 0) }?;
    if got != addr {
        // SAFETY: the range was just given to us (a kernel that does not know NOREPLACE).
        let _ = unsafe { unmap(got, len) };
        return Err(Errno(abi_errno::EEXIST));
    }
    Ok(got)
}

/// Error numbers used here.
pub mod abi_errno {
    /// File exists.
    pub const EEXIST: i32 = 17;
}

/// Makes the pages of a range present in one go, where the kernel can: a fault for each page costs
/// several times as much. The range is mapped and writable.
pub fn populate(addr: u64, len: u64) {
    const MADV_POPULATE_WRITE: u64 = 23;
    // SAFETY: has no effect on the contents.
    let _ = unsafe { syscall!(abi::__NR_madvise, addr, len, MADV_POPULATE_WRITE) };
}

/// `munmap` as it is.
///
/// # Safety
///
/// Nothing may use the range afterwards.
pub unsafe fn unmap(addr: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: passed on to the caller.
    unsafe { syscall!(abi::__NR_munmap, addr, len) }.map(drop)
}

/// `mprotect` as it is.
///
/// # Safety
///
/// Code that relies on the old protection may fault.
pub unsafe fn protect(addr: u64, len: u64, prot: u32) -> Result<(), Errno> {
    // SAFETY: passed on to the caller.
    unsafe { syscall!(abi::__NR_mprotect, addr, len, prot) }.map(drop)
}

/// Copies guest memory to `to` without faulting; returns how many bytes could be read from the
/// start. Uses `process_vm_readv` on the own process, which stops at unmapped or unreadable pages.
pub fn read_guest(mut pid: i32, addr: u64, to: &mut [u8]) -> usize {
    const ESRCH: i32 = 3;
    let mut done = 0;
    let mut main_thread_ended = false;
    while done < to.len() {
        // One page at a time, so that the readable part before a hole is copied.
        let at = addr.wrapping_add(done as u64);
        let n = (to.len() - done).min((PAGE - at % PAGE) as usize);
        let local = [to[done..].as_mut_ptr() as u64, n as u64];
        let remote = [at, n as u64];
        // SAFETY: writes only into `to`; a bad remote range is an error, not a fault.
        let got = unsafe {
            syscall!(abi::__NR_process_vm_readv, pid, local.as_ptr() as u64, 1, remote.as_ptr() as u64, 1, 0)
        };
        match got {
            Ok(k) if k as usize == n => done += n,
            Ok(k) => return done + k as usize,
            // The process's number is that of its main thread, which has no memory when it has ended.
            Err(Errno(ESRCH)) if !main_thread_ended => {
                main_thread_ended = true;
                // SAFETY: has no effect.
                pid = unsafe { syscall!(abi::__NR_gettid) }.unwrap_or(0) as i32;
            }
            Err(_) => return done,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_at_a_hole() {
        let two = map_anywhere(2 * PAGE, RW).unwrap();
        // SAFETY: the second page belongs to this test alone.
        unsafe { unmap(two + PAGE, PAGE) }.unwrap();
        let mut buf = [1u8; 64];
        assert_eq!(read_guest(std::process::id() as i32, two + PAGE - 10, &mut buf), 10);
        assert_eq!(buf[..10], [0; 10]);
        assert_eq!(read_guest(std::process::id() as i32, two, &mut buf), 64);
    }

    #[test]
    fn a_mapping_with_room_grows_where_it_is() {
        let at = map_with_room(PAGE, 8 * PAGE).unwrap();
        assert!(grow(at, PAGE, 8 * PAGE));
        populate(at, 8 * PAGE);
        // SAFETY: the last byte of the grown mapping.
        unsafe { ((at + 8 * PAGE - 1) as *mut u8).write(1) };
        let (one, two) = (map_with_room(PAGE, PAGE).unwrap(), map_at(at + 8 * PAGE, PAGE, RW));
        assert!(one > at && two.is_ok());
        assert!(!grow(at, 8 * PAGE, 9 * PAGE));
    }

    #[test]
    fn a_taken_place_is_refused() {
        let at = map_anywhere(PAGE, RW).unwrap();
        assert!(map_at(at, PAGE, RW).is_err());
    }
}
