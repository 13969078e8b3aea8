//! Rank tests with exact null distributions: Mann-Whitney, and its form stratified by blocks.
//!
//! A *block* is a short stretch of time in which base and head ran equally often in random order.
//! If the two are the same program, every assignment of the labels within a block was equally
//! likely, whatever the machine did meanwhile: drift, bursts and autocorrelation included. The
//! stratified test counts, over exactly these assignments, how often the rank sum of the head
//! would be as extreme as it is. It needs no assumption on the noise at all.
//!
//! Ranks are of *aligned* values (each less its block's median; Hodges and Lehmann, 1962), so that
//! blocks taken at different speeds of the machine are comparable. With a single block the test
//! is Mann and Whitney's, ties included. The distribution is computed by adding one value after
//! another to a table (subset size × rank sum), in integers of half ranks.

use crate::descriptive::median;
use crate::special::normal_two_sided;

/// The observations of one block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Values of the base.
    pub base: Vec<f64>,
    /// Values of the head.
    pub head: Vec<f64>,
}

/// How a p-value was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the full null distribution.
    Exact,
    /// From a normal approximation with tie correction.
    Asymptotic,
}

/// A rank test's outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTest {
    /// For [`mann_whitney`] the number of pairs with x > y (half for ties), SciPy's U₁; for
    /// [`stratified_rank_sum`] the rank sum of the head.
    pub statistic: f64,
    /// Two-sided p-value: twice the smaller tail, at most 1.
    pub p: f64,
    /// How `p` was obtained.
    pub method: Method,
}

/// Above this many values in all, the normal approximation replaces the exact distribution.
///
/// The table's work grows with the fourth power of the size; at 160 values the approximation's
/// error is far below any level used for a decision.
pub const EXACT_LIMIT: usize = 160;

/// Twice the mid-rank of each value: whole numbers, also for ties.
pub fn doubled_midranks(values: &[f64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        for &index in &order[start..end] {
            // Ranks start+1 ..= end; their mean doubled is start + 1 + end.
            ranks[index] = (start + 1 + end) as u64;
        }
        start = end;
    }
    ranks
}

/// The Mann-Whitney test of whether values of `x` tend to be larger or smaller than those of `y`.
///
/// `None` if either side is empty.
pub fn mann_whitney(x: &[f64], y: &[f64]) -> Option<RankTest> {
    if x.is_empty() || y.is_empty() {
        return None;
    }
    let joint: Vec<f64> = x.iter().chain(y).copied().collect();
    let ranks = doubled_midranks(&joint);
    let stratum = Stratum { ranks, chosen: x.len() };
    let test = rank_sum_test(&[stratum]);
    let smallest_sum = x.len() as f64 * (x.len() as f64 + 1.0) / 2.0;
    Some(RankTest { statistic: test.statistic - smallest_sum, ..test })
}

/// The aligned rank sum test stratified by block.
///
/// Blocks in which one side is missing say nothing about the difference and are left out. `None`
/// if no block remains.
pub fn stratified_rank_sum(blocks: &[Block]) -> Option<RankTest> {
    let usable: Vec<&Block> = blocks.iter().filter(|b| !b.base.is_empty() && !b.head.is_empty()).collect();
    if usable.is_empty() {
        return None;
    }
    let mut aligned = Vec::new();
    for block in &usable {
        let all: Vec<f64> = block.head.iter().chain(&block.base).copied().collect();
        let centre = median(&all)?;
        aligned.extend(all.iter().map(|v| v - centre));
    }
    let ranks = doubled_midranks(&round_away_noise(&aligned));
    let mut strata = Vec::new();
    let mut next = 0;
    for block in &usable {
        let len = block.head.len() + block.base.len();
        strata.push(Stratum { ranks: ranks[next..next + len].to_vec(), chosen: block.head.len() });
        next += len;
    }
    Some(rank_sum_test(&strata))
}

/// Makes residuals that differ only by rounding equal, so that ties stay ties after alignment.
fn round_away_noise(values: &[f64]) -> Vec<f64> {
    let scale = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    if scale == 0.0 {
        return values.to_vec();
    }
    let step = scale * 1e-12;
    values.iter().map(|v| (v / step).round() * step).collect()
}

