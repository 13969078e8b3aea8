//! The lines of a part's body, as a byte stream.
//!
//! A cost line of a large file is about ten bytes of text, so a structure for each would take
//! several times the file. Instead every line becomes one record of a tag byte and variable-length
//! numbers, which is smaller than its text, keeps how the line was written (`+3`, `*`, an absolute
//! number), and is decoded as fast as it can be added up.
//!
//! The stream is cut into [`Segment`]s, made independently by the parallel reader. Invariants:
//!
//! - B1: a segment's names are numbered from 0 in its own [`SlotMap`], which leads to slots of the
//!   profile's tables.
//! - B2: a segment's `start` is the state that the segments before it leave behind, so each can be
//!   interpreted alone.
//! - B3: no segment begins between a call or jump and its cost line.

use super::{NameSpace, SlotId};
use std::sync::Arc;

/// Most positions a line can have: an address and a line number, twice over for odd `calls=` lines.
pub const MAX_POSITIONS: usize = 4;

/// How a position was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// A number.
    #[default]
    Absolute,
    /// `+N` from the position before.
    Plus,
    /// `-N` from the position before.
    Minus,
    /// `*`: the position before.
    Same,
}

impl Form {
    const ALL: [Form; 4] = [Form::Absolute, Form::Plus, Form::Minus, Form::Same];

    /// The position meant by `value`, written so, after `before`.
    pub fn resolve(self, value: u64, before: u64) -> u64 {
        match self {
            Form::Absolute => value,
            Form::Plus => before.wrapping_add(value),
            Form::Minus => before.wrapping_sub(value),
            Form::Same => before,
        }
    }
}

/// The positions at the start of a line, or of a call's or jump's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Positions {
    /// Number of columns.
    pub count: u8,
    /// How each is written.
    pub form: [Form; MAX_POSITIONS],
    /// The number written in each; 0 for [`Form::Same`].
    pub value: [u64; MAX_POSITIONS],
}

impl Positions {
    /// Appends a column.
    pub fn push(&mut self, form: Form, value: u64) {
        self.form[self.count as usize] = form;
        self.value[self.count as usize] = value;
        self.count += 1;
    }
}

/// Which word introduced a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileTag {
    /// `fl=`: the file of the functions that follow.
    Function,
    /// `fi=`: included or inlined code begins.
    Included,
    /// `fe=`: back from included code.
    Back,
}

/// One line of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// Nothing.
    Blank,
    /// `# …`
    Comment(&'a [u8]),
    /// A header line between costs.
    Field {
        /// Before the colon.
        key: &'a [u8],
        /// After it.
        value: &'a [u8],
    },
    /// `ob=`
    Object(SlotId),
    /// `fl=`, `fi=`, `fe=`
    File(FileTag, SlotId),
    /// `fn=`
    Function(SlotId),
    /// `cob=`
    CalledObject(SlotId),
    /// `cfi=`, or `cfl=` when the flag is set
    CalledFile(SlotId, bool),
    /// `cfn=`
    CalledFunction(SlotId),
    /// `calls=`, or `rcalls=` when the flag is set
    Calls {
        /// How often.
        count: u64,
        /// The first line of the callee, or its address.
        target: Positions,
        /// The old word `rcalls=`.
        recursive: bool,
    },
    /// `jfi=`
    JumpFile(SlotId),
    /// `jfn=`
    JumpFunction(SlotId),
    /// `jump=` and `jcnd=`
    Jump {
        /// For `jcnd=`, how often it was followed.
        followed: Option<u64>,
        /// How often it was executed.
        executed: u64,
        /// Where it leads.
        target: Positions,
    },
    /// `cfni=`: costs that follow belong to an inlined function; `???` ends that.
    Inline(SlotId),
    /// A position and costs.
    Costs {
        /// Where.
        at: Positions,
        /// Costs in the order of `events:`, trailing zeros omitted.
        costs: Costs<'a>,
    },
    /// `summary:`
    Summary(Costs<'a>),
    /// `totals:`
    Totals(Costs<'a>),
}

/// Costs inside a record, decoded while iterating.
#[derive(Debug, Clone, Copy)]
pub struct Costs<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl Costs<'_> {
    /// Number of costs.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the line had no cost.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The costs.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let mut reader = Reader { bytes: self.bytes, at: 0 };
        (0..self.count).map(move |_| reader.signed())
    }
}

