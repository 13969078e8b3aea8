//! Which general-purpose registers an instruction reads and writes.
//!
//! Sets are 16-bit masks, bit *n* for register number *n*. What is read is never less than the truth.
//! What is written comes twice: registers whose old value is gone for sure, and registers that may
//! change. Writes of 8 and 16 bits leave the rest of a register alone, so they are of the second kind.

use crate::insn::Insn;
use crate::op::{Implied, NO_ADDRESS, Operand, Use, Width};

const RAX: u16 = 1 << 0;
const RCX: u16 = 1 << 1;
const RDX: u16 = 1 << 2;
const RBX: u16 = 1 << 3;
const RSP: u16 = 1 << 4;
const RBP: u16 = 1 << 5;
const RSI: u16 = 1 << 6;
const RDI: u16 = 1 << 7;
const R11: u16 = 1 << 11;
const ALL: u16 = 0xffff;

/// Registers of an instruction, as bit masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Gprs {
    /// Read, also to compute addresses.
    pub read: u16,
    /// Overwritten in full whatever the operands are.
    pub written: u16,
    /// Overwritten in part or for some operands; includes `written`.
    pub may_write: u16,
}

impl Gprs {
    const fn new(read: u16, written: u16, may_write: u16) -> Gprs {
        Gprs { read, written, may_write: written | may_write }
    }

    const fn and(self, other: Gprs) -> Gprs {
        Gprs {
            read: self.read | other.read,
            written: self.written | other.written,
            may_write: self.may_write | other.may_write,
        }
    }
}

impl Insn {
    /// Registers read; a superset of the truth.
    pub fn gprs_read(&self) -> u16 {
        self.gprs().read
    }

    /// Registers overwritten in full whatever the operands are; a subset of the truth.
    pub fn gprs_written(&self) -> u16 {
        self.gprs().written
    }

    /// Registers that may change; a superset of the truth.
    pub fn gprs_may_write(&self) -> u16 {
        self.gprs().may_write
    }

    /// All three sets at once.
    pub fn gprs(&self) -> Gprs {
        let mut sum = self.implied_gprs();
        if self.has_op_modrm() {
            if self.op.reg != Operand::NONE {
                sum = sum.and(self.operand(self.op.reg, self.reg()));
            }
            if self.has_address() {
                sum.read |= self.address_gprs();
            } else if self.op.rm.width() != Width::Other {
                sum = sum.and(self.operand(self.op.rm, self.rm()));
                if self.clears_itself() {
                    sum.read = 0;
                }
            }
        }
        sum
    }

    /// `xor` or `sub` of a register with itself: the result doesn't depend on it.
    fn clears_itself(&self) -> bool {
        self.map == 0
            && matches!(self.opcode, 0x28..=0x2b | 0x30..=0x33)
            && self.modrm >= 0xc0
            && self.reg() == self.rm()
    }

    /// Registers that ModRM's address is computed from.
    pub fn address_gprs(&self) -> u16 {
        if !self.has_address() || self.op.form & NO_ADDRESS != 0 {
            return 0;
        }
        let extended_base = (self.rex as u16 & 1) << 3 | (self.high as u16 & 0x40) >> 2;
        let no_displacement = self.modrm < 0x40;
        if !self.has_sib {
            return match self.modrm & 7 {
                5 if no_displacement => 0,
                low => mask(low as u16 | extended_base),
            };
        }
        let base = match self.sib & 7 {
            5 if no_displacement => 0,
            low => mask(low as u16 | extended_base),
        };
        base | self.index().map_or(0, |index| mask(index as u16))
    }

    /// Number of the index register of ModRM's address, unless it is a vector register.
    pub(crate) fn index(&self) -> Option<u8> {
        let index = (self.sib >> 3) & 7 | (self.rex & 2) << 2 | (self.high & 0x20) >> 1;
        (self.has_sib && index != 4 && !self.has_vector_index()).then_some(index)
    }

    /// The effect of one register operand.
    fn operand(&self, operand: Operand, number: u8) -> Gprs {
        let (number, partial) = match operand.width() {
            Width::Other => return Gprs::default(),
            // ah, ch, dh, bh
            Width::B if self.rex == 0 && number >= 4 => (number - 4, true),
            Width::B | Width::W => (number, true),
            Width::V => (number, self.operand_size() == 2),
            Width::Stack => (number, self.operand_size() == 2),
            Width::D | Width::Q | Width::Y => (number, false),
        };
        let bit = mask(number as u16);
        match (operand.used(), partial) {
            (Use::No, _) => Gprs::default(),
            (Use::R, _) => Gprs::new(bit, 0, 0),
            (Use::W, false) => Gprs::new(0, bit, 0),
            (Use::W, true) => Gprs::new(0, 0, bit),
            (Use::Rw, false) => Gprs::new(bit, bit, 0),
            (Use::Rw, true) | (Use::Rc, _) => Gprs::new(bit, 0, bit),
        }
    }

