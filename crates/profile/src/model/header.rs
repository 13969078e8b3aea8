//! The header of a part: its lines as written, and what they say.

use super::EventDefinition;

/// One line of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderLine {
    /// Nothing.
    Blank,
    /// `# …`, with the `#`.
    Comment(Box<[u8]>),
    /// `key:value`; the value keeps its white space.
    Field {
        /// What stands before the colon.
        key: String,
        /// What stands after it, up to the end of the line.
        value: Box<[u8]>,
    },
}

/// Which positions a line begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// An address.
    pub instr: bool,
    /// A line number.
    pub line: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Columns { instr: false, line: true }
    }
}

impl Columns {
    /// Number of columns.
    pub fn count(self) -> usize {
        usize::from(self.instr) + usize::from(self.line)
    }
}

/// What a part says about itself before its costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    /// The lines, for writing them back.
    pub lines: Vec<HeaderLine>,
    /// `positions:`
    pub columns: Columns,
    /// `events:`
    pub events: Vec<String>,
    /// `event:`
    pub definitions: Vec<EventDefinition>,
    /// the last `summary:`, in the header or, as Xdebug has it, among the costs: one number for each event or fewer.
    pub summary: Option<Vec<i64>>,
    /// `totals:` after the costs.
    pub totals: Option<Vec<i64>>,
    /// `pid:`
    pub pid: Option<i64>,
    /// `part:`
    pub part: Option<i64>,
    /// `thread:`
    pub thread: Option<i64>,
}

impl Header {
    /// The first value of a field, trimmed.
    pub fn field(&self, name: &str) -> Option<String> {
        self.fields(name).next()
    }

    /// All values of a field, trimmed.
    pub fn fields<'h>(&'h self, name: &'h str) -> impl Iterator<Item = String> + 'h {
        self.lines.iter().filter_map(move |line| match line {
            HeaderLine::Field { key, value } if key == name => {
                Some(String::from_utf8_lossy(value).trim().to_string())
            }
            _ => None,
        })
    }

    /// The text after `desc: Trigger:`.
    pub fn trigger(&self) -> Option<String> {
        self.fields("desc").find_map(|d| d.strip_prefix("Trigger:").map(|t| t.trim().to_string()))
    }

    /// What the part declares as its total: `totals:`, else `summary:`.
    pub fn declared_total(&self) -> Option<&[i64]> {
        self.totals.as_deref().or(self.summary.as_deref())
    }

    /// How the part is named in lists: number, thread and trigger.
    pub fn label(&self) -> String {
        let mut words = Vec::new();
        if let Some(part) = self.part {
            words.push(format!("part {part}"));
        }
        if let Some(thread) = self.thread {
            words.push(format!("thread {thread}"));
        }
        if let Some(trigger) = self.trigger() {
            words.push(trigger);
        }
        words.join(", ")
    }
}
