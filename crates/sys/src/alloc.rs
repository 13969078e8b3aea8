//! The agent's heap: power-of-two size classes over its own mappings.
//!
//! Chunks of one MiB are carved into blocks of one class; freed blocks go to the class's
//! list. Requests above half of that get a mapping of their own, with room to grow where they are. Nothing is
//! given back before the process ends except those. The engine allocates little and frees less, so simplicity
//! wins. What is about to be used is made present in large pieces: a fault for each page costs several times
//! as much.

use crate::lock::Lock;
use crate::mem::{RW, grow, map_anywhere, map_with_room, page_up, populate, unmap};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

const SMALLEST: usize = 16;
const LARGEST: usize = 1 << 19;
const CLASSES: usize = 16;
const CHUNK: usize = 1 << 20;
/// Bytes of a chunk that are made present at once.
const AHEAD: usize = 1 << 18;
/// Most bytes of a mapping of its own that are made present when it is made or grown.
const PRESENT: u64 = 1 << 21;
/// Mappings of this size are room for what may come.
const RESERVE: u64 = 1 << 24;
/// How many times its size a mapping of its own may grow without moving.
const ROOM: u64 = 8;

struct Heap {
    free: [usize; CLASSES],
    bump: usize,
    /// End of what is present of the chunk.
    present: usize,
    end: usize,
}

impl Heap {
    /// Takes the next `size` bytes of the chunk, which has them.
    fn take(&mut self, start: usize, size: usize) -> *mut u8 {
        self.bump = start + size;
        if self.bump > self.present {
            let upto = (self.bump + AHEAD - 1) & !(AHEAD - 1);
            let upto = upto.min(self.end);
            populate(self.present as u64, (upto - self.present) as u64);
            self.present = upto;
        }
        start as *mut u8
    }
}

/// The allocator; make one the `#[global_allocator]`.
pub struct Allocator(Lock<Heap>);

impl Allocator {
    /// An empty heap.
    pub const fn new() -> Self {
        Allocator(Lock::new(Heap { free: [0; CLASSES], bump: 0, present: 0, end: 0 }))
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
            let len = page_up(layout.size() as u64);
            let room = if len < RESERVE { len * ROOM } else { len };
            let Ok(at) = map_with_room(len, room) else { return null_mut() };
            if len < RESERVE {
                populate(at, len.min(PRESENT));
            }
            return at as *mut u8;
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
            return heap.take(start, size);
        }
        match map_anywhere(CHUNK as u64, RW) {
            Ok(chunk) => {
                // Mappings are page-aligned only: round up to the block's own alignment.
                let start = (chunk as usize + size - 1) & !(size - 1);
                heap.present = chunk as usize;
                heap.end = chunk as usize + CHUNK;
                heap.take(start, size)
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

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        let block = unsafe { self.alloc(layout) };
        // Fresh mappings are zero.
        if !block.is_null() && layout.size() <= LARGEST {
            // SAFETY: the block has that size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.size() > LARGEST && new_size > LARGEST {
            let (old, new) = (page_up(layout.size() as u64), page_up(new_size as u64));
            if new <= old {
                if new < old {
                    // SAFETY: the end of a mapping of its own, which the caller gives up.
                    let _ = unsafe { unmap(ptr as u64 + new, old - new) };
                }
                return ptr;
            }
            if grow(ptr as u64, old, new) {
                populate(ptr as u64 + old, (new - old).min(PRESENT));
                return ptr;
            }
        }
        if layout.size() <= LARGEST && new_size <= SMALLEST << class_of(layout) {
            return ptr;
        }
        // SAFETY: by this function's contract the size is not zero and fits the alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both blocks have as many bytes; the old one is given up.
            unsafe {
                new.copy_from_nonoverlapping(ptr, layout.size().min(new_size));
                self.dealloc(ptr, layout);
            }
        }
        new
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

    #[test]
    fn blocks_keep_their_contents_when_they_grow_and_shrink() {
        let heap = Allocator::new();
        let align = 16;
        let (mut size, mut layout) = (24, Layout::from_size_align(24, align).unwrap());
        // SAFETY: nonzero size.
        let mut p = unsafe { heap.alloc(layout) };
        let mark = |size: usize| (size.trailing_zeros() as u8) ^ 0x5a;
        // SAFETY: inside the block.
        unsafe { p.write(0x77) };
        while size < 40 << 20 {
            let new = size * 2;
            // SAFETY: the block has this layout; both ends are inside it.
            unsafe {
                p.add(size - 1).write(mark(size));
                p = heap.realloc(p, layout, new);
                assert_eq!((p.read(), p.add(size - 1).read()), (0x77, mark(size)));
                p.add(new - 1).write(0);
            }
            (size, layout) = (new, Layout::from_size_align(new, align).unwrap());
        }
        for small in [3 << 20, 600_000, 5000, 17] {
            // SAFETY: as above.
            unsafe {
                p = heap.realloc(p, layout, small);
                assert_eq!(p.read(), 0x77);
                p.add(small - 1).write(1);
            }
            layout = Layout::from_size_align(small, align).unwrap();
        }
        // SAFETY: allocated with this layout.
        unsafe { heap.dealloc(p, layout) };
    }

    #[test]
    fn zeroed_blocks_are_zero_also_when_used_before() {
        let heap = Allocator::new();
        for size in [48, 5000, 1 << 20] {
            let layout = Layout::from_size_align(size, 16).unwrap();
            // SAFETY: nonzero size; the block is written inside its bounds.
            unsafe {
                let p = heap.alloc(layout);
                p.write_bytes(0xff, size);
                heap.dealloc(p, layout);
                let p = heap.alloc_zeroed(layout);
                assert!((0..size).all(|i| p.add(i).read() == 0));
            }
        }
    }
}
