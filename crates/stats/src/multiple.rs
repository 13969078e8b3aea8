//! Several tests in one report: adjusted p-values.

/// Benjamini and Hochberg's adjusted p-values, in the order given.
///
/// Calling significant what is ≤ q keeps the expected share of false alarms among all alarms at
/// or below q for independent or positively dependent tests, and the chance of *any* alarm at or
/// below q when nothing has changed at all (Benjamini and Hochberg, 1995).
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let m = p.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; m];
    let mut smallest = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        // The factor is at least 1, so rounding never puts the result below the raw p-value.
        smallest = smallest.min(p[index] * (m as f64 / (rank + 1) as f64));
        adjusted[index] = smallest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_values_keep_the_order() {
        let adjusted = benjamini_hochberg(&[0.04, 0.001, 0.03, 0.5]);
        assert!(adjusted[1] <= adjusted[2] && adjusted[2] <= adjusted[0] && adjusted[0] <= adjusted[3]);
        assert!((adjusted[1] - 0.004).abs() < 1e-15);
        assert!(benjamini_hochberg(&[]).is_empty());
    }

    #[test]
    fn a_single_test_is_left_alone() {
        assert_eq!(benjamini_hochberg(&[0.2]), [0.2]);
    }
}
