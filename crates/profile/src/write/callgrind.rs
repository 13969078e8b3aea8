//! The Callgrind format, as it was read or made simpler for a consumer.
//!
//! With default [`Options`] every line comes back as it was. Spelling that carries no meaning is
//! normalised: white space between columns, the base of numbers, `\r`. Files by Callgrind itself
//! come back byte for byte, which includes the space it leaves after the last position.

use crate::model::{
    Columns, Costs, FileTag, Form, HeaderLine, NameSpace, Part, Positions, Profile, Record, SlotId,
};
use std::io::{self, Write};

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Compressed where they were.
    #[default]
    AsRead,
    /// In full each time.
    Full,
}

/// How positions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PositionStyle {
    /// Relative where they were.
    #[default]
    AsRead,
    /// As numbers.
    Absolute,
}

/// What to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Names.
    pub names: Names,
    /// Positions.
    pub positions: PositionStyle,
    /// Leave out the addresses of `positions: instr line`; makes positions absolute.
    pub no_instr: bool,
    /// Leave out `cfni=` lines.
    pub no_inline: bool,
    /// Leave out jumps.
    pub no_jumps: bool,
    /// Only the part with this index.
    pub part: Option<usize>,
}

/// The text of a profile.
pub fn callgrind(profile: &Profile) -> Vec<u8> {
    let mut text = Vec::new();
    callgrind_to(profile, Options::default(), &mut text).expect("writing to memory");
    text
}

/// Writes a profile.
pub fn callgrind_to(profile: &Profile, options: Options, out: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer {
        profile,
        options,
        written: NameSpace::ALL.map(|space| vec![false; profile.names.table(space).len()]),
        line: Vec::new(),
        trailing_space: false,
        columns: Columns::default(),
        keep_instr: true,
        at: [0; 2],
    };
    let creator = profile.parts.iter().find_map(|p| p.header.field("creator"));
    writer.trailing_space = creator.is_some_and(|c| c.starts_with("callgrind-"));
    for (index, part) in profile.parts.iter().enumerate() {
        if options.part.is_none_or(|wanted| wanted == index) {
            writer.part(part, out)?;
        }
    }
    Ok(())
}

struct Writer<'p> {
    profile: &'p Profile,
    options: Options,
    /// Whether the part defines a slot already, by space.
    written: [Vec<bool>; 3],
    line: Vec<u8>,
    trailing_space: bool,
    columns: Columns,
    keep_instr: bool,
    /// Absolute address and line.
    at: [u64; 2],
}

