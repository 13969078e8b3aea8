//! The calling-context file: costs by true stack, next to a profile that has only a call graph.
//!
//! The text has a version, header fields, frames and contexts:
//!
//! ```text
//! # tallygraph contexts 1
//! creator: tallygraph 0.1.0
//! pid: 4711
//! cmd: ./program
//! events: Ir Dr
//! part: 1
//! thread: 1
//! frame /usr/bin/program<tab>main.c<tab>main
//! frame /usr/bin/program<tab>main.c<tab>work
//! context - 0 1 120 30
//! context 0 1 1000 52000 9000
//! ```
//!
//! - `frame OBJECT<tab>FILE<tab>NAME`: frames count from 0 over the whole file.
//! - `context PARENT FRAME CALLS COST…`: contexts count from 0 within a section; the parent stands
//!   before its children and is `-` at the bottom of a stack. Costs are self costs, in the order of
//!   `events:`; trailing zeros may be left out.
//! - `part:` and `thread:` begin a section, if contexts precede them.
//!
//! In names, tab, line feed and backslash are written `\t`, `\n` and `\\`.

use crate::stacks::{Frame, Node, StackTree};
use std::io::{self, Write};

const MAGIC: &str = "# tallygraph contexts ";

/// The version this module reads and writes.
pub const VERSION: u32 = 1;

/// A calling-context file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contexts {
    /// `creator:`
    pub creator: Option<String>,
    /// `pid:`
    pub pid: Option<i64>,
    /// `cmd:`
    pub command: Option<String>,
    /// `events:`
    pub events: Vec<String>,
    /// All frames.
    pub frames: Vec<Frame>,
    /// Parts and threads.
    pub sections: Vec<Section>,
}

/// The contexts of one part and thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    /// `part:`
    pub part: Option<i64>,
    /// `thread:`
    pub thread: Option<i64>,
    /// Contexts.
    pub nodes: Vec<Node>,
}

/// A line of a calling-context file that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: {reason}")]
pub struct ContextsError {
    /// The file.
    pub origin: String,
    /// Line number from 1.
    pub line: usize,
    /// Why.
    pub reason: String,
}

/// Whether a text begins like a calling-context file.
pub fn is_contexts(text: &[u8]) -> bool {
    text.starts_with(MAGIC.as_bytes())
}

/// Reads a calling-context file; `origin` is its name in messages.
pub fn parse(origin: &str, text: &str) -> Result<Contexts, ContextsError> {
    let mut contexts = Contexts::default();
    for (i, line) in text.lines().enumerate() {
        let read = if i == 0 { check_version(line) } else { contexts.line(line) };
        read.map_err(|reason| ContextsError { origin: origin.to_string(), line: i + 1, reason })?;
    }
    if contexts.events.is_empty() {
        let line = text.lines().count().max(1);
        let reason = "the file ends without an `events:` line".to_string();
        return Err(ContextsError { origin: origin.to_string(), line, reason });
    }
    Ok(contexts)
}

fn check_version(line: &str) -> Result<(), String> {
    let version = line.strip_prefix(MAGIC).ok_or_else(|| format!("expected `{MAGIC}{VERSION}`"))?;
    match version.trim().parse::<u32>() {
        Ok(VERSION) => Ok(()),
        _ => Err(format!("version `{}` is not supported, only {VERSION}", version.trim())),
    }
}

