//! Reads profiles in Callgrind's format, strictly.
//!
//! Made for tests: an unknown line, an id that is used before it is named, or sums that do not
//! agree are errors. All parts of a file are added up.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A function, by the base name of its object and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Base name of the object, `???` for code that lies in none.
    pub object: String,
    /// Name as written, with its recursion level.
    pub name: String,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.object, self.name)
    }
}

/// Calls along one edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// How many.
    pub count: u64,
    /// Inclusive cost by event.
    pub cost: Vec<u64>,
}

impl Edge {
    /// Inclusive cost of the first event.
    pub fn inclusive(&self) -> u64 {
        self.cost.first().copied().unwrap_or(0)
    }
}

/// A profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Header lines by key, of the first part, `desc` joined by newlines.
    pub header: BTreeMap<String, String>,
    /// Names of events.
    pub events: Vec<String>,
    /// Sum of the `summary:` lines.
    pub summary: Vec<u64>,
    /// Sum of the `totals:` lines.
    pub totals: Vec<u64>,
    /// Self cost by event.
    pub own: BTreeMap<Function, Vec<u64>>,
    /// Self cost of the first event by function, file and line.
    pub lines: BTreeMap<(Function, String, u64), u64>,
    /// Call edges.
    pub edges: BTreeMap<(Function, Function), Edge>,
    /// Number of parts.
    pub parts: usize,
}

impl Profile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Profile, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Profile::parse(&String::from_utf8_lossy(&bytes)).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads a profile's text.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let mut reader = Reader::default();
        for (index, line) in text.lines().enumerate() {
            reader.line(line).map_err(|e| format!("line {}: {e}: {line}", index + 1))?;
        }
        reader.finish()
    }

    /// Total of the first event over all self costs.
    pub fn total(&self) -> u64 {
        self.own.values().map(|c| c.first().copied().unwrap_or(0)).sum()
    }

    /// Self cost of the first event of all functions of this name.
    pub fn own_of(&self, name: &str) -> u64 {
        self.own.iter().filter(|(f, _)| f.name == name).map(|(_, c)| c.first().copied().unwrap_or(0)).sum()
    }

    /// Calls and inclusive cost of the first event, between all functions of these names.
    pub fn edge(&self, caller: &str, callee: &str) -> (u64, u64) {
        let mut sum = (0, 0);
        for ((from, to), edge) in &self.edges {
            if from.name == caller && to.name == callee {
                sum = (sum.0 + edge.count, sum.1 + edge.inclusive());
            }
        }
        sum
    }

    /// The same profile with all recursion levels of a function taken together.
    pub fn without_levels(&self) -> Profile {
        let merged = |f: &Function| {
            let level = |(_, digits): &(&str, &str)| digits.bytes().all(|b| b.is_ascii_digit());
            let name = f.name.rsplit_once('\'').filter(level).map_or(f.name.as_str(), |(name, _)| name);
            Function { object: f.object.clone(), name: name.into() }
        };
        let mut profile = Profile { own: BTreeMap::new(), edges: BTreeMap::new(), ..self.clone() };
        for (function, costs) in &self.own {
            add(profile.own.entry(merged(function)).or_default(), costs);
        }
        for ((caller, callee), edge) in &self.edges {
            let sum = profile.edges.entry((merged(caller), merged(callee))).or_default();
            sum.count += edge.count;
            add(&mut sum.cost, &edge.cost);
        }
        profile
    }

    /// Whether a function of this name has cost or takes part in a call.
    pub fn has(&self, name: &str) -> bool {
        self.own.keys().any(|f| f.name == name)
            || self.edges.keys().any(|(a, b)| a.name == name || b.name == name)
    }
}

/// The position columns.
#[derive(Clone, Copy, Default)]
struct Position {
    instr: u64,
    line: u64,
}

