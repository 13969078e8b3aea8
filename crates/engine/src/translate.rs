//! Guest block to fragment.

use crate::block::{self, Decoded, End, MAX_INSNS, NoBlock};
use crate::calls;
use crate::emit;
use crate::engine::{Engine, Fragment, PcEntry};
use crate::events::{self, CERTAIN, InsnEvents, Plan, Simulation};
use crate::exit::{CallSite, ExitKind};
use crate::jumps::Path;
use crate::layout::{HEAT, HEAT_SLOTS, TOTAL, counter_disp};
use crate::maps::Maps;
use crate::off::OffSite;
use crate::thread::gpr_disp;
use crate::tool::{BlockIds, NewBlock, Tool};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tallygraph_callgraph::{
    BlockId, CallVariant, CtxId, Edge, EdgeId, EntryInfo, EntryKind, FnId, Graph, Place, Transfer,
};
use tallygraph_x64::Kind;
use tallygraph_x64::asm::{Asm, Gpr, cc};

/// A fragment that is not yet committed because the code after a call may follow it directly.
pub(crate) struct Chain {
    /// Where the call returns to.
    pc: u64,
    context: CtxId,
    /// Bytes up to the jump to the return point, and with it.
    keep: usize,
    full: usize,
    exit: u32,
}

/// How many return points follow each other directly.
const MAX_CHAIN: usize = 2;

/// A block being emitted.
struct Emission<'a> {
    fragment: u32,
    context: CtxId,
    ids: BlockIds,
    counting: bool,
    /// The counter is not yet placed when the end is reached.
    late: bool,
    /// The total is not yet updated when the end is reached.
    total_late: bool,
    insns: &'a [Decoded],
    /// Arithmetic flags are dead behind the last instruction.
    dead_after: bool,
    /// Conditional branches inside the superblock.
    side_exits: Vec<SideExit>,
    /// What is simulated, and how.
    sim: Option<Simulation>,
    plan: Plan,
    /// Certain events of the whole.
    certain: [u32; CERTAIN],
}

/// Leads decoding by what the tool knows of addresses.
struct PlaceGuide<'e, T> {
    tool: &'e mut T,
    /// Where the latest instructions lie.
    last: &'e mut Place,
}

impl<T: Tool> block::Guide for PlaceGuide<'_, T> {
    fn stays(&mut self, maps: &mut Maps, to: u64) -> bool {
        let Some(region) = maps.exec_region(to) else { return false };
        let place = self.tool.place(to, region);
        let stays = Graph::jump(self.last, &place) == Transfer::Stay;
        if stays {
            *self.last = place;
        }
        stays
    }

    fn stretch_end(&mut self, maps: &mut Maps, from: u64) -> u64 {
        match maps.exec_region(from) {
            Some(region) => self.tool.stretch_end(from, region),
            None => from,
        }
    }
}

/// What a call leaves to be emitted: the code its return goes to.
struct Continuation {
    site: CallSite,
    variant: CallVariant,
    edge: Option<Edge>,
    fragment: u32,
    /// Offset of the imm32 that takes its address.
    field: usize,
}

/// A conditional branch that leaves a superblock early.
struct SideExit {
    /// Offset of the branch's rel32 field.
    field: usize,
    /// The path up to and including the branch.
    ids: BlockIds,
    /// Its instructions.
    insns: usize,
    /// Their certain events.
    certain: [u32; CERTAIN],
    /// Where the branch goes.
    target: u64,
}

impl<T: Tool> Engine<T> {
    /// The fragment for `pc` in `context`, made if there is none.
    pub(crate) fn fragment_for(&mut self, pc: u64, context: CtxId) -> Result<u32, NoBlock> {
        let context = if self.off { self.off_context } else { context };
        match self.by_key.get(&(pc, context)) {
            Some(&f) => Ok(f),
            None => self.translate(pc, context, false),
        }
    }

    /// The fragment for `pc` in `context`, made with care: code that is run often.
    pub(crate) fn warm_fragment_for(&mut self, pc: u64, context: CtxId) -> Result<u32, NoBlock> {
        match self.by_key.get(&(pc, context)) {
            Some(&f) if self.fragments[f as usize].warm => Ok(f),
            _ => self.translate(pc, context, true),
        }
    }

    /// Entry address of a fragment.
    pub(crate) fn entry_of(&self, fragment: u32) -> u64 {
        self.fragments[fragment as usize].start
    }

    /// Facts about an address; a default when it is not executable.
    pub(crate) fn place_of(&mut self, pc: u64) -> Option<Place> {
        let region = self.maps.exec_region(pc)?;
        Some(self.tool.place(pc, region))
    }

    /// The function a call to `pc` enters.
    pub(crate) fn function_of(&mut self, pc: u64) -> FnId {
        let Some(region) = self.maps.exec_region(pc) else { return FnId::NONE };
        let function = self.tool.function(pc, region);
        if !self.graph.knows(function) {
            let rules = self.tool.rules(function).unwrap_or(self.graph.options().rules);
            self.graph.set_rules(function, rules);
        }
        function
    }

    /// The function that a call of `pc` from a context counts as.
    pub(crate) fn callee_of(&mut self, caller: CtxId, pc: u64) -> FnId {
        let function = self.function_of(pc);
        self.graph.callee(caller, function)
    }

    /// The function that a transfer to `to` enters, and the recursion level to try first.
    pub(crate) fn callee(&mut self, caller: CtxId, to: u64) -> (FnId, u32) {
        if self.off {
            return (FnId::NONE, 1);
        }
        let function = self.callee_of(caller, to);
        (function, self.graph.first_level(caller, function).0)
    }

