//! What a Callgrind file says, line by line, without interpretation.

mod body;
mod cursor;
mod event;
mod header;
mod name;

pub use body::{
    Body, Costs, Encoder, FileTag, Form, MAX_POSITIONS, Positions, Record, Records, Segment, SlotMap, Start,
};
pub use cursor::{Call, Cursor, Item, Place};
pub use event::{EventDefinition, Formula, Term};
pub use header::{Columns, Header, HeaderLine};
pub use name::{NameSpace, NameTable, Names, Slot, SlotId, TextId};

/// A file of one or several parts.
///
/// Two profiles are equal when their names and lines are, wherever they were read from.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Where it was read from, as shown in messages.
    pub origin: String,
    /// Objects, files and functions.
    pub names: Names,
    /// The parts, in the order of the file.
    pub parts: Vec<Part>,
    /// Things accepted that some consumer of the format would stumble over.
    pub remarks: Vec<Remark>,
}

/// One dump: a header and its costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Everything up to the first line of the body.
    pub header: Header,
    /// Costs, calls and jumps.
    pub body: Body,
}

/// An oddity of a line that does not make it malformed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// Line number from 1.
    pub line: u64,
    /// What is odd.
    pub kind: RemarkKind,
}

/// Kinds of [`Remark`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RemarkKind {
    /// `(id) name` where the id already has that name.
    NameDefinedTwice,
    /// `(id) name` where the id has another name.
    NameRedefined,
    /// `(id)` that only an earlier part defines.
    NameOfEarlierPart,
    /// `cfni=`, written by a fork of Callgrind.
    InlineRecord,
    /// `calls=` with another number of positions than `positions:` declares.
    CallPositions,
    /// A cost line before any `fn=`.
    CostOutsideFunction,
    /// A negative cost, as Xdebug writes for freed memory.
    NegativeCost,
    /// A line number or cost written as `0x…`.
    HexadecimalNumber,
    /// A header line between costs.
    HeaderInBody,
    /// `rcalls=`, given up long ago.
    RecursiveCalls,
}

impl PartialEq for Profile {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.parts == other.parts
    }
}

impl Eq for Profile {}

impl Profile {
    /// Every event name of every part, in the order of first mention.
    pub fn events(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for event in self.parts.iter().flat_map(|p| &p.header.events) {
            if !all.contains(event) {
                all.push(event.clone());
            }
        }
        all
    }

    /// The first `event:` line for each name, in the order of the file.
    pub fn definitions(&self) -> Vec<EventDefinition> {
        let mut all: Vec<EventDefinition> = Vec::new();
        for definition in self.parts.iter().flat_map(|p| &p.header.definitions) {
            if all.iter().all(|d| d.name != definition.name) {
                all.push(definition.clone());
            }
        }
        all
    }

    /// Bytes this profile takes, without allocator overhead.
    pub fn heap_bytes(&self) -> usize {
        self.parts.iter().map(|p| p.body.heap_bytes()).sum::<usize>() + self.names.heap_bytes()
    }
}
