//! Reads raw symbol names, one a line, and prints them as a profile shows them.

use std::io::{BufRead, Write, stdin, stdout};
use tallygraph_symbols::Demangler;

fn main() -> std::io::Result<()> {
    let demangler = Demangler::new(true);
    let mut out = std::io::BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        writeln!(out, "{}", demangler.demangle(&line?))?;
    }
    out.flush()
}
