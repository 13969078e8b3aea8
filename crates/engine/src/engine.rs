//! The engine's state and the tables that give generated code its meaning.
//!
//! Invariants, true whenever the engine's lock is free:
//!
//! - E1: `by_key` maps (guest address, context) to the fragment that new links go to.
//! - E2: an exit's `field` is the aligned displacement of a branch that leads to the exit's stub or
//!   to what the exit was linked to.
//! - E3: every continuation in a shadow stack entry is a key of `continuations`, or a routine of
//!   [`crate::switch`] that stands for the bottom of a stack.
//! - E4: a lookup slot holds the newest stub of a chain; each stub checks key and target itself and
//!   passes what is not its own to the next, the last one to the engine.

use crate::ahead::Ahead;
use crate::block::Decoded;
use crate::code_cache::CodeCache;
use crate::events::{InsnEvents, Lines, Plan, Simulation};
use crate::exit::{CallSite, Exit, ExitKind, special};
use crate::layout::{HEAT, HEAT_SLOTS, IBL_SLOTS, IBL_TABLE};
use crate::maps::Maps;
use crate::off::OffSite;
use crate::thread::disp;
use crate::tool::Tool;
use alloc::vec::Vec;
use tallygraph_callgraph::hash::{Map, Set};
use tallygraph_callgraph::parked::ParkedStacks;
use tallygraph_callgraph::{BlockId, CtxId, EntryInfo, FnId, Graph, Place};
use tallygraph_sys::Errno;
use tallygraph_sys::mem::{self, RW};
use tallygraph_x64::asm::Asm;

/// What a stretch of the code cache holds.
#[derive(Clone)]
pub struct Fragment {
    /// Guest address.
    pub pc: u64,
    /// Context.
    pub context: CtxId,
    /// Block.
    pub block: BlockId,
    /// Where its last instruction lies.
    pub place: Place,
    /// Address of its last instruction.
    pub last_pc: u64,
    /// Entry in the code cache.
    pub start: u64,
    /// Address after its code.
    pub end: u64,
    /// Counter of executions, 0 for none.
    pub counter: u32,
    /// Instructions.
    pub insns: u16,
    /// Offset of the code that counts the block: before it nothing is counted.
    pub counted_at: u16,
    /// Offset after the code that counts the block.
    pub counted_end: u16,
    /// The running total is updated with the block's counter (else at the block's end).
    pub total_early: bool,
    /// First entry in the pc map.
    pub pc_map: u32,
    /// Its fragment was invalidated; nothing links to it any more.
    pub dead: bool,
    /// Translated with care, as a superblock.
    pub warm: bool,
}

/// Where a copied instruction is.
#[derive(Clone, Copy)]
pub struct PcEntry {
    /// Guest address.
    pub pc: u64,
    /// Offset of the instruction from the fragment's start.
    pub offset: u16,
    /// Register (hardware number) that is spilled while it runs, or 0xff.
    pub spilled: u8,
    /// Length of the guest instruction.
    pub len: u8,
    /// Its certain events.
    pub events: InsnEvents,
}

/// Choices that do not change results, for tests and for bounded memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineOptions {
    /// Exits are never linked.
    pub no_links: bool,
    /// Superblocks are never made.
    pub no_traces: bool,
    /// Largest block, 0 for the normal limit.
    pub block_limit: usize,
    /// Size of the code cache, 0 for the normal size.
    pub cache_size: u64,
    /// Everything is flushed at each exit.
    pub flush_always: bool,
    /// The indirect-branch lookup always misses.
    pub no_lookup: bool,
    /// Basic blocks that a thread counts between two pauses ([`crate::Next::Pause`]), 0 for none.
    pub pause_every: u32,
}

