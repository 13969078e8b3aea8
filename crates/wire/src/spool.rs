//! The spool: counters and records of one guest process in one sparse file.
//!
//! ```text
//! 0            HEADER_SIZE                     ARENAS_OFFSET        + ARENA_STRIDE ...
//! | Header     | record log, append-only ...   | arena of slot 0    | arena of slot 1 | ...
//! ```
//!
//! - The **header** holds how far each part is filled. The agent writes a record first and then
//!   raises `records_used` with a release store, so whoever maps the file sees whole records.
//! - The **record log** says what the counters mean: objects, functions, calling contexts, basic
//!   blocks, call edges, threads.
//! - An **arena** holds the counters of one thread slot, `u64` each. A counter has the same index
//!   in every arena; its value over all threads is the sum. `ARENA_STRIDE / 2` bytes after an
//!   arena's start lies its *baseline*: the counter values at the last dump or zeroing. What a
//!   part shows is counter minus baseline.
//!
//! Counter 0 is never counted: it stands for "no counter".

use crate::{Reader, VERSION, WireError};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First eight bytes of a spool.
pub const MAGIC: [u8; 8] = *b"TLYSPOOL";
/// Bytes before the record log.
pub const HEADER_SIZE: u64 = 0x1_0000;
/// File offset of the costs in the parts written so far, one `u64` for each event type in the order
/// of its column. Kept by the host's writer alone, as is [`Header::parts`].
pub const PART_TOTALS_OFFSET: u64 = 0x8000;
/// Most event types there is room for at [`PART_TOTALS_OFFSET`].
pub const MAX_EVENTS: usize = 64;
/// File offset of the first arena.
pub const ARENAS_OFFSET: u64 = 0x4_0000_0000;
/// Bytes from one arena to the next.
pub const ARENA_STRIDE: u64 = 0x4000_0000;
/// Bytes from an arena's counters to their baseline.
pub const BASELINE_OFFSET: u64 = ARENA_STRIDE / 2;
/// Largest number of counters.
pub const MAX_COUNTERS: u32 = (BASELINE_OFFSET / 8) as u32;

/// The first bytes of the file. Little-endian, as on every x86-64.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Process id of the guest.
    pub pid: u32,
    /// Bytes of the record log that hold whole records.
    pub records_used: AtomicU64,
    /// Counters handed out so far (indices `1..counters_used` are in use).
    pub counters_used: AtomicU32,
    /// Arena slots handed out so far.
    pub arenas_used: AtomicU32,
    /// [`State`] as a number.
    pub state: AtomicU32,
    /// Number of parts dumped so far; raised by the writer when a part is complete.
    pub parts: AtomicU32,
    /// Basic blocks executed at the last dump (Callgrind's `Timerange`); kept by the host's writer.
    pub blocks_before: AtomicU64,
    /// Unused.
    pub reserved: AtomicU64,
    /// Counter index of the instructions executed in all (the running total), one per arena.
    pub total_counter: AtomicU32,
    /// Parent process id.
    pub parent: u32,
    /// Start time of the process in clock ticks after boot (field 22 of `/proc/PID/stat`), 0 when
    /// unknown; tells a live owner from a later process of the same id.
    pub start_time: u64,
}

/// How far the guest got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Running, or killed without a chance to say so.
    Running = 0,
    /// Ended; the final part is being or has been written.
    Ended = 1,
}

/// What kind of section an address lies in, as Callgrind tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Section {
    /// Code.
    Text = 0,
    /// Procedure linkage table (`.plt`, `.plt.sec`, `.plt.got`).
    Plt = 1,
    /// Global offset table.
    Got = 2,
    /// Data.
    Data = 3,
    /// Uninitialised data.
    Bss = 4,
    /// No object, or none of the above.
    Unknown = 5,
}

impl Section {
    fn from_u8(v: u8) -> Result<Self, WireError> {
        Ok(match v {
            0 => Section::Text,
            1 => Section::Plt,
            2 => Section::Got,
            3 => Section::Data,
            4 => Section::Bss,
            5 => Section::Unknown,
            _ => return Err(WireError::Unknown(v as u32)),
        })
    }
}

