//! Noise around a row: the base against its history, thresholds below the noise, the noise floor.

use std::collections::BTreeMap;

use tallygraph_stats::descriptive::median;
use tallygraph_stats::multiple::benjamini_hochberg;

use super::{Inputs, NoiseFloor, NoiseSummary, Row, WORK_TOLERANCE, stable_hash};
use crate::decide::{Observations, Policy, Verdict, evidence, verdict};
use crate::history::{Point, sanity};
use crate::model::{Campaign, is_exact};

/// Newest campaigns that a base is checked against.
const RECENT: usize = 20;

/// Fewest earlier campaigns from which the noise between campaigns is estimated.
const FEWEST_FOR_NOISE: usize = 5;
/// The reason not to trust the base's stored value, if its history gives one.
///
/// A base measured in the same blocks as the head shares its disturbances and needs no history.
pub(super) fn distrust_base(inputs: &Inputs, row: &mut Row, base: f64, interleaved: bool) -> Option<String> {
    if interleaved {
        return None;
    }
    let key = inputs.base.environment.class_key(is_exact(inputs.metric));
    let counts = inputs.base.benchmarks.get(&row.benchmark).and_then(|m| m.median("Ir"));
    // Where the work is known to have changed since, the older values are of another program.
    let same_work = |p: &Point| match (counts, p.counts) {
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
/// count as noise. The spread of a history is known only roughly: in the published table a report
/// of 40 unchanged rows so judged holds a false alarm in 4 of 100 cases.
pub(super) fn raise_to_noise(inputs: &Inputs, row: &mut Row, interleaved: bool) {
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
            let spread = 1.4826 * median(&steps).unwrap_or(0.0);
            floor = Some(floor.unwrap_or(0.0).max(4.0 * spread));
        }
    }
    row.noise_floor = floor.map(f64::exp_m1);
    if let Some(floor) = row.noise_floor.filter(|f| *f > row.threshold) {
        row.threshold = floor;
    }
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
    let summary = median(&widths).map(|half_width| NoiseSummary {
        benchmarks: widths.len(),
        false_alarms,
        half_width: half_width.exp_m1(),
    });
    NoiseFloor { half_widths, summary }
}
