//! From bytes to an [`Insn`].
//!
//! The order is the CPU's: legacy prefixes, REX, escape or VEX, EVEX, XOP; opcode; ModRM, SIB,
//! displacement; immediate. One table entry per opcode says what follows; groups are refined once
//! ModRM is known. Nothing is looked at beyond the instruction, and at most 15 bytes.

use crate::insn::{Encoding, Insn, Kind, Prefixes};
use crate::op::{IMM, Imm, MOD_IGNORED, MODRM, Op, Refine};
use crate::refine::{Fields, refine};
use crate::tables::{Map, ONE_BYTE, THREE_BYTE_3A, THREE_BYTE_38, TWO_BYTE};
use crate::vector_tables::{EVEX_0F, EVEX_3A, EVEX_5, EVEX_6, EVEX_38, VEX_0F, VEX_3A, VEX_38, XOP};

/// Why bytes are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They end inside an instruction: more bytes could change the answer.
    Truncated,
    /// The instruction would be longer than 15 bytes; the CPU raises a general-protection fault.
    TooLong,
    /// There is no such instruction; the CPU raises an invalid-opcode fault.
    Invalid,
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the bytes end inside an instruction",
            DecodeError::TooLong => "the instruction is longer than 15 bytes",
            DecodeError::Invalid => "there is no such instruction",
        })
    }
}

impl core::error::Error for DecodeError {}

/// Longest instruction in bytes.
pub const MAX_LEN: usize = 15;

/// Bytes in front of a position.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline(always)]
    fn byte(&mut self) -> Result<u8, DecodeError> {
        match self.bytes.get(self.at) {
            Some(byte) => {
                self.at += 1;
                Ok(*byte)
            }
            None => Err(self.short()),
        }
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(self.short()),
        }
    }

    #[cold]
    fn short(&self) -> DecodeError {
        if self.bytes.len() == MAX_LEN { DecodeError::TooLong } else { DecodeError::Truncated }
    }
}

/// What prefixes and opcode say.
struct Head {
    op: Op,
    enc: Encoding,
    map: u8,
    opcode: u8,
    rex: u8,
    vvvv: u8,
    pp: u8,
    vector: u8,
    high: u8,
}

/// Bits of [`Prefixes`] by byte; 0 for bytes that are no legacy prefix, [`IGNORED`] for segment
/// overrides without meaning.
static PREFIX: [u8; 256] = {
    let mut t = [0; 256];
    t[0x66] = Prefixes::OPSIZE;
    t[0x67] = Prefixes::ADDRSIZE;
    t[0xf2] = Prefixes::REPNE;
    t[0xf3] = Prefixes::REP;
    t[0xf0] = Prefixes::LOCK;
    t[0x64] = Prefixes::FS;
    t[0x65] = Prefixes::GS;
    t[0x26] = IGNORED;
    t[0x2e] = IGNORED;
    t[0x36] = IGNORED;
    t[0x3e] = IGNORED;
    t
};

const IGNORED: u8 = 0x80;

