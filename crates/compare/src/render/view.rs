//! What templates see: the report's sentences and cells, ready to print.

use serde::Serialize;

use crate::format::{p_value, percent, quantity, signed_percent, together};
use crate::model::{CampaignInfo, Unit, unit_of};
use crate::report::{Report, Row, Status};

/// The report prepared for printing.
#[derive(Debug, Serialize)]
pub struct View<'a> {
    /// The sentence on top.
    pub title: String,
    /// States that occur, with their counts.
    pub summary: Vec<SummaryLine>,
    /// Rows worth showing each: everything but untouched, skipped, ignored and archived.
    pub rows: Vec<RowView<'a>>,
    /// The remaining rows.
    pub quiet_rows: Vec<RowView<'a>>,
    /// Branch, commit and campaign of the base.
    pub base: Side<'a>,
    /// The same of the head.
    pub head: Side<'a>,
    /// Whether something should be fixed or acknowledged.
    pub needs_action: bool,
    /// Number of skipped rows.
    pub skipped: usize,
    /// The interval of the headline, if known.
    pub headline_interval: Option<String>,
    /// The noise measured with the same code on both sides, in a sentence.
    pub noise: Option<String>,
    /// How verdicts were reached, in a sentence.
    pub rule: String,
    /// Rows with details to unfold.
    pub has_details: bool,
    /// The report itself, for templates that want its numbers.
    pub report: &'a Report,
}

/// A state and how often it occurs.
#[derive(Debug, Serialize)]
pub struct SummaryLine {
    /// Sign of the state.
    pub symbol: &'static str,
    /// Its word.
    pub word: &'static str,
    /// Number of rows.
    pub count: usize,
    /// "benchmark" or "benchmarks".
    pub noun: &'static str,
}

/// One side of the comparison.
#[derive(Debug, Serialize)]
pub struct Side<'a> {
    /// Branch or tag.
    pub reference: &'a str,
    /// Shortened commit.
    pub commit: &'a str,
    /// Campaign id.
    pub campaign: &'a str,
    /// Branch and commit as people write them.
    pub label: String,
}

/// A row's cells.
#[derive(Debug, Serialize)]
pub struct RowView<'a> {
    /// Sign of the state.
    pub symbol: &'static str,
    /// Its word.
    pub word: &'static str,
    /// Benchmark id.
    pub benchmark: &'a str,
    /// Base value.
    pub base: String,
    /// Head value.
    pub head: String,
    /// Efficiency, or a dash.
    pub efficiency: String,
    /// Interval of the efficiency, or empty.
    pub interval: String,
    /// Corrected p-value, or empty.
    pub p: String,
    /// Blocks or runs.
    pub blocks: usize,
    /// Change of the instruction count, or empty.
    pub counts: String,
    /// The reason.
    pub why: &'a str,
    /// One line per function that changed most.
    pub causes: Vec<String>,
    /// Who decided what, or empty.
    pub decision: String,
    /// Note that the carried baseline is old, or empty.
    pub stale: String,
}

impl<'a> View<'a> {
    /// Prepares a report.
    pub fn of(report: &'a Report) -> Self {
        let shown = |row: &Row| {
            !matches!(row.status, Status::Untouched | Status::Skipped | Status::Ignored | Status::Archived)
        };
        let unit = unit_of(&report.metric);
        let views = |want: bool| -> Vec<RowView<'a>> {
            report.rows.iter().filter(|r| shown(r) == want).map(|r| row(r, unit)).collect()
        };
        let rows = views(true);
        View {
            title: title(report),
            summary: Status::ALL
                .into_iter()
                .map(|status| (status, report.count(status)))
                .filter(|(_, count)| *count > 0)
                .map(|(status, count)| SummaryLine {
                    symbol: status.symbol(),
                    word: status.word(),
                    count,
                    noun: if count == 1 { "benchmark" } else { "benchmarks" },
                })
                .collect(),
            has_details: rows.iter().any(|r| !r.why.is_empty()),
            rows,
            quiet_rows: views(false),
            base: side(&report.base),
            head: side(&report.head),
            needs_action: report.fails(false),
            skipped: report.count(Status::Skipped),
            headline_interval: report
                .headline
                .and_then(|h| h.interval)
                .map(|(low, high)| format!("{} to {}", signed_percent(low), signed_percent(high))),
            noise: report.noise.map(|n| {
                format!(
                    "the same code against itself: ±{} (median of {} benchmarks), {} false alarms",
                    percent(n.half_width),
                    n.benchmarks,
                    n.false_alarms
                )
            }),
            rule: rule(report),
            report,
        }
    }
}

fn title(report: &Report) -> String {
    match report.headline {
        Some(headline) if headline.efficiency < 0.0 => {
            format!("Merging this PR will degrade performance by {}", percent(headline.efficiency))
        }
        Some(headline) => {
            format!("Merging this PR will improve performance by {}", percent(headline.efficiency))
        }
        None if report.count(Status::Unknown) + report.count(Status::Incomparable) > 0 => {
            "Merging this PR has no effect on performance that these measurements can show".to_string()
        }
        None => "Merging this PR will not alter performance".to_string(),
    }
}

fn rule(report: &Report) -> String {
    let policy = &report.policy;
    match policy.rule {
        crate::decide::Rule::Fixed => "fixed threshold on the medians, no test".to_string(),
        crate::decide::Rule::Statistical => format!(
            "{} % intervals over blocks ({} resamples, seed {:#x}), false discovery rate {}, metric {}",
            policy.level * 100.0,
            policy.resamples,
            policy.seed,
            policy.false_discovery_rate,
            report.metric
        ),
    }
}

fn side(info: &CampaignInfo) -> Side<'_> {
    Side { reference: &info.reference, commit: info.short_commit(), campaign: &info.id, label: info.label() }
}

fn row(row: &Row, unit: Unit) -> RowView<'_> {
    let values: Vec<f64> = row.base.into_iter().chain(row.head).collect();
    let mut texts = together(&values, unit).into_iter();
    let mut next = |value: Option<f64>| value.and_then(|_| texts.next()).unwrap_or_else(|| "–".to_string());
    let (base, head) = (next(row.base), next(row.head));
    RowView {
        symbol: row.status.symbol(),
        word: row.status.word(),
        benchmark: &row.benchmark,
        base,
        head,
        efficiency: row.efficiency.map_or_else(|| "–".to_string(), signed_percent),
        interval: row
            .interval
            .map(|(low, high)| format!("{} to {}", signed_percent(low), signed_percent(high)))
            .unwrap_or_default(),
        p: row.p.map(p_value).unwrap_or_default(),
        blocks: row.blocks,
        counts: row.counts_change.map(signed_percent).unwrap_or_default(),
        why: &row.why,
        causes: row
            .causes
            .iter()
            .map(|c| {
                format!(
                    "{}: self cost {} → {} ({} of the total), calls {} → {}",
                    c.function,
                    quantity(c.base, Unit::Count),
                    quantity(c.head, Unit::Count),
                    signed_percent(c.share),
                    c.base_calls,
                    c.head_calls
                )
            })
            .collect(),
        decision: row
            .decision
            .as_ref()
            .map(|d| match &d.until {
                Some(until) => format!("{}: {} (until {until})", d.author, d.reason),
                None => format!("{}: {}", d.author, d.reason),
            })
            .unwrap_or_default(),
        stale: row.stale_days.map(|days| format!("baseline {days} days old")).unwrap_or_default(),
    }
}
