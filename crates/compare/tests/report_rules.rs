//! The report's rules beyond the decision itself, each with campaigns made for it.

use std::collections::BTreeMap;

use tallygraph_compare::cause::{FunctionCost, FunctionCosts, NoProfiles, ProfileSource};
use tallygraph_compare::decide::Policy;
use tallygraph_compare::decisions::Decisions;
use tallygraph_compare::history::{History, Point};
use tallygraph_compare::model::{Campaign, Measured, Purpose, Sample};
use tallygraph_compare::report::{Inputs, NoiseFloor, Report, Row, Status, build, noise_floor};
use tallygraph_compare::simulate::{Layout, Scenario, campaigns};

fn policy() -> Policy {
    Policy { resamples: 1000, ..Policy::default() }
}

fn compare_with(
    base: &Campaign,
    head: &Campaign,
    metric: &str,
    history: &History,
    noise: &NoiseFloor,
) -> Report {
    build(&Inputs {
        base,
        head,
        metric,
        policy: &policy(),
        decisions: &Decisions::default(),
        history,
        noise,
        profiles: &Profiles,
        today: "2026-03-01",
    })
}

fn compare(base: &Campaign, head: &Campaign, metric: &str) -> Report {
    compare_with(base, head, metric, &History::default(), &NoiseFloor::default())
}

/// Profiles typed in: `base.out` and `head.out`.
struct Profiles;

impl ProfileSource for Profiles {
    fn functions(&self, reference: &str) -> Result<FunctionCosts, String> {
        let cost = |self_cost, calls| FunctionCost { self_cost, calls };
        match reference {
            "base.out" => {
                Ok(BTreeMap::from([("parse".into(), cost(900.0, 9)), ("main".into(), cost(100.0, 1))]))
            }
            "head.out" => {
                Ok(BTreeMap::from([("parse".into(), cost(990.0, 9)), ("main".into(), cost(100.0, 1))]))
            }
            other => Err(format!("{other}: no such profile")),
        }
    }
}

fn slowed(shift: f64) -> (Campaign, Campaign) {
    campaigns(&[Scenario { noise: 0.005, shift, ..Scenario::QUIET }], 7)
}

fn only(report: &Report) -> &Row {
    assert_eq!(report.rows.len(), 1);
    &report.rows[0]
}

fn set_counts(campaign: &mut Campaign, values: &[f64]) {
    let samples = values
        .iter()
        .enumerate()
        .map(|(i, &value)| Sample { block: i as u32 + 1, position: 0, warm_up: false, value })
        .collect();
    campaign.benchmarks.get_mut("b000").unwrap().metrics.insert("Ir".into(), samples);
}

#[test]
fn a_regression_carries_interval_control_and_cause() {
    let (mut base, mut head) = slowed(0.09);
    set_counts(&mut base, &[1000.0]);
    set_counts(&mut head, &[1090.0]);
    base.benchmarks.get_mut("b000").unwrap().profile = Some("base.out".into());
    head.benchmarks.get_mut("b000").unwrap().profile = Some("head.out".into());
    let report = compare(&base, &head, "wall");
    let row = only(&report);
    assert_eq!(row.status, Status::Regressed);
    let (low, high) = row.interval.unwrap();
    assert!(low < -0.0826 && -0.0826 < high && high < -0.07, "{row:?}");
    assert!(row.why.contains("the work moved too (Ir +9.00%): code"), "{}", row.why);
    assert_eq!(row.causes.len(), 1);
    assert_eq!((row.causes[0].function.as_str(), row.causes[0].share), ("parse", 0.09));
    let headline = report.headline.unwrap();
    assert_eq!((headline.rows, headline.interval.is_some()), (1, true));
    assert!(report.fails(false));
}

#[test]
fn equal_counts_under_a_moved_time_point_at_the_machine() {
    let (mut base, mut head) = slowed(0.09);
    set_counts(&mut base, &[1000.0]);
    set_counts(&mut head, &[1000.0]);
    let report = compare(&base, &head, "wall");
    assert!(only(&report).why.contains("same work (Ir +0.00%): environment"), "{}", only(&report).why);
}

