//! criterion's directories: `<group>/<function>/<parameter>/<baseline>/{benchmark,sample}.json`.
//!
//! A sample there is a batch of iterations within one process. Such samples are not independent
//! runs; a report that uses them says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Benchmarks, numbers, parse, samples, text_of};
use crate::model::{Measured, Setting};

/// Reads all benchmarks below `directory` that were saved as `baseline` (`new` is the latest run).
pub fn read(directory: &Path, baseline: &str) -> Result<Benchmarks, String> {
    let mut found = Vec::new();
    search(directory, baseline, 0, &mut found)?;
    let mut benchmarks = Benchmarks::new();
    for folder in found {
        let load = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        let (id, measured) = benchmark(&load("benchmark.json")?, &load("sample.json")?)
            .map_err(|problem| format!("{}: {problem}", folder.display()))?;
        benchmarks.insert(id, measured);
    }
    if benchmarks.is_empty() {
        return Err(format!("{}: no criterion results saved as `{baseline}`", directory.display()));
    }
    Ok(benchmarks)
}

/// Folders named `baseline` that hold a sample, at most six levels down.
fn search(directory: &Path, baseline: &str, depth: u32, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|e| e.ok()).map(|e| e.path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    for folder in folders {
        if folder.file_name().is_some_and(|n| n == baseline) && folder.join("sample.json").is_file() {
            found.push(folder);
        } else if depth < 6 {
            search(&folder, baseline, depth + 1, found)?;
        }
    }
    Ok(())
}

/// One benchmark from its two files: times in nanoseconds a batch over iterations a batch.
pub fn benchmark(benchmark: &str, sample: &str) -> Result<(String, Measured), String> {
    let (description, sample) = (parse(benchmark)?, parse(sample)?);
    let id = text_of(&description, "full_id").ok_or("benchmark.json has no `full_id`")?;
    let times = numbers(&sample, "times").ok_or("sample.json has no `times`")?;
    let iterations = numbers(&sample, "iters").ok_or("sample.json has no `iters`")?;
    if times.len() != iterations.len() {
        return Err(format!("sample.json has {} times for {} batches", times.len(), iterations.len()));
    }
    let values = times.iter().zip(&iterations).filter(|(_, n)| **n > 0.0).map(|(t, n)| t / n * 1e-9);
    let metrics = BTreeMap::from([("wall".to_string(), samples(values))]);
    let setting = Setting { tool: "criterion".to_string(), ..Setting::default() };
    Ok((id.to_string(), Measured { setting, metrics, ..Measured::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCHMARK: &str = r#"{"group_id":"fib","function_id":"iterative","value_str":"20","throughput":null,
        "full_id":"fib/iterative/20","directory_name":"fib/iterative/20","title":"fib/iterative/20"}"#;
    const SAMPLE: &str = r#"{"sampling_mode":"Linear","iters":[10.0,20.0],"times":[1000.0,2100.0]}"#;

    #[test]
    fn times_are_divided_by_their_iterations() {
        let (id, measured) = benchmark(BENCHMARK, SAMPLE).unwrap();
        assert_eq!(id, "fib/iterative/20");
        let values = measured.values("wall");
        assert!((values[0] - 100e-9).abs() < 1e-15 && (values[1] - 105e-9).abs() < 1e-15);
    }

    #[test]
    fn a_directory_is_searched_for_the_baseline() {
        let root = std::env::temp_dir().join(format!("tallygraph-criterion-{}", std::process::id()));
        let folder = root.join("fib/iterative/20/new");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("benchmark.json"), BENCHMARK).unwrap();
        std::fs::write(folder.join("sample.json"), SAMPLE).unwrap();
        let benchmarks = read(&root, "new");
        let missing = read(&root, "main");
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(benchmarks.unwrap().len(), 1);
        assert!(missing.unwrap_err().contains("saved as `main`"));
    }

    #[test]
    fn defects_are_named() {
        let error = benchmark(BENCHMARK, r#"{"iters":[1.0],"times":[1.0,2.0]}"#).unwrap_err();
        assert_eq!(error, "sample.json has 2 times for 1 batches");
        assert!(benchmark("{}", SAMPLE).unwrap_err().contains("full_id"));
    }
}
