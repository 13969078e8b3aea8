//! What changed between two call graphs, and the call that explains it.
//!
//! Functions are paired in rounds, each taking what the ones before left over:
//!
//! - P1: equal object name, file name and function name;
//! - P2: equal function name once what changes from build to build is removed: the hash of a Rust
//!   symbol, the address of an unnamed function, `.llvm.`, `.part.` and `.constprop.` suffixes, and
//!   the folders of object and file;
//! - P3: equal function name alone, if there is only one on each side.
//!
//! Lines are paired within a function by their distance from its first line, so that moving a
//! function does not make all its lines new.

use crate::graph::{CallGraph, Function, LineCost};
use std::collections::{BTreeMap, HashMap};

/// A function in two profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionChange {
    /// Name, of the new profile where present.
    pub name: String,
    /// Object.
    pub object: String,
    /// File.
    pub file: String,
    /// Index in the old graph.
    pub old: Option<u32>,
    /// Index in the new graph.
    pub new: Option<u32>,
    /// Old and new self cost of the compared event.
    pub self_cost: (i64, i64),
    /// Old and new inclusive cost.
    pub inclusive: (i64, i64),
    /// Old and new number of calls.
    pub calls: (u64, u64),
}

impl FunctionChange {
    /// New minus old self cost.
    pub fn self_delta(&self) -> i64 {
        self.self_cost.1.wrapping_sub(self.self_cost.0)
    }

    /// New minus old inclusive cost.
    pub fn inclusive_delta(&self) -> i64 {
        self.inclusive.1.wrapping_sub(self.inclusive.0)
    }
}

/// A call edge in two profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeChange {
    /// Index of the caller in [`Diff::functions`].
    pub caller: usize,
    /// Index of the callee in [`Diff::functions`].
    pub callee: usize,
    /// Old and new number of calls.
    pub calls: (u64, u64),
    /// Old and new inclusive cost.
    pub cost: (i64, i64),
}

/// A source line in two profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineChange {
    /// Index of the function in [`Diff::functions`].
    pub function: usize,
    /// File of the line.
    pub file: String,
    /// Old line number.
    pub old_line: Option<u64>,
    /// New line number.
    pub new_line: Option<u64>,
    /// Old and new self cost.
    pub cost: (i64, i64),
}

/// The comparison of two graphs by one event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// The event.
    pub event: String,
    /// Old and new total.
    pub total: (i64, i64),
    /// All functions, those that changed most first.
    pub functions: Vec<FunctionChange>,
    /// Call edges that changed, those that changed most first.
    pub edges: Vec<EdgeChange>,
    /// Lines that changed, those that changed most first; empty unless the graphs have lines.
    pub lines: Vec<LineChange>,
}