    fn translate(&mut self, pc: u64, context: CtxId, warm: bool) -> Result<u32, NoBlock> {
        let mut insns = core::mem::take(&mut self.insns);
        let result = self.translate_into(pc, context, warm, &mut insns);
        for _ in 0..MAX_CHAIN {
            let Some(chain) = self.chain.take() else { break };
            // The code after a call follows its continuation, when it is not there yet.
            let fresh = warm && !self.options.no_traces && !self.is_translated_warm(chain.pc, chain.context);
            let steady =
                self.maps.exec_region(chain.pc).is_some_and(|r| !r.is_volatile() && !r.is_generated());
            if !fresh || !steady || self.place_of(chain.pc).is_none() {
                self.chain = Some(chain);
                break;
            }
            if let Some(f) = self.fragments.last_mut() {
                f.end = f.start + chain.keep as u64;
            }
            let before = self.fragments.len();
            self.cache.commit_exact(chain.keep);
            if self.translate_into(chain.pc, chain.context, warm, &mut insns).is_ok() {
                self.free_exit(chain.exit);
            } else {
                debug_assert_eq!(before, self.fragments.len());
                // Nothing was made: the jump is still there.
                self.cache.commit(chain.full - chain.keep);
                if let Some(f) = self.fragments.last_mut() {
                    f.end = f.start + chain.full as u64;
                }
            }
        }
        if let Some(chain) = self.chain.take() {
            self.cache.commit(chain.full);
        }
        self.insns = insns;
        result
    }

    fn index_pages(&mut self, fragment: u32, insns: &[Decoded]) {
        let mut last = u64::MAX;
        for d in insns {
            for page in [d.pc >> 12, (d.next() - 1) >> 12] {
                if page != last {
                    let list = self.by_page.entry(page).or_default();
                    if list.last() != Some(&fragment) {
                        list.push(fragment);
                    }
                    last = page;
                }
            }
        }
    }

    /// Emits the comparison of a fragment's guest bytes with what was translated, at its entry.
    fn emit_check(&mut self, asm: &mut Asm, e: &Emission) {
        let (first, last) = (&e.insns[0], &e.insns[e.insns.len() - 1]);
        let len = (last.next() - first.pc) as usize;
        let mut bytes = [0u8; (MAX_INSNS + 8) * 16];
        for d in e.insns {
            let at = (d.pc - first.pc) as usize;
            bytes[at..at + d.insn.len as usize].copy_from_slice(&d.bytes[..d.insn.len as usize]);
        }
        calls::spill(asm);
        calls::keep_flags(asm, true);
        asm.mov_imm64(Gpr::R11, first.pc);
        let mut fields = Vec::new();
        let mut at = 0;
        while at < len {
            // Aligned, since the guest may have alignment checked.
            let from = first.pc as usize + at;
            let n = match len - at {
                8.. if from.is_multiple_of(8) => 8,
                4.. if from.is_multiple_of(4) => 4,
                _ => 1,
            };
            let mut word = [0u8; 8];
            word[..n].copy_from_slice(&bytes[at..at + n]);
            let word = u64::from_le_bytes(word);
            match n {
                8 => {
                    asm.mov_imm64(Gpr::R10, word);
                    asm.cmp_load(Gpr::R10, Gpr::R11, at as i32);
                }
                4 => asm.cmp_dword_imm(Gpr::R11, at as i32, word as u32),
                _ => asm.cmp_byte_imm(Gpr::R11, at as i32, word as u8),
            }
            fields.push(asm.jcc(cc::NE, asm.pc()));
            at += n;
        }
        calls::restore_flags(asm, true);
        calls::unspill(asm);
        let over = asm.jmp8();
        for field in fields {
            asm.patch32(field, (asm.len() - field - 4) as i32);
        }
        calls::restore_flags(asm, true);
        calls::unspill(asm);
        let (_, stub) = self.new_exit(ExitKind::Stale, e.fragment, first.pc, false);
        asm.jmp(stub);
        asm.bind8(over);
    }

    /// Makes sure that a fragment is never entered again: whoever comes goes to the engine.
    fn retire(&mut self, fragment: u32) {
        let f = &mut self.fragments[fragment as usize];
        if f.dead || f.start == 0 {
            return;
        }
        f.dead = true;
        let (pc, context, start) = (f.pc, f.context, f.start);
        if self.by_key.get(&(pc, context)) == Some(&fragment) {
            self.by_key.remove(&(pc, context));
        }
        self.copies.remove(&fragment);
        let (_, stub) = self.new_exit(ExitKind::Stale, fragment, pc, false);
        redirect(start, stub);
    }

    /// The guest's code in a range is gone or may have changed. With `compare`, fragments whose bytes
    /// are as they were stay.
    pub fn invalidate(&mut self, start: u64, len: u64, compare: bool) {
        let (first, last) = (start >> 12, (start + len.max(1) - 1) >> 12);
        let pages: Vec<u64> = if last - first > self.by_page.len() as u64 {
            self.by_page.keys().copied().filter(|p| (first..=last).contains(p)).collect()
        } else {
            (first..=last).collect()
        };
        for page in pages {
            let Some(list) = self.by_page.remove(&page) else { continue };
            let mut kept = Vec::new();
            for fragment in list {
                if self.fragments.get(fragment as usize).is_none_or(|f| f.dead) {
                    continue;
                }
                if compare && self.is_unchanged(fragment) {
                    kept.push(fragment);
                } else {
                    self.retire(fragment);
                }
            }
            if !kept.is_empty() {
                self.by_page.insert(page, kept);
            }
        }
    }

    /// True when a fragment's guest bytes are what was translated. Code of files does not change by
    /// a change of protection alone.
    fn is_unchanged(&mut self, fragment: u32) -> bool {
        let f = &self.fragments[fragment as usize];
        let Some(copy) = self.copies.get(&fragment) else { return true };
        let entries = &self.pc_map[f.pc_map as usize..f.pc_map as usize + f.insns as usize];
        let mut at = 0;
        let mut now = [0u8; 16];
        for e in entries {
            let n = e.len as usize;
            let got = tallygraph_sys::mem::read_guest(crate::own_pid(), e.pc, &mut now[..n]);
            if got != n || now[..n] != copy[at..at + n] {
                return false;
            }
            at += n;
        }
        true
    }

    pub(crate) fn note_block(&mut self, block: BlockId, context: CtxId) {
        let at = block.0 as usize;
        if self.block_contexts.len() <= at {
            self.block_contexts.resize(at + 1, CtxId::NONE);
        }
        self.block_contexts[at] = context;
    }