impl PartialEq for Costs<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl Eq for Costs<'_> {}

/// Where the local names of a segment lead.
#[derive(Debug, Clone, Default)]
pub struct SlotMap {
    /// Objects.
    pub objects: Vec<SlotId>,
    /// Files.
    pub files: Vec<SlotId>,
    /// Functions.
    pub functions: Vec<SlotId>,
}

impl SlotMap {
    /// The list of a space.
    pub fn list_mut(&mut self, space: NameSpace) -> &mut Vec<SlotId> {
        match space {
            NameSpace::Object => &mut self.objects,
            NameSpace::File => &mut self.files,
            NameSpace::Function => &mut self.functions,
        }
    }
}

/// The state at the start of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// `ob=` in force.
    pub object: Option<SlotId>,
    /// File of the functions to come.
    pub function_file: Option<SlotId>,
    /// File in force.
    pub file: Option<SlotId>,
    /// Function in force.
    pub function: Option<SlotId>,
    /// Positions of the last cost line.
    pub at: [u64; 2],
}

/// A run of records.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) slots: Arc<SlotMap>,
    pub(crate) start: Start,
}

impl Segment {
    /// The records, in order.
    pub fn records(&self) -> Records<'_> {
        Records { reader: Reader { bytes: &self.bytes, at: 0 }, slots: &self.slots }
    }

    /// The state before the first record.
    pub fn start(&self) -> Start {
        self.start
    }
}

/// All lines after the header.
#[derive(Debug, Clone, Default)]
pub struct Body {
    pub(crate) segments: Vec<Segment>,
}

impl Body {
    /// The runs of records, which may be interpreted in parallel.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// All records.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.segments.iter().flat_map(|s| s.records())
    }

    /// A body of one segment whose names are already slots of the profile.
    pub fn from_encoder(encoder: Encoder, names: &super::Names) -> Body {
        let identity = |n: usize| (0..n as u32).map(SlotId).collect();
        let slots = SlotMap {
            objects: identity(names.objects.len()),
            files: identity(names.files.len()),
            functions: identity(names.functions.len()),
        };
        Body { segments: vec![encoder.finish(Arc::new(slots), Start::default())] }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.segments
            .iter()
            .map(|s| {
                s.bytes.len() + 4 * (s.slots.objects.len() + s.slots.files.len() + s.slots.functions.len())
            })
            .sum()
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.records().eq(other.records())
    }
}

impl Eq for Body {}

const BLANK: u8 = 0;
const COMMENT: u8 = 1;
const FIELD: u8 = 2;
const OBJECT: u8 = 3;
const FILE: u8 = 4; // and 5, 6
const FUNCTION: u8 = 7;
const CALLED_OBJECT: u8 = 8;
const CALLED_FILE: u8 = 9; // and 10
const CALLED_FUNCTION: u8 = 11;
const CALLS: u8 = 12; // and 13
const JUMP_FILE: u8 = 14;
const JUMP_FUNCTION: u8 = 15;
const JUMP: u8 = 16;
const CONDITIONAL_JUMP: u8 = 17;
const INLINE: u8 = 18;
const SUMMARY: u8 = 19;
const TOTALS: u8 = 20;
const ONE_COLUMN: u8 = 0x40; // 01ff_nnnn: form, number of costs (15: a number follows)
const TWO_COLUMNS: u8 = 0x80; // 1ffg_gnnn: forms, number of costs (7: a number follows)

