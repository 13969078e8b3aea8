//! The report: base against head, row by row, and what follows from it.
//!
//! [`build`] is a pure function of two campaigns and what is known besides: decisions of people,
//! the history, the noise floor, profiles. The vocabulary is [`Status`]; the headline is the
//! geometric mean of the speed ratios of the *changed* rows, so that untouched ones don't dilute
//! it. Rows people have accepted or excluded are not part of the headline.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tallygraph_stats::multiple::benjamini_hochberg;

use crate::cause::{FunctionDelta, ProfileSource, difference};
use crate::date::days_between;
use crate::decide::{
    Evidence, Exactness, Observations, Policy, Rule, Verdict, default_threshold, efficiency, evidence,
    exactness, fixed_verdict, verdict,
};
use crate::decisions::{Decision, Decisions, Kind};
use crate::fingerprint::Mismatch;
use crate::format::{p_value, signed_percent};
use crate::history::{History, Sanity, sanity};
use crate::model::{Campaign, CampaignInfo, Measured, Purpose, is_exact};

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

/// Newest campaigns that a base is checked against.
const RECENT: usize = 20;

/// Fewest earlier campaigns from which the noise between campaigns is estimated.
const FEWEST_FOR_NOISE: usize = 5;

/// Functions listed per changed row.
const CAUSES_PER_ROW: usize = 3;

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
        let (row, found) = row(inputs, id, !mismatches.is_empty());
        if let Some(found) = found {
            judged.push((rows.len(), found));
        }
        rows.push(row);
    }
    // The correction needs every test of the report, so verdicts come after all evidence.
    let p: Vec<f64> = judged.iter().map(|(_, e)| e.p.unwrap_or(1.0)).collect();
    for ((index, found), adjusted) in judged.iter().zip(benjamini_hochberg(&p)) {
        apply_evidence(&mut rows[*index], found, adjusted, inputs.policy);
    }
    for row in &mut rows {
        finish(row, inputs);
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
        headline: headline(&rows),
        noise: inputs.noise.summary,
        warnings: warnings(inputs, &rows),
        mismatches,
        rows,
    }
}

/// A row before people's decisions, and the evidence still to be corrected for multiplicity.
fn row(inputs: &Inputs, id: &str, incomparable: bool) -> (Row, Option<Evidence>) {
    let metric = inputs.metric;
    let empty = Measured::default();
    let base = inputs.base.benchmarks.get(id).unwrap_or(&empty);
    let head = inputs.head.benchmarks.get(id).unwrap_or(&empty);
    let threshold = head
        .setting
        .threshold
        .or(base.setting.threshold)
        .unwrap_or_else(|| default_threshold(inputs.policy, metric));
    let mut row = Row {
        benchmark: id.to_string(),
        status: Status::Untouched,
        base: base.median(metric),
        head: head.median(metric),
        efficiency: None,
        interval: None,
        p: None,
        blocks: 0,
        threshold,
        noise_floor: None,
        counts_change: counts_change(base, head, metric),
        base_sanity: None,
        why: String::new(),
        causes: Vec::new(),
        decision: None,
        stale_days: None,
    };
    let (b, h) = match (row.base, row.head) {
        (Some(b), Some(h)) => (b, h),
        (Some(b), None) => {
            row.status = Status::Skipped;
            row.head = Some(b);
            row.why = match &head.problem {
                Some(problem) => format!("not measured: {problem}"),
                None => "not part of the head's campaign".to_string(),
            };
            let age = days_between(&inputs.base.info.started, inputs.today);
            row.stale_days = age.filter(|&days| days > inputs.policy.stale_days);
            return (row, None);
        }
        _ => {
            row.status = Status::New;
            row.why = match &base.problem {
                Some(problem) => format!("no baseline: {problem}"),
                None => "not in the base".to_string(),
            };
            return (row, None);
        }
    };
    if incomparable {
        row.status = Status::Incomparable;
        row.why = "the environments differ".to_string();
        return (row, None);
    }
    row.efficiency = Some(efficiency(b, h));
    let interleaved = inputs.base.info.session == inputs.head.info.session
        && inputs.base.info.id != inputs.head.info.id
        && !inputs.base.info.session.is_empty();
    let observations = Observations::of(base, head, metric, interleaved);
    row.blocks = if interleaved {
        observations.blocks.len()
    } else {
        observations.base.len().min(observations.head.len())
    };
    if inputs.policy.rule == Rule::Fixed {
        row.status = status_of(fixed_verdict(b, h, threshold));
        row.why = format!("medians against a fixed threshold of {}", crate::format::percent(threshold));
        return (row, None);
    }
    let mut demoted = String::new();
    if is_exact(metric) {
        match exactness(&observations) {
            Some(Exactness::Exact { base, head }) => {
                row.status = status_of(fixed_verdict(base, head, threshold));
                row.why = format!("counts compared, threshold {}", crate::format::percent(threshold));
                return (row, None);
            }
            Some(Exactness::Demoted { spread }) => {
                demoted = format!(
                    "repeated counts differ by {}, so the count is treated as noisy: ",
                    crate::format::percent(spread)
                );
            }
            None => {}
        }
    }
    if let Some(reason) = distrust_base(inputs, &mut row, b, interleaved) {
        row.status = Status::Unknown;
        row.why = reason;
        return (row, None);
    }
    raise_to_noise(inputs, &mut row, interleaved);
    match evidence(&observations, inputs.policy, stable_hash(id)) {
        Ok(found) => {
            row.why = demoted;
            (row, Some(found))
        }
        Err(reason) => {
            row.status = Status::Unknown;
            row.why = format!("{demoted}{reason}");
            (row, None)
        }
    }
}

