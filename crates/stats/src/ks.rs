//! The two-sample Kolmogorov-Smirnov test.
//!
//! Rank tests look for a shift; this one sees any difference of two distributions, such as a
//! second mode or a longer tail at the same median.

use crate::descriptive::sorted;

/// The test's outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KsTest {
    /// The largest distance of the two empirical distribution functions.
    pub distance: f64,
    /// Two-sided p-value, from lattice paths; conservative when there are ties.
    pub p: f64,
}

/// Compares the distributions of `x` and `y`; `None` if either is empty.
///
/// The p-value is exact for values without ties: the share of lattice paths from (0, 0) to
/// (m, n) that leave the band |i/m − j/n| < D somewhere (Hodges, 1958).
pub fn kolmogorov_smirnov(x: &[f64], y: &[f64]) -> Option<KsTest> {
    if x.is_empty() || y.is_empty() {
        return None;
    }
    let (x, y) = (sorted(x), sorted(y));
    let (m, n) = (x.len(), y.len());
    let (mut i, mut j) = (0, 0);
    // The distance times m·n, a whole number.
    let mut widest = 0usize;
    while i < m && j < n {
        let at = x[i].min(y[j]);
        while i < m && x[i] <= at {
            i += 1;
        }
        while j < n && y[j] <= at {
            j += 1;
        }
        widest = widest.max((i * n).abs_diff(j * m));
    }
    Some(KsTest { distance: widest as f64 / (m * n) as f64, p: share_of_paths_leaving(m, n, widest) })
}

/// The share of lattice paths on which |i·n − j·m| reaches `widest`.
///
/// `leaving[j]` holds, for the current i, the probability that a random path through (i, j) has
/// left the band before or there. Working with the leaving share keeps small p-values precise.
fn share_of_paths_leaving(m: usize, n: usize, widest: usize) -> f64 {
    if widest == 0 {
        return 1.0;
    }
    let outside = |i: usize, j: usize| (i * n).abs_diff(j * m) >= widest;
    let mut leaving: Vec<f64> = vec![0.0; n + 1];
    for i in 0..=m {
        for j in 0..=n {
            leaving[j] = if outside(i, j) {
                1.0
            } else if i == 0 && j == 0 {
                0.0
            } else if i == 0 {
                leaving[j - 1]
            } else if j == 0 {
                leaving[0]
            } else {
                // The last step of a uniformly drawn path to (i, j) came from the left with
                // probability i/(i+j), from below with j/(i+j).
                let (a, b) = (i as f64, j as f64);
                (a * leaving[j] + b * leaving[j - 1]) / (a + b)
            };
        }
    }
    leaving[n].min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_samples_are_at_distance_one() {
        let test = kolmogorov_smirnov(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!(test.distance, 1.0);
        assert!((test.p - 0.1).abs() < 1e-15);
    }

    #[test]
    fn equal_samples_are_at_distance_zero() {
        let test = kolmogorov_smirnov(&[1.0, 2.0], &[2.0, 1.0]).unwrap();
        assert_eq!((test.distance, test.p), (0.0, 1.0));
    }

    #[test]
    fn a_second_mode_at_the_same_median_is_seen() {
        let one: Vec<f64> = (0..40).map(|i| 10.0 + f64::from(i) * 0.01).collect();
        let two: Vec<f64> = (0..40).map(|i| if i < 20 { 8.0 } else { 12.4 } + f64::from(i) * 0.001).collect();
        assert!(kolmogorov_smirnov(&one, &two).unwrap().p < 1e-4);
        assert!(crate::rank::mann_whitney(&one, &two).unwrap().p > 0.9);
    }
}