#[derive(Default)]
struct Reader {
    profile: Profile,
    names: BTreeMap<(char, u64), String>,
    /// Columns: instruction addresses, lines.
    columns: (bool, bool),
    in_body: bool,
    object: String,
    file: String,
    function: String,
    callee_object: Option<String>,
    callee: Option<String>,
    /// Count of the `calls=` line whose cost line is next.
    calls: Option<u64>,
    /// The next cost line belongs to a `jump=` or `jcnd=` line.
    jump: bool,
    position: Position,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let first = line.as_bytes()[0];
        if first.is_ascii_digit() || b"+-*".contains(&first) {
            return self.cost_line(line);
        }
        if let Some((key, value)) = line.split_once('=')
            && key.bytes().all(|b| b.is_ascii_lowercase())
            && self.in_body
        {
            return self.body_line(key, value);
        }
        let (key, value) = line.split_once(':').ok_or("neither a header line nor a body line")?;
        self.header_line(key, value.trim())
    }

    fn header_line(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "version" if value != "1" => return Err("unknown version".into()),
            "version" | "creator" | "pid" | "cmd" | "thread" | "desc" | "event" => {}
            "part" => {}
            "positions" => {
                self.columns = (false, false);
                for column in value.split_whitespace() {
                    match column {
                        "instr" => self.columns.0 = true,
                        "line" => self.columns.1 = true,
                        _ => return Err("unknown position".into()),
                    }
                }
            }
            "events" => {
                let events: Vec<String> = value.split_whitespace().map(str::to_string).collect();
                if !self.profile.events.is_empty() && self.profile.events != events {
                    return Err("parts with different events".into());
                }
                self.profile.events = events;
                self.profile.parts += 1;
                self.in_body = true;
                self.position = Position::default();
            }
            "summary" => {
                let costs = numbers(value.split_whitespace())?;
                add(&mut self.profile.summary, &costs);
            }
            "totals" => {
                let costs = numbers(value.split_whitespace())?;
                add(&mut self.profile.totals, &costs);
            }
            _ => return Err("unknown header line".into()),
        }
        let entry = self.profile.header.entry(key.to_string()).or_default();
        if key == "desc" && !entry.is_empty() {
            entry.push('\n');
            entry.push_str(value);
        } else if entry.is_empty() {
            entry.push_str(value);
        }
        Ok(())
    }

    fn body_line(&mut self, key: &str, value: &str) -> Result<(), String> {
        if self.calls.is_some() || self.jump {
            return Err("a cost line must follow a calls=, jump= or jcnd= line".into());
        }
        match key {
            "ob" => self.object = self.name('o', value)?,
            "fl" => self.file = self.name('f', value)?,
            "fi" | "fe" => self.file = self.name('f', value)?,
            "fn" => self.function = self.name('n', value)?,
            "cob" => self.callee_object = Some(self.name('o', value)?),
            "cfi" | "cfl" => drop(self.name('f', value)?),
            "cfn" => self.callee = Some(self.name('n', value)?),
            "calls" => {
                let mut words = value.split_whitespace();
                let count = words.next().and_then(|w| w.parse().ok()).ok_or("a call count is expected")?;
                for _ in 0..self.width() {
                    words.next().ok_or("a target position is expected")?;
                }
                self.calls = Some(count);
            }
            "jump" | "jcnd" => self.jump = true,
            "jfi" => drop(self.name('f', value)?),
            "jfn" => drop(self.name('n', value)?),
            _ => return Err("unknown body line".into()),
        }
        Ok(())
    }

    fn width(&self) -> usize {
        usize::from(self.columns.0) + usize::from(self.columns.1)
    }

    fn cost_line(&mut self, line: &str) -> Result<(), String> {
        if !self.in_body {
            return Err("costs before the events: line".into());
        }
        let mut words = line.split_whitespace();
        let mut position = self.position;
        if self.columns.0 {
            position.instr = moved(position.instr, words.next().ok_or("a position is expected")?)?;
        }
        if self.columns.1 {
            position.line = moved(position.line, words.next().ok_or("a position is expected")?)?;
        }
        self.position = position;
        if std::mem::take(&mut self.jump) {
            return match words.next() {
                None => Ok(()),
                Some(_) => Err("a jump's line with a cost".into()),
            };
        }
        let costs = numbers(words)?;
        if costs.len() > self.profile.events.len() {
            return Err("more costs than events".into());
        }
        let function = Function { object: base_name(&self.object), name: self.function.clone() };
        if function.name.is_empty() {
            return Err("a cost outside of any function".into());
        }
        match self.calls.take() {
            Some(count) => {
                let name = self.callee.take().ok_or("calls= without cfn=")?;
                let object = self.callee_object.take().unwrap_or_else(|| self.object.clone());
                let callee = Function { object: base_name(&object), name };
                let edge = self.profile.edges.entry((function, callee)).or_default();
                edge.count += count;
                add(&mut edge.cost, &costs);
            }
            None => {
                let first = costs.first().copied().unwrap_or(0);
                let key = (function.clone(), self.file.clone(), position.line);
                *self.profile.lines.entry(key).or_default() += first;
                add(self.profile.own.entry(function).or_default(), &costs);
            }
        }
        Ok(())
    }

    /// A name, or the one that an id stands for. Ids of callers and callees are shared.
    fn name(&mut self, space: char, text: &str) -> Result<String, String> {
        let Some((id, rest)) = text.strip_prefix('(').and_then(|t| t.split_once(')')) else {
            return Ok(text.to_string());
        };
        let Ok(id) = id.parse::<u64>() else { return Ok(text.to_string()) };
        match rest.strip_prefix(' ') {
            Some(name) => match self.names.insert((space, id), name.to_string()) {
                Some(old) if old != name => Err(format!("id {id} was '{old}' before")),
                _ => Ok(name.to_string()),
            },
            None if rest.is_empty() => {
                self.names.get(&(space, id)).cloned().ok_or_else(|| format!("id {id} has no name"))
            }
            None => Ok(text.to_string()),
        }
    }

    fn finish(mut self) -> Result<Profile, String> {
        if self.profile.events.is_empty() {
            return Err("no events: line, so this is no profile".into());
        }
        if self.calls.is_some() || self.jump {
            return Err("the last line lacks its cost line".into());
        }
        let width = self.profile.events.len();
        for costs in self.profile.own.values_mut() {
            costs.resize(width, 0);
        }
        for edge in self.profile.edges.values_mut() {
            edge.cost.resize(width, 0);
        }
        self.profile.totals.resize(width, 0);
        self.profile.summary.resize(width, 0);
        self.profile.own.retain(|_, costs| costs.iter().any(|c| *c != 0));
        let mut sum = vec![0; width];
        for costs in self.profile.own.values() {
            add(&mut sum, costs);
        }
        if sum != self.profile.totals {
            return Err(format!("the lines add up to {sum:?}, but totals: says {:?}", self.profile.totals));
        }
        Ok(self.profile)
    }
}

