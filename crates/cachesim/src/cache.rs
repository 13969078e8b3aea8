//! One set-associative cache with least recently used replacement.
//!
//! Each set is a *row* of words, most recently used way first. A word is the address of the
//! line's first byte; zero stands for an empty way. A reference moves its line to the front; a
//! line that was not there pushes out the last one. There are no timestamps: the order is the
//! state, so two caches are equal when their rows are.
//!
//! Invariants, true whenever no method here is running:
//!
//! - R1: every word is zero or the address of a line that belongs to the row's set.
//! - R2: no line stands twice in a row, and in a row zeros come last.
//! - R3: what follows the ways up to the row's stride is never read or written.
//!
//! An empty way cannot be told from line zero, so line zero is always present, as it is in
//! Callgrind. In return, fresh zero pages are an empty cache. No x86-64 Linux program reads there.

use alloc::boxed::Box;
use alloc::vec;

use crate::{Geometry, RowLayout};

/// A cache whose rows lie in `S`: a box, or a slice that generated code can see too.
#[derive(Clone, Debug)]
pub struct Cache<S = Box<[u64]>> {
    layout: RowLayout,
    geometry: Geometry,
    rows: S,
}

impl Cache {
    /// An empty cache with rows of its own.
    pub fn new(geometry: Geometry) -> Self {
        Self::with_storage(geometry, vec![0; RowLayout::of(geometry).words()].into_boxed_slice())
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Cache<S> {
    /// A cache with its rows in `rows`, which are zero (empty) or those of an equal cache.
    ///
    /// Rows should start at a multiple of 64 bytes, so that one with eight ways is one line of
    /// the host's.
    ///
    /// # Panics
    ///
    /// When `rows` has not at least [`RowLayout::words`] words.
    pub fn with_storage(geometry: Geometry, rows: S) -> Self {
        let layout = RowLayout::of(geometry);
        assert!(rows.as_ref().len() >= layout.words(), "storage for {} words expected", layout.words());
        Self { layout, geometry, rows }
    }

    /// The cache's shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Where the rows' words are, for code that looks at them without this type.
    pub fn layout(&self) -> RowLayout {
        self.layout
    }

    /// The rows.
    pub fn rows(&self) -> &[u64] {
        self.rows.as_ref()
    }

    /// References `size` bytes at `address`; true when every line touched was present.
    ///
    /// An access over a line's end touches both lines, first the lower one. `size` is at least 1
    /// and at most the line size.
    #[inline]
    pub fn reference(&mut self, address: u64, size: u32) -> bool {
        self.layout.is_no_op(self.rows.as_ref(), address, size) || self.reference_slowly(address, size)
    }

    #[inline(never)]
    fn reference_slowly(&mut self, address: u64, size: u32) -> bool {
        let first = self.layout.line_of(address);
        let last = self.layout.line_of(address.wrapping_add(u64::from(size) - 1));
        let hit = self.touch(first);
        if first == last { hit } else { self.touch(last) & hit }
    }

    /// References the line that starts at `line`; true when it was present.
    #[inline]
    fn touch(&mut self, line: u64) -> bool {
        let start = self.layout.row_of(line);
        let row = &mut self.rows.as_mut()[start..start + self.layout.ways()];
        // A known length unrolls the loop: a miss in both levels takes 16 ns instead of 23.
        if let Ok(row) = <&mut [u64; 8]>::try_from(&mut *row) {
            move_to_front(row, line)
        } else if let Ok(row) = <&mut [u64; 16]>::try_from(&mut *row) {
            move_to_front(row, line)
        } else {
            move_to_front(row, line)
        }
    }

    /// Empties the cache.
    pub fn clear(&mut self) {
        self.rows.as_mut()[..self.layout.words()].fill(0);
    }
}

/// Moves `line` to the front of `row`; true when it was in the row.
///
/// One pass: each way is replaced by its predecessor until the line's old place is reached. That
/// keeps R2, and on a miss it drops the last way. The same with masks instead of the early exit
/// takes 8 ns instead of 12 where the way is random, but 4 to 13 % more on real streams
/// (`examples/speed.rs`, gzip and a program with random accesses).
#[inline(always)]
fn move_to_front(row: &mut [u64], line: u64) -> bool {
    let mut carried = line;
    for way in row {
        let here = core::mem::replace(way, carried);
        if here == line {
            return true;
        }
        carried = here;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_ways() -> Cache {
        Cache::new(Geometry::new(256, 2, 64).unwrap())
    }

    #[test]
    fn the_least_recently_used_way_is_replaced() {
        let mut cache = two_ways();
        // One set: lines 0x80 apart. Order of use decides, not order of arrival.
        let stream = [(0x1000, false), (0x1080, false), (0x1000, true), (0x1100, false), (0x1080, false)];
        for (address, hit) in stream {
            assert_eq!(cache.reference(address, 4), hit, "{address:x}");
        }
        assert!(!cache.reference(0x1000, 4));
    }

    #[test]
    fn an_access_over_two_lines_touches_both() {
        let mut cache = two_ways();
        assert!(!cache.reference(0x103c, 8));
        assert!(cache.reference(0x1000, 1));
        assert!(cache.reference(0x107f, 1));
        assert!(cache.reference(0x103c, 8));
        // One of the two is enough for a miss.
        cache.clear();
        assert!(!cache.reference(0x1040, 1));
        assert!(!cache.reference(0x103c, 8));
    }

    #[test]
    fn a_line_ends_where_the_next_begins() {
        let mut cache = two_ways();
        cache.reference(0x1000, 64);
        assert!(!cache.reference(0x1040, 1));
        assert!(cache.reference(0x103f, 1));
        assert!(!cache.reference(0x0fff, 1));
    }

    #[test]
    fn rows_may_lie_in_borrowed_storage() {
        let geometry = Geometry::new(1536, 3, 64).unwrap();
        let mut words = vec![0; RowLayout::of(geometry).words()];
        Cache::with_storage(geometry, &mut words[..]).reference(0x1040, 4);
        assert_eq!(words.iter().position(|w| *w == 0x1040), Some(4));
        assert!(Cache::with_storage(geometry, &mut words[..]).reference(0x1040, 4));
    }
}
