//! Synthetic campaigns whose truth is known.
//!
//! A [`Scenario`] describes the machine and the change; [`observe`] draws the runs of one benchmark in the
//! order a real campaign takes them, so that drift, bursts and autocorrelation hit base and head as
//! they would. [`campaigns`] packs many benchmarks into a base and a head for the whole report.

use std::collections::BTreeMap;

use serde::Serialize;
use tallygraph_stats::Rng;

use crate::history::{History, Point};
use crate::model::{Campaign, CampaignInfo, Measured, Sample};

/// Order in which base and head run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// In blocks of both, in random order within each.
    Interleaved,
    /// First all of the base, then all of the head.
    Sequential,
}

/// A machine's behaviour and a change of the code.
#[derive(Clone, Debug, Serialize)]
pub struct Scenario {
    /// What to call it.
    pub name: &'static str,
    /// Standard deviation of the log of a run's time; 0.02 is 2 % noise.
    pub noise: f64,
    /// How much slower the head truly is (0.05 for 5 %).
    pub shift: f64,
    /// Blocks taken.
    pub blocks: u32,
    /// Runs of each side in a block.
    pub runs: u32,
    /// Correlation of the noise from one run to the next.
    pub autocorrelation: f64,
    /// Chance of a run being hit by a spike, and the largest factor it is slowed by.
    pub spikes: (f64, f64),
    /// Relative slowdown of the machine over the campaign.
    pub drift: f64,
    /// Chance of a run being in the slow mode, and how much slower that is.
    pub modes: (f64, f64),
    /// Chance per run of a burst beginning, its length in runs, and its factor.
    pub bursts: (f64, u32, f64),
    /// Standard deviation of the machine's level from one campaign to the next, on the log scale.
    pub campaign_noise: f64,
    /// Earlier campaigns of the unchanged code that the report knows.
    pub past: usize,
    /// Order of base and head.
    pub layout: Layout,
}

impl Scenario {
    /// A quiet machine with 2 % noise, no change, ten blocks of two runs a side.
    pub const QUIET: Scenario = Scenario {
        name: "quiet, 2 % noise",
        noise: 0.02,
        shift: 0.0,
        blocks: 10,
        runs: 2,
        autocorrelation: 0.0,
        spikes: (0.0, 1.0),
        drift: 0.0,
        modes: (0.0, 0.0),
        bursts: (0.0, 0, 1.0),
        campaign_noise: 0.0,
        past: 0,
        layout: Layout::Interleaved,
    };
}

/// The runs of one benchmark: base samples and head samples.
pub fn observe(scenario: &Scenario, rng: &mut Rng) -> (Vec<Sample>, Vec<Sample>) {
    let per_block = 2 * scenario.runs;
    let total = scenario.blocks * per_block;
    let mut sides = (Vec::new(), Vec::new());
    let mut state = rng.normal();
    let mut burst_left = 0;
    let mut index = 0;
    // Sides measured together share the machine's level of that day.
    let levels = match scenario.layout {
        Layout::Interleaved => [0.0; 2],
        Layout::Sequential => [rng.normal(), rng.normal()].map(|z| z * scenario.campaign_noise),
    };
    for block in 1..=scenario.blocks {
        let mut order: Vec<bool> = (0..per_block).map(|i| i >= scenario.runs).collect();
        match scenario.layout {
            Layout::Interleaved => rng.shuffle(&mut order),
            Layout::Sequential => order.fill(index >= total / 2),
        }
        for (position, &head) in order.iter().enumerate() {
            let rho = scenario.autocorrelation;
            state = rho * state + (1.0 - rho * rho).sqrt() * rng.normal();
            let mut log = scenario.noise * state + levels[usize::from(head)];
            log += scenario.drift.ln_1p() * f64::from(index) / f64::from(total);
            if head {
                log += scenario.shift.ln_1p();
            }
            if rng.uniform() < scenario.spikes.0 {
                log += rng.uniform() * scenario.spikes.1.ln();
            }
            if rng.uniform() < scenario.modes.0 {
                log += scenario.modes.1.ln_1p();
            }
            if burst_left == 0 && rng.uniform() < scenario.bursts.0 {
                burst_left = scenario.bursts.1;
            }
            if burst_left > 0 {
                burst_left -= 1;
                log += scenario.bursts.2.ln();
            }
            let sample = Sample { block, position: position as u32, warm_up: false, value: log.exp() };
            if head {
                sides.1.push(sample)
            } else {
                sides.0.push(sample)
            }
            index += 1;
        }
    }
    sides
}

