//! hyperfine's JSON: one result a command, with the wall time of every run.

use std::collections::BTreeMap;

use super::{Benchmarks, numbers, parse, samples, text_of};
use crate::model::{Measured, Setting};

/// Reads `hyperfine --export-json`; the benchmark's id is its command (or `--command-name`).
///
/// User and system time are averages there, so they come in as one sample each.
pub fn read(text: &str) -> Result<Benchmarks, String> {
    let root = parse(text)?;
    let results = root.get("results").and_then(|r| r.as_array()).ok_or("no `results` array")?;
    let mut benchmarks = Benchmarks::new();
    for (number, result) in results.iter().enumerate() {
        let at = |problem: &str| format!("result {}: {problem}", number + 1);
        let command = text_of(result, "command").ok_or_else(|| at("no `command`"))?;
        let times = numbers(result, "times").ok_or_else(|| at("no `times` of numbers"))?;
        let mut metrics = BTreeMap::from([("wall".to_string(), samples(times))]);
        for metric in ["user", "system"] {
            if let Some(value) = result.get(metric).and_then(|v| v.as_f64()) {
                metrics.insert(metric.to_string(), samples([value]));
            }
        }
        if let Some(memory) = numbers(result, "memory_usage_byte") {
            metrics.insert("max_rss".to_string(), samples(memory));
        }
        let setting =
            Setting { command: command.to_string(), tool: "hyperfine".to_string(), ..Setting::default() };
        let measured = Measured { setting, metrics, ..Measured::default() };
        if benchmarks.insert(command.to_string(), measured).is_some() {
            return Err(at(&format!("the command `{command}` occurs twice")));
        }
    }
    Ok(benchmarks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, detect};

    const FILE: &str = r#"{ "results": [ { "command": "sleep 0.1", "mean": 0.1012, "stddev": 0.0004,
        "median": 0.1011, "user": 0.0006, "system": 0.0004, "min": 0.1008, "max": 0.1019,
        "times": [0.1019, 0.1008, 0.1011], "memory_usage_byte": [2097152, 2097152, 2101248],
        "exit_codes": [0, 0, 0] } ] }"#;

    #[test]
    fn every_run_becomes_a_sample() {
        let benchmarks = read(FILE).unwrap();
        let sleep = &benchmarks["sleep 0.1"];
        assert_eq!(sleep.values("wall"), [0.1019, 0.1008, 0.1011]);
        assert_eq!(sleep.values("max_rss").len(), 3);
        assert_eq!(sleep.values("user"), [0.0006]);
        assert_eq!(detect(FILE), Some(Format::Hyperfine));
    }

    #[test]
    fn defects_are_named() {
        assert_eq!(read("{}").unwrap_err(), "no `results` array");
        assert_eq!(read(r#"{"results":[{"command":"x"}]}"#).unwrap_err(), "result 1: no `times` of numbers");
        assert!(read("nonsense").unwrap_err().starts_with("not JSON"));
    }
}
