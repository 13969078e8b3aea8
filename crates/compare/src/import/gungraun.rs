//! gungraun's `summary.json` (schemas 6 and 7): exact counts of Callgrind and its siblings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Benchmarks, parse, samples, text_of};
use crate::model::{Measured, Setting};

/// Metrics computed from others rather than counted.
const DERIVED: &[&str] = &["MissRate", "HitRate", "hits", "Hits"];

/// Reads one summary: the new run's totals of each tool that has metrics.
///
/// Metrics of tools beside Callgrind are prefixed by the tool's name, as `DHAT:TotalBytes`.
pub fn read(text: &str) -> Result<Benchmarks, String> {
    let root = parse(text)?;
    let version = text_of(&root, "version").ok_or("no `version`")?;
    if !matches!(version, "6" | "7") {
        return Err(format!("summary of schema {version}; 6 and 7 are known"));
    }
    let path = text_of(&root, "module_path").ok_or("no `module_path`")?;
    let id = match text_of(&root, "id") {
        Some(id) => format!("{path} {id}"),
        None => path.to_string(),
    };
    let profiles = root.get("profiles").and_then(Value::as_array).ok_or("no `profiles` array")?;
    let mut metrics = BTreeMap::new();
    for profile in profiles {
        let tool = text_of(profile, "tool").ok_or("a profile has no `tool`")?;
        let Some(total) = profile.pointer("/data/total/metrics").and_then(Value::as_object) else { continue };
        for (name, metric) in total.iter().filter(|(name, _)| !DERIVED.iter().any(|d| name.ends_with(d))) {
            // A benchmark without an earlier run has `{"new": n}` only; one without a new run is skipped.
            let Some(value) = metric.pointer("/values/new").and_then(Value::as_f64) else { continue };
            let name = if tool == "Callgrind" { name.clone() } else { format!("{tool}:{name}") };
            metrics.insert(name, samples([value]));
        }
    }
    if metrics.is_empty() {
        return Err(format!("{id}: no metrics of a new run"));
    }
    let setting = Setting {
        command: text_of(&root, "benchmark_exe").unwrap_or_default().to_string(),
        tool: "gungraun".to_string(),
        ..Setting::default()
    };
    Ok(Benchmarks::from([(id, Measured { setting, metrics, ..Measured::default() })]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Format, detect};

    const SUMMARY: &str = r#"{ "version": "7", "id": "short", "module_path": "lib::group::bench_sort",
        "benchmark_exe": "target/release/deps/lib", "profiles": [
        { "tool": "Callgrind", "data": { "parts": [], "total": { "regressions": [], "metrics": {
            "Ir": { "values": { "new": 687, "old": 690 } },
            "L1HitRate": { "values": { "new": 99.59 } },
            "Dr": { "values": { "old": 7 } },
            "EstimatedCycles": { "values": { "new": 1092 } } } } } },
        { "tool": "DHAT", "data": { "total": { "metrics": { "TotalBytes": { "values": { "new": 4096 } } } } } } ] }"#;

    #[test]
    fn totals_of_the_new_run_are_read_and_derived_ones_left_out() {
        let benchmarks = read(SUMMARY).unwrap();
        let sort = &benchmarks["lib::group::bench_sort short"];
        let names: Vec<&str> = sort.metrics.keys().map(String::as_str).collect();
        assert_eq!(names, ["DHAT:TotalBytes", "EstimatedCycles", "Ir"]);
        assert_eq!(sort.values("Ir"), [687.0]);
        assert_eq!(detect(SUMMARY), Some(Format::Gungraun));
    }

    #[test]
    fn an_unknown_schema_is_refused() {
        let error = read(&SUMMARY.replace("\"7\"", "\"12\"")).unwrap_err();
        assert_eq!(error, "summary of schema 12; 6 and 7 are known");
    }
}
