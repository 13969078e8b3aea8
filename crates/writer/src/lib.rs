//! From the spool of a guest process to `callgrind.out` files.
//!
//! The agent leaves counters and a log of records that say what they mean (`tallygraph_wire::spool`).
//! Writing a profile takes these steps, one module each:
//!
//! 1. [`spool_file`]: read header, log and counters from the file;
//! 2. [`tables`]: the records, by id;
//! 3. [`places`]: addresses to source files and lines, functions to readable names;
//! 4. [`graph`]: costs per instruction and calls per call site, summed by function;
//! 5. [`text`]: the body in Callgrind's format, after the header of [`header`];
//! 6. [`dump`]: which files there are, by the rules of [`output`], and their replacement at one stroke;
//! 7. [`end_lines`]: what is printed when the guest has ended; [`frames`]: back traces.
//!
//! Costs are summed per instruction before anything is printed, so the profile does not depend on how
//! the engine happened to cut the guest's code into basic blocks.

pub mod dump;
pub mod end_lines;
pub mod events;
pub mod frames;
pub mod graph;
pub mod header;
pub mod output;
pub mod places;
pub mod progress;
pub mod spool_file;
pub mod tables;
pub mod text;

#[cfg(test)]
mod testing;

pub use dump::{Report, Request, write};

/// Why no profile could be written.
#[derive(Debug)]
pub enum Error {
    /// The spool can't be read, or an output file can't be written.
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The spool's contents make no sense.
    Spool {
        /// The spool.
        path: std::path::PathBuf,
        /// What is wrong.
        source: tallygraph_wire::WireError,
    },
    /// The output file's name can't be made from its pattern.
    Name(output::PatternError),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::File { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Spool { path, source } => write!(f, "{}: {source}", path.display()),
            Error::Name(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for Error {}