/// Appends records to a byte stream.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An encoder with room for about `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Encoder {
        Encoder { bytes: Vec::with_capacity(bytes) }
    }

    pub(crate) fn finish(self, slots: Arc<SlotMap>, start: Start) -> Segment {
        Segment { bytes: self.bytes.into_boxed_slice(), slots, start }
    }

    #[inline]
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    #[inline]
    fn signed(&mut self, n: i64) {
        self.number(((n << 1) ^ (n >> 63)) as u64);
    }

    fn run(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn positions(&mut self, at: &Positions) {
        self.bytes.push(at.count);
        let forms = (0..MAX_POSITIONS).fold(0, |byte, i| byte | (at.form[i] as u8) << (2 * i));
        self.bytes.push(forms);
        for i in 0..at.count as usize {
            if at.form[i] != Form::Same {
                self.number(at.value[i]);
            }
        }
    }

    /// Appends a cost line.
    #[inline]
    pub fn costs(&mut self, at: &Positions, costs: &[i64]) {
        let n = costs.len();
        let forms = at.form;
        if at.count == 1 {
            self.bytes.push(ONE_COLUMN | (forms[0] as u8) << 4 | n.min(15) as u8);
            if n >= 15 {
                self.number(n as u64);
            }
        } else {
            debug_assert_eq!(at.count, 2);
            self.bytes.push(TWO_COLUMNS | (forms[0] as u8) << 5 | (forms[1] as u8) << 3 | n.min(7) as u8);
            if n >= 7 {
                self.number(n as u64);
            }
        }
        for (i, &form) in forms.iter().enumerate().take(at.count as usize) {
            if form != Form::Same {
                self.number(at.value[i]);
            }
        }
        for &cost in costs {
            self.signed(cost);
        }
    }

    /// Appends `summary:` or `totals:`.
    pub fn total(&mut self, totals: bool, costs: &[i64]) {
        self.bytes.push(if totals { TOTALS } else { SUMMARY });
        self.number(costs.len() as u64);
        for &cost in costs {
            self.signed(cost);
        }
    }

    /// Appends any other record; costs go through [`costs`](Self::costs) and [`total`](Self::total).
    pub fn push(&mut self, record: &Record) {
        let mut name = |tag: u8, slot: SlotId| {
            self.bytes.push(tag);
            self.number(u64::from(slot.0));
        };
        match *record {
            Record::Blank => self.bytes.push(BLANK),
            Record::Comment(text) => {
                self.bytes.push(COMMENT);
                self.run(text);
            }
            Record::Field { key, value } => {
                self.bytes.push(FIELD);
                self.run(key);
                self.run(value);
            }
            Record::Object(slot) => name(OBJECT, slot),
            Record::File(tag, slot) => name(FILE + tag as u8, slot),
            Record::Function(slot) => name(FUNCTION, slot),
            Record::CalledObject(slot) => name(CALLED_OBJECT, slot),
            Record::CalledFile(slot, long) => name(CALLED_FILE + u8::from(long), slot),
            Record::CalledFunction(slot) => name(CALLED_FUNCTION, slot),
            Record::JumpFile(slot) => name(JUMP_FILE, slot),
            Record::JumpFunction(slot) => name(JUMP_FUNCTION, slot),
            Record::Inline(slot) => name(INLINE, slot),
            Record::Calls { count, ref target, recursive } => {
                self.bytes.push(CALLS + u8::from(recursive));
                self.number(count);
                self.positions(target);
            }
            Record::Jump { followed, executed, ref target } => {
                self.bytes.push(if followed.is_some() { CONDITIONAL_JUMP } else { JUMP });
                if let Some(followed) = followed {
                    self.number(followed);
                }
                self.number(executed);
                self.positions(target);
            }
            Record::Costs { ref at, costs } => self.costs(at, &costs.iter().collect::<Vec<_>>()),
            Record::Summary(costs) => self.total(false, &costs.iter().collect::<Vec<_>>()),
            Record::Totals(costs) => self.total(true, &costs.iter().collect::<Vec<_>>()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    fn byte(&mut self) -> u8 {
        self.at += 1;
        self.bytes[self.at - 1]
    }

    #[inline]
    fn number(&mut self) -> u64 {
        let first = self.byte();
        if first < 0x80 {
            return u64::from(first);
        }
        let mut n = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte();
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return n;
            }
            shift += 7;
        }
    }

    #[inline]
    fn signed(&mut self) -> i64 {
        let n = self.number();
        (n >> 1) as i64 ^ -((n & 1) as i64)
    }

    fn run(&mut self) -> &'a [u8] {
        let length = self.number() as usize;
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }

    fn positions(&mut self) -> Positions {
        let count = self.byte();
        let forms = self.byte();
        let mut at = Positions::default();
        for i in 0..count {
            let form = Form::ALL[usize::from(forms >> (2 * i) & 3)];
            at.push(form, if form == Form::Same { 0 } else { self.number() });
        }
        at
    }

    #[inline]
    fn skip_costs(&mut self, count: usize) -> Costs<'a> {
        let start = self.at;
        for _ in 0..count {
            while self.byte() >= 0x80 {}
        }
        Costs { bytes: &self.bytes[start..self.at], count }
    }
}

