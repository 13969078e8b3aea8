//! The memory that holds generated code.
//!
//! Fragments and thunks grow upwards from the start, exit stubs downwards from the end: stubs are
//! executed rarely once exits are linked and would only dilute the instruction cache.

use crate::layout::{CACHE_SIZE, CACHE_START};
use tallygraph_sys::Errno;
use tallygraph_sys::mem::{self, RWX};

/// Bytes of an exit stub.
pub const STUB_SIZE: u64 = 24;
/// Room that must be left between the two ends for one translation.
const RESERVE: u64 = 96 * 1024;

/// Bytes that are made present at a time.
const AHEAD: u64 = 128 * 1024;

/// The code cache.
pub struct CodeCache {
    low: u64,
    high: u64,
    end: u64,
    /// Pages are present below this address and from the other one on.
    present_low: u64,
    present_high: u64,
}

impl CodeCache {
    /// Maps the cache, `size` bytes or the normal size when zero.
    pub fn new(size: u64) -> Result<Self, Errno> {
        let size = if size == 0 { CACHE_SIZE } else { mem::page_up(size.clamp(4 * RESERVE, CACHE_SIZE)) };
        mem::map_at(CACHE_START, size, RWX)?;
        let end = CACHE_START + size;
        Ok(CodeCache { low: CACHE_START, high: end, end, present_low: CACHE_START, present_high: end })
    }

    /// True when it is time to start again. What is left is for threads that cannot wait until the others
    /// are stopped.
    pub fn is_full(&self) -> bool {
        let kept = ((self.end - CACHE_START) / 8).min(1 << 20);
        self.low + RESERVE + kept > self.high
    }

    /// Forgets all code.
    pub fn reset(&mut self) {
        self.low = CACHE_START;
        self.high = self.end;
    }

    /// True when `pc` lies in the cache.
    pub fn contains(&self, pc: u64) -> bool {
        (CACHE_START..self.end).contains(&pc)
    }

    /// The free memory at the low end and its address.
    pub fn free(&mut self) -> (&'static mut [u8], u64) {
        let start = self.low;
        if start + AHEAD / 2 > self.present_low && self.present_low + AHEAD < self.present_high {
            mem::populate(self.present_low, AHEAD);
            self.present_low += AHEAD;
        }
        let len = (self.high - self.low).min(RESERVE) as usize;
        // SAFETY: the range lies between the two ends: mapped, written by nobody else (the engine
        // is locked), executed by nobody before it is linked.
        (unsafe { core::slice::from_raw_parts_mut(start as *mut u8, len) }, start)
    }

    /// Keeps the first `len` bytes of the free memory.
    pub fn commit(&mut self, len: usize) {
        self.low = (self.low + len as u64 + 15) & !15;
        assert!(self.low <= self.high);
    }

    /// Keeps the first `len` bytes of the free memory; what comes next follows without a gap.
    pub fn commit_exact(&mut self, len: usize) {
        self.low += len as u64;
        assert!(self.low <= self.high);
    }

    /// Memory for a stub at the high end and its address.
    pub fn stub(&mut self) -> (&'static mut [u8], u64) {
        assert!(self.high - STUB_SIZE > self.low);
        if self.high - STUB_SIZE < self.present_high && self.present_high - AHEAD > self.present_low {
            self.present_high -= AHEAD;
            mem::populate(self.present_high, AHEAD);
        }
        self.high -= STUB_SIZE;
        // SAFETY: as for `free`.
        (unsafe { core::slice::from_raw_parts_mut(self.high as *mut u8, STUB_SIZE as usize) }, self.high)
    }

    /// Bytes of fragments and thunks, and of exit stubs.
    pub fn used(&self) -> (u64, u64) {
        (self.low - CACHE_START, self.end - self.high)
    }
}
