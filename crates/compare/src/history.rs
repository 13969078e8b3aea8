//! The past of a benchmark: its series over campaigns, what stands out and where it moved.
//!
//! A series holds one point a campaign, for one benchmark and metric on one class of machines.
//! It is analysed on the log scale. First change points are searched (E-divisive, after single
//! spikes were taken out by a Hampel filter), then each point is compared with the others of its
//! own stretch, so that a lasting step is a change and not a row of outliers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tallygraph_stats::change::{EDivisive, e_divisive};
use tallygraph_stats::descriptive::median;
use tallygraph_stats::outliers::{hampel_filter, modified_z, tukey_fences};
use tallygraph_stats::trend::{PageHinkley, mann_kendall, page_hinkley, theil_sen_slope};

use crate::model::{Campaign, Purpose, Unit, is_exact, unit_of};

/// One campaign's result in a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Id of the campaign.
    pub campaign: String,
    /// Branch or tag.
    pub reference: String,
    /// Commit.
    pub commit: String,
    /// Start of the campaign in UTC.
    pub time: String,
    /// Median over runs.
    pub value: f64,
    /// Smallest run.
    pub least: f64,
    /// Number of runs behind it.
    pub runs: usize,
    /// Median instruction count of the same campaign, if counted.
    pub counts: Option<f64>,
    /// Identity of what ran, if known.
    pub identity: Option<String>,
    /// Class of the machine, see [`crate::fingerprint::Fingerprint::class_key`].
    pub environment: String,
}

/// All series of a set of campaigns.
#[derive(Clone, Debug, Default)]
pub struct History {
    series: BTreeMap<String, BTreeMap<String, Vec<Point>>>,
}

impl History {
    /// Collects the series of all benchmarks and metrics, ordered by time.
    ///
    /// Campaigns that measured the noise floor are part of it as well: they are as good a
    /// measurement as any.
    pub fn from_campaigns<'a>(campaigns: impl IntoIterator<Item = &'a Campaign>) -> Self {
        let mut history = History::default();
        for campaign in campaigns {
            for (id, measured) in &campaign.benchmarks {
                for metric in measured.metrics.keys() {
                    let values = measured.values(metric);
                    let (Some(value), Some(least)) =
                        (median(&values), tallygraph_stats::descriptive::minimum(&values))
                    else {
                        continue;
                    };
                    let point = Point {
                        campaign: campaign.info.id.clone(),
                        reference: campaign.info.reference.clone(),
                        commit: campaign.info.commit.clone(),
                        time: campaign.info.started.clone(),
                        value,
                        least,
                        runs: values.len(),
                        counts: if metric == "Ir" { None } else { measured.median("Ir") },
                        identity: measured.setting.identity.clone(),
                        environment: match campaign.info.purpose {
                            Purpose::Imported => String::new(),
                            _ => campaign.environment.class_key(is_exact(metric)),
                        },
                    };
                    history.push(id, metric, point);
                }
            }
        }
        for series in history.series.values_mut().flat_map(BTreeMap::values_mut) {
            series.sort_by(|a, b| a.time.cmp(&b.time).then(a.campaign.cmp(&b.campaign)));
        }
        history
    }

    /// Adds a point at the end of a series.
    pub fn push(&mut self, benchmark: &str, metric: &str, point: Point) {
        self.series
            .entry(benchmark.to_string())
            .or_default()
            .entry(metric.to_string())
            .or_default()
            .push(point);
    }

    /// The points of a benchmark and metric, oldest first; empty if there are none.
    pub fn series(&self, benchmark: &str, metric: &str) -> &[Point] {
        self.series.get(benchmark).and_then(|m| m.get(metric)).map_or(&[], Vec::as_slice)
    }

    /// Benchmarks with at least one series.
    pub fn benchmarks(&self) -> impl Iterator<Item = &str> {
        self.series.keys().map(String::as_str)
    }

    /// Metrics of a benchmark.
    pub fn metrics(&self, benchmark: &str) -> impl Iterator<Item = &str> {
        self.series.get(benchmark).into_iter().flat_map(|m| m.keys().map(String::as_str))
    }
}