/// The reason not to trust the base's stored value, if its history gives one.
///
/// A base measured in the same blocks as the head shares its disturbances and needs no history.
fn distrust_base(inputs: &Inputs, row: &mut Row, base: f64, interleaved: bool) -> Option<String> {
    if interleaved {
        return None;
    }
    let key = inputs.base.environment.class_key(is_exact(inputs.metric));
    let counts = inputs.base.benchmarks.get(&row.benchmark).and_then(|m| m.median("Ir"));
    // Where the work is known to have changed since, the older values are of another program.
    let same_work = |p: &crate::history::Point| match (counts, p.counts) {
        (Some(a), Some(b)) => (a / b - 1.0).abs() <= WORK_TOLERANCE,
        _ => true,
    };
    let others: Vec<f64> = inputs
        .history
        .series(&row.benchmark, inputs.metric)
        .iter()
        .filter(|p| p.campaign != inputs.base.info.id && p.campaign != inputs.head.info.id)
        .filter(|p| (p.environment == key || p.environment.is_empty()) && same_work(p))
        .rev()
        .take(RECENT)
        .map(|p| p.value)
        .collect();
    row.base_sanity = sanity(base, &others, row.threshold);
    let check = row.base_sanity.filter(|c| c.outlier)?;
    Some(format!(
        "the base is an outlier of its own history ({:.1} times the median of {} campaigns); measure it again",
        check.ratio, check.others
    ))
}

/// Raises the threshold to the measured noise: of the same code against itself, or of the history.
///
/// Between campaigns on one machine four robust standard deviations of the steps of the history
/// count as noise: at that distance a report of 40 unchanged rows holds a false alarm in less than
/// one of a hundred cases.
fn raise_to_noise(inputs: &Inputs, row: &mut Row, interleaved: bool) {
    let mut floor = inputs.noise.half_widths.get(&row.benchmark).copied();
    if !interleaved {
        let key = inputs.base.environment.class_key(is_exact(inputs.metric));
        let logs: Vec<f64> = inputs
            .history
            .series(&row.benchmark, inputs.metric)
            .iter()
            .filter(|p| p.value > 0.0 && p.campaign != inputs.head.info.id && p.environment == key)
            .map(|p| p.value.ln())
            .collect();
        if logs.len() >= FEWEST_FOR_NOISE {
            let steps: Vec<f64> = logs.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
            let spread = 1.4826 * tallygraph_stats::descriptive::median(&steps).unwrap_or(0.0);
            floor = Some(floor.unwrap_or(0.0).max(4.0 * spread));
        }
    }
    row.noise_floor = floor.map(f64::exp_m1);
    if let Some(floor) = row.noise_floor.filter(|f| *f > row.threshold) {
        row.threshold = floor;
    }
}

