//! Time and memory for the lines of an object: `cargo run --release --example lines_speed OBJECT`.

use std::path::Path;
use std::time::Instant;
use tallygraph_symbols::cache::Cache;
use tallygraph_symbols::{Finder, InlineFrames, ObjectSymbols};

fn main() {
    let path = std::env::args().nth(1).expect("an object");
    let directory = std::env::temp_dir().join(format!("tallygraph-speed-{}", std::process::id()));
    let cache = Cache::new(&directory);
    for round in ["first", "stored", "stored"] {
        let start = Instant::now();
        let symbols = ObjectSymbols::open(Path::new(&path), b"", &Finder::new(&[]), Some(&cache));
        let (rows, bytes) = (symbols.table().len(), symbols.table().as_bytes().len());
        println!("{round}: {:?}, {rows} rows, {bytes} bytes", start.elapsed());
    }
    let start = Instant::now();
    let inline = InlineFrames::open(Path::new(&path), b"", &Finder::new(&[]));
    println!("inline frames: {:?}, {}", start.elapsed(), if inline.is_some() { "found" } else { "none" });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or(""));
    let _ = std::fs::remove_dir_all(directory);
}
