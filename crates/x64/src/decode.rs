//! From bytes to an [`Insn`].
//!
//! The order is the CPU's: legacy prefixes and REX; escape bytes, VEX, EVEX or XOP; opcode; ModRM, SIB,
//! displacement; immediate. The opcode's entry in the tables leads to a row of [`OPS`], over nodes where other
//! fields have a say. What is said of a valid instruction in general is in the row; operands are answered on
//! demand (`operands`).

use crate::decoded::{ADDRSIZE, FS, GS, LOCK, OPSIZE, REP, REPNE};
use crate::decoded::{DecodeError, Encoding, Flags, Insn, Kind, Prefixes};
use crate::op::{Field, Imm, bits, check};
use crate::tables::{EFFECTS, NODES, PAGES, ROOTS, SUFFIXES};

/// Longest instruction in bytes.
const MAX_LEN: usize = 15;

/// Bit of an entry: it is the number of a node.
pub(crate) const NODE: u16 = 0x8000;
/// Bit of an opcode's entry: ModRM follows.
pub(crate) const MODRM: u16 = 0x4000;

/// Number of the first page of a form of prefix; a page for each map and mandatory prefix follows.
pub(crate) const LEGACY_PAGES: usize = 1;
pub(crate) const VEX_PAGES: usize = 13;
pub(crate) const EVEX_PAGES: usize = 25;
pub(crate) const XOP_PAGES: usize = 49;
#[cfg(test)]
pub(crate) const PAGE_COUNT: usize = 61;

const REX: u8 = 0x80;
const IGNORED: u8 = 0x81;

/// By byte: 0 for an opcode, [`REX`], [`IGNORED`] or a bit of [`Prefixes`].
static PREFIX: [u8; 256] = {
    let mut t = [0; 256];
    let mut n = 0x40;
    while n < 0x50 {
        t[n] = REX;
        n += 1;
    }
    t[0x66] = OPSIZE;
    t[0x67] = ADDRSIZE;
    t[0xf2] = REPNE;
    t[0xf3] = REP;
    t[0xf0] = LOCK;
    t[0x64] = FS;
    t[0x65] = GS;
    t[0x26] = IGNORED;
    t[0x2e] = IGNORED;
    t[0x36] = IGNORED;
    t[0x3e] = IGNORED;
    t
};

/// The bytes of an instruction and how many are read.
struct Cursor<'b> {
    bytes: &'b [u8; MAX_LEN],
    at: usize,
}

impl Cursor<'_> {
    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at += 1;
                Some(byte)
            }
            None => self.exhausted(),
        }
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(chunk) => {
                self.at += N;
                Some(*chunk)
            }
            None => self.exhausted(),
        }
    }

    #[cold]
    fn exhausted<T>(&mut self) -> Option<T> {
        self.at = MAX_LEN + 1;
        None
    }
}

/// Decodes the instruction at the start of `bytes` (up to 15 of them), in 64-bit mode.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<Insn, DecodeError> {
    match bytes.first_chunk::<MAX_LEN>() {
        Some(bytes) => instruction(&mut Cursor { bytes, at: 0 }).ok_or(DecodeError::Invalid),
        None => decode_short(bytes),
    }
}

/// Decodes fewer bytes than an instruction may have.
#[cold]
fn decode_short(bytes: &[u8]) -> Result<Insn, DecodeError> {
    let mut padded = [0; MAX_LEN];
    padded[..bytes.len()].copy_from_slice(bytes);
    let mut c = Cursor { bytes: &padded, at: 0 };
    let insn = instruction(&mut c);
    if c.at > bytes.len() { Err(DecodeError::Truncated) } else { insn.ok_or(DecodeError::Invalid) }
}

/// What prefixes and opcode say.
struct Head {
    entry: u16,
    enc: Encoding,
    opcode: u8,
    rex: u8,
    vvvv: u8,
    vector: u8,
    reg_high: u8,
}

#[inline(always)]
fn root(page: usize, opcode: u8) -> u16 {
    ROOTS[PAGES[page] as usize][opcode as usize]
}

