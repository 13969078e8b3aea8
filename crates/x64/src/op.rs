//! What the tables say of one opcode.
//!
//! An [`Op`] is eight bytes, so that a refined copy travels in a register. Operands follow the
//! manual's notation: *reg* and *rm* are the two fields of ModRM; each has an [`Access`] and, when it
//! is a general-purpose register, a [`Width`]. The size of a memory operand follows from the width
//! unless `mem` says otherwise.

use crate::flags::Rule;
use crate::insn::Kind;

/// Bit of [`Op::form`]: a ModRM byte follows.
pub(crate) const MODRM: u8 = 0x80;
/// Bit of [`Op::form`]: ModRM names a register whatever its mod field says (`mov cr`).
pub(crate) const MOD_IGNORED: u8 = 0x40;
/// Bit of [`Op::form`]: the index of the memory operand is a vector register.
pub(crate) const VSIB: u8 = 0x20;
/// Bit of [`Op::form`]: the address in ModRM is not even computed (`nop`).
pub(crate) const NO_ADDRESS: u8 = 0x10;
/// The part of [`Op::form`] that is an [`Imm`].
pub(crate) const IMM: u8 = 0x0f;

/// What follows the operand bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Imm {
    /// Nothing.
    None,
    /// One byte, sign-extended.
    Byte,
    /// Two bytes, zero-extended.
    Word,
    /// Four bytes, or two with an operand-size prefix.
    Z,
    /// As wide as the operand: eight, four or two bytes.
    Full,
    /// The address of `mov al, [moffs]`: eight bytes, or four with an address-size prefix.
    Moffs,
    /// `enter`: two bytes and one.
    Enter,
    /// Four bytes, whatever the prefixes.
    Dword,
    /// Two bytes of one each (`extrq`, `insertq`).
    TwoBytes,
    /// Not an immediate: no such instruction.
    Invalid,
}

/// How an operand is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Use {
    /// Not at all, or only for its address.
    No,
    /// Read.
    R,
    /// Written.
    W,
    /// Read and written.
    Rw,
    /// Read, and written for some operands.
    Rc,
}

/// Width of a general-purpose register operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Width {
    /// Another kind of register.
    Other,
    /// Eight bits.
    B,
    /// Sixteen bits.
    W,
    /// Sixteen, 32 or 64 bits by prefixes.
    V,
    /// 32 bits.
    D,
    /// 64 bits.
    Q,
    /// 32 or 64 bits by REX.W alone.
    Y,
    /// 64 bits, or sixteen with an operand-size prefix: push, pop.
    Stack,
}

/// A use and a width in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand(u8);

impl Operand {
    pub(crate) const NONE: Operand = Operand(0);

    pub(crate) const fn new(width: Width, used: Use) -> Operand {
        Operand((width as u8) << 3 | used as u8)
    }

    pub(crate) const fn used(self) -> Use {
        match self.0 & 7 {
            0 => Use::No,
            1 => Use::R,
            2 => Use::W,
            3 => Use::Rw,
            _ => Use::Rc,
        }
    }

    pub(crate) const fn width(self) -> Width {
        match self.0 >> 3 {
            0 => Width::Other,
            1 => Width::B,
            2 => Width::W,
            3 => Width::V,
            4 => Width::D,
            5 => Width::Q,
            6 => Width::Y,
            _ => Width::Stack,
        }
    }
}

/// Size of the memory operand named by ModRM. "Vector" is 16 bytes, or the length VEX and EVEX say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Size {
    /// That of the register it could be instead.
    Width,
    /// Nothing is accessed: lea, nop, prefetch.
    Zero,
    N1,
    N2,
    N4,
    N8,
    N16,
    N32,
    N64,
    /// Ten bytes: 80-bit floating point, packed BCD, descriptor tables.
    N10,
    /// 384 bits (key handles).
    N48,
    N512,
    /// Vector.
    Vector,
    /// Half a vector.
    Half,
    Quarter,
    Eighth,
    /// Vector without a prefix or with 66, four bytes with F3, eight with F2.
    Float,
    /// Eight bytes without a prefix (MMX), else vector.
    Mmx,
    /// Four bytes without a prefix (MMX), else vector.
    MmxLow,
    /// Eight bytes without a prefix (MMX), else sixteen: shift counts.
    MmxCount,
    /// Four bytes, or eight with W.
    Scalar,
    /// Eight bytes for the shortest vector, else the whole vector.
    Dup,
    /// A far pointer: offset by operand size, and two bytes of selector.
    Far,
    /// Two pointers of `bound`, or twice the operand size (`cmpxchg8b`).
    Pair,
    /// 14 or 28 bytes of x87 environment.
    FpuEnv,
    /// 94 or 108 bytes of x87 state.
    FpuState,
    /// As much as the CPU's state components need.
    XsaveArea,
    /// Half a vector, or all of it with W.
    HalfUnlessWide,
    /// One, two, four or eight bytes of mask by W and prefix.
    Mask,
    /// A vector packed to the elements the mask selects.
    Packed,
    /// Tile rows with a stride.
    Tile,
}

