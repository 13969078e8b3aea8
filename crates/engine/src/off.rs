//! Running without counting, and the way back.
//!
//! While instrumentation is off the guest runs in fragments of one context of their own, without counters,
//! active counts or call edges. What is kept is the shadow stack of return addresses, because returns go
//! through it, and for each kind of entry the instruction that made it. When instrumentation comes on, the
//! calls that are on the stack are *replayed* from the oldest to the newest: the graph then is as if it
//! had been watched from the start, and every later return is a return.
//!
//! The two kinds of fragments never lead to each other: they have different contexts, and at each change
//! the continuations of all entries are replaced by stubs that ask the engine. Other threads could not be
//! moved from one kind to the other while they run, so the engine is off only while there is one thread.

use crate::block::{self, Decoded};
use crate::engine::Engine;
use crate::events::Simulation;
use crate::exit::{Exit, ExitKind};
use crate::thread::ThreadState;
use crate::tool::{BlockIds, NewBlock, Tool};
use alloc::vec::Vec;
use tallygraph_callgraph::hash::Map;
use tallygraph_callgraph::{BlockId, CtxId, EdgeId, EntryInfo, EntryKind, FnId};

/// The transfer that made an entry while the engine was off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffSite {
    /// Guest address of the call or jump, 0 when unknown.
    pub pc: u64,
    /// Where it went.
    pub to_addr: u64,
}

impl<T: Tool> Engine<T> {
    /// Generated code counts.
    pub(crate) fn counting(&self) -> bool {
        self.tool.counts() && !self.off
    }

    /// What generated code simulates.
    pub(crate) fn simulation_now(&self) -> Option<Simulation> {
        self.simulation.filter(|_| !self.off)
    }

    /// True while nothing is counted by generated code.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// The context in which code runs: the one asked for, or while the engine is off the one of code that
    /// is not counted. After the engine came on, the context the thread's stack was replayed to.
    pub fn context_now(&self, state: &ThreadState, context: CtxId) -> CtxId {
        if context == self.off_context && !self.off { CtxId(state.replayed) } else { context }
    }

    /// The context that a signal handler interrupted, by what was noted then, or by its marker when the
    /// engine came on in the handler.
    pub fn interrupted_context(&self, state: &ThreadState, depth: usize, noted: CtxId) -> CtxId {
        if noted != self.off_context || self.off {
            return noted;
        }
        let entries = crate::dispatch::shadow_entries(state);
        entries.get(depth).map_or(CtxId::NONE, |e| CtxId(e.total as u32))
    }

    /// Numbers for a block that is not counted.
    pub(crate) fn no_ids() -> BlockIds {
        BlockIds { block: BlockId::NONE, counter: 0, repeated: Vec::new(), sites: Vec::new() }
    }

    /// The guest address of the transfer behind an exit. While off, the `block` of a side exit is one
    /// more than the distance of its branch from the fragment's start.
    pub(crate) fn exit_pc(&self, exit: &Exit) -> u64 {
        let f = &self.fragments[exit.fragment as usize];
        if f.context == self.off_context && !exit.block.is_none() && matches!(exit.kind, ExitKind::Direct) {
            f.pc.wrapping_add(exit.block.0.wrapping_sub(1) as i32 as i64 as u64)
        } else {
            f.last_pc
        }
    }

    /// Notes where a thread without frames starts, in its bottom entry.
    pub fn set_root(&mut self, state: &mut ThreadState, pc: u64) {
        crate::dispatch::shadow_entries(state)[0].total = pc;
    }

    /// Stops counting. The thread given is the only one; its inclusive costs are settled.
    pub fn turn_off(&mut self, state: &mut ThreadState) {
        if self.off {
            return;
        }
        self.off = true;
        let mut stubs: Map<u64, u64> = Map::default();
        for entry in crate::dispatch::shadow_entries(state) {
            let Some(&info) = self.continuations.get(&entry.continuation) else {
                entry.continuation = crate::switch::bottom(true);
                continue;
            };
            let stub = match stubs.get(&entry.continuation) {
                Some(&stub) => stub,
                None => {
                    let stub = self.lazy_continuation(info);
                    stubs.insert(entry.continuation, stub);
                    stub
                }
            };
            entry.continuation = stub;
        }
    }

