//! One piece of a body, read without knowing what stands before it.
//!
//! Names are numbered within the piece: a compressed name that the piece uses but does not define
//! stays *external* until the pieces are joined. Likewise objects, files and positions that are in
//! force at the start of the piece are described as inherited.

use super::error::{Defect, Reason};
use super::header::{field, totals};
use super::number::{Scanner, shown};
use crate::model::{
    Columns, Encoder, FileTag, Form, MAX_POSITIONS, NameSpace, Positions, Record, Remark, RemarkKind, SlotId,
};
use hashbrown::HashMap;

/// Defects and remarks kept per piece; more are counted only.
const KEPT: usize = 1000;

/// A name as one piece knows it.
#[derive(Debug, Clone, Copy)]
pub enum LocalName<'t> {
    /// `(id) name`
    Defined { id: u64, text: &'t [u8], line: u64 },
    /// `(id)`, defined before the piece or never.
    External { id: u64, line: u64 },
    /// `name`
    Plain(&'t [u8]),
}

/// The names of one space.
#[derive(Debug, Default)]
pub struct LocalNames<'t> {
    pub list: Vec<LocalName<'t>>,
    ids: HashMap<u64, u32>,
    plain: HashMap<&'t [u8], u32>,
}

/// A file or object in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inherited {
    /// What was in force before the piece.
    #[default]
    Before,
    /// The function file in force before the piece: `fn=` came first.
    FunctionFileBefore,
    /// This local name.
    Here(u32),
}

/// A position at the end of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndPosition {
    /// Whether `value` is the position, rather than a distance from the one before the piece.
    pub absolute: bool,
    /// Position or distance.
    pub value: u64,
}

/// What a piece leaves in force.
#[derive(Debug, Clone, Copy, Default)]
pub struct End {
    pub object: Inherited,
    pub function_file: Inherited,
    pub file: Inherited,
    pub function: Inherited,
    /// Address and line.
    pub at: [EndPosition; 2],
}

/// What was read from a piece. Line numbers count from 0.
#[derive(Debug, Default)]
pub struct Piece<'t> {
    pub encoder: Encoder,
    /// Objects, files, functions.
    pub names: [LocalNames<'t>; 3],
    pub end: End,
    pub lines: u64,
    pub totals: Option<Vec<i64>>,
    pub summary: Option<Vec<i64>>,
    pub defects: Vec<Defect>,
    pub defects_dropped: u64,
    pub remarks: Vec<Remark>,
}

/// The parse of a piece in progress.
struct PieceReader<'t> {
    scanner: Scanner<'t>,
    columns: Columns,
    events: usize,
    out: Piece<'t>,
    costs: Vec<i64>,
    pending: Option<(&'static str, u64)>,
    jump: bool,
    called_function: bool,
    in_function: bool,
    outside_noted: bool,
}

/// Reads `text`, a piece of a part with these columns and this number of events.
pub fn read<'t>(text: &'t [u8], columns: Columns, events: usize, first_of_part: bool) -> Piece<'t> {
    let out = Piece { encoder: Encoder::with_capacity(text.len() / 2), ..Piece::default() };
    let mut reader = PieceReader {
        scanner: Scanner::new(text),
        columns,
        events,
        out,
        costs: Vec::new(),
        pending: None,
        jump: false,
        called_function: false,
        in_function: !first_of_part,
        outside_noted: false,
    };
    while reader.scanner.at < text.len() {
        if let Err(reason) = reader.line() {
            reader.defect(reader.out.lines, reason);
            reader.scanner.next_line();
        }
        reader.out.lines += 1;
    }
    reader.finish_pending();
    reader.out
}

impl<'t> PieceReader<'t> {
    fn defect(&mut self, line: u64, reason: Reason) {
        if self.out.defects.len() < KEPT {
            self.out.defects.push(Defect { line, reason });
        } else {
            self.out.defects_dropped += 1;
        }
    }

    fn remark(&mut self, kind: RemarkKind) {
        if self.out.remarks.len() < KEPT {
            self.out.remarks.push(Remark { line: self.out.lines, kind });
        }
    }

    fn finish_pending(&mut self) {
        self.jump = false;
        if let Some((word, line)) = self.pending.take() {
            self.defect(line, Reason::Unfinished(word));
        }
    }

    /// Reads one line and passes its end; on an error the position is somewhere within the line.
    #[inline]
    fn line(&mut self) -> Result<(), Reason> {
        match self.scanner.peek() {
            b'0'..=b'9' | b'+' | b'-' | b'*' => self.cost_line(),
            b'\n' => {
                self.scanner.at += 1;
                self.out.encoder.push(&Record::Blank);
                Ok(())
            }
            _ => self.word_line(),
        }
    }

