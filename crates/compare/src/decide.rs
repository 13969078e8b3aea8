//! The decision rule: from samples of base and head to one of four verdicts.
//!
//! Effects are on the log scale of the speed ratio base/head: positive is faster, and ln 2 means
//! twice as fast. With samples taken in blocks the effect is the Hodges-Lehmann estimate of the
//! blocks' log ratios, its interval a BCa bootstrap over blocks, and its test the aligned rank sum
//! over the label assignments the blocks could have had. Without blocks the two-sample forms serve.
//!
//! Runs hit by a spike are set aside for the estimate, by a rule that does not look at the labels;
//! the test keeps all runs. The interval's default level of 90 % is that of two one-sided tests
//! at 5 %, the usual form of an equivalence test.
//!
//! - *regressed*, *improved*: the whole interval lies beyond the threshold **and** the test
//!   rejects at the false-discovery rate corrected over the report;
//! - *unchanged*: the whole interval lies within the threshold. "No significant difference" is
//!   not enough: few or noisy samples never prove that nothing changed;
//! - *unknown*: neither. More blocks would tell.
//!
//! Exact metrics (instruction counts) need no test. If repetitions differ after all, the metric is
//! demoted to a noisy one, and the reason says so.

use serde::{Deserialize, Serialize};
use tallygraph_stats::bootstrap::{hodges_lehmann_interval, hodges_lehmann_shift_interval};
use tallygraph_stats::descriptive::{maximum, mean, median, minimum};
use tallygraph_stats::rank::{Block, mann_whitney, stratified_rank_sum};
use tallygraph_stats::{Bootstrap, Interval};

use crate::model::{Measured, is_exact};

/// How verdicts are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Interval and test, four verdicts.
    Statistical,
    /// |base/head − 1| of the medians against the threshold, as services with one sample do.
    Fixed,
}

/// The settings of a decision; recorded in the report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// How verdicts are reached.
    pub rule: Rule,
    /// Relative change that matters, for noisy metrics (0.02 for 2 %).
    pub threshold: f64,
    /// The same for exact metrics.
    pub exact_threshold: f64,
    /// Level of the interval.
    pub level: f64,
    /// Accepted false-discovery rate of the report; with no true change at all, the chance that
    /// the report holds any false alarm.
    pub false_discovery_rate: f64,
    /// Fewest blocks (or runs per side) for a statistical verdict.
    pub min_blocks: usize,
    /// Bootstrap resamples.
    pub resamples: usize,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Whether campaigns measured one after the other may show a change although neither the
    /// history nor a run of the same code against itself tells how far two campaigns lie apart.
    pub trust_sequential: bool,
    /// Age in days from which a carried baseline is called stale.
    pub stale_days: i64,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            rule: Rule::Statistical,
            threshold: 0.02,
            exact_threshold: 0.01,
            level: 0.90,
            false_discovery_rate: 0.01,
            min_blocks: 5,
            resamples: 10_000,
            seed: 0x7a11_96a9,
            trust_sequential: false,
            stale_days: 30,
        }
    }
}

/// What the rule says of one benchmark and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Slower, or more, by more than the threshold.
    Regressed,
    /// Faster, or less, by more than the threshold.
    Improved,
    /// The same within the threshold.
    Unchanged,
    /// The data do not decide.
    Unknown,
}

/// Samples of both sides as the rule sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// Values by block where both sides ran interleaved; otherwise empty.
    pub blocks: Vec<Block>,
    /// All values of the base.
    pub base: Vec<f64>,
    /// All values of the head.
    pub head: Vec<f64>,
}

impl Observations {
    /// The samples of `metric` on both sides; `interleaved` if block numbers correspond.
    pub fn of(base: &Measured, head: &Measured, metric: &str, interleaved: bool) -> Self {
        let mut observations =
            Observations { blocks: Vec::new(), base: base.values(metric), head: head.values(metric) };
        if interleaved {
            let last = base.samples(metric).chain(head.samples(metric)).map(|s| s.block).max();
            for number in 0..=last.unwrap_or(0) {
                let of = |side: &Measured| -> Vec<f64> {
                    side.samples(metric).filter(|s| s.block == number).map(|s| s.value).collect()
                };
                let block = Block { base: of(base), head: of(head) };
                if !block.base.is_empty() && !block.head.is_empty() {
                    observations.blocks.push(block);
                }
            }
        }
        observations
    }
}

