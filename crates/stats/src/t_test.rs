//! Welch's t test.
//!
//! Kept for what others decide with it (change-point tools, performance limits), and as a
//! reference. Our own verdicts use rank tests, since run times are neither normal nor free of
//! wild values.

use crate::descriptive::{mean, variance};
use crate::special::student_t_two_sided;

/// The test's outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// (mean of x − mean of y) / standard error.
    pub t: f64,
    /// Welch and Satterthwaite's degrees of freedom.
    pub df: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Compares two means without assuming equal variances.
///
/// `None` below two values on either side or when neither side varies.
pub fn welch(x: &[f64], y: &[f64]) -> Option<TTest> {
    let (sx, sy) = (variance(x)? / x.len() as f64, variance(y)? / y.len() as f64);
    let both = sx + sy;
    if both == 0.0 {
        return None;
    }
    let t = (mean(x)? - mean(y)?) / both.sqrt();
    let df = both * both / (sx * sx / (x.len() - 1) as f64 + sy * sy / (y.len() - 1) as f64);
    Some(TTest { t, df, p: student_t_two_sided(t, df) })
}