#[inline]
fn instruction(c: &mut Cursor) -> Option<Insn> {
    let (mut prefixes, mut rex) = (0, 0);
    let mut byte = c.byte()?;
    loop {
        match PREFIX[byte as usize] {
            0 => break,
            REX => rex = byte,
            bit => {
                // REX counts only directly before the opcode; of some prefixes the last one counts.
                rex = 0;
                prefixes = match bit {
                    IGNORED => prefixes,
                    REP | REPNE => prefixes & !(REP | REPNE) | bit,
                    FS | GS => prefixes & !(FS | GS) | bit,
                    _ => prefixes | bit,
                };
            }
        }
        byte = c.byte()?;
    }
    let prefix_len = c.at - 1;
    let legacy =
        |entry, opcode| Head { entry, enc: Encoding::Legacy, opcode, rex, vvvv: 0, vector: 0, reg_high: 0 };
    let head = match byte {
        0x0f => {
            let pp = match prefixes & (REP | REPNE) {
                0 => (prefixes & OPSIZE) as usize,
                REP => 2,
                _ => 3,
            };
            let opcode = c.byte()?;
            let entry = match opcode {
                0x38 => root(LEGACY_PAGES + 4 + pp, c.byte()?),
                0x3a => root(LEGACY_PAGES + 8 + pp, c.byte()?),
                _ => root(LEGACY_PAGES + pp, opcode),
            };
            legacy(entry, opcode)
        }
        0x62 | 0x8f | 0xc4 | 0xc5 => {
            let next = *c.bytes.get(c.at)?;
            if byte == 0x8f && next & 0x1f < 8 {
                legacy(ROOTS[0][0x8f], byte)
            } else if prefixes & (OPSIZE | REP | REPNE | LOCK) != 0 || rex != 0 {
                return None;
            } else {
                vector_head(c, byte)?
            }
        }
        _ => legacy(ROOTS[0][byte as usize], byte),
    };
    operands(c, head, Prefixes(prefixes), prefix_len as u8)
}

/// VEX, EVEX and XOP. Register bits are stored inverted.
fn vector_head(c: &mut Cursor, byte: u8) -> Option<Head> {
    if byte == 0xc5 {
        let [first, opcode] = c.take()?;
        return Some(Head {
            entry: root(VEX_PAGES + (first & 3) as usize, opcode),
            enc: Encoding::Vex,
            opcode: 0,
            rex: 0x40 | (!first >> 7) << 2,
            vvvv: !first >> 3 & 15,
            vector: (first & 4) << 3,
            reg_high: 0,
        });
    }
    let [first, second] = c.take()?;
    let pp = (second & 3) as usize;
    let rex = 0x40 | second >> 4 & 8 | !first >> 5;
    let vvvv = !second >> 3 & 15;
    if byte == 0x62 {
        if first & 8 != 0 || second & 4 == 0 {
            return None;
        }
        let [vector, opcode] = c.take()?;
        let map = (first & 7) as usize;
        // Zeroing needs a mask.
        if !(1..=6).contains(&map) || vector & 0x87 == 0x80 {
            return None;
        }
        let entry = root(EVEX_PAGES + (map - 1) * 4 + pp, opcode);
        return Some(Head {
            entry,
            enc: Encoding::Evex,
            opcode: 0,
            rex,
            vvvv,
            vector,
            reg_high: !first & 0x10,
        });
    }
    let opcode = c.byte()?;
    let map = (first & 0x1f) as usize;
    let (enc, page) = match (byte, map) {
        (0xc4, 1..=3) => (Encoding::Vex, VEX_PAGES + (map - 1) * 4),
        (0x8f, 8..=10) => (Encoding::Xop, XOP_PAGES + (map - 8) * 4),
        _ => return None,
    };
    let vector = (second & 4) << 3;
    Some(Head { entry: root(page + pp, opcode), enc, opcode: 0, rex, vvvv, vector, reg_high: 0 })
}

/// Everything behind the opcode.
#[inline(always)]
fn operands(c: &mut Cursor, head: Head, prefixes: Prefixes, prefix_len: u8) -> Option<Insn> {
    let mut insn = Insn {
        imm: 0,
        disp: 0,
        op: 0,
        len: 0,
        kind: Kind::Plain,
        enc: head.enc,
        opcode: head.opcode,
        prefixes,
        rex: head.rex,
        vvvv: head.vvvv,
        modrm: 0,
        modrm_off: c.at as u8,
        sib: 0,
        prefix_len,
        disp_off: 0,
        vector: head.vector,
        reg_high: head.reg_high,
        flags_read: Flags(0),
        flags_written: Flags(0),
    };
    let mut entry = head.entry;
    if entry & MODRM != 0 {
        insn.modrm = c.byte()?;
    }
    while entry & NODE != 0 {
        let node = (entry & !(NODE | MODRM)) as usize;
        entry = NODES[node + 1 + field(NODES[node], &insn) as usize];
    }
    insn.op = entry & !MODRM;
    if insn.op == 0 {
        return None;
    }
    let op = insn.op();
    insn.kind = op.kind;
    insn.disp_off = c.at as u8;
    if head.entry & MODRM != 0 && insn.modrm < 0xc0 && op.bits & bits::MOD_IGNORED == 0 {
        address(c, &mut insn)?;
    }
    if op.imm != Imm::None {
        immediate(c, &mut insn, op.imm)?;
    }
    if op.checks != 0 && !is_valid(&insn, op.checks)
        || prefixes.lock() && (op.bits & bits::LOCKABLE == 0 || insn.modrm >= 0xc0)
    {
        return None;
    }
    let effect = &EFFECTS[op.effect as usize];
    insn.flags_read = effect.0;
    insn.flags_written = effect.1;
    if op.bits & bits::COUNT != 0 && insn.imm & 0x1f == 0 {
        insn.flags_written = Flags(0);
    }
    insn.len = c.at as u8;
    Some(insn)
}