/// `name` without what changes from build to build.
pub fn stable_name(name: &str) -> String {
    let mut name = name;
    for mark in [".llvm.", ".part.", ".constprop.", ".isra.", ".cold"] {
        if let Some(at) = name.find(mark).filter(|&at| at > 0) {
            name = &name[..at];
        }
    }
    // Legacy Rust symbols end in ::h and sixteen hexadecimal digits.
    if let Some((base, hash)) = name.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|b| b.is_ascii_hexdigit())
    {
        name = base;
    }
    if let Some(digits) = name.strip_prefix("0x")
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
    {
        return "0x…".to_string();
    }
    // v0 symbols carry their crate's hash in brackets, as in core[846817f741e54dfd]::fmt.
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(open) = rest.find('[') {
        let Some(length) = rest[open..].find(']') else { break };
        let inside = &rest[open + 1..open + length];
        plain.push_str(&rest[..open]);
        if !((8..=16).contains(&inside.len()) && inside.bytes().all(|b| b.is_ascii_hexdigit())) {
            plain.push_str(&rest[open..=open + length]);
        }
        rest = &rest[open + length + 1..];
    }
    plain.push_str(rest);
    plain
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// For each function of the old graph, its partner in the new one.
fn pair(old: &CallGraph, new: &CallGraph) -> Vec<Option<u32>> {
    let mut partner: Vec<Option<u32>> = vec![None; old.functions.len()];
    let mut taken = vec![false; new.functions.len()];
    type Key = fn(&Function) -> (String, String, String);
    let rounds: [Key; 3] = [
        |f| (f.object.clone(), f.file.clone(), f.name.clone()),
        |f| {
            let object = base_name(&f.object).to_string();
            (object, base_name(&f.file).to_string(), stable_name(&f.name))
        },
        |f| (String::new(), String::new(), stable_name(&f.name)),
    ];
    for key in rounds {
        // None: more than one function has this key, so it decides nothing.
        let mut by_key: HashMap<(String, String, String), Option<u32>> = HashMap::new();
        for (i, f) in new.functions.iter().enumerate().filter(|(i, _)| !taken[*i]) {
            by_key.entry(key(f)).and_modify(|e| *e = None).or_insert(Some(i as u32));
        }
        let mut count: HashMap<(String, String, String), u32> = HashMap::new();
        for (_, f) in old.functions.iter().enumerate().filter(|(i, _)| partner[*i].is_none()) {
            *count.entry(key(f)).or_default() += 1;
        }
        for (i, f) in old.functions.iter().enumerate() {
            let key = key(f);
            if partner[i].is_none()
                && count.get(&key) == Some(&1)
                && let Some(&Some(found)) = by_key.get(&key)
            {
                partner[i] = Some(found);
                taken[found as usize] = true;
            }
        }
    }
    partner
}

/// Compares two graphs by an event that both have.
pub fn compare(old: &CallGraph, new: &CallGraph, event: &str) -> Result<Diff, String> {
    let column = |graph: &CallGraph, which: &str| {
        graph.event(event).ok_or_else(|| {
            format!("the {which} profile has no event `{event}`, but {}", graph.events.join(" "))
        })
    };
    let (a, b) = (column(old, "old")?, column(new, "new")?);
    let partner = pair(old, new);
    let mut diff = Diff { event: event.to_string(), total: (old.total[a], new.total[b]), ..Diff::default() };
    let mut from_old = vec![0; old.functions.len()];
    let mut from_new = vec![0; new.functions.len()];
    for (i, f) in old.functions.iter().enumerate() {
        let twin = partner[i].map(|n| &new.functions[n as usize]);
        from_old[i] = diff.functions.len();
        if let Some(n) = partner[i] {
            from_new[n as usize] = diff.functions.len();
        }
        let shown = twin.unwrap_or(f);
        diff.functions.push(FunctionChange {
            name: shown.name.clone(),
            object: shown.object.clone(),
            file: shown.file.clone(),
            old: Some(i as u32),
            new: partner[i],
            self_cost: (f.self_cost[a], twin.map_or(0, |t| t.self_cost[b])),
            inclusive: (f.inclusive[a], twin.map_or(0, |t| t.inclusive[b])),
            calls: (f.calls, twin.map_or(0, |t| t.calls)),
        });
    }
    let mut has_old = vec![false; new.functions.len()];
    partner.iter().flatten().for_each(|&n| has_old[n as usize] = true);
    for (i, f) in new.functions.iter().enumerate().filter(|(i, _)| !has_old[*i]) {
        from_new[i] = diff.functions.len();
        diff.functions.push(FunctionChange {
            name: f.name.clone(),
            object: f.object.clone(),
            file: f.file.clone(),
            old: None,
            new: Some(i as u32),
            self_cost: (0, f.self_cost[b]),
            inclusive: (0, f.inclusive[b]),
            calls: (0, f.calls),
        });
    }
    // Most changed first; edges and lines follow the functions to their new places.
    let mut order: Vec<usize> = (0..diff.functions.len()).collect();
    order.sort_by(|&x, &y| {
        let rank = |i: usize| {
            let f = &diff.functions[i];
            (f.self_delta().unsigned_abs(), f.inclusive_delta().unsigned_abs(), f.calls.0.abs_diff(f.calls.1))
        };
        rank(y).cmp(&rank(x)).then_with(|| diff.functions[x].name.cmp(&diff.functions[y].name))
    });
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| place[old] = new);
    diff.functions = order.iter().map(|&i| diff.functions[i].clone()).collect();
    from_old.iter_mut().chain(&mut from_new).for_each(|i| *i = place[*i]);
    diff.edges = edges(old, new, (a, b), (&from_old, &from_new));
    diff.lines = lines(old, new, (a, b), (&from_old, &from_new), &diff.functions);
    Ok(diff)
}