/// What the samples say, before a threshold is applied.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// ln(base/head): estimate.
    pub effect: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Two-sided p-value of no difference; `None` for exact metrics.
    pub p: Option<f64>,
    /// Blocks used, or runs on the smaller side without blocks.
    pub blocks: usize,
    /// Whether base and head ran interleaved in the same blocks.
    pub interleaved: bool,
    /// Runs set aside as spikes when estimating the effect.
    pub set_aside: usize,
}

impl Evidence {
    /// Half the width of the interval, on the log scale.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }
}

/// Why there is no evidence to judge.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoEvidence {
    /// Not enough repetitions.
    #[error("{have} of at least {need} {what}")]
    TooFew {
        /// How many there are.
        have: usize,
        /// How many are needed.
        need: usize,
        /// Of what.
        what: &'static str,
    },
    /// A ratio of values that are not positive.
    #[error("values of zero have no ratio")]
    NotPositive,
}

/// Estimates the effect with its interval and p-value.
pub fn evidence(observations: &Observations, policy: &Policy, row_seed: u64) -> Result<Evidence, NoEvidence> {
    let all = observations.base.iter().chain(&observations.head);
    if all.clone().any(|v| *v <= 0.0) {
        return Err(NoEvidence::NotPositive);
    }
    let options = Bootstrap {
        resamples: policy.resamples,
        seed: policy.seed ^ row_seed,
        level: policy.level,
        expand: true,
    };
    let interleaved = !observations.blocks.is_empty();
    let mut set_aside = 0;
    let (interval, p, blocks) = if interleaved {
        let blocks: Vec<Block> =
            observations.blocks.iter().map(|b| Block { base: logs(&b.base), head: logs(&b.head) }).collect();
        enough(blocks.len(), policy.min_blocks, "blocks")?;
        let calm = without_spikes(&blocks);
        let runs = |blocks: &[Block]| blocks.iter().map(|b| b.base.len() + b.head.len()).sum::<usize>();
        set_aside = runs(&blocks) - runs(&calm);
        let effects: Vec<f64> = calm.iter().filter_map(|b| Some(mean(&b.base)? - mean(&b.head)?)).collect();
        (hodges_lehmann_interval(&effects, options), stratified_rank_sum(&blocks), blocks.len())
    } else {
        let (base, head) = (logs(&observations.base), logs(&observations.head));
        let fewer = base.len().min(head.len());
        enough(fewer, policy.min_blocks, "runs on each side")?;
        (hodges_lehmann_shift_interval(&head, &base, options), mann_whitney(&base, &head), fewer)
    };
    let need = policy.min_blocks.max(2);
    let (Some(Interval { estimate, low, high }), Some(test)) = (interval, p) else {
        return Err(NoEvidence::TooFew { have: blocks, need, what: "blocks" });
    };
    Ok(Evidence { effect: estimate, low, high, p: Some(test.p), blocks, interleaved, set_aside })
}

/// The blocks less runs further than five robust standard deviations from their block's median.
///
/// The scale is that of all runs about their block medians. Which side a run belongs to plays no
/// part. If more than a fifth of the runs were to go, wild runs are the nature of this benchmark
/// and all stay.
fn without_spikes(blocks: &[Block]) -> Vec<Block> {
    const LIMIT: f64 = 5.0;
    let residuals = |block: &Block| -> Vec<f64> {
        let all: Vec<f64> = block.base.iter().chain(&block.head).copied().collect();
        let centre = median(&all).unwrap_or(0.0);
        all.iter().map(|v| (v - centre).abs()).collect()
    };
    let all: Vec<f64> = blocks.iter().flat_map(residuals).collect();
    let limit = LIMIT * 1.4826 * median(&all).unwrap_or(0.0);
    let wild = all.iter().filter(|r| **r > limit).count();
    if limit == 0.0 || wild == 0 || wild * 5 > all.len() {
        return blocks.to_vec();
    }
    blocks
        .iter()
        .map(|block| {
            let distances = residuals(block);
            let (base, head) = distances.split_at(block.base.len());
            let keep = |values: &[f64], distances: &[f64]| {
                values.iter().zip(distances).filter(|(_, d)| **d <= limit).map(|(v, _)| *v).collect()
            };
            Block { base: keep(&block.base, base), head: keep(&block.head, head) }
        })
        .collect()
}

