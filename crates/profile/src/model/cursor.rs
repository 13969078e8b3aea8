//! What records mean: which function, file and position a cost or call belongs to.
//!
//! The rules, where the format leaves room, are those of KCachegrind: `fn=` takes the file back to
//! the last `fl=`; a call without `cob=` or `cfi=` goes to the object and file in force; targets are
//! relative to the last cost line and do not move it.

use super::body::{Costs, Start};
use super::{Columns, FileTag, Positions, Record, Segment, SlotId};

/// Where a cost arose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Object of the function.
    pub object: Option<SlotId>,
    /// File of the function (`fl=`).
    pub function_file: Option<SlotId>,
    /// The function.
    pub function: Option<SlotId>,
    /// File of the line: another than the function's in inlined code.
    pub file: Option<SlotId>,
    /// Inlined function, where recorded.
    pub inline: Option<SlotId>,
    /// Address, or 0.
    pub address: u64,
    /// Line number, or 0 for unknown.
    pub line: u64,
}

/// A call whose inclusive cost is at a [`Place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Object of the callee.
    pub object: Option<SlotId>,
    /// File of the callee.
    pub file: Option<SlotId>,
    /// Whether the file was given, rather than taken to be the caller's.
    pub file_given: bool,
    /// The callee.
    pub function: Option<SlotId>,
    /// How often.
    pub count: u64,
    /// Address called, or 0.
    pub address: u64,
    /// Line called, or 0.
    pub line: u64,
}

/// What a record amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// Self cost.
    Cost(Place, Costs<'a>),
    /// Inclusive cost of calls.
    Call(Place, Call, Costs<'a>),
    /// A jump.
    Jump {
        /// Where it stands.
        from: Place,
        /// Where it leads: address and line.
        to: (u64, u64),
        /// For a conditional jump, how often it was followed.
        followed: Option<u64>,
        /// How often it was executed.
        executed: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum Pending {
    None,
    Call { count: u64, to: (u64, u64) },
    Jump { followed: Option<u64>, executed: u64, to: (u64, u64) },
}

/// Interprets the records of a segment.
#[derive(Debug)]
pub struct Cursor<'a> {
    records: super::Records<'a>,
    columns: Columns,
    state: Start,
    inline: Option<SlotId>,
    called_object: Option<SlotId>,
    called_file: Option<SlotId>,
    called_function: Option<SlotId>,
    pending: Pending,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first record of `segment`, in a part with these columns.
    pub fn new(segment: &'a Segment, columns: Columns) -> Cursor<'a> {
        Cursor {
            records: segment.records(),
            columns,
            state: segment.start(),
            inline: None,
            called_object: None,
            called_file: None,
            called_function: None,
            pending: Pending::None,
        }
    }

    /// Positions (address, line) after applying `at`.
    fn resolve(&self, at: &Positions) -> (u64, u64) {
        let column = |i: usize, before: u64| {
            if i < usize::from(at.count) { at.form[i].resolve(at.value[i], before) } else { before }
        };
        match (self.columns.instr, self.columns.line) {
            (true, true) => (column(0, self.state.at[0]), column(1, self.state.at[1])),
            (true, false) => (column(0, self.state.at[0]), 0),
            // `positions:` without a word still has one column of line numbers.
            _ => (0, column(0, self.state.at[1])),
        }
    }

    fn place(&self) -> Place {
        let s = &self.state;
        Place {
            object: s.object,
            function_file: s.function_file,
            function: s.function,
            file: s.file,
            inline: self.inline,
            address: s.at[0],
            line: s.at[1],
        }
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            match self.records.next()? {
                Record::Costs { at, costs } => {
                    let (address, line) = self.resolve(&at);
                    self.state.at = [address, line];
                    let place = self.place();
                    match std::mem::replace(&mut self.pending, Pending::None) {
                        Pending::None => return Some(Item::Cost(place, costs)),
                        Pending::Call { count, to } => {
                            let given = self.called_file.take();
                            let call = Call {
                                file_given: given.is_some(),
                                object: self.called_object.take().or(self.state.object),
                                file: given.or(self.state.file),
                                function: self.called_function,
                                count,
                                address: to.0,
                                line: to.1,
                            };
                            return Some(Item::Call(place, call, costs));
                        }
                        Pending::Jump { followed, executed, to } => {
                            return Some(Item::Jump { from: place, to, followed, executed });
                        }
                    }
                }
                Record::Object(slot) => self.state.object = Some(slot),
                Record::File(tag, slot) => {
                    self.state.file = Some(slot);
                    if tag == FileTag::Function {
                        self.state.function_file = Some(slot);
                    }
                }
                Record::Function(slot) => {
                    self.state.function = Some(slot);
                    self.state.file = self.state.function_file.or(self.state.file);
                    self.inline = None;
                }
                Record::CalledObject(slot) => self.called_object = Some(slot),
                Record::CalledFile(slot, _) => self.called_file = Some(slot),
                Record::CalledFunction(slot) => self.called_function = Some(slot),
                Record::Calls { count, target, .. } => {
                    self.pending = Pending::Call { count, to: self.resolve(&target) };
                }
                Record::Jump { followed, executed, target } => {
                    self.pending = Pending::Jump { followed, executed, to: self.resolve(&target) };
                }
                Record::Inline(slot) => self.inline = Some(slot),
                Record::Blank
                | Record::Comment(_)
                | Record::Field { .. }
                | Record::JumpFile(_)
                | Record::JumpFunction(_)
                | Record::Summary(_)
                | Record::Totals(_) => {}
            }
        }
    }
}
