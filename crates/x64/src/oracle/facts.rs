//! What iced-x86 says of an instruction, in this crate's words.

use crate::decoded::{DecodeError, Flags, Kind};
use crate::op::Access;
use iced_x86::{
    Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, Mnemonic, OpAccess, OpKind,
    Register, RflagsBits,
};

/// Decodes with iced, at address 0.
pub fn decode(bytes: &[u8]) -> Result<Instruction, DecodeError> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let insn = decoder.decode();
    if !insn.is_invalid() {
        return Ok(insn);
    }
    Err(match decoder.last_error() {
        DecoderError::NoMoreBytes => DecodeError::Truncated,
        _ => DecodeError::Invalid,
    })
}

/// Flags by iced's bits; those of x87 are no flags here.
pub fn flags(set: u32) -> Flags {
    let pairs = [
        (RflagsBits::CF, Flags::CF),
        (RflagsBits::PF, Flags::PF),
        (RflagsBits::AF, Flags::AF),
        (RflagsBits::ZF, Flags::ZF),
        (RflagsBits::SF, Flags::SF),
        (RflagsBits::OF, Flags::OF),
        (RflagsBits::DF, Flags::DF),
        (RflagsBits::IF | RflagsBits::AC | RflagsBits::UIF, Flags::SYSTEM),
    ];
    pairs.iter().filter(|(bit, _)| set & bit != 0).fold(Flags(0), |sum, (_, flag)| sum.union(*flag))
}

/// The kind that flow control and mnemonic amount to.
pub fn kind(i: &Instruction) -> Kind {
    match i.flow_control() {
        FlowControl::Next if i.is_string_instruction() => Kind::StringOp,
        FlowControl::Next => Kind::Plain,
        FlowControl::UnconditionalBranch if i.is_jmp_short_or_near() => Kind::Jmp,
        FlowControl::IndirectBranch if i.is_jmp_near_indirect() => Kind::JmpInd,
        FlowControl::ConditionalBranch if i.is_jcc_short_or_near() => Kind::Jcc,
        FlowControl::ConditionalBranch => Kind::Loop,
        FlowControl::Return if i.mnemonic() == Mnemonic::Ret => Kind::Ret,
        FlowControl::Call if i.is_call_near() => Kind::Call,
        FlowControl::Call if i.code() == Code::Syscall => Kind::Syscall,
        FlowControl::IndirectCall if i.is_call_near_indirect() => Kind::CallInd,
        FlowControl::Interrupt if i.code() == Code::Int3 => Kind::Int3,
        FlowControl::Interrupt => Kind::Int,
        FlowControl::XbeginXabortXend if i.mnemonic() == Mnemonic::Xbegin => Kind::Xbegin,
        FlowControl::XbeginXabortXend => Kind::Plain,
        FlowControl::Exception => Kind::Ud,
        _ => Kind::FarTransfer,
    }
}

/// The instruction shifts or rotates a general-purpose register or memory.
pub fn is_shift(i: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(i.mnemonic(), Shl | Shr | Sar | Sal | Rol | Ror | Rcl | Rcr | Shld | Shrd)
}

/// Flags that are overwritten whatever the operands hold: a shift by a count of zero leaves them alone, and
/// so does a repeated instruction without iterations.
pub fn always_written(i: &Instruction) -> Flags {
    let count = i.op_count().wrapping_sub(1);
    if is_shift(i) && (i.op_kind(count) == OpKind::Register || i.immediate(count) & 0x1f == 0) {
        return Flags(0);
    }
    // Through CF, a byte or a word comes back after 9 or 17 places.
    let narrow = matches!(
        i.code(),
        Code::Rcl_rm8_imm8 | Code::Rcr_rm8_imm8 | Code::Rcl_rm16_imm8 | Code::Rcr_rm16_imm8
    );
    if narrow {
        return Flags(0);
    }
    if i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix()) {
        return Flags(0);
    }
    flags(i.rflags_modified())
}

/// An access in this crate's words.
pub fn access(a: OpAccess) -> Access {
    match a {
        OpAccess::None | OpAccess::NoMemAccess => Access::None,
        OpAccess::Read => Access::Read,
        OpAccess::CondRead => Access::MayRead,
        OpAccess::Write => Access::Write,
        OpAccess::CondWrite => Access::MayWrite,
        OpAccess::ReadWrite => Access::Modify,
        OpAccess::ReadCondWrite => Access::MayModify,
    }
}

/// Number of a general-purpose register.
pub fn gpr(register: Register) -> Option<u8> {
    register.is_gpr().then(|| (register.full_register() as u32 - Register::RAX as u32) as u8)
}

/// The instruction names memory by ModRM or by an absolute address.
pub fn names_memory(i: &Instruction) -> bool {
    (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory)
}
