//! One row: from the samples of a benchmark to its state and the reason for it.

use super::{Inputs, Row, Status, WORK_TOLERANCE, noise, stable_hash};
use crate::cause::difference;
use crate::date::days_between;
use crate::decide::{
    Evidence, Exactness, Observations, Policy, Rule, Verdict, default_threshold, efficiency, evidence,
    exactness, fixed_verdict, verdict,
};
use crate::decisions::Kind;
use crate::format::{p_value, signed_percent};
use crate::model::{Measured, is_exact};

/// Functions listed per changed row.
const CAUSES_PER_ROW: usize = 3;
/// A row before people's decisions, and the evidence still to be corrected for multiplicity.
pub(super) fn examine(inputs: &Inputs, id: &str, incomparable: bool) -> (Row, Option<Evidence>) {
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
    if let Some(reason) = noise::distrust_base(inputs, &mut row, b, interleaved) {
        row.status = Status::Unknown;
        row.why = reason;
        return (row, None);
    }
    noise::raise_to_noise(inputs, &mut row, interleaved);
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

pub(super) fn apply_evidence(row: &mut Row, found: &Evidence, adjusted: f64, policy: &Policy) {
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
pub(super) fn finish(row: &mut Row, inputs: &Inputs) {
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
