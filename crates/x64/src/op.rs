//! What the tables say of an opcode.
//!
//! An [`Op`] holds what does not depend on the operands of one instruction. Sizes and widths are
//! formulas over operand size, vector length and broadcast, so that most opcodes need only one.

use crate::decoded::Kind;

/// One row of the table of opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Op {
    pub kind: Kind,
    pub imm: Imm,
    /// Bits of [`bits`].
    pub bits: u16,
    /// Bits of [`check`]: what makes an encoding invalid.
    pub checks: u32,
    /// Row of the table of flags.
    pub effect: u8,
    /// Size of the operand in memory.
    pub size: Size,
    /// What a displacement of one byte is multiplied with (EVEX).
    pub unit: Size,
    pub access: Access,
    /// The register in ModRM.reg.
    pub reg: Role,
    /// The register in ModRM.rm.
    pub rm: Role,
    /// The register in the opcode.
    pub opreg: Role,
    /// The register in vvvv.
    pub vvvv: Role,
    /// Row of the table of implied operands.
    pub implied: u8,
    pub idiom: Idiom,
}

/// Instructions of which something is known beyond their operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Idiom {
    None,
    /// `xor`, `sub` of two registers: of a register with itself, its value does not matter.
    Clear,
    /// Adds an immediate to a register.
    Add,
    /// Subtracts one.
    Sub,
    Inc,
    Dec,
    /// Copies a register.
    Mov,
    Lea,
    /// Pushes what is as wide as the stack.
    Push,
    Pop,
    /// `pop` of a register, which may be the stack pointer.
    PopRegister,
    Xchg,
    Cmpxchg,
    Cmpxchg8b,
    /// `bt` by a register.
    BitTest,
    /// `bts`, `btr`, `btc` by a register.
    BitModify,
    /// Cache control: no data is accessed.
    NoData,
    Fxsave,
    Fxrstor,
    Xsave,
    Xrstor,
    /// A gather of VEX.
    Gather,
    /// A masked move of VEX, of elements of four or eight bytes.
    Masked4,
    Masked8,
}

/// Bits of [`Op::bits`].
pub(crate) mod bits {
    /// ModRM or an absolute address names memory.
    pub const MEMORY: u16 = 1;
    /// ModRM names a register whatever its mod field says.
    pub const MOD_IGNORED: u16 = 2;
    /// A LOCK prefix is allowed.
    pub const LOCKABLE: u16 = 4;
    /// Raises an exception in an ordinary program.
    pub const PRIVILEGED: u16 = 8;
    /// A shift or rotation by an immediate: none of its flags is written when that is zero.
    pub const COUNT: u16 = 16;
    /// The index is a vector register of 32-bit elements.
    pub const VSIB32: u16 = 32;
    /// The index is a vector register of 64-bit elements.
    pub const VSIB64: u16 = 64;
    /// Index and scale are no part of the address.
    pub const INDEX_IGNORED: u16 = 128;
    /// Segment overrides are ignored.
    pub const FLAT: u16 = 256;
    /// `xlat`: its operand in memory is implied.
    pub const XLAT: u16 = 512;
    /// Not even an address is computed (`nop`).
    pub const UNUSED: u16 = 1024;
}

/// Bits of [`Op::checks`]: conditions of a valid encoding beyond the opcode.
pub(crate) mod check {
    /// vvvv is unused, so all ones.
    pub const NO_VVVV: u32 = 1;
    /// The same but for V', which extends the index.
    pub const NO_VVVV_LOW: u32 = 2;
    /// vvvv names one of eight registers.
    pub const VVVV_LOW: u32 = 4;
    /// ModRM.reg names one of eight registers.
    pub const REG_LOW: u32 = 8;
    /// ModRM.reg names one of sixteen registers.
    pub const REG_LOW16: u32 = 0x10;
    /// ModRM.rm names one of eight registers.
    pub const RM_LOW: u32 = 0x20;
    /// The operand can't be relative to `rip`.
    pub const NO_RIP: u32 = 0x40;
    /// The operand needs a SIB byte.
    pub const SIB: u32 = 0x80;
    /// No mask register.
    pub const NO_MASK: u32 = 0x100;
    /// A mask register other than k0.
    pub const MASK: u32 = 0x200;
    /// No zeroing.
    pub const NO_ZEROING: u32 = 0x400;
    /// Destination, index and mask of a gather differ.
    pub const GATHER: u32 = 0x800;
    /// Three registers that differ (tiles).
    pub const THREE: u32 = 0x1000;
    /// The destination differs from the sources.
    pub const FRESH: u32 = 0x2000;
    /// The immediate is the rest of the opcode (3DNow!).
    pub const SUFFIX: u32 = 0x4000;
    /// No address-size prefix.
    pub const ADDR64: u32 = 0x8000;
    /// An address-size prefix.
    pub const ADDR32: u32 = 0x1_0000;
}