/// Decodes the instruction at the start of `bytes`.
///
/// Only as many bytes are looked at as the instruction has; bytes beyond the fifteenth never.
/// Instructions that this decoder does not know, but whose length it can tell, are reported as
/// [`Kind::Plain`].
pub fn decode(bytes: &[u8]) -> Result<Insn, DecodeError> {
    let mut c = Cursor { bytes: &bytes[..bytes.len().min(MAX_LEN)], at: 0 };
    let mut prefixes = 0u8;
    let mut rex = 0u8;
    let mut byte = c.byte()?;
    loop {
        if byte & 0xf0 == 0x40 {
            rex = byte;
            byte = c.byte()?;
            continue;
        }
        let bit = PREFIX[byte as usize];
        if bit == 0 {
            break;
        }
        // REX counts only directly before the opcode.
        rex = 0;
        prefixes = add_prefix(prefixes, bit);
        byte = c.byte()?;
    }
    let prefixes = Prefixes(prefixes);
    let prefix_len = (c.at - 1) as u8;
    let pp = if prefixes.rep() {
        2
    } else if prefixes.repne() {
        3
    } else {
        prefixes.opsize() as u8
    };
    let legacy = |op: Op, map: u8, opcode: u8| Head {
        op,
        enc: Encoding::Legacy,
        map,
        opcode,
        rex,
        vvvv: 0,
        pp,
        vector: 0,
        high: 0,
    };
    let head = match byte {
        0x0f => {
            let opcode = c.byte()?;
            match opcode {
                0x38 => {
                    let opcode = c.byte()?;
                    legacy(entry(&THREE_BYTE_38, pp, opcode), 2, opcode)
                }
                0x3a => {
                    let opcode = c.byte()?;
                    legacy(entry(&THREE_BYTE_3A, pp, opcode), 3, opcode)
                }
                _ => legacy(entry(&TWO_BYTE, pp, opcode), 1, opcode),
            }
        }
        0xc4 | 0xc5 => vex(&mut c, byte)?,
        0x62 => evex(&mut c)?,
        0x8f => match c.bytes.get(c.at) {
            Some(next) if next & 0x1f >= 8 => xop(&mut c)?,
            Some(_) => legacy(ONE_BYTE[0x8f], 0, 0x8f),
            None => return Err(c.short()),
        },
        0xd5 => rex2(&mut c, pp)?,
        _ => legacy(ONE_BYTE[byte as usize], 0, byte),
    };
    finish(&mut c, head, prefixes, prefix_len)
}

/// The set with one more prefix: the last of `F2` and `F3`, and of `fs` and `gs`, counts.
#[inline]
fn add_prefix(prefixes: u8, bit: u8) -> u8 {
    let replaced = match bit {
        Prefixes::REP | Prefixes::REPNE => Prefixes::REP | Prefixes::REPNE,
        Prefixes::FS | Prefixes::GS => Prefixes::FS | Prefixes::GS,
        IGNORED => return prefixes,
        _ => 0,
    };
    prefixes & !replaced | bit
}

#[inline(always)]
fn entry(map: &Map, pp: u8, opcode: u8) -> Op {
    map[(pp as usize & 3) * 256 + opcode as usize]
}

/// `C5 RvvvvLpp` and `C4 RXBmmmmm WvvvvLpp`; R, X, B and vvvv are inverted.
fn vex(c: &mut Cursor, byte: u8) -> Result<Head, DecodeError> {
    let first = c.byte()?;
    let (map, rex, last) = if byte == 0xc5 {
        (1, 0x40 | (!first >> 7) << 2, first)
    } else {
        let last = c.byte()?;
        (first & 0x1f, 0x40 | (!first >> 5) & 7 | (last >> 7) << 3, last)
    };
    let opcode = c.byte()?;
    let pp = last & 3;
    let op = match map {
        // vzeroupper has no ModRM.
        1 if opcode == 0x77 => Op::BARE,
        1 => entry(&VEX_0F, pp, opcode),
        2 => entry(&VEX_38, pp, opcode),
        3 => entry(&VEX_3A, pp, opcode),
        7 => Op::MODRM.imm(Imm::Dword),
        _ => return Err(DecodeError::Invalid),
    };
    let vvvv = (!last >> 3) & 15;
    Ok(Head { op, enc: Encoding::Vex, map, opcode, rex, vvvv, pp, vector: (last & 4) << 3, high: 0 })
}

/// `62 RXBR'0mmm Wvvvv1pp zL'LbV'aaa`; the register bits are inverted.
fn evex(c: &mut Cursor) -> Result<Head, DecodeError> {
    let [first, second, third] = c.take::<3>()?;
    let opcode = c.byte()?;
    let pp = second & 3;
    let map = first & 7;
    let op = match map {
        1 => entry(&EVEX_0F, pp, opcode),
        2 => entry(&EVEX_38, pp, opcode),
        3 => entry(&EVEX_3A, pp, opcode),
        4 => promoted(opcode),
        5 => entry(&EVEX_5, pp, opcode),
        6 => entry(&EVEX_6, pp, opcode),
        _ => return Err(DecodeError::Invalid),
    };
    Ok(Head {
        op,
        enc: Encoding::Evex,
        map,
        opcode,
        rex: 0x40 | (!first >> 5) & 7 | (second >> 7) << 3,
        vvvv: (!second >> 3) & 15 | (!third & 8) << 1,
        pp,
        vector: third & 0x7f,
        high: !first & 0x10 | (!second & 4) << 3 | (first & 8) << 3,
    })
}

