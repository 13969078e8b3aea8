//! The header, the totals and the table of functions, with callers and callees.

use super::columns::{FAINT, PLAIN, STRONG, Table, cell, rule};
use super::{Tree, View};
use crate::tools::input::matches;
use std::path::PathBuf;
use tallygraph_profile::Profile;
use tallygraph_profile::diff::grouped;
use tallygraph_profile::graph::{Function, GraphIndex, strip_recursion_level};

/// Share of the first sort event from which a function is coloured as hot.
const HOT_SHARE: f64 = 0.1;

/// The costs that the view ranks a function by.
pub fn ranked<'f>(view: &View, function: &'f Function) -> &'f [i64] {
    if view.inclusive { &function.inclusive } else { &function.self_cost }
}

/// Functions within the thresholds, in the order of the sort events.
///
/// With self costs the threshold is how much of the total the functions cover together; inclusive
/// costs overlap, so there it is what a function must reach on its own: 100 minus the threshold.
pub fn choose(view: &View) -> Vec<u32> {
    let graph = view.graph;
    let mut order: Vec<u32> = (0..graph.functions.len() as u32).collect();
    let key = |i: u32| {
        let costs = ranked(view, &graph.functions[i as usize]);
        view.sort.iter().map(|&(c, _)| costs[c]).collect::<Vec<i64>>()
    };
    order.sort_by_cached_key(|&i| std::cmp::Reverse(key(i)));
    let own: Vec<(usize, f64)> = view.sort.iter().filter_map(|&(c, t)| t.map(|t| (c, t))).collect();
    let limits = if own.is_empty() { vec![(view.sort[0].0, view.threshold)] } else { own };
    let mut covered = vec![0i128; limits.len()];
    let mut chosen = Vec::new();
    for i in order {
        let function = &graph.functions[i as usize];
        let costs = ranked(view, function);
        if costs.iter().all(|&c| c == 0) || view.pattern.is_some_and(|p| !matches(p, &function.name)) {
            continue;
        }
        let total = |c: usize| graph.total[c] as f64;
        let wanted = if view.inclusive {
            limits.iter().any(|&(c, t)| costs[c] as f64 * 100.0 >= total(c) * (100.0 - t) && costs[c] != 0)
        } else {
            limits.iter().zip(&covered).any(|(&(c, t), &sum)| (sum as f64) * 100.0 < total(c) * t)
        };
        if !wanted && view.pattern.is_none() {
            continue;
        }
        for (sum, &(c, _)) in covered.iter_mut().zip(&limits) {
            *sum += i128::from(costs[c]);
        }
        chosen.push(i);
    }
    chosen
}

/// What was profiled and what is shown.
pub fn header(out: &mut String, view: &View, profiles: &[Profile], include: &[PathBuf], auto: bool) {
    out.push_str(&rule());
    for profile in profiles {
        let first = profile.parts.first().map(|p| &p.header);
        let creator = first.and_then(|h| h.field("creator"));
        out.push_str(&format!("{STRONG}Profile data file '{}'{PLAIN}", profile.origin));
        if let Some(creator) = creator {
            out.push_str(&format!(" (creator: {creator})"));
        }
        out.push('\n');
    }
    out.push_str(&rule());
    let Some(first) = profiles.first().and_then(|p| p.parts.first()).map(|p| &p.header) else { return };
    for description in first.fields("desc") {
        out.push_str(&format!("{description}\n"));
    }
    let command = first.field("cmd").unwrap_or_default();
    let pid = first.pid.map_or(String::new(), |pid| format!(" (PID {pid})"));
    let names = |columns: &[usize]| {
        columns.iter().map(|&c| view.graph.events[c].as_str()).collect::<Vec<_>>().join(" ")
    };
    let sort: Vec<usize> = view.sort.iter().map(|s| s.0).collect();
    let parts: usize = profiles.iter().map(|p| p.parts.len()).sum();
    let folders: Vec<String> = include.iter().map(|p| p.display().to_string()).collect();
    let mut row = |name: &str, value: String| out.push_str(&format!("{name:<18}{value}\n"));
    row("Profiled target:", format!("{command}{pid}"));
    row("Parts added up:", parts.to_string());
    row("Events recorded:", view.graph.events.join(" "));
    row("Events shown:", names(&view.shown));
    row("Event sort order:", names(&sort));
    row("Threshold:", format!("{}%", view.threshold));
    row("Include dirs:", folders.join(" "));
    row("Auto-annotation:", if auto { "on".to_string() } else { "off".to_string() });
    out.push('\n');
}

fn names(view: &View) -> Vec<String> {
    view.shown.iter().map(|&c| view.graph.events[c].clone()).collect()
}

/// Cells of one row.
pub fn cells(view: &View, costs: &[i64]) -> Vec<String> {
    view.shown.iter().map(|&c| cell(costs[c], view.graph.total[c], view.percentages)).collect()
}

