//! A decoded instruction: its parts, its kind, and questions that need no further table.

use crate::flags::{Flags, condition};
use crate::op::{MODRM, Op, Size, VSIB};

/// What an instruction is to an engine that copies code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Nothing special: runs the same at any address (but see [`Insn::is_rip_relative`]).
    Plain,
    /// Direct jump; the distance is in [`Insn::imm`].
    Jmp,
    /// Conditional jump; the condition is [`Insn::cc`].
    Jcc,
    /// `loop`, `loope`, `loopne`, `jrcxz`: conditional by `rcx`, short distance only.
    Loop,
    /// Jump through a register or memory.
    JmpInd,
    /// Direct call.
    Call,
    /// Call through a register or memory.
    CallInd,
    /// Near return; [`Insn::imm`] is what it pops beyond the address.
    Ret,
    /// Far jump, call or return, `iret`, `sysret`, `sysexit`.
    FarTransfer,
    /// `syscall`.
    Syscall,
    /// `sysenter`.
    Sysenter,
    /// `int3`.
    Int3,
    /// `int n` and `int1`.
    Int,
    /// `ud0`, `ud1`, `ud2`.
    Ud,
    /// Needs privileges or permission: raises an exception in an ordinary program.
    Privileged,
    /// `cpuid`.
    Cpuid,
    /// `rdtsc`.
    Rdtsc,
    /// `rdtscp`.
    Rdtscp,
    /// `rdpid`.
    Rdpid,
    /// `xgetbv`.
    Xgetbv,
    /// `xsave` and its kin, `fxsave`.
    Xsave,
    /// `xrstor`, `xrstors`, `fxrstor`.
    Xrstor,
    /// `fnstenv`, `fnsave`: store the address of the last x87 instruction.
    FpuEnv,
    /// `movs`, `stos`, `lods`, `cmps`, `scas`, `ins`, `outs`, repeated or not.
    StringOp,
    /// `xbegin`; the distance to its fallback is in [`Insn::imm`].
    Xbegin,
    /// `xend`, `xabort`, `xtest`.
    Xend,
    /// `pushf`.
    Pushf,
    /// `popf`.
    Popf,
    /// `rdfsbase`, `rdgsbase`, `wrfsbase`, `wrgsbase`.
    FsGsBase,
    /// Loads a segment register.
    SegLoad,
    /// `rdpkru`, `wrpkru`.
    Pkru,
}

/// How opcode map and register extensions are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// Escape bytes and REX.
    Legacy,
    /// `C4` or `C5`.
    Vex,
    /// `62`.
    Evex,
    /// `8F` with a map of eight or more.
    Xop,
}

/// The legacy prefixes of an instruction.
///
/// Of `F2` and `F3` the last one counts, and so does the last segment override; `cs`, `ds`, `es` and
/// `ss` overrides mean nothing in 64-bit mode and take back an earlier `fs` or `gs` no more than the
/// CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Prefixes(pub(crate) u8);

impl Prefixes {
    pub(crate) const OPSIZE: u8 = 1;
    pub(crate) const ADDRSIZE: u8 = 2;
    pub(crate) const REP: u8 = 4;
    pub(crate) const REPNE: u8 = 8;
    pub(crate) const LOCK: u8 = 16;
    pub(crate) const FS: u8 = 32;
    pub(crate) const GS: u8 = 64;

    /// `66`.
    #[inline]
    pub const fn opsize(self) -> bool {
        self.0 & Self::OPSIZE != 0
    }

    /// `67`: addresses have 32 bits.
    #[inline]
    pub const fn addrsize(self) -> bool {
        self.0 & Self::ADDRSIZE != 0
    }

    /// `F3`.
    #[inline]
    pub const fn rep(self) -> bool {
        self.0 & Self::REP != 0
    }

    /// `F2`.
    #[inline]
    pub const fn repne(self) -> bool {
        self.0 & Self::REPNE != 0
    }

    /// `F0`.
    #[inline]
    pub const fn lock(self) -> bool {
        self.0 & Self::LOCK != 0
    }

