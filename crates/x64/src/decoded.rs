//! One instruction, decoded.

use crate::op::{Op, Shape, bits};
use crate::tables::{EFFECTS, OPS};

/// Why bytes are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// More bytes could make one.
    Truncated,
    /// No instruction begins so.
    Invalid,
}

/// Form of an instruction's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Prefix bytes and REX.
    Legacy,
    /// VEX.
    Vex,
    /// EVEX.
    Evex,
    /// XOP.
    Xop,
}

/// What an instruction means for the flow of control and for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// None of the others.
    Plain,
    /// Direct jump.
    Jmp,
    /// Conditional jump.
    Jcc,
    /// `loop`, `loope`, `loopne`, `jrcxz`.
    Loop,
    /// Indirect near jump.
    JmpInd,
    /// Direct call.
    Call,
    /// Indirect near call.
    CallInd,
    /// Near return.
    Ret,
    /// Far jump, call or return, and others that leave the flat code segment.
    FarTransfer,
    /// `syscall`.
    Syscall,
    /// `int3`.
    Int3,
    /// Other software interrupts.
    Int,
    /// An instruction defined to fault.
    Ud,
    /// String instruction, with or without a repeat prefix.
    StringOp,
    /// `xbegin`.
    Xbegin,
}

/// A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flags(pub(crate) u8);

impl Flags {
    /// OF, SF, ZF, AF, CF and PF.
    pub const ALL_ARITH: Flags = Flags(0x3f);
    /// CF.
    pub const CF: Flags = Flags(1);
    /// PF.
    pub const PF: Flags = Flags(2);
    /// AF.
    pub const AF: Flags = Flags(4);
    /// ZF.
    pub const ZF: Flags = Flags(8);
    /// SF.
    pub const SF: Flags = Flags(16);
    /// OF.
    pub const OF: Flags = Flags(32);
    /// DF.
    pub const DF: Flags = Flags(64);
    /// Those of the system: IF, AC and user interrupts.
    pub const SYSTEM: Flags = Flags(128);

    /// True when the sets have a flag in common.
    pub fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags that the other set does not have.
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// True for no flag.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags of both.
    pub fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The arithmetic flags alone.
    pub fn arith(self) -> Flags {
        Flags(self.0 & Self::ALL_ARITH.0)
    }
}

pub(crate) const OPSIZE: u8 = 1;
pub(crate) const ADDRSIZE: u8 = 2;
pub(crate) const REP: u8 = 4;
pub(crate) const REPNE: u8 = 8;
pub(crate) const LOCK: u8 = 16;
pub(crate) const FS: u8 = 32;
pub(crate) const GS: u8 = 64;

/// Legacy prefixes; of segment and of repeat prefixes the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(pub(crate) u8);

