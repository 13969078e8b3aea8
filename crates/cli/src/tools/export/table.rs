//! Rows for spreadsheets and data bases: CSV (RFC 4180) and a JSON object per line.

use super::Table;
use crate::tools::Failure;
use serde_json::{Map, Value, json};
use tallygraph_profile::graph::CallGraph;

/// Names of the columns and the rows.
pub struct Rows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

/// The rows of a table.
pub fn rows(graph: &CallGraph, table: Table) -> Rows {
    let costs = |prefix: &str| graph.events.iter().map(|e| format!("{prefix}_{e}")).collect::<Vec<_>>();
    let numbers = |costs: &[i64]| costs.iter().map(|c| json!(c)).collect::<Vec<_>>();
    let strings = |words: &[&str]| words.iter().map(|w| w.to_string()).collect::<Vec<_>>();
    match table {
        Table::Functions => Rows {
            columns: [
                strings(&["name", "file", "object", "calls", "recursive", "cycle"]),
                costs("self"),
                costs("inclusive"),
            ]
            .concat(),
            rows: graph
                .functions
                .iter()
                .map(|f| {
                    let row = vec![
                        json!(f.name),
                        json!(f.file),
                        json!(f.object),
                        json!(f.calls),
                        json!(f.recursive),
                        json!(f.cycle),
                    ];
                    [row, numbers(&f.self_cost), numbers(&f.inclusive)].concat()
                })
                .collect(),
        },
        Table::Calls => Rows {
            columns: [
                strings(&[
                    "caller",
                    "caller_file",
                    "caller_object",
                    "callee",
                    "callee_file",
                    "callee_object",
                    "calls",
                ]),
                costs("inclusive"),
            ]
            .concat(),
            rows: graph
                .edges
                .iter()
                .map(|e| {
                    let (a, b) = (&graph.functions[e.caller as usize], &graph.functions[e.callee as usize]);
                    let row = vec![
                        json!(a.name),
                        json!(a.file),
                        json!(a.object),
                        json!(b.name),
                        json!(b.file),
                        json!(b.object),
                        json!(e.calls),
                    ];
                    [row, numbers(&graph.edge_cost(e))].concat()
                })
                .collect(),
        },
        Table::Lines => Rows {
            columns: [strings(&["file", "line", "function", "object"]), costs("self")].concat(),
            rows: graph
                .lines
                .iter()
                .map(|l| {
                    let f = &graph.functions[l.function as usize];
                    let row = vec![
                        json!(graph.files[l.file as usize]),
                        json!(l.line),
                        json!(f.name),
                        json!(f.object),
                    ];
                    [row, numbers(&l.cost)].concat()
                })
                .collect(),
        },
    }
}

/// The table as CSV.
pub fn csv(graph: &CallGraph, table: Table) -> Vec<u8> {
    let rows = rows(graph, table);
    let mut out = String::new();
    let mut line = |fields: Vec<String>| {
        let quoted: Vec<String> = fields.iter().map(|f| quote(f)).collect();
        out.push_str(&quoted.join(","));
        out.push_str("\r\n");
    };
    line(rows.columns);
    for row in rows.rows {
        line(
            row.into_iter()
                .map(|value| match value {
                    Value::String(text) => text,
                    Value::Null => String::new(),
                    other => other.to_string(),
                })
                .collect(),
        );
    }
    out.into_bytes()
}

fn quote(field: &str) -> String {
    match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_string(),
    }
}

/// The table as JSON lines.
pub fn json_lines(graph: &CallGraph, table: Table) -> Result<Vec<u8>, Failure> {
    let rows = rows(graph, table);
    let mut out = Vec::new();
    for row in rows.rows {
        let object: Map<String, Value> = rows.columns.iter().cloned().zip(row).collect();
        serde_json::to_writer(&mut out, &object)?;
        out.push(b'\n');
    }
    Ok(out)
}