/// Why a basic block's counter also stands for something else.
pub mod block_flags {
    /// The cost belongs to the site block of the block's (skipped) context.
    pub const SKIPPED: u16 = 1;
    /// A correction record: the first instructions of a block that a fault cut short.
    pub const PREFIX: u16 = 2;
    /// The block ends in a conditional branch (for `jcnd=` lines).
    pub const COND: u16 = 4;
}

/// One entry of the log. Ids count from 1 in order of appearance, 0 means none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The agent's configuration (see [`crate::config`]), first record of every spool.
    Config(&'a [u8]),
    /// A mapped object at one bias. The same file mapped again elsewhere is another object with
    /// the same path.
    Object {
        /// Id of the object.
        id: u32,
        /// avma = svma + bias.
        bias: u64,
        /// Lowest and highest mapped avma.
        start: u64,
        /// See `start`.
        end: u64,
        /// Path as mapped, empty for anonymous code, `[vdso]` for the vdso.
        path: &'a [u8],
        /// Build-id note, empty when there is none.
        build_id: &'a [u8],
    },
    /// A function of an object.
    Function {
        /// Id of the function.
        id: u32,
        /// Object, 0 for anonymous code.
        object: u32,
        /// Start as an svma (avma for anonymous code).
        start: u64,
        /// Size in bytes, 0 when unknown.
        size: u64,
        /// Section of its start.
        section: Section,
        /// Raw symbol name, empty when no symbol covers the address.
        name: &'a [u8],
    },
    /// A calling context.
    Context {
        /// Id of the context.
        id: u32,
        /// The function whose costs are kept here; 0 in a context that is skipped at top level.
        function: u32,
        /// Recursion level from 1.
        level: u32,
        /// The caller's context with `--separate-callers`, else 0.
        caller: u32,
        /// Block to whose last instruction the costs of this (skipped) context belong, else 0.
        site_block: u32,
    },
    /// A basic block in a context; its counter is the number of executions.
    Block(Block<'a>),
    /// A call edge.
    Edge(Edge),
    /// An arena slot was taken by a thread.
    Thread {
        /// Arena slot.
        slot: u32,
        /// Thread number from 1, as Callgrind prints it.
        number: u32,
        /// Kernel thread id.
        tid: u32,
    },
    /// A `desc:` line for the next part's header.
    Description(&'a [u8]),
    /// A jump or conditional branch within a function (`--collect-jumps`). Several records may be of one
    /// branch and target: their counts are added up.
    Jump {
        /// Block with the branch.
        block: u32,
        /// 1: conditional.
        conditional: u32,
        /// avma of the branch.
        from: u64,
        /// avma of where it goes when taken.
        to: u64,
        /// Counter of how often it was taken.
        counter: u32,
    },
    /// A part is complete: descriptions before this record are not for the next one.
    PartEnd {
        /// Number of the part.
        number: u32,
    },
}

/// See [`Record::Block`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Id of the block.
    pub id: u32,
    /// Context.
    pub context: u32,
    /// Object, 0 for anonymous code.
    pub object: u32,
    /// avma of the first instruction.
    pub addr: u64,
    /// Counter of executions.
    pub counter: u32,
    /// [`block_flags`].
    pub flags: u16,
    /// Length of each instruction in bytes, with marks of [`length`]. The runs' start addresses are in
    /// `runs`, in order.
    pub lengths: &'a [u8],
    /// avma of each run after the first, 8 bytes little-endian each.
    pub runs: &'a [u8],
    /// Further executions of single instructions (`rep` iterations): pairs of instruction index
    /// and counter, `u32` little-endian each.
    pub extra: &'a [u8],
    /// Costs of single instructions in other events than Ir: [`Charge`]s, eight bytes each.
    pub charges: &'a [u8],
}

/// A cost of one instruction of a block: `factor` times the value of a counter. What an execution
/// costs for certain refers to the block's own counter; what depends on the machine has a counter of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Index of the instruction.
    pub insn: u16,
    /// Column of the event (see [`crate::events::collected`]).
    pub event: u8,
    /// How much each count costs.
    pub factor: u8,
    /// The counter.
    pub counter: u32,
}