fn edges(
    old: &CallGraph,
    new: &CallGraph,
    (a, b): (usize, usize),
    to: (&[usize], &[usize]),
) -> Vec<EdgeChange> {
    let mut all: BTreeMap<(usize, usize), EdgeChange> = BTreeMap::new();
    let mut entry = |caller: usize, callee: usize, old: Option<(u64, i64)>, new: Option<(u64, i64)>| {
        let empty = EdgeChange { caller, callee, calls: (0, 0), cost: (0, 0) };
        let edge = all.entry((caller, callee)).or_insert(empty);
        if let Some((calls, cost)) = old {
            edge.calls.0 = edge.calls.0.wrapping_add(calls);
            edge.cost.0 = edge.cost.0.wrapping_add(cost);
        }
        if let Some((calls, cost)) = new {
            edge.calls.1 = edge.calls.1.wrapping_add(calls);
            edge.cost.1 = edge.cost.1.wrapping_add(cost);
        }
    };
    for e in &old.edges {
        entry(to.0[e.caller as usize], to.0[e.callee as usize], Some((e.calls, old.edge_cost(e)[a])), None);
    }
    for e in &new.edges {
        entry(to.1[e.caller as usize], to.1[e.callee as usize], None, Some((e.calls, new.edge_cost(e)[b])));
    }
    let mut changed: Vec<EdgeChange> =
        all.into_values().filter(|e| e.calls.0 != e.calls.1 || e.cost.0 != e.cost.1).collect();
    changed.sort_by_key(|e| {
        (std::cmp::Reverse(e.cost.1.abs_diff(e.cost.0)), std::cmp::Reverse(e.calls.1.abs_diff(e.calls.0)))
    });
    changed
}

fn lines(
    old: &CallGraph,
    new: &CallGraph,
    (a, b): (usize, usize),
    to: (&[usize], &[usize]),
    functions: &[FunctionChange],
) -> Vec<LineChange> {
    // (function, file name, distance from the first line of that file in the function)
    type Lines = BTreeMap<(usize, String, u64), (u64, i64)>;
    let place = |graph: &CallGraph, to: &[usize], column: usize| -> Lines {
        let mut first: HashMap<(u32, u32), u64> = HashMap::new();
        for l in &graph.lines {
            let line = first.entry((l.function, l.file)).or_insert(l.line);
            *line = (*line).min(l.line);
        }
        let key = |l: &LineCost| {
            // The function's own file may have another name now; what it includes is told apart.
            let file = &graph.files[l.file as usize];
            let own = *file == graph.functions[l.function as usize].file;
            let file = if own { String::new() } else { base_name(file).to_string() };
            (to[l.function as usize], file, l.line - first[&(l.function, l.file)])
        };
        let mut all = Lines::new();
        for l in &graph.lines {
            let sum = all.entry(key(l)).or_insert((l.line, 0));
            sum.1 = sum.1.wrapping_add(l.cost[column]);
        }
        all
    };
    let (before, after) = (place(old, to.0, a), place(new, to.1, b));
    let shown = |key: &(usize, String, u64)| match key.1.is_empty() {
        true => base_name(&functions[key.0].file).to_string(),
        false => key.1.clone(),
    };
    let mut changes = Vec::new();
    for (key, &(line, cost)) in &before {
        let twin = after.get(key).copied();
        let now = twin.map_or(0, |t| t.1);
        if cost != now {
            changes.push(LineChange {
                function: key.0,
                file: shown(key),
                old_line: Some(line),
                new_line: twin.map(|t| t.0),
                cost: (cost, now),
            });
        }
    }
    for (key, &(line, cost)) in after.iter().filter(|(k, (_, cost))| *cost != 0 && !before.contains_key(*k)) {
        changes.push(LineChange {
            function: key.0,
            file: shown(key),
            old_line: None,
            new_line: Some(line),
            cost: (0, cost),
        });
    }
    changes.sort_by_key(|l| {
        (std::cmp::Reverse(l.cost.1.abs_diff(l.cost.0)), l.function, l.new_line.or(l.old_line))
    });
    changes
}

