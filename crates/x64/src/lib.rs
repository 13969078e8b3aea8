//! x86-64 instruction facts and an assembler.
//!
//! [`decode`] gives what the engine needs to copy an instruction and to count around it: its length, what
//! it means for the flow of control, where its fields are, and which arithmetic flags it reads and
//! writes. What only some ask is computed on demand: [`Insn::memory`], [`Insn::implied_memory`],
//! [`Insn::gprs`]. The tables are generated from `iced-x86`, an independent decoder, and the tests compare
//! every answer with it. [`accesses`] tells which memory an instruction accesses as Callgrind counts it. [`asm`] emits the shapes generated code is made of.

#![cfg_attr(not(test), no_std)]

pub mod accesses;
pub mod asm;
mod decode;
mod decoded;
mod op;
mod operands;
#[cfg(test)]
mod oracle;
mod tables;

pub use decode::decode;
pub use decoded::{DecodeError, Encoding, Flags, Insn, Kind, Prefixes};
pub use op::Access;
pub use operands::{Gprs, Memory, Segment};
