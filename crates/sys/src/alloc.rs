//! The agent's heap: power-of-two size classes over its own mappings.
//!
//! Chunks of one MiB are carved into blocks of one class; freed blocks go to the class's
//! list. Requests above half of that get a mapping of their own. Nothing is given back before the
//! process ends except those. The engine allocates little and frees less, so simplicity wins.

use crate::lock::Lock;
use crate::mem::{RW, map_anywhere, page_up, populate, unmap};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

const SMALLEST: usize = 16;
const LARGEST: usize = 1 << 19;
const CLASSES: usize = 16;
const CHUNK: usize = 1 << 20;
/// Bytes of a new chunk that are made present at once.
const FRESH: usize = 1 << 18;

struct Heap {
    free: [usize; CLASSES],
    bump: usize,
    end: usize,
}

/// The allocator; make one the `#[global_allocator]`.
pub struct Allocator(Lock<Heap>);

impl Allocator {
    /// An empty heap.
    pub const fn new() -> Self {
        Allocator(Lock::new(Heap { free: [0; CLASSES], bump: 0, end: 0 }))
    }

    /// See [`Lock::reset`].
    ///
    /// # Safety
    ///
    /// Called in a forked child by its only thread, with the lock taken around the fork.
    pub unsafe fn reset_lock(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.0.reset() }
    }

    /// Runs `f` while nobody allocates.
    pub fn quiesced<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        f()
    }
}

impl Default for Allocator {
    fn default() -> Self {
        Self::new()
    }
}

fn class_of(layout: Layout) -> usize {
    let size = layout.size().max(layout.align()).max(SMALLEST).next_power_of_two();
    (size.trailing_zeros() - SMALLEST.trailing_zeros()) as usize
}

// SAFETY: blocks of a class do not overlap, are aligned to their size, and stay mapped.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return map_anywhere(page_up(layout.size() as u64), RW).map_or(null_mut(), |a| a as *mut u8);
        }
        let class = class_of(layout);
        let size = SMALLEST << class;
        let mut heap = self.0.lock();
        if heap.free[class] != 0 {
            let block = heap.free[class] as *mut usize;
            // SAFETY: a free block holds the address of the next one in its first word.
            heap.free[class] = unsafe { *block };
            return block.cast();
        }
        let start = (heap.bump + size - 1) & !(size - 1);
        if heap.bump != 0 && start + size <= heap.end {
            heap.bump = start + size;
            return start as *mut u8;
        }
        match map_anywhere(CHUNK as u64, RW) {
            Ok(chunk) => {
                populate(chunk, FRESH as u64);
                // Mappings are page-aligned only: round up to the block's own alignment.
                let start = (chunk as usize + size - 1) & !(size - 1);
                heap.bump = start + size;
                heap.end = chunk as usize + CHUNK;
                start as *mut u8
            }
            Err(_) => null_mut(),
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if layout.size() > LARGEST {
            // SAFETY: such a block is a mapping of its own.
            let _ = unsafe { unmap(ptr as u64, page_up(layout.size() as u64)) };
            return;
        }
        let class = class_of(layout);
        let mut heap = self.0.lock();
        // SAFETY: the block is at least one word long and no longer in use.
        unsafe { *ptr.cast::<usize>() = heap.free[class] };
        heap.free[class] = ptr as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_distinct_and_reused() {
        let heap = Allocator::new();
        let layout = Layout::from_size_align(100, 64).unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..20_000 {
            // SAFETY: nonzero size.
            let p = unsafe { heap.alloc(layout) };
            assert_eq!(p as usize % 64, 0);
            assert!(seen.insert(p as usize));
            // SAFETY: the block is 100 bytes.
            unsafe { p.write_bytes(0xaa, 100) };
        }
        let one = *seen.iter().next().unwrap() as *mut u8;
        // SAFETY: allocated above with this layout.
        unsafe { heap.dealloc(one, layout) };
        // SAFETY: nonzero size.
        assert_eq!(unsafe { heap.alloc(layout) }, one);
        let big = Layout::from_size_align(3 << 20, 16).unwrap();
        // SAFETY: nonzero size.
        let p = unsafe { heap.alloc(big) };
        assert!(!p.is_null());
        // SAFETY: allocated just above.
        unsafe { heap.dealloc(p, big) };
    }
}