    /// Memory operands are relative to the base of `fs`.
    #[inline]
    pub const fn seg_fs(self) -> bool {
        self.0 & Self::FS != 0
    }

    /// Memory operands are relative to the base of `gs`.
    #[inline]
    pub const fn seg_gs(self) -> bool {
        self.0 & Self::GS != 0
    }
}

/// One decoded instruction.
///
/// Offsets count from the first byte; a part that is absent has size 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Immediate, sign-extended; zero-extended for `ret n` and `enter`. Distance of direct branches,
    /// address of `mov al, [moffs]`.
    pub imm: i64,
    /// Displacement as encoded, sign-extended; EVEX scales one-byte displacements further.
    pub disp: i32,
    /// Length in bytes, 1 to 15.
    pub len: u8,
    /// What kind of instruction it is.
    pub kind: Kind,
    /// How it is encoded.
    pub enc: Encoding,
    /// Opcode map: 0 one byte, 1 `0F`, 2 `0F38`, 3 `0F3A`; EVEX also 4, 5, 6; VEX also 7; XOP 8, 9, 10.
    pub map: u8,
    /// Last byte of the opcode.
    pub opcode: u8,
    /// Legacy prefixes.
    pub prefixes: Prefixes,
    /// The REX byte, or 0; for the other encodings `0x40` and the W, R, X and B bits.
    pub rex: u8,
    /// Register in the vvvv field, 0 when there is none.
    pub vvvv: u8,
    /// A ModRM byte is present.
    pub has_modrm: bool,
    /// The ModRM byte.
    pub modrm: u8,
    /// Where the ModRM byte is.
    pub modrm_off: u8,
    /// Where the opcode's first byte (`0F` included), or the VEX, EVEX or XOP prefix, is.
    pub prefix_len: u8,
    /// A SIB byte is present.
    pub has_sib: bool,
    /// The SIB byte.
    pub sib: u8,
    /// Where the displacement is.
    pub disp_off: u8,
    /// 0, 1, 4; 8 for the absolute address of `mov al, [moffs]`, which is in `imm`.
    pub disp_size: u8,
    /// Where the immediate is.
    pub imm_off: u8,
    /// Size of the immediate in bytes.
    pub imm_size: u8,
    /// Flags whose values matter.
    pub flags_read: Flags,
    /// Flags overwritten whatever the operands are; includes those left undefined.
    pub flags_written: Flags,
    /// Flags overwritten for some operands; never less than `flags_written`.
    pub flags_may_write: Flags,
    /// Mandatory prefix: 0 none, 1 `66`, 2 `F3`, 3 `F2`.
    pub(crate) pp: u8,
    /// EVEX: bits 6 and 5 the vector length, 4 broadcast or rounding, 3 the inverted V', 2 to 0 the
    /// mask. VEX and XOP: bit 5 the vector length.
    pub(crate) vector: u8,
    /// Bits 4 of reg (0x10), index (0x20) and base (0x40) in EVEX and REX2, not inverted.
    pub(crate) high: u8,
    pub(crate) op: Op,
}

impl Insn {
    /// Number of the register in ModRM.reg with its extension.
    #[inline]
    pub const fn reg(&self) -> u8 {
        (self.modrm >> 3) & 7 | (self.rex & 4) << 1 | self.high & 0x10
    }

    /// Number of the register in ModRM.rm with its extension; meaningful when mod is 3.
    #[inline]
    pub const fn rm(&self) -> u8 {
        self.modrm & 7 | (self.rex & 1) << 3 | (self.high & 0x40) >> 2
    }

    /// REX.W or its like: the operand has 64 bits.
    #[inline]
    pub const fn wide(&self) -> bool {
        self.rex & 8 != 0
    }

    /// True when ModRM holds an address, also when nothing is accessed there (`lea`, `nop`).
    #[inline]
    pub const fn has_address(&self) -> bool {
        self.has_modrm && self.modrm < 0xc0 && self.op.form & crate::op::MOD_IGNORED == 0
    }

    /// True when ModRM names memory that the instruction accesses.
    #[inline]
    pub fn mem_operand_modrm(&self) -> bool {
        self.has_address() && self.op.mem != Size::Zero
    }

