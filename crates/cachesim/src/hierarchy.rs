//! I1, D1 and LL together: which level serves a reference.
//!
//! LL is referenced when the first level misses, with the same address and size, so an access
//! over two lines touches both of them in LL even if one was found in L1. Nothing is ever
//! removed from L1 because LL dropped it.
//!
//! [`FirstLevel`] is what a thread may have for itself, [`LastLevel`] what threads may share;
//! [`Hierarchy`] is one of each.

use alloc::boxed::Box;

use crate::{Cache, Fidelity, Geometry, Kind, LastLevel, Level};

/// Variants of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--simulate-wb`: L1 writes through, LL writes back.
    pub write_back: bool,
    /// `--simulate-hwpref`: LL has a prefetcher.
    pub prefetch: bool,
    /// What to do where Valgrind's simulator departs from its model.
    pub fidelity: Fidelity,
}

/// An instruction and a data cache; rows lie in `S`.
#[derive(Clone, Debug)]
pub struct FirstLevel<S = Box<[u64]>> {
    /// The instruction cache, I1.
    pub instructions: Cache<S>,
    /// The data cache, D1.
    pub data: Cache<S>,
}

impl FirstLevel {
    /// Empty caches with rows of their own.
    pub fn new(i1: Geometry, d1: Geometry) -> Self {
        Self { instructions: Cache::new(i1), data: Cache::new(d1) }
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> FirstLevel<S> {
    /// References the cache for `kind`; true when every line touched was present.
    #[inline]
    pub fn reference(&mut self, kind: Kind, address: u64, size: u32) -> bool {
        match kind {
            Kind::Fetch => self.instructions.reference(address, size),
            Kind::Read | Kind::Write => self.data.reference(address, size),
        }
    }

    /// Empties both caches.
    pub fn clear(&mut self) {
        self.instructions.clear();
        self.data.clear();
    }
}

/// A first and a last level.
#[derive(Clone, Debug)]
pub struct Hierarchy<S = Box<[u64]>> {
    /// I1 and D1.
    pub first: FirstLevel<S>,
    /// LL.
    pub last: LastLevel<S>,
    min_line: u32,
}

impl Hierarchy {
    /// Empty caches with rows of their own.
    pub fn new(i1: Geometry, d1: Geometry, ll: Geometry, options: Options) -> Self {
        Self::from_levels(FirstLevel::new(i1, d1), LastLevel::new(ll, options))
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Hierarchy<S> {
    /// Joins two levels.
    pub fn from_levels(first: FirstLevel<S>, last: LastLevel<S>) -> Self {
        let lines =
            [first.instructions.geometry().line(), first.data.geometry().line(), last.geometry().line()];
        let min_line = lines.into_iter().min().unwrap_or(Geometry::MIN_LINE);
        Self { first, last, min_line }
    }

    /// The smallest line size of the three caches, in bytes. Larger accesses are cut to it, so
    /// that none touches three lines; that is Callgrind's rule too.
    pub fn min_line(&self) -> u32 {
        self.min_line
    }

    /// References `size` bytes at `address`, at least one.
    #[inline]
    pub fn reference(&mut self, kind: Kind, address: u64, size: u32) -> Level {
        let size = size.min(self.min_line);
        if !self.first.reference(kind, address, size) {
            return self.last.reference(kind, address, size);
        }
        if kind == Kind::Write && self.last.wants_all_writes() {
            // Marks the line; costs nothing, as L1 had it.
            self.last.reference(kind, address, size);
        }
        Level::L1
    }

    /// Empties all caches, as Callgrind does when instrumentation is switched on.
    pub fn clear(&mut self) {
        self.first.clear();
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(options: Options) -> Hierarchy {
        let l1 = Geometry::new(256, 2, 64).unwrap();
        Hierarchy::new(l1, l1, Geometry::new(1024, 4, 64).unwrap(), options)
    }

    #[test]
    fn instructions_and_data_meet_in_the_last_level() {
        let mut caches = small(Options::default());
        assert_eq!(caches.reference(Kind::Fetch, 0x1000, 5), Level::Memory);
        assert_eq!(caches.reference(Kind::Read, 0x1000, 8), Level::LastLevel);
        assert_eq!(caches.reference(Kind::Write, 0x1008, 8), Level::L1);
    }

    #[test]
    fn the_last_level_sees_both_lines_of_an_access_that_missed_one() {
        let mut caches = small(Options::default());
        caches.reference(Kind::Read, 0x1000, 8);
        // LL drops line 0x1000, D1 keeps it.
        for line in 1..=4 {
            caches.reference(Kind::Fetch, 0x1000 + line * 256, 4);
        }
        assert_eq!(caches.reference(Kind::Read, 0x1000, 8), Level::L1, "no back-invalidation");
        caches.reference(Kind::Fetch, 0x1040, 4);
        assert_eq!(caches.reference(Kind::Read, 0x103c, 8), Level::Memory, "0x1000 is missing in LL");
    }

    #[test]
    fn with_write_back_a_hit_in_d1_still_marks_the_line() {
        let mut caches = small(Options { write_back: true, ..Options::default() });
        caches.reference(Kind::Read, 0x1000, 8);
        assert_eq!(caches.reference(Kind::Write, 0x1000, 8), Level::L1);
        let levels: Vec<_> =
            (1..=4).map(|line| caches.reference(Kind::Fetch, 0x1000 + line * 256, 4)).collect();
        assert_eq!(levels[2..], [Level::Memory, Level::MemoryWriteBack]);
    }

    #[test]
    fn long_accesses_are_cut_to_the_smallest_line() {
        let l1 = Geometry::new(1024, 2, 64).unwrap();
        let mut caches = Hierarchy::new(l1, l1, Geometry::new(1024, 2, 32).unwrap(), Options::default());
        assert_eq!(caches.min_line(), 32);
        caches.reference(Kind::Write, 0x1000, 512);
        assert_eq!(caches.reference(Kind::Read, 0x1020, 1), Level::L1);
        assert_eq!(caches.reference(Kind::Read, 0x1040, 1), Level::Memory);
    }
}