/// A base and a head with one benchmark a scenario, named `b000`, `b001`, ….
pub fn campaigns(scenarios: &[Scenario], seed: u64) -> (Campaign, Campaign) {
    let interleaved = scenarios.iter().all(|s| s.layout == Layout::Interleaved);
    let campaign = |id: &str, commit: &str| Campaign {
        info: CampaignInfo {
            id: id.to_string(),
            session: if interleaved { "session".to_string() } else { id.to_string() },
            reference: id.to_string(),
            commit: commit.to_string(),
            started: "2026-01-01T00:00:00Z".to_string(),
            seed,
            ..CampaignInfo::default()
        },
        ..Campaign::default()
    };
    let (mut base, mut head) = (campaign("base", "0000000"), campaign("head", "1111111"));
    for (i, scenario) in scenarios.iter().enumerate() {
        let mut rng = Rng::stream(seed, i as u64);
        let (b, h) = observe(scenario, &mut rng);
        let measured = |samples| Measured {
            metrics: BTreeMap::from([("wall".to_string(), samples)]),
            ..Measured::default()
        };
        let id = format!("b{i:03}");
        base.benchmarks.insert(id.clone(), measured(b));
        head.benchmarks.insert(id, measured(h));
    }
    (base, head)
}

/// The earlier campaigns of the unchanged code: one point each.
pub fn history(scenarios: &[Scenario], seed: u64) -> History {
    let mut history = History::default();
    for (i, scenario) in scenarios.iter().enumerate() {
        let mut rng = Rng::stream(!seed, i as u64);
        let runs = scenario.blocks * scenario.runs;
        for number in 0..scenario.past {
            let within = scenario.noise * 1.25 / f64::from(runs).sqrt();
            let log = scenario.campaign_noise * rng.normal() + within * rng.normal();
            let point = Point {
                campaign: format!("past{number:03}"),
                time: format!("2025-{:02}-{:02}T00:00:00Z", number / 28 % 12 + 1, number % 28 + 1),
                value: log.exp(),
                least: log.exp(),
                runs: runs as usize,
                ..Point::default()
            };
            history.push(&format!("b{i:03}"), "wall", point);
        }
    }
    history
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallygraph_stats::descriptive::{lag1_autocorrelation, median, standard_deviation};

    fn logs(samples: &[Sample]) -> Vec<f64> {
        samples.iter().map(|s| s.value.ln()).collect()
    }

    #[test]
    fn the_noise_and_the_shift_are_those_asked_for() {
        let scenario = Scenario { shift: 0.05, blocks: 2000, ..Scenario::QUIET };
        let (base, head) = observe(&scenario, &mut Rng::new(1));
        assert_eq!((base.len(), head.len()), (4000, 4000));
        assert!((standard_deviation(&logs(&base)).unwrap() - 0.02).abs() < 0.001);
        let shift = median(&logs(&head)).unwrap() - median(&logs(&base)).unwrap();
        assert!((shift.exp_m1() - 0.05).abs() < 0.002, "{shift}");
    }

    #[test]
    fn autocorrelation_and_modes_show_in_the_runs() {
        let scenario =
            Scenario { autocorrelation: 0.8, blocks: 500, layout: Layout::Sequential, ..Scenario::QUIET };
        let (base, _) = observe(&scenario, &mut Rng::new(2));
        assert!((lag1_autocorrelation(&logs(&base)).unwrap() - 0.8).abs() < 0.1);
        let scenario = Scenario { modes: (0.3, 0.2), blocks: 500, ..Scenario::QUIET };
        let (base, _) = observe(&scenario, &mut Rng::new(3));
        let slow = base.iter().filter(|s| s.value > 1.1).count() as f64 / base.len() as f64;
        assert!((slow - 0.3).abs() < 0.05, "{slow}");
    }

    #[test]
    fn a_seed_replays_its_campaign() {
        let scenarios = [Scenario::QUIET, Scenario { spikes: (0.1, 3.0), ..Scenario::QUIET }];
        assert_eq!(campaigns(&scenarios, 4), campaigns(&scenarios, 4));
        assert_ne!(campaigns(&scenarios, 4), campaigns(&scenarios, 5));
    }
}
