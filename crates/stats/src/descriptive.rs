//! Numbers that describe one sample: centre, spread, quantiles, autocorrelation.

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut copy = values.to_vec();
    copy.sort_by(f64::total_cmp);
    copy
}

/// The arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The variance with n − 1 in the denominator; `None` below two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    (values.len() > 1)
        .then(|| values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (values.len() - 1) as f64)
}

/// The square root of [`variance`].
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    variance(values).map(f64::sqrt)
}

/// The middle value, or the mean of the two middle ones; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(values))
}

/// [`median`] of values already in ascending order.
pub fn median_of_sorted(values: &[f64]) -> Option<f64> {
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some(0.5 * (values[n / 2 - 1] + values[n / 2])),
    }
}

/// The `p`-quantile by linear interpolation of the order statistics (type 7 of Hyndman and Fan).
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(values), p)
}

/// [`quantile`] of values already in ascending order.
pub fn quantile_of_sorted(values: &[f64], p: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    Some(values[below] + (position - below as f64) * (values[above] - values[below]))
}

/// The median of the distances from the median, unscaled.
///
/// Times 1.4826 it estimates the standard deviation of normal data.
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    median(&values.iter().map(|v| (v - centre).abs()).collect::<Vec<_>>())
}

/// The smallest value.
pub fn minimum(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// The largest value.
pub fn maximum(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// The geometric mean of positive values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    mean(&values.iter().map(|v| v.ln()).collect::<Vec<_>>()).map(f64::exp)
}

/// The correlation of each value with the one before it, from −1 to 1.
///
/// `None` below three values or when all are equal.
pub fn lag1_autocorrelation(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    let centre = mean(values)?;
    let total: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    let products: f64 = values.windows(2).map(|w| (w[0] - centre) * (w[1] - centre)).sum();
    (total > 0.0).then(|| products / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.25), Some(1.75));
        assert_eq!(median(&values), Some(2.5));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn spread_of_one_value_is_unknown() {
        assert_eq!(variance(&[3.0]), None);
        assert_eq!(median_absolute_deviation(&[3.0]), Some(0.0));
    }

    #[test]
    fn an_alternating_series_is_negatively_correlated() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        assert!(lag1_autocorrelation(&values).unwrap() < -0.9);
        assert_eq!(lag1_autocorrelation(&[1.0; 5]), None);
    }
}
