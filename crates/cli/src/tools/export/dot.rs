//! The call graph for Graphviz.

use tallygraph_profile::diff::grouped;
use tallygraph_profile::graph::CallGraph;

/// The document: functions and calls above the limits, in percent of the total.
pub fn document(graph: &CallGraph, event: usize, node_limit: f64, edge_limit: f64) -> String {
    let total = graph.total[event].max(1) as f64;
    let share = |cost: i64| cost as f64 * 100.0 / total;
    let shown: Vec<bool> = graph.functions.iter().map(|f| share(f.inclusive[event]) >= node_limit).collect();
    let mut out = String::from(
        "digraph callgraph {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=9];\n",
    );
    for (i, f) in graph.functions.iter().enumerate().filter(|(i, _)| shown[*i]) {
        let (own, inclusive) = (share(f.self_cost[event]), share(f.inclusive[event]));
        // From pale yellow to red by own cost.
        let saturation = 0.1 + 0.6 * (own / 100.0).clamp(0.0, 1.0).sqrt();
        let mark = match (f.cycle, f.recursive) {
            (Some(cycle), _) => format!("\\n<cycle {cycle}>"),
            (None, true) => "\\n<recursive>".to_string(),
            _ => String::new(),
        };
        out.push_str(&format!(
            "  f{i} [label=\"{}{mark}\\n{inclusive:.2}% (self {own:.2}%)\", tooltip=\"{}\", fillcolor=\"{:.3} {saturation:.3} 1.0\"];\n",
            escape(&f.name),
            escape(&format!("{} {}", f.file, f.object)),
            0.15 * (1.0 - saturation),
        ));
    }
    for e in &graph.edges {
        let cost = graph.edge_cost(e)[event];
        let ends = shown[e.caller as usize] && shown[e.callee as usize];
        if ends && (share(cost) >= edge_limit || e.caller == e.callee) {
            let width = 0.5 + 4.0 * (share(cost) / 100.0).clamp(0.0, 1.0);
            out.push_str(&format!(
                "  f{} -> f{} [label=\"{:.2}%\\n{}x\", penwidth={width:.2}];\n",
                e.caller,
                e.callee,
                share(cost),
                grouped(e.calls.into()),
            ));
        }
    }
    out.push_str("}\n");
    out
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}