/// Iterates over the records of a segment.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    reader: Reader<'a>,
    slots: &'a SlotMap,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let r = &mut self.reader;
        if r.at >= r.bytes.len() {
            return None;
        }
        let tag = r.byte();
        if tag >= ONE_COLUMN {
            let mut at = Positions::default();
            let (columns, mut n, limit) = if tag >= TWO_COLUMNS {
                at.form[0] = Form::ALL[usize::from(tag >> 5 & 3)];
                at.form[1] = Form::ALL[usize::from(tag >> 3 & 3)];
                (2, u64::from(tag & 7), 7)
            } else {
                at.form[0] = Form::ALL[usize::from(tag >> 4 & 3)];
                (1, u64::from(tag & 15), 15)
            };
            if n == limit {
                n = r.number();
            }
            at.count = columns;
            for i in 0..columns as usize {
                if at.form[i] != Form::Same {
                    at.value[i] = r.number();
                }
            }
            return Some(Record::Costs { at, costs: r.skip_costs(n as usize) });
        }
        let slots = self.slots;
        let object = |r: &mut Reader| slots.objects[r.number() as usize];
        let file = |r: &mut Reader| slots.files[r.number() as usize];
        let function = |r: &mut Reader| slots.functions[r.number() as usize];
        Some(match tag {
            BLANK => Record::Blank,
            COMMENT => Record::Comment(r.run()),
            FIELD => Record::Field { key: r.run(), value: r.run() },
            OBJECT => Record::Object(object(r)),
            FILE => Record::File(FileTag::Function, file(r)),
            5 => Record::File(FileTag::Included, file(r)),
            6 => Record::File(FileTag::Back, file(r)),
            FUNCTION => Record::Function(function(r)),
            CALLED_OBJECT => Record::CalledObject(object(r)),
            CALLED_FILE => Record::CalledFile(file(r), false),
            10 => Record::CalledFile(file(r), true),
            CALLED_FUNCTION => Record::CalledFunction(function(r)),
            JUMP_FILE => Record::JumpFile(file(r)),
            JUMP_FUNCTION => Record::JumpFunction(function(r)),
            INLINE => Record::Inline(function(r)),
            CALLS | 13 => Record::Calls { count: r.number(), target: r.positions(), recursive: tag != CALLS },
            JUMP => Record::Jump { followed: None, executed: r.number(), target: r.positions() },
            CONDITIONAL_JUMP => {
                Record::Jump { followed: Some(r.number()), executed: r.number(), target: r.positions() }
            }
            SUMMARY | TOTALS => {
                let n = r.number() as usize;
                let costs = r.skip_costs(n);
                if tag == SUMMARY { Record::Summary(costs) } else { Record::Totals(costs) }
            }
            _ => unreachable!("tag {tag} is never encoded"),
        })
    }
}
