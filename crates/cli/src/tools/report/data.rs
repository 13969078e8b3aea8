//! The data of the page.

use super::Arguments;
use crate::tools::Failure;
use crate::tools::annotate::locate;
use crate::tools::input::{Loaded, Selection, load_any};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tallygraph_profile::Profile;
use tallygraph_profile::contexts::Contexts;
use tallygraph_profile::diff::{self, Diff};
use tallygraph_profile::fold;
use tallygraph_profile::graph::{CallGraph, UNKNOWN};
use tallygraph_profile::stacks::StackTree;

/// Views beside the one of everything; more parts than that are left out, and the page says so.
const MOST_VIEWS: usize = 24;
/// Source text in a page.
const MOST_SOURCE: u64 = 4 << 20;

/// One side of the page.
struct Side {
    profiles: Vec<Profile>,
    contexts: Option<Contexts>,
}

impl Side {
    fn load(files: &[PathBuf]) -> Result<Side, Failure> {
        let mut side = Side { profiles: Vec::new(), contexts: None };
        for path in files {
            match load_any(path)? {
                Loaded::Profile(profile) => side.profiles.push(*profile),
                Loaded::Contexts(_) if side.contexts.is_some() => {
                    return Err(Failure::Usage("at most one calling-context file can be shown".to_string()));
                }
                Loaded::Contexts(contexts) => side.contexts = Some(contexts),
            }
        }
        if side.profiles.is_empty() {
            return Err(Failure::Usage("a report needs a profile beside its calling contexts".to_string()));
        }
        Ok(side)
    }

    fn origins(&self) -> Vec<&str> {
        self.profiles.iter().map(|p| p.origin.as_str()).collect()
    }
}

/// The whole document.
pub fn document(arguments: &Arguments) -> Result<Value, Failure> {
    let new = Side::load(&arguments.new_files()?)?;
    let old = if arguments.diff.is_empty() { None } else { Some(Side::load(&arguments.diff)?) };
    let command = new.profiles.iter().flat_map(|p| &p.parts).find_map(|p| p.header.field("cmd"));
    let title = arguments
        .title
        .clone()
        .or_else(|| command.clone().filter(|c| !c.is_empty()))
        .unwrap_or_else(|| new.origins().join(" + "));
    let graph = arguments.selection.graph(&new.profiles, true, false)?;
    if graph.events.is_empty() {
        return Err(anyhow::anyhow!("the profile has no events").into());
    }
    let mut views = vec![view("everything", &graph, &stacks(arguments, &new, &arguments.selection, &graph)?)];
    let (choices, left_out) = choices(&new.profiles, &arguments.selection);
    for (label, selection) in choices {
        let part = selection.graph(&new.profiles, true, false)?;
        let part = with_events(part, &graph.events);
        views.push(view(&label, &part, &stacks(arguments, &new, &selection, &part)?));
    }
    let mut document = json!({
        "schema": 1,
        "kind": "report",
        "title": title,
        "command": command,
        "origins": new.origins(),
        "descriptions": descriptions(&new.profiles),
        "events": graph.events,
        "long_names": long_names(&graph),
        "views": views,
        "views_left_out": left_out,
        "sources": if arguments.no_source { json!({}) } else { sources(&graph, &arguments.include) },
        "declared": graph.declared,
        "version": env!("CARGO_PKG_VERSION"),
    });
    if let Some(old) = &old {
        let before = with_events(arguments.selection.graph(&old.profiles, true, false)?, &graph.events);
        let tree = stacks(arguments, old, &arguments.selection, &before)?;
        document["old"] = json!({
            "origins": old.origins(),
            "view": view("old", &before, &tree),
            "comparisons": comparisons(&before, &graph),
        });
    }
    Ok(document)
}

