//! x86-64 instruction facts and an assembler.
//!
//! [`decode`] gives what the engine needs to copy an instruction and to count around it: its length, what
//! it means for the flow of control, where its fields are, and which arithmetic flags it reads and
//! writes. Decoding itself is `iced-x86`'s; this crate turns its answers into a small `Copy` type and
//! decides conservatively where flags are concerned. [`asm`] emits the shapes generated code is made of.

#![cfg_attr(not(test), no_std)]

pub mod asm;
mod decoded;

pub use decoded::{DecodeError, Encoding, Flags, Insn, Kind, Prefixes, decode};
