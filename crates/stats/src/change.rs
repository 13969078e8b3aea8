//! Change points of a series by E-divisive means, with an exact or seeded permutation test.
//!
//! Matteson and James (2014): a point splits a segment where the energy distance of the two parts,
//! weighted by their sizes, is largest; the split stands if few rearrangements of the segment
//! reach that value; then both parts are searched in turn. Unlike the published procedure the
//! test's draws come from a recorded seed, so the same history always has the same change points,
//! and short segments are tested over all orders.

use crate::descriptive::median;
use crate::rng::Rng;

/// Settings of [`e_divisive`].
#[derive(Clone, Copy, Debug)]
pub struct EDivisive {
    /// Fewest values between two change points; too short segments invent changes.
    pub min_segment: usize,
    /// Level of the permutation test.
    pub significance: f64,
    /// Rearrangements drawn per test.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for EDivisive {
    fn default() -> Self {
        EDivisive { min_segment: 5, significance: 0.01, draws: 999, seed: 0 }
    }
}

/// Longest segment whose orders are all gone through (8! = 40,320).
const ENUMERATE_UP_TO: usize = 8;

/// A change between two stretches of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// p-value of the permutation test on the segment it was found in.
    pub p: f64,
    /// Median of the stretch before, back to the previous change point.
    pub before: f64,
    /// Median of the stretch after, up to the next change point.
    pub after: f64,
}

/// The change points of `values`, in ascending order.
pub fn e_divisive(values: &[f64], settings: EDivisive) -> Vec<ChangePoint> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((start, end)) = open.pop() {
        let segment = &values[start..end];
        let Some((split, statistic)) = best_split(segment, settings.min_segment) else { continue };
        let p = permutation_p(segment, statistic, start, settings);
        if p <= settings.significance {
            found.push((start + split, p));
            open.push((start, start + split));
            open.push((start + split, end));
        }
    }
    found.sort_by_key(|f| f.0);
    let mut points = Vec::with_capacity(found.len());
    for (i, &(index, p)) in found.iter().enumerate() {
        let from = if i == 0 { 0 } else { found[i - 1].0 };
        let to = found.get(i + 1).map_or(values.len(), |f| f.0);
        let (Some(before), Some(after)) = (median(&values[from..index]), median(&values[index..to])) else {
            continue;
        };
        points.push(ChangePoint { index, p, before, after });
    }
    points
}

/// Where the weighted energy distance of the two parts is largest, and how large it is there.
///
/// q = mn/(m+n) · (2·mean|x−y| − mean|x−x′| − mean|y−y′|), the means within taken over pairs of
/// different values. `None` if the segment can't hold two parts of `min_segment` values, or if it
/// does not vary.
pub fn best_split(segment: &[f64], min_segment: usize) -> Option<(usize, f64)> {
    let n = segment.len();
    let min_segment = min_segment.max(2);
    if n < 2 * min_segment {
        return None;
    }
    // Distances within the left part, within the right part, and across, kept up to date while
    // one value after another moves from right to left.
    let distances_to = |value: f64, part: &[f64]| part.iter().map(|v| (v - value).abs()).sum::<f64>();
    let (mut left, mut across) = (0.0, 0.0);
    let mut right: f64 = (0..n).map(|i| distances_to(segment[i], &segment[i + 1..])).sum();
    let mut best: Option<(usize, f64)> = None;
    for split in 1..n {
        let moved = segment[split - 1];
        let (to_left, to_right) =
            (distances_to(moved, &segment[..split - 1]), distances_to(moved, &segment[split..]));
        left += to_left;
        right -= to_right;
        across += to_right - to_left;
        if split < min_segment || n - split < min_segment {
            continue;
        }
        let (a, b) = (split as f64, (n - split) as f64);
        let energy = 2.0 * across / (a * b) - 2.0 * left / (a * (a - 1.0)) - 2.0 * right / (b * (b - 1.0));
        let weighted = a * b / (a + b) * energy;
        if best.is_none_or(|(_, q)| weighted > q) {
            best = Some((split, weighted));
        }
    }
    best.filter(|&(_, q)| q > 0.0)
}