/// Values that may exchange labels among themselves.
struct Stratum {
    /// Doubled ranks of the values, taken over all strata together.
    ranks: Vec<u64>,
    /// How many of them, the first ones in `ranks`, carry the label whose ranks are summed.
    chosen: usize,
}

fn rank_sum_test(strata: &[Stratum]) -> RankTest {
    let observed: u64 = strata.iter().flat_map(|s| &s.ranks[..s.chosen]).sum();
    let statistic = observed as f64 / 2.0;
    let total: usize = strata.iter().map(|s| s.ranks.len()).sum();
    if total > EXACT_LIMIT {
        return RankTest { statistic, p: asymptotic_p(strata, observed), method: Method::Asymptotic };
    }
    // Without ties all doubled ranks are even, and halves need half the table.
    let even = strata.iter().all(|s| s.ranks.iter().all(|r| r % 2 == 0));
    let step = if even { 2 } else { 1 };
    let distribution = strata
        .iter()
        .map(|s| Stratum { ranks: s.ranks.iter().map(|r| r / step).collect(), chosen: s.chosen })
        .map(|s| Distribution::of_stratum(&s))
        .reduce(|a, b| a.convolve(&b))
        .expect("at least one stratum, as both callers check");
    RankTest { statistic, p: distribution.two_sided(observed / step), method: Method::Exact }
}

/// Normal approximation with the exact permutation mean and variance and continuity correction.
fn asymptotic_p(strata: &[Stratum], observed: u64) -> f64 {
    let (mut mean, mut variance) = (0.0, 0.0);
    for stratum in strata {
        let n = stratum.ranks.len() as f64;
        let k = stratum.chosen as f64;
        let centre = stratum.ranks.iter().sum::<u64>() as f64 / n;
        mean += k * centre;
        if n > 1.0 {
            let squares: f64 = stratum.ranks.iter().map(|&r| (r as f64 - centre).powi(2)).sum();
            variance += k * (n - k) / (n * (n - 1.0)) * squares;
        }
    }
    if variance == 0.0 {
        return 1.0;
    }
    // Half a rank, in doubled units.
    let distance = ((observed as f64 - mean).abs() - 1.0).max(0.0);
    normal_two_sided(distance / variance.sqrt())
}

/// Probabilities of consecutive sums, starting at `lowest`.
struct Distribution {
    lowest: u64,
    probability: Vec<f64>,
}

impl Distribution {
    /// The distribution of the sum of `chosen` ranks drawn without replacement.
    fn of_stratum(stratum: &Stratum) -> Distribution {
        let mut sorted = stratum.ranks.clone();
        sorted.sort_unstable();
        let k = stratum.chosen;
        let lowest: u64 = sorted[..k].iter().sum();
        let highest: u64 = sorted[sorted.len() - k..].iter().sum();
        let width = highest as usize + 1;
        // subsets[size][sum]: how many subsets of the ranks seen so far have that size and sum.
        let mut subsets = vec![vec![0.0f64; width]; k + 1];
        subsets[0][0] = 1.0;
        for (seen, &rank) in sorted.iter().enumerate() {
            let rank = rank as usize;
            let mut largest_sum: u64 = sorted[(seen + 1).saturating_sub(k)..=seen].iter().sum();
            for size in (1..=k.min(seen + 1)).rev() {
                // No subset of this size sums to more than the `size` largest ranks seen.
                let end = largest_sum as usize;
                largest_sum -= sorted[seen + 1 - size];
                let (smaller, larger) = subsets.split_at_mut(size);
                let (from, to) = (&smaller[size - 1], &mut larger[0]);
                for (to, from) in to[rank..=end].iter_mut().zip(from) {
                    *to += from;
                }
            }
        }
        let counts = &subsets[k][lowest as usize..];
        let total: f64 = counts.iter().sum();
        Distribution { lowest, probability: counts.iter().map(|c| c / total).collect() }
    }

    /// The distribution of the sum of two independent sums.
    fn convolve(&self, other: &Distribution) -> Distribution {
        let mut probability = vec![0.0; self.probability.len() + other.probability.len() - 1];
        for (i, &p) in other.probability.iter().enumerate().filter(|&(_, &p)| p > 0.0) {
            for (target, &q) in probability[i..].iter_mut().zip(&self.probability) {
                *target += p * q;
            }
        }
        Distribution { lowest: self.lowest + other.lowest, probability }
    }

