//! The report: base against head, row by row, and what follows from it.
//!
//! [`build`] is a pure function of two campaigns and what is known besides: decisions of people,
//! the history, the noise floor, profiles. The vocabulary is [`Status`]; the headline is the
//! geometric mean of the speed ratios of the *changed* rows, so that untouched ones don't dilute
//! it. Rows people have accepted or excluded are not part of the headline.

mod noise;
mod row;
mod summary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tallygraph_stats::multiple::benjamini_hochberg;

use crate::cause::{FunctionDelta, ProfileSource};
use crate::decide::{Evidence, Policy};
use crate::decisions::{Decision, Decisions};
use crate::fingerprint::Mismatch;
use crate::history::{History, Sanity};
use crate::model::{Campaign, CampaignInfo, Purpose, is_exact};

pub use noise::noise_floor;

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Slower, not accepted by anyone.
    Regressed,
    /// Faster.
    Improved,
    /// The data do not decide.
    Unknown,
    /// The environments differ where it matters.
    Incomparable,
    /// A regression someone accepted.
    Acknowledged,
    /// Not in the base.
    New,
    /// The same within the threshold.
    Untouched,
    /// Not measured on the head; the base's value is carried.
    Skipped,
    /// Measured but not judged, by decision.
    Ignored,
    /// Gone, by decision.
    Archived,
}

impl Status {
    /// All states, in the order of the report.
    pub const ALL: [Status; 10] = [
        Status::Improved,
        Status::Regressed,
        Status::Untouched,
        Status::Skipped,
        Status::New,
        Status::Acknowledged,
        Status::Ignored,
        Status::Archived,
        Status::Unknown,
        Status::Incomparable,
    ];

    /// Its sign.
    pub fn symbol(self) -> &'static str {
        match self {
            Status::Regressed => "❌",
            Status::Improved => "⚡",
            Status::Untouched => "✅",
            Status::Skipped => "⏩",
            Status::New => "🆕",
            Status::Archived => "🗄",
            Status::Ignored => "🙈",
            Status::Acknowledged => "☑",
            Status::Unknown => "❓",
            Status::Incomparable => "⚠",
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Status::Regressed => "regressed",
            Status::Improved => "improved",
            Status::Untouched => "untouched",
            Status::Skipped => "skipped",
            Status::New => "new",
            Status::Archived => "archived",
            Status::Ignored => "ignored",
            Status::Acknowledged => "acknowledged",
            Status::Unknown => "unknown",
            Status::Incomparable => "incomparable",
        }
    }
}

/// One benchmark of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The benchmark's id.
    pub benchmark: String,
    /// Its state.
    pub status: Status,
    /// Median of the base.
    pub base: Option<f64>,
    /// Median of the head; of a skipped row the base's, carried.
    pub head: Option<f64>,
    /// base/head − 1: of the estimated effect where there is one, else of the medians.
    pub efficiency: Option<f64>,
    /// Ends of the efficiency's interval.
    pub interval: Option<(f64, f64)>,
    /// p-value corrected over the report.
    pub p: Option<f64>,
    /// Blocks or runs per side behind the verdict.
    pub blocks: usize,
    /// The threshold applied.
    pub threshold: f64,
    /// Half-width of the noise measured for this benchmark, if it was.
    pub noise_floor: Option<f64>,
    /// Relative change of the instruction count, the noise-free control.
    pub counts_change: Option<f64>,
    /// The base against its history.
    pub base_sanity: Option<Sanity>,
    /// Reason in one sentence.
    pub why: String,
    /// Functions that differ most between the two profiles.
    pub causes: Vec<FunctionDelta>,
    /// The decision that shaped the state.
    pub decision: Option<Decision>,
    /// Age in days of a carried baseline, when stale.
    pub stale_days: Option<i64>,
}

/// The changed rows together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// Geometric mean of base/head over the changed rows, less 1.
    pub efficiency: f64,
    /// Its interval, where every changed row has one.
    pub interval: Option<(f64, f64)>,
    /// Number of changed rows.
    pub rows: usize,
}

/// What a session with the same code on both sides showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseSummary {
    /// Benchmarks measured against themselves.
    pub benchmarks: usize,
    /// How many of them the rule called changed.
    pub false_alarms: usize,
    /// Median half-width of their intervals, relative.
    pub half_width: f64,
}