    fn is_translated_warm(&self, pc: u64, context: CtxId) -> bool {
        self.by_key.get(&(pc, context)).is_some_and(|&f| self.fragments[f as usize].warm)
    }

    fn translate_into(
        &mut self,
        pc: u64,
        context: CtxId,
        warm: bool,
        insns: &mut Vec<Decoded>,
    ) -> Result<u32, NoBlock> {
        self.look_ahead();
        let limit = match self.options.block_limit {
            0 => MAX_INSNS,
            n => n.min(MAX_INSNS),
        };
        let place = self.place_of(pc).ok_or(NoBlock::NotExecutable)?;
        let region = self.maps.exec_region(pc).ok_or(NoBlock::NotExecutable)?;
        let (volatile, generated) = (region.is_volatile(), region.is_generated());
        let mut last_place = place;
        let side_exits = if warm && !self.options.no_traces && !volatile { block::MAX_SIDE_EXITS } else { 0 };
        let Engine { maps, tool, .. } = self;
        let mut guide = PlaceGuide { tool, last: &mut last_place };
        let end = block::decode(maps, pc, limit, side_exits, volatile, insns, &mut guide)?;
        let fragment = self.fragments.len() as u32;
        let repeated: Vec<u16> =
            (0..insns.len() as u16).filter(|&i| is_repeated(&insns[i as usize])).collect();
        let last = insns[insns.len() - 1];
        let conditional = end == End::Transfer && last.insn.kind == Kind::Jcc;
        let sim = self.simulation_now();
        let mut plan = core::mem::take(&mut self.plan);
        match &sim {
            Some(sim) => {
                plan.make(sim, &mut self.maps, insns, end, &mut self.lines);
            }
            None => plan.clear(),
        }
        let counting = self.counting() && !self.graph.context(context).aside;
        let mut ids = if self.off {
            Self::no_ids()
        } else {
            self.tool.block(&NewBlock {
                context,
                place,
                insns,
                repeated: &repeated,
                conditional,
                collected: counting,
                events: &plan.events,
                sites: &plan.sites,
            })
        };
        plan.set_counters(core::mem::take(&mut ids.sites));
        let certain = events::sum(plan.events.iter().copied());
        let block = ids.block;
        self.note_block(block, context);
        let counter = ids.counter;
        let dead_after = block::flags_dead_after(&mut self.maps, insns, end);
        let (buf, base) = self.cache.free();
        let mut asm = Asm::new(buf, base);
        let first_map = self.pc_map.len() as u32;
        let mut e = Emission {
            fragment,
            context,
            ids,
            counting,
            late: counting,
            total_late: counting,
            insns,
            dead_after,
            side_exits: Vec::new(),
            sim,
            plan,
            certain,
        };
        self.fragments.push(Fragment {
            pc,
            context,
            block,
            place: last_place,
            last_pc: last.pc,
            start: base,
            end: base,
            counter,
            insns: insns.len() as u16,
            counted_at: 0,
            counted_end: 0,
            total_early: false,
            pc_map: first_map,
            dead: false,
            warm,
        });
        self.by_key.insert((pc, context), fragment);
        self.index_pages(fragment, e.insns);
        if volatile {
            self.emit_check(&mut asm, &e);
        } else if generated {
            // Room for a jump, in case the code changes.
            asm.nop(8);
            self.copies.insert(
                fragment,
                e.insns.iter().flat_map(|d| d.bytes[..d.insn.len as usize].iter().copied()).collect(),
            );
        }
        self.emit_body(&mut asm, &mut e, end);
        let continuation = self.emit_end(&mut asm, &mut e, end);
        self.emit_side_exits(&mut asm, &e);
        self.note_paths(&e);
        if let Some(sim) = &sim {
            e.plan.emit_late(&mut asm, sim, e.insns);
        }
        self.plan = core::mem::take(&mut e.plan);
        let len = match continuation {
            Some(c) => {
                let (keep, exit) = self.emit_continuation(&mut asm, &c);
                let full = asm.len();
                self.chain = Some(Chain { pc: c.site.return_to.unwrap_or(0), context, keep, full, exit });
                full
            }
            None => {
                let len = asm.len();
                self.cache.commit(len);
                len
            }
        };
        assert!(!asm.overflow, "a translation does not fit");
        self.fragments[fragment as usize].end = base + len as u64;
        self.stats.fragments += 1;
        self.stats.warmed += warm as u64;
        self.stats.insns += insns.len() as u64;
        Ok(fragment)
    }

    /// Copies the instructions up to the one that ends the block, and counts the block at the first
    /// place where flags are dead.
    fn emit_body(&mut self, asm: &mut Asm, e: &mut Emission, end: End) {
        let dead = block::flags_dead(e.insns, e.dead_after);
        let n = e.insns.len();
        let last = &e.insns[n - 1].insn;
        // Calls, returns and indirect branches update the total on their own.
        let own_total = end == End::Transfer && matches!(last.kind, Kind::Call | Kind::Ret) && e.counting;
        let body = if end == End::Transfer && !copied_at_end(last.kind) { n - 1 } else { n };
        let total = e.insns.len() as i32;
        // Only what runs after the last side exit may count the whole.
        let is_side_exit = |i: usize| i + 1 < n && e.insns[i].insn.kind == Kind::Jcc;
        let last_part = (0..n).rev().find(|&i| is_side_exit(i)).map_or(0, |i| i + 1);
        let position = (last_part..n).find(|&i| dead(i));
        let must_count_early = !own_total && position.is_none();
        let warm = self.fragments[e.fragment as usize].warm;
        if !warm && asm.is_empty() && end != End::Request && !self.options.no_traces && !self.options.no_links
        {
            self.emit_countdown(asm, e.fragment, !dead(0));
        }
        if self.options.pause_every != 0 && e.counting && end != End::Request {
            self.emit_pause(asm, e, !dead(0));
        }
        let mut next_repeated = 0;
        for i in 0..n {
            if e.counting && must_count_early && i == last_part {
                let at = asm.len();
                calls::count_neutral(asm, counter_disp(e.ids.counter), total, &e.certain);
                self.set_counted(e, at, asm.len(), true);
            }
            if e.counting && e.late && position == Some(i) {
                let at = asm.len();
                asm.inc_gs(counter_disp(e.ids.counter));
                events::add_totals(asm, &e.certain);
                if !own_total {
                    asm.add_gs_imm(TOTAL, total);
                }
                self.set_counted(e, at, asm.len(), !own_total);
            }
            if let Some(sim) = &e.sim {
                e.plan.emit_before(asm, sim, e.insns, i);
            }
            let d = &e.insns[i];
            let start = asm.len();
            let mut spilled = 0xff;
            let mut offset = start;
            if end == End::Request {
                // Nothing to execute: the request is the engine's.
            } else if i < body {
                if is_repeated(d) && e.counting {
                    emit::repeated(asm, d, counter_disp(e.ids.repeated[next_repeated]), TOTAL);
                    next_repeated += 1;
                    if let Some(sim) = &e.sim {
                        e.plan.emit_after(asm, sim, e.insns, i);
                    }
                } else if d.insn.kind == Kind::Jcc {
                    self.emit_side_branch(asm, e, i);
                } else if d.insn.kind != Kind::Jmp {
                    match emit::copy(asm, d) {
                        Ok(at) => {
                            offset += at;
                            if at != 0 {
                                spilled = emit::scratch_for(d) as u8;
                            }
                        }
                        Err(_) => {
                            self.jump_exit(asm, ExitKind::Unsupported, e.fragment, d.pc);
                        }
                    }
                }
            }
            let mut events = e.plan.events.get(i).copied().unwrap_or_default();
            if e.plan.flags_kept {
                events.keep_flags();
            }
            self.pc_map.push(PcEntry { pc: d.pc, offset: offset as u16, spilled, len: d.insn.len, events });
        }
        e.plan.restore_flags(asm, n);
    }

