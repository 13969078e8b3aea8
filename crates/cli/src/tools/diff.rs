//! `diff`: what changed between two profiles, or between two sets of profiles added up.

use super::input::{self, Selection};
use super::output::{self, Color};
use super::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;
use tallygraph_profile::Profile;
use tallygraph_profile::diff::{self, Diff, FunctionChange, grouped, signed};
use tallygraph_profile::graph::CallGraph;

/// Arguments of `diff`.
#[derive(Args)]
pub struct Arguments {
    /// The old and the new profile
    #[arg(value_name = "OLD NEW", num_args = 2, conflicts_with_all = ["old", "new"])]
    files: Vec<PathBuf>,
    /// Old profiles, added up
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "new")]
    old: Vec<PathBuf>,
    /// New profiles, added up
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "old")]
    new: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Event to compare by; the first when left out
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// Order of the functions
    #[arg(long, value_name = "COST", default_value = "self")]
    sort: Sort,
    /// Number of functions, calls and lines shown; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Fail with status 3 if the total grew by more than this: `2%`, or a number of events
    #[arg(long, value_name = "LIMIT")]
    fail_above: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// When to colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For comments on changes
    Markdown,
    /// For programs
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Change of own cost
    #[value(name = "self")]
    Own,
    /// Change of inclusive cost
    Inclusive,
}

/// How much growth of the total is a regression.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    Ratio(f64),
    Events(i64),
}

impl Limit {
    fn parse(text: &str) -> Result<Limit, Failure> {
        let wrong = || Failure::Usage(format!("--fail-above: `{text}` is neither a percentage nor a number"));
        let limit = match text.strip_suffix('%') {
            Some(percent) => Limit::Ratio(percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0),
            None => Limit::Events(text.replace(['_', ','], "").parse().map_err(|_| wrong())?),
        };
        match limit {
            Limit::Ratio(r) if !r.is_finite() || r < 0.0 => Err(wrong()),
            Limit::Events(n) if n < 0 => Err(wrong()),
            limit => Ok(limit),
        }
    }

    fn is_passed(self, diff: &Diff) -> bool {
        match self {
            Limit::Ratio(ratio) => diff.ratio() > ratio,
            Limit::Events(events) => diff.delta() > events,
        }
    }
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Outcome {
    let limit = arguments.fail_above.as_deref().map(Limit::parse).transpose()?;
    let (old, new) = match &arguments.files[..] {
        [old, new] => (vec![old.clone()], vec![new.clone()]),
        _ if arguments.old.is_empty() => {
            return Err(Failure::Usage("diff needs an old and a new profile".to_string()));
        }
        _ => (arguments.old.clone(), arguments.new.clone()),
    };
    let (old, new) = (input::load_all(&old)?, input::load_all(&new)?);
    let (before, after) =
        (arguments.selection.graph(&old, true, false)?, arguments.selection.graph(&new, true, false)?);
    let event = match &arguments.event {
        Some(name) => name.clone(),
        None => common_event(&before, &after)?,
    };
    let mut diff = diff::compare(&before, &after, &event).map_err(Failure::Usage)?;
    if arguments.sort == Sort::Inclusive {
        sort_by_inclusive(&mut diff);
    }
    let shown = if arguments.top == 0 { usize::MAX } else { arguments.top };
    let text = match arguments.format {
        Format::Text => text(&diff, &old, &new, shown),
        Format::Markdown => markdown(&diff, &old, &new, shown),
        Format::Json => json_text(&diff, &old, &new, limit)?,
    };
    output::print(&text, if arguments.format == Format::Text { arguments.color } else { Color::Never })?;
    match limit {
        Some(limit) if limit.is_passed(&diff) => Err(Failure::Regression(format!(
            "{} grew by {}, more than {}",
            diff.event,
            percent(&diff),
            arguments.fail_above.unwrap_or_default()
        ))),
        _ => Ok(()),
    }
}

fn common_event(old: &CallGraph, new: &CallGraph) -> Result<String, Failure> {
    new.events.iter().find(|e| old.event(e).is_some()).cloned().ok_or_else(|| {
        let (old, new) = (old.events.join(" "), new.events.join(" "));
        Failure::Operation(anyhow::anyhow!("the profiles have no event in common: {old} and {new}"))
    })
}

/// Reorders the functions, and what refers to them.
fn sort_by_inclusive(diff: &mut Diff) {
    let mut order: Vec<usize> = (0..diff.functions.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(diff.functions[i].inclusive_delta().unsigned_abs()));
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
    diff.functions = order.iter().map(|&i| diff.functions[i].clone()).collect();
    for edge in &mut diff.edges {
        (edge.caller, edge.callee) = (place[edge.caller], place[edge.callee]);
    }
    for line in &mut diff.lines {
        line.function = place[line.function];
    }
}

fn origins(profiles: &[Profile]) -> String {
    profiles.iter().map(|p| p.origin.as_str()).collect::<Vec<_>>().join(" + ")
}

/// `+36.52%`, of the old total.
fn percent(diff: &Diff) -> String {
    ratio_text(diff.total)
}

fn ratio_text((old, new): (i64, i64)) -> String {
    match (old, new) {
        (0, 0) => "±0%".to_string(),
        (0, _) => "new".to_string(),
        (_, 0) => "gone".to_string(),
        (old, new) if old == new => "±0%".to_string(),
        (old, new) => format!("{:+.2}%", (new as f64 - old as f64) * 100.0 / old as f64),
    }
}

fn calls_text((old, new): (u64, u64)) -> String {
    if old == new {
        grouped(new.into())
    } else {
        format!("{} → {}", grouped(old.into()), grouped(new.into()))
    }
}

fn changed(diff: &Diff) -> impl Iterator<Item = &FunctionChange> {
    diff.functions
        .iter()
        .filter(|f| f.self_delta() != 0 || f.inclusive_delta() != 0 || f.calls.0 != f.calls.1)
}

fn line_number(line: Option<u64>) -> String {
    line.map_or("-".to_string(), |n| n.to_string())
}

/// Columns of text, the last one flush left.
fn columns(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if i + 1 == row.len() {
                text.push_str(cell);
            } else {
                text.push_str(&" ".repeat(width - cell.chars().count()));
                text.push_str(cell);
                text.push_str("  ");
            }
        }
        text.push('\n');
    }
    text
}