    /// Starts counting: replays the calls on the stack of the only thread, which goes on at `pc`.
    pub fn turn_on(&mut self, state: &mut ThreadState, pc: u64) {
        if !self.off {
            return;
        }
        self.off = false;
        let this: *mut ThreadState = state;
        // SAFETY: the thread is in the engine.
        let total = unsafe { *state.counter(crate::layout::TOTAL_COUNTER) };
        let mut here = CtxId::NONE;
        // One stub for each way an entry can be: deep recursion has few.
        let mut stubs: Map<(u64, CtxId, u32), (u64, CtxId)> = Map::default();
        for entry in crate::dispatch::shadow_entries(state) {
            let Some(&info) = self.continuations.get(&entry.continuation) else {
                entry.continuation = crate::switch::bottom(false);
                if entry.sp == u64::MAX {
                    // The bottom.
                    if entry.total != 0 {
                        here = self.root_at(entry.total);
                    }
                    continue;
                }
                // A signal handler's marker, which keeps the interrupted context.
                if entry.total == self.off_context.0 as u64 {
                    entry.total = here.0 as u64;
                }
                here = CtxId::NONE;
                continue;
            };
            let Some(&site) = self.off_sites.get(&entry.continuation) else {
                here = info.to;
                continue;
            };
            if here.is_none() {
                here = self.root_at(site.pc);
            }
            let function = self.callee_of(here, site.to_addr);
            // SAFETY: as above; functions beyond the table have no count.
            let active =
                |f: FnId| unsafe { (f.0 < crate::layout::MAX_FUNCTIONS).then(|| *(*this).active(f.0)) };
            let level = active(function).unwrap_or(0);
            let key = (entry.continuation, here, level);
            let (stub, to) = match stubs.get(&key) {
                Some(&known) => known,
                None => {
                    let info = self.replay(here, function, level, site, info.kind);
                    let made = (self.lazy_continuation(info), info.to);
                    stubs.insert(key, made);
                    made
                }
            };
            let info = self.continuations[&stub];
            if !info.active.is_none() {
                // SAFETY: as above.
                unsafe { *(*this).active(info.active.0) = info.active_before + 1 };
            }
            entry.continuation = stub;
            entry.total = total;
            if let Some(sim) = &self.simulation {
                // SAFETY: as above; the entry lies on the stack.
                unsafe { crate::events::begin(&mut *this, sim, entry) };
            }
            here = to;
        }
        if here.is_none() {
            here = self.root_at(pc);
        }
        if core::mem::take(&mut self.toggled) {
            here = self.switch_side(state, here);
        }
        state.replayed = here.0;
    }

    /// The entry that a call would have made had it been counted. `level` is the callee's active count.
    fn replay(
        &mut self,
        caller: CtxId,
        function: FnId,
        level: u32,
        site: OffSite,
        kind: EntryKind,
    ) -> EntryInfo {
        let mut info =
            EntryInfo { kind, edge: EdgeId::NONE, active: FnId::NONE, active_before: 0, caller, to: caller };
        let Some(to) = self.place_of(site.to_addr) else { return info };
        let block = self.site_block(caller, site.pc);
        let (first, certain) = self.graph.first_level(caller, function);
        let level = if certain { first } else { first.max(level + 1).min(self.graph.variants(function)) };
        let v = self.graph.call(caller, block, function, &to, site.to_addr, level, &mut self.tool);
        info.edge = v.edge;
        info.to = v.to;
        if v.active.0 < crate::layout::MAX_FUNCTIONS {
            (info.active, info.active_before) = (v.active, v.active_before);
        }
        info
    }

    /// A block that stands for a call instruction which is not counted; it never runs.
    fn site_block(&mut self, context: CtxId, pc: u64) -> BlockId {
        if let Some(&block) = self.site_blocks.get(&(context, pc)) {
            return block;
        }
        let (Ok(call), Some(place)) = (block::decode_at(&mut self.maps, pc), self.place_of(pc)) else {
            return BlockId::NONE;
        };
        let insns: [Decoded; 1] = [call];
        let new = NewBlock {
            context,
            place,
            insns: &insns,
            repeated: &[],
            conditional: false,
            collected: false,
            events: &[],
            sites: &[],
        };
        let block = self.tool.block(&new).block;
        self.note_block(block, context);
        self.site_blocks.insert((context, pc), block);
        block
    }

    /// A continuation that lets the engine resolve the return.
    pub(crate) fn lazy_continuation(&mut self, info: EntryInfo) -> u64 {
        let (_, stub) = self.new_exit(ExitKind::LazyContinuation, 0, 0, true);
        self.continuations.insert(stub, info);
        stub
    }
}
