//! What was measured: campaigns, benchmarks, metrics, samples.
//!
//! A *campaign* is one session of measuring one state of the code. It holds, for each benchmark
//! and metric, one *sample* per process run, with the *block* of time it was taken in. Two
//! campaigns with the same `session` were measured interleaved, and their equal block numbers
//! mean the same stretch of time. Every value is kept; medians are computed, never stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tallygraph_stats::descriptive;

use crate::fingerprint::Fingerprint;

/// What a metric's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Time; values are in seconds.
    Seconds,
    /// Memory; values are in bytes.
    Bytes,
    /// A number of things.
    Count,
}

/// Metrics whose two runs of the same program must agree to the digit.
const EXACT_METRICS: &[&str] = &[
    "Ir",
    "Dr",
    "Dw",
    "I1mr",
    "D1mr",
    "D1mw",
    "ILmr",
    "DLmr",
    "DLmw",
    "Bc",
    "Bcm",
    "Bi",
    "Bim",
    "Ge",
    "sysCount",
    "calls",
    "allocations",
];

/// The unit of a metric by its name.
pub fn unit_of(metric: &str) -> Unit {
    match metric {
        "wall" | "user" | "system" | "steal" => Unit::Seconds,
        "max_rss" => Unit::Bytes,
        _ => Unit::Count,
    }
}

/// Whether repetitions of a metric are expected to be equal, so that no test is needed.
pub fn is_exact(metric: &str) -> bool {
    EXACT_METRICS.contains(&metric)
}

/// One process run's value of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The block of time; runs of one block are neighbours.
    pub block: u32,
    /// Place within the block, over both sides.
    pub position: u32,
    /// Whether the run only warmed the machine up; kept as evidence, not used for estimates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_up: bool,
    /// The value, in the metric's unit.
    pub value: f64,
}

/// What is known about how a benchmark was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// The command line, arguments separated by spaces.
    pub command: String,
    /// Name of the tool in the matrix.
    pub tool: String,
    /// Name of the configuration in the matrix.
    pub config: String,
    /// Whether another profiler watched the measured process.
    pub profiled: bool,
    /// Whether the tool simulated caches.
    pub cache_simulation: bool,
    /// Threshold for this benchmark, if its definition sets one (0.05 for 5 %).
    pub threshold: Option<f64>,
    /// What ran: a digest of command line, configuration and the content of the files it names.
    pub identity: Option<String>,
    /// Process runs averaged into one sample, where single ones are too short; 0 is 1.
    pub runs_per_sample: u32,
}

/// Everything measured of one benchmark in one campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// How it was run.
    pub setting: Setting,
    /// Samples by metric, in the order taken.
    pub metrics: BTreeMap<String, Vec<Sample>>,
    /// Path of its profile, relative to the store's directory.
    pub profile: Option<String>,
    /// Why there are no samples (tool missing, timeout, wrong output), if so.
    pub problem: Option<String>,
}

impl Measured {
    /// The values that count, without warm-up runs.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.samples(metric).map(|s| s.value).collect()
    }

    /// The samples that count, without warm-up runs.
    pub fn samples(&self, metric: &str) -> impl Iterator<Item = &Sample> {
        self.metrics.get(metric).into_iter().flatten().filter(|s| !s.warm_up)
    }

    /// The headline value: the median over runs.
    pub fn median(&self, metric: &str) -> Option<f64> {
        descriptive::median(&self.values(metric))
    }
}

/// Why a campaign was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To know how fast the code is.
    #[default]
    Measure,
    /// To know the noise: both sides of its session are the same code.
    NoiseFloor,
    /// Brought in from another tool's results.
    Imported,
}

/// Which code was measured, when and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CampaignInfo {
    /// Unique name of the campaign.
    pub id: String,
    /// Campaigns measured interleaved share this; otherwise it is the campaign's own id.
    pub session: String,
    /// Branch or tag.
    pub reference: String,
    /// Full commit hash, empty if unknown.
    pub commit: String,
    /// Whether the work tree had uncommitted changes.
    pub dirty: bool,
    /// Start in UTC, as 2026-05-29T10:00:00Z.
    pub started: String,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Why it was measured.
    pub purpose: Purpose,
    /// Version of the measuring program.
    pub measured_with: String,
}

impl CampaignInfo {
    /// The commit shortened to seven digits.
    pub fn short_commit(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }

    /// Branch and commit as people write them, `main (ae9ee5c)`; without a commit the campaign's id.
    pub fn label(&self) -> String {
        let inside = if self.commit.is_empty() { &self.id } else { self.short_commit() };
        format!("{} ({inside})", self.reference)
    }
}

/// One session of measuring one state of the code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Campaign {
    /// Which code, when and how.
    pub info: CampaignInfo,
    /// Where.
    pub environment: Fingerprint,
    /// Results by benchmark id.
    pub benchmarks: BTreeMap<String, Measured>,
}
