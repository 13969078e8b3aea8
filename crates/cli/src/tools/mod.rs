//! Commands that read profiles.
//!
//! Exit status: 0 fine, 1 an operational error, 2 wrong usage, 3 a regression (`diff --fail-above`).
//! Standard output carries only what was asked for; errors and progress go to standard error.

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

mod annotate;
mod diff;
mod export;
mod flamegraph;
mod input;
mod manual;
mod output;
mod report;
mod stacks;
mod validate;

/// The words that select this family.
pub const COMMANDS: &[&str] =
    &["annotate", "flamegraph", "diff", "report", "export", "validate", "completions", "man"];

#[derive(Parser)]
#[command(name = "tallygraph", version, about = "Reads call-graph profiles", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show functions, callers and callees, and source lines with their costs
    Annotate(annotate::Arguments),
    /// Draw a flame graph, of one profile or of the difference of two
    Flamegraph(flamegraph::Arguments),
    /// Compare two profiles and say what explains the change
    Diff(diff::Arguments),
    /// Write one HTML file to explore a profile, or two
    Report(report::Arguments),
    /// Convert a profile to another format
    Export(export::Arguments),
    /// Check a profile, and say which programs would refuse it and why
    Validate(validate::Arguments),
    /// Print a completion script for a shell
    Completions(manual::Completions),
    /// Print a manual page
    Man(manual::Man),
}

/// Why a command ends without success.
#[derive(Debug)]
pub enum Failure {
    /// Something could not be done: status 1.
    Operation(anyhow::Error),
    /// The arguments make no sense together: status 2.
    Usage(String),
    /// A regression was found: status 3.
    Regression(String),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Operation(error.into())
    }
}

/// What a command returns.
pub type Outcome = Result<(), Failure>;

/// The description of all commands of this family.
fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command named by `args[1]`.
pub fn main(args: &[OsString]) -> ExitCode {
    let parsed = match Arguments::try_parse_from(args) {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let outcome = match parsed.command {
        Command::Annotate(a) => annotate::run(a),
        Command::Flamegraph(a) => flamegraph::run(a),
        Command::Diff(a) => diff::run(a),
        Command::Report(a) => report::run(a),
        Command::Export(a) => export::run(a),
        Command::Validate(a) => validate::run(a),
        Command::Completions(a) => manual::completions(a),
        Command::Man(a) => manual::man(a),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Operation(error)) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(Failure::Operation(error)) => {
            eprintln!("tallygraph: {error:#}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(text)) => {
            eprintln!("tallygraph: {text}");
            ExitCode::from(2)
        }
        Err(Failure::Regression(text)) => {
            eprintln!("tallygraph: {text}");
            ExitCode::from(3)
        }
    }
}