    /// Emits the countdown to the second translation, at the very start of a fragment: its first
    /// instruction is long enough to be replaced by a jump in one aligned store.
    fn emit_countdown(&mut self, asm: &mut Asm, fragment: u32, keep_flags: bool) {
        if fragment as u64 >= HEAT_SLOTS || !asm.is_empty() || !asm.pc().is_multiple_of(8) {
            return;
        }
        let at = HEAT + fragment as u64 * 4;
        // SAFETY: the table is mapped for the engine's life.
        unsafe { (*(at as *const AtomicU32)).store(WARM_AFTER, Ordering::Relaxed) };
        let (_, stub) = self.new_exit(ExitKind::Warm, fragment, 0, false);
        calls::keep_flags(asm, keep_flags);
        asm.dec_abs32(at as i32);
        if keep_flags {
            let goes_on = asm.jcc8(cc::NS);
            calls::restore_flags(asm, true);
            asm.jmp(stub);
            asm.bind8(goes_on);
            calls::restore_flags(asm, true);
        } else {
            asm.jcc(cc::S, stub);
        }
    }

    /// Emits the count of basic blocks to the next pause, at the start of a fragment.
    fn emit_pause(&mut self, asm: &mut Asm, e: &Emission, keep_flags: bool) {
        let (last, before) = e.insns.split_last().expect("a block has instructions");
        let branches = before.iter().filter(|d| d.insn.ends_block()).count();
        let pc = before.first().unwrap_or(last).pc;
        let (_, stub) = self.new_exit(ExitKind::Pause, e.fragment, pc, false);
        calls::keep_flags(asm, keep_flags);
        asm.add_gs_imm(crate::thread::disp!(pause_count), branches as i32 + 1);
        if keep_flags {
            let goes_on = asm.jcc8(cc::S);
            calls::restore_flags(asm, true);
            asm.jmp(stub);
            asm.bind8(goes_on);
            calls::restore_flags(asm, true);
        } else {
            asm.jcc(cc::NS, stub);
        }
    }

    /// Emits a conditional branch inside a superblock. What it leads to counts the path up to it.
    fn emit_side_branch(&mut self, asm: &mut Asm, e: &mut Emission, i: usize) {
        let d = &e.insns[i];
        let path = &e.insns[..=i];
        // Further executions of repeated instructions are counted with the whole superblock.
        let context = e.context;
        let place = self.fragments[e.fragment as usize].place;
        let events: &[InsnEvents] = e.plan.events.get(..=i).unwrap_or(&[]);
        let certain = events::sum(events.iter().copied());
        let ids = if self.off {
            // The exit tells where the branch is.
            BlockIds {
                block: BlockId((d.pc.wrapping_sub(e.insns[0].pc) as u32).wrapping_add(1)),
                ..Self::no_ids()
            }
        } else {
            let new = NewBlock {
                context,
                place,
                insns: path,
                repeated: &[],
                conditional: true,
                collected: e.counting,
                events,
                sites: &[],
            };
            let ids = self.tool.block(&new);
            self.note_block(ids.block, context);
            ids
        };
        // The likely way goes on in the superblock.
        let (cc, target) =
            if d.taken { (d.insn.cc() ^ 1, d.next()) } else { (d.insn.cc(), d.insn.target(d.pc)) };
        asm.jcc(cc, asm.pc());
        let field = asm.len() - 4;
        e.side_exits.push(SideExit { field, ids, insns: i + 1, certain, target });
    }

    /// A counter for the branch that ends a fragment, 0 when it is not counted.
    fn end_jump_counter(&mut self, e: &Emission, conditional: bool, from: u64, to: u64) -> u32 {
        if !e.counting {
            return 0;
        }
        let place = self.fragments[e.fragment as usize].place;
        self.jump_counter(e.ids.block, &place, conditional, from, to)
    }

    /// Says what the counters of a superblock tell of the branches in it.
    fn note_paths(&mut self, e: &Emission) {
        if !e.counting || !self.tool.counts_jumps() {
            return;
        }
        let place = self.fragments[e.fragment as usize].place;
        let path = |ids: &BlockIds, insns| Path { block: ids.block, counter: ids.counter, insns };
        let sides: Vec<Path> = e.side_exits.iter().map(|s| path(&s.ids, s.insns)).collect();
        self.note_jumps(e.insns, &place, path(&e.ids, e.insns.len()), &sides);
    }