fn apply_evidence(row: &mut Row, found: &Evidence, adjusted: f64, policy: &Policy) {
    row.efficiency = Some(found.effect.exp_m1());
    row.interval = Some((found.low.exp_m1(), found.high.exp_m1()));
    row.p = Some(adjusted);
    row.blocks = found.blocks;
    let verdict = verdict(found, adjusted, row.threshold, policy);
    row.status = status_of(verdict);
    let changed = matches!(verdict, Verdict::Regressed | Verdict::Improved);
    if changed && !found.interleaved && row.noise_floor.is_none() && !policy.trust_sequential {
        row.status = Status::Unknown;
        row.why.push_str(
            "measured one after the other, and nothing tells how far two campaigns of the same code lie apart; \
             without that: ",
        );
    }
    let limits = crate::format::percent(row.threshold);
    let interval =
        format!("{} to {}", signed_percent(found.low.exp_m1()), signed_percent(found.high.exp_m1()));
    row.why.push_str(&match verdict {
        Verdict::Regressed | Verdict::Improved => {
            format!("interval {interval} beyond ±{limits}, p {}", p_value(adjusted))
        }
        Verdict::Unchanged => format!("interval {interval} within ±{limits}"),
        Verdict::Unknown => {
            format!(
                "interval {interval}, p {}: neither beyond nor within ±{limits}; more blocks would tell",
                p_value(adjusted)
            )
        }
    });
    if found.set_aside > 0 {
        row.why.push_str(&format!(" ({} runs set aside as spikes)", found.set_aside));
    }
}

fn status_of(verdict: Verdict) -> Status {
    match verdict {
        Verdict::Regressed => Status::Regressed,
        Verdict::Improved => Status::Improved,
        Verdict::Unchanged => Status::Untouched,
        Verdict::Unknown => Status::Unknown,
    }
}

/// Applies identity, control, causes and people's decisions to a judged row.
fn finish(row: &mut Row, inputs: &Inputs) {
    let id = row.benchmark.clone();
    let metric = inputs.metric;
    let changed = |row: &Row| matches!(row.status, Status::Regressed | Status::Improved);
    let base = inputs.base.benchmarks.get(&id);
    let head = inputs.head.benchmarks.get(&id);
    if changed(row) {
        let identity = |m: Option<&Measured>| m.and_then(|m| m.setting.identity.clone());
        let same_files = identity(base).is_some() && identity(base) == identity(head);
        // Equal files alone prove little: a library or a module they load may differ. Equal
        // instruction counts on top leave no room.
        if same_files && row.counts_change == Some(0.0) {
            // Nothing changed, so a verdict of change is noise by definition.
            row.status = Status::Untouched;
            row.why = format!(
                "both sides ran the same program with the same instruction count, so this is noise or the machine; {}",
                row.why
            );
        } else if let Some(change) = row.counts_change {
            row.why = format!("{}; {}", row.why, control_sentence(change, row.efficiency.unwrap_or(0.0)));
        }
    }
    if changed(row)
        && let (Some(a), Some(b)) =
            (base.and_then(|m| m.profile.as_deref()), head.and_then(|m| m.profile.as_deref()))
    {
        match (inputs.profiles.functions(a), inputs.profiles.functions(b)) {
            (Ok(a), Ok(b)) => row.causes = difference(&a, &b).into_iter().take(CAUSES_PER_ROW).collect(),
            (Err(problem), _) | (_, Err(problem)) => row.why = format!("{}; no profile: {problem}", row.why),
        }
    }
    let find = |kind| inputs.decisions.find(kind, &id, metric, inputs.today).cloned();
    if let Some(decision) = find(Kind::Ignore) {
        row.status = Status::Ignored;
        row.decision = Some(decision);
    } else if row.status == Status::Skipped
        && let Some(decision) = find(Kind::Archive)
    {
        row.status = Status::Archived;
        row.decision = Some(decision);
    } else if row.status == Status::Regressed
        && let Some(decision) = find(Kind::Acknowledge)
        && decision.at_worst.is_none_or(|worst| row.efficiency.unwrap_or(-1.0) >= worst)
    {
        row.status = Status::Acknowledged;
        row.decision = Some(decision);
    }
}

/// What the instruction count says about a changed time.
fn control_sentence(counts_change: f64, efficiency: f64) -> String {
    let change = signed_percent(counts_change);
    if counts_change.abs() <= WORK_TOLERANCE {
        format!("same work (Ir {change}): environment or micro-architecture, not the work done")
    } else if (counts_change > 0.0) == (efficiency < 0.0) {
        format!("the work moved too (Ir {change}): code")
    } else {
        format!("the work moved the other way (Ir {change})")
    }
}