/// What follows the operand bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Imm {
    /// Nothing.
    None,
    /// One byte.
    I8,
    /// Two bytes.
    I16,
    /// Three: a word and a byte (`enter`).
    I24,
    /// Four bytes.
    I32,
    /// Four bytes, or two with an operand-size prefix.
    Z,
    /// Eight, four or two bytes: as wide as the operand.
    V,
    /// An address: eight bytes, or four with an address-size prefix.
    Moffs,
}

/// What a size depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// An operand-size prefix is present.
    pub opsize: bool,
    /// REX.W or the like.
    pub wide: bool,
    /// Vector length in bytes.
    pub vector: u16,
    /// EVEX.b with an operand in memory.
    pub broadcast: bool,
}

/// A size in bytes: below 112 itself, else a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub u8);

impl Size {
    /// Operand size: eight, two or four bytes.
    pub const V: Size = Size(128);
    /// Eight bytes, or two with an operand-size prefix.
    pub const STACK: Size = Size(129);
    /// Two with a prefix, else four.
    pub const Z: Size = Size(130);
    /// Eight with W, else four.
    pub const Y: Size = Size(131);
    /// A far pointer.
    pub const FAR: Size = Size(132);
    /// Sixteen with W, else eight.
    pub const PAIR: Size = Size(133);
    /// x87 environment, 14 or 28.
    pub const X87_ENV: Size = Size(134);
    /// x87 state, 94 or 108.
    pub const X87_STATE: Size = Size(135);
    /// 512 bytes.
    pub const FXSAVE: Size = Size(136);
    /// The vector.
    pub const VECTOR: Size = Size(137);
    pub const HALF: Size = Size(138);
    pub const QUARTER: Size = Size(139);
    pub const EIGHTH: Size = Size(140);
    /// The vector, or one element of so many bytes with broadcast.
    pub const VECTOR_B2: Size = Size(141);
    pub const VECTOR_B4: Size = Size(142);
    pub const VECTOR_B8: Size = Size(143);
    pub const VECTOR_BY: Size = Size(144);
    pub const HALF_B2: Size = Size(145);
    pub const HALF_B4: Size = Size(146);
    pub const QUARTER_B2: Size = Size(147);
    /// Eight bytes of the shortest vector, else all of it.
    pub const DUP: Size = Size(148);
    /// All formulas.
    #[cfg(test)]
    pub const FORMULAS: [Size; 21] = {
        let mut all = [Size(128); 21];
        let mut n = 0;
        while n < 21 {
            all[n] = Size(128 + n as u8);
            n += 1;
        }
        all
    };

