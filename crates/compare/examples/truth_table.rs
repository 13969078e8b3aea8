//! Prints the table of false-alarm and detection rates published in `docs/statistics.md`.
//!
//! `cargo run --release -p tallygraph-compare --example truth_table [REPORTS]`

use tallygraph_compare::truth::{Effort, tables};

fn main() {
    let reports = std::env::args().nth(1).map_or(1000, |text| text.parse().expect("a number of reports"));
    print!("{}", tables(Effort { reports, resamples: 2000, criterion_resamples: 1000, seed: 1 }));
}
