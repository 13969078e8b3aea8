//! An investigation as text.

use super::Investigation;
use crate::format::{grouped, quantity};
use crate::model::unit_of;
use crate::render::markdown_cell;

/// As Markdown, which also reads well on a terminal.
pub fn markdown(found: &Investigation) -> String {
    let unit = unit_of(&found.metric);
    let cell = markdown_cell;
    let mut out = format!("## {} ({})\n\n**{}**\n\n", cell(&found.benchmark), found.metric, found.conclusion);
    out.push_str("### Evidence: the same benchmark over campaigns\n\n");
    out.push_str("| Run | Commit | Value | × median | Runs | |\n| --- | --- | --- | --- | --- | --- |\n");
    for line in &found.lines {
        out.push_str(&format!(
            "| {} ({}) | {} {} | {} | {:.2} | {} | {} |\n",
            cell(&line.campaign),
            line.time.get(..10).unwrap_or(&line.time),
            cell(&line.reference),
            line.commit.get(..7).unwrap_or(&line.commit),
            quantity(line.value, unit),
            line.ratio,
            line.runs,
            line.role
        ));
    }
    out.push('\n');
    for (name, sanity) in [("base", &found.base_sanity), ("head", &found.head_sanity)] {
        if let Some(check) = sanity {
            out.push_str(&format!(
                "The {name} is {:.2} times the median of {} other campaigns: {}.\n\n",
                check.ratio,
                check.others,
                if check.outlier { "an outlier" } else { "in line with them" }
            ));
        }
    }
    if let Some(change) = found.facts.get("work_change_percent") {
        let time = found.facts.get("time_change_percent").copied().unwrap_or(0.0);
        out.push_str(&format!("Work (Ir) changed by {change:+.2} %, the value by {time:+.2} %.\n\n"));
    }
    if !found.functions.is_empty() {
        out.push_str("### A normal and an outlying run by function\n\n");
        out.push_str(match found.calls_equal {
            Some(true) => "Both made the same calls.\n\n",
            _ => "Their calls differ.\n\n",
        });
        out.push_str("| Function | Self, normal | Self, outlier | Calls, normal | Calls, outlier |\n");
        out.push_str("| --- | --- | --- | --- | --- |\n");
        for f in &found.functions {
            out.push_str(&format!(
                "| {} | {} | {} | {} | {} |\n",
                cell(&f.function),
                grouped(f.base, 0),
                grouped(f.head, 0),
                f.base_calls,
                f.head_calls
            ));
        }
        out.push('\n');
    }
    out.push_str("### Root causes\n\n");
    if found.causes.is_empty() {
        out.push_str("None of the known causes fits the evidence.\n\n");
    }
    for (i, cause) in found.causes.iter().enumerate() {
        let confidence = format!("{:?}", cause.confidence).to_lowercase();
        out.push_str(&format!("{}. **{}** ({confidence}). {}\n", i + 1, cause.title, cause.explanation));
        for line in &cause.evidence {
            out.push_str(&format!("   - {line}\n"));
        }
    }
    if !found.mitigations.is_empty() {
        out.push_str("\n### Possible mitigations\n\n| Mitigation | Impact | Effort | How |\n| --- | --- | --- | --- |\n");
        for m in &found.mitigations {
            out.push_str(&format!(
                "| {} | {}: {} | {} | `{}` |\n",
                m.title, m.impact, m.impact_why, m.effort, m.switch
            ));
        }
    }
    out
}

/// As one JSON object, fields as in [`Investigation`].
pub fn json(found: &Investigation) -> String {
    let mut text = serde_json::to_string_pretty(found).expect("only string keys");
    text.push('\n');
    text
}