#[test]
fn a_profile_that_can_not_be_read_is_named_and_does_not_hide_the_row() {
    let (mut base, mut head) = slowed(0.09);
    base.benchmarks.get_mut("b000").unwrap().profile = Some("lost.out".into());
    head.benchmarks.get_mut("b000").unwrap().profile = Some("head.out".into());
    let report = compare(&base, &head, "wall");
    assert_eq!(only(&report).status, Status::Regressed);
    assert!(only(&report).why.contains("lost.out: no such profile"));
}

#[test]
fn the_same_program_on_both_sides_can_not_have_changed() {
    let (mut base, mut head) = slowed(0.09);
    for campaign in [&mut base, &mut head] {
        campaign.benchmarks.get_mut("b000").unwrap().setting.identity = Some("build 1234".into());
    }
    let report = compare(&base, &head, "wall");
    assert_eq!(only(&report).status, Status::Regressed, "a library may differ: equal files are not enough");
    set_counts(&mut base, &[1000.0]);
    set_counts(&mut head, &[1000.0]);
    let report = compare(&base, &head, "wall");
    assert_eq!(only(&report).status, Status::Untouched);
    assert!(only(&report).why.contains("the same program"));
}

#[test]
fn other_processor_flags_make_counts_incomparable_another_kernel_only_time() {
    let (mut base, mut head) = slowed(0.0);
    set_counts(&mut base, &[1000.0]);
    set_counts(&mut head, &[1000.0]);
    head.info.session = "elsewhere".into();
    let set = |campaign: &mut Campaign, name: &str, value: &str| {
        campaign.environment.facts.insert(name.into(), value.into());
    };
    set(&mut base, "kernel", "6.1");
    set(&mut head, "kernel", "6.12");
    assert_eq!(only(&compare(&base, &head, "wall")).status, Status::Incomparable);
    assert_eq!(only(&compare(&base, &head, "Ir")).status, Status::Untouched);
    set(&mut base, "cpu.flags", "f00d");
    set(&mut head, "cpu.flags", "beef");
    let report = compare(&base, &head, "Ir");
    assert_eq!(only(&report).status, Status::Incomparable);
    assert_eq!(only(&report).efficiency, None, "no percentage for what can't be compared");
    assert_eq!(report.mismatches[0].fact, "cpu.flags");
    assert!(report.fails(true) && !report.fails(false));
}

#[test]
fn exact_counts_need_no_repetition_and_differing_ones_are_demoted() {
    let (mut base, mut head) = slowed(0.0);
    set_counts(&mut base, &[100_000.0]);
    set_counts(&mut head, &[102_000.0]);
    assert_eq!(only(&compare(&base, &head, "Ir")).status, Status::Regressed);
    set_counts(&mut head, &[100_500.0]);
    assert_eq!(only(&compare(&base, &head, "Ir")).status, Status::Untouched, "below 1 %");
    set_counts(&mut head, &[100_000.0, 102_000.0]);
    let report = compare(&base, &head, "Ir");
    assert_eq!(only(&report).status, Status::Unknown);
    assert!(only(&report).why.contains("treated as noisy"), "{}", only(&report).why);
}

fn past(values: &[f64]) -> History {
    let mut history = History::default();
    for (i, &value) in values.iter().enumerate() {
        let point = Point { campaign: format!("p{i}"), value, ..Point::default() };
        history.push("b000", "wall", point);
    }
    history
}

#[test]
fn a_base_that_is_an_outlier_of_its_history_gives_no_improvement() {
    // The thread's third flagged row: base 50.3 s against a usual 5.5 to 6.7 s.
    let scenario = Scenario { noise: 0.005, shift: -0.4, layout: Layout::Sequential, ..Scenario::QUIET };
    let (mut base, head) = campaigns(&[scenario], 3);
    base.benchmarks
        .get_mut("b000")
        .unwrap()
        .metrics
        .get_mut("wall")
        .unwrap()
        .iter_mut()
        .for_each(|s| s.value *= 8.0);
    let noise = NoiseFloor::default();
    let report = compare_with(&base, &head, "wall", &past(&[0.95, 1.0, 1.05, 1.1]), &noise);
    assert_eq!(only(&report).status, Status::Unknown);
    assert!(only(&report).why.contains("outlier of its own history (7."), "{}", only(&report).why);
    assert!(only(&report).base_sanity.unwrap().outlier);
}

