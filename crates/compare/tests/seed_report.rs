//! The report that started this tool, reproduced to the digit from its numbers.
//!
//! A pull request on a fork of Valgrind was flagged with -73.05 % from single samples: one
//! benchmark at 51,937.6 ms instead of 733.6 ms, two improvements, 37 untouched, 80 skipped. Under
//! the fixed rule it used the same numbers give the same report; under our rule they prove nothing.

use std::collections::BTreeMap;

use tallygraph_compare::cause::NoProfiles;
use tallygraph_compare::decide::{Policy, Rule};
use tallygraph_compare::decisions::{Decision, Decisions, Kind};
use tallygraph_compare::history::History;
use tallygraph_compare::model::{Campaign, CampaignInfo, Measured, Sample};
use tallygraph_compare::render;
use tallygraph_compare::report::{Inputs, NoiseFloor, Report, Status, build};

const ECHO: &str = "test_valgrind[valgrind-3.25.1, echo Hello, World!, full-with-inline]";

fn single(value: f64) -> Measured {
    let sample = Sample { block: 1, position: 0, warm_up: false, value };
    Measured { metrics: BTreeMap::from([("wall".to_string(), vec![sample])]), ..Measured::default() }
}

fn campaign(id: &str, reference: &str, commit: &str, values: Vec<(String, f64)>) -> Campaign {
    Campaign {
        info: CampaignInfo {
            id: id.into(),
            session: id.into(),
            reference: reference.into(),
            commit: commit.into(),
            started: "2026-06-02T10:00:00Z".into(),
            ..CampaignInfo::default()
        },
        benchmarks: values.into_iter().map(|(name, value)| (name, single(value))).collect(),
        ..Campaign::default()
    }
}

/// Base and head of the thread. Values shown there with one digit are given with the digits that
/// its efficiencies imply.
fn thread() -> (Campaign, Campaign) {
    let python = "python3 testdata/test.py";
    let mut base = vec![
        (ECHO.to_string(), 0.7336),
        (format!("test_valgrind[valgrind.codspeed, {python}, full-with-inline]"), 6.98 * 1.2501),
        (format!("test_valgrind[valgrind-3.25.1, {python}, full-no-inline]"), 6.8 * 1.1088),
    ];
    let mut head = vec![(base[0].0.clone(), 51.9376), (base[1].0.clone(), 6.98), (base[2].0.clone(), 6.8)];
    for i in 0..37 {
        let name = format!("test_valgrind[valgrind-3.26.0, untouched {i}, inline]");
        base.push((name.clone(), 1.0));
        head.push((name, 1.0 + 0.002 * f64::from(i)));
    }
    for i in 0..80 {
        base.push((format!("test_valgrind[valgrind-3.26.0, skipped {i}, inline]"), 2.0));
    }
    (
        campaign("base-run", "master", "d2dd6090aa", base),
        campaign("head-run", "cod-2714-investigate-pytest-flamegraph-regression-final", "ae9ee5c0bb", head),
    )
}

fn report(policy: Policy, decisions: &Decisions) -> Report {
    let (base, head) = thread();
    build(&Inputs {
        base: &base,
        head: &head,
        metric: "wall",
        policy: &policy,
        decisions,
        history: &History::default(),
        noise: &NoiseFloor::default(),
        profiles: &NoProfiles,
        today: "2026-06-02",
    })
}

fn fixed() -> Policy {
    Policy { rule: Rule::Fixed, threshold: 0.10, ..Policy::default() }
}

#[test]
fn the_table_of_the_thread_is_reproduced_to_the_digit() {
    let text = render::markdown(&report(fixed(), &Decisions::default()), None).unwrap();
    let expected = "\
## Merging this PR will degrade performance by 73.05%

⚡ 2 improved benchmarks  
❌ 1 regressed benchmark  
✅ 37 untouched benchmarks  
⏩ 80 skipped benchmarks[^1]  

> [!WARNING]
> Please fix the performance issues or acknowledge them with `tallygraph acknowledge`.

### Performance Changes

|  | Benchmark | `BASE` | `HEAD` | Efficiency |
| --- | --- | --- | --- | --- |
| ❌ | test\\_valgrind[valgrind-3.25.1, echo Hello, World!, full-with-inline] | 733.6 ms | 51,937.6 ms | -98.59% |
| ⚡ | test\\_valgrind[valgrind.codspeed, python3 testdata/test.py, full-with-inline] | 8.7 s | 7 s | +25.01% |
| ⚡ | test\\_valgrind[valgrind-3.25.1, python3 testdata/test.py, full-no-inline] | 7.5 s | 6.8 s | +10.88% |
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains(
        "\nComparing cod-2714-investigate-pytest-flamegraph-regression-final (ae9ee5c) with master (d2dd609)"
    ));
    assert!(text.contains(
        "[^1]: 80 benchmarks were skipped, so the baseline results were used instead. If they were deleted from the codebase, archive them"
    ));
}

