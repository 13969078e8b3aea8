//! How often the rule is wrong: rates over many synthetic reports, next to other tools' rules.
//!
//! A *false alarm* is a report of 40 benchmarks, none of which changed, with at least one called
//! changed. A *detection* is a truly changed benchmark, alone among 39 unchanged ones, called
//! regressed. All rules see the same samples; ours goes through the whole report, multiplicity
//! correction included. Everything follows from one seed.

use crate::cause::NoProfiles;
use crate::decide::{Policy, Verdict};
use crate::decisions::Decisions;
use crate::history::History;
use crate::model::Campaign;
use crate::report::{Inputs, NoiseFloor, Report, Status, build};
use crate::rivals::Rival;
use crate::simulate::{Layout, Scenario, campaigns, history};

/// Benchmarks in a report.
pub const BENCHMARKS: usize = 40;

/// How much to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Reports per scenario.
    pub reports: u64,
    /// Bootstrap resamples of our rule; 10,000 in real use.
    pub resamples: usize,
    /// Bootstrap resamples of criterion's rule; 100,000 in real use.
    pub criterion_resamples: usize,
    /// Seed of everything.
    pub seed: u64,
}

/// Rates of ours, benchstat's, criterion's and the fixed rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// The scenario.
    pub name: &'static str,
    /// Share of reports (false alarms) or of changed benchmarks (detections) called, by rule.
    pub called: [f64; 4],
    /// Share of our rows left unknown: of all for false alarms, of the changed ones for detections.
    pub unknown: f64,
    /// Share of our intervals that contain the true effect.
    pub covered: f64,
}

/// Scenarios in which nothing changed.
pub fn unchanged_scenarios() -> Vec<Scenario> {
    let quiet = Scenario::QUIET;
    vec![
        Scenario { name: "0.5 % noise", noise: 0.005, ..quiet.clone() },
        Scenario { name: "2 % noise", ..quiet.clone() },
        Scenario { name: "10 % noise", noise: 0.10, ..quiet.clone() },
        Scenario { name: "2 % noise, one run a side and block", runs: 1, ..quiet.clone() },
        Scenario { name: "spikes up to 5× in 5 % of runs", spikes: (0.05, 5.0), ..quiet.clone() },
        Scenario { name: "drift of 20 % over the campaign", drift: 0.20, ..quiet.clone() },
        Scenario { name: "two modes, 15 % apart, half and half", modes: (0.5, 0.15), ..quiet.clone() },
        Scenario {
            name: "autocorrelation 0.9 of 5 % noise",
            noise: 0.05,
            autocorrelation: 0.9,
            ..quiet.clone()
        },
        Scenario { name: "bursts of 8 runs at 1.5×", bursts: (0.03, 8, 1.5), ..quiet.clone() },
        Scenario {
            name: "base first, then head; drift of 20 %, no history",
            drift: 0.20,
            layout: Layout::Sequential,
            ..quiet.clone()
        },
        Scenario {
            name: "base first, then head; campaigns ±2 %, 20 earlier ones",
            campaign_noise: 0.02,
            past: 20,
            layout: Layout::Sequential,
            ..quiet
        },
    ]
}

/// Scenarios in which one benchmark changed.
pub fn changed_scenarios() -> Vec<Scenario> {
    let quiet = Scenario::QUIET;
    vec![
        Scenario { name: "0.5 %, below our threshold", shift: 0.005, ..quiet.clone() },
        Scenario { name: "1 %, below our threshold", shift: 0.01, ..quiet.clone() },
        Scenario { name: "3 %", shift: 0.03, ..quiet.clone() },
        Scenario { name: "5 %", shift: 0.05, ..quiet.clone() },
        Scenario { name: "5 %, one run a side and block", shift: 0.05, runs: 1, ..quiet.clone() },
        Scenario {
            name: "5 %, one run a side and block, 20 blocks",
            shift: 0.05,
            runs: 1,
            blocks: 20,
            ..quiet.clone()
        },
        Scenario { name: "10 %", shift: 0.10, ..quiet.clone() },
        Scenario { name: "5 % at 0.5 % noise", shift: 0.05, noise: 0.005, ..quiet.clone() },
        Scenario { name: "5 % at 5 % noise", shift: 0.05, noise: 0.05, ..quiet.clone() },
        Scenario { name: "5 % under spikes", shift: 0.05, spikes: (0.05, 5.0), ..quiet.clone() },
        Scenario { name: "5 % under drift of 20 %", shift: 0.05, drift: 0.20, ..quiet.clone() },
        Scenario { name: "10 % under bursts", shift: 0.10, bursts: (0.03, 8, 1.5), ..quiet.clone() },
        Scenario {
            name: "10 % over two modes, 15 % apart",
            shift: 0.10,
            modes: (0.5, 0.15),
            ..quiet.clone()
        },
        Scenario {
            name: "20 %, base first, then head; campaigns ±2 %, 20 earlier ones",
            shift: 0.20,
            campaign_noise: 0.02,
            past: 20,
            layout: Layout::Sequential,
            ..quiet
        },
    ]
}

