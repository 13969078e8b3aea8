//! What iced-x86 says of an instruction, in this crate's words.

use iced_x86::{
    Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, Register, RflagsBits,
};
use tallygraph_x64::{Flags, Gprs, Kind};

/// Decodes with iced: the instruction, or whether more bytes might help.
pub fn decode(bytes: &[u8]) -> Result<Instruction, DecoderError> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let insn = decoder.decode();
    if insn.is_invalid() { Err(decoder.last_error()) } else { Ok(insn) }
}

/// Flags by iced's bits.
pub fn flags(bits: u32) -> Flags {
    let pairs = [
        (RflagsBits::CF, Flags::CF),
        (RflagsBits::PF, Flags::PF),
        (RflagsBits::AF, Flags::AF),
        (RflagsBits::ZF, Flags::ZF),
        (RflagsBits::SF, Flags::SF),
        (RflagsBits::OF, Flags::OF),
        (RflagsBits::DF, Flags::DF),
    ];
    pairs.iter().filter(|(bit, _)| bits & bit != 0).fold(Flags::EMPTY, |sum, (_, flag)| sum | *flag)
}

/// The kind that flow control and mnemonic amount to; `None` where iced draws no line.
pub fn kind(insn: &Instruction) -> Option<Kind> {
    Some(match insn.flow_control() {
        FlowControl::UnconditionalBranch if insn.is_jmp_short_or_near() => Kind::Jmp,
        FlowControl::ConditionalBranch if insn.is_jcc_short_or_near() => Kind::Jcc,
        FlowControl::ConditionalBranch => Kind::Loop,
        FlowControl::IndirectBranch if insn.is_jmp_near_indirect() => Kind::JmpInd,
        FlowControl::IndirectCall if insn.is_call_near_indirect() => Kind::CallInd,
        FlowControl::Call if insn.is_call_near() => Kind::Call,
        FlowControl::Call if insn.code() == Code::Syscall => Kind::Syscall,
        FlowControl::Call if insn.code() == Code::Sysenter => Kind::Sysenter,
        FlowControl::Return if insn.mnemonic() == Mnemonic::Ret => Kind::Ret,
        FlowControl::Interrupt if insn.code() == Code::Int3 => Kind::Int3,
        FlowControl::Interrupt => Kind::Int,
        FlowControl::Exception => Kind::Ud,
        FlowControl::XbeginXabortXend if insn.mnemonic() == Mnemonic::Xbegin => Kind::Xbegin,
        FlowControl::XbeginXabortXend => Kind::Xend,
        // Outside system management mode there is no `rsm`.
        FlowControl::Return if insn.code() == Code::Rsm => return None,
        FlowControl::Call | FlowControl::IndirectCall if insn.is_privileged() => return None,
        FlowControl::Next => match insn.mnemonic() {
            _ if insn.is_string_instruction() => Kind::StringOp,
            Mnemonic::Cpuid => Kind::Cpuid,
            Mnemonic::Rdtsc => Kind::Rdtsc,
            Mnemonic::Rdtscp => Kind::Rdtscp,
            Mnemonic::Rdpid => Kind::Rdpid,
            Mnemonic::Xgetbv => Kind::Xgetbv,
            Mnemonic::Pushf | Mnemonic::Pushfd | Mnemonic::Pushfq => Kind::Pushf,
            Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => Kind::Popf,
            Mnemonic::Rdpkru | Mnemonic::Wrpkru => Kind::Pkru,
            Mnemonic::Rdfsbase | Mnemonic::Rdgsbase | Mnemonic::Wrfsbase | Mnemonic::Wrgsbase => {
                Kind::FsGsBase
            }
            Mnemonic::Xsave
            | Mnemonic::Xsave64
            | Mnemonic::Xsavec
            | Mnemonic::Xsavec64
            | Mnemonic::Xsaveopt
            | Mnemonic::Xsaveopt64
            | Mnemonic::Xsaves
            | Mnemonic::Xsaves64
            | Mnemonic::Fxsave
            | Mnemonic::Fxsave64 => Kind::Xsave,
            Mnemonic::Xrstor
            | Mnemonic::Xrstor64
            | Mnemonic::Xrstors
            | Mnemonic::Xrstors64
            | Mnemonic::Fxrstor
            | Mnemonic::Fxrstor64 => Kind::Xrstor,
            Mnemonic::Fnstenv | Mnemonic::Fnsave => Kind::FpuEnv,
            Mnemonic::Xtest | Mnemonic::Xend | Mnemonic::Xabort => Kind::Xend,
            // May be privileged, as the system decides.
            Mnemonic::Rdpmc => return None,
            Mnemonic::Lss | Mnemonic::Lfs | Mnemonic::Lgs => Kind::SegLoad,
            Mnemonic::Mov | Mnemonic::Pop if insn.op0_register().is_segment_register() => Kind::SegLoad,
            _ if insn.is_privileged() => return None,
            _ => Kind::Plain,
        },
        _ => Kind::FarTransfer,
    })
}

/// General-purpose registers, by iced's used registers.
pub fn gprs(factory: &mut InstructionInfoFactory, insn: &Instruction) -> Gprs {
    let mut sum = Gprs::default();
    for used in factory.info(insn).used_registers() {
        let register = used.register();
        if !register.is_gpr() {
            continue;
        }
        let bit = 1u16 << (register.full_register() as u32 - Register::RAX as u32);
        let whole = register.size() >= 4;
        let (read, write) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (true, None),
            OpAccess::Write => (false, Some(true)),
            OpAccess::CondWrite => (false, Some(false)),
            OpAccess::ReadWrite => (true, Some(true)),
            OpAccess::ReadCondWrite => (true, Some(false)),
            OpAccess::None | OpAccess::NoMemAccess => (false, None),
        };
        if read {
            sum.read |= bit;
        }
        if let Some(always) = write {
            sum.may_write |= bit;
            if always && whole {
                sum.written |= bit;
            }
        }
    }
    sum
}