    fn implied_gprs(&self) -> Gprs {
        let none = Gprs::default();
        // Written in full unless the operand has 16 bits.
        let sized = |read: u16, written: u16| {
            if self.operand_size() == 2 { Gprs::new(read, 0, written) } else { Gprs::new(read, written, 0) }
        };
        let opcode_register =
            || mask((self.opcode & 7 | (self.rex & 1) << 3 | (self.high & 0x40) >> 2) as u16);
        let repeated = self.prefixes.rep() || self.prefixes.repne();
        let string = |read: u16, moved: u16| {
            if repeated {
                Gprs::new(read | moved | RCX, 0, moved | RCX)
            } else {
                Gprs::new(read | moved, moved, 0)
            }
        };
        match self.op.implied {
            Implied::None => none,
            Implied::AlRead | Implied::AccRead => Gprs::new(RAX, 0, 0),
            Implied::AlModify => Gprs::new(RAX, 0, RAX),
            Implied::AlWrite | Implied::AxWrite => Gprs::new(0, 0, RAX),
            Implied::AccModify => sized(RAX, RAX),
            Implied::AccWrite => sized(0, RAX),
            Implied::OpModify => sized(opcode_register(), opcode_register()),
            Implied::OpWrite => sized(0, opcode_register()),
            Implied::OpByteWrite => {
                let number = self.opcode & 7;
                if self.rex == 0 {
                    Gprs::new(0, 0, mask(number as u16 & 3))
                } else {
                    Gprs::new(0, 0, opcode_register())
                }
            }
            Implied::OpSwap => sized(opcode_register() | RAX, opcode_register() | RAX),
            Implied::PushOp => Gprs::new(opcode_register() | RSP, RSP, 0),
            Implied::PopOp => sized(0, opcode_register()).and(Gprs::new(RSP, RSP, 0)),
            Implied::Push | Implied::Pop | Implied::CallPush | Implied::RetPop => Gprs::new(RSP, RSP, 0),
            Implied::Leave => sized(RBP, RBP).and(Gprs::new(0, RSP, 0)),
            Implied::Enter => sized(RSP | RBP, RBP).and(Gprs::new(RSP, RSP, 0)),
            Implied::Movs | Implied::Cmps => string(0, RSI | RDI),
            Implied::Stos | Implied::Scas => string(RAX, RDI),
            Implied::Lods => {
                let moved = string(0, RSI);
                let whole = self.opcode & 1 != 0 && self.operand_size() != 2 && !repeated;
                moved.and(if whole { Gprs::new(0, RAX, 0) } else { Gprs::new(0, 0, RAX) })
            }
            Implied::Ins => string(RDX, RDI),
            Implied::Outs => string(RDX, RSI),
            Implied::Xlat => Gprs::new(RAX | RBX, 0, RAX),
            Implied::Cwd => sized(RAX, RDX),
            Implied::MulByte | Implied::DivByte => Gprs::new(RAX, 0, RAX),
            Implied::Mul => sized(RAX, RAX | RDX),
            Implied::Div => sized(RAX | RDX, RAX | RDX),
            Implied::Cl => Gprs::new(RCX, 0, 0),
            Implied::CmpxchgByte | Implied::Cmpxchg => Gprs::new(RAX, 0, RAX),
            Implied::CmpxchgPair => Gprs::new(RAX | RBX | RCX | RDX, 0, RAX | RDX),
            Implied::Cpuid => Gprs::new(RAX | RCX, RAX | RBX | RCX | RDX, 0),
            Implied::Rdtsc => Gprs::new(0, RAX | RDX, 0),
            Implied::Rdtscp => Gprs::new(0, RAX | RCX | RDX, 0),
            Implied::ReadByCx => Gprs::new(RCX, RAX | RDX, 0),
            Implied::WriteByCx => Gprs::new(RAX | RCX | RDX, 0, 0),
            Implied::StateMask | Implied::WaitMask => Gprs::new(RAX | RCX | RDX, 0, 0),
            Implied::Syscall => Gprs::new(ALL, RCX | R11, RAX),
            Implied::LoopCount => Gprs::new(RCX, RCX, 0),
            Implied::JumpCount => Gprs::new(RCX, 0, 0),
            Implied::Lahf => Gprs::new(0, 0, RAX),
            Implied::Sahf => Gprs::new(RAX, 0, 0),
            Implied::InByte => Gprs::new(RDX, 0, RAX),
            Implied::In => sized(RDX, RAX),
            Implied::OutByte | Implied::Out => Gprs::new(RAX | RDX, 0, 0),
            Implied::MaskMove => Gprs::new(RDI, 0, 0),
            Implied::PcmpestrIndex => Gprs::new(RAX | RDX, RCX, 0),
            Implied::PcmpestrMask => Gprs::new(RAX | RDX, 0, 0),
            Implied::PcmpistrIndex => Gprs::new(0, RCX, 0),
            Implied::VvvvRead => Gprs::new(mask(self.vvvv as u16), 0, 0),
            Implied::VvvvWrite => Gprs::new(0, mask(self.vvvv as u16), 0),
            Implied::Mulx => Gprs::new(RDX, mask(self.vvvv as u16), 0),
            Implied::Movdir64b => none,
            Implied::AxAddress => Gprs::new(RAX | RCX | RDX, 0, 0),
            Implied::ReadAny => Gprs::new(ALL, 0, 0),
            Implied::Anything => Gprs::new(ALL, 0, ALL),
        }
    }
}

/// The mask of one register; the registers APX adds have none.
fn mask(number: u16) -> u16 {
    if number < 16 { 1 << number } else { 0 }
}