impl Charge {
    /// Appends the charge to a block's list.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.insn.to_le_bytes());
        out.extend_from_slice(&[self.event, self.factor]);
        out.extend_from_slice(&self.counter.to_le_bytes());
    }
}

/// An element of [`Block::lengths`].
pub mod length {
    /// Bytes of the instruction.
    pub const MASK: u8 = 0x0f;
    /// A branch that the block goes on behind: a basic block ends here.
    pub const BRANCH: u8 = 0x40;
    /// The instruction is not at the end of the one before (blocks go on over direct jumps).
    pub const NEW_RUN: u8 = 0x80;
}

impl<'a> Block<'a> {
    /// How many basic blocks the block consists of.
    pub fn basic_blocks(&self) -> u64 {
        1 + self.lengths.iter().filter(|&&l| l & length::BRANCH != 0).count() as u64
    }

    /// avma of each instruction, in order.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        let mut runs =
            self.runs.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")));
        let mut next = self.addr;
        self.lengths.iter().map(move |&l| {
            if l & length::NEW_RUN != 0
                && let Some(start) = runs.next()
            {
                next = start;
            }
            let at = next;
            next = next.wrapping_add((l & length::MASK) as u64);
            at
        })
    }

    /// Instruction index and counter of each further execution counter.
    pub fn extras(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.extra.chunks_exact(8).map(|c| {
            let word = |at: usize| u32::from_le_bytes(c[at..at + 4].try_into().expect("four bytes"));
            (word(0), word(4))
        })
    }

    /// The charges, in order of instructions.
    pub fn charges(&self) -> impl Iterator<Item = Charge> + '_ {
        self.charges.chunks_exact(8).map(|c| Charge {
            insn: u16::from_le_bytes([c[0], c[1]]),
            event: c[2],
            factor: c[3],
            counter: u32::from_le_bytes([c[4], c[5], c[6], c[7]]),
        })
    }
}

/// See [`Record::Edge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Id of the edge.
    pub id: u32,
    /// Calling block, never skipped; 0 when there is no caller (roots).
    pub from_block: u32,
    /// Context of the callee.
    pub to_context: u32,
    /// Object of the callee, 0 for anonymous code.
    pub to_object: u32,
    /// avma of the callee's first instruction.
    pub to_addr: u64,
    /// Counter of calls.
    pub count: u32,
    /// First counter of the inclusive costs: one per event, Ir first.
    pub inclusive: u32,
}

const KIND_CONFIG: u32 = 1;
const KIND_OBJECT: u32 = 2;
const KIND_FUNCTION: u32 = 3;
const KIND_CONTEXT: u32 = 4;
const KIND_BLOCK: u32 = 5;
const KIND_EDGE: u32 = 6;
const KIND_THREAD: u32 = 7;
const KIND_DESCRIPTION: u32 = 8;
const KIND_JUMP: u32 = 9;
const KIND_PART_END: u32 = 20;

struct Out<'o>(&'o mut Vec<u8>);

impl Out<'_> {
    fn u16(&mut self, v: u16) -> &mut Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }
    fn u32(&mut self, v: u32) -> &mut Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }
    fn u64(&mut self, v: u64) -> &mut Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }
    fn blob(&mut self, v: &[u8]) -> &mut Self {
        self.u32(v.len() as u32);
        self.0.extend_from_slice(v);
        self
    }
}

