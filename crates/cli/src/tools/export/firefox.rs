//! Firefox Profiler's processed format: every event is a thread whose samples are weighted stacks.

use crate::tools::Failure;
use crate::tools::stacks::Stacks;
use serde_json::{Value, json};
use std::collections::HashMap;
use tallygraph_profile::stacks::{Frame, StackTree};

/// Version of the processed format written here; the viewer upgrades older ones.
const PROCESSED_VERSION: u32 = 44;

/// The document.
pub fn document(stacks: &Stacks, label: impl Fn(&Frame) -> String) -> Result<Vec<u8>, Failure> {
    let tree = &stacks.tree;
    let mut order: Vec<usize> = (0..tree.events.len()).collect();
    order.sort_by_key(|&e| (e != stacks.event, e));
    let threads: Vec<Value> =
        order.iter().enumerate().map(|(n, &event)| thread(tree, event, n, &label)).collect();
    let note = if tree.estimated { " (stacks estimated from a call graph)" } else { "" };
    let document = json!({
        "meta": {
            "version": 27,
            "preprocessedProfileVersion": PROCESSED_VERSION,
            "interval": 1.0,
            "startTime": 0.0,
            "processType": 0,
            "product": format!("{}{note}", stacks.command),
            "stackwalk": 1,
            "debug": false,
            "symbolicated": true,
            "importedFrom": "tallygraph",
            "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
            "markerSchema": [],
            "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
        },
        "libs": [],
        "pages": [],
        "threads": threads,
    });
    Ok(serde_json::to_vec(&document)?)
}

fn thread(tree: &StackTree, event: usize, number: usize, label: &impl Fn(&Frame) -> String) -> Value {
    let mut strings: Vec<String> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    let mut intern = |text: String| {
        *index.entry(text.clone()).or_insert_with(|| {
            strings.push(text);
            strings.len() - 1
        })
    };
    // One resource of type library for each object.
    let mut objects: Vec<&str> = tree.frames.iter().map(|f| f.object.as_str()).collect();
    objects.sort_unstable();
    objects.dedup();
    let resources: Vec<usize> = objects.iter().map(|o| intern(o.to_string())).collect();
    let names: Vec<usize> = tree.frames.iter().map(|f| intern(label(f))).collect();
    let files: Vec<usize> = tree.frames.iter().map(|f| intern(f.file.clone())).collect();
    let resource_of: Vec<usize> =
        tree.frames.iter().map(|f| objects.binary_search(&f.object.as_str()).unwrap_or(0)).collect();
    let (frames, nodes) = (tree.frames.len(), tree.nodes.len());
    let sampled: Vec<usize> = (0..nodes).filter(|&i| tree.nodes[i].cost[event] > 0).collect();
    let nulls = vec![Value::Null; frames];
    json!({
        "processType": "default",
        "processStartupTime": 0.0,
        "processShutdownTime": null,
        "registerTime": 0.0,
        "unregisterTime": null,
        "pausedRanges": [],
        "name": tree.events[event],
        "isMainThread": number == 0,
        "pid": "1",
        "tid": number + 1,
        "samples": {
            "weightType": "samples",
            "weight": sampled.iter().map(|&i| tree.nodes[i].cost[event]).collect::<Vec<_>>(),
            "stack": sampled,
            "time": (0..sampled.len()).collect::<Vec<_>>(),
            "length": sampled.len(),
        },
        "markers": {
            "data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0,
        },
        "stackTable": {
            "frame": tree.nodes.iter().map(|n| n.frame).collect::<Vec<_>>(),
            "prefix": tree.nodes.iter().map(|n| n.parent).collect::<Vec<_>>(),
            "category": vec![0; nodes],
            "subcategory": vec![0; nodes],
            "length": nodes,
        },
        "frameTable": {
            "address": vec![-1; frames],
            "inlineDepth": vec![0; frames],
            "category": vec![0; frames],
            "subcategory": vec![0; frames],
            "func": (0..frames).collect::<Vec<_>>(),
            "nativeSymbol": nulls,
            "innerWindowID": vec![0; frames],
            "implementation": nulls,
            "line": nulls,
            "column": nulls,
            "length": frames,
        },
        "funcTable": {
            "isJS": vec![false; frames],
            "relevantForJS": vec![false; frames],
            "name": names,
            "resource": resource_of,
            "fileName": files,
            "lineNumber": nulls,
            "columnNumber": nulls,
            "length": frames,
        },
        "resourceTable": {
            "lib": vec![Value::Null; objects.len()],
            "name": resources,
            "host": vec![Value::Null; objects.len()],
            "type": vec![1; objects.len()],
            "length": objects.len(),
        },
        "nativeSymbols": { "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0 },
        "stringArray": strings,
    })
}
