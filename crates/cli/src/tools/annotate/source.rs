//! Source lines and instructions with their costs.

use super::View;
use super::columns::{FAINT, PLAIN, STRONG, Table, rule};
use super::functions::{cells, label};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use tallygraph_profile::diff::grouped;
use tallygraph_profile::graph::UNKNOWN;

/// Share of the first sort event from which a line is coloured as hot.
const HOT_SHARE: f64 = 0.05;

/// The source files to annotate.
pub struct Files {
    /// Name in the profile, path on disk, and how it was chosen.
    found: Vec<(String, PathBuf, &'static str)>,
    missing: Vec<String>,
}

impl Files {
    /// Chooses the files that the user named and, with `auto`, those of the chosen functions.
    pub fn new(view: &View, chosen: &[u32], named: &[PathBuf], include: &[PathBuf], auto: bool) -> Files {
        let mut files = Files { found: Vec::new(), missing: Vec::new() };
        let mut taken = BTreeSet::new();
        for path in named {
            // A file given by hand may be known to the profile under a longer name.
            let given = path.to_string_lossy();
            let known = view.graph.files.iter().find(|f| **f == given || f.ends_with(&format!("/{given}")));
            let name = known.cloned().unwrap_or_else(|| given.into_owned());
            match path.is_file() {
                true => files.found.push((name.clone(), path.clone(), "User-annotated source")),
                false => files.missing.push(name.clone()),
            }
            taken.insert(name);
        }
        if !auto {
            return files;
        }
        let chosen: BTreeSet<u32> = chosen.iter().copied().collect();
        let mut wanted: BTreeSet<u32> = BTreeSet::new();
        for line in view.graph.lines.iter().filter(|l| chosen.contains(&l.function)) {
            wanted.insert(line.file);
        }
        for file in wanted {
            let name = &view.graph.files[file as usize];
            if name == UNKNOWN || !taken.insert(name.clone()) {
                continue;
            }
            match locate(name, include) {
                Some(path) => files.found.push((name.clone(), path, "Auto-annotated source")),
                None => files.missing.push(name.clone()),
            }
        }
        files
    }
}

/// Where a source file is: as the profile says, or below an include folder, with fewer and fewer
/// of its leading folders.
pub fn locate(name: &str, include: &[PathBuf]) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.is_file() {
        return Some(path.to_path_buf());
    }
    for folder in include {
        let mut rest = path.components();
        loop {
            let tail = rest.as_path();
            let candidate = folder.join(tail.strip_prefix("/").unwrap_or(tail));
            if candidate.is_file() {
                return Some(candidate);
            }
            if rest.next().is_none() {
                break;
            }
        }
    }
    None
}

/// What one line cost and called.
#[derive(Default)]
struct Line {
    cost: Vec<i64>,
    /// Callee, calls, inclusive cost.
    calls: Vec<(u32, u64, Vec<i64>)>,
}

fn lines_of(view: &View, file: u32) -> BTreeMap<u64, Line> {
    let events = view.graph.events.len();
    let mut lines: BTreeMap<u64, Line> = BTreeMap::new();
    for l in view.graph.lines.iter().filter(|l| l.file == file) {
        let line = lines.entry(l.line).or_default();
        line.cost.resize(events, 0);
        line.cost.iter_mut().zip(&l.cost).for_each(|(sum, c)| *sum = sum.wrapping_add(*c));
    }
    for l in view.graph.line_calls.iter().filter(|l| l.file == file) {
        let line = lines.entry(l.line).or_default();
        line.cost.resize(events, 0);
        line.calls.push((l.callee, l.calls, view.graph.call_cost(l.function, l.callee, &l.cost)));
    }
    lines
}

