//! Says how two profiles differ: self cost by function, calls and inclusive cost by edge.

use crate::callgrind::{Function, Profile};
use std::fmt::Display;

/// What takes part in a comparison.
pub struct Rules<'a> {
    /// Functions that are left out, with every edge from or to them.
    pub ignore: &'a dyn Fn(&Function) -> bool,
    /// Whether inclusive costs are compared. Costs of ignored functions are part of those of their
    /// callers, so this is for comparisons that ignore nothing that is called.
    pub inclusive: bool,
}

/// Compares everything.
pub const EVERYTHING: Rules<'static> = Rules { ignore: &|_| false, inclusive: true };

/// One line for each difference; empty when there is none. `expected` and `found` name the sides.
pub fn differences(
    rules: &Rules<'_>,
    (expected_name, expected): (&str, &Profile),
    (found_name, found): (&str, &Profile),
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut differ = |what: String, a: &dyn Display, b: &dyn Display| {
        lines.push(format!("{what}: {expected_name} {a}, {found_name} {b}"));
    };
    let functions = expected.own.keys().chain(found.own.keys().filter(|f| !expected.own.contains_key(f)));
    for function in functions.filter(|f| !(rules.ignore)(f)) {
        let cost = |p: &Profile| p.own.get(function).and_then(|c| c.first().copied()).unwrap_or(0);
        if cost(expected) != cost(found) {
            differ(format!("self cost of {function}"), &cost(expected), &cost(found));
        }
    }
    let edges = expected.edges.keys().chain(found.edges.keys().filter(|e| !expected.edges.contains_key(e)));
    for edge in edges.filter(|(a, b)| !(rules.ignore)(a) && !(rules.ignore)(b)) {
        let count = |p: &Profile| p.edges.get(edge).map_or(0, |e| e.count);
        let cost = |p: &Profile| p.edges.get(edge).map_or(0, |e| e.inclusive());
        if count(expected) != count(found) {
            differ(format!("calls {} -> {}", edge.0, edge.1), &count(expected), &count(found));
        }
        if rules.inclusive && cost(expected) != cost(found) {
            differ(format!("inclusive cost of {} -> {}", edge.0, edge.1), &cost(expected), &cost(found));
        }
    }
    lines
}

/// The first lines of a list, and how many were left out.
pub fn shortened(lines: &[String]) -> String {
    let mut text = lines.iter().take(25).map(|l| format!("  {l}\n")).collect::<String>();
    if lines.len() > 25 {
        text.push_str(&format!("  ... and {} more\n", lines.len() - 25));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(f: u64, calls: u64, inclusive: u64) -> Profile {
        Profile::parse(&format!(
            "version: 1\npositions: line\nevents: Ir\nob=p\nfn=m\n1 3\ncfn=f\ncalls={calls} 5\n2 {inclusive}\nfn=f\n5 {f}\ntotals: {}\n",
            f + 3
        ))
        .unwrap()
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        let compare = |p: Profile| differences(&EVERYTHING, ("a", &profile(7, 2, 7)), ("b", &p));
        assert!(compare(profile(7, 2, 7)).is_empty());
        assert_eq!(compare(profile(8, 2, 7)), ["self cost of p:f: a 7, b 8"]);
        assert_eq!(compare(profile(7, 1, 7)), ["calls p:m -> p:f: a 2, b 1"]);
        assert_eq!(compare(profile(7, 2, 6)), ["inclusive cost of p:m -> p:f: a 7, b 6"]);
    }
}
