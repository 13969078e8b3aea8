//! The investigation that started this tool, from its numbers: walltime noise, five causes.

use std::collections::BTreeMap;

use tallygraph_compare::cause::{FunctionCost, FunctionCosts};
use tallygraph_compare::investigate::rules::Rules;
use tallygraph_compare::investigate::{Investigation, Subject, Verdict, investigate, markdown};
use tallygraph_compare::model::{Campaign, CampaignInfo, Measured, Sample, Setting};

const ECHO: &str = "test_valgrind[valgrind-3.25.1, echo Hello, World!, full-with-inline]";
const ECHO_PLAIN: &str = "test_valgrind[valgrind-3.25.1, echo Hello, World!, no-inline]";
const PYTHON: &str = "test_valgrind[valgrind-3.26.0, python3 testdata/test.py, full-no-inline]";

fn measured(config: &str, values: &[f64], counts: Option<f64>) -> Measured {
    let samples = |values: &[f64]| -> Vec<Sample> {
        values
            .iter()
            .enumerate()
            .map(|(i, &value)| Sample { block: i as u32 + 1, position: 0, warm_up: false, value })
            .collect()
    };
    let mut metrics = BTreeMap::from([("wall".to_string(), samples(values))]);
    if let Some(counts) = counts {
        metrics.insert("Ir".to_string(), samples(&[counts]));
    }
    let full = config.starts_with("full");
    let setting = Setting {
        tool: "valgrind-3.25.1".into(),
        config: config.into(),
        profiled: full,
        cache_simulation: full,
        ..Setting::default()
    };
    Measured { setting, metrics, ..Measured::default() }
}

/// Run id, commit, day, value of the echo benchmark in each campaign of the thread.
const ECHO_RUNS: [(&str, &str, &str, f64); 5] = [
    ("master-1", "d2dd609", "2026-05-28", 0.7336),
    ("6a19b668", "21ab8bb", "2026-05-29", 0.7489),
    ("6a1ecc6f", "641c4d2", "2026-06-02", 71.6),
    ("6a1ed177", "d324ccf", "2026-06-02", 29.8),
    ("master-2", "d2dd609", "2026-06-03", 0.714),
];

fn campaigns(id: &str, config: &str, runs: &[(&str, &str, &str, f64)]) -> Vec<Campaign> {
    runs.iter()
        .enumerate()
        .map(|(i, (run, commit, day, value))| Campaign {
            info: CampaignInfo {
                id: run.to_string(),
                session: run.to_string(),
                reference: if run.starts_with("master") { "master" } else { "branch" }.into(),
                commit: commit.to_string(),
                started: format!("{day}T10:00:{i:02}Z"),
                ..CampaignInfo::default()
            },
            benchmarks: BTreeMap::from([
                (id.to_string(), measured(config, &[*value], None)),
                (ECHO_PLAIN.to_string(), measured("no-inline", &[0.41 + 0.003 * i as f64], None)),
            ]),
            ..Campaign::default()
        })
        .collect()
}

fn costs(list: &[(&str, f64, u64)]) -> FunctionCosts {
    list.iter().map(|&(n, self_cost, calls)| (n.to_string(), FunctionCost { self_cost, calls })).collect()
}

fn look(
    id: &str,
    campaigns: &[Campaign],
    base: &str,
    head: &str,
    profiles: Option<(&FunctionCosts, &FunctionCosts)>,
) -> Investigation {
    let all: Vec<&Campaign> = campaigns.iter().collect();
    let subject = Subject {
        benchmark: id,
        metric: "wall",
        campaigns: &all,
        base: Some(base),
        head: Some(head),
        threshold: 0.02,
        profiles,
    };
    investigate(&subject, &Rules::built_in())
}

#[test]
fn the_echo_benchmark_is_noise_with_the_five_causes_of_the_thread() {
    let campaigns = campaigns(ECHO, "full-with-inline", &ECHO_RUNS);
    // Self times in milliseconds: the same two calls take ten seconds each instead of nothing.
    let normal = costs(&[
        ("vgCallgrind_setup_bbcc", 1.0, 2),
        ("cachesim_setref", 1.0, 6),
        ("load_debug_info", 360.0, 4),
    ]);
    let outlier = costs(&[
        ("vgCallgrind_setup_bbcc", 20_600.0, 2),
        ("cachesim_setref", 6_500.0, 6),
        ("load_debug_info", 380.0, 4),
    ]);
    let found = look(ECHO, &campaigns, "master-1", "6a1ed177", Some((&normal, &outlier)));
    assert_eq!(found.verdict, Verdict::Noise, "{}", found.conclusion);
    assert_eq!(found.conclusion, "Walltime noise: the same work was done; the change is not the cause.");
    let causes: Vec<&str> = found.causes.iter().map(|c| c.id.as_str()).collect();
    for cause in
        ["profiler-on-profiler", "single-shot", "simulation-amplifies", "too-short", "transient-interference"]
    {
        assert!(causes.contains(&cause), "{cause} is missing: {causes:?}");
    }
    assert_eq!(causes.len(), 5, "{causes:?}");
    assert_eq!(found.functions[0].function, "vgCallgrind_setup_bbcc");
    assert_eq!((found.functions[0].base_calls, found.functions[0].head_calls), (2, 2));
    assert_eq!(found.calls_equal, Some(true));
}