/// Appends the annotated sources, and the names of those not found.
pub fn annotate(out: &mut String, view: &View, files: &Files) {
    let index: HashMap<&str, u32> =
        view.graph.files.iter().enumerate().map(|(i, f)| (f.as_str(), i as u32)).collect();
    let names: Vec<String> = view.shown.iter().map(|&c| view.graph.events[c].clone()).collect();
    for (name, path, how) in &files.found {
        out.push_str(&rule());
        out.push_str(&format!("{STRONG}-- {how}: {name}{PLAIN}\n"));
        out.push_str(&rule());
        let Some(&file) = index.get(name.as_str()) else {
            out.push_str("  no costs were recorded for this file\n\n");
            continue;
        };
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => {
                out.push_str(&format!("  {}: {error}\n\n", path.display()));
                continue;
            }
        };
        let lines = lines_of(view, file);
        let mut table = Table::default();
        one_file(&mut table, view, &text, &lines);
        table.finish(out, &names, "", view.width);
        out.push('\n');
    }
    if !files.missing.is_empty() {
        out.push_str(&rule());
        out.push_str("Source files that could not be found (try -I DIR):\n");
        out.push_str(&rule());
        for name in &files.missing {
            out.push_str(&format!("  {name}\n"));
        }
    }
}

fn one_file(table: &mut Table, view: &View, text: &str, lines: &BTreeMap<u64, Line>) {
    let context = view.context as u64;
    let source: Vec<&str> = text.lines().collect();
    if let Some(unknown) = lines.get(&0) {
        table.row(cells(view, &unknown.cost), false, format!("{FAINT}<unknown line>{PLAIN}"));
    }
    let nothing = vec![0; view.graph.events.len()];
    let primary = view.sort[0].0;
    let hot_from = HOT_SHARE * view.graph.total[primary] as f64;
    let mut last_shown = 0;
    for number in 1..=source.len() as u64 {
        let mut near = lines.range(number.saturating_sub(context)..=number.saturating_add(context));
        if !near.any(|(n, _)| *n > 0) {
            continue;
        }
        if number != last_shown + 1 {
            table.line(format!("{FAINT}-- line {number} {}{PLAIN}", "-".repeat(40)));
        }
        last_shown = number;
        let code = source[number as usize - 1].replace('\t', "        ");
        match lines.get(&number) {
            None => table.row(cells(view, &nothing), false, format!("{FAINT}{code}{PLAIN}")),
            Some(line) => {
                let hot = line.cost[primary] > 0 && line.cost[primary] as f64 >= hot_from;
                table.row(cells(view, &line.cost), hot, code);
                for (callee, calls, cost) in &line.calls {
                    let function = label(&view.graph.functions[*callee as usize]);
                    table.row(
                        cells(view, cost),
                        false,
                        format!("=> {function} ({}x)", grouped((*calls).into())),
                    );
                }
            }
        }
    }
    for (number, line) in lines.range(source.len() as u64 + 1..) {
        let text = format!("{FAINT}<line {number}, behind the end of the file>{PLAIN}");
        table.row(cells(view, &line.cost), false, text);
    }
}

/// Appends the instructions of each chosen function.
pub fn instructions(out: &mut String, view: &View, chosen: &[u32]) {
    let names: Vec<String> = view.shown.iter().map(|&c| view.graph.events[c].clone()).collect();
    if view.graph.instructions.iter().all(|i| i.address == 0) {
        out.push_str("No instructions were recorded; profile with --dump-instr=yes.\n\n");
        return;
    }
    for &function in chosen {
        let mut table = Table::default();
        for i in view.graph.instructions.iter().filter(|i| i.function == function) {
            let place = match i.line {
                0 => view.graph.files[i.file as usize].clone(),
                line => format!("{}:{line}", view.graph.files[i.file as usize]),
            };
            table.row(cells(view, &i.cost), false, format!("{:#x}  {FAINT}{place}{PLAIN}", i.address));
        }
        out.push_str(&rule());
        out.push_str(&format!("-- Instructions of {}\n", label(&view.graph.functions[function as usize])));
        out.push_str(&rule());
        table.finish(out, &names, "address  line", view.width);
        out.push('\n');
    }
}