    /// Emits what side exits lead to: counting, then the jump to the target.
    fn emit_side_exits(&mut self, asm: &mut Asm, e: &Emission) {
        for side in &e.side_exits {
            asm.patch32(side.field, (asm.len() - side.field - 4) as i32);
            if e.counting {
                let counter = counter_disp(side.ids.counter);
                if block::flags_dead_at(&mut self.maps, side.target, None) {
                    asm.inc_gs(counter);
                    asm.add_gs_imm(TOTAL, side.insns as i32);
                    events::add_totals(asm, &side.certain);
                } else {
                    calls::count_neutral(asm, counter, side.insns as i32, &side.certain);
                }
            }
            let id = self.jump_exit(asm, ExitKind::Direct, e.fragment, side.target);
            self.exit(id).block = side.ids.block;
        }
    }

    fn set_counted(&mut self, e: &mut Emission, from: usize, to: usize, with_total: bool) {
        e.late = false;
        e.total_late = !with_total;
        let f = &mut self.fragments[e.fragment as usize];
        f.counted_at = from as u16;
        f.counted_end = to as u16;
        f.total_early = with_total;
    }

    /// Emits the end of the block; gives the continuation of a direct call, to be emitted last.
    fn emit_end(&mut self, asm: &mut Asm, e: &mut Emission, end: End) -> Option<Continuation> {
        let last = e.insns[e.insns.len() - 1];
        let next = last.next();
        match end {
            End::FallThrough => {
                self.jump_exit(asm, ExitKind::Direct, e.fragment, next);
                return None;
            }
            End::Request => {
                self.leave(asm, ExitKind::ClientRequest, e.fragment, next);
                return None;
            }
            End::Transfer => {}
        }
        let insn = &last.insn;
        match insn.kind {
            Kind::Jmp => {
                self.jump_exit(asm, ExitKind::Direct, e.fragment, insn.target(last.pc));
            }
            Kind::Jcc => {
                let target = insn.target(last.pc);
                let counter = self.end_jump_counter(e, true, last.pc, target);
                if counter == 0 {
                    let (id, stub) = self.new_exit(ExitKind::Direct, e.fragment, target, false);
                    asm.jcc(insn.cc(), stub);
                    self.exit(id).field = (asm.pc() - 4) as u32;
                    self.jump_exit(asm, ExitKind::Direct, e.fragment, next);
                } else {
                    let taken = asm.jcc(insn.cc(), asm.pc());
                    self.jump_exit(asm, ExitKind::Direct, e.fragment, next);
                    asm.patch32(taken, (asm.len() - taken - 4) as i32);
                    let dead = block::flags_dead_at(&mut self.maps, target, None);
                    Self::emit_jump_count(asm, counter, dead);
                    self.jump_exit(asm, ExitKind::Direct, e.fragment, target);
                }
            }
            Kind::Loop => {
                asm.bytes(&last.bytes[..insn.len as usize - 1]);
                asm.bytes(&[0]);
                let field = asm.len() - 1;
                self.jump_exit(asm, ExitKind::Direct, e.fragment, next);
                asm.bind8(field);
                let target = insn.target(last.pc);
                let counter = self.end_jump_counter(e, true, last.pc, target);
                Self::emit_jump_count(asm, counter, false);
                self.jump_exit(asm, ExitKind::Direct, e.fragment, target);
            }
            Kind::Xbegin => {
                // Aborts at once, as a CPU may at any time: status 0, then the fallback path.
                asm.mov_imm32(Gpr::Rax, 0);
                self.jump_exit(asm, ExitKind::Direct, e.fragment, insn.target(last.pc));
            }
            Kind::Call => return self.emit_direct_call(asm, e, insn.target(last.pc), next),
            Kind::CallInd | Kind::JmpInd => return self.emit_indirect(asm, e, &last),
            Kind::Ret => {
                let pop = insn.imm as u16 as u32;
                let late = e.late.then(|| counter_disp(e.ids.counter));
                let block = e.ids.block.0;
                if pop != 0 {
                    asm.store_gs32_imm(crate::thread::disp!(ret_pop), pop);
                    // The engine handles it: the continuation can't know how much to pop.
                    calls::spill(asm);
                    if let Some(counter) = late {
                        asm.load_gs(Gpr::R10, counter);
                        asm.lea(Gpr::R10, Gpr::R10, 1);
                        asm.store_gs(counter, Gpr::R10);
                        events::add_totals_through(asm, Gpr::R10, &e.certain);
                    }
                    if e.counting {
                        asm.load_gs(Gpr::R10, TOTAL);
                        asm.lea(Gpr::R10, Gpr::R10, e.insns.len() as i32);
                        asm.store_gs(TOTAL, Gpr::R10);
                    }
                    asm.store_gs32_imm(crate::thread::disp!(last_block), block);
                    asm.jmp(crate::switch::exit_return as *const () as u64);
                } else {
                    if self.off {
                        calls::return_uncounted(asm);
                    } else {
                        let insns = if e.counting { e.insns.len() as i32 } else { 0 };
                        calls::return_through(asm, insns, late, &e.certain, block, self.counting());
                    }
                }
            }
            Kind::Syscall => self.leave(asm, ExitKind::Syscall, e.fragment, next),
            _ => {
                // Copied instructions that end a block: traps and privileged ones.
                self.jump_exit(asm, ExitKind::Direct, e.fragment, next);
            }
        }
        None
    }

    /// Emits an unlinkable exit.
    fn leave(&mut self, asm: &mut Asm, kind: ExitKind, fragment: u32, target: u64) {
        let (_, stub) = self.new_exit(kind, fragment, target, false);
        asm.jmp(stub);
    }

    /// Counter and total where the block's end did not find them placed. *Spilled*.
    fn late_counts(&mut self, asm: &mut Asm, e: &Emission) {
        if e.late {
            let counter = counter_disp(e.ids.counter);
            asm.load_gs(Gpr::R10, counter);
            asm.lea(Gpr::R10, Gpr::R10, 1);
            asm.store_gs(counter, Gpr::R10);
            events::add_totals_through(asm, Gpr::R10, &e.certain);
        }
        if e.total_late {
            asm.load_gs(Gpr::R10, TOTAL);
            asm.lea(Gpr::R10, Gpr::R10, e.insns.len() as i32);
            asm.store_gs(TOTAL, Gpr::R10);
        }
    }

