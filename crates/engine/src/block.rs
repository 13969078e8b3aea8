//! Basic blocks: guest bytes to decoded instructions.

use crate::maps::{Maps, readable};
use alloc::vec::Vec;
use tallygraph_x64::{DecodeError, Flags, Insn, Kind};

/// Longest block in instructions.
pub const MAX_INSNS: usize = 96;
/// How many direct jumps a block may go over.
const MAX_RUNS: usize = 4;
/// How many forward conditional branches a superblock may go over.
pub const MAX_SIDE_EXITS: usize = 5;

/// `rol $3,%rdi; rol $13,%rdi; rol $61,%rdi; rol $51,%rdi`: the mark before a client request.
pub const REQUEST_PREAMBLE: [u8; 16] =
    [0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33];
/// `xchg %rbx,%rbx`: the request itself.
pub const REQUEST: [u8; 3] = [0x48, 0x87, 0xdb];

/// One decoded instruction.
#[derive(Clone, Copy)]
pub struct Decoded {
    /// Guest address.
    pub pc: u64,
    /// Facts.
    pub insn: Insn,
    /// Its bytes; `insn.len` of them count.
    pub bytes: [u8; 16],
    /// A conditional branch that the superblock follows to its target.
    pub taken: bool,
}

impl Decoded {
    /// Guest address after the instruction.
    pub fn next(&self) -> u64 {
        self.pc + self.insn.len as u64
    }
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In its last instruction, a transfer of control.
    Transfer,
    /// Before the next instruction: limit reached, page border, undecodable instruction.
    FallThrough,
    /// In a client request; the preamble's instructions are part of the block.
    Request,
}

/// Why no block starts at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBlock {
    /// Not executable or not mapped.
    NotExecutable,
    /// The first instruction can't be decoded.
    Undecodable,
}

pub(crate) fn decode_at(maps: &mut Maps, pc: u64) -> Result<Decoded, NoBlock> {
    let region = maps.exec_region(pc).ok_or(NoBlock::NotExecutable)?;
    let code = readable(region, pc);
    let mut bytes = [0u8; 16];
    if let Some(whole) = code.first_chunk() {
        bytes = *whole;
        return match tallygraph_x64::decode(&bytes[..15]) {
            Ok(insn) => Ok(Decoded { pc, insn, bytes, taken: false }),
            Err(_) => Err(NoBlock::Undecodable),
        };
    }
    let have = code.len();
    bytes[..have].copy_from_slice(code);
    match tallygraph_x64::decode(&bytes[..have.min(15)]) {
        Ok(insn) => Ok(Decoded { pc, insn, bytes, taken: false }),
        Err(DecodeError::Truncated) if have < 15 => {
            // The instruction may go on in the next mapping.
            let end = pc + have as u64;
            let region = maps.exec_region(end).ok_or(NoBlock::NotExecutable)?;
            let more = readable(region, end);
            let n = more.len().min(15 - have);
            bytes[have..have + n].copy_from_slice(&more[..n]);
            match tallygraph_x64::decode(&bytes[..have + n]) {
                Ok(insn) => Ok(Decoded { pc, insn, bytes, taken: false }),
                Err(DecodeError::Truncated) => Err(NoBlock::NotExecutable),
                Err(_) => Err(NoBlock::Undecodable),
            }
        }
        Err(DecodeError::Truncated) => Err(NoBlock::NotExecutable),
        Err(_) => Err(NoBlock::Undecodable),
    }
}

/// Answers the questions of the call graph while a block is decoded.
pub trait Guide {
    /// A transfer from the code so far to this address leaves the call graph as it is.
    fn stays(&mut self, maps: &mut Maps, to: u64) -> bool;
    /// Address after `from` at which another function or object begins.
    fn stretch_end(&mut self, maps: &mut Maps, from: u64) -> u64;
}

