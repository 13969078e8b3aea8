//! speedscope's own JSON: one profile for each event, with whole stacks.

use crate::tools::Failure;
use crate::tools::stacks::Stacks;
use serde_json::{Value, json};
use tallygraph_profile::stacks::Frame;

/// The document.
pub fn document(stacks: &Stacks, label: impl Fn(&Frame) -> String) -> Result<Vec<u8>, Failure> {
    let tree = &stacks.tree;
    let frames: Vec<Value> = tree
        .frames
        .iter()
        .map(|f| {
            let mut frame = json!({ "name": label(f) });
            if !f.file.is_empty() && f.file != "???" {
                frame["file"] = json!(f.file);
            }
            frame
        })
        .collect();
    // The chosen event first: it is what opens.
    let mut order: Vec<usize> = (0..tree.events.len()).collect();
    order.sort_by_key(|&e| (e != stacks.event, e));
    let mut profiles = Vec::new();
    for event in order {
        let mut samples = Vec::new();
        let mut weights = Vec::new();
        for (i, node) in tree.nodes.iter().enumerate().filter(|(_, n)| n.cost[event] > 0) {
            samples.push(tree.path(i));
            weights.push(node.cost[event]);
        }
        if samples.is_empty() {
            continue;
        }
        let total: i64 = weights.iter().fold(0, |a: i64, b| a.saturating_add(*b));
        profiles.push(json!({
            "type": "sampled",
            "name": tree.events[event],
            "unit": "none",
            "startValue": 0,
            "endValue": total,
            "samples": samples,
            "weights": weights,
        }));
    }
    let origin = if tree.estimated { " (stacks estimated from a call graph)" } else { "" };
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("tallygraph ", env!("CARGO_PKG_VERSION")),
        "name": format!("{}{origin}", stacks.command),
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    });
    Ok(serde_json::to_vec(&document)?)
}