/// APX: legacy instructions in EVEX map 4. Their length is that of the legacy form, nothing else is
/// told of them but that they may do anything.
fn promoted(opcode: u8) -> Op {
    let like = ONE_BYTE[opcode as usize];
    let imm = match opcode {
        0x24 | 0x2c => Imm::Byte, // shld, shrd
        0xf6 | 0xf7 | 0x69 | 0x6b | 0x80 | 0x81 | 0x83 | 0xc0 | 0xc1 | 0xc6 | 0xc7 => match like.form & IMM {
            x if x == Imm::Byte as u8 => Imm::Byte,
            x if x == Imm::Z as u8 => Imm::Z,
            _ => Imm::None,
        },
        _ => Imm::None,
    };
    let refine = if matches!(opcode, 0xf6 | 0xf7) { Refine::Unary } else { Refine::None };
    Op::UNKNOWN.imm(imm).refine(refine)
}

/// `8F RXBmmmmm WvvvvLpp`.
fn xop(c: &mut Cursor) -> Result<Head, DecodeError> {
    let [first, last] = c.take::<2>()?;
    let opcode = c.byte()?;
    let map = first & 0x1f;
    let Some(table) = XOP.get(map as usize - 8) else { return Err(DecodeError::Invalid) };
    Ok(Head {
        op: table[opcode as usize],
        enc: Encoding::Xop,
        map,
        opcode,
        rex: 0x40 | (!first >> 5) & 7 | (last >> 7) << 3,
        vvvv: (!last >> 3) & 15,
        pp: last & 3,
        vector: (last & 4) << 3,
        high: 0,
    })
}

/// APX: `D5 MR'X'B'WRXB`, a REX with two bits each, before an opcode of the first two maps.
fn rex2(c: &mut Cursor, pp: u8) -> Result<Head, DecodeError> {
    let payload = c.byte()?;
    let opcode = c.byte()?;
    let map = payload >> 7;
    let op = match (map, opcode) {
        // jmpabs
        (0, 0xa1) => Op::UNKNOWN.imm(Imm::Moffs).kind(Kind::FarTransfer),
        (0, 0x40..=0x4f | 0x70..=0x7f | 0xa0..=0xaf | 0xe0..=0xef) => return Err(DecodeError::Invalid),
        (0, _) => ONE_BYTE[opcode as usize],
        (_, 0x30..=0x3f | 0x80..=0x8f) => return Err(DecodeError::Invalid),
        _ => entry(&TWO_BYTE, pp, opcode),
    };
    Ok(Head {
        op,
        enc: Encoding::Legacy,
        map,
        opcode,
        rex: 0x40 | payload & 15,
        vvvv: 0,
        pp,
        vector: 0,
        high: (payload & 0x40) >> 2 | payload & 0x20 | (payload & 0x10) << 2,
    })
}

