//! The decoder against iced-x86, an independent one.

mod binaries;
mod compare;
mod facts;