/// Shares of reports with a false alarm.
pub fn false_alarms(scenario: &Scenario, effort: Effort) -> Rates {
    let (mut called, mut unknown, mut covered, mut intervals) = ([0u64; 4], 0, 0, 0);
    for number in 0..effort.reports {
        let all = vec![scenario.clone(); BENCHMARKS];
        let (base, head) = campaigns(&all, report_seed(effort, number));
        let report = judge(&base, &head, &history(&all, report_seed(effort, number)), effort);
        unknown += report.count(Status::Unknown);
        for (low, high) in report.rows.iter().filter_map(|r| r.interval) {
            intervals += 1;
            covered += u64::from(low <= 0.0 && 0.0 <= high);
        }
        called[0] += u64::from(report.count(Status::Regressed) + report.count(Status::Improved) > 0);
        for (slot, rival) in called[1..].iter_mut().zip(rivals(effort)) {
            *slot +=
                u64::from(base.benchmarks.keys().any(|id| is_change(rival_verdict(rival, &base, &head, id))));
        }
    }
    Rates {
        name: scenario.name,
        called: called.map(|n| n as f64 / effort.reports as f64),
        unknown: unknown as f64 / (effort.reports as usize * BENCHMARKS) as f64,
        covered: covered as f64 / intervals.max(1) as f64,
    }
}

/// Shares of changed benchmarks found, each alone in a report of unchanged ones.
pub fn detections(scenario: &Scenario, effort: Effort) -> Rates {
    let (mut called, mut unknown, mut covered) = ([0u64; 4], 0u64, 0u64);
    let mut all = vec![Scenario { shift: 0.0, ..scenario.clone() }; BENCHMARKS];
    all[0] = scenario.clone();
    let truth = -scenario.shift / (1.0 + scenario.shift);
    for number in 0..effort.reports {
        let (base, head) = campaigns(&all, report_seed(effort, number));
        let report = judge(&base, &head, &history(&all, report_seed(effort, number)), effort);
        let Some(row) = report.rows.iter().find(|r| r.benchmark == "b000") else { continue };
        unknown += u64::from(row.status == Status::Unknown);
        covered += u64::from(row.interval.is_some_and(|(low, high)| low <= truth && truth <= high));
        called[0] += u64::from(row.status == Status::Regressed);
        for (slot, rival) in called[1..].iter_mut().zip(rivals(effort)) {
            *slot += u64::from(rival_verdict(rival, &base, &head, "b000") == Verdict::Regressed);
        }
    }
    let share = |n: u64| n as f64 / effort.reports as f64;
    Rates { name: scenario.name, called: called.map(share), unknown: share(unknown), covered: share(covered) }
}

fn report_seed(effort: Effort, number: u64) -> u64 {
    effort.seed.wrapping_mul(1_000_003).wrapping_add(number)
}

fn judge(base: &Campaign, head: &Campaign, history: &History, effort: Effort) -> Report {
    let policy = Policy { resamples: effort.resamples, seed: base.info.seed, ..Policy::default() };
    build(&Inputs {
        base,
        head,
        metric: "wall",
        policy: &policy,
        decisions: &Decisions::default(),
        history,
        noise: &NoiseFloor::default(),
        profiles: &NoProfiles,
        today: "2026-01-01",
    })
}

fn rivals(effort: Effort) -> [Rival; 3] {
    [
        Rival::Benchstat,
        Rival::Criterion { resamples: effort.criterion_resamples, seed: effort.seed },
        Rival::FixedTenPercent,
    ]
}

fn rival_verdict(rival: Rival, base: &Campaign, head: &Campaign, id: &str) -> Verdict {
    rival.verdict(&base.benchmarks[id].values("wall"), &head.benchmarks[id].values("wall"))
}

fn is_change(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Regressed | Verdict::Improved)
}

/// The published tables, as Markdown.
pub fn tables(effort: Effort) -> String {
    let header = |first: &str, last: &str| {
        format!(
            "| {first} | tallygraph | benchstat | criterion | fixed 10 % | {last} | interval covers |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n"
        )
    };
    let line = |rates: &Rates| {
        let cells: Vec<String> = rates.called.iter().map(|share| format!("{:.1} %", share * 100.0)).collect();
        format!(
            "| {} | {} | {:.1} % | {:.1} % |\n",
            rates.name,
            cells.join(" | "),
            rates.unknown * 100.0,
            rates.covered * 100.0
        )
    };
    let mut text = format!(
        "Made with {} reports a line, seed {}, {} resamples for our intervals and {} for criterion's.\n\n\
         Reports of {BENCHMARKS} unchanged benchmarks with at least one false alarm:\n\n",
        effort.reports, effort.seed, effort.resamples, effort.criterion_resamples
    );
    text.push_str(&header("Nothing changed", "our unknown rows"));
    for scenario in unchanged_scenarios() {
        text.push_str(&line(&false_alarms(&scenario, effort)));
    }
    text.push_str(&format!(
        "\nOne changed benchmark among {} unchanged ones, called regressed (2 % noise unless said otherwise):\n\n",
        BENCHMARKS - 1
    ));
    text.push_str(&header("True slowdown", "ours unknown"));
    for scenario in changed_scenarios() {
        text.push_str(&line(&detections(&scenario, effort)));
    }
    text
}
