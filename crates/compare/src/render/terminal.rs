//! The report on a terminal: aligned columns, colour where it is wanted.

use crate::format::percent;
use crate::report::Report;

use super::view::{RowView, View};

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// The report as lines; `all` also lists the rows in which nothing happened.
pub fn terminal(report: &Report, colour: bool, all: bool) -> String {
    let view = View::of(report);
    let paint = |code: &str, text: &str| {
        if colour { format!("{code}{text}{RESET}") } else { text.to_string() }
    };
    let mut out = format!("{}\n\n", paint(BOLD, &view.title));
    for line in &view.summary {
        out.push_str(&format!("{} {} {} {}\n", symbol(line.symbol), line.count, line.word, line.noun));
    }
    let rows: Vec<&RowView> = view.rows.iter().chain(view.quiet_rows.iter().filter(|_| all)).collect();
    if !rows.is_empty() {
        out.push('\n');
        let width = |cell: for<'r> fn(&'r RowView<'r>) -> &'r str, head: &str| {
            rows.iter().map(|r| cell(r).chars().count()).max().unwrap_or(0).max(head.len())
        };
        let (name, base, head, efficiency) = (
            width(|r| r.benchmark, "Benchmark"),
            width(|r| &r.base, "BASE"),
            width(|r| &r.head, "HEAD"),
            width(|r| &r.efficiency, "Efficiency"),
        );
        out.push_str(&format!(
            "   {:name$}  {:>base$}  {:>head$}  {:>efficiency$}\n",
            "Benchmark", "BASE", "HEAD", "Efficiency"
        ));
        for row in &rows {
            let cell = format!("{:>efficiency$}", row.efficiency);
            let cell = match row.word {
                "regressed" => paint(RED, &cell),
                "improved" => paint(GREEN, &cell),
                "unknown" | "incomparable" => paint(YELLOW, &cell),
                _ => cell,
            };
            out.push_str(&format!(
                "{} {:name$}  {:>base$}  {:>head$}  {cell}\n",
                symbol(row.symbol),
                row.benchmark,
                row.base,
                row.head
            ));
            for line in [row.why, &row.decision, &row.stale].into_iter().filter(|l| !l.is_empty()) {
                out.push_str(&format!("     {line}\n"));
            }
            for cause in &row.causes {
                out.push_str(&format!("     {cause}\n"));
            }
        }
    }
    out.push('\n');
    for mismatch in &report.mismatches {
        out.push_str(&format!(
            "{} {} differs: {} on the base, {} on the head\n",
            symbol("⚠"),
            mismatch.fact,
            mismatch.base,
            mismatch.head
        ));
    }
    for warning in &report.warnings {
        out.push_str(&format!("note: {warning}\n"));
    }
    if let Some(headline) = &report.headline {
        out.push_str(&format!(
            "headline: geometric mean over {} changed, {}{}\n",
            headline.rows,
            if headline.efficiency < 0.0 { "-" } else { "+" },
            percent(headline.efficiency)
        ));
    }
    if let Some(noise) = &view.noise {
        out.push_str(&format!("noise: {noise}\n"));
    }
    out.push_str(&format!("Comparing {} with {}\n", view.head.label, view.base.label));
    out
}

/// A sign padded to two columns; those of text width get a space.
fn symbol(sign: &str) -> String {
    if matches!(sign, "☑" | "⚠" | "🗄") { format!("{sign} ") } else { sign.to_string() }
}