impl Writer<'_> {
    fn part(&mut self, part: &Part, out: &mut impl Write) -> io::Result<()> {
        self.columns = part.header.columns;
        // Each part defines its names anew, as Callgrind does and KCachegrind expects.
        self.written.iter_mut().for_each(|space| space.fill(false));
        self.keep_instr = !(self.options.no_instr && self.columns.line && self.columns.instr);
        for line in &part.header.lines {
            match line {
                HeaderLine::Blank => out.write_all(b"\n")?,
                HeaderLine::Comment(text) => {
                    out.write_all(text)?;
                    out.write_all(b"\n")?;
                }
                HeaderLine::Field { key, .. } if key == "positions" && !self.keep_instr => {
                    out.write_all(b"positions: line\n")?;
                }
                HeaderLine::Field { key, value } => {
                    write!(out, "{key}:")?;
                    out.write_all(value)?;
                    out.write_all(b"\n")?;
                }
            }
        }
        let mut in_jump = false;
        for segment in part.body.segments() {
            self.at = segment.start().at;
            for record in segment.records() {
                let jump =
                    matches!(record, Record::Jump { .. } | Record::JumpFile(_) | Record::JumpFunction(_));
                let inline = matches!(record, Record::Inline(_));
                let left_out = self.options.no_jumps && (jump || in_jump) || self.options.no_inline && inline;
                in_jump = jump || in_jump && matches!(record, Record::Blank | Record::Comment(_));
                self.line.clear();
                self.record(&record);
                if !left_out {
                    out.write_all(&self.line)?;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &Record) {
        match *record {
            Record::Blank => {}
            Record::Comment(text) => self.line.extend_from_slice(text),
            Record::Field { key, value } => {
                self.line.extend_from_slice(key);
                self.line.push(b':');
                self.line.extend_from_slice(value);
            }
            Record::Object(slot) => self.name(b"ob=", NameSpace::Object, slot),
            Record::File(FileTag::Function, slot) => self.name(b"fl=", NameSpace::File, slot),
            Record::File(FileTag::Included, slot) => self.name(b"fi=", NameSpace::File, slot),
            Record::File(FileTag::Back, slot) => self.name(b"fe=", NameSpace::File, slot),
            Record::Function(slot) => self.name(b"fn=", NameSpace::Function, slot),
            Record::CalledObject(slot) => self.name(b"cob=", NameSpace::Object, slot),
            Record::CalledFile(slot, false) => self.name(b"cfi=", NameSpace::File, slot),
            Record::CalledFile(slot, true) => self.name(b"cfl=", NameSpace::File, slot),
            Record::CalledFunction(slot) => self.name(b"cfn=", NameSpace::Function, slot),
            Record::JumpFile(slot) => self.name(b"jfi=", NameSpace::File, slot),
            Record::JumpFunction(slot) => self.name(b"jfn=", NameSpace::Function, slot),
            Record::Inline(slot) => self.name(b"cfni=", NameSpace::Function, slot),
            Record::Calls { count, ref target, recursive } => {
                self.line.extend_from_slice(if recursive { b"rcalls=" } else { b"calls=" });
                self.number(count);
                self.target(target);
            }
            Record::Jump { followed: Some(followed), executed, ref target } => {
                self.line.extend_from_slice(b"jcnd=");
                self.number(followed);
                self.line.push(b'/');
                self.number(executed);
                self.target(target);
            }
            Record::Jump { followed: None, executed, ref target } => {
                self.line.extend_from_slice(b"jump=");
                self.number(executed);
                self.target(target);
            }
            Record::Costs { ref at, costs } => {
                self.positions(at, true);
                self.costs(costs);
                if costs.is_empty() && self.trailing_space {
                    self.line.push(b' ');
                }
            }
            Record::Summary(costs) => {
                self.line.extend_from_slice(b"summary:");
                self.costs(costs);
            }
            Record::Totals(costs) => {
                self.line.extend_from_slice(b"totals:");
                self.costs(costs);
            }
        }
        self.line.push(b'\n');
    }

    fn name(&mut self, word: &[u8], space: NameSpace, id: SlotId) {
        self.line.extend_from_slice(word);
        let table = self.profile.names.table(space);
        let slot = table.slot(id);
        match slot.id.filter(|_| self.options.names == Names::AsRead) {
            None => self.line.extend_from_slice(table.bytes(slot.text)),
            Some(number) => {
                write!(self.line, "({number})").expect("writing to memory");
                if !std::mem::replace(&mut self.written[space as usize][id.0 as usize], true) {
                    self.line.push(b' ');
                    self.line.extend_from_slice(table.bytes(slot.text));
                }
            }
        }
    }

    fn target(&mut self, target: &Positions) {
        self.line.push(b' ');
        self.positions(target, false);
        if self.trailing_space && target.count > 0 {
            self.line.push(b' ');
        }
    }

    /// Writes positions with single spaces between them; `advance` makes them the current ones.
    fn positions(&mut self, at: &Positions, advance: bool) {
        let absolute = self.options.positions == PositionStyle::Absolute || !self.keep_instr;
        let mut first = true;
        for i in 0..at.count as usize {
            // Column 0 is the address where there is one; surplus columns are kept as they are.
            let axis = match i {
                0 => usize::from(!self.columns.instr),
                1 if self.columns.instr && self.columns.line => 1,
                _ => 2,
            };
            let before = self.at.get(axis).copied().unwrap_or(0);
            let now = at.form[i].resolve(at.value[i], before);
            if advance && axis < 2 {
                self.at[axis] = now;
            }
            if axis == 0 && !self.keep_instr {
                continue;
            }
            if !std::mem::replace(&mut first, false) {
                self.line.push(b' ');
            }
            let form = if absolute && axis < 2 { Form::Absolute } else { at.form[i] };
            match form {
                Form::Same => self.line.push(b'*'),
                Form::Plus => {
                    self.line.push(b'+');
                    self.number(at.value[i]);
                }
                Form::Minus => {
                    self.line.push(b'-');
                    self.number(at.value[i]);
                }
                Form::Absolute if axis == 0 => {
                    write!(self.line, "{now:#x}").expect("writing to memory");
                }
                Form::Absolute => self.number(now),
            }
        }
    }

    fn costs(&mut self, costs: Costs) {
        for cost in costs.iter() {
            self.line.push(b' ');
            if cost < 0 {
                self.line.push(b'-');
            }
            self.number(cost.unsigned_abs());
        }
    }

    fn number(&mut self, mut n: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.line.extend_from_slice(&digits[at..]);
    }
}
