//! The profiler's own front: options, launching the guest, writing its profile.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the profiler's front with the whole command line.
pub fn main(_args: &[OsString]) -> ExitCode {
    ExitCode::from(1)
}