impl Diff {
    /// New minus old total.
    pub fn delta(&self) -> i64 {
        self.total.1.wrapping_sub(self.total.0)
    }

    /// Change of the total as a fraction of the old one; infinite when the old total is 0.
    pub fn ratio(&self) -> f64 {
        match (self.delta(), self.total.0) {
            (0, _) => 0.0,
            (delta, 0) => f64::INFINITY * delta.signum() as f64,
            (delta, old) => delta as f64 / old as f64,
        }
    }

    /// One sentence that says what changed and which call explains it.
    ///
    /// The function whose own cost moved most in the direction of the total is the subject. If it
    /// is called more or less often, the sentence names the caller that does so; if it costs more
    /// for each call, it says that instead.
    pub fn explanation(&self) -> String {
        let delta = self.delta();
        let up = delta >= 0;
        if self.functions.iter().all(|f| f.self_delta() == 0 && f.calls.0 == f.calls.1) {
            return "Nothing changed.".to_string();
        }
        let subject = self
            .functions
            .iter()
            .enumerate()
            .find(|(_, f)| f.self_delta() != 0 && (delta == 0 || (f.self_delta() > 0) == up));
        let Some((index, function)) = subject else {
            return format!("The same cost, but other calls; {} {}.", signed(delta), self.event);
        };
        let cost = format!("{} {}", signed(function.self_delta()), self.event);
        let name = &function.name;
        match (function.old, function.new) {
            (None, _) => {
                return match self.main_caller(index, true) {
                    Some(caller) => format!(
                        "`{caller}` calls `{name}`, which is new, {}; {cost}.",
                        times(function.calls.1)
                    ),
                    None => format!("`{name}` is new; {cost}."),
                };
            }
            (_, None) => return format!("`{name}` is no longer run; {cost}."),
            _ => {}
        }
        let (before, after) = function.calls;
        if before != after && (after > before) == (function.self_delta() > 0) {
            let (count, word) = (before.abs_diff(after), if after > before { "more" } else { "less" });
            return match self.main_caller(index, after > before) {
                Some(caller) => format!("`{caller}` calls `{name}` {} {word}; {cost}.", times(count)),
                None => format!("`{name}` is called {} {word}; {cost}.", times(count)),
            };
        }
        if after > 0 && before == after {
            let each = function.self_delta() as f64 / after as f64;
            return format!(
                "`{name}` costs {each:+.1} {} per call, over {} calls; {cost}.",
                self.event,
                grouped(after.into())
            );
        }
        format!("`{name}` itself changed; {cost}.")
    }

    /// The caller whose number of calls to a function changed most in a direction.
    fn main_caller(&self, callee: usize, more: bool) -> Option<&str> {
        self.edges
            .iter()
            .filter(|e| e.callee == callee && e.caller != callee && (e.calls.1 > e.calls.0) == more)
            .max_by_key(|e| e.calls.1.abs_diff(e.calls.0))
            .map(|e| self.functions[e.caller].name.as_str())
    }
}

fn times(count: u64) -> String {
    match count {
        1 => "once".to_string(),
        2 => "twice".to_string(),
        n => format!("{} times", grouped(n.into())),
    }
}

