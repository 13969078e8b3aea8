//! The unified last-level cache behind I1 and D1, plain or write-back, with or without prefetcher.
//!
//! It sees what the first level passes on, with the same address and size: misses, and with
//! write-back every write. Several first levels may share one last level; whoever shares it locks.

use alloc::boxed::Box;

use crate::cache::Cache;
use crate::prefetch::Prefetcher;
use crate::write_back::{Outcome, WriteBackCache};
use crate::{Geometry, Kind, Level, Options};

/// The LL cache; rows lie in `S`.
#[derive(Clone, Debug)]
pub struct LastLevel<S = Box<[u64]>> {
    variant: Variant<S>,
    prefetcher: Option<Prefetcher>,
}

#[derive(Clone, Debug)]
enum Variant<S> {
    Plain(Cache<S>),
    WriteBack(WriteBackCache<S>),
}

impl LastLevel {
    /// An empty cache with rows of its own.
    pub fn new(geometry: Geometry, options: Options) -> Self {
        let variant = if options.write_back {
            Variant::WriteBack(WriteBackCache::new(geometry, options.fidelity))
        } else {
            Variant::Plain(Cache::new(geometry))
        };
        Self { variant, prefetcher: prefetcher(geometry, options) }
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> LastLevel<S> {
    /// A cache with its rows in `rows`: see [`Cache::with_storage`].
    pub fn with_storage(geometry: Geometry, options: Options, rows: S) -> Self {
        let variant = if options.write_back {
            Variant::WriteBack(WriteBackCache::with_storage(geometry, options.fidelity, rows))
        } else {
            Variant::Plain(Cache::with_storage(geometry, rows))
        };
        Self { variant, prefetcher: prefetcher(geometry, options) }
    }

    /// The cache's shape.
    pub fn geometry(&self) -> Geometry {
        match &self.variant {
            Variant::Plain(cache) => cache.geometry(),
            Variant::WriteBack(cache) => cache.geometry(),
        }
    }

    /// True when every write has to be passed on, not only those that miss in D1.
    pub fn wants_all_writes(&self) -> bool {
        matches!(self.variant, Variant::WriteBack(_))
    }

    /// The prefetcher, for its counters.
    pub fn prefetcher(&self) -> Option<&Prefetcher> {
        self.prefetcher.as_ref()
    }

    /// References `size` bytes at `address`; never [`Level::L1`].
    #[inline]
    pub fn reference(&mut self, kind: Kind, address: u64, size: u32) -> Level {
        if let Some(prefetcher) = &mut self.prefetcher
            && let Some(ahead) = prefetcher.observe(address)
        {
            match &mut self.variant {
                Variant::Plain(cache) => _ = cache.reference(ahead, 1),
                Variant::WriteBack(cache) => cache.prefetch(ahead),
            }
        }
        match &mut self.variant {
            Variant::Plain(cache) => match cache.reference(address, size) {
                true => Level::LastLevel,
                false => Level::Memory,
            },
            Variant::WriteBack(cache) => match cache.reference(address, size, kind == Kind::Write) {
                Outcome::Hit => Level::LastLevel,
                Outcome::Miss => Level::Memory,
                Outcome::MissDirty => Level::MemoryWriteBack,
            },
        }
    }

    /// Empties the cache and forgets the prefetcher's streams.
    pub fn clear(&mut self) {
        match &mut self.variant {
            Variant::Plain(cache) => cache.clear(),
            Variant::WriteBack(cache) => cache.clear(),
        }
        if let Some(prefetcher) = &mut self.prefetcher {
            prefetcher.clear();
        }
    }
}

fn prefetcher(geometry: Geometry, options: Options) -> Option<Prefetcher> {
    options.prefetch.then(|| Prefetcher::new(geometry.line_shift()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_hits_once_the_prefetcher_runs_ahead() {
        let geometry = Geometry::new(65536, 8, 64).unwrap();
        let mut ll = LastLevel::new(geometry, Options { prefetch: true, ..Options::default() });
        let levels: Vec<_> = (0..12).map(|i| ll.reference(Kind::Read, 0x8000 + i * 64, 8)).collect();
        // Lines 2.. ask for line +5, so line 7 is the first to be there.
        assert_eq!(levels.iter().position(|l| *l == Level::LastLevel), Some(7));
        assert!(levels[7..].iter().all(|level| *level == Level::LastLevel));
        assert_eq!(ll.prefetcher().unwrap().up, 10);
    }
}
