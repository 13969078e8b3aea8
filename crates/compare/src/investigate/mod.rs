//! Why results flicker: evidence from earlier campaigns, root causes, what would help.
//!
//! An investigation reads the campaigns of one benchmark. It lists the value of each, checks base
//! and head against that history, compares the work done (instruction counts, calls) with the time
//! taken, and asks the rules in `causes.toml` which root causes fit the resulting facts. Its
//! conclusion is one sentence, and "cannot tell" is one of them.

mod facts;
mod render;
pub mod rules;

pub use render::{json, markdown};

use serde::{Deserialize, Serialize};
use tallygraph_stats::descriptive::median;

use crate::cause::{FunctionCosts, FunctionDelta, difference};
use crate::history::{History, Point, Sanity, sanity};
use crate::model::Campaign;
use rules::{Cause, Facts, Mitigation, Rules};

/// What is investigated.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The benchmark.
    pub benchmark: &'a str,
    /// The metric.
    pub metric: &'a str,
    /// All campaigns, oldest first.
    pub campaigns: &'a [&'a Campaign],
    /// Id of the base's campaign, if a comparison is the occasion.
    pub base: Option<&'a str>,
    /// Id of the head's campaign.
    pub head: Option<&'a str>,
    /// Change that matters.
    pub threshold: f64,
    /// Costs by function of a normal and of an outlying campaign.
    pub profiles: Option<(&'a FunctionCosts, &'a FunctionCosts)>,
}

/// One campaign in the table of an investigation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The campaign.
    pub campaign: String,
    /// Branch or tag.
    pub reference: String,
    /// Commit.
    pub commit: String,
    /// Start.
    pub time: String,
    /// Median over its runs.
    pub value: f64,
    /// The value over the median of all campaigns.
    pub ratio: f64,
    /// Number of runs.
    pub runs: usize,
    /// `base`, `head` or empty.
    pub role: String,
}

/// What the evidence amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value flickers for reasons outside the code.
    Noise,
    /// The base's value is not to be trusted.
    BaseOutlier,
    /// The same work takes another time.
    Environment,
    /// The work itself changed.
    Code,
    /// Nothing moved.
    Nothing,
    /// The data do not tell.
    CannotTell,
}

/// An investigation's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Investigation {
    /// Version of this structure.
    pub schema: u32,
    /// The benchmark.
    pub benchmark: String,
    /// The metric.
    pub metric: String,
    /// The campaigns.
    pub lines: Vec<Line>,
    /// The base against the other campaigns.
    pub base_sanity: Option<Sanity>,
    /// The head against the other campaigns.
    pub head_sanity: Option<Sanity>,
    /// The facts the rules looked at.
    pub facts: Facts,
    /// Functions that differ between a normal and an outlying campaign.
    pub functions: Vec<FunctionDelta>,
    /// Whether both profiles made the same calls.
    pub calls_equal: Option<bool>,
    /// Root causes that fit, the surest first.
    pub causes: Vec<Cause>,
    /// What would help.
    pub mitigations: Vec<Mitigation>,
    /// The conclusion's kind.
    pub verdict: Verdict,
    /// The conclusion.
    pub conclusion: String,
}

/// Functions listed in an investigation.
const FUNCTIONS: usize = 8;

/// Investigates one benchmark.
pub fn investigate(subject: &Subject, rules: &Rules) -> Investigation {
    let history = History::from_campaigns(subject.campaigns.iter().copied());
    let series = history.series(subject.benchmark, subject.metric);
    let facts = facts::collect(subject, series);
    let causes = rules.apply(&facts);
    let centre = median(&series.iter().map(|p| p.value).collect::<Vec<_>>()).unwrap_or(1.0);
    let lines = series
        .iter()
        .map(|p| Line {
            campaign: p.campaign.clone(),
            reference: p.reference.clone(),
            commit: p.commit.clone(),
            time: p.time.clone(),
            value: p.value,
            ratio: p.value / centre,
            runs: p.runs,
            role: match p.campaign.as_str() {
                id if Some(id) == subject.base => "base".to_string(),
                id if Some(id) == subject.head => "head".to_string(),
                _ => String::new(),
            },
        })
        .collect();
    let check = |id: Option<&str>| id.and_then(|id| sanity_of(series, id, subject.threshold));
    let functions = subject.profiles.map(|(normal, other)| difference(normal, other)).unwrap_or_default();
    let (verdict, conclusion) = conclude(&facts, series);
    Investigation {
        schema: 1,
        benchmark: subject.benchmark.to_string(),
        metric: subject.metric.to_string(),
        lines,
        base_sanity: check(subject.base),
        head_sanity: check(subject.head),
        functions: functions.into_iter().take(FUNCTIONS).collect(),
        calls_equal: subject.profiles.map(calls_equal),
        mitigations: rules.mitigations(&causes),
        causes,
        facts,
        verdict,
        conclusion,
    }
}