fn permutation_p(segment: &[f64], observed: f64, start: usize, settings: EDivisive) -> f64 {
    let reaches = |order: &[f64]| {
        best_split(order, settings.min_segment).is_some_and(|(_, q)| q >= observed * (1.0 - 1e-9))
    };
    let mut order = segment.to_vec();
    if segment.len() <= ENUMERATE_UP_TO {
        let (mut as_large, mut all) = (0u64, 0u64);
        for_each_order(&mut order, &mut |order| {
            all += 1;
            as_large += u64::from(reaches(order));
        });
        return as_large as f64 / all as f64;
    }
    // One stream per segment: what is found elsewhere does not move this p-value.
    let mut rng = Rng::stream(settings.seed, ((start as u64) << 32) | segment.len() as u64);
    let mut as_large = 1;
    for _ in 0..settings.draws {
        rng.shuffle(&mut order);
        as_large += usize::from(reaches(&order));
    }
    as_large as f64 / (settings.draws + 1) as f64
}

/// Calls `visit` with every order of `items` (Heap's algorithm).
fn for_each_order(items: &mut [f64], visit: &mut impl FnMut(&[f64])) {
    let n = items.len();
    let mut counters = vec![0; n];
    visit(items);
    let mut i = 0;
    while i < n {
        if counters[i] < i {
            items.swap(if i % 2 == 0 { 0 } else { counters[i] }, i);
            visit(items);
            counters[i] += 1;
            i = 0;
        } else {
            counters[i] = 0;
            i += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(levels: &[(usize, f64)], noise: f64, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        levels
            .iter()
            .flat_map(|&(n, level)| std::iter::repeat_n(level, n))
            .map(|level| level + noise * rng.normal())
            .collect()
    }

    #[test]
    fn two_steps_are_found_where_they_are() {
        let values = series(&[(20, 1.0), (15, 1.1), (20, 0.9)], 0.01, 1);
        let points = e_divisive(&values, EDivisive::default());
        assert_eq!(points.iter().map(|p| p.index).collect::<Vec<_>>(), [20, 35]);
        assert!((points[0].before - 1.0).abs() < 0.01 && (points[0].after - 1.1).abs() < 0.01);
    }

    #[test]
    fn noise_alone_has_change_points_no_more_often_than_the_level() {
        let flagged = (0..100)
            .filter(|&seed| {
                let values = series(&[(30, 1.0)], 0.02, seed);
                let settings = EDivisive { draws: 199, significance: 0.05, ..EDivisive::default() };
                !e_divisive(&values, settings).is_empty()
            })
            .count();
        // 5 expected; 13 or more has probability below 0.001.
        assert!(flagged < 13, "{flagged}");
    }

    #[test]
    fn a_seed_replays_its_change_points() {
        let values = series(&[(12, 1.0), (12, 1.03)], 0.02, 3);
        let settings = EDivisive { seed: 8, significance: 0.2, ..EDivisive::default() };
        assert_eq!(e_divisive(&values, settings), e_divisive(&values, settings));
    }

    #[test]
    fn short_series_are_tested_over_all_orders() {
        // Three low, three high: of 20 arrangements of two equal triples, 2 separate them fully.
        let values = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0];
        let settings = EDivisive { min_segment: 3, significance: 0.1, ..EDivisive::default() };
        let points = e_divisive(&values, settings);
        assert_eq!(points.len(), 1);
        assert!((points[0].p - 0.1).abs() < 1e-12);
    }

    #[test]
    fn a_constant_or_short_series_has_none() {
        assert!(e_divisive(&[1.0; 30], EDivisive::default()).is_empty());
        assert!(e_divisive(&[1.0, 2.0, 3.0], EDivisive::default()).is_empty());
    }

    #[test]
    fn the_statistic_is_the_formula() {
        let segment: [f64; 5] = [1.0, 3.0, 2.0, 7.0, 9.0];
        let pairs = |part: &[f64]| {
            let mut sum = 0.0;
            for i in 0..part.len() {
                for j in i + 1..part.len() {
                    sum += (part[i] - part[j]).abs();
                }
            }
            sum / (part.len() * (part.len() - 1) / 2) as f64
        };
        let q = |split: usize| {
            let (x, y) = segment.split_at(split);
            let across: f64 = x.iter().flat_map(|a| y.iter().map(move |b| (a - b).abs())).sum();
            let (m, n) = (x.len() as f64, y.len() as f64);
            m * n / (m + n) * (2.0 * across / (m * n) - pairs(x) - pairs(y))
        };
        let (split, value) = best_split(&segment, 2).unwrap();
        let expected = if q(2) > q(3) { (2, q(2)) } else { (3, q(3)) };
        assert_eq!(split, expected.0);
        assert!((value - expected.1).abs() < 1e-12);
    }
}
