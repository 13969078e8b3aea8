//! From campaigns to facts: the numbers the root-cause rules look at.

use std::collections::BTreeSet;

use tallygraph_stats::descriptive::{
    lag1_autocorrelation, maximum, median, median_absolute_deviation, minimum,
};
use tallygraph_stats::modes::{dip_p_value, two_modes};
use tallygraph_stats::outliers::modified_z;
use tallygraph_stats::trend::{mann_kendall, theil_sen_slope};

use super::Subject;
use super::rules::Facts;
use crate::history::Point;
use crate::model::{Campaign, Measured, is_exact};
use crate::report::WORK_TOLERANCE;

/// Draws of the simulated null distribution of the dip.
const DIP_DRAWS: usize = 500;

/// Collects the facts; what the data do not say is absent.
pub fn collect(subject: &Subject, series: &[Point]) -> Facts {
    let mut facts = Facts::new();
    let measured: Vec<(&Campaign, &Measured)> = subject
        .campaigns
        .iter()
        .filter_map(|c| Some((*c, c.benchmarks.get(subject.benchmark)?)))
        .filter(|(_, m)| m.median(subject.metric).is_some())
        .collect();
    let metric = subject.metric;
    let mut set = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            facts.insert(name.to_string(), value);
        }
    };
    let flag = |b: bool| Some(f64::from(u8::from(b)));
    let values: Vec<f64> = series.iter().map(|p| p.value).collect();
    set("campaigns", Some(values.len() as f64));
    let runs: Vec<f64> = measured.iter().map(|(_, m)| m.values(metric).len() as f64).collect();
    set("runs", median(&runs));
    set("samples", Some(runs.iter().sum()));
    let warm_up =
        measured.iter().any(|(_, m)| m.metrics.get(metric).is_some_and(|s| s.iter().any(|s| s.warm_up)));
    set("warm_up", flag(warm_up));
    let settings: Vec<_> = measured.iter().map(|(_, m)| &m.setting).collect();
    set("profiled", flag(settings.iter().any(|s| s.profiled)));
    set("cache_simulation", flag(settings.iter().any(|s| s.cache_simulation)));
    spread(&mut set, &values);
    let typical = super::typical(&values);
    if !is_exact(metric) && crate::model::unit_of(metric) == crate::model::Unit::Seconds {
        set("typical_seconds", typical);
        set("largest_excess", typical.and_then(|t| Some(maximum(&values)? - t)));
    }
    let sibling = sibling_spread(subject);
    set("sibling_spread", sibling);
    set("amplification", sibling.and_then(|s| Some(maximum(&values)? / minimum(&values)? / s)));
    sides(&mut set, subject, &measured, series);
    within(&mut set, &measured, metric);
    interference(&mut set, &measured);
    let logs: Vec<f64> = values.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect();
    if logs.len() >= 8
        && let (Some(test), Some(slope)) = (mann_kendall(&logs), theil_sen_slope(&logs))
    {
        set("drift_p", Some(test.p));
        set("drift_percent", Some(100.0 * (slope * (logs.len() - 1) as f64).exp_m1().abs()));
    }
    let exact = is_exact(metric);
    let machines: BTreeSet<String> = measured.iter().map(|(c, _)| c.environment.class_key(exact)).collect();
    set("machines", Some(machines.len() as f64));
    if machines.len() > 1 {
        set("hosts_disagree", flag(hosts_disagree(&measured, metric)));
    }
    if let Some(equal) = subject.profiles.map(super::calls_equal) {
        set("calls_equal", flag(equal));
    }
    facts
}

fn spread(set: &mut impl FnMut(&str, Option<f64>), values: &[f64]) {
    if values.len() < 2 {
        return;
    }
    set("spread", maximum(values).zip(minimum(values)).map(|(high, low)| high / low));
    let typical = super::typical(values).unwrap_or(0.0);
    // Far from the others: beyond half as much again as the typical value.
    let outlying = values.iter().filter(|v| **v > 1.5 * typical).count();
    set("outlying_campaigns", Some(outlying as f64));
}

/// The median spread of the same tool and command in configurations without cache simulation.
fn sibling_spread(subject: &Subject) -> Option<f64> {
    let own = subject.campaigns.iter().find_map(|c| c.benchmarks.get(subject.benchmark))?;
    let command = |id: &str| -> Option<String> {
        let (_, inside) = id.split_once('[')?;
        let (rest, _config) = inside.rsplit_once(", ")?;
        Some(rest.to_string())
    };
    let wanted = command(subject.benchmark)?;
    let names: BTreeSet<&String> = subject.campaigns.iter().flat_map(|c| c.benchmarks.keys()).collect();
    let mut spreads = Vec::new();
    for id in names.into_iter().filter(|id| *id != subject.benchmark) {
        if command(id).as_ref() != Some(&wanted) {
            continue;
        }
        let same: Vec<&Measured> = subject.campaigns.iter().filter_map(|c| c.benchmarks.get(id)).collect();
        if same.iter().any(|m| m.setting.cache_simulation || m.setting.tool != own.setting.tool) {
            continue;
        }
        let values: Vec<f64> = same.iter().filter_map(|m| m.median(subject.metric)).collect();
        if values.len() >= 2 {
            spreads.extend(maximum(&values).zip(minimum(&values)).map(|(high, low)| high / low));
        }
    }
    median(&spreads)
}

