//! Simulated caches, levels, prefetcher and branch predictors; the crate knows no program.
//!
//! It is told of references (an address, a size, fetch or read or write) and of branches, and
//! answers which level served them and whether a predictor was right. Who executed them, and
//! where the costs belong, is the caller's business.
//!
//! The models are those of Cachegrind and Callgrind, so that counts stay comparable: two levels
//! (I1 and D1, then a unified LL), least recently used replacement, allocation on writes, and an
//! access that crosses a line counted as one reference and at most one miss.
//!
//! - [`geometry`]: size, associativity and line size of one cache; the option syntax;
//! - [`cache`]: one set-associative cache;
//! - [`filter`]: the layout generated code may look at to skip references that change nothing;
//! - [`last_level`], [`write_back`], [`prefetch`]: the LL cache and its variants;
//! - [`hierarchy`]: I1, D1 and LL together;
//! - [`event`]: Callgrind's event names and which of them a reference raises;
//! - [`batch`], [`script`]: references that arrive in buffers, self-describing or as block scripts;
//! - [`cache_use`]: how well loaded lines are used (`AcCost1` and its kin);
//! - [`conditional`], [`indirect`]: the branch predictors;
//! - [`cost`], [`estimate`]: latency and throughput per instruction class; cycle formulas;
//! - [`model`], [`cpuid`]: geometries of named machines and of the machine at hand.
//!
//! What a caller must guarantee: references come in program order, sizes are at least 1, and
//! storage handed in is zeroed. What this crate does not do: decode instructions, resolve
//! addresses, lock. It needs an allocator, but no operating system.
//!
//! ```
//! use tallygraph_cachesim::{Geometry, Hierarchy, Kind, Level, Options};
//!
//! let l1 = Geometry::new(32768, 8, 64).unwrap();
//! let ll = Geometry::new(8388608, 16, 64).unwrap();
//! let mut caches = Hierarchy::new(l1, l1, ll, Options::default());
//! assert_eq!(caches.reference(Kind::Read, 0x1000, 8), Level::Memory);
//! assert_eq!(caches.reference(Kind::Write, 0x1038, 8), Level::L1);
//! ```

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod batch;
pub mod cache;
pub mod cache_use;
pub mod conditional;
pub mod cost;
pub mod cpuid;
pub mod estimate;
pub mod event;
pub mod filter;
pub mod geometry;
pub mod hierarchy;
pub mod indirect;
pub mod last_level;
pub mod model;
pub mod prefetch;
pub mod script;
pub mod write_back;

pub use batch::{Event, Sink};
pub use cache::Cache;
pub use cache_use::CacheUse;
pub use conditional::ConditionalPredictor;
pub use event::{Kind, Level};
pub use filter::RowLayout;
pub use geometry::Geometry;
pub use hierarchy::{FirstLevel, Hierarchy, Options};
pub use indirect::IndirectPredictor;
pub use last_level::LastLevel;

/// Whether known artefacts of Valgrind's simulator are reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// The model as it is documented.
    #[default]
    Exact,
    /// The model as Valgrind 3.19 executes it. Its write-back and cache-use variants compare only
    /// the low 32 bits of addresses, take every line whose remaining bits are zero as present
    /// from the start, do not see the second line of an access in a cache of a single set, and
    /// mix two forms of tags when write-back and prefetching are combined.
    Callgrind,
}