    fn emit_direct_call(
        &mut self,
        asm: &mut Asm,
        e: &mut Emission,
        target: u64,
        return_to: u64,
    ) -> Option<Continuation> {
        let pc = e.insns[e.insns.len() - 1].pc;
        calls::push_return_address(asm, return_to);
        if self.off && self.place_of(target).is_some() {
            let site = CallSite {
                caller: e.context,
                site: BlockId::NONE,
                function: FnId::NONE,
                to_addr: target,
                level: 1,
                return_to: Some(return_to),
                keep_flags: false,
                pc,
            };
            calls::spill_first(asm);
            return Some(self.emit_uncounted_call(asm, &site, e.fragment));
        }
        calls::spill(asm);
        self.late_counts(asm, e);
        let Some(to) = self.place_of(target) else {
            // The target is not mapped (yet): let the engine look when it happens.
            calls::unspill(asm);
            let site = CallSite {
                caller: e.context,
                site: e.ids.block,
                function: FnId::NONE,
                to_addr: target,
                level: 1,
                return_to: Some(return_to),
                keep_flags: true,
                pc,
            };
            let kind = self.call_level_kind(site);
            self.jump_exit(asm, kind, e.fragment, target);
            return None;
        };
        let (function, level) = self.callee(e.context, target);
        let keep_flags = !e.dead_after;
        let site = CallSite {
            caller: e.context,
            site: e.ids.block,
            function,
            to_addr: target,
            level,
            return_to: Some(return_to),
            keep_flags,
            pc,
        };
        calls::keep_flags(asm, keep_flags);
        self.emit_call_start(asm, &site, &to, e.fragment, e.total_late)
    }

    /// Emits the rest of a call from where the return address is pushed, registers are spilled and
    /// flags are kept: entry, jump to the callee, exits, continuation.
    pub(crate) fn emit_call(
        &mut self,
        asm: &mut Asm,
        site: &CallSite,
        to: &Place,
        fragment: u32,
        total_loaded: bool,
    ) {
        if let Some(continuation) = self.emit_call_start(asm, site, to, fragment, total_loaded) {
            self.emit_continuation(asm, &continuation);
        }
    }

    fn call_level_kind(&mut self, site: CallSite) -> ExitKind {
        self.sites.push(site);
        ExitKind::CallLevel(self.sites.len() as u32 - 1)
    }

    fn emit_call_start(
        &mut self,
        asm: &mut Asm,
        site: &CallSite,
        to: &Place,
        fragment: u32,
        total_loaded: bool,
    ) -> Option<Continuation> {
        let counting = self.counting();
        let mut variant = if self.off {
            CallVariant {
                to: self.off_context,
                edge: EdgeId::NONE,
                active: FnId::NONE,
                active_before: 0,
                triggers: false,
            }
        } else {
            self.graph.call(
                site.caller,
                site.site,
                site.function,
                to,
                site.to_addr,
                site.level,
                &mut self.tool,
            )
        };
        if variant.active.0 >= crate::layout::MAX_FUNCTIONS {
            variant.active = FnId::NONE;
            variant.triggers = false;
        }
        let edge = (variant.edge != EdgeId::NONE).then(|| *self.graph.edge(variant.edge));
        let is_jump = site.return_to.is_none();
        let sim = self.simulation_now();
        let fields =
            calls::push_entry(asm, &variant, edge.as_ref(), is_jump, counting, total_loaded, sim.as_ref());
        calls::restore_flags(asm, site.keep_flags);
        calls::unspill(asm);
        if variant.triggers {
            self.leave(asm, ExitKind::Enter(site.function, variant.to), fragment, site.to_addr);
        } else {
            self.jump_exit(asm, ExitKind::Linked(variant.to), fragment, site.to_addr);
        }
        if let Some(field) = fields.other_level {
            asm.patch32(field, (asm.len() - field - 4) as i32);
            calls::restore_flags(asm, site.keep_flags);
            calls::unspill(asm);
            let kind = self.call_level_kind(site.next_level());
            let (id, stub) = self.new_exit(kind, fragment, site.to_addr, false);
            asm.jmp(stub);
            // Linking replaces the branch itself: the next level's thunk takes registers spilled.
            let base = asm.pc() - asm.len() as u64;
            self.exit(id).field = base as u32 + field as u32;
        }
        if variant.triggers {
            // The engine has to know when the function is left.
            let (_, stub) = self.new_exit(ExitKind::LazyContinuation, fragment, 0, true);
            asm.patch32(fields.continuation, stub as i32);
            self.continuations.insert(stub, entry_info(site, &variant));
            return None;
        }
        Some(Continuation { site: *site, variant, edge, fragment, field: fields.continuation })
    }

    /// Emits the continuation of a call. Gives the length of the code before its last jump, the one
    /// to the return point, and that jump's exit.
    fn emit_continuation(&mut self, asm: &mut Asm, c: &Continuation) -> (usize, u32) {
        let Continuation { site, variant, edge, fragment, field } = c;
        let counting = self.counting();
        let sim = self.simulation_now();
        let mut at = asm.pc();
        asm.patch32(*field, at as i32);
        let info = entry_info(site, variant);
        self.continuations.insert(at, info);
        match site.return_to {
            Some(return_to) => {
                self.return_points.insert(return_to);
                let keep = !block::flags_dead_at(&mut self.maps, return_to, None);
                let mismatch = crate::switch::bottom(self.off);
                if keep {
                    // The way out comes first, so that what follows the continuation is the return point.
                    let out = asm.pc();
                    calls::restore_flags(asm, keep);
                    asm.jmp(mismatch);
                    self.continuations.remove(&at);
                    at = asm.pc();
                    self.continuations.insert(at, info);
                    asm.patch32(*field, at as i32);
                    self.emit_call_continuation(asm, c, return_to, keep, out);
                } else {
                    self.emit_call_continuation(asm, c, return_to, keep, mismatch);
                }
                let len = asm.len();
                self.note_off_site(at, site);
                (len, self.jump_exit(asm, ExitKind::Linked(site.caller), *fragment, return_to))
            }
            None => {
                calls::jump_continuation(asm, variant, edge.as_ref(), counting, sim.as_ref());
                self.note_off_site(at, site);
                (asm.len(), 0)
            }
        }
    }

