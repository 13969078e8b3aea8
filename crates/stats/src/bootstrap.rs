//! Bootstrap intervals over blocks, with a recorded seed.
//!
//! What is resampled is the unit that was drawn independently: a block (or a run), never the
//! single loop iteration. Two kinds of interval are offered: bias-corrected and accelerated (BCa;
//! Efron, 1987) for any statistic, and the studentised one for means.
//!
//! With ten blocks BCa intervals are too short, since the bootstrap distribution's variance is
//! (n − 1)/n of what it should be and its tails are normal rather than t. With `expand` the
//! percentiles asked for are moved outwards to Φ(√(n/(n−1)) · t) (Hesterberg, 2015), which for the
//! mean of normal data gives back the classical t interval.

use crate::descriptive::{mean, quantile_of_sorted, standard_deviation};
use crate::location::{WalshAverages, hodges_lehmann_shift};
use crate::rng::Rng;
use crate::special::{normal_cdf, normal_quantile, student_t_quantile};

/// How to resample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// Number of resamples.
    pub resamples: usize,
    /// Seed of the resampling.
    pub seed: u64,
    /// Share of intervals that are to cover the true value, as 0.95.
    pub level: f64,
    /// Whether percentiles are moved outwards for small samples.
    pub expand: bool,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Bootstrap { resamples: 10_000, seed: 0, level: 0.95, expand: true }
    }
}

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The statistic of the sample itself.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half the distance of the ends.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }
}

/// The BCa interval of any statistic of independent items.
///
/// `None` below two items, or where the statistic itself is undefined.
pub fn bca<T: Clone>(
    items: &[T],
    statistic: impl Fn(&[T]) -> Option<f64>,
    options: Bootstrap,
) -> Option<Interval> {
    let n = items.len();
    if n < 2 {
        return None;
    }
    let estimate = statistic(items)?;
    let mut rng = Rng::new(options.seed);
    let mut resample: Vec<T> = items.to_vec();
    let mut replicates = Vec::with_capacity(options.resamples);
    for _ in 0..options.resamples {
        for slot in &mut resample {
            *slot = items[rng.below(n)].clone();
        }
        replicates.extend(statistic(&resample));
    }
    let jackknife: Vec<f64> = (0..n)
        .filter_map(|out| {
            let rest: Vec<T> =
                items.iter().enumerate().filter(|&(i, _)| i != out).map(|(_, v)| v.clone()).collect();
            statistic(&rest)
        })
        .collect();
    bca_from_replicates(estimate, replicates, &jackknife, n, options)
}

/// The BCa interval of the Hodges-Lehmann estimate of `values`, much faster than through [`bca`].
pub fn hodges_lehmann_interval(values: &[f64], options: Bootstrap) -> Option<Interval> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let prepared = WalshAverages::new(values);
    let estimate = prepared.median(None)?;
    let mut rng = Rng::new(options.seed);
    let mut multiplicity = vec![0u32; n];
    let mut replicates = Vec::with_capacity(options.resamples);
    for _ in 0..options.resamples {
        multiplicity.fill(0);
        for _ in 0..n {
            multiplicity[rng.below(n)] += 1;
        }
        replicates.extend(prepared.median(Some(&multiplicity)));
    }
    let jackknife: Vec<f64> = (0..n)
        .filter_map(|out| {
            multiplicity.fill(1);
            multiplicity[out] = 0;
            prepared.median(Some(&multiplicity))
        })
        .collect();
    bca_from_replicates(estimate, replicates, &jackknife, n, options)
}

/// The BCa interval of the Hodges-Lehmann shift from `x` to `y`, each resampled on its own.
pub fn hodges_lehmann_shift_interval(x: &[f64], y: &[f64], options: Bootstrap) -> Option<Interval> {
    if x.len() < 2 || y.len() < 2 {
        return None;
    }
    let estimate = hodges_lehmann_shift(x, y)?;
    let mut rng = Rng::new(options.seed);
    let (mut rx, mut ry) = (x.to_vec(), y.to_vec());
    let mut replicates = Vec::with_capacity(options.resamples);
    for _ in 0..options.resamples {
        rx.iter_mut().for_each(|slot| *slot = x[rng.below(x.len())]);
        ry.iter_mut().for_each(|slot| *slot = y[rng.below(y.len())]);
        replicates.extend(hodges_lehmann_shift(&rx, &ry));
    }
    let without = |values: &[f64], out: usize| {
        values.iter().enumerate().filter(|&(i, _)| i != out).map(|(_, &v)| v).collect::<Vec<f64>>()
    };
    let mut jackknife: Vec<f64> =
        (0..x.len()).filter_map(|i| hodges_lehmann_shift(&without(x, i), y)).collect();
    jackknife.extend((0..y.len()).filter_map(|i| hodges_lehmann_shift(x, &without(y, i))));
    bca_from_replicates(estimate, replicates, &jackknife, x.len().min(y.len()), options)
}