fn counts_change(base: &Measured, head: &Measured, metric: &str) -> Option<f64> {
    if is_exact(metric) {
        return None;
    }
    let (b, h) = (base.median("Ir")?, head.median("Ir")?);
    (b > 0.0).then(|| h / b - 1.0)
}

/// The geometric mean over changed rows; intervals of rows are taken as independent.
fn headline(rows: &[Row]) -> Option<Headline> {
    let changed: Vec<&Row> = rows
        .iter()
        .filter(|r| matches!(r.status, Status::Regressed | Status::Improved) && r.efficiency.is_some())
        .collect();
    if changed.is_empty() {
        return None;
    }
    let n = changed.len() as f64;
    let centre = changed.iter().filter_map(|r| r.efficiency).map(f64::ln_1p).sum::<f64>() / n;
    let half_widths: Vec<f64> = changed
        .iter()
        .filter_map(|r| r.interval)
        .map(|(low, high)| 0.5 * (high.ln_1p() - low.ln_1p()))
        .collect();
    let interval = (half_widths.len() == changed.len()).then(|| {
        let half = half_widths.iter().map(|w| w * w).sum::<f64>().sqrt() / n;
        ((centre - half).exp_m1(), (centre + half).exp_m1())
    });
    Some(Headline { efficiency: centre.exp_m1(), interval, rows: changed.len() })
}

fn warnings(inputs: &Inputs, rows: &[Row]) -> Vec<String> {
    let (base, head) = (&inputs.base.info, &inputs.head.info);
    let mut warnings = Vec::new();
    let judged = rows.iter().any(|r| r.interval.is_some());
    if judged && base.session != head.session {
        warnings.push(
            "Base and head were not measured interleaved: what the machine did between the two campaigns is not in the intervals."
                .to_string(),
        );
    }
    let of_one_process = |campaign: &Campaign| {
        campaign
            .benchmarks
            .values()
            .any(|m| m.setting.tool == "criterion" && m.values(inputs.metric).len() > 1)
    };
    if judged && (of_one_process(inputs.base) || of_one_process(inputs.head)) {
        warnings.push(
            "Samples of criterion are batches of one process, not independent runs: intervals are too narrow."
                .to_string(),
        );
    }
    if head.dirty {
        warnings.push("The head had uncommitted changes.".to_string());
    }
    if base.dirty {
        warnings.push("The base had uncommitted changes.".to_string());
    }
    if !base.commit.is_empty() && base.commit == head.commit && !head.dirty && !base.dirty {
        warnings.push("Base and head are the same commit.".to_string());
    }
    warnings
}

/// The noise floor from a session whose two sides were the same code.
pub fn noise_floor(base: &Campaign, head: &Campaign, metric: &str, policy: &Policy) -> NoiseFloor {
    let mut half_widths = BTreeMap::new();
    let mut found = Vec::new();
    for (id, measured) in &base.benchmarks {
        let Some(other) = head.benchmarks.get(id) else { continue };
        let observations = Observations::of(measured, other, metric, base.info.session == head.info.session);
        if let Ok(evidence) = evidence(&observations, policy, stable_hash(id)) {
            half_widths.insert(id.clone(), evidence.half_width());
            found.push((evidence, measured.setting.threshold.unwrap_or(policy.threshold)));
        }
    }
    let p: Vec<f64> = found.iter().map(|(e, _)| e.p.unwrap_or(1.0)).collect();
    let false_alarms = found
        .iter()
        .zip(benjamini_hochberg(&p))
        .filter(|((e, t), p)| matches!(verdict(e, *p, *t, policy), Verdict::Regressed | Verdict::Improved))
        .count();
    let widths: Vec<f64> = half_widths.values().copied().collect();
    let summary = tallygraph_stats::descriptive::median(&widths).map(|half_width| NoiseSummary {
        benchmarks: widths.len(),
        false_alarms,
        half_width: half_width.exp_m1(),
    });
    NoiseFloor { half_widths, summary }
}

/// A hash of a name that is the same in every version and on every machine (FNV-1a).
pub fn stable_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
