//! `annotate`: functions, callers and callees, and source lines with their costs.
//!
//! callgrind_annotate's options keep their meaning, so its users can change the name of the command
//! only. Two differences are deliberate: a function is one row even if parts of it were inlined
//! from other files, and no inclusive cost is above the total.

mod columns;
mod functions;
mod json;
mod source;

pub use source::locate;

use super::input::{self, Selection};
use super::output::{self, Color};
use super::{Failure, Outcome};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tallygraph_profile::Profile;
use tallygraph_profile::graph::CallGraph;

/// Arguments of `annotate`.
#[derive(Args)]
pub struct Arguments {
    /// Profiles, added up, then source files to annotate; the newest callgrind.out.* when left out
    files: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Events to show, in this order
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    show: Vec<String>,
    /// Events to sort by; `A:50` also sets the event's threshold
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    sort: Vec<String>,
    /// Percentage of the first sort event to cover with functions
    #[arg(long, value_name = "0-100", default_value_t = 99.0)]
    threshold: f64,
    /// Show percentages
    #[arg(long, value_name = "yes|no", default_value = "yes", num_args = 0..=1, default_missing_value = "yes")]
    show_percs: YesNo,
    /// Annotate the source files of the functions shown
    #[arg(long, value_name = "yes|no", default_value = "yes", num_args = 0..=1, default_missing_value = "yes")]
    auto: YesNo,
    /// Lines of context around annotated lines
    #[arg(long, value_name = "N", default_value_t = 8)]
    context: usize,
    /// Show inclusive costs
    #[arg(long, value_name = "yes|no", default_value = "no", num_args = 0..=1, default_missing_value = "yes", require_equals = true)]
    inclusive: YesNo,
    /// Show callers and callees of each function
    #[arg(long, value_name = "WHICH", default_value = "none")]
    tree: Tree,
    /// Folder to look for source files in; may be repeated
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Show only functions that match this pattern (`*`, `?`, or a part of the name)
    #[arg(long, value_name = "PATTERN")]
    function: Option<String>,
    /// Show costs per instruction, where recorded
    #[arg(long)]
    instructions: bool,
    /// Width of the output; names are shortened to it
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// When to colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

/// An option that callgrind_annotate spells `yes` or `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

/// Which neighbours to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tree {
    /// None
    None,
    /// Callers
    Caller,
    /// Called functions
    Calling,
    /// Both
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// What to show, with names resolved to columns.
struct View<'a> {
    graph: &'a CallGraph,
    /// Columns shown.
    shown: Vec<usize>,
    /// Columns sorted by, each with its threshold in percent, if it has its own.
    sort: Vec<(usize, Option<f64>)>,
    threshold: f64,
    percentages: bool,
    inclusive: bool,
    tree: Tree,
    context: usize,
    width: Option<usize>,
    pattern: Option<&'a str>,
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Outcome {
    if !(0.0..=100.0).contains(&arguments.threshold) {
        return Err(Failure::Usage("--threshold must be between 0 and 100".to_string()));
    }
    let (profiles, sources) = load(&arguments.files)?;
    // A line of a large profile takes more memory than its text, so only where lines are shown.
    let lines = arguments.format == Format::Json || arguments.auto == YesNo::Yes || !sources.is_empty();
    let graph = arguments.selection.graph(&profiles, lines, arguments.instructions)?;
    let view = view(&arguments, &graph)?;
    let chosen = functions::choose(&view);
    if arguments.format == Format::Json {
        let value = json::document(&view, &profiles, &chosen, arguments.instructions);
        let mut text = serde_json::to_string_pretty(&value)?;
        text.push('\n');
        return output::print(&text, Color::Never);
    }
    let mut text = String::new();
    functions::header(&mut text, &view, &profiles, &arguments.include, arguments.auto == YesNo::Yes);
    functions::totals(&mut text, &view);
    functions::table(&mut text, &view, &chosen);
    functions::notes(&mut text, &view, &chosen);
    if arguments.instructions {
        source::instructions(&mut text, &view, &chosen);
    }
    let files =
        source::Files::new(&view, &chosen, &sources, &arguments.include, arguments.auto == YesNo::Yes);
    source::annotate(&mut text, &view, &files);
    output::print(&text, arguments.color)
}

/// Splits the arguments: profiles first, then source files, told apart by what they hold.
fn load(files: &[PathBuf]) -> Result<(Vec<Profile>, Vec<PathBuf>), Failure> {
    let mut profiles = Vec::new();
    let mut sources = Vec::new();
    for (i, path) in files.iter().enumerate() {
        if i > 0 && !looks_like_profile(path) {
            sources.push(path.clone());
        } else {
            profiles.push(input::load(path)?);
        }
    }
    if profiles.is_empty() {
        profiles = input::load_all(&[])?;
    }
    Ok((profiles, sources))
}

/// Whether a line in the first 64 KiB begins with `events:`.
fn looks_like_profile(path: &Path) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(64 << 10).read_to_end(&mut start));
    read.is_ok() && start.split(|&b| b == b'\n').any(|line| line.starts_with(b"events:"))
}

fn view<'a>(arguments: &'a Arguments, graph: &'a CallGraph) -> Result<View<'a>, Failure> {
    let column = |name: &str| input::event_index(&graph.events, Some(name));
    if graph.events.is_empty() {
        return Err(anyhow::anyhow!("the profile has no events").into());
    }
    let mut shown = Vec::new();
    for name in &arguments.show {
        shown.push(column(name)?);
    }
    if shown.is_empty() {
        shown = (0..graph.events.len()).collect();
    }
    let mut sort = Vec::new();
    for text in &arguments.sort {
        let (name, threshold) = match text.split_once(':') {
            Some((name, percent)) => {
                let parsed = percent.trim_end_matches('%').parse::<f64>().ok();
                let valid = parsed.filter(|p| (0.0..=100.0).contains(p));
                let percent = valid.ok_or_else(|| {
                    Failure::Usage(format!("--sort: `{percent}` is not a percentage between 0 and 100"))
                })?;
                (name, Some(percent))
            }
            None => (text.as_str(), None),
        };
        sort.push((column(name)?, threshold));
    }
    if sort.is_empty() {
        sort = shown.iter().map(|&c| (c, None)).collect();
    }
    Ok(View {
        graph,
        shown,
        sort,
        threshold: arguments.threshold,
        percentages: arguments.show_percs == YesNo::Yes,
        inclusive: arguments.inclusive == YesNo::Yes,
        tree: arguments.tree,
        context: arguments.context,
        width: arguments.width.or_else(output::terminal_width),
        pattern: arguments.function.as_deref(),
    })
}
