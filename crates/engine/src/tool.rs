//! What the engine asks of a tool.
//!
//! The engine executes; a tool gives addresses a meaning and counters a home. Two tools exist: the
//! profiler in the agent, and small ones in tests.

use crate::block::Decoded;
use crate::engine::PcEntry;
use crate::events::{InsnEvents, Site};
use crate::maps::Region;
use crate::thread::ThreadState;
use alloc::vec::Vec;
use tallygraph_callgraph::{BlockId, CtxId, FnId, Place, Rules, Sink};

/// A block about to be translated.
pub struct NewBlock<'a> {
    /// Its context.
    pub context: CtxId,
    /// Where its first instruction lies.
    pub place: Place,
    /// Its instructions.
    pub insns: &'a [Decoded],
    /// Indices of the instructions that need a counter of further executions.
    pub repeated: &'a [u16],
    /// It ends in a conditional branch.
    pub conditional: bool,
    /// Its costs are collected; else no counter of it is ever used.
    pub collected: bool,
    /// Certain events of each instruction; empty when nothing is simulated.
    pub events: &'a [InsnEvents],
    /// Where counters for other events are needed.
    pub sites: &'a [Site],
}

/// Numbers a tool gave to a block.
pub struct BlockIds {
    /// The block.
    pub block: BlockId,
    /// Counter of executions, 0 for none.
    pub counter: u32,
    /// Counter of further executions for each index in [`NewBlock::repeated`].
    pub repeated: Vec<u32>,
    /// First counter for each of [`NewBlock::sites`].
    pub sites: Vec<u32>,
}

/// The seam between engine and profiler.
pub trait Tool: Sink {
    /// False when nothing is counted: neither counters nor the running total are emitted.
    fn counts(&self) -> bool;
    /// Facts about a code address in `region`.
    fn place(&mut self, addr: u64, region: &Region) -> Place;
    /// The first address behind `addr` at which a symbol begins, or the region's end.
    fn stretch_end(&mut self, addr: u64, region: &Region) -> u64;
    /// The function that a call to `addr` enters.
    fn function(&mut self, addr: u64, region: &Region) -> FnId;
    /// How calls of a function are treated; none for the way of most.
    fn rules(&mut self, function: FnId) -> Option<Rules> {
        let _ = function;
        None
    }
    /// Calls of this function are skipped because of the object it lies in.
    fn skips(&mut self, function: FnId) -> bool {
        let _ = function;
        false
    }
    /// The addresses lie in the same function as far as symbols tell.
    fn same_function(&mut self, a: u64, b: u64) -> bool;
    /// A jump out of this function counts as leaving it and calling the target from its own
    /// caller (the dynamic linker's resolver).
    fn pops_on_jump(&self, function: FnId) -> bool;
    /// A block is about to be translated.
    fn block(&mut self, block: &NewBlock) -> BlockIds;
    /// True when jumps within functions are counted.
    fn counts_jumps(&self) -> bool {
        false
    }
    /// The branch at `from` in a block is counted when it goes to `to`: in `counter`, or where that is 0 in
    /// one that is given.
    fn jump(&mut self, block: BlockId, conditional: bool, from: u64, to: u64, counter: u32) -> u32 {
        let _ = (block, conditional, from, to);
        counter
    }
    /// Counter for the first instructions of a block that was cut short, 0 when there are none.
    fn prefix_block(&mut self, context: CtxId, place: Place, insns: &[PcEntry]) -> u32;
    /// Uncertain events raised under the shadow stack entry at `entry`, which is popped, are passed on: to the edge whose inclusive
    /// counters begin at `inclusive` (0 for none) and to the entry below.
    fn pass_on(state: &mut ThreadState, inclusive: u32, entry: u64);
    /// Mappings in a range are gone or replaced.
    fn forget(&mut self, start: u64, len: u64);
}