/// Base against head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this structure.
    pub schema: u32,
    /// The base campaign.
    pub base: CampaignInfo,
    /// The head campaign.
    pub head: CampaignInfo,
    /// The metric compared.
    pub metric: String,
    /// The settings of the decision.
    pub policy: Policy,
    /// The changed rows together, if any.
    pub headline: Option<Headline>,
    /// The noise floor's summary, if one was measured.
    pub noise: Option<NoiseSummary>,
    /// Facts of the environments that differ and matter.
    pub mismatches: Vec<Mismatch>,
    /// Things a reader should know before trusting the report.
    pub warnings: Vec<String>,
    /// All rows: changed ones first, larger effects first.
    pub rows: Vec<Row>,
}

impl Report {
    /// Rows in a state.
    pub fn with_status(&self, status: Status) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |r| r.status == status)
    }

    /// Number of rows in a state.
    pub fn count(&self, status: Status) -> usize {
        self.with_status(status).count()
    }

    /// Whether the report should stop a merge: a regression nobody acknowledged, or with `strict`
    /// also an undecided or incomparable row.
    pub fn fails(&self, strict: bool) -> bool {
        self.count(Status::Regressed) > 0
            || (strict && self.count(Status::Unknown) + self.count(Status::Incomparable) > 0)
    }
}

/// Noise measured with the same code on both sides, by benchmark: half-width on the log scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NoiseFloor {
    /// Half-widths by benchmark.
    pub half_widths: BTreeMap<String, f64>,
    /// The summary for the report's header.
    pub summary: Option<NoiseSummary>,
}

/// Everything a report is made from.
pub struct Inputs<'a> {
    /// The campaign compared with.
    pub base: &'a Campaign,
    /// The campaign judged.
    pub head: &'a Campaign,
    /// The metric compared.
    pub metric: &'a str,
    /// The settings of the decision.
    pub policy: &'a Policy,
    /// What people decided.
    pub decisions: &'a Decisions,
    /// Earlier campaigns, for the sanity of the base.
    pub history: &'a History,
    /// Noise measured, see [`noise_floor`].
    pub noise: &'a NoiseFloor,
    /// Where profiles are read.
    pub profiles: &'a dyn ProfileSource,
    /// Today, as 2027-03-31; decides what has expired.
    pub today: &'a str,
}
/// The smallest relative change of an instruction count that means other work was done.
pub const WORK_TOLERANCE: f64 = 0.001;
/// Compares base and head.
pub fn build(inputs: &Inputs) -> Report {
    let (base, head) = (inputs.base, inputs.head);
    let metric = inputs.metric;
    let imported = base.info.purpose == Purpose::Imported || head.info.purpose == Purpose::Imported;
    let mismatches =
        if imported { Vec::new() } else { base.environment.prevents(&head.environment, is_exact(metric)) };
    let mut rows = Vec::new();
    let mut judged: Vec<(usize, Evidence)> = Vec::new();
    let ids: std::collections::BTreeSet<&String> = base
        .benchmarks
        .iter()
        .chain(&head.benchmarks)
        .filter(|(_, m)| m.median(metric).is_some())
        .map(|(id, _)| id)
        .collect();
    for id in ids {
        let (row, found) = row::examine(inputs, id, !mismatches.is_empty());
        if let Some(found) = found {
            judged.push((rows.len(), found));
        }
        rows.push(row);
    }
    // The correction needs every test of the report, so verdicts come after all evidence.
    let p: Vec<f64> = judged.iter().map(|(_, e)| e.p.unwrap_or(1.0)).collect();
    for ((index, found), adjusted) in judged.iter().zip(benjamini_hochberg(&p)) {
        row::apply_evidence(&mut rows[*index], found, adjusted, inputs.policy);
    }
    for row in &mut rows {
        row::finish(row, inputs);
    }
    rows.sort_by(|a, b| {
        let size = |r: &Row| r.efficiency.map_or(0.0, |e| e.ln_1p().abs());
        a.status.cmp(&b.status).then(size(b).total_cmp(&size(a))).then(a.benchmark.cmp(&b.benchmark))
    });
    Report {
        schema: 1,
        base: base.info.clone(),
        head: head.info.clone(),
        metric: metric.to_string(),
        policy: *inputs.policy,
        headline: summary::headline(&rows),
        noise: inputs.noise.summary,
        warnings: summary::warnings(inputs, &rows),
        mismatches,
        rows,
    }
}
/// A hash of a name that is the same in every version and on every machine (FNV-1a).
pub fn stable_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