#[test]
fn campaigns_one_after_the_other_need_a_known_distance_or_trust() {
    let scenario = Scenario { noise: 0.005, shift: 0.2, layout: Layout::Sequential, ..Scenario::QUIET };
    let (base, head) = campaigns(&[scenario], 3);
    let report = compare(&base, &head, "wall");
    assert_eq!(only(&report).status, Status::Unknown);
    assert!(report.warnings[0].contains("not measured interleaved"));
    let calm = past(&[1.0, 1.01, 0.99, 1.0, 1.01, 1.0]);
    let report = compare_with(&base, &head, "wall", &calm, &NoiseFloor::default());
    assert_eq!(only(&report).status, Status::Regressed);
    assert!(only(&report).threshold > 0.02, "raised to the distance between campaigns");
    let trusting = Policy { trust_sequential: true, ..policy() };
    let inputs = Inputs {
        base: &base,
        head: &head,
        metric: "wall",
        policy: &trusting,
        decisions: &Decisions::default(),
        history: &History::default(),
        noise: &NoiseFloor::default(),
        profiles: &NoProfiles,
        today: "2026-03-01",
    };
    assert_eq!(only(&build(&inputs)).status, Status::Regressed);
}

#[test]
fn a_threshold_below_the_noise_floor_is_raised_to_it() {
    let noisy = Scenario { noise: 0.05, ..Scenario::QUIET };
    let (a, b) = campaigns(std::slice::from_ref(&noisy), 11);
    let floor = noise_floor(&a, &b, "wall", &policy());
    let summary = floor.summary.unwrap();
    assert_eq!((summary.benchmarks, summary.false_alarms), (1, 0));
    assert!((0.02..0.06).contains(&summary.half_width), "{summary:?}");
    let (base, head) = campaigns(&[noisy], 12);
    let row = only(&compare_with(&base, &head, "wall", &History::default(), &floor)).clone();
    assert!((row.threshold - summary.half_width).abs() < 1e-9 && row.noise_floor == Some(row.threshold));
}

#[test]
fn a_benchmarks_own_threshold_wins() {
    let (base, mut head) = slowed(0.04);
    head.benchmarks.get_mut("b000").unwrap().setting.threshold = Some(0.10);
    let report = compare(&base, &head, "wall");
    assert_eq!((only(&report).status, only(&report).threshold), (Status::Untouched, 0.10));
}

#[test]
fn new_skipped_and_failed_benchmarks_are_told_apart() {
    let (mut base, mut head) = campaigns(&[Scenario::QUIET, Scenario::QUIET, Scenario::QUIET], 1);
    base.benchmarks.remove("b000");
    head.benchmarks.remove("b001");
    let problem = Some("tool valgrind-3.25.1 is not installed".to_string());
    head.benchmarks.insert("b002".into(), Measured { problem, ..Measured::default() });
    let report = compare(&base, &head, "wall");
    let status = |id: &str| report.rows.iter().find(|r| r.benchmark == id).unwrap();
    assert_eq!(status("b000").status, Status::New);
    assert_eq!(status("b001").status, Status::Skipped);
    assert_eq!(status("b001").head, status("b001").base, "the baseline is carried");
    assert_eq!(status("b001").stale_days, Some(59));
    assert!(status("b002").why.contains("valgrind-3.25.1 is not installed"));
}

#[test]
fn imported_results_are_compared_without_an_environment() {
    let (mut base, mut head) = slowed(0.0);
    base.environment.facts.insert("kernel".into(), "6.1".into());
    head.environment.facts.insert("kernel".into(), "6.12".into());
    head.info.purpose = Purpose::Imported;
    assert_eq!(only(&compare(&base, &head, "wall")).status, Status::Untouched);
}