/// The percentile interval of the Hodges-Lehmann shift between groups of values.
///
/// A group is one campaign: first campaigns are drawn, then values within each, so that the
/// differences between campaigns (another day, another host) enter the interval.
pub fn two_level_shift_interval(x: &[Vec<f64>], y: &[Vec<f64>], options: Bootstrap) -> Option<Interval> {
    let flat = |groups: &[Vec<f64>]| groups.iter().flatten().copied().collect::<Vec<f64>>();
    let estimate = hodges_lehmann_shift(&flat(x), &flat(y))?;
    if flat(x).len() < 2 || flat(y).len() < 2 {
        return None;
    }
    let mut rng = Rng::new(options.seed);
    let mut draw = |groups: &[Vec<f64>]| {
        let groups: Vec<&Vec<f64>> = groups.iter().filter(|g| !g.is_empty()).collect();
        let mut out = Vec::new();
        for _ in 0..groups.len() {
            let group = groups[rng.below(groups.len())];
            out.extend((0..group.len()).map(|_| group[rng.below(group.len())]));
        }
        out
    };
    let mut replicates: Vec<f64> =
        (0..options.resamples).filter_map(|_| hodges_lehmann_shift(&draw(x), &draw(y))).collect();
    replicates.sort_by(f64::total_cmp);
    let units = x.len().min(y.len()).max(2);
    let tail = tail_probability(units, options);
    Some(Interval {
        estimate,
        low: quantile_of_sorted(&replicates, tail)?,
        high: quantile_of_sorted(&replicates, 1.0 - tail)?,
    })
}

/// The studentised bootstrap interval of a mean (Efron and Tibshirani, 1993, section 12.5).
pub fn studentised_mean(values: &[f64], options: Bootstrap) -> Option<Interval> {
    let n = values.len();
    let estimate = mean(values)?;
    let error = standard_deviation(values)? / (n as f64).sqrt();
    if error == 0.0 {
        return Some(Interval { estimate, low: estimate, high: estimate });
    }
    let mut rng = Rng::new(options.seed);
    let mut resample = values.to_vec();
    let mut t = Vec::with_capacity(options.resamples);
    for _ in 0..options.resamples {
        resample.iter_mut().for_each(|slot| *slot = values[rng.below(n)]);
        let spread = standard_deviation(&resample)? / (n as f64).sqrt();
        // A resample of one repeated value has no spread and no t.
        if spread > 0.0 {
            t.push((mean(&resample)? - estimate) / spread);
        }
    }
    t.sort_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - options.level);
    Some(Interval {
        estimate,
        low: estimate - quantile_of_sorted(&t, 1.0 - tail)? * error,
        high: estimate - quantile_of_sorted(&t, tail)? * error,
    })
}

/// The probability left below the lower end, after the expansion for `n` items if asked for.
fn tail_probability(n: usize, options: Bootstrap) -> f64 {
    let tail = 0.5 * (1.0 - options.level);
    if !options.expand {
        return tail;
    }
    let n = n as f64;
    normal_cdf((n / (n - 1.0)).sqrt() * student_t_quantile(tail, n - 1.0))
}