/// A number with its thousands separated by commas.
pub fn grouped(n: i128) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut text = String::new();
    if n < 0 {
        text.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A change, short: `+2.1 M`.
pub fn signed(n: i64) -> String {
    let sign = if n < 0 { "-" } else { "+" };
    let magnitude = n.unsigned_abs();
    for (unit, factor) in [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        let scaled = magnitude as f64 / factor;
        if scaled >= 1.0 && magnitude >= 10_000 {
            return format!("{sign}{scaled:.1} {unit}");
        }
    }
    format!("{sign}{}", grouped(magnitude.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Options;
    use crate::read;

    fn graph(text: &str) -> CallGraph {
        let profile = read::bytes("test", text.as_bytes()).unwrap();
        CallGraph::build(&[&profile], Options { lines: true, ..Options::default() })
    }

    fn example(calls: u64, each: u64, first_line: u64, hash: &str) -> CallGraph {
        let cost = calls * each;
        graph(&format!(
            "events: Ir\nfl=a.rs\nfn=parse::h{hash}\n{first_line} 1000\ncfn=clone\ncalls={calls} 90\n+1 {cost}\nfn=clone\n90 {cost}\n"
        ))
    }

    const HASH: &str = "0123456789abcdef";
    const OTHER: &str = "fedcba9876543210";

    #[test]
    fn the_sentence_names_the_call_that_grew() {
        let diff = compare(&example(10, 2100, 5, HASH), &example(1010, 2100, 5, OTHER), "Ir").unwrap();
        assert_eq!(
            diff.explanation(),
            format!("`parse::h{OTHER}` calls `clone` 1,000 times more; +2.1 M Ir.")
        );
        assert_eq!(diff.delta(), 2_100_000);
    }

    #[test]
    fn the_sentence_tells_dearer_calls_from_more_calls() {
        let diff = compare(&example(10, 100, 5, HASH), &example(10, 150, 5, HASH), "Ir").unwrap();
        assert_eq!(diff.explanation(), "`clone` costs +50.0 Ir per call, over 10 calls; +500 Ir.");
        let same = compare(&example(10, 100, 5, HASH), &example(10, 100, 5, HASH), "Ir").unwrap();
        assert_eq!(same.explanation(), "Nothing changed.");
        assert_eq!(same.ratio(), 0.0);
    }

    #[test]
    fn functions_are_paired_over_hashes_and_moved_lines() {
        let diff = compare(&example(10, 100, 5, HASH), &example(10, 100, 500, OTHER), "Ir").unwrap();
        assert_eq!(diff.functions.len(), 2);
        assert!(diff.functions.iter().all(|f| f.old.is_some() && f.new.is_some() && f.self_delta() == 0));
        assert_eq!(diff.lines, []);
    }

    #[test]
    fn new_and_gone_functions_are_told() {
        let old = graph("events: Ir\nfn=main\n1 5\nfn=gone\n2 100\n");
        let new = graph("events: Ir\nfn=main\n1 5\ncfn=fresh\ncalls=2 9\n1 400\nfn=fresh\n9 400\n");
        let diff = compare(&old, &new, "Ir").unwrap();
        assert_eq!(diff.explanation(), "`main` calls `fresh`, which is new, twice; +400 Ir.");
        let back = compare(&new, &old, "Ir").unwrap();
        assert_eq!(back.explanation(), "`fresh` is no longer run; -400 Ir.");
        assert!(compare(&old, &new, "Dr").unwrap_err().contains("`Dr`"));
    }

    #[test]
    fn names_lose_what_builds_change() {
        for (name, stable) in [
            ("a::b::h0123456789abcdef", "a::b"),
            ("a::b::help", "a::b::help"),
            ("core[846817f741e54dfd]::fmt", "core::fmt"),
            ("x[i]", "x[i]"),
            ("f.constprop.0", "f"),
            ("f.llvm.123", "f"),
            ("0x0000000004012345", "0x…"),
        ] {
            assert_eq!(stable_name(name), stable);
        }
    }

    #[test]
    fn numbers_are_grouped_and_shortened() {
        assert_eq!(grouped(-1234567), "-1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(signed(2_100_000), "+2.1 M");
        assert_eq!(signed(-9_999), "-9,999");
    }
}