/// The campaigns whose profiles are worth comparing: the most typical one and the slowest outlier.
pub fn normal_and_outlier(series: &[Point]) -> Option<(&str, &str)> {
    let typical = typical(&series.iter().map(|p| p.value).collect::<Vec<_>>())?;
    let distance = |p: &Point| (p.value - typical).abs();
    let normal = series.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let outlier = series.iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
    (normal.campaign != outlier.campaign).then_some((normal.campaign.as_str(), outlier.campaign.as_str()))
}

/// A campaign's value against the typical one of the others.
///
/// Disturbances only make runs slower, so a flickering series is judged by the median of its lower
/// half, and only a value above it can be an outlier.
fn sanity_of(series: &[Point], campaign: &str, threshold: f64) -> Option<Sanity> {
    let own = series.iter().find(|p| p.campaign == campaign)?;
    let others: Vec<f64> = series
        .iter()
        .filter(|p| p.campaign != campaign && p.environment == own.environment)
        .map(|p| p.value)
        .collect();
    let check = sanity(own.value, &others, threshold)?;
    let typical = typical(&others)?;
    let ratio = own.value / typical;
    let outlier = ratio > 1.5 || (check.outlier && ratio > 1.0 + threshold);
    Some(Sanity { median: typical, ratio, outlier, ..check })
}

/// The median of the lower half of the values.
fn typical(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    median(&values.iter().copied().filter(|v| *v <= centre).collect::<Vec<_>>())
}

/// Whether two profiles made the same number of calls to every function that costs something.
///
/// Functions below a thousandth of the larger profile's cost are left out: start-up code may take
/// a few calls more or less with the environment.
fn calls_equal((a, b): (&FunctionCosts, &FunctionCosts)) -> bool {
    let total = |costs: &FunctionCosts| costs.values().map(|c| c.self_cost).sum::<f64>();
    let least = total(a).max(total(b)) / 1000.0;
    a.iter().chain(b).filter(|(_, cost)| cost.self_cost >= least).all(|(name, _)| {
        let calls = |costs: &FunctionCosts| costs.get(name).map_or(0, |c| c.calls);
        calls(a) == calls(b)
    })
}

fn conclude(facts: &Facts, series: &[Point]) -> (Verdict, String) {
    let is = |name: &str| facts.get(name).map(|v| *v == 1.0);
    let value = |name: &str| facts.get(name).copied();
    let percent = |name: &str| value(name).map(|v| format!("{v:+.1} %")).unwrap_or_default();
    let flicker = value("spread").unwrap_or(1.0);
    let outlying = value("outlying_campaigns").unwrap_or(0.0);
    let moved = is("time_moved").unwrap_or(flicker > 1.1);
    let steady = value("runs").is_some_and(|r| r >= 5.0) && value("within_percent").is_some_and(|w| w < 5.0);
    if series.len() < 2 {
        return (
            Verdict::CannotTell,
            format!("Cannot tell: {} campaign, and one value has nothing to be compared with.", series.len()),
        );
    }
    if is("base_outlier") == Some(true) {
        return (
            Verdict::BaseOutlier,
            "The base's value is itself an outlier; the change is an artefact of it. Measure the base again."
                .to_string(),
        );
    }
    if moved && is("work_same") == Some(false) {
        let log = |name: &str| (value(name).unwrap_or(0.0) / 100.0).ln_1p();
        let (work, time) = (log("work_change_percent"), log("time_change_percent"));
        // A time that moved many times as far as the work is not explained by it.
        if work * time > 0.0 && time.abs() <= 3.0 * work.abs() + 0.02 {
            return (
                Verdict::Code,
                format!(
                    "Code: the work changed by {} and the time by {}.",
                    percent("work_change_percent"),
                    percent("time_change_percent")
                ),
            );
        }
    }
    let same_work = is("work_same") == Some(true) || is("calls_equal") == Some(true);
    if moved && same_work && steady && flicker < 1.5 {
        return (
            Verdict::Environment,
            "Environment or layout: the same work steadily takes another time; the code does not do more."
                .to_string(),
        );
    }
    if (moved && same_work) || is("head_outlier") == Some(true) || (outlying >= 1.0 && flicker > 1.5) {
        let basis = if same_work {
            "the same work was done".to_string()
        } else {
            format!("the same benchmark varies by a factor of {flicker:.1} between campaigns")
        };
        return (Verdict::Noise, format!("Walltime noise: {basis}; the change is not the cause."));
    }
    if !moved {
        return (Verdict::Nothing, "Nothing to explain: the values agree within the threshold.".to_string());
    }
    let missing = if value("work_change_percent").is_none() {
        "no instruction counts to tell code from environment"
    } else {
        "too few campaigns to know the usual spread"
    };
    (Verdict::CannotTell, format!("Cannot tell: {missing}; n = {} campaigns.", series.len()))
}