/// The totals.
pub fn totals(out: &mut String, view: &View) {
    out.push_str(&rule());
    let mut table = Table::default();
    table.row(cells(view, &view.graph.total), false, "PROGRAM TOTALS".to_string());
    table.finish(out, &names(view), "", None);
    if let Some(declared) = &view.graph.declared {
        for &c in view.shown.iter().filter(|&&c| declared[c] != view.graph.total[c]) {
            let event = &view.graph.events[c];
            let (stated, sum) = (grouped(declared[c].into()), grouped(view.graph.total[c].into()));
            out.push_str(&format!("The file states {stated} {event} in total; its lines add up to {sum}.\n"));
        }
    }
    out.push('\n');
}

/// `file:name [object]`, with marks for recursion and cycles.
pub fn label(function: &Function) -> String {
    let mut text = format!("{}:{STRONG}{}{PLAIN}", function.file, function.name);
    if let Some(cycle) = function.cycle {
        text.push_str(&format!(" <cycle {cycle}>"));
    } else if function.recursive {
        text.push_str(" <recursive>");
    }
    if function.object != "???" {
        text.push_str(&format!(" {FAINT}[{}]{PLAIN}", function.object));
    }
    text
}

/// The table of functions.
pub fn table(out: &mut String, view: &View, chosen: &[u32]) {
    let graph = view.graph;
    let index = GraphIndex::new(graph);
    let primary = view.sort[0].0;
    let heading = if view.inclusive { "file:function (inclusive)" } else { "file:function" };
    let mut table = Table::default();
    for &i in chosen {
        let function = &graph.functions[i as usize];
        let costs = ranked(view, function);
        let hot = costs[primary] as f64 >= HOT_SHARE * graph.total[primary] as f64 && costs[primary] > 0;
        if view.tree == Tree::None {
            table.row(cells(view, costs), hot, label(function));
            continue;
        }
        let neighbours = |table: &mut Table, mut edges: Vec<usize>, mark: &str, callers: bool| {
            edges.sort_by_key(|&e| std::cmp::Reverse(graph.edges[e].cost[primary]));
            for edge in edges.into_iter().map(|e| &graph.edges[e]) {
                let other = if callers { edge.caller } else { edge.callee };
                let text = label(&graph.functions[other as usize]);
                let calls = grouped(edge.calls.into());
                table.row(cells(view, &graph.edge_cost(edge)), false, format!("{mark} {text} ({calls}x)"));
            }
        };
        if matches!(view.tree, Tree::Caller | Tree::Both) {
            neighbours(&mut table, index.callers(i).collect(), "<", true);
        }
        table.row(cells(view, costs), hot, format!("*  {}", label(function)));
        if matches!(view.tree, Tree::Calling | Tree::Both) {
            neighbours(&mut table, index.callees(i).collect(), ">  ", false);
        }
        table.blank();
    }
    out.push_str(&rule());
    table.finish(out, &names(view), heading, view.width);
    out.push('\n');
}

/// Explains marks that occur in the table, and lists inlined functions and cycles.
pub fn notes(out: &mut String, view: &View, chosen: &[u32]) {
    let graph = view.graph;
    let functions = || chosen.iter().map(|&i| &graph.functions[i as usize]);
    if functions().any(|f| f.recursive) {
        out.push_str("<recursive>: calls to itself are counted, but their cost is in the outer call.\n\n");
    }
    if functions().any(|f| f.cycle.is_some()) {
        out.push_str("<cycle N>: these functions call each other, so their inclusive costs overlap.\n");
        for (number, cycle) in graph.cycles.iter().enumerate() {
            let members: Vec<&str> =
                cycle.members.iter().take(8).map(|&m| graph.functions[m as usize].name.as_str()).collect();
            let more = match cycle.members.len() {
                n if n > 8 => format!(" and {} more", n - 8),
                _ => String::new(),
            };
            let cost = grouped(cycle.inclusive[view.sort[0].0].into());
            let event = &graph.events[view.sort[0].0];
            out.push_str(&format!(
                "  cycle {}: {cost} {event} in {}{more}\n",
                number + 1,
                members.join(", ")
            ));
        }
        out.push('\n');
    }
    if functions().any(|f| strip_recursion_level(f.name.as_bytes()).len() != f.name.len()) {
        out.push_str(
            "f'2: the second and deeper levels of recursion of f; --merge-recursion joins them.\n\n",
        );
    }
    if graph.inlined.is_empty() {
        return;
    }
    let mut inlined: Vec<_> = graph.inlined.iter().filter(|i| chosen.contains(&i.function)).collect();
    inlined.sort_by_key(|i| std::cmp::Reverse(i.cost[view.sort[0].0]));
    let mut table = Table::default();
    for inline in inlined {
        let into = &graph.functions[inline.function as usize].name;
        table.row(cells(view, &inline.cost), false, format!("{} inlined into {into}", inline.name));
    }
    out.push_str(&rule());
    table.finish(out, &names(view), "inlined function", view.width);
    out.push('\n');
}
