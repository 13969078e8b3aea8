//! Campaigns as text: JSON lines (complete, readable again) and CSV (samples only).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::model::{Campaign, CampaignInfo, Measured, Sample, Setting};

/// Version of the JSON lines.
const SCHEMA: u32 = 1;

/// One line of the export.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Campaign {
        schema: u32,
        info: CampaignInfo,
        environment: Fingerprint,
    },
    Benchmark {
        campaign: String,
        name: String,
        setting: Setting,
        profile: Option<String>,
        problem: Option<String>,
    },
    Samples {
        campaign: String,
        benchmark: String,
        metric: String,
        samples: Vec<Sample>,
    },
}

/// Campaigns as JSON lines: a line per campaign, benchmark and metric.
pub fn json_lines<'a>(campaigns: impl IntoIterator<Item = &'a Campaign>) -> String {
    let mut out = String::new();
    let mut push = |line: &Line| {
        out.push_str(&serde_json::to_string(line).expect("plain data serialises"));
        out.push('\n');
    };
    for campaign in campaigns {
        let id = &campaign.info.id;
        let (info, environment) = (campaign.info.clone(), campaign.environment.clone());
        push(&Line::Campaign { schema: SCHEMA, info, environment });
        for (name, measured) in &campaign.benchmarks {
            push(&Line::Benchmark {
                campaign: id.clone(),
                name: name.clone(),
                setting: measured.setting.clone(),
                profile: measured.profile.clone(),
                problem: measured.problem.clone(),
            });
            for (metric, samples) in &measured.metrics {
                push(&Line::Samples {
                    campaign: id.clone(),
                    benchmark: name.clone(),
                    metric: metric.clone(),
                    samples: samples.clone(),
                });
            }
        }
    }
    out
}

/// Reads what [`json_lines`] wrote; the error names the line.
pub fn from_json_lines(text: &str) -> Result<Vec<Campaign>, String> {
    let mut campaigns: Vec<Campaign> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let failed = |problem: String| format!("line {}: {problem}", number + 1);
        let at = |id: &str| {
            index.get(id).copied().ok_or_else(|| failed(format!("campaign {id} was not introduced before")))
        };
        match serde_json::from_str(line).map_err(|e| failed(e.to_string()))? {
            Line::Campaign { schema, info, environment } => {
                if schema != SCHEMA {
                    return Err(failed(format!("schema {schema}, this program reads {SCHEMA}")));
                }
                index.insert(info.id.clone(), campaigns.len());
                campaigns.push(Campaign { info, environment, benchmarks: BTreeMap::new() });
            }
            Line::Benchmark { campaign, name, setting, profile, problem } => {
                let measured = Measured { setting, profile, problem, metrics: BTreeMap::new() };
                campaigns[at(&campaign)?].benchmarks.insert(name, measured);
            }
            Line::Samples { campaign, benchmark, metric, samples } => {
                let measured = campaigns[at(&campaign)?]
                    .benchmarks
                    .get_mut(&benchmark)
                    .ok_or_else(|| failed(format!("benchmark {benchmark} was not introduced before")))?;
                measured.metrics.insert(metric, samples);
            }
        }
    }
    Ok(campaigns)
}

/// All samples as CSV, one a line, values in the metric's unit (seconds, bytes, counts).
pub fn csv<'a>(campaigns: impl IntoIterator<Item = &'a Campaign>) -> String {
    let mut out =
        String::from("campaign,reference,commit,started,benchmark,metric,block,position,warm_up,value\n");
    for campaign in campaigns {
        let info = &campaign.info;
        for (name, measured) in &campaign.benchmarks {
            for (metric, samples) in &measured.metrics {
                for s in samples {
                    let fields = [
                        field(&info.id),
                        field(&info.reference),
                        field(&info.commit),
                        field(&info.started),
                        field(name),
                        field(metric),
                        s.block.to_string(),
                        s.position.to_string(),
                        u8::from(s.warm_up).to_string(),
                        s.value.to_string(),
                    ];
                    out.push_str(&fields.join(","));
                    out.push('\n');
                }
            }
        }
    }
    out
}

/// A text field, quoted where needed (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Scenario, campaigns};

    #[test]
    fn json_lines_come_back_complete() {
        let (mut base, head) = campaigns(&[Scenario::QUIET, Scenario::QUIET], 3);
        base.benchmarks.get_mut("b000").unwrap().problem = Some("a \"problem\"\nof two lines".into());
        base.environment.facts.insert("kernel".into(), "6.1".into());
        let text = json_lines([&base, &head]);
        assert_eq!(from_json_lines(&text).unwrap(), [base, head]);
    }

    #[test]
    fn a_broken_line_is_named() {
        let (base, _) = campaigns(&[Scenario::QUIET], 3);
        let text = json_lines([&base]);
        let cut = text.lines().skip(1).collect::<Vec<_>>().join("\n");
        assert_eq!(from_json_lines(&cut).unwrap_err(), "line 1: campaign base was not introduced before");
        assert!(from_json_lines(&format!("{text}{{}}")).unwrap_err().starts_with("line 4: "));
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let (mut base, _) = campaigns(&[Scenario { blocks: 1, runs: 1, ..Scenario::QUIET }], 3);
        let measured = base.benchmarks.remove("b000").unwrap();
        base.benchmarks.insert("t[a, \"b\"]".into(), measured);
        let text = csv([&base]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().nth(1).unwrap().contains(",\"t[a, \"\"b\"\"]\",wall,1,"), "{text}");
    }
}