/// The engine.
pub struct Engine<T: Tool> {
    /// The tool.
    pub tool: T,
    /// The call graph.
    pub graph: Graph,
    /// The guest's executable mappings.
    pub maps: Maps,
    /// Options.
    pub options: EngineOptions,
    /// No other thread runs in the code cache: it may be flushed.
    pub single_thread: bool,
    /// What is simulated besides counting instructions.
    pub simulation: Option<Simulation>,
    pub(crate) plan: Plan,
    /// Lines of code that are fetched.
    pub lines: Lines,
    pub(crate) cache: CodeCache,
    /// How far fragments, exits, instructions and contexts of blocks are present.
    ahead: [Ahead; 4],
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) by_key: Map<(u64, CtxId), u32>,
    pub(crate) exits: Vec<Exit>,
    /// Call sites of exits that try the next recursion level.
    pub(crate) sites: Vec<CallSite>,
    /// Exits whose stubs nothing leads to any more, to be used again.
    pub(crate) free_exits: Vec<u32>,
    pub(crate) continuations: Map<u64, EntryInfo>,
    /// Addresses that calls return to.
    pub(crate) return_points: Set<u64>,
    /// Stacks that are not in use, of all threads.
    pub(crate) parked: ParkedStacks,
    /// Collection is to be switched when the engine comes on.
    pub(crate) toggled: bool,
    /// Functions with triggers that were left and not yet told of, in order.
    pub(crate) left: Vec<FnId>,
    pub(crate) pc_map: Vec<PcEntry>,
    pub(crate) thunks: Map<CallSite, u64>,
    pub(crate) insns: Vec<Decoded>,
    /// Context of each block, by its number.
    pub(crate) block_contexts: Vec<CtxId>,
    /// Fragments with instructions in a page of guest code.
    pub(crate) by_page: Map<u64, Vec<u32>>,
    /// Guest bytes of fragments of generated code, to see whether they have changed.
    pub(crate) copies: Map<u32, Vec<u8>>,
    /// The lookup table holds stubs, or is fresh.
    pub(crate) lookup_used: bool,
    /// Nothing is counted; see [`crate::off`].
    pub(crate) off: bool,
    /// The context of fragments made while off.
    pub(crate) off_context: CtxId,
    /// What made the entries of a continuation while off.
    pub(crate) off_sites: Map<u64, OffSite>,
    /// Blocks that stand for calls which were replayed.
    pub(crate) site_blocks: Map<(CtxId, u64), BlockId>,
    /// Targets of indirect branches, by address of the branch and context: the first, and how many.
    pub(crate) targets: Map<(u64, CtxId), (u64, u32)>,
    pub(crate) chain: Option<crate::translate::Chain>,
    /// Increases with each flush; addresses of generated code are valid within one epoch.
    pub(crate) epoch: u64,
    /// Statistics for `--stats=yes`.
    pub stats: Stats,
}

/// How much the engine did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Fragments made.
    pub fragments: u64,
    /// Guest instructions translated.
    pub insns: u64,
    /// Times a thread left the code cache.
    pub exits: u64,
    /// Of these, indirect branches not found.
    pub lookups: u64,
    /// Of these, returns out of order.
    pub returns: u64,
    /// Flushes of the whole code cache.
    pub flushes: u64,
    /// Fragments made a second time, as superblocks.
    pub warmed: u64,
    /// Stubs made for indirect branches.
    pub stubs: u64,
    /// Of these, stubs that serve once.
    pub passing: u64,
    /// Code that performs calls from outside fragments.
    pub thunks: u64,
    /// System calls.
    pub syscalls: u64,
}

impl<T: Tool> Engine<T> {
    /// Maps the engine's memory.
    pub fn new(tool: T, graph: Graph, options: EngineOptions) -> Result<Self, Errno> {
        let cache = CodeCache::new(options.cache_size)?;
        mem::map_at(IBL_TABLE, (IBL_SLOTS * 8) as u64, RW)?;
        mem::populate(IBL_TABLE, (IBL_SLOTS * 8) as u64);
        mem::map_at(HEAT, HEAT_SLOTS * 4, RW)?;
        let mut engine = Engine {
            tool,
            graph,
            maps: Maps::new(),
            options,
            single_thread: true,
            simulation: None,
            plan: Plan::default(),
            lines: Lines::default(),
            cache,
            ahead: [Ahead::default(); 4],
            // Room is address space only; pages come when touched, and nothing is ever moved.
            fragments: Vec::with_capacity(1 << 22),
            by_key: Map::default(),
            exits: Vec::with_capacity(1 << 23),
            sites: Vec::new(),
            free_exits: Vec::new(),
            continuations: Map::default(),
            return_points: Set::default(),
            parked: ParkedStacks::default(),
            left: Vec::new(),
            toggled: false,
            pc_map: Vec::with_capacity(1 << 25),
            thunks: Map::default(),
            insns: Vec::new(),
            block_contexts: Vec::with_capacity(1 << 24),
            by_page: Map::default(),
            copies: Map::default(),
            lookup_used: true,
            targets: Map::default(),
            off: false,
            off_context: CtxId::NONE,
            off_sites: Map::default(),
            site_blocks: Map::default(),
            chain: None,
            epoch: 0,
            stats: Stats::default(),
        };
        engine.clear_lookup();
        engine.off_context = engine.graph.unwatched(&mut engine.tool);
        Ok(engine)
    }

    /// Context of a block.
    pub fn block_context(&self, block: BlockId) -> CtxId {
        self.block_contexts.get(block.0 as usize).copied().unwrap_or(CtxId::NONE)
    }

    /// Functions with triggers that were left since this was asked last, in order.
    pub fn take_left(&mut self) -> Vec<FnId> {
        core::mem::take(&mut self.left)
    }

    /// Makes present what the next translation adds to the tables.
    pub(crate) fn look_ahead(&mut self) {
        let [fragments, exits, insns, blocks] = &mut self.ahead;
        fragments.keep(&self.fragments);
        exits.keep(&self.exits);
        insns.keep(&self.pc_map);
        blocks.keep(&self.block_contexts);
    }