    #[inline]
    fn cost_line(&mut self) -> Result<(), Reason> {
        let pending = self.pending.take();
        let jump = std::mem::replace(&mut self.jump, false);
        self.scanner.hexadecimal = false;
        let mut at = Positions::default();
        if self.columns.instr {
            self.scanner.position("address", &mut at)?;
            self.scanner.hexadecimal = false;
        }
        if self.columns.line || at.count == 0 {
            self.scanner.position("line number", &mut at)?;
        }
        self.costs.clear();
        loop {
            match self.scanner.peek() {
                b'\n' => break,
                b' ' | b'\t' | b'\r' => self.scanner.spaces(),
                _ => {
                    let cost = self.scanner.cost()?;
                    if cost < 0 {
                        self.remark(RemarkKind::NegativeCost);
                    }
                    self.costs.push(cost);
                    if !matches!(self.scanner.peek(), b'\n' | b' ' | b'\t' | b'\r') {
                        return Err(Reason::TrailingText(self.scanner.word()));
                    }
                }
            }
        }
        if std::mem::take(&mut self.scanner.hexadecimal) {
            self.remark(RemarkKind::HexadecimalNumber);
        }
        if jump && !self.costs.is_empty() {
            return Err(Reason::JumpWithCost);
        }
        if self.costs.len() > self.events {
            return Err(Reason::TooManyCosts { found: self.costs.len(), events: self.events });
        }
        if !self.in_function && pending.is_none() && !self.outside_noted {
            self.outside_noted = true;
            self.remark(RemarkKind::CostOutsideFunction);
        }
        self.move_to(&at);
        self.out.encoder.costs(&at, &self.costs);
        self.scanner.at += 1;
        Ok(())
    }

    #[inline]
    fn move_to(&mut self, at: &Positions) {
        let first = if self.columns.instr { 0 } else { 1 };
        for i in 0..at.count as usize {
            let end = &mut self.out.end.at[first + i];
            match at.form[i] {
                Form::Absolute => *end = EndPosition { absolute: true, value: at.value[i] },
                form => end.value = form.resolve(at.value[i], end.value),
            }
        }
    }

    fn word_line(&mut self) -> Result<(), Reason> {
        let line = self.scanner.rest();
        if line.iter().all(u8::is_ascii_whitespace) {
            self.out.encoder.push(&Record::Blank);
            self.scanner.next_line();
            return Ok(());
        }
        if line[0] == b'#' {
            self.out.encoder.push(&Record::Comment(line));
            self.scanner.next_line();
            return Ok(());
        }
        let equals = memchr::memchr(b'=', &line[..line.len().min(8)]);
        let Some(equals) = equals else { return self.field_line(line) };
        let (key, value) = (&line[..equals], &line[equals + 1..]);
        let record = match key {
            b"fn" => {
                // Nothing in flight survives `fn=`, or cutting here would make a difference.
                self.finish_pending();
                self.in_function = true;
                self.called_function = false;
                let slot = self.name(NameSpace::Function, value)?;
                self.out.end.function = Inherited::Here(slot.0);
                self.out.end.file = match self.out.end.function_file {
                    Inherited::Before => Inherited::FunctionFileBefore,
                    known => known,
                };
                Record::Function(slot)
            }
            b"fl" | b"fi" | b"fe" => {
                let slot = self.name(NameSpace::File, value)?;
                let tag = match key[1] {
                    b'l' => FileTag::Function,
                    b'i' => FileTag::Included,
                    _ => FileTag::Back,
                };
                self.out.end.file = Inherited::Here(slot.0);
                if tag == FileTag::Function {
                    self.out.end.function_file = Inherited::Here(slot.0);
                }
                Record::File(tag, slot)
            }
            b"ob" => {
                let slot = self.name(NameSpace::Object, value)?;
                self.out.end.object = Inherited::Here(slot.0);
                Record::Object(slot)
            }
            b"cob" => Record::CalledObject(self.name(NameSpace::Object, value)?),
            b"cfi" | b"cfl" => Record::CalledFile(self.name(NameSpace::File, value)?, key[2] == b'l'),
            b"cfn" => {
                let slot = self.name(NameSpace::Function, value)?;
                self.called_function = true;
                Record::CalledFunction(slot)
            }
            b"calls" | b"rcalls" => self.calls(key == b"rcalls")?,
            b"jfi" => Record::JumpFile(self.name(NameSpace::File, value)?),
            b"jfn" => Record::JumpFunction(self.name(NameSpace::Function, value)?),
            b"jump" | b"jcnd" => self.jump(key == b"jcnd")?,
            b"cfni" => {
                let slot = self.name(NameSpace::Function, value)?;
                self.remark(RemarkKind::InlineRecord);
                Record::Inline(slot)
            }
            _ => return self.field_line(line),
        };
        self.out.encoder.push(&record);
        self.scanner.next_line();
        Ok(())
    }