    fn emit_call_continuation(
        &mut self,
        asm: &mut Asm,
        c: &Continuation,
        return_to: u64,
        keep: bool,
        mismatch: u64,
    ) {
        if self.off {
            calls::uncounted_continuation(asm, return_to, keep, mismatch);
        } else {
            let counting = self.counting();
            let sim = self.simulation_now();
            let (variant, edge) = (&c.variant, c.edge.as_ref());
            calls::call_continuation(asm, variant, edge, return_to, keep, counting, mismatch, sim.as_ref());
        }
    }

    /// Emits a call that is not counted, up to the jump to the callee. `r11` is spilled, the return address
    /// pushed; flags are left alone.
    fn emit_uncounted_call(&mut self, asm: &mut Asm, site: &CallSite, fragment: u32) -> Continuation {
        let field = calls::push_uncounted(asm);
        self.jump_exit(asm, ExitKind::Linked(self.off_context), fragment, site.to_addr);
        let variant = CallVariant {
            to: self.off_context,
            edge: EdgeId::NONE,
            active: FnId::NONE,
            active_before: 0,
            triggers: false,
        };
        Continuation { site: *site, variant, edge: None, fragment, field }
    }

    fn note_off_site(&mut self, continuation: u64, site: &CallSite) {
        if self.off {
            self.off_sites.insert(continuation, OffSite { pc: site.pc, to_addr: site.to_addr });
        }
    }

    /// Code that performs a call from where all guest registers are in the machine, the return
    /// address (if any) pushed. Gives its plain entry, and the entry for *spilled* and kept flags.
    pub(crate) fn thunk(&mut self, site: &CallSite, fragment: u32) -> Option<(u64, u64)> {
        let to = self.place_of(site.to_addr)?;
        if let Some(&at) = self.thunks.get(site) {
            return Some((at, at + thunk_prologue(site.keep_flags)));
        }
        let (buf, base) = self.cache.free();
        let mut asm = Asm::new(buf, base);
        calls::spill(&mut asm);
        calls::keep_flags(&mut asm, site.keep_flags);
        let spilled = asm.pc();
        debug_assert_eq!(spilled - base, thunk_prologue(site.keep_flags));
        self.emit_call(&mut asm, site, &to, fragment, false);
        assert!(!asm.overflow, "a thunk does not fit");
        let len = asm.len();
        self.cache.commit(len);
        self.thunks.insert(*site, base);
        self.stats.thunks += 1;
        Some((base, spilled))
    }

    fn emit_indirect(&mut self, asm: &mut Asm, e: &mut Emission, last: &Decoded) -> Option<Continuation> {
        let return_to = last.next();
        let is_call = last.insn.kind == Kind::CallInd;
        if e.late || e.total_late {
            calls::spill(asm);
            self.late_counts(asm, e);
            calls::unspill(asm);
        }
        let kind = if is_call { ExitKind::IndirectCall } else { ExitKind::IndirectJump };
        let key = self.new_key(kind, e.fragment, return_to);
        asm.store_gs(gpr_disp(11), Gpr::R11);
        let at = asm.len();
        if emit::load_branch_target(asm, last).is_err() {
            self.jump_exit(asm, ExitKind::Unsupported, e.fragment, last.pc);
            return None;
        }
        // The load may fault with r11 spilled; it holds the guest's value until then.
        if let Some(p) = self.pc_map.last_mut() {
            p.offset = at as u16;
            p.spilled = 11;
        }
        e.plan.emit_indirect(asm, last, e.insns.len() - 1, Gpr::R11);
        if is_call {
            calls::push_return_address(asm, return_to);
        }
        let continuation = self.emit_usual_target(asm, e, last, is_call.then_some(return_to), key)?;
        if continuation.site.return_to.is_some() {
            return Some(continuation);
        }
        self.emit_continuation(asm, &continuation);
        None
    }

    /// Emits the lookup, in code that runs often after the comparison of the target with the only one it has
    /// had so far, and the way there. `r11` is spilled and holds the target.
    fn emit_usual_target(
        &mut self,
        asm: &mut Asm,
        e: &Emission,
        last: &Decoded,
        return_to: Option<u64>,
        key: u32,
    ) -> Option<Continuation> {
        let Some((target, to)) = self.usual_target(e, last, return_to) else {
            calls::lookup(asm, key);
            return None;
        };
        let from_place = self.fragments[e.fragment as usize].place;
        let is_call = return_to.is_some() || Graph::jump(&from_place, &to) == Transfer::Call;
        let same = calls::compare_target(asm, target);
        calls::unspill_compared(asm);
        calls::lookup(asm, key);
        asm.bind8(same);
        calls::unspill_compared(asm);
        let mut continuation = None;
        if !is_call {
            let counter = self.end_jump_counter(e, false, last.pc, target);
            Self::emit_jump_count(asm, counter, true);
            calls::unspill_target(asm);
            self.jump_exit(asm, ExitKind::Linked(e.context), e.fragment, target);
        } else {
            let (function, level) = self.callee(e.context, target);
            let site = CallSite {
                caller: e.context,
                site: e.ids.block,
                function,
                to_addr: target,
                level,
                return_to,
                keep_flags: false,
                pc: last.pc,
            };
            continuation = if self.off && return_to.is_some() {
                Some(self.emit_uncounted_call(asm, &site, e.fragment))
            } else {
                calls::spill_second(asm);
                self.emit_call_start(asm, &site, &to, e.fragment, false)
            };
        }
        continuation
    }

