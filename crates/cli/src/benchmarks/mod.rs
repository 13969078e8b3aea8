//! Commands that run and compare benchmarks.
//!
//! Here are the arguments, and the exit status each outcome means: 0 fine, 1 an operational error,
//! 2 wrong usage, 3 a regression nobody acknowledged. The commands are thin: what they decide is
//! decided in `tallygraph-compare`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tallygraph_compare::store::StoreError;

mod bench;
mod compare;
mod config;
mod counts;
mod decide;
mod environment;
mod git;
mod history;
mod investigate;
mod measure;
mod plan;
mod profiles;
mod progress;
mod session;
mod store;

/// The words that select this family.
pub const COMMANDS: &[&str] =
    &["bench", "compare", "investigate", "history", "acknowledge", "archive", "ignore"];

#[derive(Parser)]
#[command(name = "tallygraph", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the benchmarks of a file and store every sample
    Bench(bench::Arguments),
    /// Compare two campaigns; exit status 3 on regressions nobody acknowledged
    Compare(compare::Arguments),
    /// Explain why results flicker, with evidence, and what would help
    Investigate(investigate::Arguments),
    /// Show, import, export and merge earlier campaigns
    History(history::Arguments),
    /// Accept a regression
    Acknowledge(decide::Arguments),
    /// Say that a benchmark no longer exists
    Archive(decide::Arguments),
    /// Leave a benchmark out of judgement
    Ignore(decide::Arguments),
}

/// An error for the user: one line and an exit status.
#[derive(Debug)]
pub struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Something went wrong while doing what was asked.
    pub fn operational(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: 1 }
    }

    /// What was asked makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { message: message.into(), status: 2 }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::operational(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::operational(message)
    }
}

/// Runs the command named by `args[1]`.
pub fn main(args: &[OsString]) -> ExitCode {
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let result = match arguments.command {
        Command::Bench(a) => bench::main(a),
        Command::Compare(a) => compare::main(a),
        Command::Investigate(a) => investigate::main(a),
        Command::History(a) => history::main(a),
        Command::Acknowledge(a) => decide::main(tallygraph_compare::decisions::Kind::Acknowledge, a),
        Command::Archive(a) => decide::main(tallygraph_compare::decisions::Kind::Archive, a),
        Command::Ignore(a) => decide::main(tallygraph_compare::decisions::Kind::Ignore, a),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            eprintln!("tallygraph: {}", failure.message);
            ExitCode::from(failure.status)
        }
    }
}

/// Writes text to standard output; a reader that went away is no error.
pub fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
