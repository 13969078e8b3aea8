//! Results of other tools, read into campaigns.
//!
//! Each reader turns one tool's files into benchmarks; [`campaign`] wraps them. What a format does
//! not say stays unknown: an imported campaign has no environment, and its rows are compared
//! without one.

pub mod codspeed;
pub mod criterion;
pub mod gungraun;
pub mod hyperfine;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::{Campaign, CampaignInfo, Measured, Purpose, Sample};

/// Benchmarks by id.
pub type Benchmarks = BTreeMap<String, Measured>;

/// Formats that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `hyperfine --export-json`.
    Hyperfine,
    /// A directory of criterion, as `target/criterion`.
    Criterion,
    /// `summary.json` of gungraun (schema 6 or 7), or a directory of them.
    Gungraun,
    /// Walltime results of CodSpeed's integrations.
    Codspeed,
    /// Our own JSON lines.
    JsonLines,
}

/// Recognises a single file's format from its content.
pub fn detect(text: &str) -> Option<Format> {
    if text.trim_start().starts_with("{\"type\":\"campaign\"") {
        return Some(Format::JsonLines);
    }
    let value: Value = serde_json::from_str(text).ok()?;
    if value.get("instrument").is_some() && value.get("benchmarks").is_some() {
        Some(Format::Codspeed)
    } else if value.get("profiles").is_some() && value.get("module_path").is_some() {
        Some(Format::Gungraun)
    } else if value
        .get("results")
        .and_then(Value::as_array)
        .is_some_and(|r| r.iter().all(|e| e.get("command").is_some()))
    {
        Some(Format::Hyperfine)
    } else {
        None
    }
}

/// A campaign of imported benchmarks.
pub fn campaign(info: CampaignInfo, benchmarks: Benchmarks) -> Campaign {
    Campaign { info: CampaignInfo { purpose: Purpose::Imported, ..info }, benchmarks, ..Campaign::default() }
}

/// Samples from plain values, a block each, since nothing else is known of their order.
fn samples(values: impl IntoIterator<Item = f64>) -> Vec<Sample> {
    values
        .into_iter()
        .enumerate()
        .map(|(i, value)| Sample { block: i as u32 + 1, position: 0, warm_up: false, value })
        .collect()
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))
}

/// The numbers of an array field.
fn numbers(value: &Value, key: &str) -> Option<Vec<f64>> {
    value.get(key)?.as_array()?.iter().map(Value::as_f64).collect()
}

/// The text of a field.
fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}
