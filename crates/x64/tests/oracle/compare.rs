//! One instruction, both decoders.

use crate::facts;
use iced_x86::{DecoderError, Instruction, InstructionInfoFactory};
use tallygraph_x64::{DecodeError, Gprs, Insn, Kind, decode};

/// Compares everything both decoders say of the start of `bytes`; answers the length.
pub fn compare(factory: &mut InstructionInfoFactory, bytes: &[u8]) -> Result<usize, String> {
    let theirs = facts::decode(bytes);
    let ours = decode(bytes);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            compare_facts(factory, &ours, &theirs)
                .map_err(|what| format!("{what}: {} {}", hex(&bytes[..theirs.len()]), theirs))?;
            Ok(ours.len as usize)
        }
        // Copied through: the CPU knows better.
        (Ok(ours), Err(_)) => Ok(ours.len as usize),
        (Err(_), Err(DecoderError::InvalidInstruction)) => Ok(1),
        (Err(DecodeError::Truncated | DecodeError::Invalid), Err(_)) => Ok(1),
        (Err(ours), theirs) => Err(format!("{ours:?}, not {theirs:?}: {}", hex(bytes))),
    }
}

fn compare_facts(
    factory: &mut InstructionInfoFactory,
    ours: &Insn,
    theirs: &Instruction,
) -> Result<(), String> {
    equal("length", ours.len as usize, theirs.len())?;
    if let Some(kind) = facts::kind(theirs) {
        equal("kind", ours.kind, kind)?;
    }
    equal("rip-relative", ours.is_rip_relative(), theirs.is_ip_rel_memory_operand())?;
    compare_flags(ours, theirs)?;
    compare_gprs(&ours.gprs(), &facts::gprs(factory, theirs))
}

fn compare_flags(ours: &Insn, theirs: &Instruction) -> Result<(), String> {
    let read = facts::flags(theirs.rflags_read());
    let modified = facts::flags(theirs.rflags_modified());
    if !hands_everything_over(ours.kind) {
        equal("flags read", ours.flags_read, read)?;
        equal("flags maybe written", ours.flags_may_write, modified)?;
    }
    superset("flags read", ours.flags_read.bits(), read.bits())?;
    superset("flags maybe written", ours.flags_may_write.bits(), modified.bits())?;
    superset("flags maybe written", ours.flags_may_write.bits(), ours.flags_written.bits())?;
    subset("flags written", ours.flags_written.bits(), modified.bits())
}

fn compare_gprs(ours: &Gprs, theirs: &Gprs) -> Result<(), String> {
    superset("gprs read", ours.read, theirs.read)?;
    superset("gprs maybe written", ours.may_write, theirs.may_write)?;
    superset("gprs maybe written", ours.may_write, ours.written)?;
    // What is written or keeps its value is fine where the old value counts as read.
    subset("gprs written", ours.written, theirs.written | theirs.may_write & ours.read)
}

/// Kinds for which everything is said to be read and written: the kernel or an exception sees it.
fn hands_everything_over(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::FarTransfer
            | Kind::Syscall
            | Kind::Sysenter
            | Kind::Int
            | Kind::Int3
            | Kind::Xbegin
            | Kind::Xend
            | Kind::Privileged
    )
}

fn superset(what: &str, ours: u16, theirs: u16) -> Result<(), String> {
    if theirs & !ours == 0 { Ok(()) } else { Err(format!("{what}: {ours:#x}, at least {theirs:#x}")) }
}

fn subset(what: &str, ours: u16, theirs: u16) -> Result<(), String> {
    if ours & !theirs == 0 { Ok(()) } else { Err(format!("{what}: {ours:#x}, at most {theirs:#x}")) }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, theirs: T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what}: {ours:?}, not {theirs:?}")) }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