/// A value against the history it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sanity {
    /// The history's median without the value.
    pub median: f64,
    /// The value over that median.
    pub ratio: f64,
    /// Robust standard deviations from the median; `None` where the history does not vary.
    pub z: Option<f64>,
    /// How many other values there are.
    pub others: usize,
    /// Whether the value should not be trusted.
    pub outlier: bool,
}

/// Fewest other values that can call one an outlier.
const FEWEST_OTHERS: usize = 3;

/// Checks a stored value against others of the same benchmark on the same machines.
///
/// It is an outlier beyond twice or below half the median, or beyond a modified z of 3.5 when it
/// also differs by more than `threshold`. `None` below three other values.
pub fn sanity(value: f64, others: &[f64], threshold: f64) -> Option<Sanity> {
    if others.len() < FEWEST_OTHERS {
        return None;
    }
    let centre = median(others)?;
    let ratio = value / centre;
    let z = modified_z(value, others).filter(|z| z.is_finite());
    let far = !(0.5..=2.0).contains(&ratio);
    let unusual = z.is_none_or(|z| z.abs() > 3.5) && (ratio - 1.0).abs() > threshold;
    Some(Sanity { median: centre, ratio, z, others: others.len(), outlier: far || unusual })
}

/// Settings of [`analyse`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// A value this many times its history's median is an outlier.
    pub outlier_factor: f64,
    /// Smallest relative change worth reporting.
    pub threshold: f64,
    /// Fewest campaigns between two change points.
    pub min_segment: usize,
    /// Level of the change-point test.
    pub significance: f64,
    /// Seed of the change-point test.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { outlier_factor: 5.0, threshold: 0.02, min_segment: 5, significance: 0.01, seed: 0 }
    }
}

/// Times below this differ by more than any rule knows: a scheduler tick, a page fault.
const ABSOLUTE_FLOOR_SECONDS: f64 = 0.002;

/// A point that stands out of its stretch of the series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    /// Index in the series.
    pub index: usize,
    /// The value over the median of the others in its stretch.
    pub ratio: f64,
    /// Which rules flagged it.
    pub rules: Vec<String>,
}

/// What moved a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mover {
    /// The instruction count moved too.
    Code,
    /// The instruction count stayed, or the machine changed.
    Environment,
    /// Nothing is known that would tell.
    Unclear,
}

/// A lasting change of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Index of the first point after it.
    pub index: usize,
    /// Median before, in the metric's unit.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// p-value of the change-point test.
    pub p: f64,
    /// Last commit before and first one after.
    pub commits: (String, String),
    /// What moved it.
    pub mover: Mover,
}

/// A slow movement over the newest stretch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Kendall's τ of the stretch.
    pub tau: f64,
    /// p-value of the trend.
    pub p: f64,
    /// Relative change a campaign (Theil and Sen).
    pub per_campaign: f64,
    /// Relative change over the whole stretch.
    pub total: f64,
    /// Index at which the running mean had moved by more than the threshold, if it did.
    pub alarm: Option<usize>,
}

/// What a series shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Lasting changes.
    pub changes: Vec<Change>,
    /// Points that stand out.
    pub outliers: Vec<Outlier>,
    /// Slow movement since the last change.
    pub drift: Option<Drift>,
}

/// Looks for changes, outliers and drift in a series of one machine class.
pub fn analyse(series: &[Point], metric: &str, settings: &Settings) -> Analysis {
    if series.iter().any(|p| p.value <= 0.0) {
        return Analysis::default();
    }
    let logs: Vec<f64> = series.iter().map(|p| p.value.ln()).collect();
    let exact = is_exact(metric);
    // Counts have no noise to filter or to test: each step is a change.
    let changes =
        if exact { exact_changes(series, settings) } else { noisy_changes(series, &logs, settings) };
    let mut bounds: Vec<usize> = changes.iter().map(|c| c.index).collect();
    bounds.insert(0, 0);
    bounds.push(series.len());
    let mut outliers = Vec::new();
    if !exact {
        for stretch in bounds.windows(2) {
            outliers.extend(outliers_in(series, stretch[0]..stretch[1], unit_of(metric), settings));
        }
    }
    let newest = bounds[bounds.len() - 2];
    Analysis { changes, outliers, drift: if exact { None } else { drift(&logs, newest, settings) } }
}