impl Contexts {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim_end_matches('\r');
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(frame) = line.strip_prefix("frame ") {
            return self.frame(frame);
        }
        if let Some(context) = line.strip_prefix("context ") {
            return self.context(context);
        }
        let (key, value) = line.split_once(':').ok_or_else(|| format!("unknown line `{line}`"))?;
        let value = value.trim();
        let number = || value.parse::<i64>().map_err(|_| format!("expected a number, found `{value}`"));
        match key {
            "creator" => self.creator = Some(value.to_string()),
            "cmd" => self.command = Some(unescape(value)?),
            "pid" => self.pid = Some(number()?),
            "events" if !self.events.is_empty() => return Err("`events:` appears twice".to_string()),
            "events" => self.events = value.split_whitespace().map(String::from).collect(),
            "part" => self.section(true).part = Some(number()?),
            "thread" => self.section(false).thread = Some(number()?),
            _ => return Err(format!("unknown field `{key}:`")),
        }
        Ok(())
    }

    /// The section that `part:` or `thread:` describes: a new one once contexts have been seen.
    fn section(&mut self, part: bool) -> &mut Section {
        let fresh = match self.sections.last() {
            None => true,
            Some(last) => {
                !last.nodes.is_empty() || if part { last.part.is_some() } else { last.thread.is_some() }
            }
        };
        if fresh {
            let part = self.sections.last().and_then(|s| s.part).filter(|_| !part);
            self.sections.push(Section { part, ..Section::default() });
        }
        self.sections.last_mut().expect("a section was just added")
    }

    fn frame(&mut self, text: &str) -> Result<(), String> {
        let parts: Vec<&str> = text.split('\t').collect();
        let [object, file, name] = parts[..] else {
            return Err(format!("expected `frame OBJECT<tab>FILE<tab>NAME`, found {} fields", parts.len()));
        };
        self.frames.push(Frame { object: unescape(object)?, file: unescape(file)?, name: unescape(name)? });
        Ok(())
    }

    fn context(&mut self, text: &str) -> Result<(), String> {
        if self.events.is_empty() {
            return Err("a context before `events:`".to_string());
        }
        if self.sections.is_empty() {
            self.sections.push(Section::default());
        }
        let (frames, events) = (self.frames.len(), self.events.len());
        let nodes = &mut self.sections.last_mut().expect("there is a section").nodes;
        let mut words = text.split_ascii_whitespace();
        let mut word = |what: &str| words.next().ok_or_else(|| format!("the line ends before its {what}"));
        let index = |word: &str, what: &str, below: usize| match word.parse::<u32>() {
            Ok(n) if (n as usize) < below => Ok(n),
            _ => Err(format!("{what} `{word}` is not defined before")),
        };
        let parent = match word("parent")? {
            "-" => None,
            known => Some(index(known, "context", nodes.len())?),
        };
        let frame = index(word("frame")?, "frame", frames)?;
        let calls = word("number of calls")?;
        let calls = calls.parse().map_err(|_| format!("expected a number of calls, found `{calls}`"))?;
        let mut cost = Vec::with_capacity(events);
        for word in words {
            cost.push(word.parse().map_err(|_| format!("expected a cost, found `{word}`"))?);
        }
        if cost.len() > events {
            return Err(format!("{} costs, but `events:` names {events}", cost.len()));
        }
        cost.resize(events, 0);
        nodes.push(Node { parent, frame, calls, cost });
        Ok(())
    }

    /// The stacks of the sections that `wanted` selects, by part and thread.
    pub fn tree(&self, wanted: impl Fn(Option<i64>, Option<i64>) -> bool) -> StackTree {
        let mut tree =
            StackTree { events: self.events.clone(), frames: self.frames.clone(), ..StackTree::default() };
        for section in self.sections.iter().filter(|s| wanted(s.part, s.thread)) {
            let first = tree.nodes.len() as u32;
            tree.nodes.extend(
                section.nodes.iter().map(|n| Node { parent: n.parent.map(|p| p + first), ..n.clone() }),
            );
        }
        tree
    }

    /// Writes the file.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{MAGIC}{VERSION}")?;
        if let Some(creator) = &self.creator {
            writeln!(out, "creator: {creator}")?;
        }
        if let Some(pid) = self.pid {
            writeln!(out, "pid: {pid}")?;
        }
        if let Some(command) = &self.command {
            writeln!(out, "cmd: {}", escape(command))?;
        }
        writeln!(out, "events: {}", self.events.join(" "))?;
        for frame in &self.frames {
            let [object, file, name] = [&frame.object, &frame.file, &frame.name].map(|t| escape(t));
            writeln!(out, "frame {object}\t{file}\t{name}")?;
        }
        for section in &self.sections {
            if let Some(part) = section.part {
                writeln!(out, "part: {part}")?;
            }
            if let Some(thread) = section.thread {
                writeln!(out, "thread: {thread}")?;
            }
            for node in &section.nodes {
                match node.parent {
                    Some(parent) => write!(out, "context {parent} {} {}", node.frame, node.calls)?,
                    None => write!(out, "context - {} {}", node.frame, node.calls)?,
                }
                let used = node.cost.iter().rposition(|&c| c != 0).map_or(0, |n| n + 1);
                for cost in &node.cost[..used] {
                    write!(out, " {cost}")?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (c, false) => plain.push(c),
            _ => match chars.next() {
                Some('t') => plain.push('\t'),
                Some('n') => plain.push('\n'),
                Some('\\') => plain.push('\\'),
                other => {
                    return Err(format!("unknown escape `\\{}`", other.map_or(String::new(), String::from)));
                }
            },
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "# tallygraph contexts 1\ncreator: tallygraph 0.1.0\npid: 4711\ncmd: ./program\nevents: Ir Dr\n\
        frame /bin/p\tmain.c\tmain\nframe /bin/p\ta\\tb.c\twork\npart: 1\nthread: 1\ncontext - 0 1 120 30\ncontext 0 1 1000 52000\n\
        thread: 2\ncontext - 1 1 7\n";

    #[test]
    fn what_is_written_is_read_back() {
        let contexts = parse("example", EXAMPLE).unwrap();
        assert_eq!(contexts.sections.len(), 2);
        assert_eq!(contexts.sections[1].thread, Some(2));
        assert_eq!(contexts.frames[1].file, "a\tb.c");
        let mut text = Vec::new();
        contexts.write(&mut text).unwrap();
        assert_eq!(parse("again", std::str::from_utf8(&text).unwrap()).unwrap(), contexts);
    }

    #[test]
    fn stacks_are_the_recorded_ones() {
        let contexts = parse("example", EXAMPLE).unwrap();
        let all = contexts.tree(|_, _| true);
        assert_eq!(all.folded(0, |f| f.name.clone()), ["main 120", "main;work 52000", "work 7"]);
        assert!(!all.estimated);
        let second = contexts.tree(|_, thread| thread == Some(2));
        assert_eq!(second.total(), [7, 0]);
    }

    #[test]
    fn malformed_lines_are_named() {
        let cases = [
            ("", "the file ends without"),
            ("# tallygraph contexts 2\n", "x:1: version `2` is not supported"),
            ("nonsense\n", "x:1: expected"),
            ("# tallygraph contexts 1\nevents: Ir\ncontext - 0 1 1\n", "x:3: frame `0` is not defined"),
            ("# tallygraph contexts 1\nevents: Ir\nframe a\tb\tc\ncontext 0 0 1 1\n", "x:4: context `0`"),
            ("# tallygraph contexts 1\nevents: Ir\nframe a\tb\tc\ncontext - 0 1 1 2\n", "x:4: 2 costs"),
            ("# tallygraph contexts 1\nevents: Ir\nframe a\tb\n", "x:3: expected `frame"),
            ("# tallygraph contexts 1\nevents: Ir\nframe a\tb\tc\\x\n", "x:3: unknown escape"),
            ("# tallygraph contexts 1\nflavour: Ir\n", "x:2: unknown field"),
        ];
        for (text, expected) in cases {
            let error = parse("x", text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} for {text:?}");
        }
    }
}