fn text(diff: &Diff, old: &[Profile], new: &[Profile], shown: usize) -> String {
    const STRONG: &str = "\x1b[1m";
    const PLAIN: &str = "\x1b[0m";
    let mut out = format!("old: {}\nnew: {}\n\n", origins(old), origins(new));
    out.push_str(&format!(
        "{STRONG}{} {} → {} ({}){PLAIN}\n{}\n",
        diff.event,
        grouped(diff.total.0.into()),
        grouped(diff.total.1.into()),
        percent(diff),
        diff.explanation()
    ));
    let head = |words: &[&str]| vec![words.iter().map(|w| w.to_string()).collect::<Vec<String>>()];
    let mut rows = head(&["self", "inclusive", "calls", "function"]);
    rows.extend(changed(diff).take(shown).map(|f| {
        vec![
            format!("{} ({})", signed(f.self_delta()), ratio_text(f.self_cost)),
            format!("{} ({})", signed(f.inclusive_delta()), ratio_text(f.inclusive)),
            calls_text(f.calls),
            f.name.clone(),
        ]
    }));
    section(&mut out, "Functions", rows, changed(diff).count(), shown);
    let mut rows = head(&["inclusive", "calls", "caller → callee"]);
    rows.extend(diff.edges.iter().take(shown).map(|e| {
        vec![
            signed(e.cost.1.wrapping_sub(e.cost.0)),
            calls_text(e.calls),
            format!("{} → {}", diff.functions[e.caller].name, diff.functions[e.callee].name),
        ]
    }));
    section(&mut out, "Calls", rows, diff.edges.len(), shown);
    let mut rows = head(&["self", "old line", "new line", "file, function"]);
    rows.extend(diff.lines.iter().take(shown).map(|l| {
        vec![
            signed(l.cost.1.wrapping_sub(l.cost.0)),
            line_number(l.old_line),
            line_number(l.new_line),
            format!("{}, {}", l.file, diff.functions[l.function].name),
        ]
    }));
    section(&mut out, "Lines", rows, diff.lines.len(), shown);
    out
}