fn enough(have: usize, need: usize, what: &'static str) -> Result<(), NoEvidence> {
    // An interval needs two values whatever the policy says.
    let need = need.max(2);
    if have < need { Err(NoEvidence::TooFew { have, need, what }) } else { Ok(()) }
}

fn logs(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| v.ln()).collect()
}

/// The verdict on noisy evidence, with its p-value corrected over the report.
pub fn verdict(evidence: &Evidence, adjusted_p: f64, threshold: f64, policy: &Policy) -> Verdict {
    let bound = threshold.ln_1p();
    let agrees = adjusted_p <= policy.false_discovery_rate;
    if evidence.high < -bound && agrees {
        Verdict::Regressed
    } else if evidence.low > bound && agrees {
        Verdict::Improved
    } else if evidence.low >= -bound && evidence.high <= bound {
        Verdict::Unchanged
    } else {
        Verdict::Unknown
    }
}

/// Whether measuring may stop: the interval's half-width is at most half the threshold.
///
/// The criterion looks at the width only, never at where the interval lies, so stopping by it
/// does not favour either verdict.
pub fn precise_enough(evidence: &Evidence, threshold: f64) -> bool {
    evidence.half_width() <= 0.5 * threshold.ln_1p()
}

/// The fixed rule on the medians: |base/head − 1| above the threshold.
pub fn fixed_verdict(base: f64, head: f64, threshold: f64) -> Verdict {
    let efficiency = efficiency(base, head);
    if efficiency < -threshold {
        Verdict::Regressed
    } else if efficiency > threshold {
        Verdict::Improved
    } else {
        Verdict::Unchanged
    }
}

/// base/head − 1: how much faster the head is. Never below −1.
pub fn efficiency(base: f64, head: f64) -> f64 {
    match (base == 0.0, head == 0.0) {
        (true, true) => 0.0,
        (false, true) => f64::INFINITY,
        _ => base / head - 1.0,
    }
}

/// What repetitions of an exact metric show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exactness {
    /// All repetitions on each side are equal.
    Exact {
        /// The base's value.
        base: f64,
        /// The head's value.
        head: f64,
    },
    /// Repetitions differ by this share of their median; the metric is noisy here.
    Demoted {
        /// (largest − smallest)/median on the worse side.
        spread: f64,
    },
}

/// Checks that a metric that should repeat does.
pub fn exactness(observations: &Observations) -> Option<Exactness> {
    let (base, head) = (median(&observations.base)?, median(&observations.head)?);
    let spread = |values: &[f64], centre: f64| {
        let width = maximum(values)? - minimum(values)?;
        Some(if width == 0.0 { 0.0 } else { width / centre.abs().max(f64::MIN_POSITIVE) })
    };
    let worse = spread(&observations.base, base)?.max(spread(&observations.head, head)?);
    Some(if worse == 0.0 { Exactness::Exact { base, head } } else { Exactness::Demoted { spread: worse } })
}

/// The threshold that applies to a metric unless a benchmark sets its own.
pub fn default_threshold(policy: &Policy, metric: &str) -> f64 {
    if is_exact(metric) { policy.exact_threshold } else { policy.threshold }
}