fn noisy_changes(series: &[Point], logs: &[f64], settings: &Settings) -> Vec<Change> {
    let calm = hampel_filter(logs, 3, 5.0);
    let search = EDivisive {
        min_segment: settings.min_segment,
        significance: settings.significance,
        seed: settings.seed,
        ..EDivisive::default()
    };
    e_divisive(&calm, search)
        .into_iter()
        .filter(|c| (c.after - c.before).abs() > settings.threshold.ln_1p())
        .map(|c| change(series, c.index, c.before.exp(), c.after.exp(), c.p))
        .collect()
}

fn exact_changes(series: &[Point], settings: &Settings) -> Vec<Change> {
    (1..series.len())
        .filter(|&i| (series[i].value / series[i - 1].value).ln().abs() > settings.threshold.ln_1p())
        .map(|i| Change {
            mover: Mover::Code,
            ..change(series, i, series[i - 1].value, series[i].value, 0.0)
        })
        .collect()
}

fn change(series: &[Point], index: usize, before: f64, after: f64, p: f64) -> Change {
    let (last, first) = (&series[index - 1], &series[index]);
    let counts = |points: &[Point]| median(&points.iter().filter_map(|p| p.counts).collect::<Vec<_>>());
    let mover = match (counts(&series[..index]), counts(&series[index..])) {
        _ if last.environment != first.environment => Mover::Environment,
        (Some(a), Some(b)) if (b / a - 1.0).abs() > 0.001 => Mover::Code,
        (Some(_), Some(_)) => Mover::Environment,
        _ => Mover::Unclear,
    };
    Change { index, before, after, p, commits: (last.commit.clone(), first.commit.clone()), mover }
}

fn outliers_in(
    series: &[Point],
    stretch: std::ops::Range<usize>,
    unit: Unit,
    settings: &Settings,
) -> Vec<Outlier> {
    let mut found = Vec::new();
    for index in stretch.clone() {
        let value = series[index].value;
        let others: Vec<f64> = stretch.clone().filter(|&i| i != index).map(|i| series[i].value).collect();
        if others.len() < FEWEST_OTHERS {
            continue;
        }
        let Some(centre) = median(&others) else { continue };
        if unit == Unit::Seconds && (value - centre).abs() < ABSOLUTE_FLOOR_SECONDS {
            continue;
        }
        let ratio = value / centre;
        let mut rules = Vec::new();
        if ratio > settings.outlier_factor {
            rules.push("factor".to_string());
        }
        if (ratio - 1.0).abs() > settings.threshold {
            let logs: Vec<f64> = others.iter().map(|v| v.ln()).collect();
            if modified_z(value.ln(), &logs).is_some_and(|z| z.abs() > 10.0) {
                rules.push("modified z".to_string());
            }
            if others.len() >= 8
                && tukey_fences(&logs, 3.0).is_some_and(|(low, high)| value.ln() < low || value.ln() > high)
            {
                rules.push("interquartile range".to_string());
            }
        }
        if !rules.is_empty() {
            found.push(Outlier { index, ratio, rules });
        }
    }
    found
}

