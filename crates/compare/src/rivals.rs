//! The decision rules of other tools, on the same samples, for the published comparison.
//!
//! Written from the tools' documentation and behaviour as of 2026: benchstat reports a change when
//! Mann-Whitney's p is below 0.05; criterion when its bootstrap t test says p < 0.05 *and* the
//! interval of the relative change of the mean lies outside ±1 %; a fixed rule when the medians
//! differ by more than 10 %. None of them corrects for the number of benchmarks.

use tallygraph_stats::Rng;
use tallygraph_stats::descriptive::{mean, median, quantile, variance};
use tallygraph_stats::rank::mann_whitney;

use crate::decide::Verdict;

/// A rule under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// benchstat: Mann-Whitney at 0.05.
    Benchstat,
    /// criterion: bootstrap t test and noise threshold of 1 %.
    Criterion {
        /// Bootstrap resamples; criterion itself takes 100,000.
        resamples: usize,
        /// Seed of the bootstrap.
        seed: u64,
    },
    /// 10 % on the medians.
    FixedTenPercent,
}

impl Rival {
    /// What the rule says of these values, smaller being better.
    pub fn verdict(self, base: &[f64], head: &[f64]) -> Verdict {
        let direction = |slower: bool| if slower { Verdict::Regressed } else { Verdict::Improved };
        match self {
            Rival::Benchstat => {
                let (Some(b), Some(h), Some(test)) = (median(base), median(head), mann_whitney(base, head))
                else {
                    return Verdict::Unknown;
                };
                if test.p < 0.05 { direction(h > b) } else { Verdict::Unchanged }
            }
            Rival::Criterion { resamples, seed } => criterion(base, head, resamples, seed),
            Rival::FixedTenPercent => match (median(base), median(head)) {
                (Some(b), Some(h)) => crate::decide::fixed_verdict(b, h, 0.10),
                _ => Verdict::Unknown,
            },
        }
    }
}

fn criterion(base: &[f64], head: &[f64], resamples: usize, seed: u64) -> Verdict {
    const NOISE: f64 = 0.01;
    let t = |x: &[f64], y: &[f64]| -> Option<f64> {
        let error = variance(x)? / x.len() as f64 + variance(y)? / y.len() as f64;
        Some((mean(x)? - mean(y)?) / error.sqrt())
    };
    let Some(observed) = t(head, base) else { return Verdict::Unknown };
    let mut rng = Rng::new(seed);
    let pool: Vec<f64> = base.iter().chain(head).copied().collect();
    let (mut b, mut h) = (base.to_vec(), head.to_vec());
    // The distribution of t if both came from the pooled values.
    let mut below = 0usize;
    for _ in 0..resamples {
        b.iter_mut().chain(&mut h).for_each(|slot| *slot = pool[rng.below(pool.len())]);
        below += usize::from(t(&h, &b).is_some_and(|value| value < observed));
    }
    let p = 2.0 * below.min(resamples - below) as f64 / resamples as f64;
    if p >= 0.05 {
        return Verdict::Unchanged;
    }
    let changes: Vec<f64> = (0..resamples)
        .filter_map(|_| {
            b.iter_mut().for_each(|slot| *slot = base[rng.below(base.len())]);
            h.iter_mut().for_each(|slot| *slot = head[rng.below(head.len())]);
            Some(mean(&h)? / mean(&b)? - 1.0)
        })
        .collect();
    match (quantile(&changes, 0.025), quantile(&changes, 0.975)) {
        (Some(low), _) if low > NOISE => Verdict::Regressed,
        (_, Some(high)) if high < -NOISE => Verdict::Improved,
        _ => Verdict::Unchanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Rival; 3] =
        [Rival::Benchstat, Rival::Criterion { resamples: 2000, seed: 1 }, Rival::FixedTenPercent];

    #[test]
    fn every_rule_sees_a_doubling_and_calls_its_direction() {
        let base: Vec<f64> = (0..12).map(|i| 1.0 + 0.01 * f64::from(i % 4)).collect();
        let slower: Vec<f64> = base.iter().map(|v| 2.0 * v).collect();
        for rule in ALL {
            assert_eq!(rule.verdict(&base, &slower), Verdict::Regressed, "{rule:?}");
            assert_eq!(rule.verdict(&slower, &base), Verdict::Improved, "{rule:?}");
            assert_eq!(rule.verdict(&base, &base), Verdict::Unchanged, "{rule:?}");
        }
    }

    #[test]
    fn the_noise_threshold_of_one_percent_holds_criterion_back() {
        let base: Vec<f64> = (0..40).map(|i| 1.0 + 0.0005 * f64::from(i % 4)).collect();
        let slightly: Vec<f64> = base.iter().map(|v| 1.008 * v).collect();
        assert_eq!(ALL[0].verdict(&base, &slightly), Verdict::Regressed);
        assert_eq!(ALL[1].verdict(&base, &slightly), Verdict::Unchanged);
    }
}