/// Everything behind the opcode.
#[inline(always)]
fn finish(c: &mut Cursor, head: Head, prefixes: Prefixes, prefix_len: u8) -> Result<Insn, DecodeError> {
    let mut op = head.op;
    let mut insn = Insn {
        imm: 0,
        disp: 0,
        len: 0,
        kind: Kind::Plain,
        enc: head.enc,
        map: head.map,
        opcode: head.opcode,
        prefixes,
        rex: head.rex,
        vvvv: head.vvvv,
        has_modrm: false,
        modrm: 0,
        modrm_off: 0,
        prefix_len,
        has_sib: false,
        sib: 0,
        disp_off: 0,
        disp_size: 0,
        imm_off: 0,
        imm_size: 0,
        flags_read: Default::default(),
        flags_written: Default::default(),
        flags_may_write: Default::default(),
        pp: head.pp,
        vector: head.vector,
        high: head.high,
        op,
    };
    if op.form & MODRM != 0 {
        insn.has_modrm = true;
        insn.modrm_off = c.at as u8;
        let modrm = c.byte()?;
        insn.modrm = modrm;
        if op.refine != Refine::None {
            op = refine(op, Fields { modrm, pp: head.pp, rex: head.rex, opcode: head.opcode });
        }
        if modrm < 0xc0 && op.form & MOD_IGNORED == 0 {
            address(c, &mut insn)?;
        }
    } else if op.refine != Refine::None {
        op = refine(op, Fields { modrm: 0, pp: head.pp, rex: head.rex, opcode: head.opcode });
    }
    if op.form & IMM != 0 {
        immediate(c, &mut insn, op)?;
    }
    let effect = op.rule.effect(insn.opcode, insn.imm, insn.wide(), prefixes);
    insn.flags_read = effect.read;
    insn.flags_written = effect.written;
    insn.flags_may_write = effect.may_write;
    insn.kind = op.kind;
    insn.op = op;
    insn.len = c.at as u8;
    Ok(insn)
}

/// SIB and displacement.
#[inline(always)]
fn address(c: &mut Cursor, insn: &mut Insn) -> Result<(), DecodeError> {
    let mut low = insn.modrm & 7;
    if low == 4 {
        insn.has_sib = true;
        insn.sib = c.byte()?;
        low = insn.sib & 7;
    }
    insn.disp_off = c.at as u8;
    match insn.modrm >> 6 {
        1 => {
            insn.disp = c.byte()? as i8 as i32;
            insn.disp_size = 1;
        }
        0 if low != 5 => insn.disp_off = 0,
        _ => {
            insn.disp = i32::from_le_bytes(c.take()?);
            insn.disp_size = 4;
        }
    }
    Ok(())
}