fn bca_from_replicates(
    estimate: f64,
    mut replicates: Vec<f64>,
    jackknife: &[f64],
    n: usize,
    options: Bootstrap,
) -> Option<Interval> {
    replicates.sort_by(f64::total_cmp);
    let first = *replicates.first()?;
    if first == *replicates.last()? {
        return Some(Interval { estimate, low: first, high: first });
    }
    let count = replicates.len() as f64;
    let below = replicates.partition_point(|&r| r < estimate) as f64;
    let not_above = replicates.partition_point(|&r| r <= estimate) as f64;
    // Half of the ties count as below, as in SciPy; one replicate away from 0 and 1 at the ends.
    let share = ((below + not_above) / (2.0 * count)).clamp(1.0 / count, 1.0 - 1.0 / count);
    let bias = normal_quantile(share);
    let centre = mean(jackknife)?;
    let (mut cubes, mut squares) = (0.0, 0.0);
    for value in jackknife {
        let d = centre - value;
        squares += d * d;
        cubes += d * d * d;
    }
    let acceleration = if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 };
    let tail = tail_probability(n, options);
    let percentile = |z: f64| {
        let shifted = bias + z;
        normal_cdf(bias + shifted / (1.0 - acceleration * shifted))
    };
    let z = normal_quantile(tail);
    Some(Interval {
        estimate,
        low: quantile_of_sorted(&replicates, percentile(z))?,
        high: quantile_of_sorted(&replicates, percentile(-z))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::hodges_lehmann;

    fn sample(n: usize, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        (0..n).map(|_| rng.normal()).collect()
    }

    #[test]
    fn a_seed_replays_its_interval() {
        let values = sample(12, 1);
        let options = Bootstrap { seed: 5, ..Bootstrap::default() };
        assert_eq!(hodges_lehmann_interval(&values, options), hodges_lehmann_interval(&values, options));
        let other = Bootstrap { seed: 6, ..options };
        assert_ne!(hodges_lehmann_interval(&values, options), hodges_lehmann_interval(&values, other));
    }

    #[test]
    fn the_fast_path_equals_the_general_one() {
        let values = sample(9, 2);
        let options = Bootstrap { resamples: 500, ..Bootstrap::default() };
        let (fast, general) = (
            hodges_lehmann_interval(&values, options).unwrap(),
            bca(&values, hodges_lehmann, options).unwrap(),
        );
        assert!((fast.low - general.low).abs() < 1e-12 && (fast.high - general.high).abs() < 1e-12);
    }

    #[test]
    fn intervals_scale_with_the_data() {
        let values = sample(15, 3);
        let tripled: Vec<f64> = values.iter().map(|v| 3.0 * v + 1.0).collect();
        let options = Bootstrap { resamples: 2000, ..Bootstrap::default() };
        let a = hodges_lehmann_interval(&values, options).unwrap();
        let b = hodges_lehmann_interval(&tripled, options).unwrap();
        assert!((b.low - (3.0 * a.low + 1.0)).abs() < 1e-9);
        assert!((b.high - (3.0 * a.high + 1.0)).abs() < 1e-9);
    }

    #[test]
    fn expansion_brings_the_mean_of_normal_data_to_the_t_interval() {
        let values = sample(8, 4);
        let options = Bootstrap { resamples: 60_000, ..Bootstrap::default() };
        let got = bca(&values, mean, options).unwrap().half_width();
        let t = student_t_quantile(0.975, 7.0) * standard_deviation(&values).unwrap() / 8f64.sqrt();
        assert!((got / t - 1.0).abs() < 0.1, "{got} against {t}");
    }

    #[test]
    fn equal_values_have_an_interval_of_no_width() {
        let interval = hodges_lehmann_interval(&[2.0; 6], Bootstrap::default()).unwrap();
        assert_eq!((interval.low, interval.high), (2.0, 2.0));
        assert_eq!(studentised_mean(&[2.0; 6], Bootstrap::default()).unwrap().low, 2.0);
        assert_eq!(hodges_lehmann_interval(&[1.0], Bootstrap::default()), None);
    }

    #[test]
    fn differences_between_campaigns_widen_the_two_level_interval() {
        let options = Bootstrap { resamples: 2000, ..Bootstrap::default() };
        let group = |centre: f64, seed| sample(8, seed).iter().map(|v| centre + 0.01 * v).collect::<Vec<_>>();
        let calm: Vec<Vec<f64>> = (0..5).map(|i| group(1.0, i)).collect();
        let moving: Vec<Vec<f64>> = (0..5).map(|i| group(1.0 + 0.1 * i as f64, i)).collect();
        let narrow = two_level_shift_interval(&calm, &calm, options).unwrap().half_width();
        let wide = two_level_shift_interval(&moving, &calm, options).unwrap().half_width();
        assert!(wide > 5.0 * narrow, "{wide} {narrow}");
    }
}