/// Parts and threads that deserve a view of their own, and how many more there are.
fn choices(profiles: &[Profile], selection: &Selection) -> (Vec<(String, Selection)>, usize) {
    let mut seen = BTreeSet::new();
    for part in profiles.iter().flat_map(|p| &p.parts) {
        let key = (part.header.part, part.header.thread);
        if selection.wants(key.0, key.1) {
            seen.insert(key);
        }
    }
    if seen.len() < 2 {
        return (Vec::new(), 0);
    }
    let all = seen.len();
    let choices: Vec<(String, Selection)> = seen
        .into_iter()
        .take(MOST_VIEWS)
        .map(|(part, thread)| {
            let labels: BTreeSet<String> = profiles
                .iter()
                .flat_map(|p| &p.parts)
                .filter(|p| (p.header.part, p.header.thread) == (part, thread))
                .map(|p| p.header.label())
                .collect();
            let label =
                labels.into_iter().find(|l| !l.is_empty()).unwrap_or_else(|| "unnamed part".to_string());
            let selection = Selection {
                parts: part.into_iter().collect(),
                threads: thread.into_iter().collect(),
                ..selection.clone()
            };
            (label, selection)
        })
        .collect();
    (choices, all.saturating_sub(MOST_VIEWS))
}

/// The graph with its costs in the order of `events`; missing events are 0.
fn with_events(mut graph: CallGraph, events: &[String]) -> CallGraph {
    let columns: Vec<Option<usize>> = events.iter().map(|e| graph.event(e)).collect();
    let change = |cost: &mut Vec<i64>| *cost = columns.iter().map(|c| c.map_or(0, |c| cost[c])).collect();
    for f in &mut graph.functions {
        change(&mut f.self_cost);
        change(&mut f.inclusive);
    }
    graph.edges.iter_mut().for_each(|e| change(&mut e.cost));
    graph.cycles.iter_mut().for_each(|c| change(&mut c.inclusive));
    graph.lines.iter_mut().for_each(|l| change(&mut l.cost));
    graph.line_calls.iter_mut().for_each(|l| change(&mut l.cost));
    change(&mut graph.total);
    graph.events = events.to_vec();
    graph
}

fn stacks(
    arguments: &Arguments,
    side: &Side,
    selection: &Selection,
    graph: &CallGraph,
) -> Result<StackTree, Failure> {
    if let Some(contexts) = &side.contexts {
        let tree = contexts.tree(|part, thread| selection.wants(part, thread));
        if !tree.nodes.is_empty() {
            let columns: Vec<Option<usize>> =
                graph.events.iter().map(|e| tree.events.iter().position(|t| t == e)).collect();
            let mut tree = tree;
            for node in &mut tree.nodes {
                node.cost = columns.iter().map(|c| c.map_or(0, |c| node.cost[c])).collect();
            }
            tree.events = graph.events.clone();
            return Ok(tree);
        }
    }
    let options = arguments.stack_options(selection.clone());
    Ok(fold::estimate(graph, 0, options.limit / 100.0))
}

/// Own cost of each line of a file, and its calls.
type LinesOfFile = BTreeMap<u64, (Vec<i64>, Vec<Value>)>;

/// Functions, calls, stacks and lines of one graph. Lists instead of objects keep the page small.
fn view(label: &str, graph: &CallGraph, tree: &StackTree) -> Value {
    let functions: Vec<Value> = graph
        .functions
        .iter()
        .map(|f| json!([f.name, f.file, f.object, f.calls, f.recursive, f.cycle, f.self_cost, f.inclusive]))
        .collect();
    let edges: Vec<Value> =
        graph.edges.iter().map(|e| json!([e.caller, e.callee, e.calls, graph.edge_cost(e)])).collect();
    let mut used: BTreeMap<u32, usize> = BTreeMap::new();
    let mut frames = Vec::new();
    for node in &tree.nodes {
        used.entry(node.frame).or_insert_with(|| {
            frames.push(tree.frames[node.frame as usize].name.as_str());
            frames.len() - 1
        });
    }
    let nodes: Vec<Value> = tree.nodes.iter().map(|n| json!([n.parent, used[&n.frame], n.cost])).collect();
    let mut lines: BTreeMap<&str, LinesOfFile> = BTreeMap::new();
    let empty = || (vec![0i64; graph.events.len()], Vec::new());
    for l in &graph.lines {
        let file = lines.entry(graph.files[l.file as usize].as_str()).or_default();
        let (sum, _) = file.entry(l.line).or_insert_with(empty);
        sum.iter_mut().zip(&l.cost).for_each(|(s, c)| *s = s.wrapping_add(*c));
    }
    for l in &graph.line_calls {
        let file = lines.entry(graph.files[l.file as usize].as_str()).or_default();
        let (_, calls) = file.entry(l.line).or_insert_with(empty);
        calls.push(json!([l.callee, l.calls, graph.call_cost(l.function, l.callee, &l.cost)]));
    }
    let lines: BTreeMap<&str, Vec<Value>> = lines
        .into_iter()
        .map(|(file, lines)| {
            (file, lines.into_iter().map(|(n, (cost, calls))| json!([n, cost, calls])).collect())
        })
        .collect();
    json!({
        "label": label,
        "total": graph.total,
        "functions": functions,
        "edges": edges,
        "cycles": graph.cycles.iter().map(|c| json!([c.members, c.inclusive])).collect::<Vec<_>>(),
        "estimated": tree.estimated,
        "frames": frames,
        "nodes": nodes,
        "lines": lines,
    })
}