#[inline(always)]
fn immediate(c: &mut Cursor, insn: &mut Insn, op: Op) -> Result<(), DecodeError> {
    let start = c.at;
    let form = op.form & IMM;
    let wide = insn.rex & 8 != 0;
    if form == Imm::Byte as u8 {
        insn.imm = c.byte()? as i8 as i64;
    } else if form == Imm::Dword as u8 {
        insn.imm = i32::from_le_bytes(c.take()?) as i64;
    } else if form == Imm::Z as u8 {
        insn.imm = if insn.prefixes.opsize() && !wide {
            i16::from_le_bytes(c.take()?) as i64
        } else {
            i32::from_le_bytes(c.take()?) as i64
        };
    } else if form == Imm::Full as u8 {
        insn.imm = if wide {
            i64::from_le_bytes(c.take()?)
        } else if insn.prefixes.opsize() {
            i16::from_le_bytes(c.take()?) as i64
        } else {
            i32::from_le_bytes(c.take()?) as i64
        };
    } else if form == Imm::Moffs as u8 {
        insn.imm = if insn.prefixes.addrsize() {
            u32::from_le_bytes(c.take()?) as i64
        } else {
            i64::from_le_bytes(c.take()?)
        };
        insn.disp_off = start as u8;
        insn.disp_size = (c.at - start) as u8;
        return Ok(());
    } else if form == Imm::Word as u8 {
        insn.imm = u16::from_le_bytes(c.take()?) as i64;
    } else if form == Imm::TwoBytes as u8 {
        insn.imm = i16::from_le_bytes(c.take()?) as i64;
    } else if form == Imm::Enter as u8 {
        let [low, high, level] = c.take()?;
        insn.imm = u32::from_le_bytes([low, high, level, 0]) as i64;
    } else {
        return Err(DecodeError::Invalid);
    }
    insn.imm_off = start as u8;
    insn.imm_size = (c.at - start) as u8;
    Ok(())
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;

    fn one(bytes: &[u8]) -> Insn {
        decode(bytes).unwrap_or_else(|e| panic!("{bytes:02x?}: {e:?}"))
    }

    #[test]
    fn branches_know_their_targets() {
        for (bytes, kind, target) in [
            (&[0xeb, 0xfe][..], Kind::Jmp, 0x1000),
            (&[0xe8, 1, 0, 0, 0], Kind::Call, 0x1006),
            (&[0x0f, 0x85, 0xfa, 0xff, 0xff, 0xff], Kind::Jcc, 0x1000),
            (&[0x74, 0x02], Kind::Jcc, 0x1004),
            (&[0xe3, 0x00], Kind::Loop, 0x1002),
            (&[0xc7, 0xf8, 2, 0, 0, 0], Kind::Xbegin, 0x1008),
        ] {
            let i = one(bytes);
            assert_eq!(
                (i.kind, i.target(0x1000), i.len as usize),
                (kind, target, bytes.len()),
                "{bytes:02x?}"
            );
        }
        assert_eq!(one(&[0x75, 0]).cc(), 5);
        assert_eq!(one(&[0x0f, 0x82, 0, 0, 0, 0]).cc(), 2);
        assert_eq!(one(&[0xc2, 0x10, 0x00]).imm, 16);
    }

    #[test]
    fn what_ends_a_block_is_told_from_what_does_not() {
        for bytes in
            [&[0xc3][..], &[0xff, 0xe0], &[0xff, 0x15, 0, 0, 0, 0], &[0x0f, 0x05], &[0xcc], &[0x0f, 0x0b]]
        {
            assert!(one(bytes).ends_block(), "{bytes:02x?}");
        }
        for bytes in [&[0x90][..], &[0xf3, 0xa4], &[0x0f, 0xa2], &[0x0f, 0x31], &[0xf3, 0x0f, 0x1e, 0xfa]] {
            assert!(!one(bytes).ends_block(), "{bytes:02x?}");
        }
    }

    #[test]
    fn rip_operands_are_found() {
        // mov rax, [rip + 0x11]; cmp dword [rip + 0x22], 7; vmovups ymm9, [rip + 0x33]
        for (bytes, disp, off, modrm) in [
            (&[0x48, 0x8b, 0x05, 0x11, 0, 0, 0][..], 0x11, 3, 2),
            (&[0x83, 0x3d, 0x22, 0, 0, 0, 7], 0x22, 2, 1),
            (&[0xc5, 0x7c, 0x10, 0x0d, 0x33, 0, 0, 0], 0x33, 4, 3),
        ] {
            let i = one(bytes);
            assert!(i.is_rip_relative() && i.mem_operand_modrm());
            assert_eq!((i.disp, i.disp_off, i.modrm_off), (disp, off, modrm), "{bytes:02x?}");
        }
        assert!(!one(&[0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]).is_rip_relative());
    }

    #[test]
    fn flags_are_killed_only_when_they_are_always_written() {
        let kills = |bytes: &[u8]| Flags::ALL_ARITH.without(one(bytes).flags_written).is_empty();
        assert!(kills(&[0x01, 0xd8])); // add
        assert!(kills(&[0x31, 0xc0])); // xor
        assert!(!kills(&[0xff, 0xc0])); // inc leaves CF
        assert!(!kills(&[0xd3, 0xe0])); // shl by cl may leave all
        assert!(!kills(&[0xc1, 0xe0, 0x00])); // by zero
        assert!(!kills(&[0xf3, 0xa6])); // repe cmpsb may run no iteration
        assert!(!kills(&[0x89, 0xc3])); // mov
        assert!(one(&[0x83, 0xd0, 0x00]).flags_read.intersects(Flags::ALL_ARITH)); // adc
    }

    #[test]
    fn too_few_bytes_are_told_from_nonsense() {
        assert_eq!(decode(&[0x48]).err(), Some(DecodeError::Truncated));
        assert_eq!(decode(&[0xe8, 1, 2]).err(), Some(DecodeError::Truncated));
        assert_eq!(decode(&[0x06; 15]).err(), Some(DecodeError::Invalid));
    }
}
