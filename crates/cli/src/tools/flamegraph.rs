//! `flamegraph`: stacks as a picture, or as folded text.

use super::output;
use super::stacks::{self, StackOptions, Stacks};
use super::{Failure, Outcome};
use clap::{Args, ValueEnum};
use inferno::flamegraph::{self, Direction};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tallygraph_profile::diff::grouped;

/// Arguments of `flamegraph`.
#[derive(Args)]
pub struct Arguments {
    /// Profiles or calling-context files, added up; the newest callgrind.out.* when left out
    files: Vec<PathBuf>,
    #[command(flatten)]
    stacks: StackOptions,
    /// Where to write; standard output when left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compare with this older profile: frames that grew are red, those that shrank are blue
    #[arg(long, value_name = "OLD")]
    diff: Option<PathBuf>,
    /// Merge stacks from the top of the stack, so that callers hang below their callees
    #[arg(long)]
    reverse: bool,
    /// Draw with the bottom of the stack at the top
    #[arg(long)]
    inverted: bool,
    /// Write folded stacks instead of a picture
    #[arg(long)]
    folded: bool,
    /// Title of the picture
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Colours
    #[arg(long, value_name = "PALETTE", default_value = "hot")]
    colors: Colors,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PIXELS")]
    width: Option<usize>,
    /// Leave out frames narrower than this percentage of the picture
    #[arg(long, value_name = "PERCENT", default_value_t = 0.01)]
    min_width: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colors {
    /// Warm colours
    Hot,
    /// Cool colours
    Mem,
    /// Greens and blues
    Io,
    /// By Rust crate
    Rust,
}

/// What the picture says when its stacks are not recorded ones.
const ESTIMATE: &str = "stacks estimated from a call graph";

/// Runs the command.
pub fn run(arguments: Arguments) -> Outcome {
    let new = stacks::load(&arguments.files, &arguments.stacks)?;
    let old = match &arguments.diff {
        Some(path) => Some(stacks::load(std::slice::from_ref(path), &arguments.stacks)?),
        None => None,
    };
    let event = new.tree.events[new.event].clone();
    let lines = match &old {
        Some(old) if old.tree.events[old.event] != event => {
            return Err(anyhow::anyhow!("the old profile has no event `{event}`").into());
        }
        Some(old) => differential(&folded(old, &arguments), &folded(&new, &arguments)),
        None => folded(&new, &arguments),
    };
    if lines.is_empty() {
        return Err(anyhow::anyhow!("there is nothing to draw: no stack has any {event}").into());
    }
    let estimated = new.tree.estimated || old.as_ref().is_some_and(|o| o.tree.estimated);
    if arguments.folded {
        if estimated {
            eprintln!("tallygraph: {ESTIMATE}; a calling-context file has the true ones");
        }
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        return output::write(arguments.output.as_deref(), text.as_bytes());
    }
    let picture = draw(&arguments, &new, &lines, estimated)?;
    output::write(arguments.output.as_deref(), &picture)
}

fn folded(stacks: &Stacks, arguments: &Arguments) -> Vec<String> {
    let label = arguments.stacks.frame;
    let lines = stacks.tree.folded(stacks.event, |frame| label.text(frame));
    // Negative costs, as of freed memory, have no width.
    lines.into_iter().filter(|l| !l.rsplit(' ').next().is_some_and(|n| n.starts_with('-'))).collect()
}

/// Lines `stack old new`, for every stack of either side.
fn differential(old: &[String], new: &[String]) -> Vec<String> {
    let mut both: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (stack, count) in old.iter().filter_map(|l| l.rsplit_once(' ')) {
        both.entry(stack).or_default().0 += count.parse().unwrap_or(0);
    }
    for (stack, count) in new.iter().filter_map(|l| l.rsplit_once(' ')) {
        both.entry(stack).or_default().1 += count.parse().unwrap_or(0);
    }
    both.into_iter().map(|(stack, (old, new))| format!("{stack} {old} {new}")).collect()
}

fn draw(
    arguments: &Arguments,
    stacks: &Stacks,
    lines: &[String],
    estimated: bool,
) -> Result<Vec<u8>, Failure> {
    let event = &stacks.tree.events[stacks.event];
    let mut options = flamegraph::Options::default();
    let subject = if stacks.command.is_empty() { String::new() } else { format!(" of {}", stacks.command) };
    options.title = arguments.title.clone().unwrap_or_else(|| match arguments.diff.is_some() {
        true => format!("Change of {event}{subject}"),
        false => format!("{event}{subject}"),
    });
    let total = grouped(stacks.tree.total()[stacks.event].into());
    let mut notes = vec![format!("{total} {event}")];
    if estimated {
        notes.push(ESTIMATE.to_string());
    }
    if let Some(pattern) = &arguments.stacks.focus {
        notes.push(format!("only below `{pattern}`"));
    }
    options.subtitle = Some(notes.join(" · "));
    options.count_name = event.clone();
    options.reverse_stack_order = arguments.reverse;
    options.direction = if arguments.inverted { Direction::Inverted } else { Direction::Straight };
    options.image_width = arguments.width;
    options.min_width = arguments.min_width;
    options.deterministic = true;
    options.hash = true;
    options.colors = match arguments.colors {
        Colors::Hot => flamegraph::Palette::Basic(flamegraph::color::BasicPalette::Hot),
        Colors::Mem => flamegraph::Palette::Basic(flamegraph::color::BasicPalette::Mem),
        Colors::Io => flamegraph::Palette::Basic(flamegraph::color::BasicPalette::Io),
        Colors::Rust => flamegraph::Palette::Multi(flamegraph::color::MultiPalette::Rust),
    };
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut picture)
        .map_err(|e| anyhow::anyhow!("the picture could not be drawn: {e}"))?;
    Ok(picture)
}
