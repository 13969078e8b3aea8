//! Every estimator and test against numbers computed by SciPy (`scipy/make.py`).
//!
//! A case the reader does not know fails, and so does a kind of case that never occurs.

use std::collections::BTreeMap;

use tallygraph_stats::bootstrap::{Bootstrap, bca, hodges_lehmann_interval};
use tallygraph_stats::rank::{Block, Method};
use tallygraph_stats::*;

struct Case<'a> {
    name: &'a str,
    fields: BTreeMap<&'a str, Vec<f64>>,
}

impl Case<'_> {
    fn list(&self, key: &str) -> &[f64] {
        self.fields.get(key).unwrap_or_else(|| panic!("{} has no field {key}", self.name))
    }

    fn one(&self, key: &str) -> f64 {
        self.list(key)[0]
    }

    fn close(&self, what: &str, got: f64, tolerance: f64) {
        let want = self.one(what);
        let scale = want.abs().max(1e-12);
        assert!((got - want).abs() <= tolerance * scale, "{} {what}: got {got}, SciPy {want}", self.name);
    }
}

fn parse(line: &str) -> Case<'_> {
    let mut words = line.split(' ');
    let name = words.next().unwrap();
    let fields = words
        .map(|word| {
            let (key, values) = word.split_once('=').unwrap();
            (key, values.split(',').map(|v| v.parse().unwrap()).collect())
        })
        .collect();
    Case { name, fields }
}

fn check(case: &Case) {
    const TIGHT: f64 = 1e-10;
    match case.name {
        "normal_cdf" => case.close("p", special::normal_cdf(case.one("z")), TIGHT),
        "normal_quantile" => case.close("z", special::normal_quantile(case.one("p")), TIGHT),
        "student" => case.close("p", special::student_t_two_sided(case.one("t"), case.one("df")), TIGHT),
        "student_quantile" => {
            case.close("t", special::student_t_quantile(case.one("p"), case.one("df")), TIGHT)
        }
        "mann_whitney" | "mann_whitney_asymptotic" => {
            let test = rank::mann_whitney(case.list("x"), case.list("y")).unwrap();
            assert_eq!(test.method == Method::Exact, case.name == "mann_whitney");
            case.close("u", test.statistic, TIGHT);
            case.close("p", test.p, TIGHT);
        }
        "ks" => {
            let test = ks::kolmogorov_smirnov(case.list("x"), case.list("y")).unwrap();
            case.close("d", test.distance, TIGHT);
            case.close("p", test.p, TIGHT);
        }
        "welch" => {
            let test = t_test::welch(case.list("x"), case.list("y")).unwrap();
            case.close("t", test.t, TIGHT);
            case.close("df", test.df, TIGHT);
            case.close("p", test.p, TIGHT);
        }
        "hodges_lehmann" => {
            case.close("one", location::hodges_lehmann(case.list("x")).unwrap(), TIGHT);
            case.close("two", location::hodges_lehmann_shift(case.list("x"), case.list("y")).unwrap(), TIGHT);
        }
        "spread" => {
            let x = case.list("x");
            case.close("mad", descriptive::median_absolute_deviation(x).unwrap(), TIGHT);
            case.close("q1", descriptive::quantile(x, 0.25).unwrap(), TIGHT);
            case.close("q9", descriptive::quantile(x, 0.9).unwrap(), TIGHT);
            let positive: Vec<f64> = x.iter().map(|v| v.abs() + 1.0).collect();
            case.close("gmean", descriptive::geometric_mean(&positive).unwrap(), TIGHT);
        }
        "fences" => {
            let (low, high) = outliers::tukey_fences(case.list("x"), 1.5).unwrap();
            case.close("low", low, TIGHT);
            case.close("high", high, TIGHT);
        }
        "kendall" => {
            let test = trend::mann_kendall(case.list("x")).unwrap();
            case.close("tau", test.tau, TIGHT);
            if case.one("exact") == 1.0 {
                assert!(test.exact);
                case.close("p", test.p, TIGHT);
            } else {
                // Ours has a continuity correction of one pair, SciPy's has none.
                assert!(!test.exact && test.p >= case.one("p") && test.p - case.one("p") < 0.12);
            }
        }
        "theil_sen" => case.close("slope", trend::theil_sen_slope(case.list("x")).unwrap(), TIGHT),
        "permutation" => {
            let budget = permutation::Budget::default();
            let test = permutation::difference_of_means(case.list("x"), case.list("y"), budget).unwrap();
            assert!(test.exact);
            case.close("p", test.p, TIGHT);
        }
        "sign_flips" => {
            let test = permutation::mean_of_pairs(case.list("x"), permutation::Budget::default()).unwrap();
            assert!(test.exact);
            case.close("p", test.p, TIGHT);
        }
        "wilcoxon" => {
            let blocks: Vec<Block> =
                case.list("x").iter().map(|&d| Block { base: vec![0.0], head: vec![d] }).collect();
            case.close("p", rank::stratified_rank_sum(&blocks).unwrap().p, TIGHT);
        }
        "benjamini_hochberg" => {
            for (got, want) in multiple::benjamini_hochberg(case.list("p")).iter().zip(case.list("adjusted"))
            {
                assert!((got - want).abs() < 1e-12, "{got} {want}");
            }
        }
        "dip" => case.close("dip", modes::dip(case.list("x")), TIGHT),
        "bca_hodges_lehmann" | "bca_mean" => {
            let options = Bootstrap { resamples: 100_000, seed: 3, level: 0.95, expand: false };
            let got = if case.name == "bca_mean" {
                bca(case.list("x"), descriptive::mean, options)
            } else {
                hodges_lehmann_interval(case.list("x"), options)
            }
            .unwrap();
            // The two draw different resamples: their ends agree to a share of the width.
            let width = case.one("high") - case.one("low");
            for (end, value) in [("low", got.low), ("high", got.high)] {
                let off = (value - case.one(end)).abs() / width;
                assert!(off < 0.01, "{} {end}: got {value}, SciPy {}, off {off}", case.name, case.one(end));
            }
        }
        other => panic!("numbers.txt has a case nothing checks: {other}"),
    }
}

#[test]
fn every_number_agrees_with_scipy() {
    let text = include_str!("scipy/numbers.txt");
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let case = parse(line);
        *seen.entry(case.name).or_default() += 1;
        check(&case);
    }
    assert_eq!(seen.len(), 20, "{seen:?}");
    assert_eq!(seen["dip"], 11);
}
