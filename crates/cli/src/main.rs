//! The `tallygraph` executable: chooses a command and hands over.
//!
//! Three families share the binary. The *run* family (`run`, `--tool=callgrind`, a link named
//! `valgrind`) becomes the guest; the *tools* family reads profiles; the *benchmarks* family
//! compares measurements. Each family parses its own arguments in its own module.

use std::ffi::OsString;
use std::process::ExitCode;

mod benchmarks;
mod run;
mod tools;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let command = args.get(1).and_then(|a| a.to_str()).unwrap_or("");
    if tools::COMMANDS.contains(&command) {
        return tools::main(&args);
    }
    if benchmarks::COMMANDS.contains(&command) {
        return benchmarks::main(&args);
    }
    run::main(&args)
}