/// Decodes the superblock at `pc` into `out`: it goes on behind forward conditional branches, which
/// become side exits, and over direct jumps, as far as `guide` lets it.
pub fn decode(
    maps: &mut Maps,
    pc: u64,
    limit: usize,
    max_side_exits: usize,
    volatile: bool,
    out: &mut Vec<Decoded>,
    guide: &mut impl Guide,
) -> Result<End, NoBlock> {
    out.clear();
    let mut until = guide.stretch_end(maps, pc);
    let (mut at, mut runs, mut side_exits) = (pc, 1, 0);
    loop {
        let d = match decode_at(maps, at) {
            Ok(d) => d,
            Err(e) if out.is_empty() => return Err(e),
            // After a side exit that exit is the end.
            Err(_) => return Ok(end_after(out)),
        };
        if d.bytes[..4] == REQUEST_PREAMBLE[..4] && is_request(maps, at) {
            if !out.is_empty() {
                return Ok(end_after(out));
            }
            for _ in 0..5 {
                let d = decode_at(maps, at)?;
                at = d.next();
                out.push(d);
            }
            return Ok(End::Request);
        }
        out.push(d);
        match d.insn.kind {
            Kind::Jmp if out.len() < limit && runs < MAX_RUNS && !volatile => {
                let target = d.insn.target(d.pc);
                if out.iter().any(|o| o.pc == target) || !guide.stays(maps, target) {
                    return Ok(End::Transfer);
                }
                runs += 1;
                at = target;
                until = guide.stretch_end(maps, at);
            }
            Kind::Jcc if out.len() < limit && side_exits < max_side_exits => {
                // A backward branch is likely a loop's and taken, a forward one is not.
                let target = d.insn.target(d.pc);
                let taken = target <= d.pc;
                let likely = if taken { target } else { d.next() };
                if out.iter().any(|o| o.pc == likely) || !guide.stays(maps, likely) {
                    return Ok(End::Transfer);
                }
                if let Some(last) = out.last_mut() {
                    last.taken = taken;
                }
                side_exits += 1;
                at = likely;
                if at != d.next() {
                    until = guide.stretch_end(maps, at);
                }
            }
            _ if d.insn.ends_block() => return Ok(End::Transfer),
            _ => {
                at = d.next();
                // What an instruction writes may be the next one.
                if out.len() >= limit || at >= until || volatile && d.insn.mem_operand_modrm() {
                    return Ok(End::FallThrough);
                }
            }
        }
    }
}

/// How a block ends that stops after the instructions it has.
fn end_after(insns: &mut [Decoded]) -> End {
    match insns.last_mut() {
        Some(d) if d.insn.ends_block() => {
            d.taken = false;
            End::Transfer
        }
        _ => End::FallThrough,
    }
}

fn is_request(maps: &mut Maps, pc: u64) -> bool {
    let Some(region) = maps.exec_region(pc) else { return false };
    let code = readable(region, pc);
    code.len() >= 19 && code[..16] == REQUEST_PREAMBLE && code[16..19] == REQUEST
}

/// True when all arithmetic flags are dead behind a block.
pub fn flags_dead_after(maps: &mut Maps, insns: &[Decoded], end: End) -> bool {
    let Some(last) = insns.last() else { return false };
    match (end, last.insn.kind) {
        (End::FallThrough, _) => flags_dead_at(maps, last.next(), None),
        (End::Transfer, Kind::Jmp) => flags_dead_at(maps, last.insn.target(last.pc), None),
        (End::Transfer, Kind::Call) => flags_dead_at(maps, last.insn.target(last.pc), Some(last.next())),
        _ => false,
    }
}

/// True when every arithmetic flag is overwritten at `pc` before anything reads it, as far as
/// straight-line code and direct transfers tell. A return is followed to `return_to`, the address
/// that the call in question pushed.
pub fn flags_dead_at(maps: &mut Maps, pc: u64, mut return_to: Option<u64>) -> bool {
    let mut open = Flags::ALL_ARITH;
    let mut at = pc;
    // Code that may change says nothing about the future.
    if maps.exec_region(pc).is_none_or(|r| r.is_volatile() || r.is_generated()) {
        return false;
    }
    for _ in 0..24 {
        let Ok(d) = decode_at(maps, at) else { return false };
        let insn = &d.insn;
        if insn.flags_read.intersects(open) {
            return false;
        }
        open = open.without(insn.flags_written);
        if open.is_empty() {
            return true;
        }
        at = match insn.kind {
            Kind::Jmp => insn.target(at),
            Kind::Call => {
                return_to = Some(d.next());
                insn.target(at)
            }
            Kind::Ret => match return_to.take() {
                Some(to) => to,
                None => return false,
            },
            _ if insn.ends_block() => return false,
            _ => d.next(),
        };
    }
    false
}

/// For each instruction, whether all arithmetic flags are dead before it; `after` says whether they are dead
/// behind the last one.
pub fn flags_dead(insns: &[Decoded], after: bool) -> impl Fn(usize) -> bool {
    let mut dead = [false; MAX_INSNS + 8];
    let mut live = if after { Flags::default() } else { Flags::ALL_ARITH };
    for (i, d) in insns.iter().enumerate().rev() {
        live = live.without(d.insn.flags_written).union(d.insn.flags_read.arith());
        dead[i] = live.is_empty();
    }
    move |i| dead[i]
}
