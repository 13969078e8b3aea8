//! The in-guest agent: joins engine and call graph, loads the guest, writes the spool.
//!
//! It is a freestanding executable that takes the place of the profiled program in its own process:
//! the host executes it with the guest's arguments and environment, it loads the guest's files,
//! makes the initial stack what the guest would find natively, and runs the guest in the code cache.
//! It never returns.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod auxv;
pub mod collect;
pub mod exec;
pub mod format;
pub mod generated;
pub mod index;
pub mod loader;
pub mod log;
pub mod objects;
pub mod process;
pub mod profiler;
pub mod requests;
pub mod runtime;
pub mod selection;
pub mod signals;
pub mod simulation;
pub mod spool;
pub mod syscalls;
pub mod threads;
pub mod trace;
pub mod triggers;
pub mod world;
pub mod writer;

use tallygraph_sys::alloc::Allocator;

/// The agent's heap, the global allocator of the executable.
#[cfg_attr(feature = "bin", global_allocator)]
pub static ALLOCATOR: Allocator = Allocator::new();

pub use log::report_panic;
pub use process::start;
