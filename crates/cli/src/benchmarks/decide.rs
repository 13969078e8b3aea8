//! `tallygraph acknowledge`, `archive`, `ignore`: adding to the file of decisions.

use std::path::{Path, PathBuf};

use clap::Args;
use tallygraph_compare::decisions::{Decision, Decisions, Kind};

use super::{Failure, git, print};

/// Where decisions are kept unless said otherwise.
pub const DEFAULT_FILE: &str = "benchmarks.decisions.toml";

/// Arguments of the three commands.
#[derive(Args)]
pub struct Arguments {
    /// The benchmark's id; * stands for any text
    benchmark: String,
    /// Why
    #[arg(long, short = 'm', required_unless_present = "remove")]
    reason: Option<String>,
    /// Who decides [default: git's user.name]
    #[arg(long)]
    author: Option<String>,
    /// Only this metric
    #[arg(long)]
    metric: Option<String>,
    /// Last day it holds, as 2027-03-31
    #[arg(long, value_name = "DAY")]
    until: Option<String>,
    /// Worst efficiency it covers, as -0.12
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    at_worst: Option<f64>,
    /// Remove the decisions on exactly this pattern
    #[arg(long)]
    remove: bool,
    /// The file of decisions
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    decisions: PathBuf,
}

/// Runs the command.
pub fn main(kind: Kind, arguments: Arguments) -> Result<u8, Failure> {
    let mut decisions = read(&arguments.decisions)?;
    if arguments.remove {
        let removed = decisions.remove(kind, &arguments.benchmark);
        if removed == 0 {
            return Err(Failure::operational(format!("no such decision on `{}`", arguments.benchmark)));
        }
    } else {
        let author = arguments.author.or_else(|| git::author(Path::new(".")));
        let decision = Decision {
            benchmark: arguments.benchmark.clone(),
            metric: arguments.metric,
            author: author.ok_or_else(|| Failure::usage("who decides? give --author"))?,
            reason: arguments.reason.unwrap_or_default(),
            until: arguments.until,
            at_worst: arguments.at_worst,
        };
        decisions.add(kind, decision).map_err(|e| Failure::usage(e.to_string()))?;
    }
    std::fs::write(&arguments.decisions, decisions.to_toml())
        .map_err(|e| Failure::operational(format!("{}: {e}", arguments.decisions.display())))?;
    print(&format!("{} updated; commit it\n", arguments.decisions.display()));
    Ok(0)
}

/// The decisions in a file; none if the file does not exist.
pub fn read(path: &Path) -> Result<Decisions, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Decisions::parse(&text).map_err(|e| {
            let line =
                e.to_string().lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ");
            Failure::operational(format!("{}: {line}", path.display()))
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Decisions::default()),
        Err(e) => Err(Failure::operational(format!("{}: {e}", path.display()))),
    }
}
