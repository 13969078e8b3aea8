//! Several modes in one sample: Hartigan's dip and the best split in two clusters.
//!
//! A result that jumps between two levels (memory layout, a choice made by the loader, another
//! NUMA node) has a median that says little. The dip asks whether one mode suffices at all; the
//! split tells where the two are.

use crate::descriptive::{mean, median, sorted, standard_deviation};
use crate::rng::Rng;

/// The dip statistic: the largest distance to the nearest unimodal distribution function.
///
/// From 1/(2n) for evenly spread values up to 1/4 for two points. Method: Hartigan and Hartigan
/// (1985) with the algorithm of P. M. Hartigan (1985, AS 217): shrink the interval that may hold the mode while
/// the greatest convex minorant left of it and the least concave majorant right of it fit worse.
/// 0 for no values.
pub fn dip(values: &[f64]) -> f64 {
    let x = sorted(values);
    let n = x.len();
    if n == 0 {
        return 0.0;
    }
    if n < 4 || x[0] == x[n - 1] {
        return 0.5 / n as f64;
    }
    let minorant = hull_links(&x, false);
    let majorant = hull_links(&x, true);
    let (mut low, mut high) = (0, n - 1);
    // In units of 1/(2n) throughout; the smallest possible dip is 1.
    let mut largest = 1.0f64;
    loop {
        // Vertices of the minorant from high down to low, of the majorant from low up to high.
        let convex = follow(&minorant, high, low);
        let concave = follow(&majorant, low, high);
        let (distance, at_convex, at_concave) = widest_gap(&x, &convex, &concave);
        if distance < largest {
            break;
        }
        let left = gap_to_minorant(&x, &convex[at_convex..]);
        let right = gap_to_majorant(&x, &concave[at_concave..]);
        largest = largest.max(left).max(right);
        if low == convex[at_convex] && high == concave[at_concave] {
            break;
        }
        low = convex[at_convex];
        high = concave[at_concave];
    }
    largest / (2 * n) as f64
}

/// For each index the neighbouring vertex of the convex minorant (to the left) of the points up
/// to it, or of the concave majorant (to the right) of the points from it on.
fn hull_links(x: &[f64], concave: bool) -> Vec<usize> {
    let n = x.len();
    let mut links = vec![0; n];
    let end = if concave { n - 1 } else { 0 };
    links[end] = end;
    for step in 1..n {
        let at = if concave { n - 1 - step } else { step };
        let mut vertex = if concave { at + 1 } else { at - 1 };
        loop {
            let next = links[vertex];
            let spaced = |a: usize, b: usize| a.abs_diff(b) as f64;
            let keeps_shape = (x[at] - x[vertex]).abs() * spaced(vertex, next)
                < (x[vertex] - x[next]).abs() * spaced(at, vertex);
            if vertex == end || keeps_shape {
                break;
            }
            vertex = next;
        }
        links[at] = vertex;
    }
    links
}

/// The vertices met when following `links` from `from` to `to`, both included.
fn follow(links: &[usize], from: usize, to: usize) -> Vec<usize> {
    let mut path = vec![from];
    let mut at = from;
    while (from > to && at > to) || (from < to && at < to) {
        at = links[at];
        path.push(at);
    }
    path
}

/// The largest vertical distance between majorant and minorant, and where on each it is.
fn widest_gap(x: &[f64], convex: &[usize], concave: &[usize]) -> (f64, usize, usize) {
    if convex.len() == 2 && concave.len() == 2 {
        return (1.0, 1, 1);
    }
    // `i` walks the minorant's vertices upwards in value, `j` the majorant's.
    let (mut i, mut j) = (convex.len() - 2, 1);
    let (mut widest, mut at_convex, mut at_concave) = (0.0f64, convex.len() - 1, concave.len() - 1);
    loop {
        let (g, l) = (convex[i], concave[j]);
        if g > l {
            // The next vertex is the majorant's: measure down to the minorant's chord there.
            let before = convex[i + 1];
            let chord = (x[l] - x[before]) * (g - before) as f64 / (x[g] - x[before]);
            let gap = (l as f64 - before as f64 + 1.0) - chord;
            j += 1;
            if gap >= widest {
                (widest, at_convex, at_concave) = (gap, i + 1, j - 1);
            }
        } else {
            let before = concave[j - 1];
            let chord = (x[g] - x[before]) * (l - before) as f64 / (x[l] - x[before]);
            let gap = chord - (g as f64 - before as f64 - 1.0);
            let was = i;
            i = i.saturating_sub(1);
            if gap >= widest {
                (widest, at_convex, at_concave) = (gap, was, j);
            }
        }
        j = j.min(concave.len() - 1);
        if convex[i] == concave[j] {
            return (widest, at_convex, at_concave);
        }
    }
}

/// The largest distance from the distribution function down to the minorant along `vertices`.
fn gap_to_minorant(x: &[f64], vertices: &[usize]) -> f64 {
    let mut largest = 0.0f64;
    for pair in vertices.windows(2) {
        let (begin, end) = (pair[1], pair[0]);
        let mut gap = 1.0f64;
        if end - begin > 1 && x[end] != x[begin] {
            let slope = (end - begin) as f64 / (x[end] - x[begin]);
            for k in begin..=end {
                gap = gap.max((k - begin) as f64 + 1.0 - (x[k] - x[begin]) * slope);
            }
        }
        largest = largest.max(gap);
    }
    largest
}