fn section(out: &mut String, title: &str, rows: Vec<Vec<String>>, count: usize, shown: usize) {
    if count == 0 {
        return;
    }
    let rest = count.saturating_sub(shown);
    let more = if rest > 0 { format!(" ({rest} more with --top 0)") } else { String::new() };
    out.push_str(&format!("\n{title}{more}\n{}", columns(&rows)));
}

fn markdown(diff: &Diff, old: &[Profile], new: &[Profile], shown: usize) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('`', "'");
    let mut out = format!(
        "**{} {} → {} ({})**\n\n{}\n\n",
        diff.event,
        grouped(diff.total.0.into()),
        grouped(diff.total.1.into()),
        percent(diff),
        diff.explanation()
    );
    out.push_str("| Function | Self | Inclusive | Calls |\n|---|---:|---:|---:|\n");
    for f in changed(diff).take(shown) {
        out.push_str(&format!(
            "| `{}` | {} ({}) | {} ({}) | {} |\n",
            escape(&f.name),
            signed(f.self_delta()),
            ratio_text(f.self_cost),
            signed(f.inclusive_delta()),
            ratio_text(f.inclusive),
            calls_text(f.calls)
        ));
    }
    if !diff.lines.is_empty() {
        out.push_str("\n| Line | Function | Self |\n|---|---|---:|\n");
        for l in diff.lines.iter().take(shown) {
            let line = line_number(l.new_line.or(l.old_line));
            let function = escape(&diff.functions[l.function].name);
            let delta = signed(l.cost.1.wrapping_sub(l.cost.0));
            out.push_str(&format!("| {}:{line} | `{function}` | {delta} |\n", escape(&l.file)));
        }
    }
    out.push_str(&format!("\nOld: {}. New: {}.\n", escape(&origins(old)), escape(&origins(new))));
    out
}

fn json_text(diff: &Diff, old: &[Profile], new: &[Profile], limit: Option<Limit>) -> Result<String, Failure> {
    let name = |i: usize| &diff.functions[i].name;
    let functions: Vec<_> = changed(diff)
        .map(|f| {
            json!({
                "name": f.name, "file": f.file, "object": f.object,
                "in_old": f.old.is_some(), "in_new": f.new.is_some(),
                "self": [f.self_cost.0, f.self_cost.1],
                "inclusive": [f.inclusive.0, f.inclusive.1],
                "calls": [f.calls.0, f.calls.1],
            })
        })
        .collect();
    let edges: Vec<_> = diff
        .edges
        .iter()
        .map(|e| {
            json!({
                "caller": name(e.caller), "callee": name(e.callee),
                "calls": [e.calls.0, e.calls.1], "inclusive": [e.cost.0, e.cost.1],
            })
        })
        .collect();
    let lines: Vec<_> = diff
        .lines
        .iter()
        .map(|l| {
            json!({
                "file": l.file, "function": name(l.function),
                "line": [l.old_line, l.new_line], "self": [l.cost.0, l.cost.1],
            })
        })
        .collect();
    let ratio = diff.ratio();
    let document = json!({
        "schema": 1,
        "kind": "diff",
        "old": old.iter().map(|p| p.origin.as_str()).collect::<Vec<_>>(),
        "new": new.iter().map(|p| p.origin.as_str()).collect::<Vec<_>>(),
        "event": diff.event,
        "total": [diff.total.0, diff.total.1],
        "ratio": if ratio.is_finite() { json!(ratio) } else { json!(null) },
        "explanation": diff.explanation(),
        "regression": limit.is_some_and(|l| l.is_passed(diff)),
        "functions": functions,
        "calls": edges,
        "lines": lines,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_percentages_or_numbers() {
        assert_eq!(Limit::parse("2%").unwrap(), Limit::Ratio(0.02));
        assert_eq!(Limit::parse("1,000").unwrap(), Limit::Events(1000));
        for wrong in ["", "%", "two", "-1", "-1%", "nan%"] {
            assert!(Limit::parse(wrong).is_err(), "{wrong:?} was accepted");
        }
        let grown = Diff { total: (100, 103), ..Diff::default() };
        assert!(Limit::Ratio(0.02).is_passed(&grown) && !Limit::Ratio(0.03).is_passed(&grown));
        assert!(Limit::Events(2).is_passed(&grown) && !Limit::Events(3).is_passed(&grown));
    }
}
