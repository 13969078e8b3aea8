//! Golden profiles: text files beside the guests, rewritten by `BLESS=1`.

use crate::callgrind::{Function, Profile};
use crate::header::Golden;
use std::fmt::Write;
use std::path::Path;

/// What a golden file holds of a profile: functions of `object` and the calls among them, in order of
/// name. Nothing is normalised, since nothing in it depends on where or when the guest ran.
pub fn text(kind: Golden, profile: &Profile, object: &str) -> String {
    let mut text = String::new();
    let mine = |f: &Function| f.object == object;
    for (function, costs) in profile.own.iter().filter(|(f, _)| mine(f)) {
        match kind {
            Golden::Full => writeln!(text, "self {} {}", function.name, costs[0]),
            Golden::Calls => writeln!(text, "function {}", function.name),
        }
        .expect("writing to a string");
    }
    for ((caller, callee), edge) in profile.edges.iter().filter(|((a, b), _)| mine(a) && mine(b)) {
        match kind {
            Golden::Full => {
                writeln!(text, "call {} {} {} {}", caller.name, callee.name, edge.count, edge.inclusive())
            }
            Golden::Calls => writeln!(text, "call {} {} {}", caller.name, callee.name, edge.count),
        }
        .expect("writing to a string");
    }
    text
}

/// Compares a text with the golden file, or writes the file where `BLESS=1` is set. The message tells
/// what differs.
pub fn compare(path: &Path, found: &str) -> Result<(), String> {
    if std::env::var_os("BLESS").is_some_and(|v| v == "1") {
        return std::fs::write(path, found).map_err(|e| format!("{}: {e}", path.display()));
    }
    let expected = std::fs::read_to_string(path)
        .map_err(|e| format!("{}: {e}; BLESS=1 writes it, look at it before keeping it", path.display()))?;
    if expected == found {
        return Ok(());
    }
    let mut message = format!("{} differs (BLESS=1 rewrites it):\n", path.display());
    for line in expected.lines().filter(|l| !found.lines().any(|f| f == *l)) {
        writeln!(message, "- {line}").expect("writing to a string");
    }
    for line in found.lines().filter(|l| !expected.lines().any(|e| e == *l)) {
        writeln!(message, "+ {line}").expect("writing to a string");
    }
    Err(message)
}