    fn two_sided(&self, observed: u64) -> f64 {
        let at = (observed - self.lowest) as usize;
        let lower: f64 = self.probability[..=at].iter().sum();
        let upper: f64 = self.probability[at..].iter().sum();
        (2.0 * lower.min(upper)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn four_against_four_apart_gives_the_smallest_p() {
        let test = mann_whitney(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]).unwrap();
        assert_eq!(test.method, Method::Exact);
        assert!((test.p - 2.0 / 70.0).abs() < 1e-15);
        assert_eq!(test.statistic, 0.0);
    }

    #[test]
    fn ties_get_the_mean_of_their_ranks() {
        assert_eq!(doubled_midranks(&[5.0, 1.0, 5.0, 9.0]), [5, 2, 5, 8]);
    }

    #[test]
    fn all_equal_values_show_nothing() {
        assert_eq!(mann_whitney(&[2.0; 5], &[2.0; 6]).unwrap().p, 1.0);
        assert_eq!(mann_whitney(&[2.0; 200], &[2.0; 200]).unwrap().p, 1.0);
    }

    #[test]
    fn one_block_is_the_mann_whitney_test() {
        let mut rng = Rng::new(5);
        for _ in 0..20 {
            let base: Vec<f64> = (0..6).map(|_| (rng.normal() * 4.0).round()).collect();
            let head: Vec<f64> = (0..5).map(|_| (rng.normal() * 4.0).round() + 1.0).collect();
            let whole = mann_whitney(&head, &base).unwrap().p;
            let stratified = stratified_rank_sum(&[Block { base, head }]).unwrap().p;
            assert!((whole - stratified).abs() < 1e-12);
        }
    }

    #[test]
    fn blocks_undo_a_drift_larger_than_the_difference() {
        // Head is 1 % slower in every block while the machine slows down by 10 % per block.
        let blocks: Vec<Block> = (0..12)
            .map(|i| {
                let speed = 100.0 * (1.0 + 0.1 * f64::from(i));
                let nudge = 0.1 * f64::from(i % 3);
                Block { base: vec![speed + nudge, speed + 0.2], head: vec![speed * 1.01 + 0.2, speed * 1.01] }
            })
            .collect();
        assert!(stratified_rank_sum(&blocks).unwrap().p < 1e-6);
        let base: Vec<f64> = blocks.iter().flat_map(|b| b.base.clone()).collect();
        let head: Vec<f64> = blocks.iter().flat_map(|b| b.head.clone()).collect();
        assert!(mann_whitney(&base, &head).unwrap().p > 0.5);
    }

    #[test]
    fn swapping_the_sides_keeps_the_p_value() {
        let mut rng = Rng::new(11);
        let blocks: Vec<Block> = (0..7)
            .map(|_| Block {
                base: (0..2).map(|_| rng.normal()).collect(),
                head: (0..2).map(|_| rng.normal() + 0.3).collect(),
            })
            .collect();
        let swapped: Vec<Block> =
            blocks.iter().map(|b| Block { base: b.head.clone(), head: b.base.clone() }).collect();
        let (a, b) = (stratified_rank_sum(&blocks).unwrap(), stratified_rank_sum(&swapped).unwrap());
        assert!((a.p - b.p).abs() < 1e-12);
    }

    #[test]
    fn the_exact_p_value_counts_assignments() {
        // Two blocks of 1 + 1: four assignments, the observed one is the most extreme upwards.
        let blocks =
            [Block { base: vec![1.0], head: vec![2.0] }, Block { base: vec![10.0], head: vec![13.0] }];
        assert!((stratified_rank_sum(&blocks).unwrap().p - 0.5).abs() < 1e-15);
    }

    #[test]
    fn a_block_with_one_side_only_is_left_out() {
        let lonely = Block { base: vec![1.0], head: vec![] };
        assert_eq!(stratified_rank_sum(std::slice::from_ref(&lonely)), None);
        let both = Block { base: vec![1.0, 2.0], head: vec![3.0, 4.0] };
        assert_eq!(stratified_rank_sum(&[lonely, both.clone()]), stratified_rank_sum(&[both]));
    }
}