/// The last part of a path.
fn base_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_string()
}

/// A position, relative to the one before when it has a sign.
fn moved(from: u64, word: &str) -> Result<u64, String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map_err(|_| format!("'{word}' is no position")),
        None => text.parse().map_err(|_| format!("'{word}' is no position")),
    };
    if word == "*" {
        Ok(from)
    } else if let Some(up) = word.strip_prefix('+') {
        Ok(from + number(up)?)
    } else if let Some(down) = word.strip_prefix('-') {
        from.checked_sub(number(down)?).ok_or_else(|| format!("'{word}' leads below zero"))
    } else {
        number(word)
    }
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, String> {
    words.map(|w| w.parse().map_err(|_| format!("'{w}' is no count"))).collect()
}

/// Adds costs event by event.
fn add(into: &mut Vec<u64>, costs: &[u64]) {
    if into.len() < costs.len() {
        into.resize(costs.len(), 0);
    }
    for (sum, cost) in into.iter_mut().zip(costs) {
        *sum += cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "# callgrind format\nversion: 1\npositions: line\nevents: Ir\nsummary: 9\n\n\
        ob=(1) /x/prog\nfl=(1) a.c\nfn=(1) main\n5 3\n+1 2\ncfn=(2) f\ncalls=2 10 \n* 4\n\nfn=(2)\n10 4\n\ntotals: 9\n";

    #[test]
    fn a_small_profile_is_read() {
        let p = Profile::parse(SMALL).unwrap();
        assert_eq!((p.total(), p.own_of("main"), p.own_of("f")), (9, 5, 4));
        assert_eq!(p.edge("main", "f"), (2, 4));
        let main = Function { object: "prog".into(), name: "main".into() };
        assert_eq!(p.lines[&(main, "a.c".into(), 6)], 2);
    }

    #[test]
    fn levels_of_recursion_can_be_taken_together() {
        let p = Profile::parse(&SMALL.replace("(2) f", "(2) main'2")).unwrap().without_levels();
        assert_eq!((p.own_of("main"), p.edge("main", "main")), (9, (2, 4)));
    }

    #[test]
    fn sums_that_disagree_are_errors() {
        let error = Profile::parse(&SMALL.replace("totals: 9", "totals: 8")).unwrap_err();
        assert!(error.contains("add up to [9]"), "{error}");
    }

    #[test]
    fn unknown_lines_and_ids_are_errors() {
        assert!(Profile::parse(&SMALL.replace("fn=(2)\n", "fn=(7)\n")).unwrap_err().contains("id 7"));
        assert!(Profile::parse(&SMALL.replace("cfn=", "zfn=")).unwrap_err().contains("unknown body line"));
        assert!(Profile::parse("").unwrap_err().contains("no profile"));
        assert!(Profile::parse("version: 1\nfoo\n").is_err());
    }
}
