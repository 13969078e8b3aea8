//! Joins pieces: names, states, line numbers and totals.

use super::error::{Defect, ReadError, Reason};
use super::piece::{End, EndPosition, Inherited, LocalName, Piece};
use crate::model::{Header, NameSpace, Part, Profile, Remark, RemarkKind, SlotId, SlotMap, Start};
use hashbrown::HashMap;
use std::sync::Arc;

/// Defects listed in an error; more are counted only.
const LISTED: usize = 100;

/// A profile under construction.
pub struct Joiner {
    profile: Profile,
    /// What an id stands for, and the part that defined or used it last.
    ids: [HashMap<u64, (SlotId, usize)>; 3],
    start: Start,
    line: u64,
    defects: Vec<Defect>,
    dropped: u64,
}

impl Joiner {
    pub fn new(origin: &str) -> Joiner {
        Joiner {
            profile: Profile { origin: origin.to_string(), ..Profile::default() },
            ids: Default::default(),
            start: Start::default(),
            line: 1,
            defects: Vec::new(),
            dropped: 0,
        }
    }

    /// Begins a part whose header has `lines` lines; defects count from 0.
    pub fn begin_part(&mut self, header: Header, lines: u64, defects: Vec<Defect>) {
        self.defects.extend(defects.into_iter().map(|d| Defect { line: d.line + self.line, ..d }));
        self.line += lines;
        self.start = Start::default();
        self.profile.parts.push(Part { header, ..Part::default() });
    }

    /// Appends a piece to the part begun last.
    pub fn add(&mut self, piece: Piece) {
        let first = self.line;
        self.line += piece.lines;
        self.dropped += piece.defects_dropped;
        self.defects.extend(piece.defects.into_iter().map(|d| Defect { line: d.line + first, ..d }));
        self.profile.remarks.extend(piece.remarks.into_iter().map(|r| Remark { line: r.line + first, ..r }));
        let mut slots = SlotMap::default();
        for space in NameSpace::ALL {
            let names = &piece.names[space as usize].list;
            let list = slots.list_mut(space);
            list.reserve_exact(names.len());
            for name in names {
                list.push(self.slot(space, name, first));
            }
        }
        let start = self.start;
        self.start = after(start, &piece.end, &slots);
        let part = self.profile.parts.last_mut().expect("a part has begun");
        part.header.totals = piece.totals.or(part.header.totals.take());
        part.header.summary = piece.summary.or(part.header.summary.take());
        part.body.segments.push(piece.encoder.finish(Arc::new(slots), start));
    }

    /// The profile's slot for a name of a piece that begins at line `first`.
    fn slot(&mut self, space: NameSpace, name: &LocalName, first: u64) -> SlotId {
        let ids = &mut self.ids[space as usize];
        let table = self.profile.names.table_mut(space);
        let part = self.profile.parts.len();
        match *name {
            LocalName::Plain(text) => table.plain(text),
            LocalName::External { id, line } => match ids.get_mut(&id) {
                Some((slot, seen)) => {
                    if std::mem::replace(seen, part) != part {
                        let kind = RemarkKind::NameOfEarlierPart;
                        self.profile.remarks.push(Remark { line: line + first, kind });
                    }
                    *slot
                }
                None => {
                    self.defects.push(Defect { line: line + first, reason: Reason::UndefinedId(space, id) });
                    // The file is refused; the slot only keeps the numbering whole and the report short.
                    let slot = table.define(id, b"???");
                    ids.insert(id, (slot, part));
                    slot
                }
            },
            LocalName::Defined { id, text, line } => {
                let slot = match ids.get(&id) {
                    Some(&(slot, seen)) => {
                        let same = table.bytes(table.slot(slot).text) == text;
                        if seen == part {
                            let kind =
                                if same { RemarkKind::NameDefinedTwice } else { RemarkKind::NameRedefined };
                            self.profile.remarks.push(Remark { line: line + first, kind });
                        }
                        if same { slot } else { table.define(id, text) }
                    }
                    None => table.define(id, text),
                };
                ids.insert(id, (slot, part));
                slot
            }
        }
    }

    pub fn finish(mut self) -> Result<Profile, ReadError> {
        if self.defects.is_empty() {
            self.profile.remarks.sort();
            return Ok(self.profile);
        }
        self.defects.sort();
        let more = self.dropped + self.defects.len().saturating_sub(LISTED) as u64;
        self.defects.truncate(LISTED);
        Err(ReadError::Malformed { origin: self.profile.origin, defects: self.defects, more })
    }
}

/// The state after a piece that began in state `start`.
fn after(start: Start, end: &End, slots: &SlotMap) -> Start {
    let pick = |inherited: Inherited, before: Option<SlotId>, list: &[SlotId]| match inherited {
        Inherited::Before => before,
        Inherited::FunctionFileBefore => start.function_file.or(before),
        Inherited::Here(local) => Some(list[local as usize]),
    };
    let position = |end: EndPosition, before: u64| {
        if end.absolute { end.value } else { before.wrapping_add(end.value) }
    };
    Start {
        object: pick(end.object, start.object, &slots.objects),
        function_file: pick(end.function_file, start.function_file, &slots.files),
        file: pick(end.file, start.file, &slots.files),
        function: pick(end.function, start.function, &slots.functions),
        at: [position(end.at[0], start.at[0]), position(end.at[1], start.at[1])],
    }
}