#[test]
fn the_text_holds_the_table_and_the_mitigations_with_their_switches() {
    let campaigns = campaigns(ECHO, "full-with-inline", &ECHO_RUNS);
    let text = markdown(&look(ECHO, &campaigns, "master-1", "6a1ed177", None));
    for part in [
        "| 6a1ecc6f (2026-06-02) | branch 641c4d2 | 71.6 s |",
        "| master-1 (2026-05-28) | master d2dd609 | 733.6 ms |",
        "| Repeat each benchmark and take the median | High: filters transient outliers | Medium | `bench --repeat 2",
        "| Warm up and discard those runs | Medium: avoids cold-start outliers | Low | `bench --warm-up 1` |",
        "| Drop the shortest benchmarks | Medium: eliminates the worst offenders | Low |",
        "| Separate profiled from unprofiled configurations | Medium",
        "| Flag results beyond five times the historical median | Low",
        "the same command without simulation differs by a factor of 1.03",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
}

#[test]
fn an_improvement_over_an_outlying_base_is_the_bases_fault() {
    let runs = [
        ("r1", "1111111", "2026-05-20", 5.5),
        ("r2", "2222222", "2026-05-22", 6.7),
        ("r3", "3333333", "2026-05-24", 6.1),
        ("r4", "4444444", "2026-05-26", 5.9),
        ("base", "d2dd609", "2026-05-28", 50.3),
        ("head", "d324ccf", "2026-06-02", 30.3),
    ];
    let campaigns = campaigns(PYTHON, "full-no-inline", &runs);
    let found = look(PYTHON, &campaigns, "base", "head", None);
    assert_eq!(found.verdict, Verdict::BaseOutlier);
    assert!(found.base_sanity.unwrap().outlier && found.head_sanity.unwrap().outlier);
}

#[test]
fn steady_times_with_more_work_are_code() {
    let level = |value: f64, counts: f64| {
        let values: Vec<f64> = (0..10).map(|i| value * (1.0 + 0.001 * f64::from(i % 3))).collect();
        measured("no-inline", &values, Some(counts))
    };
    let mut campaigns = campaigns(ECHO_PLAIN, "no-inline", &ECHO_RUNS);
    for (i, campaign) in campaigns.iter_mut().enumerate() {
        let (value, counts) = if i < 4 { (0.41, 1e6) } else { (0.45, 1.09e6) };
        campaign.benchmarks.insert(ECHO_PLAIN.into(), level(value, counts));
    }
    let found = look(ECHO_PLAIN, &campaigns, "6a1ed177", "master-2", None);
    assert_eq!(found.verdict, Verdict::Code, "{}", found.conclusion);
    assert!(found.conclusion.contains("+9.0 %"), "{}", found.conclusion);
    // The same times over the same work are the machine or the layout.
    for campaign in &mut campaigns {
        campaign.benchmarks.get_mut(ECHO_PLAIN).unwrap().metrics.get_mut("Ir").unwrap()[0].value = 1e6;
    }
    let found = look(ECHO_PLAIN, &campaigns, "6a1ed177", "6a1ecc6f", None);
    assert_eq!(found.verdict, Verdict::Nothing, "{}", found.conclusion);
    let found = look(ECHO_PLAIN, &campaigns[2..], "6a1ed177", "master-2", None);
    assert_eq!(found.verdict, Verdict::Environment, "{}", found.conclusion);
    assert!(found.causes.iter().any(|c| c.id == "layout"), "{:?}", found.causes);
}

#[test]
fn one_campaign_or_no_counts_cannot_tell() {
    let one = campaigns(ECHO, "no-inline", &ECHO_RUNS[..1]);
    let found = look(ECHO, &one, "master-1", "none", None);
    assert_eq!(found.verdict, Verdict::CannotTell);
    let runs = [("a", "1111111", "2026-05-20", 5.0), ("b", "2222222", "2026-05-22", 6.0)];
    let found = look(PYTHON, &campaigns(PYTHON, "no-inline", &runs), "a", "b", None);
    assert_eq!(found.verdict, Verdict::CannotTell, "{}", found.conclusion);
    assert!(found.conclusion.contains("no instruction counts"));
}