/// Registers and memory an instruction uses without naming them in ModRM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Implied {
    None,
    /// `al` or `rax`, read.
    AlRead,
    AlModify,
    AlWrite,
    AccRead,
    AccModify,
    AccWrite,
    /// The register in the opcode's low three bits.
    OpModify,
    OpWrite,
    OpByteWrite,
    /// `xchg` of the accumulator and the register in the opcode.
    OpSwap,
    /// push of the register in the opcode.
    PushOp,
    PopOp,
    /// Something is pushed.
    Push,
    Pop,
    /// Near call and return.
    CallPush,
    RetPop,
    Leave,
    Enter,
    Movs,
    Cmps,
    Stos,
    Lods,
    Scas,
    Ins,
    Outs,
    Xlat,
    Cwd,
    MulByte,
    Mul,
    DivByte,
    Div,
    Cl,
    CmpxchgByte,
    Cmpxchg,
    CmpxchgPair,
    Cpuid,
    Rdtsc,
    Rdtscp,
    ReadByCx,
    WriteByCx,
    StateMask,
    Syscall,
    LoopCount,
    JumpCount,
    Lahf,
    Sahf,
    /// fnstsw ax
    AxWrite,
    /// `in` and `out` with the port in the immediate or in `dx`.
    InByte,
    In,
    OutByte,
    Out,
    MaskMove,
    PcmpestrIndex,
    PcmpestrMask,
    PcmpistrIndex,
    /// VEX.vvvv is a general-purpose register.
    VvvvRead,
    VvvvWrite,
    Mulx,
    /// The reg field addresses the destination: movdir64b, enqcmd.
    Movdir64b,
    /// `[rax]`: clzero, monitor.
    AxAddress,
    WaitMask,
    /// All registers may be read.
    ReadAny,
    /// All registers may be read and written.
    Anything,
}

/// Facts that depend on ModRM or on a mandatory prefix, and are settled once these are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Refine {
    /// Nothing to settle.
    None,
    /// 80, 81, 83.
    Alu,
    /// C0, C1, D0 to D3.
    Shift,
    /// F6, F7.
    Unary,
    /// FE.
    IncDec,
    /// FF.
    Group5,
    /// 8F.
    Pop,
    /// C6, C7.
    MovImm,
    /// 90.
    Nop,
    /// D8 to DF.
    Fpu,
    /// 0F00.
    Group6,
    /// 0F01.
    Group7,
    /// 0FBA.
    Group8,
    /// 0FC7.
    Group9,
    /// 0FAE.
    Group15,
    /// 0FAE in VEX.
    VexGroup15,
    /// F3 0F1E.
    Rdssp,
    /// 0FA6, 0FA7.
    Padlock,
    /// F3 0F38 D8, DC to DF.
    KeyLocker,
    /// F2 and F3 0F38 F8.
    DirectStore,
    /// F3 0F3A F0.
    Hreset,
    /// 0F38 49 in VEX.
    TileConfig,
}

/// Facts about one opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    /// Bits: [`MODRM`], [`MOD_IGNORED`], [`VSIB`], and an [`Imm`].
    pub form: u8,
    pub kind: Kind,
    pub rule: Rule,
    pub reg: Operand,
    pub rm: Operand,
    pub mem: Size,
    pub implied: Implied,
    pub refine: Refine,
}

impl Op {
    /// An instruction of nothing but its opcode.
    pub(crate) const BARE: Op = Op {
        form: 0,
        kind: Kind::Plain,
        rule: Rule::None,
        reg: Operand::NONE,
        rm: Operand::NONE,
        mem: Size::Width,
        implied: Implied::None,
        refine: Refine::None,
    };

    /// No such instruction.
    pub(crate) const INVALID: Op = Op { form: Imm::Invalid as u8, ..Op::BARE };

    /// With ModRM, of which nothing else is known.
    pub(crate) const MODRM: Op = Op { form: MODRM, mem: Size::Zero, ..Op::BARE };

    /// With ModRM; may do anything.
    pub(crate) const UNKNOWN: Op =
        Op::BARE.rm(Width::V, Use::Rw).reg(Width::V, Use::Rw).implied(Implied::Anything).rule(Rule::Anything);

    pub(crate) const fn imm(self, imm: Imm) -> Op {
        Op { form: self.form & !IMM | imm as u8, ..self }
    }

    pub(crate) const fn kind(self, kind: Kind) -> Op {
        Op { kind, ..self }
    }

    pub(crate) const fn rule(self, rule: Rule) -> Op {
        Op { rule, ..self }
    }

    pub(crate) const fn reg(self, width: Width, used: Use) -> Op {
        Op { reg: Operand::new(width, used), ..self }
    }

    /// rm is a general-purpose register or memory of the same size.
    pub(crate) const fn rm(self, width: Width, used: Use) -> Op {
        Op { form: self.form | MODRM, rm: Operand::new(width, used), mem: Size::Width, ..self }
    }

    /// rm is another kind of register or memory of the given size.
    pub(crate) const fn mem(self, size: Size, used: Use) -> Op {
        Op { form: self.form | MODRM, rm: Operand::new(Width::Other, used), mem: size, ..self }
    }

    /// Changes the size of memory, not the register.
    pub(crate) const fn size(self, size: Size) -> Op {
        Op { mem: size, ..self }
    }

    pub(crate) const fn implied(self, implied: Implied) -> Op {
        Op { implied, ..self }
    }

    pub(crate) const fn refine(self, refine: Refine) -> Op {
        Op { refine, ..self }
    }

    pub(crate) const fn with(self, form: u8) -> Op {
        Op { form: self.form | form, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_fits_a_register() {
        assert_eq!(size_of::<Op>(), 8);
    }
}
