//! The same for programs.

use super::View;
use super::functions::ranked;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tallygraph_profile::Profile;
use tallygraph_profile::graph::GraphIndex;

/// The document: costs are lists in the order of `events`.
pub fn document(view: &View, profiles: &[Profile], chosen: &[u32], instructions: bool) -> Value {
    let graph = view.graph;
    let index = GraphIndex::new(graph);
    let costs = |costs: &[i64]| view.shown.iter().map(|&c| costs[c]).collect::<Vec<i64>>();
    let reference = |i: u32| {
        let f = &graph.functions[i as usize];
        json!({ "name": f.name, "file": f.file, "object": f.object })
    };
    let functions: Vec<Value> = chosen
        .iter()
        .map(|&i| {
            let f = &graph.functions[i as usize];
            let edges = |edges: Vec<usize>, callers: bool| -> Vec<Value> {
                edges
                    .into_iter()
                    .map(|e| {
                        let edge = &graph.edges[e];
                        let other = if callers { edge.caller } else { edge.callee };
                        json!({ "function": reference(other), "calls": edge.calls, "inclusive": costs(&graph.edge_cost(edge)) })
                    })
                    .collect()
            };
            json!({
                "name": f.name,
                "file": f.file,
                "object": f.object,
                "self": costs(&f.self_cost),
                "inclusive": costs(&f.inclusive),
                "calls": f.calls,
                "recursive": f.recursive,
                "cycle": f.cycle,
                "callers": edges(index.callers(i).collect(), true),
                "callees": edges(index.callees(i).collect(), false),
            })
        })
        .collect();
    let wanted: BTreeSet<u32> = chosen.iter().copied().collect();
    let lines: Vec<Value> = graph
        .lines
        .iter()
        .filter(|l| wanted.contains(&l.function))
        .map(|l| {
            let f = &graph.functions[l.function as usize];
            json!({ "file": graph.files[l.file as usize], "line": l.line, "function": f.name, "self": costs(&l.cost) })
        })
        .collect();
    let cycles: Vec<Value> = graph
        .cycles
        .iter()
        .map(|c| {
            let members: Vec<Value> = c.members.iter().map(|&m| reference(m)).collect();
            json!({ "members": members, "inclusive": costs(&c.inclusive) })
        })
        .collect();
    let inlined: Vec<Value> = graph
        .inlined
        .iter()
        .map(|i| json!({ "name": i.name, "into": reference(i.function), "self": costs(&i.cost) }))
        .collect();
    let mut document = json!({
        "schema": 1,
        "kind": "annotate",
        "files": profiles.iter().map(|p| p.origin.as_str()).collect::<Vec<_>>(),
        "events": view.shown.iter().map(|&c| graph.events[c].as_str()).collect::<Vec<_>>(),
        "sorted_by": if view.inclusive { "inclusive" } else { "self" },
        "total": costs(&graph.total),
        "covered": costs(&chosen.iter().fold(vec![0; graph.events.len()], |mut sum, &i| {
            let f = ranked(view, &graph.functions[i as usize]);
            sum.iter_mut().zip(f).for_each(|(s, c): (&mut i64, &i64)| *s = s.wrapping_add(*c));
            sum
        })),
        "functions": functions,
        "cycles": cycles,
        "inlined": inlined,
        "lines": lines,
    });
    if instructions {
        document["instructions"] = graph
            .instructions
            .iter()
            .filter(|i| wanted.contains(&i.function))
            .map(|i| {
                json!({
                    "address": i.address,
                    "file": graph.files[i.file as usize],
                    "line": i.line,
                    "function": graph.functions[i.function as usize].name,
                    "self": costs(&i.cost),
                })
            })
            .collect();
    }
    document
}
