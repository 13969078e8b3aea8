//! The lines before a part's body.

use crate::events::Events;
use crate::tables::Tables;
use std::io::Write;
use tallygraph_wire::config::{Number, Text};

/// What a part's header says besides the configuration.
pub struct Part<'a> {
    /// Process id of the guest.
    pub pid: u32,
    /// Number of the part, from 1.
    pub number: u32,
    /// Thread, when threads are written apart.
    pub thread: Option<u32>,
    /// Basic blocks executed before and after the part.
    pub blocks: (u64, u64),
    /// What caused the dump.
    pub trigger: &'a str,
    /// The part's costs.
    pub totals: &'a [u64],
}

/// The version of Callgrind whose format is written, unless the configuration names another.
const CREATOR_VERSION: &[u8] = b"3.26.0";

/// Costs of a part, blank-separated.
pub fn costs(values: &[u64]) -> String {
    let words: Vec<String> = values.iter().map(u64::to_string).collect();
    words.join(" ")
}

/// Appends what is written once per file.
pub fn file_head(out: &mut Vec<u8>, tables: &Tables, pid: u32) {
    out.extend_from_slice(b"# callgrind format\nversion: 1\ncreator: callgrind-");
    out.extend_from_slice(tables.config.text(Text::CreatorVersion).unwrap_or(CREATOR_VERSION));
    let _ = write!(out, "\npid: {pid}\ncmd:  ");
    out.extend_from_slice(tables.config.text(Text::CommandLine).unwrap_or(b""));
    out.push(b'\n');
}

/// Appends what is written for each part. `first` says that a file's head precedes it.
pub fn part_head(out: &mut Vec<u8>, tables: &Tables, events: &Events, part: &Part, first: bool) {
    let config = &tables.config;
    let _ = writeln!(out, "part: {}", part.number);
    if let Some(thread) = part.thread {
        let _ = writeln!(out, "thread: {thread}");
    }
    out.push(b'\n');
    if first {
        out.push(b'\n');
        for (name, key) in [("I1", Text::CacheI1), ("D1", Text::CacheD1), ("LL", Text::CacheLl)] {
            let text = match config.text(key) {
                Some(geometry) if simulates(tables) => describe_cache(geometry),
                _ => String::new(),
            };
            let _ = writeln!(out, "desc: {name} cache: {text}");
        }
        out.push(b'\n');
    }
    let _ = writeln!(out, "desc: Timerange: Basic block {} - {}", part.blocks.0, part.blocks.1);
    let _ = writeln!(out, "desc: Trigger: {}", part.trigger);
    for text in &tables.descriptions {
        out.extend_from_slice(b"desc: ");
        out.extend(text.iter().map(|&b| if b == b'\n' { b' ' } else { b }));
        out.push(b'\n');
    }
    out.push(b'\n');
    let positions = match (config.is(Number::DumpInstr), config.is(Number::DumpLine)) {
        (true, true) => "instr line",
        (true, false) => "instr",
        _ => "line",
    };
    let _ = writeln!(out, "positions: {positions}");
    for (short, long) in events.long_names() {
        let _ = writeln!(out, "event: {short} : {long}");
    }
    let _ = write!(out, "events: {}\nsummary: {}\n\n\n", events.line(), costs(part.totals));
}

fn simulates(tables: &Tables) -> bool {
    tables.config.is(Number::CacheSim) || tables.config.is(Number::SimVariant)
}

/// `size,associativity,line size` in words.
fn describe_cache(geometry: &[u8]) -> String {
    let text = String::from_utf8_lossy(geometry);
    let mut parts = text.split(',');
    let (size, ways, line) =
        (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let ways = if ways == "1" { "direct-mapped".to_string() } else { format!("{ways}-way associative") };
    format!("{size} B, {line} B, {ways}")
}

#[cfg(test)]
mod tests {
    use super::describe_cache;

    #[test]
    fn caches_are_described_as_valgrind_does() {
        assert_eq!(describe_cache(b"32768,8,64"), "32768 B, 64 B, 8-way associative");
        assert_eq!(describe_cache(b"268435456,1,64"), "268435456 B, 64 B, direct-mapped");
    }
}