impl<'a> Record<'a> {
    /// Appends the record to `out`: kind, length in bytes, fields, padding to 8 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut o = Out(out);
        o.u32(0).u32(0);
        let kind = match self {
            Record::Config(blob) => {
                o.blob(blob);
                KIND_CONFIG
            }
            Record::Object { id, bias, start, end, path, build_id } => {
                o.u32(*id).u64(*bias).u64(*start).u64(*end).blob(path).blob(build_id);
                KIND_OBJECT
            }
            Record::Function { id, object, start, size, section, name } => {
                o.u32(*id).u32(*object).u64(*start).u64(*size).u32(*section as u32).blob(name);
                KIND_FUNCTION
            }
            Record::Context { id, function, level, caller, site_block } => {
                o.u32(*id).u32(*function).u32(*level).u32(*caller).u32(*site_block);
                KIND_CONTEXT
            }
            Record::Block(b) => {
                o.u32(b.id).u32(b.context).u32(b.object).u64(b.addr).u32(b.counter);
                o.u16(b.flags).u16(0).blob(b.lengths).blob(b.runs).blob(b.extra).blob(b.charges);
                KIND_BLOCK
            }
            Record::Edge(e) => {
                o.u32(e.id).u32(e.from_block).u32(e.to_context).u32(e.to_object).u64(e.to_addr);
                o.u32(e.count).u32(e.inclusive);
                KIND_EDGE
            }
            Record::Thread { slot, number, tid } => {
                o.u32(*slot).u32(*number).u32(*tid);
                KIND_THREAD
            }
            Record::Description(text) => {
                o.blob(text);
                KIND_DESCRIPTION
            }
            Record::Jump { block, conditional, from, to, counter } => {
                o.u32(*block).u32(*conditional).u64(*from).u64(*to).u32(*counter);
                KIND_JUMP
            }
            Record::PartEnd { number } => {
                o.u32(*number);
                KIND_PART_END
            }
        };
        while !(out.len() - start).is_multiple_of(8) {
            out.push(0);
        }
        let len = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&kind.to_le_bytes());
        out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    }

    fn parse(kind: u32, body: &'a [u8]) -> Result<Option<Self>, WireError> {
        let mut r = Reader::new(body);
        Ok(Some(match kind {
            KIND_CONFIG => Record::Config(r.blob()?),
            KIND_OBJECT => Record::Object {
                id: r.u32()?,
                bias: r.u64()?,
                start: r.u64()?,
                end: r.u64()?,
                path: r.blob()?,
                build_id: r.blob()?,
            },
            KIND_FUNCTION => Record::Function {
                id: r.u32()?,
                object: r.u32()?,
                start: r.u64()?,
                size: r.u64()?,
                section: Section::from_u8(r.u32()? as u8)?,
                name: r.blob()?,
            },
            KIND_CONTEXT => Record::Context {
                id: r.u32()?,
                function: r.u32()?,
                level: r.u32()?,
                caller: r.u32()?,
                site_block: r.u32()?,
            },
            KIND_BLOCK => Record::Block(Block {
                id: r.u32()?,
                context: r.u32()?,
                object: r.u32()?,
                addr: r.u64()?,
                counter: r.u32()?,
                flags: {
                    let flags = r.u16()?;
                    r.u16()?;
                    flags
                },
                lengths: r.blob()?,
                runs: r.blob()?,
                extra: r.blob()?,
                charges: r.blob()?,
            }),
            KIND_EDGE => Record::Edge(Edge {
                id: r.u32()?,
                from_block: r.u32()?,
                to_context: r.u32()?,
                to_object: r.u32()?,
                to_addr: r.u64()?,
                count: r.u32()?,
                inclusive: r.u32()?,
            }),
            KIND_THREAD => Record::Thread { slot: r.u32()?, number: r.u32()?, tid: r.u32()? },
            KIND_DESCRIPTION => Record::Description(r.blob()?),
            KIND_JUMP => Record::Jump {
                block: r.u32()?,
                conditional: r.u32()?,
                from: r.u64()?,
                to: r.u64()?,
                counter: r.u32()?,
            },
            KIND_PART_END => Record::PartEnd { number: r.u32()? },
            _ => return Ok(None),
        }))
    }
}

/// The records of a log, in order. Kinds this version does not know are passed over.
pub fn records(log: &[u8]) -> impl Iterator<Item = Result<Record<'_>, WireError>> {
    let mut r = Reader::new(log);
    let mut failed = false;
    core::iter::from_fn(move || {
        while !failed && !r.is_empty() {
            let next = (|| {
                let kind = r.u32()?;
                let len = r.u32()? as usize;
                let body = r.bytes(len.checked_sub(8).ok_or(WireError::Truncated(0))?)?;
                Record::parse(kind, body)
            })();
            match next {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => continue,
                Err(e) => {
                    failed = true;
                    return Some(Err(e));
                }
            }
        }
        None
    })
}

