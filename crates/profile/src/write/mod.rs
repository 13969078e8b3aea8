//! Formats a profile is written to.

mod callgrind;

pub use callgrind::{Names, Options, PositionStyle, callgrind, callgrind_to};