/// A proposal for a benchmark's threshold from its noise: the larger of 2 % and three half-widths.
pub fn proposed_threshold(noise_half_width: f64) -> f64 {
    (3.0 * noise_half_width.exp_m1()).max(0.02)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interleaved(pairs: &[(f64, f64)]) -> Observations {
        let blocks: Vec<Block> = pairs
            .iter()
            .map(|&(b, h)| Block { base: vec![b, b * 1.001], head: vec![h, h * 0.999] })
            .collect();
        Observations {
            base: blocks.iter().flat_map(|b| b.base.clone()).collect(),
            head: blocks.iter().flat_map(|b| b.head.clone()).collect(),
            blocks,
        }
    }

    fn judge(observations: &Observations, threshold: f64) -> Verdict {
        let policy = Policy { resamples: 2000, ..Policy::default() };
        let evidence = evidence(observations, &policy, 1).unwrap();
        verdict(&evidence, evidence.p.unwrap(), threshold, &policy)
    }

    fn pairs(ratio: f64) -> Vec<(f64, f64)> {
        (0..10)
            .map(|i| 1.0 + 0.1 * f64::from(i % 4))
            .map(|v| (v, v * ratio * (1.0 + 0.001 * (v - 1.1))))
            .collect()
    }

    #[test]
    fn a_clear_slowdown_regresses_and_its_mirror_improves() {
        let slower = interleaved(&pairs(1.05));
        assert_eq!(judge(&slower, 0.02), Verdict::Regressed);
        let mirrored = Observations {
            blocks: slower
                .blocks
                .iter()
                .map(|b| Block { base: b.head.clone(), head: b.base.clone() })
                .collect(),
            base: slower.head.clone(),
            head: slower.base.clone(),
        };
        assert_eq!(judge(&mirrored, 0.02), Verdict::Improved);
    }

    #[test]
    fn a_change_below_the_threshold_is_unchanged_however_certain() {
        assert_eq!(judge(&interleaved(&pairs(1.01)), 0.02), Verdict::Unchanged);
    }

    #[test]
    fn noise_wider_than_the_threshold_is_unknown_not_unchanged() {
        let noisy: Vec<(f64, f64)> =
            (0..8).map(|i| (1.0 + 0.2 * f64::from(i % 3), 1.0 + 0.2 * f64::from((i + 1) % 3))).collect();
        assert_eq!(judge(&interleaved(&noisy), 0.02), Verdict::Unknown);
    }

    #[test]
    fn one_sample_a_side_is_no_evidence() {
        let single = Observations { base: vec![0.7336], head: vec![51.9376], blocks: vec![] };
        let error = evidence(&single, &Policy::default(), 0).unwrap_err();
        assert_eq!(error.to_string(), "1 of at least 5 runs on each side");
    }

    #[test]
    fn zero_has_no_ratio() {
        let zero = Observations { base: vec![0.0; 6], head: vec![1.0; 6], blocks: vec![] };
        assert_eq!(evidence(&zero, &Policy::default(), 0), Err(NoEvidence::NotPositive));
    }

    #[test]
    fn counts_that_repeat_are_exact_and_others_are_demoted() {
        let same = Observations { base: vec![100.0, 100.0], head: vec![103.0, 103.0], blocks: vec![] };
        assert_eq!(exactness(&same), Some(Exactness::Exact { base: 100.0, head: 103.0 }));
        let differs = Observations { base: vec![100.0, 102.0], ..same };
        assert!(matches!(exactness(&differs), Some(Exactness::Demoted { spread }) if spread > 0.019));
    }

    #[test]
    fn efficiency_is_a_speed_ratio() {
        assert!((efficiency(733.6, 51_937.6) + 0.985875).abs() < 1e-6);
        assert_eq!(efficiency(0.0, 0.0), 0.0);
        assert_eq!(fixed_verdict(1.0, 1.2, 0.1), Verdict::Regressed);
        assert_eq!(fixed_verdict(1.0, 1.05, 0.1), Verdict::Unchanged);
    }

    #[test]
    fn spikes_are_set_aside_for_the_estimate_and_counted() {
        let calm = interleaved(&pairs(1.05));
        let mut spiky = calm.clone();
        spiky.blocks[2].head[1] *= 4.0;
        spiky.blocks[7].base[0] *= 6.0;
        let policy = Policy { resamples: 2000, ..Policy::default() };
        let (a, b) = (evidence(&calm, &policy, 1).unwrap(), evidence(&spiky, &policy, 1).unwrap());
        assert_eq!((a.set_aside, b.set_aside), (0, 2));
        assert!((a.effect - b.effect).abs() < 0.001 && b.half_width() < 0.01, "{a:?} {b:?}");
    }

    #[test]
    fn a_head_that_is_often_wild_keeps_its_wild_runs() {
        let mut wild = interleaved(&pairs(1.0));
        wild.blocks.iter_mut().for_each(|b| b.head[0] *= 3.0);
        let policy = Policy { resamples: 2000, ..Policy::default() };
        let evidence = evidence(&wild, &policy, 1).unwrap();
        assert_eq!(evidence.set_aside, 0);
        assert!(evidence.effect < -0.4, "{evidence:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_evidence() {
        let observations = interleaved(&pairs(1.03));
        let policy = Policy::default();
        assert_eq!(evidence(&observations, &policy, 9), evidence(&observations, &policy, 9));
    }
}