fn drift(logs: &[f64], start: usize, settings: &Settings) -> Option<Drift> {
    let calm = hampel_filter(&logs[start..], 3, 5.0);
    if calm.len() < 8 {
        return None;
    }
    let test = mann_kendall(&calm)?;
    let slope = theil_sen_slope(&calm)?;
    let total = slope * (calm.len() - 1) as f64;
    if test.p > settings.significance || total.abs() < settings.threshold.ln_1p() {
        return None;
    }
    let limit = 3.0 * settings.threshold;
    let alarm = page_hinkley(&calm, PageHinkley { tolerance: 0.25 * settings.threshold, limit, warm_up: 5 });
    Some(Drift {
        tau: test.tau,
        p: test.p,
        per_campaign: slope.exp_m1(),
        total: total.exp_m1(),
        alarm: alarm.map(|(i, _)| start + i),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallygraph_stats::Rng;

    fn points(values: &[f64]) -> Vec<Point> {
        values
            .iter()
            .enumerate()
            .map(|(i, &value)| Point {
                campaign: format!("c{i:03}"),
                commit: format!("{i:07x}"),
                time: format!("2026-01-{:02}T00:00:00Z", i % 28 + 1),
                value,
                ..Point::default()
            })
            .collect()
    }

    fn noisy(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        levels
            .iter()
            .flat_map(|&(n, level)| std::iter::repeat_n(level, n))
            .map(|level| level * (0.01 * rng.normal()).exp())
            .collect()
    }

    #[test]
    fn a_spike_is_an_outlier_and_a_step_is_a_change() {
        let mut values = noisy(&[(15, 1.0), (15, 1.1)], 4);
        values[6] = 8.0;
        let analysis = analyse(&points(&values), "wall", &Settings::default());
        assert_eq!(analysis.changes.iter().map(|c| c.index).collect::<Vec<_>>(), [15]);
        assert_eq!(analysis.changes[0].commits, ("000000e".to_string(), "000000f".to_string()));
        assert_eq!(analysis.outliers.iter().map(|o| o.index).collect::<Vec<_>>(), [6]);
        assert!(analysis.outliers[0].rules.contains(&"factor".to_string()));
    }

    #[test]
    fn counts_tell_whether_code_or_machine_moved_the_series() {
        let mover = |counts_after: Option<f64>| {
            let mut series = points(&noisy(&[(10, 1.0), (10, 1.2)], 5));
            for (i, point) in series.iter_mut().enumerate() {
                point.counts = if i < 10 { Some(1e6) } else { counts_after };
            }
            analyse(&series, "wall", &Settings::default()).changes[0].mover
        };
        assert_eq!(mover(Some(1.2e6)), Mover::Code);
        assert_eq!(mover(Some(1e6)), Mover::Environment);
        assert_eq!(mover(None), Mover::Unclear);
    }

    #[test]
    fn a_slow_slope_is_drift_and_noise_is_not() {
        let mut rng = Rng::new(8);
        let slope: Vec<f64> = (0..14).map(|i| (0.004 * f64::from(i) + 0.002 * rng.normal()).exp()).collect();
        let settings = Settings { min_segment: 8, ..Settings::default() };
        let drift = analyse(&points(&slope), "wall", &settings).drift.unwrap();
        assert!((drift.per_campaign - 0.004).abs() < 0.0015, "{drift:?}");
        assert!(analyse(&points(&noisy(&[(20, 1.0)], 9)), "wall", &Settings::default()).drift.is_none());
    }

    #[test]
    fn every_step_of_a_count_is_a_change() {
        let analysis = analyse(&points(&[100.0, 100.0, 110.0, 110.0]), "Ir", &Settings::default());
        assert_eq!(analysis.changes.len(), 1);
        assert_eq!((analysis.changes[0].index, analysis.changes[0].mover), (2, Mover::Code));
    }

    #[test]
    fn short_times_are_not_outliers_by_their_ratio_alone() {
        let values = [0.0002, 0.0002, 0.0002, 0.0012, 0.0002];
        assert!(analyse(&points(&values), "wall", &Settings::default()).outliers.is_empty());
    }

    #[test]
    fn a_base_far_above_its_history_is_not_trusted() {
        let others = [5.5, 6.7, 6.0, 6.2];
        let check = sanity(50.3, &others, 0.02).unwrap();
        assert!(check.outlier && (check.ratio - 50.3 / 6.1).abs() < 1e-9);
        assert!(!sanity(6.3, &others, 0.02).unwrap().outlier);
        assert_eq!(sanity(50.3, &others[..2], 0.02), None);
        assert!(!sanity(1.001, &[1.0, 1.0, 1.0], 0.02).unwrap().outlier, "below the threshold");
    }
}