#[inline(always)]
fn field(field: u16, insn: &Insn) -> u8 {
    const REGISTER: u16 = Field::Register as u16;
    const REG: u16 = Field::Reg as u16;
    const RM: u16 = Field::Rm as u16;
    const REPEAT: u16 = Field::Repeat as u16;
    const OP_SIZE: u16 = Field::OpSize as u16;
    const WIDE: u16 = Field::Wide as u16;
    const LENGTH: u16 = Field::Length as u16;
    const BROADCAST: u16 = Field::Broadcast as u16;
    const REG_HIGH: u16 = Field::RegHigh as u16;
    match field {
        REGISTER => (insn.modrm >= 0xc0) as u8,
        REG => insn.modrm >> 3 & 7,
        RM => insn.modrm & 7,
        REPEAT => (insn.prefixes.0 / REP) & 3,
        OP_SIZE => insn.prefixes.opsize() as u8,
        WIDE => insn.rex >> 3 & 1,
        LENGTH => insn.vector >> 5 & 3,
        BROADCAST => insn.vector >> 4 & 1,
        REG_HIGH => insn.rex >> 2 & 1,
        _ => insn.rex & 1,
    }
}

/// SIB and displacement.
#[inline(always)]
fn address(c: &mut Cursor, insn: &mut Insn) -> Option<()> {
    let mut low = insn.modrm & 7;
    if low == 4 {
        insn.sib = c.byte()?;
        insn.disp_off += 1;
        low = insn.sib & 7;
    }
    match insn.modrm >> 6 {
        0 if low != 5 => {}
        1 => insn.disp = c.byte()? as i8 as i32,
        _ => insn.disp = i32::from_le_bytes(c.take()?),
    }
    Some(())
}

#[inline(always)]
fn immediate(c: &mut Cursor, insn: &mut Insn, imm: Imm) -> Option<()> {
    let wide = insn.rex & 8 != 0;
    insn.imm = match imm {
        Imm::None => 0,
        Imm::I8 => c.byte()? as i8 as i64,
        Imm::I16 => u16::from_le_bytes(c.take()?) as i64,
        Imm::I24 => {
            let [low, high, _] = c.take()?;
            u16::from_le_bytes([low, high]) as i64
        }
        Imm::V if wide => i64::from_le_bytes(c.take()?),
        Imm::Moffs if insn.prefixes.addrsize() => u32::from_le_bytes(c.take()?) as i64,
        Imm::Moffs => i64::from_le_bytes(c.take()?),
        Imm::Z | Imm::V if insn.prefixes.opsize() && !wide => i16::from_le_bytes(c.take()?) as i64,
        _ => i32::from_le_bytes(c.take()?) as i64,
    };
    Some(())
}

/// What makes an encoding invalid although its opcode is not.
#[inline(never)]
fn is_valid(insn: &Insn, checks: u32) -> bool {
    let has = |bit| checks & bit != 0;
    let memory = insn.modrm < 0xc0;
    let is_evex = insn.enc == Encoding::Evex;
    let vvvv = insn.vvvv | insn.vvvv_high();
    let mask = insn.vector & 7;
    let (reg, index) = (insn.reg(), insn.index());
    let rm = insn.rm() | if is_evex { (insn.rex & 2) << 3 } else { 0 };
    !(has(check::NO_VVVV) && vvvv != 0
        || has(check::NO_VVVV_LOW) && insn.vvvv != 0
        || has(check::VVVV_LOW) && vvvv > 7
        || has(check::REG_LOW) && reg > 7
        || has(check::REG_LOW16) && reg > 15
        || has(check::RM_LOW) && !memory && rm > 7
        || has(check::NO_RIP) && insn.modrm & 0xc7 == 5
        || has(check::SIB) && !insn.has_sib()
        || has(check::NO_MASK) && mask != 0
        || has(check::MASK) && mask == 0
        || has(check::NO_ZEROING) && insn.vector & 0x80 != 0
        || has(check::GATHER) && (reg == index || !is_evex && (reg == insn.vvvv || index == insn.vvvv))
        || has(check::THREE) && (reg == rm || reg == vvvv || rm == vvvv)
        || has(check::FRESH) && (reg == vvvv || !memory && reg == rm)
        || has(check::SUFFIX) && SUFFIXES[insn.imm as u8 as usize / 64] >> (insn.imm & 63) & 1 == 0
        || has(check::ADDR64) && insn.prefixes.addrsize()
        || has(check::ADDR32) && !insn.prefixes.addrsize())
}
