//! Monotone trend in a series: Mann-Kendall's test, Theil and Sen's slope, Page-Hinkley's alarm.

use crate::descriptive::median;
use crate::special::normal_two_sided;

/// The Mann-Kendall test's outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannKendall {
    /// Rising pairs minus falling pairs.
    pub s: i64,
    /// S relative to the number of pairs, ties taken out (Kendall's τ_b against time).
    pub tau: f64,
    /// Two-sided p-value.
    pub p: f64,
    /// Whether `p` comes from the full distribution (no ties and at most 60 values).
    pub exact: bool,
}

/// Tests a series for a monotone trend (Mann, 1945; Kendall, 1975); `None` below three values.
pub fn mann_kendall(values: &[f64]) -> Option<MannKendall> {
    let n = values.len();
    if n < 3 {
        return None;
    }
    let mut s = 0i64;
    for (i, a) in values.iter().enumerate() {
        for b in &values[i + 1..] {
            s += i64::from(b > a) - i64::from(b < a);
        }
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: Vec<f64> =
        sorted.chunk_by(|a, b| a == b).map(|g| g.len() as f64).filter(|&t| t > 1.0).collect();
    let size = n as f64;
    let pairs = size * (size - 1.0) / 2.0;
    let tied_pairs: f64 = ties.iter().map(|t| t * (t - 1.0) / 2.0).sum();
    let tau = if pairs > tied_pairs { s as f64 / (pairs * (pairs - tied_pairs)).sqrt() } else { 0.0 };
    if ties.is_empty() && n <= 60 {
        return Some(MannKendall { s, tau, p: exact_p(n, s), exact: true });
    }
    let variance = (size * (size - 1.0) * (2.0 * size + 5.0)
        - ties.iter().map(|t| t * (t - 1.0) * (2.0 * t + 5.0)).sum::<f64>())
        / 18.0;
    let p = if variance > 0.0 {
        normal_two_sided((s.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt())
    } else {
        1.0
    };
    Some(MannKendall { s, tau, p, exact: false })
}

/// P(|S| ≥ |`s`|) over all orders of `n` different values.
///
/// S is the number of pairs less twice the number of inversions, and inserting the k-th value
/// adds 0 to k − 1 inversions with equal probability.
fn exact_p(n: usize, s: i64) -> f64 {
    let pairs = n * (n - 1) / 2;
    let mut probability = vec![0.0; pairs + 1];
    probability[0] = 1.0;
    let mut reach = 0;
    for k in 2..=n {
        let before = probability.clone();
        reach += k - 1;
        let mut window = 0.0;
        for inversions in 0..=reach {
            window += before[inversions];
            if inversions >= k {
                window -= before[inversions - k];
            }
            probability[inversions] = window / k as f64;
        }
    }
    let fewest = (pairs as i64 - s.abs()) / 2;
    let tail: f64 = probability[..=fewest as usize].iter().sum();
    (2.0 * tail).min(1.0)
}

/// The median of the slopes between all pairs of values, per step (Theil, 1950; Sen, 1968).
pub fn theil_sen_slope(values: &[f64]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    median(&slopes)
}

/// Settings of [`page_hinkley`], in the units of the series.
#[derive(Clone, Copy, Debug)]
pub struct PageHinkley {
    /// Change of the mean that is tolerated.
    pub tolerance: f64,
    /// Accumulated excess that raises the alarm.
    pub limit: f64,
    /// Values to see before an alarm may be raised.
    pub warm_up: usize,
}

/// The first index at which the running mean has moved, and whether upwards (Page, 1954; Hinkley, 1971).
///
/// Accumulates how far each value lies above (below) the mean so far, less the tolerance, and
/// alarms when the sum has risen by more than the limit above its lowest point. A slow drift that
/// no single step betrays adds up here.
pub fn page_hinkley(values: &[f64], settings: PageHinkley) -> Option<(usize, bool)> {
    let (mut mean, mut up, mut down, mut lowest_up, mut lowest_down) = (0.0, 0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for (i, &value) in values.iter().enumerate() {
        mean += (value - mean) / (i + 1) as f64;
        up += value - mean - settings.tolerance;
        down += mean - value - settings.tolerance;
        lowest_up = lowest_up.min(up);
        lowest_down = lowest_down.min(down);
        if i + 1 > settings.warm_up {
            if up - lowest_up > settings.limit {
                return Some((i, true));
            }
            if down - lowest_down > settings.limit {
                return Some((i, false));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_series_has_the_smallest_p() {
        let test = mann_kendall(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((test.s, test.tau), (10, 1.0));
        assert!((test.p - 2.0 / 120.0).abs() < 1e-15);
    }

    #[test]
    fn a_constant_series_has_no_trend() {
        let test = mann_kendall(&[3.0; 10]).unwrap();
        assert_eq!((test.s, test.tau, test.p), (0, 0.0, 1.0));
    }

    #[test]
    fn the_slope_ignores_a_spike() {
        let mut values: Vec<f64> = (0..20).map(|i| 2.0 * f64::from(i)).collect();
        values[7] = 1e6;
        assert!((theil_sen_slope(&values).unwrap() - 2.0).abs() < 0.2);
    }

    #[test]
    fn the_alarm_comes_after_the_drift_begins_and_not_without_one() {
        let settings = PageHinkley { tolerance: 0.005, limit: 0.3, warm_up: 5 };
        let wobble = |i: u32| 0.01 * f64::from((i * 7) % 5) - 0.02;
        let calm: Vec<f64> = (0..80).map(wobble).collect();
        assert_eq!(page_hinkley(&calm, settings), None);
        let drifting: Vec<f64> =
            (0..80).map(|i| wobble(i) + 0.01 * f64::from(i.saturating_sub(30))).collect();
        let (at, up) = page_hinkley(&drifting, settings).unwrap();
        assert!(up && (31..60).contains(&at), "{at}");
        let falling: Vec<f64> = drifting.iter().map(|v| -v).collect();
        assert_eq!(page_hinkley(&falling, settings), Some((at, false)));
    }
}