/// Checks magic number and version of a spool's first bytes.
pub fn check_header(bytes: &[u8]) -> Result<(), WireError> {
    let mut r = Reader::new(bytes);
    if r.bytes(8)? != MAGIC {
        return Err(WireError::BadMagic);
    }
    match r.u32()? {
        VERSION => Ok(()),
        other => Err(WireError::Version(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record<'static>> {
        vec![
            Record::Config(b"abc"),
            Record::Object {
                id: 1,
                bias: 0x1000,
                start: 0x2000,
                end: 0x3000,
                path: b"/bin/x",
                build_id: b"\x01\x02",
            },
            Record::Function { id: 1, object: 1, start: 5, size: 6, section: Section::Plt, name: b"main" },
            Record::Context { id: 1, function: 1, level: 2, caller: 0, site_block: 9 },
            Record::Block(Block {
                id: 7,
                context: 1,
                object: 1,
                addr: 0x2000,
                counter: 3,
                flags: block_flags::COND,
                lengths: &[1, 2, 0x83, 4],
                runs: &[0, 0x50, 0, 0, 0, 0, 0, 0],
                extra: &[2, 0, 0, 0, 9, 0, 0, 0],
                charges: &[1, 0, 4, 2, 11, 0, 0, 0],
            }),
            Record::Edge(Edge {
                id: 1,
                from_block: 7,
                to_context: 1,
                to_object: 1,
                to_addr: 0x2005,
                count: 4,
                inclusive: 5,
            }),
            Record::Thread { slot: 0, number: 1, tid: 99 },
            Record::Description(b"Spawned pid: 5"),
            Record::Jump { block: 7, conditional: 1, from: 0x2001, to: 0x5000, counter: 12 },
            Record::PartEnd { number: 2 },
        ]
    }

    #[test]
    fn records_survive_the_round_trip() {
        let mut log = Vec::new();
        for r in samples() {
            r.encode(&mut log);
            assert_eq!(log.len() % 8, 0);
        }
        let back: Vec<_> = records(&log).map(|r| r.unwrap()).collect();
        assert_eq!(back, samples());
    }

    #[test]
    fn unknown_kinds_are_passed_over_and_truncations_are_errors() {
        let mut log = Vec::new();
        log.extend_from_slice(&[0xee, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        Record::Description(b"x").encode(&mut log);
        assert_eq!(records(&log).collect::<Vec<_>>(), [Ok(Record::Description(b"x"))]);
        let cut = &log[..log.len() - 1];
        assert!(records(cut).last().unwrap().is_err());
        assert!(records(&[5, 0, 0, 0, 3, 0, 0, 0]).next().unwrap().is_err());
    }

    #[test]
    fn a_block_knows_the_addresses_of_its_instructions() {
        let Some(Record::Block(b)) = samples().into_iter().nth(4) else { panic!("a block") };
        assert_eq!(b.addresses().collect::<Vec<_>>(), [0x2000, 0x2001, 0x5000, 0x5003]);
        assert_eq!(b.extras().collect::<Vec<_>>(), [(2, 9)]);
        let charge = Charge { insn: 1, event: 4, factor: 2, counter: 11 };
        assert_eq!(b.charges().collect::<Vec<_>>(), [charge]);
        let mut bytes = Vec::new();
        charge.encode(&mut bytes);
        assert_eq!(bytes, b.charges);
    }

    #[test]
    fn the_header_fits_and_is_checked() {
        assert!(size_of::<Header>() as u64 <= HEADER_SIZE);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        assert_eq!(check_header(&bytes), Ok(()));
        bytes[8] = 77;
        assert_eq!(check_header(&bytes), Err(WireError::Version(77)));
        assert_eq!(check_header(b"ELF"), Err(WireError::Truncated(0)));
    }
}
