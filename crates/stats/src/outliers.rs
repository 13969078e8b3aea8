//! Single wild values: modified z-scores, Tukey's fences, the Hampel filter.

use crate::descriptive::{median, median_absolute_deviation, quantile};

/// How many robust standard deviations `value` lies from the median of `reference`.
///
/// 0.6745·(x − median)/MAD (Iglewicz and Hoaglin, 1993). Where more than half of the reference is
/// equal, so that MAD is 0, the mean absolute deviation times 1.2533 stands in for it. `None`
/// for an empty reference; infinite when the reference does not vary at all and `value` differs.
pub fn modified_z(value: f64, reference: &[f64]) -> Option<f64> {
    let centre = median(reference)?;
    let mad = median_absolute_deviation(reference)?;
    let distance = value - centre;
    if mad > 0.0 {
        return Some(0.6745 * distance / mad);
    }
    let mean_deviation = reference.iter().map(|v| (v - centre).abs()).sum::<f64>() / reference.len() as f64;
    if mean_deviation > 0.0 {
        return Some(distance / (1.253_314 * mean_deviation));
    }
    Some(if distance == 0.0 { 0.0 } else { f64::INFINITY.copysign(distance) })
}

/// Tukey's fences: `factor` interquartile ranges below the first and above the third quartile.
pub fn tukey_fences(values: &[f64], factor: f64) -> Option<(f64, f64)> {
    let (first, third) = (quantile(values, 0.25)?, quantile(values, 0.75)?);
    Some((first - factor * (third - first), third + factor * (third - first)))
}

/// Indices of values further than `limit` robust deviations from the median of their neighbours.
///
/// The window reaches `half_window` values to each side and includes the value itself
/// (Hampel, 1974). Where the window does not vary apart from the value, any difference counts.
pub fn hampel_indices(values: &[f64], half_window: usize, limit: f64) -> Vec<usize> {
    (0..values.len())
        .filter(|&i| {
            let window = &values[i.saturating_sub(half_window)..(i + half_window + 1).min(values.len())];
            let (Some(centre), Some(mad)) = (median(window), median_absolute_deviation(window)) else {
                return false;
            };
            (values[i] - centre).abs() > limit * 1.4826 * mad
        })
        .collect()
}

/// `values` with each one found by [`hampel_indices`] replaced by its window's median.
pub fn hampel_filter(values: &[f64], half_window: usize, limit: f64) -> Vec<f64> {
    let mut filtered = values.to_vec();
    for i in hampel_indices(values, half_window, limit) {
        let window = &values[i.saturating_sub(half_window)..(i + half_window + 1).min(values.len())];
        filtered[i] = median(window).unwrap_or(values[i]);
    }
    filtered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_removes_a_spike_and_keeps_a_step() {
        let mut values: Vec<f64> =
            (0..20).map(|i| if i < 10 { 1.0 } else { 2.0 } + 0.01 * f64::from(i % 3)).collect();
        values[4] = 50.0;
        assert_eq!(hampel_indices(&values, 3, 4.0), [4]);
        let filtered = hampel_filter(&values, 3, 4.0);
        assert!(filtered[4] < 1.1);
        assert_eq!(filtered[..4], values[..4]);
        assert_eq!(filtered[5..], values[5..]);
    }

    #[test]
    fn a_reference_that_does_not_vary_makes_any_difference_infinite() {
        assert_eq!(modified_z(2.0, &[1.0; 4]), Some(f64::INFINITY));
        assert_eq!(modified_z(0.5, &[1.0; 4]), Some(f64::NEG_INFINITY));
        assert_eq!(modified_z(1.0, &[1.0; 4]), Some(0.0));
        assert_eq!(modified_z(1.0, &[]), None);
    }

    #[test]
    fn a_mostly_constant_reference_still_has_a_scale() {
        let z = modified_z(2.0, &[1.0, 1.0, 1.0, 1.0, 1.4]).unwrap();
        assert!(z.is_finite() && z > 3.0);
    }
}