    /// Increases each time that all generated code is removed; numbers of fragments mean something within
    /// one epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn clear_lookup(&mut self) {
        if !core::mem::take(&mut self.lookup_used) {
            return;
        }
        let miss = crate::switch::exit_lookup as *const () as u64;
        for slot in 0..IBL_SLOTS {
            Self::set_lookup(slot, miss);
        }
    }

    pub(crate) fn set_lookup(slot: usize, code: u64) {
        let at = (IBL_TABLE + slot as u64 * 8) as *const core::sync::atomic::AtomicU64;
        // SAFETY: the table is mapped for the engine's life and slot is below IBL_SLOTS.
        unsafe { &*at }.store(code, core::sync::atomic::Ordering::Release);
    }

    pub(crate) fn lookup_head(slot: usize) -> u64 {
        let at = (IBL_TABLE + slot as u64 * 8) as *const core::sync::atomic::AtomicU64;
        // SAFETY: as in `set_lookup`.
        unsafe { &*at }.load(core::sync::atomic::Ordering::Acquire)
    }

    /// Makes an exit and its stub; `spilled` says in what state the stub is reached.
    pub(crate) fn new_exit(
        &mut self,
        kind: ExitKind,
        fragment: u32,
        target: u64,
        spilled: bool,
    ) -> (u32, u64) {
        let block = self.fragments.get(fragment as usize).map_or(BlockId::NONE, |f| f.block);
        if !spilled && let Some(id) = self.free_exits.pop() {
            // The stub names the exit's number, so it is right as it is.
            let exit = self.exit(id);
            *exit = Exit { kind, fragment, block, target, field: 0, stub: exit.stub };
            return (id, exit.stub as u64);
        }
        let id = special::FIRST + self.exits.len() as u32;
        let (buf, at) = self.cache.stub();
        self.exits.push(Exit { kind, fragment, block, target, field: 0, stub: at as u32 });
        let mut asm = Asm::new(buf, at);
        asm.store_gs32_imm(disp!(exit_id), id);
        let leave = match (spilled, self.off) {
            (false, _) => crate::switch::exit_plain,
            (true, false) => crate::switch::exit_spilled,
            (true, true) => crate::switch::exit_spilled_off,
        };
        asm.jmp(leave as *const () as u64);
        debug_assert!(!asm.overflow);
        (id, at)
    }

    /// An exit number without a stub: the key of an indirect branch.
    pub(crate) fn new_key(&mut self, kind: ExitKind, fragment: u32, return_to: u64) -> u32 {
        let id = special::FIRST + self.exits.len() as u32;
        let block = self.fragments.get(fragment as usize).map_or(BlockId::NONE, |f| f.block);
        self.exits.push(Exit { kind, fragment, block, target: return_to, field: 0, stub: 0 });
        id
    }

    /// Nothing leads to an exit's stub any more: both are used again. Not while several threads run: one
    /// may be about to execute the stub.
    pub(crate) fn free_exit(&mut self, id: u32) {
        if self.single_thread {
            let exit = self.exit(id);
            exit.field = 0;
            self.free_exits.push(id);
        }
    }

    pub(crate) fn exit(&mut self, id: u32) -> &mut Exit {
        &mut self.exits[(id - special::FIRST) as usize]
    }

    /// Emits a jump to a new exit's stub that can be linked.
    pub(crate) fn jump_exit(&mut self, asm: &mut Asm, kind: ExitKind, fragment: u32, target: u64) -> u32 {
        let (id, stub) = self.new_exit(kind, fragment, target, false);
        let field = asm.jmp(stub);
        self.exit(id).field = (asm.pc() - 4) as u32;
        debug_assert_eq!(field + 4, asm.len());
        id
    }

    /// Points the branch of an exit to `code`. The exit must not be used afterwards.
    pub(crate) fn link(&mut self, id: u32, code: u64) {
        let field = self.exit(id).field as u64;
        if field == 0 || self.options.no_links {
            return;
        }
        let displacement = code.wrapping_sub(field + 4) as u32;
        // SAFETY: E2; the assembler aligned the field so that it does not cross eight bytes, so the
        // store is seen whole by threads that run the branch.
        unsafe {
            (*(field as *const core::sync::atomic::AtomicU32))
                .store(displacement, core::sync::atomic::Ordering::Release)
        };
        self.free_exit(id);
    }

    /// Bytes of fragments and thunks, and of exit stubs.
    pub fn code_bytes(&self) -> (u64, u64) {
        self.cache.used()
    }

    /// The fragment whose code holds `pc`.
    pub fn fragment_at(&self, pc: u64) -> Option<&Fragment> {
        if !self.cache.contains(pc) {
            return None;
        }
        let after = self.fragments.partition_point(|f| f.start <= pc);
        let f = self.fragments.get(after.checked_sub(1)?)?;
        (pc < f.end).then_some(f)
    }

    /// The copied instruction that starts at or last before `pc` inside a fragment.
    pub fn insn_at(&self, f: &Fragment, pc: u64) -> Option<&PcEntry> {
        let all = &self.pc_map[f.pc_map as usize..f.pc_map as usize + f.insns as usize];
        let offset = (pc - f.start) as u16;
        let after = all.partition_point(|e| e.offset <= offset);
        all.get(after.checked_sub(1)?)
    }
}