/// Texts of the source files that can be found.
fn sources(graph: &CallGraph, include: &[PathBuf]) -> Value {
    let mut texts = serde_json::Map::new();
    let mut room = MOST_SOURCE;
    for file in graph.files.iter().filter(|f| *f != UNKNOWN) {
        let Some(path) = locate(file, include) else { continue };
        let Ok(bytes) = std::fs::read(&path) else { continue };
        if bytes.len() as u64 > room {
            continue;
        }
        room -= bytes.len() as u64;
        texts.insert(file.clone(), json!(String::from_utf8_lossy(&bytes)));
    }
    Value::Object(texts)
}

fn descriptions(profiles: &[Profile]) -> Vec<String> {
    let mut all = Vec::new();
    for part in profiles.iter().flat_map(|p| &p.parts) {
        for text in part.header.fields("desc").filter(|d| !d.ends_with(':')) {
            if !all.contains(&text) && all.len() < 20 {
                all.push(text);
            }
        }
    }
    all
}

fn long_names(graph: &CallGraph) -> Value {
    let names = graph.definitions.iter().filter_map(|d| Some((d.name.clone(), json!(d.long_name.clone()?))));
    Value::Object(names.collect())
}

/// For each event: the sentence, and old costs of new functions by index.
fn comparisons(old: &CallGraph, new: &CallGraph) -> Vec<Value> {
    new.events
        .iter()
        .map(|event| match diff::compare(old, new, event) {
            Ok(diff) => comparison(&diff),
            Err(reason) => json!({ "explanation": reason, "functions": [] }),
        })
        .collect()
}

fn comparison(diff: &Diff) -> Value {
    let functions: Vec<Value> = diff
        .functions
        .iter()
        .map(|f| json!([f.new, f.old, f.name, f.self_cost, f.inclusive, f.calls]))
        .collect();
    json!({ "explanation": diff.explanation(), "functions": functions })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallygraph_profile::read;

    #[test]
    fn parts_and_threads_become_choices() {
        let text = "version: 1\npart: 1\nthread: 1\nevents: Ir\nfn=f\n1 1\n\npart: 1\nthread: 2\nevents: Ir\nfn=g\n1 2\n";
        let profile = read::bytes("test", text.as_bytes()).unwrap();
        let (choices, left_out) = choices(std::slice::from_ref(&profile), &Selection::default());
        let labels: Vec<&str> = choices.iter().map(|c| c.0.as_str()).collect();
        assert_eq!(labels, ["part 1, thread 1", "part 1, thread 2"]);
        assert_eq!(left_out, 0);
        let second = choices[1].1.graph(&[profile], false, false).unwrap();
        assert_eq!(second.total, [2]);
    }

    #[test]
    fn missing_events_are_zero() {
        let profile = read::bytes("test", b"events: Dr\nfn=f\n1 3\n").unwrap();
        let graph = with_events(CallGraph::of(&profile), &["Ir".to_string(), "Dr".to_string()]);
        assert_eq!(graph.total, [0, 3]);
        assert_eq!(graph.functions[0].self_cost, [0, 3]);
    }
}