/// The largest distance from the majorant along `vertices` down to the distribution function.
fn gap_to_majorant(x: &[f64], vertices: &[usize]) -> f64 {
    let mut largest = 0.0f64;
    for pair in vertices.windows(2) {
        let (begin, end) = (pair[0], pair[1]);
        let mut gap = 1.0f64;
        if end - begin > 1 && x[end] != x[begin] {
            let slope = (end - begin) as f64 / (x[end] - x[begin]);
            for k in begin..=end {
                gap = gap.max((x[k] - x[begin]) * slope - (k as f64 - begin as f64 - 1.0));
            }
        }
        largest = largest.max(gap);
    }
    largest
}

/// The p-value of the dip against the uniform distribution, the least favourable unimodal one.
///
/// Simulated with `draws` samples of the same size from `seed`; at most 500 values are looked at
/// (evenly picked order statistics of a larger sample), which bounds the work.
pub fn dip_p_value(values: &[f64], draws: usize, seed: u64) -> f64 {
    const MOST: usize = 500;
    let all = sorted(values);
    let used: Vec<f64> = if all.len() > MOST {
        (0..MOST).map(|i| all[i * (all.len() - 1) / (MOST - 1)]).collect()
    } else {
        all
    };
    if used.len() < 4 {
        return 1.0;
    }
    let observed = dip(&used);
    let mut rng = Rng::new(seed);
    let mut as_large = 1;
    for _ in 0..draws {
        let uniform: Vec<f64> = (0..used.len()).map(|_| rng.uniform()).collect();
        as_large += usize::from(dip(&uniform) >= observed);
    }
    as_large as f64 / (draws + 1) as f64
}

/// A sample seen as two clusters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoModes {
    /// Median of the lower cluster.
    pub low: f64,
    /// Median of the upper cluster.
    pub high: f64,
    /// Share of values in the upper cluster.
    pub high_share: f64,
    /// Distance of the means over the root mean square of the spreads within (Ashman's D).
    pub separation: f64,
}

/// The split into two clusters with the least variance within, each of at least `least` values.
///
/// `None` when there are too few values or they do not vary. Ashman, Bird and Zepf (1994) ask
/// for a separation above 2 for two modes to be apart; any sample has *some* best split (an even
/// spread about 3.5), so read this together with [`dip_p_value`].
pub fn two_modes(values: &[f64], least: usize) -> Option<TwoModes> {
    let x = sorted(values);
    let n = x.len();
    let least = least.max(2);
    if n < 2 * least || x[0] == x[n - 1] {
        return None;
    }
    let within = |part: &[f64]| {
        let centre = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|v| (v - centre).powi(2)).sum::<f64>()
    };
    let cut = (least..=n - least).min_by(|&a, &b| {
        (within(&x[..a]) + within(&x[a..])).total_cmp(&(within(&x[..b]) + within(&x[b..])))
    })?;
    let (lower, upper) = x.split_at(cut);
    let spread = (0.5 * (standard_deviation(lower)?.powi(2) + standard_deviation(upper)?.powi(2))).sqrt();
    let distance = mean(upper)? - mean(lower)?;
    Some(TwoModes {
        low: median(lower)?,
        high: median(upper)?,
        high_share: upper.len() as f64 / n as f64,
        separation: if spread > 0.0 { distance / spread } else { f64::INFINITY },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bell(n: usize, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        (0..n).map(|_| rng.normal()).collect()
    }

    #[test]
    fn an_even_spread_has_the_smallest_dip() {
        let values: Vec<f64> = (0..50).map(f64::from).collect();
        assert!((dip(&values) - 0.01).abs() < 1e-12);
    }

    #[test]
    fn two_points_have_the_largest_dip() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2) + 1e-9 * f64::from(i)).collect();
        assert!((dip(&values) - 0.25).abs() < 0.01, "{}", dip(&values));
    }

    #[test]
    fn one_bell_is_unimodal_and_two_are_not() {
        let one = bell(60, 1);
        assert!(dip_p_value(&one, 400, 2) > 0.2);
        let two: Vec<f64> =
            one.iter().enumerate().map(|(i, v)| v + if i % 2 == 0 { 0.0 } else { 6.0 }).collect();
        assert!(dip_p_value(&two, 400, 2) < 0.01);
        let modes = two_modes(&two, 5).unwrap();
        assert!((modes.high - modes.low - 6.0).abs() < 1.0 && modes.separation > 4.0, "{modes:?}");
        assert!((modes.high_share - 0.5).abs() < 0.05);
    }

    #[test]
    fn the_dip_ignores_shift_scale_and_order() {
        let values = bell(40, 3);
        let mut turned: Vec<f64> = values.iter().map(|v| 5.0 - 2.0 * v).collect();
        turned.reverse();
        assert!((dip(&values) - dip(&turned)).abs() < 1e-12);
    }

    #[test]
    fn too_few_or_equal_values_have_no_two_modes() {
        assert_eq!(two_modes(&[1.0, 2.0, 3.0], 2), None);
        assert_eq!(two_modes(&[1.0; 10], 2), None);
        assert_eq!(dip_p_value(&[1.0, 2.0], 10, 0), 1.0);
    }
}
