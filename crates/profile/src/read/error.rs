//! Why a file could not be read.

use crate::model::NameSpace;
use std::fmt;
use std::path::PathBuf;

/// A file that is not a readable profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file has no bytes.
    #[error("{origin}: the file is empty (Callgrind leaves an empty base file next to per-thread files)")]
    Empty {
        /// The file.
        origin: String,
    },
    /// Nothing in the file says that it is a profile.
    #[error("{origin}: not a Callgrind profile: no line begins with `events:`")]
    NoEvents {
        /// The file.
        origin: String,
    },
    /// Lines that cannot be understood.
    #[error("{}", MalformedText { origin, defects, more: *more })]
    Malformed {
        /// The file.
        origin: String,
        /// The first defects, by line.
        defects: Vec<Defect>,
        /// How many more there are.
        more: u64,
    },
}

/// A line that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Defect {
    /// Line number from 1.
    pub line: u64,
    /// Why.
    pub reason: Reason,
}

/// Why a line cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The line begins with no word of the format.
    #[error("unknown line `{0}`")]
    UnknownLine(String),
    /// A header key the format does not have.
    #[error("unknown header field `{0}:`")]
    UnknownField(String),
    /// Something else stands where a number belongs.
    #[error("expected a number for the {what}, found {}", quoted(found))]
    ExpectedNumber {
        /// What the number is.
        what: &'static str,
        /// What is there.
        found: String,
    },
    /// A number with more than 64 bits.
    #[error("the {0} is too large")]
    TooLarge(&'static str),
    /// Fewer positions than `positions:` declares.
    #[error("the line ends before its {0}")]
    MissingPosition(&'static str),
    /// `N+M`, `N-M`, `N:M`.
    #[error("ranges of positions are not supported")]
    PositionRange,
    /// More costs than events.
    #[error("{found} costs, but `events:` names {events}")]
    TooManyCosts {
        /// Costs on the line.
        found: usize,
        /// Events declared.
        events: usize,
    },
    /// Text after the last number.
    #[error("unexpected `{0}` at the end of the line")]
    TrailingText(String),
    /// A name line without a name.
    #[error("the {} has no name", .0.noun())]
    EmptyName(NameSpace),
    /// `(12` without `)`, or something else than digits between.
    #[error("malformed compressed {} name `{}`", .0.noun(), .1)]
    MalformedId(NameSpace, String),
    /// `(12)` that no line defines before.
    #[error("{} ({}) is used but was not defined before", .0.noun(), .1)]
    UndefinedId(NameSpace, u64),
    /// `calls=` without a `cfn=` of its own.
    #[error("`calls=` without `cfn=` before it")]
    CallWithoutFunction,
    /// `calls=`, `jump=` or `jcnd=` whose position line is missing.
    #[error("`{0}` is not followed by a line with its position")]
    Unfinished(&'static str),
    /// A jump's position line with costs.
    #[error("costs on the position line of a jump")]
    JumpWithCost,
    /// `jcnd=` without the slash.
    #[error("expected `jcnd=FOLLOWED/EXECUTED`")]
    ConditionalJump,
    /// `positions:` with another word than `instr` and `line`, or in another order.
    #[error("unsupported positions `{0}`: expected `instr`, `line` or `instr line`")]
    Positions(String),
    /// `events:` without events.
    #[error("`events:` names no event")]
    NoEventNames,
    /// An event twice in one `events:` line.
    #[error("event `{0}` is named twice")]
    EventTwice(String),
    /// An `event:` line that is no definition.
    #[error("{0}")]
    EventDefinition(String),
    /// Two lines of a header contradict each other.
    #[error("`{0}:` appears twice in one header")]
    FieldTwice(String),
}

fn quoted(found: &str) -> String {
    if found.is_empty() { "the end of the line".to_string() } else { format!("`{found}`") }
}

struct MalformedText<'e> {
    origin: &'e str,
    defects: &'e [Defect],
    more: u64,
}

impl fmt::Display for MalformedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, defect) in self.defects.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}: {}", self.origin, defect.line, defect.reason)?;
        }
        if self.more > 0 {
            write!(f, "\n{}: and {} more malformed lines", self.origin, self.more)?;
        }
        Ok(())
    }
}
