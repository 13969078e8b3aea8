//! `validate`: whether a profile is well-formed, and what its consumers make of it.

use super::input;
use super::output::{self, Color};
use super::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;
use tallygraph_profile::Profile;
use tallygraph_profile::graph::CallGraph;
use tallygraph_profile::read::{self, ReadError};
use tallygraph_profile::validate::{Consumer, Finding, findings};

/// Arguments of `validate`.
#[derive(Args)]
pub struct Arguments {
    /// Profiles; the newest callgrind.out.* when left out
    files: Vec<PathBuf>,
    /// Fail (status 1) if this program would refuse or misread a file; may be repeated
    #[arg(long = "for", value_name = "PROGRAM")]
    consumers: Vec<Program>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    Kcachegrind,
    #[value(name = "callgrind_annotate")]
    CallgrindAnnotate,
    Gprof2dot,
    Speedscope,
    Gungraun,
}

impl Program {
    fn consumer(self) -> Consumer {
        match self {
            Program::Kcachegrind => Consumer::KCachegrind,
            Program::CallgrindAnnotate => Consumer::CallgrindAnnotate,
            Program::Gprof2dot => Consumer::Gprof2dot,
            Program::Speedscope => Consumer::Speedscope,
            Program::Gungraun => Consumer::Gungraun,
        }
    }
}

/// Runs the command.
pub fn run(arguments: Arguments) -> Outcome {
    let files = if arguments.files.is_empty() { vec![input::newest()?] } else { arguments.files.clone() };
    let wanted: Vec<Consumer> = arguments.consumers.iter().map(|p| p.consumer()).collect();
    let mut text = String::new();
    let mut documents = Vec::new();
    let mut failed = false;
    for path in &files {
        let origin = path.display().to_string();
        match read::file(path, read::Options::default()) {
            Ok(profile) => {
                let found = findings(&profile);
                failed |= found.iter().any(|f| {
                    wanted.contains(&f.consumer)
                        && f.effect != tallygraph_profile::validate::Effect::Complains
                });
                describe(&mut text, &origin, &profile, &found);
                documents.push(well_formed(&origin, &profile, &found));
            }
            Err(error) => {
                failed = true;
                text.push_str(&format!("{error}\n"));
                documents.push(malformed(&origin, &error));
            }
        }
    }
    if arguments.format == Format::Json {
        text = serde_json::to_string_pretty(&json!({ "schema": 1, "kind": "validate", "files": documents }))?;
        text.push('\n');
    }
    output::print(&text, Color::Never)?;
    if failed { Err(Failure::Operation(anyhow::anyhow!("not every file passed"))) } else { Ok(()) }
}

fn mismatch(profile: &Profile) -> Option<String> {
    let graph = CallGraph::of(profile);
    let declared = graph.declared.as_ref()?;
    let event = (0..graph.events.len()).find(|&e| declared[e] != graph.total[e])?;
    Some(format!(
        "the totals state {} {}, the lines add up to {}",
        declared[event], graph.events[event], graph.total[event]
    ))
}

fn describe(text: &mut String, origin: &str, profile: &Profile, found: &[Finding]) {
    let parts = profile.parts.len();
    let noun = if parts == 1 { "part" } else { "parts" };
    text.push_str(&format!("{origin}: well-formed, {parts} {noun}, events {}\n", profile.events().join(" ")));
    if let Some(mismatch) = mismatch(profile) {
        text.push_str(&format!("{origin}: {mismatch}\n"));
    }
    for finding in found {
        text.push_str(&format!(
            "{origin}:{}: {} {} this file: {}\n",
            finding.line,
            finding.consumer,
            finding.effect.verb(),
            finding.reason
        ));
    }
    for consumer in Consumer::ALL {
        if found.iter().all(|f| f.consumer != consumer) {
            text.push_str(&format!("{origin}: {consumer} reads this file\n"));
        }
    }
}

fn well_formed(origin: &str, profile: &Profile, found: &[Finding]) -> serde_json::Value {
    let findings: Vec<_> = found
        .iter()
        .map(|f| {
            json!({
                "consumer": f.consumer.to_string(),
                "effect": f.effect.verb().trim_end_matches(" about"),
                "line": f.line,
                "reason": f.reason,
            })
        })
        .collect();
    json!({
        "file": origin,
        "well_formed": true,
        "parts": profile.parts.len(),
        "events": profile.events(),
        "totals_mismatch": mismatch(profile),
        "findings": findings,
    })
}

fn malformed(origin: &str, error: &ReadError) -> serde_json::Value {
    let defects: Vec<_> = match error {
        ReadError::Malformed { defects, .. } => {
            defects.iter().map(|d| json!({ "line": d.line, "reason": d.reason.to_string() })).collect()
        }
        _ => Vec::new(),
    };
    json!({ "file": origin, "well_formed": false, "error": error.to_string(), "defects": defects })
}
