//! The rule's error rates on campaigns whose truth is known: a bounded version of the published
//! table (`examples/truth_table.rs`), with the same generator and fixed seeds.

use tallygraph_compare::simulate::Scenario;
use tallygraph_compare::truth::{Effort, changed_scenarios, detections, false_alarms, unchanged_scenarios};

const EFFORT: Effort = Effort { reports: 12, resamples: 500, criterion_resamples: 100, seed: 2 };

fn named(scenarios: Vec<Scenario>, name: &str) -> Scenario {
    scenarios.into_iter().find(|s| s.name == name).unwrap_or_else(|| panic!("no scenario {name}"))
}

#[test]
fn unchanged_code_raises_no_alarm_whatever_the_machine_does() {
    // 12 scenarios with 12 reports of 40: at most 1 % of reports may hold a false alarm.
    let scenarios = unchanged_scenarios();
    let mut alarms = 0.0;
    for scenario in &scenarios {
        alarms += false_alarms(scenario, EFFORT).called[0] * EFFORT.reports as f64;
    }
    let reports = scenarios.len() as f64 * EFFORT.reports as f64;
    // At a true rate of 1 % five or more of 132 have a probability below 0.02.
    assert!(reports >= 130.0 && alarms <= 4.0, "{alarms} of {reports} reports");
}

#[test]
fn other_rules_do_raise_alarms_on_the_same_samples() {
    let noisy = false_alarms(&named(unchanged_scenarios(), "10 % noise"), EFFORT);
    assert_eq!(noisy.called[0], 0.0);
    assert!(noisy.called[1] > 0.5 && noisy.called[2] > 0.3, "benchstat and criterion: {noisy:?}");
    let modes = false_alarms(&named(unchanged_scenarios(), "two modes, 15 % apart, half and half"), EFFORT);
    assert!(modes.called[0] == 0.0 && modes.called[3] > 0.5, "fixed threshold: {modes:?}");
}

#[test]
fn a_slowdown_of_five_percent_is_found_within_ten_blocks() {
    let effort = Effort { reports: 100, ..EFFORT };
    let five = detections(&named(changed_scenarios(), "5 %"), effort);
    assert!(five.called[0] >= 0.95, "{five:?}");
    assert_eq!(five.called[3], 0.0, "the fixed rule never sees it: {five:?}");
}

#[test]
fn a_slowdown_below_the_threshold_is_not_called() {
    let half = detections(&named(changed_scenarios(), "0.5 %, below our threshold"), EFFORT);
    assert_eq!(half.called[0], 0.0, "{half:?}");
}

#[test]
fn a_change_between_campaigns_is_only_called_beyond_their_usual_distance() {
    let name = "20 %, base first, then head; campaigns ±2 %, 20 earlier ones";
    let scenario = named(changed_scenarios(), name);
    assert!(detections(&scenario, EFFORT).called[0] > 0.8);
    let unknown_past = Scenario { past: 0, ..scenario };
    assert_eq!(detections(&unknown_past, EFFORT).called[0], 0.0, "without history it is not called at all");
}

#[test]
fn intervals_hold_the_true_effect_about_nine_times_in_ten() {
    let rates = false_alarms(&named(unchanged_scenarios(), "2 % noise"), EFFORT);
    assert!((0.87..=0.96).contains(&rates.covered), "{rates:?}");
}