impl Prefixes {
    /// `66`
    pub fn opsize(self) -> bool {
        self.0 & OPSIZE != 0
    }
    /// `67`
    pub fn addrsize(self) -> bool {
        self.0 & ADDRSIZE != 0
    }
    /// `f3`
    pub fn rep(self) -> bool {
        self.0 & REP != 0
    }
    /// `f2`
    pub fn repne(self) -> bool {
        self.0 & REPNE != 0
    }
    /// `f0`
    pub fn lock(self) -> bool {
        self.0 & LOCK != 0
    }
    /// `64`
    pub fn seg_fs(self) -> bool {
        self.0 & FS != 0
    }
    /// `65`
    pub fn seg_gs(self) -> bool {
        self.0 & GS != 0
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct Insn {
    /// Distance of a direct branch from the next instruction; bytes that a return pops besides; the address
    /// of a `mov` with an absolute one; the first or only immediate of others, with its sign.
    pub imm: i64,
    /// Displacement as it is encoded; a `rip` operand's is always four bytes.
    pub disp: i32,
    pub(crate) op: u16,
    /// Length in bytes.
    pub len: u8,
    /// What it means.
    pub kind: Kind,
    /// Form of its prefix.
    pub enc: Encoding,
    /// Opcode byte of legacy instructions (the second one after `0f`); 0 in other forms.
    pub opcode: u8,
    /// Legacy prefixes.
    pub prefixes: Prefixes,
    /// REX byte, or 0; for other forms 0x40 and the same four bits.
    pub rex: u8,
    /// Register named by VEX.vvvv and the like (its low four bits), 0 where there is none.
    pub vvvv: u8,
    /// The ModRM byte; 0 where there is none.
    pub modrm: u8,
    /// Offset of that byte.
    pub modrm_off: u8,
    /// The SIB byte; 0 where there is none.
    pub sib: u8,
    /// Offset of the opcode (after REX) or of the VEX, EVEX or XOP prefix.
    pub prefix_len: u8,
    /// Offset of the displacement, or where it would be.
    pub disp_off: u8,
    /// EVEX's last byte: zeroing, length, broadcast, V' (inverted), mask. Length likewise for VEX and XOP.
    pub(crate) vector: u8,
    /// EVEX: bit 4 of ModRM.reg.
    pub(crate) reg_high: u8,
    /// Flags read.
    pub flags_read: Flags,
    /// Flags that are always overwritten, if with undefined values.
    pub flags_written: Flags,
}

impl Insn {
    pub(crate) fn op(&self) -> &'static Op {
        &OPS[self.op as usize]
    }
    /// It has an operand relative to the next instruction's address.
    pub fn is_rip_relative(&self) -> bool {
        self.modrm & 0xc7 == 5 && self.mem_operand_modrm()
    }
    /// It has a memory operand that a ModRM byte or an absolute address names, even if nothing is accessed
    /// there (`lea`).
    pub fn mem_operand_modrm(&self) -> bool {
        self.op().bits & bits::MEMORY != 0 && self.modrm < 0xc0
    }
    /// Its memory operand has a vector of indices.
    pub fn is_vector_indexed(&self) -> bool {
        self.has_sib() && self.op().bits & (bits::VSIB32 | bits::VSIB64) != 0
    }
    /// The base of its memory operand is `rsp`.
    pub fn has_rsp_base(&self) -> bool {
        self.has_sib() && self.sib & 7 == 4 && self.rex & 1 == 0
    }
    /// It raises an exception in an ordinary program, as far as that does not depend on the system.
    pub fn is_privileged(&self) -> bool {
        self.op().bits & bits::PRIVILEGED != 0
    }
    /// Flags that are overwritten for some operands: a shift by a register leaves them alone when that is zero.
    pub fn flags_may_write(&self) -> Flags {
        EFFECTS[self.op().effect as usize].2
    }
    /// Target of a direct branch at `pc`.
    pub fn target(&self, pc: u64) -> u64 {
        pc.wrapping_add(self.len as u64).wrapping_add(self.imm as u64)
    }
    /// Condition code of a conditional jump.
    pub fn cc(&self) -> u8 {
        self.opcode & 15
    }
    /// Nothing after it belongs to the same block.
    pub fn ends_block(&self) -> bool {
        !matches!(self.kind, Kind::Plain | Kind::StringOp)
    }
    /// A ModRM byte follows the opcode.
    pub(crate) fn has_modrm(&self) -> bool {
        self.disp_off != self.modrm_off
    }
    /// It has an operand in memory with a SIB byte.
    pub(crate) fn has_sib(&self) -> bool {
        self.modrm & 7 == 4 && self.modrm < 0xc0
    }
    /// Number in ModRM.reg, with extensions.
    pub(crate) fn reg(&self) -> u8 {
        self.modrm >> 3 & 7 | (self.rex & 4) << 1 | self.reg_high
    }
    /// Number of the general-purpose register in ModRM.rm.
    pub(crate) fn rm(&self) -> u8 {
        self.modrm & 7 | (self.rex & 1) << 3
    }
    /// V' of EVEX as bit 4.
    pub(crate) fn vvvv_high(&self) -> u8 {
        if self.enc == Encoding::Evex { (!self.vector & 8) << 1 } else { 0 }
    }
    /// Number of the index register, with extensions.
    pub(crate) fn index(&self) -> u8 {
        let low = self.sib >> 3 & 7 | (self.rex & 2) << 2;
        if self.op().bits & (bits::VSIB32 | bits::VSIB64) != 0 { low | self.vvvv_high() } else { low }
    }
    /// What sizes depend on.
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            opsize: self.prefixes.opsize(),
            wide: self.rex & 8 != 0,
            vector: 16 << (self.vector >> 5 & 3),
            broadcast: self.enc == Encoding::Evex && self.vector & 0x10 != 0 && self.modrm < 0xc0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

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