    fn field_line(&mut self, line: &'t [u8]) -> Result<(), Reason> {
        let Some((key, value)) = field(line) else { return Err(Reason::UnknownLine(shown(line))) };
        match key {
            "totals" | "summary" => {
                let costs = totals(value, self.events)?;
                self.out.encoder.total(key == "totals", &costs);
                let last = if key == "totals" { &mut self.out.totals } else { &mut self.out.summary };
                *last = Some(costs);
            }
            _ => {
                self.remark(RemarkKind::HeaderInBody);
                self.out.encoder.push(&Record::Field { key: key.as_bytes(), value });
            }
        }
        self.scanner.next_line();
        Ok(())
    }

    fn calls(&mut self, recursive: bool) -> Result<Record<'static>, Reason> {
        self.finish_pending();
        self.scanner.at += if recursive { 7 } else { 6 };
        let count = self.scanner.unsigned("number of calls")?;
        let target = self.targets()?;
        if !std::mem::replace(&mut self.called_function, false) {
            return Err(Reason::CallWithoutFunction);
        }
        if usize::from(target.count) != self.columns.count().max(1) {
            self.remark(RemarkKind::CallPositions);
        }
        if recursive {
            self.remark(RemarkKind::RecursiveCalls);
        }
        self.pending = Some(("calls=", self.out.lines));
        Ok(Record::Calls { count, target, recursive })
    }

    fn jump(&mut self, conditional: bool) -> Result<Record<'static>, Reason> {
        self.finish_pending();
        self.scanner.at += 5;
        let first = self.scanner.unsigned("number of jumps")?;
        let record = if conditional {
            if self.scanner.peek() != b'/' {
                return Err(Reason::ConditionalJump);
            }
            self.scanner.at += 1;
            let executed = self.scanner.unsigned("number of jumps")?;
            Record::Jump { followed: Some(first), executed, target: self.targets()? }
        } else {
            Record::Jump { followed: None, executed: first, target: self.targets()? }
        };
        self.pending = Some((if conditional { "jcnd=" } else { "jump=" }, self.out.lines));
        self.jump = true;
        Ok(record)
    }

    /// The positions at the end of a `calls=`, `jump=` or `jcnd=` line.
    fn targets(&mut self) -> Result<Positions, Reason> {
        let mut target = Positions::default();
        self.scanner.spaces();
        while self.scanner.peek() != b'\n' {
            if target.count as usize == MAX_POSITIONS {
                return Err(Reason::TrailingText(self.scanner.word()));
            }
            let what = if self.columns.instr && target.count == 0 { "address" } else { "line number" };
            self.scanner.position(what, &mut target)?;
        }
        Ok(target)
    }

    /// The local number of the name in `value`.
    fn name(&mut self, space: NameSpace, value: &'t [u8]) -> Result<SlotId, Reason> {
        let value = value.trim_ascii_start();
        if value.is_empty() {
            return Err(Reason::EmptyName(space));
        }
        let line = self.out.lines;
        let names = &mut self.out.names[space as usize];
        let compressed = value[0] == b'(' && value.get(1).is_some_and(u8::is_ascii_digit);
        if !compressed {
            let next = names.list.len() as u32;
            let slot = *names.plain.entry(value).or_insert(next);
            if slot == next {
                names.list.push(LocalName::Plain(value));
            }
            return Ok(SlotId(slot));
        }
        let malformed = || Reason::MalformedId(space, shown(value));
        let close = memchr::memchr(b')', value).ok_or_else(malformed)?;
        let digits = std::str::from_utf8(&value[1..close]).map_err(|_| malformed())?;
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(malformed());
        }
        let id = digits.parse::<u64>().map_err(|_| Reason::TooLarge("name id"))?;
        let text = value[close + 1..].trim_ascii_start();
        let known = names.ids.get(&id).copied();
        if text.is_empty() {
            let slot = known.unwrap_or_else(|| names.add(id, LocalName::External { id, line }));
            return Ok(SlotId(slot));
        }
        if let Some(slot) = known
            && let LocalName::Defined { text: before, .. } = names.list[slot as usize]
        {
            if before == text {
                self.remark(RemarkKind::NameDefinedTwice);
                return Ok(SlotId(slot));
            }
            let slot = names.add(id, LocalName::Defined { id, text, line });
            return Ok(SlotId(slot));
        }
        Ok(SlotId(names.add(id, LocalName::Defined { id, text, line })))
    }
}

impl<'t> LocalNames<'t> {
    fn add(&mut self, id: u64, name: LocalName<'t>) -> u32 {
        let slot = self.list.len() as u32;
        self.list.push(name);
        self.ids.insert(id, slot);
        slot
    }
}
