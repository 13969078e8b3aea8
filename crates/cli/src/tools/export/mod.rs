//! `export`: profiles in the formats of other programs.

mod dot;
mod firefox;
#[cfg(feature = "parquet")]
mod parquet;
mod pprof;
mod speedscope;
mod table;

use super::stacks::{self, StackOptions};
use super::{Failure, Outcome, input, output};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tallygraph_profile::Profile;
use tallygraph_profile::write;

/// Arguments of `export`.
#[derive(Args)]
pub struct Arguments {
    /// Profiles or calling-context files, added up; the newest callgrind.out.* when left out
    files: Vec<PathBuf>,
    /// Format
    #[arg(short, long, value_name = "FORMAT")]
    format: Format,
    /// Where to write; standard output when left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    stacks: StackOptions,
    /// For csv, jsonl and parquet: what a row is
    #[arg(long, value_name = "TABLE", default_value = "functions")]
    table: Table,
    /// For dot: leave out functions below this percentage of the total
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    node_limit: f64,
    /// For dot: leave out calls below this percentage of the total
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    edge_limit: f64,
    /// For callgrind: write one file for each part, named FILE.1, FILE.2, ...
    #[arg(long)]
    split_parts: bool,
    /// For callgrind: leave out instruction addresses
    #[arg(long)]
    no_instr: bool,
    /// For callgrind: leave out `cfni=` lines
    #[arg(long)]
    strip_inline: bool,
    /// For callgrind: leave out jumps
    #[arg(long)]
    no_jumps: bool,
    /// For callgrind: names in full and absolute positions
    #[arg(long)]
    uncompressed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Folded stacks
    Folded,
    /// speedscope's JSON
    Speedscope,
    /// pprof's protocol buffer, gzipped
    Pprof,
    /// Firefox Profiler's processed JSON
    Firefox,
    /// Graphviz
    Dot,
    /// Comma-separated values
    Csv,
    /// A JSON object per line
    Jsonl,
    /// Parquet
    #[cfg(feature = "parquet")]
    Parquet,
    /// Callgrind's own, rewritten for a consumer
    Callgrind,
}

/// What a row of a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Table {
    /// A function
    Functions,
    /// A caller and a callee
    Calls,
    /// A source line
    Lines,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Outcome {
    let out = arguments.output.as_deref();
    let bytes = match arguments.format {
        Format::Callgrind => return callgrind(&arguments),
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let profiles = input::load_all(&arguments.files)?;
            let lines = arguments.table == Table::Lines;
            let graph = arguments.stacks.selection.graph(&profiles, lines, false)?;
            parquet::document(&graph, arguments.table)?
        }
        Format::Csv | Format::Jsonl | Format::Dot => {
            let profiles = input::load_all(&arguments.files)?;
            let lines = arguments.table == Table::Lines;
            let graph = arguments.stacks.selection.graph(&profiles, lines, false)?;
            match arguments.format {
                Format::Csv => table::csv(&graph, arguments.table),
                Format::Jsonl => table::json_lines(&graph, arguments.table)?,
                _ => {
                    let event = input::event_index(&graph.events, arguments.stacks.event.as_deref())?;
                    dot::document(&graph, event, arguments.node_limit, arguments.edge_limit).into_bytes()
                }
            }
        }
        stack_format => {
            let stacks = stacks::load(&arguments.files, &arguments.stacks)?;
            let label = |frame: &_| arguments.stacks.frame.text(frame);
            match stack_format {
                Format::Speedscope => speedscope::document(&stacks, label)?,
                Format::Pprof => pprof::document(&stacks)?,
                Format::Firefox => firefox::document(&stacks, label)?,
                _ => {
                    let lines = stacks.tree.folded(stacks.event, label);
                    lines.iter().map(|l| format!("{l}\n")).collect::<String>().into_bytes()
                }
            }
        }
    };
    output::write(out, &bytes)
}

fn callgrind(arguments: &Arguments) -> Outcome {
    let profiles = input::load_all(&arguments.files)?;
    let [profile] = &profiles[..] else {
        return Err(Failure::Usage("only one file at a time can be rewritten".to_string()));
    };
    let options = write::Options {
        names: if arguments.uncompressed { write::Names::Full } else { write::Names::AsRead },
        positions: match arguments.uncompressed {
            true => write::PositionStyle::Absolute,
            false => write::PositionStyle::AsRead,
        },
        no_instr: arguments.no_instr,
        no_inline: arguments.strip_inline,
        no_jumps: arguments.no_jumps,
        part: None,
    };
    if !arguments.split_parts {
        return output::write(arguments.output.as_deref(), &rewritten(profile, options)?);
    }
    let Some(base) = arguments.output.as_deref().filter(|p| *p != Path::new("-")) else {
        return Err(Failure::Usage("--split-parts needs --output".to_string()));
    };
    for part in 0..profile.parts.len() {
        let mut name = base.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}", part + 1));
        let options = write::Options { part: Some(part), ..options };
        output::write(Some(&base.with_file_name(name)), &rewritten(profile, options)?)?;
    }
    Ok(())
}

fn rewritten(profile: &Profile, options: write::Options) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    write::callgrind_to(profile, options, &mut text)?;
    Ok(text)
}