/// Base against head: time, work, identity, and each against its own history.
fn sides(
    set: &mut impl FnMut(&str, Option<f64>),
    subject: &Subject,
    measured: &[(&Campaign, &Measured)],
    series: &[Point],
) {
    let flag = |b: bool| Some(f64::from(u8::from(b)));
    let of =
        |id: Option<&str>| measured.iter().find(|(c, _)| Some(c.info.id.as_str()) == id).map(|(_, m)| *m);
    let (base, head) = (of(subject.base), of(subject.head));
    for (name, id) in [("base_outlier", subject.base), ("head_outlier", subject.head)] {
        let check = id.and_then(|id| super::sanity_of(series, id, subject.threshold));
        set(name, check.and_then(|c| flag(c.outlier)));
    }
    let (Some(base), Some(head)) = (base, head) else { return };
    if let (Some(b), Some(h)) = (base.median(subject.metric), head.median(subject.metric)) {
        set("time_change_percent", Some(100.0 * (h / b - 1.0)));
        set("time_moved", flag((h / b).ln().abs() > subject.threshold.ln_1p()));
    }
    if let (Some(b), Some(h)) = (base.median("Ir"), head.median("Ir")) {
        set("work_change_percent", Some(100.0 * (h / b - 1.0)));
        set("work_same", flag((h / b - 1.0).abs() <= WORK_TOLERANCE));
    }
    if let (Some(b), Some(h)) = (&base.setting.identity, &head.setting.identity) {
        set("identity_same", flag(b == h));
    }
}

/// Runs within the campaigns, each relative to its campaign's median.
fn within(set: &mut impl FnMut(&str, Option<f64>), measured: &[(&Campaign, &Measured)], metric: &str) {
    let mut spikes = 0;
    let mut spreads = Vec::new();
    let mut correlations = Vec::new();
    let mut first_ratios = Vec::new();
    let mut widest: Option<Vec<f64>> = None;
    for (_, m) in measured {
        let values = m.values(metric);
        let all: Vec<f64> = m.metrics.get(metric).into_iter().flatten().map(|s| s.value).collect();
        if values.len() < 5 {
            continue;
        }
        let centre = median(&values).unwrap_or(1.0);
        spikes += values
            .iter()
            .filter(|v| **v > 1.2 * centre && modified_z(**v, &values).is_some_and(|z| z > 7.0))
            .count();
        spreads.extend(median_absolute_deviation(&values).map(|mad| 100.0 * 1.4826 * mad / centre));
        correlations.extend(lag1_autocorrelation(&values));
        if let (Some(first), Some(rest)) = (all.first(), median(&all[1..])) {
            first_ratios.push(first / rest);
        }
        if widest.as_ref().is_none_or(|w| w.len() < values.len()) {
            widest = Some(values);
        }
    }
    if spreads.is_empty() {
        return;
    }
    set("spikes", Some(spikes as f64));
    set("within_percent", median(&spreads));
    set("autocorrelation", median(&correlations));
    set("first_run_ratio", median(&first_ratios));
    if let Some(values) = widest.filter(|v| v.len() >= 10) {
        set("dip_p", Some(dip_p_value(&values, DIP_DRAWS, 1)));
        if let Some(modes) = two_modes(&values, 3) {
            set("mode_low", Some(modes.low));
            set("mode_high", Some(modes.high));
            set("mode_high_percent", Some(100.0 * modes.high_share));
            set("mode_separation", Some(modes.separation));
        }
    }
}

fn interference(set: &mut impl FnMut(&str, Option<f64>), measured: &[(&Campaign, &Measured)]) {
    let shares: Vec<f64> = measured
        .iter()
        .filter_map(|(_, m)| {
            let wall: f64 = m.values("wall").iter().sum();
            let steal = m.values("steal");
            (!steal.is_empty() && wall > 0.0).then(|| 100.0 * steal.iter().sum::<f64>() / wall)
        })
        .collect();
    set("steal_share_percent", maximum(&shares));
}

/// Whether values on one kind of machine lie apart from those on another.
fn hosts_disagree(measured: &[(&Campaign, &Measured)], metric: &str) -> bool {
    let exact = is_exact(metric);
    let mut by_host: std::collections::BTreeMap<String, Vec<f64>> = std::collections::BTreeMap::new();
    for (campaign, m) in measured {
        by_host.entry(campaign.environment.class_key(exact)).or_default().extend(m.median(metric));
    }
    let medians: Vec<f64> = by_host.values().filter_map(|v| median(v)).collect();
    maximum(&medians).zip(minimum(&medians)).is_some_and(|(high, low)| high / low > 1.05)
}