    /// The only target an indirect branch has had so far, when it can be treated in line.
    fn usual_target(&mut self, e: &Emission, last: &Decoded, return_to: Option<u64>) -> Option<(u64, Place)> {
        let options = &self.options;
        let from = &self.fragments[e.fragment as usize];
        if !from.warm || options.no_traces || options.no_links || options.no_lookup {
            return None;
        }
        let from_place = from.place;
        let &(target, 1) = self.targets.get(&(last.pc, e.context))? else { return None };
        let to = self.place_of(target)?;
        let is_call = return_to.is_some() || Graph::jump(&from_place, &to) == Transfer::Call;
        let simple = block::flags_dead_at(&mut self.maps, target, return_to)
            && (return_to.is_some() || !self.may_switch_stacks(target, &to))
            && (is_call || self.tool.same_function(last.pc, target));
        simple.then_some((target, to))
    }

    /// A jump to where a call returns may come from another stack, each time from another one: it is
    /// left to the engine.
    fn may_switch_stacks(&self, target: u64, to: &Place) -> bool {
        !to.entry && self.return_points.contains(&target)
    }

    /// Makes the stub for an indirect branch to `target`, puts it before the others of its slot, and
    /// gives its address.
    pub(crate) fn lookup_stub(&mut self, key: u32, target: u64) -> Result<u64, NoBlock> {
        let exit = *self.exit(key);
        let from = &self.fragments[exit.fragment as usize];
        let (context, block, from_place, last_pc) = (from.context, from.block, from.place, from.last_pc);
        let to = self.place_of(target).ok_or(NoBlock::NotExecutable)?;
        let return_to = exit.return_to();
        let is_call = return_to.is_some() || Graph::jump(&from_place, &to) == Transfer::Call;
        let keep_flags = !block::flags_dead_at(&mut self.maps, target, return_to);
        // The stub goes where the last translation ended, so the fragment has to exist first.
        let stay = if is_call { None } else { Some(self.fragment_for(target, context)?) };
        let permanent = !self.options.no_lookup
            && !self.options.no_links
            && (return_to.is_some() || !self.may_switch_stacks(target, &to));
        let slot = calls::lookup_index(target, key);
        let miss = Self::lookup_head(slot);
        let (buf, base) = self.cache.free();
        let mut asm = Asm::new(buf, base);
        // The way to the next stub comes first, out of the usual path. Flags are kept even where they are dead at
        // the target: who is passed on goes elsewhere.
        calls::restore_flags(&mut asm, true);
        asm.jmp(miss);
        let entry = asm.pc();
        calls::lookup_check(&mut asm, key, target, base);
        match stay {
            Some(fragment) => {
                if !self.tool.same_function(last_pc, target) {
                    // A jump out of the function may leave frames (`longjmp`): then the engine unwinds.
                    calls::unwind_check(&mut asm, base);
                }
                let aside = self.graph.context(context).aside;
                let counter =
                    if aside { 0 } else { self.jump_counter(block, &from_place, false, last_pc, target) };
                Self::emit_jump_count(&mut asm, counter, true);
                calls::release_flags(&mut asm, keep_flags);
                calls::unspill_target(&mut asm);
                asm.jmp(self.entry_of(fragment));
            }
            None if self.off && is_call && return_to.is_some() => {
                calls::release_flags(&mut asm, keep_flags);
                let site = CallSite {
                    caller: context,
                    site: block,
                    function: FnId::NONE,
                    to_addr: target,
                    level: 1,
                    return_to,
                    keep_flags: false,
                    pc: last_pc,
                };
                let continuation = self.emit_uncounted_call(&mut asm, &site, exit.fragment);
                self.emit_continuation(&mut asm, &continuation);
            }
            None => {
                if !keep_flags {
                    calls::release_flags(&mut asm, false);
                }
                calls::spill_second(&mut asm);
                let (function, level) = self.callee(context, target);
                let site = CallSite {
                    caller: context,
                    site: block,
                    function,
                    to_addr: target,
                    level,
                    return_to,
                    keep_flags,
                    pc: last_pc,
                };
                self.emit_call(&mut asm, &site, &to, exit.fragment, false);
            }
        }
        assert!(!asm.overflow, "a stub does not fit");
        let len = asm.len();
        self.cache.commit(len);
        self.stats.stubs += 1;
        self.targets.entry((last_pc, context)).or_insert((target, 0)).1 += 1;
        self.stats.passing += !permanent as u64;
        if permanent {
            Self::set_lookup(slot, entry);
            self.lookup_used = true;
        }
        Ok(entry)
    }
}

/// What the entry of a call means.
fn entry_info(site: &CallSite, variant: &CallVariant) -> EntryInfo {
    EntryInfo {
        kind: match site.return_to {
            Some(return_to) => EntryKind::Call { return_to },
            None => EntryKind::Jump,
        },
        edge: variant.edge,
        active: variant.active,
        active_before: variant.active_before,
        caller: site.caller,
        to: variant.to,
    }
}

/// Replaces a fragment's first instruction by a jump to another fragment.
///
/// Threads may be running it: the instruction is at least seven bytes long and starts on an eight-byte
/// boundary, so the jump is put there in one store, and who is past the instruction is not affected.
pub(crate) fn redirect(start: u64, entry: u64) {
    let displacement = entry.wrapping_sub(start + 5) as u32;
    // SAFETY: the caller names a fragment with a countdown, whose start is in the code cache.
    let first = unsafe { &*(start as *const AtomicU64) };
    let old = first.load(Ordering::Relaxed).to_le_bytes();
    let mut new = old;
    new[0] = 0xe9;
    new[1..5].copy_from_slice(&displacement.to_le_bytes());
    first.store(u64::from_le_bytes(new), Ordering::Release);
}

/// How often a fragment runs before it is made again with care.
const WARM_AFTER: u32 = 250;

/// Bytes before a thunk's entry for spilled registers.
fn thunk_prologue(keep_flags: bool) -> u64 {
    if keep_flags { 18 + 9 + 4 } else { 18 }
}

/// Instructions that end a block and are copied like others.
fn copied_at_end(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Jmp
            | Kind::Jcc
            | Kind::Loop
            | Kind::Xbegin
            | Kind::Call
            | Kind::CallInd
            | Kind::JmpInd
            | Kind::Ret
            | Kind::Syscall
    )
}

/// A string instruction with a repeat prefix.
pub(crate) fn is_repeated(d: &Decoded) -> bool {
    d.insn.kind == Kind::StringOp && (d.insn.prefixes.rep() || d.insn.prefixes.repne())
}
