//! Hodges-Lehmann estimates of location and shift.
//!
//! The one-sample estimate is the median of the Walsh averages (xᵢ + xⱼ)/2, i ≤ j; the two-sample
//! one is the median of all differences yⱼ − xᵢ. Both keep about 95 % of the mean's precision on
//! normal data and stay put while fewer than 29 % of the values are wild (Hodges and Lehmann, 1963).

use crate::descriptive::{median, median_of_sorted};

/// The one-sample Hodges-Lehmann estimate; `None` for no values.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    WalshAverages::new(values).median(None)
}

/// The two-sample Hodges-Lehmann estimate of how far `y` lies above `x`.
pub fn hodges_lehmann_shift(x: &[f64], y: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = y.iter().flat_map(|b| x.iter().map(move |a| b - a)).collect();
    median(&differences)
}

/// The sorted Walsh averages of a sample, prepared for many weighted medians.
///
/// A bootstrap resample is the original sample with multiplicities. Its Walsh averages are the
/// original ones with multiplicities too: pair (i, j) occurs mᵢ·mⱼ times, and (i, i) occurs
/// mᵢ(mᵢ + 1)/2 times. So each resample needs one scan instead of a sort.
pub struct WalshAverages {
    /// (average, i, j) in ascending order of the average.
    pairs: Vec<(f64, u32, u32)>,
    sample_len: usize,
}

impl WalshAverages {
    /// Prepares the averages of `values`.
    pub fn new(values: &[f64]) -> Self {
        let mut pairs = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate().skip(i) {
                pairs.push((0.5 * (a + b), i as u32, j as u32));
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        WalshAverages { pairs, sample_len: values.len() }
    }

    /// The median of the averages when value `i` occurs `multiplicity[i]` times (once without).
    pub fn median(&self, multiplicity: Option<&[u32]>) -> Option<f64> {
        let Some(multiplicity) = multiplicity else {
            let averages: Vec<f64> = self.pairs.iter().map(|p| p.0).collect();
            return median_of_sorted(&averages);
        };
        debug_assert_eq!(multiplicity.len(), self.sample_len);
        let n: u64 = multiplicity.iter().map(|&m| u64::from(m)).sum();
        let total = n * (n + 1) / 2;
        if total == 0 {
            return None;
        }
        let (low_rank, high_rank) = (total.div_ceil(2), total / 2 + 1);
        let mut seen = 0;
        let mut low = None;
        for &(average, i, j) in &self.pairs {
            let (mi, mj) = (u64::from(multiplicity[i as usize]), u64::from(multiplicity[j as usize]));
            seen += if i == j { mi * (mi + 1) / 2 } else { mi * mj };
            if low.is_none() && seen >= low_rank {
                low = Some(average);
            }
            if seen >= high_rank {
                return low.map(|l| 0.5 * (l + average));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn a_wild_value_hardly_moves_the_estimate() {
        let calm = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02];
        let mut wild = calm;
        wild[3] = 1e6;
        let moved = hodges_lehmann(&wild).unwrap() - hodges_lehmann(&calm).unwrap();
        assert!(moved.abs() < 0.1, "{moved}");
    }

    #[test]
    fn weighted_median_equals_the_estimate_of_the_repeated_sample() {
        let mut rng = Rng::new(3);
        for n in [1usize, 2, 5, 9] {
            let values: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let prepared = WalshAverages::new(&values);
            for _ in 0..50 {
                let mut multiplicity = vec![0u32; n];
                for _ in 0..n {
                    multiplicity[rng.below(n)] += 1;
                }
                let repeated: Vec<f64> = values
                    .iter()
                    .zip(&multiplicity)
                    .flat_map(|(&v, &m)| std::iter::repeat_n(v, m as usize))
                    .collect();
                let fast = prepared.median(Some(&multiplicity)).unwrap();
                assert!((fast - hodges_lehmann(&repeated).unwrap()).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn shift_is_antisymmetric_and_follows_a_shift() {
        let x = [1.0, 4.0, 2.5];
        let y = [2.0, 7.0, 3.0, 3.5];
        let d = hodges_lehmann_shift(&x, &y).unwrap();
        assert_eq!(hodges_lehmann_shift(&y, &x).unwrap(), -d);
        let moved: Vec<f64> = y.iter().map(|v| v + 5.0).collect();
        assert!((hodges_lehmann_shift(&x, &moved).unwrap() - d - 5.0).abs() < 1e-12);
    }
}
