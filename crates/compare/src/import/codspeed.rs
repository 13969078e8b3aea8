//! Walltime results of CodSpeed's integrations: statistics per benchmark, without the samples.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Benchmarks, parse, samples, text_of};
use crate::model::{Measured, Setting};

/// Reads a result file; the median becomes the one sample, as the rounds are not in the file.
pub fn read(text: &str) -> Result<Benchmarks, String> {
    let root = parse(text)?;
    let instrument = root.pointer("/instrument/type").and_then(Value::as_str).ok_or("no `instrument`")?;
    if instrument != "walltime" {
        return Err(format!("results of the instrument `{instrument}`; only walltime is read"));
    }
    let list = root.get("benchmarks").and_then(Value::as_array).ok_or("no `benchmarks` array")?;
    let mut benchmarks = Benchmarks::new();
    for (number, entry) in list.iter().enumerate() {
        let at = |problem: &str| format!("benchmark {}: {problem}", number + 1);
        let id = text_of(entry, "uri")
            .or_else(|| text_of(entry, "name"))
            .ok_or_else(|| at("no `uri` or `name`"))?;
        let median = entry
            .pointer("/stats/median_ns")
            .and_then(Value::as_f64)
            .ok_or_else(|| at("no `stats.median_ns`"))?;
        let metrics = BTreeMap::from([("wall".to_string(), samples([median * 1e-9]))]);
        let setting = Setting { tool: "codspeed".to_string(), ..Setting::default() };
        benchmarks.insert(id.to_string(), Measured { setting, metrics, ..Measured::default() });
    }
    Ok(benchmarks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, detect};

    const RESULTS: &str = r#"{ "creator": { "name": "codspeed-rust", "version": "5.0.1", "pid": 7 },
        "instrument": { "type": "walltime" },
        "benchmarks": [ { "name": "fib", "uri": "benches/fib.rs::fib", "config": {},
        "stats": { "min_ns": 90.0, "max_ns": 140.0, "mean_ns": 101.0, "stdev_ns": 4.0, "q1_ns": 98.0,
        "median_ns": 100.0, "q3_ns": 103.0, "rounds": 30, "total_time": 0.1, "iqr_outlier_rounds": 0,
        "stdev_outlier_rounds": 1, "iter_per_round": 3, "warmup_iters": 1 } } ] }"#;

    #[test]
    fn the_median_becomes_the_sample() {
        let benchmarks = read(RESULTS).unwrap();
        assert!((benchmarks["benches/fib.rs::fib"].values("wall")[0] - 100e-9).abs() < 1e-18);
        assert_eq!(detect(RESULTS), Some(Format::Codspeed));
    }

    #[test]
    fn another_instrument_is_refused() {
        let error = read(&RESULTS.replace("walltime", "simulation")).unwrap_err();
        assert!(error.contains("instrument `simulation`"));
    }
}
