//! The LL cache with a dirty bit per line, for `--simulate-wb=yes`.
//!
//! L1 writes through, so every write reaches this cache and marks its line; a miss that pushes
//! out a marked line costs a write to memory as well. Rows are those of [`crate::cache`], with bit 0
//! of a word as the dirty bit.
//!
//! With [`Fidelity::Callgrind`] the words are formed as Valgrind 3.19 forms them: the address
//! without its line and set bits, cut to 32 bits. Two lines of one set that lie a multiple of
//! 4 GiB apart are then the same line, and all those whose remaining bits are zero are present
//! from the start. A prefetch writes a word of a third form, the line's number, dirty bit and all.

use alloc::boxed::Box;
use alloc::vec;

use crate::{Fidelity, Geometry, RowLayout};

const DIRTY: u64 = 1;

/// What became of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Every line touched was present.
    Hit,
    /// A line was missing.
    Miss,
    /// A line was missing, and a dirty one gave way.
    MissDirty,
}

/// A write-back cache whose rows lie in `S`.
#[derive(Clone, Debug)]
pub struct WriteBackCache<S = Box<[u64]>> {
    layout: RowLayout,
    geometry: Geometry,
    fidelity: Fidelity,
    rows: S,
}

impl WriteBackCache {
    /// An empty cache with rows of its own.
    pub fn new(geometry: Geometry, fidelity: Fidelity) -> Self {
        Self::with_storage(geometry, fidelity, vec![0; RowLayout::of(geometry).words()].into_boxed_slice())
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> WriteBackCache<S> {
    /// A cache with its rows in `rows`, which are zero (empty) or those of an equal cache.
    ///
    /// # Panics
    ///
    /// When `rows` has not at least [`RowLayout::words`] words.
    pub fn with_storage(geometry: Geometry, fidelity: Fidelity, rows: S) -> Self {
        let layout = RowLayout::of(geometry);
        assert!(rows.as_ref().len() >= layout.words(), "storage for {} words expected", layout.words());
        Self { layout, geometry, fidelity, rows }
    }

    /// The cache's shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// References `size` bytes at `address`, for writing or not.
    ///
    /// Of two lines touched, the worse outcome counts. `size` is from 1 to the line size.
    #[inline]
    pub fn reference(&mut self, address: u64, size: u32, write: bool) -> Outcome {
        let last = address.wrapping_add(u64::from(size) - 1);
        let first = self.touch(address, write);
        let one_line = match self.fidelity {
            Fidelity::Exact => self.layout.line_of(address) == self.layout.line_of(last),
            Fidelity::Callgrind => self.layout.row_of(address) == self.layout.row_of(last),
        };
        if one_line { first } else { first.max(self.touch(last, write)) }
    }

    /// Brings in the line of `address` without counting anything, as a prefetcher does.
    #[inline]
    pub fn prefetch(&mut self, address: u64) {
        match self.fidelity {
            Fidelity::Exact => {
                self.touch(address, false);
            }
            Fidelity::Callgrind => {
                let word = address >> self.layout.line_shift;
                front(self.row(address), word, |way| way == word, 0);
            }
        }
    }

    fn touch(&mut self, address: u64, write: bool) -> Outcome {
        let tag = match self.fidelity {
            Fidelity::Exact => self.layout.line_of(address),
            Fidelity::Callgrind => {
                let set_bytes = u64::from(self.geometry.sets()) << self.layout.line_shift;
                address & !(set_bytes - 1) & 0xffff_ffff
            }
        };
        let dirty = if write { DIRTY } else { 0 };
        match front(self.row(address), tag | dirty, |way| way & !DIRTY == tag, dirty) {
            None => Outcome::Hit,
            Some(victim) if victim & DIRTY != 0 => Outcome::MissDirty,
            Some(_) => Outcome::Miss,
        }
    }

    fn row(&mut self, address: u64) -> &mut [u64] {
        let start = self.layout.row_of(address);
        &mut self.rows.as_mut()[start..start + self.layout.ways()]
    }

    /// Empties the cache; what was dirty is lost.
    pub fn clear(&mut self) {
        self.rows.as_mut()[..self.layout.words()].fill(0);
    }
}

/// Moves the way that `is_it` to the front, with the bits `mark` added, or puts `word` there; in
/// that case it returns the way that had to leave.
#[inline]
fn front(row: &mut [u64], word: u64, is_it: impl Fn(u64) -> bool, mark: u64) -> Option<u64> {
    let mut carried = word;
    for index in 0..row.len() {
        let here = core::mem::replace(&mut row[index], carried);
        if is_it(here) {
            row[0] = here | mark;
            return None;
        }
        carried = here;
    }
    Some(carried)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_ways(fidelity: Fidelity) -> WriteBackCache {
        WriteBackCache::new(Geometry::new(256, 2, 64).unwrap(), fidelity)
    }

    #[test]
    fn a_dirty_line_that_gives_way_is_reported_once() {
        let mut cache = two_ways(Fidelity::Exact);
        assert_eq!(cache.reference(0x1000, 8, false), Outcome::Miss);
        assert_eq!(cache.reference(0x1000, 8, true), Outcome::Hit);
        assert_eq!(cache.reference(0x1000, 8, false), Outcome::Hit, "reading does not clean");
        assert_eq!(cache.reference(0x1080, 8, false), Outcome::Miss);
        assert_eq!(cache.reference(0x1100, 8, false), Outcome::MissDirty);
        assert_eq!(cache.reference(0x1000, 8, false), Outcome::Miss);
    }

    #[test]
    fn the_worse_of_two_lines_counts() {
        let mut cache = two_ways(Fidelity::Exact);
        cache.reference(0x1040, 8, true);
        cache.reference(0x10c0, 8, true);
        assert_eq!(cache.reference(0x117c, 8, false), Outcome::MissDirty);
    }

    #[test]
    fn valgrind_takes_lines_4_gib_apart_for_one() {
        // Valgrind 3.19, --simulate-wb=yes: a program that reads 256 lines from 0x2_0000_0000 and
        // 256 from 0x3_0000_0000 has no LL data miss at all.
        let ll = Geometry::new(8388608, 16, 64).unwrap();
        let misses = |fidelity| {
            let mut cache = WriteBackCache::new(ll, fidelity);
            let lines = (0..256).map(|line| 0x2_0000_0000 + line * 64);
            let lines = lines.chain((0..256).map(|line| 0x3_0000_0000 + line * 64));
            lines.filter(|line| cache.reference(*line, 8, false) != Outcome::Hit).count()
        };
        assert_eq!((misses(Fidelity::Exact), misses(Fidelity::Callgrind)), (512, 0));
    }
}
