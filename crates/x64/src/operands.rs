//! Which registers and what memory an instruction uses: answered on demand.

use crate::decoded::{Encoding, Insn};
use crate::op::{Access, Idiom, ImpliedMemory, Role, bits};
use crate::tables::IMPLIED;

/// Sets of general-purpose registers; bit `n` is register `n` as ModRM counts them (`rax`, `rcx`, `rdx`,
/// `rbx`, `rsp`, ...).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gprs {
    /// Their values may matter, for operands or for addresses.
    pub read: u16,
    /// All of their 64 bits are always overwritten.
    pub written: u16,
    /// Some of their bits may be overwritten; includes `written`.
    pub may_write: u16,
}

/// Base of the address of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Zero.
    Flat,
    /// That of `fs`.
    Fs,
    /// That of `gs`.
    Gs,
}

/// One operand in memory, or several by a vector of indices.
///
/// The address is segment base + (base + index * scale + disp), the sum cut to 32 bits with `narrow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Segment.
    pub segment: Segment,
    /// Number of the base register.
    pub base: Option<u8>,
    /// Number of the index register: a general-purpose one, or a vector register (see `elements`).
    pub index: Option<u8>,
    /// Multiplier of the index: 1, 2, 4 or 8.
    pub scale: u8,
    /// Displacement; relative to the next instruction with `rip`.
    pub disp: i64,
    /// The displacement is relative to the address of the next instruction.
    pub rip: bool,
    /// Addresses are cut to 32 bits.
    pub narrow: bool,
    /// What is done.
    pub access: Access,
    /// Bytes at one address; 0 where the CPU's configuration decides (`xsave`, tiles).
    pub size: u16,
    /// How many addresses a gather or scatter has at most, each of them by its mask; 1 for others.
    pub elements: u8,
    /// Bytes of one element of the index vector; 0 where the index is no vector.
    pub index_size: u8,
}

impl Insn {
    /// The operand that ModRM or an absolute address names, with [`Access::None`] where only its address
    /// counts.
    pub fn memory(&self) -> Option<Memory> {
        let op = self.op();
        if !self.mem_operand_modrm() || op.bits & bits::XLAT != 0 {
            return None;
        }
        let shape = self.shape();
        let mut m = Memory {
            segment: if op.bits & bits::FLAT != 0 { Segment::Flat } else { self.segment() },
            base: None,
            index: None,
            scale: 1,
            disp: self.disp as i64,
            rip: false,
            narrow: self.prefixes.addrsize(),
            access: match op.access {
                Access::Write if self.enc == Encoding::Evex && self.vector & 7 != 0 => Access::MayWrite,
                access => access,
            },
            size: op.size.bytes(shape),
            elements: 1,
            index_size: 0,
        };
        if op.imm == crate::op::Imm::Moffs {
            m.disp = self.imm;
            return Some(m);
        }
        if self.modrm >> 6 == 1 && self.enc == Encoding::Evex {
            m.disp *= op.unit.bytes(shape) as i64;
        }
        let low = if self.has_sib() { self.sib & 7 } else { self.modrm & 7 };
        match (self.modrm >> 6, low) {
            (0, 5) => m.rip = !self.has_sib(),
            _ => m.base = Some(low | (self.rex & 1) << 3),
        }
        // `pop` computes its operand's address with the stack pointer after it.
        if m.base == Some(4) && self.enc == Encoding::Legacy && self.opcode == 0x8f {
            m.disp += m.size as i64;
        }
        if self.has_sib() && op.bits & bits::INDEX_IGNORED == 0 {
            m.index_size = match op.bits & (bits::VSIB32 | bits::VSIB64) {
                0 => 0,
                bits::VSIB32 => 4,
                _ => 8,
            };
            if m.index_size != 0 || self.index() != 4 {
                m.index = Some(self.index());
                m.scale = 1 << (self.sib >> 6);
            }
            if m.index_size != 0 {
                m.elements = (shape.vector / m.size.max(m.index_size as u16).max(1)) as u8;
            }
        }
        Some(m)
    }

    /// Memory that is accessed without being named: the stack, operands of string instructions.
    pub fn implied_memory(&self) -> impl Iterator<Item = Memory> + use<> {
        let insn = *self;
        self.op_implied().memory.iter().map(move |m| Memory {
            segment: if m.segment { insn.segment() } else { Segment::Flat },
            base: Some(match m.base {
                ImpliedMemory::REG => insn.reg(),
                ImpliedMemory::RM => insn.rm(),
                base => base,
            }),
            index: (m.index != ImpliedMemory::NO_INDEX).then_some(m.index),
            scale: 1,
            disp: m.disp as i64,
            rip: false,
            // The stack pointer always has 64 bits.
            narrow: insn.prefixes.addrsize() && !matches!(m.base, 4 | 5),
            access: m.access,
            size: m.size as u16,
            elements: 1,
            index_size: 0,
        })
    }

    /// General-purpose registers.
    pub fn gprs(&self) -> Gprs {
        let op = self.op();
        let implied = self.op_implied();
        let mut sum = Gprs { read: implied.read, written: implied.written, may_write: implied.may_write };
        if let Some(m) = self.memory().filter(|_| op.bits & bits::UNUSED == 0) {
            for register in [m.base, m.index.filter(|_| m.index_size == 0)].into_iter().flatten() {
                sum.read |= 1 << register;
            }
            if op.bits & bits::INDEX_IGNORED != 0 && self.has_sib() && self.index() != 4 {
                sum.read |= 1 << self.index();
            }
        }
        if op.idiom == Idiom::Clear && self.modrm >= 0xc0 && self.reg() == self.rm() {
            let written = Role((op.reg.0 | op.rm.0) & !7 | Access::Write as u8);
            self.add(&mut sum, written, self.reg());
            return sum;
        }
        self.add(&mut sum, op.reg, self.reg());
        if self.modrm >= 0xc0 || op.bits & bits::MOD_IGNORED != 0 {
            self.add(&mut sum, op.rm, self.rm());
        }
        self.add(&mut sum, op.opreg, self.opcode & 7 | (self.rex & 1) << 3);
        self.add(&mut sum, op.vvvv, self.vvvv);
        sum
    }

    fn add(&self, sum: &mut Gprs, role: Role, number: u8) {
        let access = role.access();
        if access == Access::None {
            return;
        }
        let second_byte = role.0 & Role::BYTE != 0 && self.enc == Encoding::Legacy && self.rex == 0;
        let bit = 1u16 << (if second_byte { number & 3 } else { number & 15 });
        if access.reads() {
            sum.read |= bit;
        }
        if access.writes() {
            sum.may_write |= bit;
            let whole = role.0 & Role::FULL != 0
                || role.0 & Role::V != 0 && (!self.prefixes.opsize() || self.rex & 8 != 0);
            if whole && matches!(access, Access::Write | Access::Modify) {
                sum.written |= bit;
            }
        }
    }

    fn segment(&self) -> Segment {
        if self.prefixes.seg_fs() {
            Segment::Fs
        } else if self.prefixes.seg_gs() {
            Segment::Gs
        } else {
            Segment::Flat
        }
    }

    fn op_implied(&self) -> &'static crate::op::Implied {
        &IMPLIED[self.op().implied as usize]
    }
}