    /// The size in bytes.
    pub fn bytes(self, s: Shape) -> u16 {
        let by = |x: u16, element: u16| if s.broadcast { element } else { x };
        match self {
            Size(n @ 0..=127) => n as u16,
            Size::V if s.wide => 8,
            Size::V | Size::Z if s.opsize => 2,
            Size::V | Size::Z => 4,
            Size::STACK => {
                if s.opsize && !s.wide {
                    2
                } else {
                    8
                }
            }
            Size::Y => 4 << s.wide as u16,
            Size::FAR if s.wide => 10,
            Size::FAR => {
                if s.opsize {
                    4
                } else {
                    6
                }
            }
            Size::PAIR => 8 << s.wide as u16,
            Size::X87_ENV => {
                if s.opsize {
                    14
                } else {
                    28
                }
            }
            Size::X87_STATE => {
                if s.opsize {
                    94
                } else {
                    108
                }
            }
            Size::FXSAVE => 512,
            Size::VECTOR => s.vector,
            Size::HALF => s.vector / 2,
            Size::QUARTER => s.vector / 4,
            Size::EIGHTH => s.vector / 8,
            Size::VECTOR_B2 => by(s.vector, 2),
            Size::VECTOR_B4 => by(s.vector, 4),
            Size::VECTOR_B8 => by(s.vector, 8),
            Size::VECTOR_BY => by(s.vector, 4 << s.wide as u16),
            Size::HALF_B2 => by(s.vector / 2, 2),
            Size::HALF_B4 => by(s.vector / 2, 4),
            Size::QUARTER_B2 => by(s.vector / 4, 2),
            Size::DUP if s.vector == 16 => 8,
            _ => s.vector,
        }
    }
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Access {
    /// Not at all: the address is all that counts, or not even that.
    None,
    /// Read.
    Read,
    /// Written.
    Write,
    /// Read and written.
    Modify,
    /// Read, depending on a mask or a count.
    MayRead,
    /// Written, depending on a mask or a count.
    MayWrite,
    /// Read, and written depending on the operands.
    MayModify,
}

impl Access {
    /// Memory may be read.
    pub fn reads(self) -> bool {
        matches!(self, Access::Read | Access::Modify | Access::MayRead | Access::MayModify)
    }

    /// Memory may be written.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write | Access::Modify | Access::MayWrite | Access::MayModify)
    }
}

/// How a general-purpose register operand is used: an [`Access`] in the low bits, a width above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Role(pub u8);

impl Role {
    /// No general-purpose register.
    #[cfg(test)]
    pub const NONE: Role = Role(0);
    /// A byte; without REX, 4 to 7 are the second bytes of 0 to 3.
    pub const BYTE: u8 = 0x10;
    /// Two bytes; the rest keeps its value.
    #[cfg(test)]
    pub const WORD: u8 = 0x20;
    /// 32 or 64 bits.
    pub const FULL: u8 = 0x40;
    /// Operand size.
    pub const V: u8 = 0x80;

    /// What is done to the register.
    pub fn access(self) -> Access {
        match self.0 & 7 {
            0 => Access::None,
            1 => Access::Read,
            2 => Access::Write,
            3 => Access::Modify,
            4 => Access::MayRead,
            5 => Access::MayWrite,
            _ => Access::MayModify,
        }
    }
}

/// Registers and memory that an instruction uses without naming them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Implied {
    /// General-purpose registers, a bit each.
    pub read: u16,
    pub written: u16,
    pub may_write: u16,
    pub memory: &'static [ImpliedMemory],
}

/// Memory that an instruction accesses without naming it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ImpliedMemory {
    /// Number of the base register, [`ImpliedMemory::REG`] or [`ImpliedMemory::RM`].
    pub base: u8,
    /// Number of the index register, or [`ImpliedMemory::NO_INDEX`].
    pub index: u8,
    pub disp: i8,
    pub size: u8,
    pub access: Access,
    /// An `fs` or `gs` override counts.
    pub segment: bool,
}

impl ImpliedMemory {
    /// The register in ModRM.reg.
    pub const REG: u8 = 16;
    /// The register in ModRM.rm.
    pub const RM: u8 = 17;
    pub const NO_INDEX: u8 = 16;
}

/// What a node of the tables looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(test), allow(dead_code))]
#[repr(u8)]
pub(crate) enum Field {
    /// ModRM.mod is 3.
    Register,
    /// ModRM.reg without extension.
    Reg,
    /// ModRM.rm without extension.
    Rm,
    /// F3 or F2: 0, 1, 2.
    Repeat,
    /// 66.
    OpSize,
    /// REX.W or the like.
    Wide,
    /// Vector length, 0 to 3.
    Length,
    /// EVEX.b.
    Broadcast,
    /// The extension of ModRM.reg.
    RegHigh,
    /// The extension of ModRM.rm or of the register in the opcode.
    RmHigh,
}
