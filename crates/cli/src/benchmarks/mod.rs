//! Commands that run and compare benchmarks.

use std::ffi::OsString;
use std::process::ExitCode;

/// The words that select this family.
pub const COMMANDS: &[&str] = &[];

/// Runs the command named by `args[1]`.
pub fn main(_args: &[OsString]) -> ExitCode {
    ExitCode::from(2)
}
