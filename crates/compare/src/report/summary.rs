//! The report as a whole: its headline, and what a reader should know first.

use super::{Headline, Inputs, Row, Status};
use crate::model::Campaign;

/// The geometric mean over changed rows; intervals of rows are taken as independent.
pub(super) fn headline(rows: &[Row]) -> Option<Headline> {
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

pub(super) fn warnings(inputs: &Inputs, rows: &[Row]) -> Vec<String> {
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
