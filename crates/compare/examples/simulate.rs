//! Writes two synthetic campaigns as JSON lines: `base.jsonl` and `head.jsonl`.
//!
//! `cargo run -p tallygraph-compare --example simulate DIRECTORY [BENCHMARKS]`
//!
//! One benchmark in five of the head is 5 % slower; noise is 2 %.

use std::path::PathBuf;

use tallygraph_compare::export::json_lines;
use tallygraph_compare::simulate::{Scenario, campaigns};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = PathBuf::from(args.next().expect("a directory"));
    let benchmarks: usize = args.next().map_or(10, |n| n.parse().expect("a number of benchmarks"));
    let scenarios: Vec<Scenario> = (0..benchmarks)
        .map(|i| Scenario { shift: if i % 5 == 0 { 0.05 } else { 0.0 }, ..Scenario::QUIET })
        .collect();
    let (base, head) = campaigns(&scenarios, 1);
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("base.jsonl"), json_lines([&base]))?;
    std::fs::write(directory.join("head.jsonl"), json_lines([&head]))
}
