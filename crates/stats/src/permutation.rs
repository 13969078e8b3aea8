//! Permutation tests of a difference of means: all rearrangements when few, seeded draws when many.
//!
//! With drawn rearrangements the p-value is (1 + as extreme) / (1 + drawn): the observed
//! arrangement is one of those that could have been drawn, so the test keeps its level exactly
//! and never reports 0 (Phipson and Smyth, 2010).

use crate::descriptive::mean;
use crate::rng::Rng;
use crate::special::ln_choose;

/// How many rearrangements are gone through exactly; above, as many are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Largest number of rearrangements to enumerate.
    pub enumerate: u64,
    /// Number of rearrangements drawn otherwise.
    pub draws: u64,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { enumerate: 200_000, draws: 9_999, seed: 0 }
    }
}

/// A permutation test's outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PermutationTest {
    /// The observed difference.
    pub statistic: f64,
    /// Two-sided p-value (share of rearrangements at least as far from zero).
    pub p: f64,
    /// Whether all rearrangements were gone through.
    pub exact: bool,
}

/// Whether the mean of `y` differs from the mean of `x`, over exchanges of values between them.
pub fn difference_of_means(x: &[f64], y: &[f64], budget: Budget) -> Option<PermutationTest> {
    let statistic = mean(y)? - mean(x)?;
    let joint: Vec<f64> = x.iter().chain(y).copied().collect();
    let (n, k) = (joint.len(), x.len());
    let total: f64 = joint.iter().sum();
    let difference = |sum_x: f64| (total - sum_x) / (n - k) as f64 - sum_x / k as f64;
    let extreme = statistic.abs() * (1.0 - 1e-12);
    if ln_choose(n, k) <= (budget.enumerate as f64).ln() {
        let (mut as_extreme, mut all) = (0u64, 0u64);
        let mut chosen: Vec<usize> = (0..k).collect();
        loop {
            let sum: f64 = chosen.iter().map(|&i| joint[i]).sum();
            all += 1;
            as_extreme += u64::from(difference(sum).abs() >= extreme);
            if !next_combination(&mut chosen, n) {
                break;
            }
        }
        return Some(PermutationTest { statistic, p: as_extreme as f64 / all as f64, exact: true });
    }
    let mut rng = Rng::new(budget.seed);
    let mut order = joint;
    let mut as_extreme = 1u64;
    for _ in 0..budget.draws {
        // Only the first k places matter, so only they are drawn.
        for place in 0..k {
            let other = place + rng.below(n - place);
            order.swap(place, other);
        }
        as_extreme += u64::from(difference(order[..k].iter().sum()).abs() >= extreme);
    }
    Some(PermutationTest { statistic, p: as_extreme as f64 / (budget.draws + 1) as f64, exact: false })
}

/// Whether the mean of paired `differences` is zero, over changes of their signs.
pub fn mean_of_pairs(differences: &[f64], budget: Budget) -> Option<PermutationTest> {
    let statistic = mean(differences)?;
    let n = differences.len();
    let extreme = differences.iter().sum::<f64>().abs() * (1.0 - 1e-12);
    if n < 63 && (1u64 << n) <= budget.enumerate {
        let as_extreme = (0..1u64 << n)
            .filter(|signs| {
                let sum: f64 = differences
                    .iter()
                    .enumerate()
                    .map(|(i, d)| if signs >> i & 1 == 1 { -d } else { *d })
                    .sum();
                sum.abs() >= extreme
            })
            .count();
        return Some(PermutationTest { statistic, p: as_extreme as f64 / (1u64 << n) as f64, exact: true });
    }
    let mut rng = Rng::new(budget.seed);
    let mut as_extreme = 1u64;
    for _ in 0..budget.draws {
        let mut bits = 0;
        let mut sum = 0.0;
        for (i, d) in differences.iter().enumerate() {
            if i % 64 == 0 {
                bits = rng.next_u64();
            }
            sum += if bits & 1 == 1 { -d } else { *d };
            bits >>= 1;
        }
        as_extreme += u64::from(sum.abs() >= extreme);
    }
    Some(PermutationTest { statistic, p: as_extreme as f64 / (budget.draws + 1) as f64, exact: false })
}

/// Steps `chosen` to the next k-subset of 0..`n` in lexicographic order; false after the last.
fn next_combination(chosen: &mut [usize], n: usize) -> bool {
    let k = chosen.len();
    let Some(place) = (0..k).rev().find(|&i| chosen[i] < n - k + i) else { return false };
    chosen[place] += 1;
    for i in place + 1..k {
        chosen[i] = chosen[i - 1] + 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_pairs_of_one_sign_leave_a_quarter() {
        let test = mean_of_pairs(&[1.0, 2.0, 3.0], Budget::default()).unwrap();
        assert_eq!((test.p, test.exact), (0.25, true));
    }

    #[test]
    fn drawn_and_enumerated_p_values_agree() {
        let x = [1.0, 2.2, 0.7, 3.1, 1.9, 2.4, 0.2];
        let y = [2.0, 2.9, 3.8, 1.1, 3.3, 4.0, 2.6];
        let exact = difference_of_means(&x, &y, Budget::default()).unwrap();
        let few = Budget { enumerate: 1, draws: 40_000, seed: 4 };
        let drawn = difference_of_means(&x, &y, few).unwrap();
        assert!(exact.exact && !drawn.exact);
        assert!((exact.p - drawn.p).abs() < 0.005, "{} {}", exact.p, drawn.p);
        let d: Vec<f64> = x.iter().zip(y).map(|(a, b)| b - a).collect();
        let exact = mean_of_pairs(&d, Budget::default()).unwrap();
        let drawn = mean_of_pairs(&d, few).unwrap();
        assert!((exact.p - drawn.p).abs() < 0.005, "{} {}", exact.p, drawn.p);
    }

    #[test]
    fn a_seed_replays_its_p_value() {
        let x: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 11)).collect();
        let y: Vec<f64> = (0..30).map(|i| f64::from(i * 5 % 13)).collect();
        let run = |seed| difference_of_means(&x, &y, Budget { seed, ..Budget::default() }).unwrap();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1).p, run(2).p);
    }
}
