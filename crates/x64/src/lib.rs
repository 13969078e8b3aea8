//! x86-64 instruction facts, and an assembler for the shapes an engine emits.
//!
//! [`decode`] turns bytes into an [`Insn`]: its length, where its parts are, what kind of transfer
//! or special case it is, and which flags it reads and writes. Registers and memory references are
//! answered on demand, from the same tables.
//!
//! The decoder serves an engine that copies instructions and lets the CPU execute them, and that
//! decides its trade-offs:
//!
//! - It is fast, allocates nothing and looks at no byte beyond the instruction.
//! - Instructions it does not know are reported as [`Kind::Plain`] when their length is certain:
//!   the CPU executes the copy or faults, as it would have done with the original.
//! - Facts err on the safe side, and the side is part of each name: what is *read* is a superset,
//!   what is *written* a subset, what *may be written* a superset.
//! - 64-bit mode only. Branches ignore an operand-size prefix, as Intel's CPUs do.
//!
//! Where to look: [`insn`](Insn) for the parts, [`Flags`] for flags, [`Gprs`] for registers,
//! [`asm`] for the assembler.
//!
//! ```
//! use tallygraph_x64::{Flags, Kind, decode};
//!
//! let insn = decode(&[0x48, 0x01, 0xd8, 0xc3]).unwrap(); // add rax, rbx
//! assert_eq!((insn.len, insn.kind), (3, Kind::Plain));
//! assert_eq!(insn.flags_written, Flags::ALL_ARITH);
//! assert_eq!((insn.gprs_read(), insn.gprs_written()), (0b1001, 0b0001));
//! ```

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod asm;
mod decode;
mod flags;
mod insn;
mod op;
mod refine;
mod regs;
mod tables;
mod vector_tables;

pub use decode::{DecodeError, MAX_LEN, decode};
pub use flags::Flags;
pub use insn::{Encoding, Insn, Kind, Prefixes};
pub use regs::Gprs;
