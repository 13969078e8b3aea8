//! Addresses to files, lines and inline frames.
//!
//! The crate knows ELF and DWARF, and nothing of profiles or spools. Parsing is kept apart from
//! finding files:
//!
//! - [`find`]: where the debug information of an object lies (the object itself, build-id
//!   directories, debug links, extra paths);
//! - [`sections`]: an object file's sections as DWARF, decompressed;
//! - [`lines`]: DWARF line programs to one sorted table per object, a [`LineTable`];
//! - [`inline`]: the functions inlined at an address;
//! - [`mini`]: names beyond an object's own symbol tables;
//! - [`cache`]: line tables kept on disk, by build-id;
//! - [`object`]: the three joined, what callers use;
//! - [`perf_map`]: names of generated code.
//!
//! Raw symbol names are made readable by `tallygraph_demangle`, given on here.
//!
//! Everything is best effort: broken or missing debug information costs names, never an error that
//! stops the caller. Addresses are *svma*, as the object file states them.

pub mod cache;
pub mod find;
pub mod inline;
pub mod lines;
pub mod mini;
pub mod object;
pub mod perf_map;
pub mod sections;

pub use find::{Finder, Hook};
pub use inline::InlineFrames;
pub use lines::{LineTable, Location};
pub use mini::MoreNames;
pub use object::ObjectSymbols;
pub use perf_map::PerfMap;
pub use tallygraph_demangle::Demangler;
