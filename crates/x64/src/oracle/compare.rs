//! One instruction, both decoders.

use super::facts;
use crate::accesses::{self, Accesses, NO_REGISTER};
use crate::decode;
use crate::decoded::{DecodeError, Encoding, Insn, Kind};
use crate::op::Access;
use crate::operands::{Gprs, Memory, Segment};
use iced_x86::{
    Code, EncodingKind, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

/// Compares everything both decoders say of the start of `bytes`; answers the instruction, if it is one.
pub fn compare(factory: &mut InstructionInfoFactory, bytes: &[u8]) -> Result<Option<Instruction>, String> {
    match (decode(bytes), facts::decode(bytes)) {
        (Ok(ours), Ok(theirs)) => match facts_differ(factory, bytes, &ours, &theirs) {
            Ok(()) => Ok(Some(theirs)),
            Err(what) => Err(format!("{what}: {:?}", theirs.code())),
        },
        (Err(ours), Err(theirs)) if ours == theirs => Ok(None),
        // More bytes would not help, but iced reads them first.
        (Err(DecodeError::Invalid), Err(DecodeError::Truncated)) => Ok(None),
        (ours, theirs) => Err(format!("{:?}, not {:?}", ours.map(|i| i.len), theirs.map(|i| i.code()))),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, theirs: T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}: {ours:x?}, not {theirs:x?}")) }
}

fn facts_differ(
    factory: &mut InstructionInfoFactory,
    bytes: &[u8],
    ours: &Insn,
    theirs: &Instruction,
) -> Result<(), String> {
    equal("length", ours.len as usize, theirs.len())?;
    equal("kind", ours.kind, facts::kind(theirs))?;
    let enc = match theirs.encoding() {
        EncodingKind::VEX => Encoding::Vex,
        EncodingKind::EVEX => Encoding::Evex,
        EncodingKind::XOP => Encoding::Xop,
        _ => Encoding::Legacy,
    };
    equal("encoding", ours.enc, enc)?;
    equal("privileged", ours.is_privileged(), theirs.is_privileged())?;
    equal("memory operand", ours.mem_operand_modrm(), facts::names_memory(theirs))?;
    equal("rip-relative", ours.is_rip_relative(), theirs.is_ip_rel_memory_operand())?;
    fields(bytes, ours, theirs)?;
    let mut read = facts::flags(theirs.rflags_read());
    // A rotation through CF by zero is said to read it.
    if facts::is_shift(theirs) && theirs.op1_kind() == OpKind::Immediate8 {
        read = read.union(ours.flags_read);
    }
    equal("flags read", ours.flags_read, read)?;
    equal("flags written", ours.flags_written, facts::always_written(theirs))?;
    let mut may_write = facts::flags(theirs.rflags_modified());
    if facts::is_shift(theirs) {
        may_write = may_write.union(ours.flags_may_write());
    }
    equal("flags maybe written", ours.flags_may_write(), may_write)?;
    let info = factory.info(theirs);
    let implied: Vec<Memory> = ours.implied_memory().collect();
    // `enter` is taken for one of level zero, which pushes one frame pointer. Where the address is in a register,
    // some instructions of the system heed no prefixes, and `llwpcb` has it as wide as its operand.
    if theirs.mnemonic() == Mnemonic::Enter && theirs.immediate8_2nd() & 31 != 0 {
        return Ok(());
    }
    let own = theirs.is_privileged() || matches!(theirs.mnemonic(), Mnemonic::Llwpcb | Mnemonic::Pbndkb);
    if !own || ours.mem_operand_modrm() {
        equal("memory", memories(ours.memory(), &implied), their_memories(theirs, info))?;
    }
    gprs(&ours.gprs(), info)?;
    // Far calls are no business of simulations; of `pop sp`, this crate knows that it does not end two bytes up.
    let pops_sp = theirs.mnemonic() == Mnemonic::Pop && theirs.op0_register() == Register::SP;
    if own || ours.kind == Kind::FarTransfer || pops_sp {
        return Ok(());
    }
    compare_accesses(factory, bytes, ours)
}

/// What the simulation of caches is told.
fn compare_accesses(factory: &mut InstructionInfoFactory, bytes: &[u8], ours: &Insn) -> Result<(), String> {
    const PC: u64 = 0x1234_5678_9abc;
    let (mut our_list, mut their_list) = (Accesses::NONE, Accesses::NONE);
    let our_effects = accesses::analyse(PC, ours, &mut our_list);
    let their_effects = super::accesses::analyse(factory, PC, bytes, &mut their_list);
    // Without an index the scale says nothing.
    for a in their_list.list.iter_mut().filter(|a| a.at.index == NO_REGISTER) {
        a.at.scale = 1;
    }
    equal("accesses", our_list.list(), their_list.list())?;
    equal("effects", format!("{our_effects:x?}"), format!("{their_effects:x?}"))
}

/// Where fields are and what they hold.
fn fields(bytes: &[u8], ours: &Insn, theirs: &Instruction) -> Result<(), String> {
    let len = theirs.len();
    let signed = |n: usize| bytes[len - n..len].iter().rev().fold(0, |sum: i64, b| sum << 8 | *b as i64);
    match ours.kind {
        Kind::Jmp | Kind::Jcc | Kind::Loop | Kind::Call => {
            equal("target", ours.target(0), theirs.near_branch_target())?;
        }
        Kind::Xbegin if theirs.code() == Code::Xbegin_rel16 => {
            equal("fallback", ours.imm, signed(2) as i16 as i64)?
        }
        Kind::Xbegin => equal("fallback", ours.imm, signed(4) as i32 as i64)?,
        Kind::Ret if theirs.op_count() > 0 => equal("popped", ours.imm, theirs.immediate16() as i64)?,
        Kind::Ret => equal("popped", ours.imm, 0)?,
        _ => {}
    }
    if ours.is_rip_relative() {
        let at = ours.disp_off as usize;
        let raw = i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        equal("displacement", ours.disp, raw)?;
        equal("ModRM", ours.modrm_off as usize, at - 1)?;
        let target = theirs.memory_displacement64();
        let sum = (len as u64).wrapping_add(raw as i64 as u64);
        let sum = if ours.prefixes.addrsize() { sum as u32 as u64 } else { sum };
        equal("target of rip", sum, target)?;
    }
    let opcode = bytes[ours.prefix_len as usize];
    let no_modrm = ours.enc == Encoding::Legacy && matches!(opcode, 0xa0..=0xa3 | 0xd7);
    if ours.modrm != 0 || ours.mem_operand_modrm() && !no_modrm {
        equal("ModRM", ours.modrm, bytes[ours.modrm_off as usize])?;
    }
    let at = ours.prefix_len as usize;
    match ours.enc {
        Encoding::Legacy => {
            let opcode = if bytes[at] == 0x0f { bytes[at + 1] } else { bytes[at] };
            equal("opcode", ours.opcode, opcode)?;
            let before = if at > 0 && bytes[at - 1] & 0xf0 == 0x40 { bytes[at - 1] } else { 0 };
            equal("REX", ours.rex, before)?;
            equal("vvvv", ours.vvvv, 0)
        }
        _ => {
            let short = bytes[at] == 0xc5;
            equal("R", ours.rex & 4, (!bytes[at + 1] >> 7) << 2)?;
            equal("vvvv", ours.vvvv, !bytes[at + if short { 1 } else { 2 }] >> 3 & 15)
        }
    }
}

/// An access in a form both sides have: segment, base, index, scale, displacement, access, size.
type Place = (Segment, Option<u8>, Option<u8>, u8, i64, bool, Access, u16, u8);

fn place(m: &Memory) -> Place {
    let disp = if m.narrow { m.disp as u32 as i64 } else { m.disp };
    (m.segment, m.base, m.index, m.scale, disp, m.narrow, m.access, m.size, m.index_size)
}

fn memories(named: Option<Memory>, implied: &[Memory]) -> Vec<Place> {
    let named = named.filter(|m| m.access != Access::None);
    let mut all: Vec<Place> = named.iter().chain(implied).map(place).collect();
    all.sort_by_key(|p| format!("{p:?}"));
    all
}

fn their_memories(theirs: &Instruction, info: &InstructionInfo) -> Vec<Place> {
    let register = |r: Register| {
        if r.is_vector_register() { Some(r.number() as u8) } else { facts::gpr(r) }
    };
    let mut all = Vec::new();
    for m in info.used_memory() {
        let access = facts::access(m.access());
        if access == Access::None {
            continue;
        }
        let segment = match m.segment() {
            Register::FS => Segment::Fs,
            Register::GS => Segment::Gs,
            _ => Segment::Flat,
        };
        let narrow = m.address_size() == iced_x86::CodeSize::Code32;
        let mut disp = m.displacement() as i64;
        if theirs.is_ip_rel_memory_operand() && m.base() == Register::None {
            disp = disp.wrapping_sub(theirs.len() as i64);
        }
        if narrow {
            disp = disp as u32 as i64;
        }
        let size = m.memory_size().size() as u16;
        let index = register(m.index());
        let scale = if index.is_some() { m.scale() as u8 } else { 1 };
        all.push((
            segment,
            register(m.base()),
            index,
            scale,
            disp,
            narrow,
            access,
            size,
            m.vsib_size() as u8,
        ));
    }
    all.sort_by_key(|p| format!("{p:?}"));
    all
}

fn gprs(ours: &Gprs, info: &InstructionInfo) -> Result<(), String> {
    let (mut read, mut written, mut may_write) = (0u16, 0u16, 0u16);
    for used in info.used_registers() {
        let register = used.register();
        let Some(number) = facts::gpr(register) else { continue };
        let bit = 1u16 << number;
        let access = facts::access(used.access());
        if access.reads() {
            read |= bit;
        }
        if access.writes() {
            may_write |= bit;
            if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) && register.size() >= 4 {
                written |= bit;
            }
        }
    }
    equal("registers read", ours.read, read)?;
    equal("registers maybe written", ours.may_write, may_write)?;
    equal("registers written", ours.written, written)
}
