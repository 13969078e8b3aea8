//! Stacks for pictures and exports: recorded where there is a calling-context file, else estimated.

use super::input::{Loaded, Selection, event_index, load_any, newest};
use super::{Failure, Outcome};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use tallygraph_profile::fold;
use tallygraph_profile::graph::strip_recursion_level;
use tallygraph_profile::stacks::{Frame, StackTree};

/// Options of commands that work on stacks.
#[derive(Args, Debug, Clone)]
pub struct StackOptions {
    #[command(flatten)]
    pub selection: Selection,
    /// Event; the first when left out
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Only stacks through functions that match this pattern, beginning there
    #[arg(long, value_name = "PATTERN")]
    pub focus: Option<String>,
    /// For estimated stacks: put together what is below this percentage of the total
    #[arg(long, value_name = "PERCENT", default_value_t = 0.05)]
    pub limit: f64,
    /// What a frame shows
    #[arg(long, value_name = "WHAT", default_value = "function")]
    pub frame: FrameLabel,
}

/// What a frame shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FrameLabel {
    /// The function
    Function,
    /// The function and its object
    Object,
    /// The function and its file
    File,
}

impl FrameLabel {
    /// The text of a frame.
    pub fn text(self, frame: &Frame) -> String {
        let last = |path: &str| path.rsplit('/').next().unwrap_or(path).to_string();
        match self {
            FrameLabel::Function => frame.name.clone(),
            FrameLabel::Object if frame.object.is_empty() => frame.name.clone(),
            FrameLabel::Object => format!("{} [{}]", frame.name, last(&frame.object)),
            FrameLabel::File if frame.file.is_empty() => frame.name.clone(),
            FrameLabel::File => format!("{} ({})", frame.name, last(&frame.file)),
        }
    }
}

/// Stacks of files added up, and the column of the chosen event.
pub struct Stacks {
    /// The stacks.
    pub tree: StackTree,
    /// Index of the chosen event.
    pub event: usize,
    /// The command that was profiled, where known.
    pub command: String,
}

/// Loads files and makes their stacks.
pub fn load(files: &[PathBuf], options: &StackOptions) -> Result<Stacks, Failure> {
    if !(0.0..=100.0).contains(&options.limit) {
        return Err(Failure::Usage("--limit must be between 0 and 100".to_string()));
    }
    let files = if files.is_empty() { vec![newest()?] } else { files.to_vec() };
    let mut profiles = Vec::new();
    let mut tree: Option<StackTree> = None;
    let mut command = String::new();
    for path in &files {
        match load_any(path)? {
            Loaded::Profile(profile) => {
                let named = profile.parts.first().and_then(|p| p.header.field("cmd"));
                command = named.unwrap_or(command);
                profiles.push(*profile);
            }
            Loaded::Contexts(contexts) => {
                command = contexts.command.clone().unwrap_or(command);
                let mut part = contexts.tree(|part, thread| options.selection.wants(part, thread));
                if options.selection.merge_recursion {
                    strip_levels(&mut part);
                }
                nonempty(&part, path)?;
                match &mut tree {
                    None => tree = Some(part),
                    Some(tree) => tree.append(&part),
                }
            }
        }
    }
    let mut event = None;
    if !profiles.is_empty() {
        let graph = options.selection.graph(&profiles, false, false)?;
        let index = event_index(&graph.events, options.event.as_deref())?;
        event = Some(graph.events[index].clone());
        let estimated = fold::estimate(&graph, index, options.limit / 100.0);
        match &mut tree {
            None => tree = Some(estimated),
            Some(tree) => tree.append(&estimated),
        }
    }
    let mut tree = tree.unwrap_or_default();
    if let Some(pattern) = &options.focus {
        // A whole name means that function, even if other names contain it.
        let whole = tree.frames.iter().any(|f| f.name == *pattern);
        tree =
            tree.focus(|f| if whole { f.name == *pattern } else { super::input::matches(pattern, &f.name) });
        if tree.nodes.is_empty() {
            return Err(anyhow::anyhow!("no stack goes through a function like `{pattern}`").into());
        }
    }
    let event = event_index(&tree.events, options.event.as_deref().or(event.as_deref()))?;
    Ok(Stacks { tree, event, command })
}

fn nonempty(tree: &StackTree, path: &Path) -> Outcome {
    if tree.nodes.is_empty() {
        return Err(anyhow::anyhow!("{}: no contexts of that part and thread", path.display()).into());
    }
    Ok(())
}

fn strip_levels(tree: &mut StackTree) {
    for frame in &mut tree.frames {
        let length = strip_recursion_level(frame.name.as_bytes()).len();
        frame.name.truncate(length);
    }
}
