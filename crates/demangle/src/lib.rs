//! Raw symbol names made readable, and patterns that select functions by name.
//!
//! Used by the host, which prints names, and by the agent, which must know while the guest runs which
//! functions an option like `--fn-skip` means. So it is `no_std`, and nesting and work are bounded.
//!
//! - [`names`]: raw names to readable ones, C++ ones by [`cpp`];
//! - [`pattern`]: `*` and `?`.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod cpp;
pub mod names;
pub mod pattern;

pub use names::Demangler;
pub use pattern::{Subject, matches};