#[test]
fn single_samples_prove_nothing_under_our_rule() {
    let report = report(Policy::default(), &Decisions::default());
    assert_eq!(report.count(Status::Unknown), 40);
    assert_eq!(report.count(Status::Skipped), 80);
    assert!(report.headline.is_none() && !report.fails(false) && report.fails(true));
    let echo = report.rows.iter().find(|r| r.benchmark == ECHO).unwrap();
    assert!(echo.why.contains("1 of at least 5 runs"), "{}", echo.why);
}

#[test]
fn an_acknowledged_regression_stops_failing_the_report_until_it_expires() {
    let mut decisions = Decisions::default();
    let decision = Decision {
        benchmark: "test_valgrind[valgrind-3.25.1, echo*".into(),
        metric: None,
        author: "ada".into(),
        reason: "walltime noise".into(),
        until: Some("2026-06-02".into()),
        at_worst: None,
    };
    assert!(report(fixed(), &decisions).fails(false));
    decisions.add(Kind::Acknowledge, decision.clone()).unwrap();
    let accepted = report(fixed(), &decisions);
    assert_eq!(accepted.count(Status::Acknowledged), 1);
    assert!(!accepted.fails(false));
    // The two improvements remain in the headline: (1.2501 * 1.1088)^(1/2) - 1.
    assert!((accepted.headline.unwrap().efficiency - 0.17734).abs() < 1e-4);
    decisions
        .add(Kind::Acknowledge, Decision { until: Some("2026-06-01".into()), ..decision.clone() })
        .unwrap();
    assert!(report(fixed(), &decisions).fails(false), "expired the day before");
    let shallow = Decision { at_worst: Some(-0.5), until: None, ..decision };
    decisions.add(Kind::Acknowledge, shallow).unwrap();
    assert!(report(fixed(), &decisions).fails(false), "deeper than what was accepted");
}

#[test]
fn archived_and_ignored_rows_leave_the_report() {
    let decision = |benchmark: &str| Decision {
        benchmark: benchmark.into(),
        metric: None,
        author: "ada".into(),
        reason: "deleted".into(),
        until: None,
        at_worst: None,
    };
    let mut decisions = Decisions::default();
    decisions.add(Kind::Archive, decision("*skipped*")).unwrap();
    decisions.add(Kind::Archive, decision("*untouched 1,*")).unwrap();
    decisions.add(Kind::Ignore, decision(ECHO)).unwrap();
    let report = report(fixed(), &decisions);
    assert_eq!((report.count(Status::Archived), report.count(Status::Skipped)), (80, 0));
    assert_eq!(report.count(Status::Untouched), 37, "archiving does not hide a benchmark that still runs");
    assert_eq!(report.count(Status::Ignored), 1);
    assert!(!report.fails(false));
    let text = render::markdown(&report, None).unwrap();
    assert!(text.contains("improve performance by") && !text.contains("[^1]:"));
}

#[test]
fn every_renderer_shows_the_same_rows() {
    let report = report(fixed(), &Decisions::default());
    let terminal = render::terminal::terminal(&report, false, false);
    assert!(terminal.contains("733.6 ms  51,937.6 ms     -98.59%"), "{terminal}");
    assert!(
        !terminal.contains('\x1b') && render::terminal::terminal(&report, true, true).contains("\x1b[31m")
    );
    let html = render::html(&report, None).unwrap();
    assert!(html.contains("51,937.6 ms") && html.contains("80 benchmarks were skipped"));
    let json: serde_json::Value = serde_json::from_str(&render::json(&report)).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["rows"].as_array().unwrap().len(), 120);
    assert_eq!(json["rows"][0]["status"], "regressed");
    let back: Report = serde_json::from_str(&render::json(&report)).unwrap();
    assert_eq!(back, report);
}

#[test]
fn a_template_of_ones_own_replaces_the_built_in_one() {
    let report = report(fixed(), &Decisions::default());
    let text =
        render::markdown(&report, Some("{{ title }}: {{ rows | length }}, {{ rows[0].head }}")).unwrap();
    assert_eq!(text, "Merging this PR will degrade performance by 73.05%: 3, 51,937.6 ms");
}