    /// True when ModRM's address is relative to the next instruction, also for `lea` and `nop`.
    #[inline]
    pub const fn is_rip_relative(&self) -> bool {
        self.has_address() && self.modrm & 0xc7 == 5
    }

    /// True when the address in ModRM is computed from `rsp`.
    #[inline]
    pub const fn uses_rsp_in_address(&self) -> bool {
        self.has_sib && self.sib & 7 == 4 && self.rex & 1 == 0 && self.high & 0x40 == 0
    }

    /// True when the index of the address is a vector register: gathers and scatters.
    #[inline]
    pub const fn has_vector_index(&self) -> bool {
        self.op.form & VSIB != 0
    }

    /// Where a direct branch at `pc` goes; for `xbegin` its fallback.
    #[inline]
    pub const fn target(&self, pc: u64) -> u64 {
        pc.wrapping_add(self.len as u64).wrapping_add(self.imm as u64)
    }

    /// Condition code of `jcc`, `setcc` and `cmovcc`.
    #[inline]
    pub const fn cc(&self) -> u8 {
        self.opcode & 15
    }

    /// Flags that the condition [`Insn::cc`] looks at.
    #[inline]
    pub const fn cc_flags(&self) -> Flags {
        condition(self.opcode)
    }

    /// True when execution does not simply go on behind the instruction, or an engine has to act on
    /// it before it does: transfers, system calls, traps.
    #[inline]
    pub const fn ends_block(&self) -> bool {
        matches!(
            self.kind,
            Kind::Jmp
                | Kind::Jcc
                | Kind::Loop
                | Kind::JmpInd
                | Kind::Call
                | Kind::CallInd
                | Kind::Ret
                | Kind::FarTransfer
                | Kind::Syscall
                | Kind::Sysenter
                | Kind::Int3
                | Kind::Int
                | Kind::Ud
                | Kind::Xbegin
        )
    }

    /// Size in bytes of an operand that follows the operand-size prefix and REX.W.
    #[inline]
    pub const fn operand_size(&self) -> u8 {
        if self.wide() {
            8
        } else if self.prefixes.opsize() {
            2
        } else {
            4
        }
    }

    /// Length of the vector registers in bytes: 16 unless VEX or EVEX says more.
    #[inline]
    pub const fn vector_size(&self) -> u16 {
        match self.enc {
            Encoding::Evex => 16 << ((self.vector >> 5) & 3),
            Encoding::Vex | Encoding::Xop => 16 << ((self.vector >> 5) & 1),
            Encoding::Legacy => 16,
        }
    }

    /// True when the instruction can raise an exception: it accesses memory, divides, computes in
    /// floating point, needs privileges, or is unknown.
    #[inline]
    pub fn may_fault(&self) -> bool {
        if self.kind != Kind::Plain {
            return !matches!(self.kind, Kind::Jmp | Kind::Jcc | Kind::Loop);
        }
        if self.enc != Encoding::Legacy || self.prefixes.lock() {
            return true;
        }
        match self.map {
            // push, pop, leave, enter, xlat, moffs, x87, wait, div, int
            0 => {
                self.mem_operand_modrm()
                    || match self.opcode {
                        0x50..=0x61 | 0x68 | 0x6a | 0x9b | 0xa0..=0xa3 | 0xc8..=0xcf | 0xd7..=0xdf => true,
                        0xf6 | 0xf7 => self.modrm & 0x30 == 0x30,
                        _ => false,
                    }
            }
            1 => {
                self.mem_operand_modrm()
                    || !matches!(self.opcode,
                        0x0d | 0x18..=0x1f | 0x40..=0x4f | 0x80..=0x9f | 0xa3 | 0xa4 | 0xa5 | 0xab | 0xac | 0xad
                        | 0xaf | 0xb0 | 0xb1 | 0xb3 | 0xb6..=0xb8 | 0xba..=0xbf | 0xc0 | 0xc1 | 0xc8..=0xcf)
            }
            _ => true,
        }
    }

    pub(crate) const fn has_op_modrm(&self) -> bool {
        self.op.form & MODRM != 0
    }
}
