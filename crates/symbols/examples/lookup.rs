//! Prints the source position of addresses: `lookup OBJECT < ADDRESSES`, addresses in hexadecimal as
//! the object states them.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use std::time::Instant;
use tallygraph_symbols::{Finder, ObjectSymbols};

fn main() -> std::io::Result<()> {
    let Some(object) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: lookup OBJECT < ADDRESSES");
        std::process::exit(2);
    };
    let start = Instant::now();
    let symbols = ObjectSymbols::open(&object, b"", &Finder::new(&[]), None);
    eprintln!("{} rows in {:?}", symbols.table().len(), start.elapsed());
    let mut out = std::io::BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let line = line?;
        let Ok(svma) = u64::from_str_radix(line.trim().trim_start_matches("0x"), 16) else { continue };
        match symbols.lookup(svma) {
            Some(at) => writeln!(out, "{}:{}", symbols.file(at.file), at.line)?,
            None => writeln!(out, "??:0")?,
        }
    }
    out.flush()
}
