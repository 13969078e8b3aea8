//! The engine's side of leaving the code cache: resolve the exit, link it, say where to go on.

use crate::block::{NoBlock, flags_dead_at};
use crate::engine::Engine;
use crate::events::{self, CERTAIN, Simulation};
use crate::exit::{CallSite, Exit, ExitKind, special};
use crate::thread::{ThreadState, reg};
use crate::tool::Tool;
use alloc::vec::Vec;
use tallygraph_callgraph::hash::Map;
use tallygraph_callgraph::shadow_stack::Effects;
use tallygraph_callgraph::{
    BlockId, CtxId, EdgeId, Entry, EntryInfo, EntryKind, FnId, Graph, ReturnOutcome, Stack, Transfer,
};

/// What to do after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Resume at this code cache address.
    Resume(u64),
    /// Perform the system call in the guest's registers, then go on at `next` in `context`.
    Syscall {
        /// Guest address after the instruction.
        next: u64,
        /// Fragment that ends in it.
        fragment: u32,
    },
    /// Answer the client request, then go on.
    Request {
        /// Guest address after the request.
        next: u64,
        /// Context of the block.
        context: CtxId,
    },
    /// Do what is due after a number of blocks, then go on.
    Pause {
        /// Guest address.
        pc: u64,
        /// Context.
        context: CtxId,
    },
    /// Run what is to be done when this function is entered, then go on in it.
    Enter {
        /// The function.
        function: FnId,
        /// Its first instruction.
        pc: u64,
        /// Its context.
        context: CtxId,
    },
    /// No code can be run at this guest address: the guest gets what the hardware would raise.
    Fault {
        /// Guest address.
        pc: u64,
        /// Why.
        why: NoBlock,
    },
    /// The code cache is full and other threads may be running in it.
    CacheFull,
    /// An instruction that can't be copied.
    Unsupported {
        /// Guest address.
        pc: u64,
    },
}

/// How a thread left the code cache; see [`Engine::hold`].
pub struct Held {
    id: u32,
    exit: Option<Exit>,
    site: Option<CallSite>,
    lookup: Option<(u32, Exit)>,
    epoch: u64,
}

/// Counters and active counts of the current thread, for the shadow stack's rules.
struct ThreadEffects<'e> {
    state: *mut ThreadState,
    continuations: &'e Map<u64, EntryInfo>,
    graph: &'e Graph,
    left: &'e mut Vec<FnId>,
    counts: bool,
    sim: Option<Simulation>,
    pass_on: fn(&mut ThreadState, u32, u64),
}

/// The entry below all others: no return reaches it.
pub const BOTTOM: EntryInfo = EntryInfo {
    kind: EntryKind::Marker,
    edge: EdgeId::NONE,
    active: FnId::NONE,
    active_before: 0,
    caller: CtxId::NONE,
    to: CtxId::NONE,
};

impl Effects for ThreadEffects<'_> {
    fn info(&self, entry: &Entry) -> EntryInfo {
        self.continuations.get(&entry.continuation).copied().unwrap_or(BOTTOM)
    }

    fn add_inclusive(&mut self, edge: EdgeId, entry: &Entry) {
        if !self.counts {
            return;
        }
        let counter = self.graph.edge(edge).inclusive;
        // SAFETY: the state is the running thread's block; counters come from the tool.
        unsafe {
            let total = *(*self.state).counter(crate::layout::TOTAL_COUNTER);
            let inclusive = (*self.state).counter(counter);
            *inclusive = inclusive.wrapping_add(total.wrapping_sub(entry.total));
            if let Some(sim) = &self.sim {
                events::add_inclusive(&mut *self.state, sim, counter, entry);
            }
        }
    }

    fn leave(&mut self, edge: EdgeId, entry: &Entry) {
        if self.sim.is_some() {
            let inclusive = if edge.is_none() { 0 } else { self.graph.edge(edge).inclusive };
            // SAFETY: the state is the running thread's block, or that of one that is stopped.
            (self.pass_on)(unsafe { &mut *self.state }, inclusive, entry as *const Entry as u64);
        }
    }

    fn begin(&mut self, entry: &mut Entry) {
        if !self.counts {
            return;
        }
        // SAFETY: as above; the entry lies on the thread's shadow stack.
        unsafe {
            entry.total = *(*self.state).counter(crate::layout::TOTAL_COUNTER);
            if let Some(sim) = &self.sim {
                events::begin(&mut *self.state, sim, entry);
            }
        }
    }

    fn is_marker(&self, entry: &Entry) -> bool {
        crate::switch::is_bottom(entry.continuation)
    }

    fn set_active(&mut self, function: FnId, count: u32) {
        // SAFETY: as above; variants with larger functions carry none.
        unsafe { *(*self.state).active(function.0) = count }
        if count == 0 && self.graph.rules(function).triggers {
            self.left.push(function);
        }
    }
}

impl<T: Tool> Engine<T> {
    /// Runs `f` on a thread's shadow stack.
    fn with_stack<R>(
        &mut self,
        state: &mut ThreadState,
        f: impl FnOnce(&mut Stack, &mut ThreadEffects) -> R,
    ) -> R {
        let size = size_of::<Entry>() as u64;
        // The lowest entry is the bottom marker.
        let depth = ((state.shadow_top - state.shadow_base) / size + 1) as usize;
        let room = ((state.shadow_end - state.shadow_base) / size) as usize;
        // SAFETY: the shadow stack is mapped from base to end and belongs to this thread, which is
        // in the engine.
        let entries = unsafe { core::slice::from_raw_parts_mut(state.shadow_base as *mut Entry, room) };
        let mut stack = Stack::new(entries, depth);
        let sim = self.simulation_now();
        let mut fx = ThreadEffects {
            state,
            continuations: &self.continuations,
            graph: &self.graph,
            left: &mut self.left,
            counts: self.tool.counts(),
            sim,
            pass_on: T::pass_on,
        };
        let result = f(&mut stack, &mut fx);
        let top = stack.depth() - 1;
        state.shadow_top = state.shadow_base + top as u64 * size;
        result
    }

    /// Resolves the exit through which a thread left the code cache.
    pub fn on_exit(&mut self, state: &mut ThreadState) -> Next {
        self.left_cache(state, None)
    }

    /// Takes down how a thread left the code cache, for when another one is about to empty that.
    pub fn hold(&mut self, state: &mut ThreadState) -> Held {
        let id = state.exit_id;
        let lookup = (id == special::LOOKUP).then(|| (state.ibl_key, *self.exit(state.ibl_key)));
        let exit = (id >= special::FIRST).then(|| *self.exit(id));
        let site = match exit {
            Some(Exit { kind: ExitKind::CallLevel(site), .. }) => Some(self.sites[site as usize]),
            _ => None,
        };
        state.origin = exit.or(lookup.map(|l| l.1)).map_or(u32::MAX, |e| e.fragment);
        Held { id, exit, site, lookup, epoch: self.epoch }
    }

    /// Goes on from an exit that was held.
    pub fn resume_held(&mut self, state: &mut ThreadState, mut held: Held) -> Next {
        let emptied = held.epoch != self.epoch;
        let origin = core::mem::replace(&mut state.origin, u32::MAX);
        if emptied {
            for e in held.exit.iter_mut().chain(held.lookup.iter_mut().map(|l| &mut l.1)) {
                e.fragment = origin;
            }
        }
        self.resolve(state, held.id, held.exit, held.site, held.lookup, !emptied)
    }

    /// As [`Engine::on_exit`], with all other threads there are; none of them is in generated code, and nothing
    /// but their shadow stacks refers to it.
    pub fn on_exit_stopped(&mut self, state: &mut ThreadState, others: &mut [&mut ThreadState]) -> Next {
        self.left_cache(state, Some(others))
    }

    fn left_cache(&mut self, state: &mut ThreadState, others: Option<&mut [&mut ThreadState]>) -> Next {
        self.stats.exits += 1;
        // Set while a signal is being brought to a safe point.
        const TRAP_FLAG: u64 = 0x100;
        state.regs.rflags &= !TRAP_FLAG;
        let id = state.exit_id;
        // Everything that refers to code is read before a flush.
        let mut lookup = (id == special::LOOKUP).then(|| (state.ibl_key, *self.exit(state.ibl_key)));
        let mut exit = (id >= special::FIRST).then(|| *self.exit(id));
        let site = match exit {
            Some(Exit { kind: ExitKind::CallLevel(site), .. }) => Some(self.sites[site as usize]),
            _ => None,
        };
        let stays = matches!(exit, Some(Exit { kind: ExitKind::Syscall | ExitKind::ClientRequest, .. }));
        let full = self.cache.is_full();
        let stopped = self.single_thread || others.is_some();
        let flush = !stays && stopped && (self.options.flush_always || full);
        if full && !flush && !stays {
            return Next::CacheFull;
        }
        if flush {
            let origin = exit.or(lookup.map(|l| l.1)).map(|e| e.fragment);
            let others = others.into_iter().flatten().map(|t| &mut **t);
            let mut threads: Vec<&mut ThreadState> = others.collect();
            threads.push(state);
            self.flush_all(&mut threads, origin);
            // The fragment that was left is now the first, without code.
            for e in exit.iter_mut().chain(lookup.iter_mut().map(|l| &mut l.1)) {
                e.fragment = 0;
            }
        }
        self.resolve(state, id, exit, site, lookup, !flush)
    }

    fn resolve(
        &mut self,
        state: &mut ThreadState,
        id: u32,
        exit: Option<Exit>,
        site: Option<CallSite>,
        lookup: Option<(u32, Exit)>,
        link: bool,
    ) -> Next {
        if let Some((key, exit)) = lookup {
            self.stats.lookups += 1;
            return self.indirect(state, key, exit, link);
        }
        let Some(exit) = exit else { return self.on_return(state) };
        match exit.kind {
            ExitKind::Direct => self.direct(id, exit, link),
            ExitKind::Linked(context) => self.go_to(id, exit.target, context, link),
            ExitKind::CallLevel(_) => {
                let site = site.expect("read with the exit");
                self.call_level(id, site, exit.fragment, link)
            }
            ExitKind::Stale => {
                let context = self.context_of(exit.fragment);
                self.replace_stale(exit.fragment, exit.target, context, link)
            }
            ExitKind::Warm => self.warm_up(id, exit.fragment, link),
            ExitKind::Pause => {
                state.pause_count = -(self.options.pause_every as i64);
                Next::Pause { pc: exit.target, context: self.context_of(exit.fragment) }
            }
            ExitKind::Enter(function, context) => Next::Enter { function, pc: exit.target, context },
            ExitKind::Syscall => {
                self.stats.syscalls += 1;
                Next::Syscall { next: exit.target, fragment: exit.fragment }
            }
            ExitKind::ClientRequest => {
                Next::Request { next: exit.target, context: self.context_of(exit.fragment) }
            }
            ExitKind::Unsupported => Next::Unsupported { pc: exit.target },
            ExitKind::LazyContinuation => self.on_return(state),
            ExitKind::IndirectJump | ExitKind::IndirectCall => unreachable!("keys have no stubs"),
        }
    }

    fn context_of(&self, fragment: u32) -> CtxId {
        self.fragments[fragment as usize].context
    }

    /// Goes on at a guest address in a context.
    pub fn resume_at(&mut self, pc: u64, context: CtxId) -> Next {
        match self.fragment_for(pc, context) {
            Ok(f) => Next::Resume(self.entry_of(f)),
            Err(why) => Next::Fault { pc, why },
        }
    }

    /// Pops frames that the stack pointer has left; gives the context of the last one's caller. A
    /// signal handler left by a jump is one of them.
    fn unwind(&mut self, state: &mut ThreadState) -> Option<CtxId> {
        let sp = state.regs.gpr[reg::RSP];
        let (low, high) = state.alternate_stack;
        let on_alternate = (low..high).contains(&sp);
        self.with_stack(state, |stack, fx| {
            let mut context = None;
            loop {
                context = stack.unwind(sp, fx).or(context);
                match stack.top() {
                    Some(&top)
                        if stack.depth() > 1
                            && top.sp <= sp
                            && !on_alternate
                            && Effects::info(fx, &top).kind == EntryKind::Marker =>
                    {
                        stack.pop(fx);
                        context = Some(CtxId(top.total as u32));
                    }
                    _ => return context,
                }
            }
        })
    }

    /// Control goes to `target` by a return or a jump. When a call on another stack, or further down on
    /// this one, returns there with `sp` as the address of its return address, that stack is in use
    /// from now on; gives the context that goes on.
    fn switch_stack(&mut self, state: &mut ThreadState, sp: u64, target: u64) -> Option<CtxId> {
        if !self.return_points.contains(&target) {
            return None;
        }
        let mut parked = core::mem::take(&mut self.parked);
        let context = self.with_stack(state, |stack, fx| stack.switch(sp, target, &mut parked, fx));
        self.parked = parked;
        context
    }

    /// The context of a function without callers, by an address in it.
    pub fn root_at(&mut self, pc: u64) -> CtxId {
        // Skipped code without a caller belongs to no function.
        let skipped = self.place_of(pc).is_some_and(|p| p.skip);
        let function = if skipped { FnId::NONE } else { self.function_of(pc) };
        self.graph.root(function, &mut self.tool)
    }

    /// Number of entries on a thread's shadow stack, the bottom included.
    pub fn depth(&self, state: &ThreadState) -> usize {
        ((state.shadow_top - state.shadow_base) / size_of::<Entry>() as u64 + 1) as usize
    }

    /// Puts a marker below a signal handler: returns stop there. `context` is the interrupted one.
    pub fn push_marker(&mut self, state: &mut ThreadState, sp: u64, context: CtxId) {
        let continuation = crate::switch::bottom(self.off);
        self.with_stack(state, |stack, _| {
            stack.push(Entry { sp, total: context.0 as u64, continuation });
        });
        if self.simulation.is_some() {
            events::clear_mark(state.shadow_top);
        }
    }

    /// Pops everything above `depth` entries, the marker there included.
    pub fn pop_to(&mut self, state: &mut ThreadState, depth: usize) {
        self.with_stack(state, |stack, fx| {
            while stack.depth() > depth.max(1) {
                stack.pop(fx);
            }
        });
    }

    /// Books the inclusive cost of everything on the stack so far, as at a dump; the frames stay.
    pub fn settle(&mut self, state: &mut ThreadState) {
        let counts = self.tool.counts();
        // SAFETY: the block belongs to a thread that is in the engine or stopped.
        let total = if counts { unsafe { *state.counter(crate::layout::TOTAL_COUNTER) } } else { 0 };
        let entries = shadow_entries(state);
        let (sim, pass_on) = (self.simulation_now(), T::pass_on as fn(&mut ThreadState, u32, u64));
        let mut fx = ThreadEffects {
            state,
            continuations: &self.continuations,
            graph: &self.graph,
            left: &mut self.left,
            counts,
            sim,
            pass_on,
        };
        if sim.is_some() {
            // From the newest to the oldest, as returns would.
            for entry in entries.iter().rev() {
                let info = Effects::info(&fx, entry);
                fx.leave(info.edge, entry);
            }
        }
        for entry in entries {
            let info = Effects::info(&fx, entry);
            if info.kind != EntryKind::Marker {
                if !info.edge.is_none() {
                    fx.add_inclusive(info.edge, entry);
                }
                entry.total = total;
                if let Some(sim) = &sim {
                    // SAFETY: as above.
                    unsafe { events::renew_totals(&mut *fx.state, sim, entry) };
                }
            }
        }
    }

    /// What the entries of a thread's shadow stack mean, newest first.
    pub fn active_calls(&self, state: &ThreadState) -> Vec<EntryInfo> {
        let entries = shadow_entries(state).iter().skip(1).rev();
        entries.filter_map(|e| self.continuations.get(&e.continuation).copied()).collect()
    }

    /// The fragment that starts at `pc`.
    pub fn fragment_starting(&self, pc: u64) -> Option<&crate::engine::Fragment> {
        self.fragment_at(pc).filter(|f| f.start == pc)
    }

    /// The guest instruction that code cache address `pc` belongs to: fragment, index of the
    /// instruction in it, and its entry in the pc map.
    pub fn locate(&self, pc: u64) -> Option<(u32, usize, crate::engine::PcEntry)> {
        let f = self.fragment_at(pc)?;
        let index = (f as *const _ as usize - self.fragments.as_ptr() as usize)
            / size_of::<crate::engine::Fragment>();
        let entry = self.insn_at(f, pc)?;
        let first = &self.pc_map[f.pc_map as usize] as *const _ as usize;
        let nth = (entry as *const _ as usize - first) / size_of::<crate::engine::PcEntry>();
        Some((index as u32, nth, *entry))
    }

    /// Corrects counters for a block of which only the first `executed` instructions ran, `pc` being
    /// the code cache address where it stopped.
    pub fn count_partial(&mut self, state: &mut ThreadState, fragment: u32, executed: usize, pc: u64) {
        let f = &self.fragments[fragment as usize];
        if !self.tool.counts() || f.context == self.off_context || self.graph.context(f.context).aside {
            return;
        }
        let (counter, insns) = (f.counter, f.insns as usize);
        let counted = pc - f.start >= f.counted_end as u64 && (f.counted_end != 0 || f.counted_at != 0);
        let total_counted = counted && f.total_early;
        let all = &self.pc_map[f.pc_map as usize..f.pc_map as usize + insns];
        let certain = if counted { events::sum(all.iter().map(|e| e.events)) } else { [0; CERTAIN] };
        let entries = &all[..executed];
        let certain_now = events::sum(entries.iter().map(|e| e.events));
        let prefix = self.tool.prefix_block(f.context, f.place, entries);
        // SAFETY: the state is the running thread's block; counters come from the tool.
        unsafe {
            if counted {
                let c = state.counter(counter);
                *c = c.wrapping_sub(1);
            }
            if prefix != 0 {
                *state.counter(prefix) += 1;
            }
            let total = state.counter(crate::layout::TOTAL_COUNTER);
            if total_counted {
                *total = total.wrapping_sub(insns as u64);
            }
            *total = total.wrapping_add(executed as u64);
            if self.simulation.is_some() {
                for event in 0..CERTAIN {
                    let total = state.counter(crate::layout::TOTAL_COUNTER + 1 + event as u32);
                    let change = (certain_now[event] as u64).wrapping_sub(certain[event] as u64);
                    *total = total.wrapping_add(change);
                }
            }
        }
    }

    /// Takes back the last instruction of a fragment that ran to its end: a system call that is not
    /// made now.
    pub fn uncount_last(&mut self, state: &mut ThreadState, fragment: u32) {
        let f = &self.fragments[fragment as usize];
        let (executed, at) = (f.insns as usize - 1, f.end);
        self.count_partial(state, fragment, executed, at);
    }

    /// Context of a fragment.
    pub fn fragment_context(&self, fragment: u32) -> CtxId {
        self.context_of(fragment)
    }

    /// Block of a fragment.
    pub fn fragment_block(&self, fragment: u32) -> BlockId {
        self.fragments[fragment as usize].block
    }

    /// The code behind a fragment has changed: it is translated anew, and whoever comes to the old
    /// fragment is led to the new one.
    fn replace_stale(&mut self, fragment: u32, pc: u64, context: CtxId, link: bool) -> Next {
        if self.by_key.get(&(pc, context)) == Some(&fragment) {
            self.by_key.remove(&(pc, context));
        }
        let start = self.fragments[fragment as usize].start;
        match self.fragment_for(pc, context) {
            Ok(f) => {
                let entry = self.entry_of(f);
                if link && start != 0 && start.is_multiple_of(8) {
                    self.fragments[fragment as usize].dead = true;
                    crate::translate::redirect(start, entry);
                }
                Next::Resume(entry)
            }
            Err(why) => Next::Fault { pc, why },
        }
    }

    /// Makes a fragment that has run often again, as a superblock, and lets the old one lead to it.
    fn warm_up(&mut self, id: u32, fragment: u32, replace: bool) -> Next {
        let old = &self.fragments[fragment as usize];
        let (pc, context, start) = (old.pc, old.context, old.start);
        match self.warm_fragment_for(pc, context) {
            Ok(f) => {
                let entry = self.entry_of(f);
                if replace {
                    crate::translate::redirect(start, entry);
                    self.free_exit(id);
                }
                Next::Resume(entry)
            }
            Err(why) => Next::Fault { pc, why },
        }
    }

    /// Goes to a fragment, and links the exit.
    fn go_to(&mut self, id: u32, pc: u64, context: CtxId, link: bool) -> Next {
        match self.fragment_for(pc, context) {
            Ok(f) => {
                let entry = self.entry_of(f);
                if link {
                    self.link(id, entry);
                }
                Next::Resume(entry)
            }
            Err(why) => Next::Fault { pc, why },
        }
    }

    /// Takes a direct jump or fall-through. Frames are not unwound here: code that moves the stack pointer
    /// to leave frames goes on by an indirect jump or a return, and linked exits could not do it.
    fn direct(&mut self, id: u32, exit: Exit, link: bool) -> Next {
        let pc = exit.target;
        let from = &self.fragments[exit.fragment as usize];
        let (context, block, place) = (from.context, exit.block, from.place);
        let Some(to) = self.place_of(pc) else { return Next::Fault { pc, why: NoBlock::NotExecutable } };
        if Graph::jump(&place, &to) == Transfer::Stay {
            return self.go_to(id, pc, context, link);
        }
        let from_pc = self.exit_pc(&exit);
        let site = self.jump_site(context, block, from_pc, pc);
        match self.thunk(&site, exit.fragment) {
            Some((plain, _)) => {
                if link {
                    self.link(id, plain);
                }
                Next::Resume(plain)
            }
            None => Next::Fault { pc, why: NoBlock::NotExecutable },
        }
    }

    /// A jump that counts as a call.
    fn jump_site(&mut self, caller: CtxId, site: BlockId, pc: u64, to_addr: u64) -> CallSite {
        let (function, level) = self.callee(caller, to_addr);
        let keep_flags = !flags_dead_at(&mut self.maps, to_addr, None);
        CallSite { caller, site, function, to_addr, level, return_to: None, keep_flags, pc }
    }

    fn call_level(&mut self, id: u32, site: CallSite, fragment: u32, link: bool) -> Next {
        let mut site = site;
        let known = site.level > 1 || !site.function.is_none();
        if site.function.is_none() && !self.off {
            // The target was not mapped when the call was translated.
            site.function = self.callee_of(site.caller, site.to_addr);
            site.level = self.graph.first_level(site.caller, site.function).0;
        }
        match self.thunk(&site, fragment) {
            Some((plain, spilled)) => {
                if link && self.exit(id).field != 0 {
                    self.link(id, if known { spilled } else { plain });
                }
                Next::Resume(plain)
            }
            None => Next::Fault { pc: site.to_addr, why: NoBlock::NotExecutable },
        }
    }

    fn indirect(&mut self, state: &mut ThreadState, key: u32, exit: Exit, link: bool) -> Next {
        let pc = state.ibl_target;
        let from = &self.fragments[exit.fragment as usize];
        let (context, last_pc) = (from.context, from.last_pc);
        if matches!(exit.kind, ExitKind::IndirectJump) {
            let popped = state.regs.gpr[reg::RSP].wrapping_sub(8);
            if let Some(context) = self.switch_stack(state, popped, pc) {
                return self.resume_at(pc, context);
            }
            if let Some(context) = self.unwind(state) {
                return self.resume_at(pc, context);
            }
            let function = self.graph.context(context).function;
            let function = if self.off { self.function_of(last_pc) } else { function };
            if self.tool.pops_on_jump(function) && !self.graph.context(context).skipped {
                return self.leave_resolver(state, pc, exit.fragment);
            }
        }
        if !link {
            // The stub would belong to code that is gone: do the same without one.
            return self.indirect_unlinked(state, exit, pc);
        }
        match self.lookup_stub(key, pc) {
            Ok(stub) => Next::Resume(stub),
            Err(why) => Next::Fault { pc, why },
        }
    }

    fn indirect_unlinked(&mut self, state: &mut ThreadState, exit: Exit, pc: u64) -> Next {
        let from = &self.fragments[exit.fragment as usize];
        let (context, block, place, last_pc) = (from.context, exit.block, from.place, from.last_pc);
        let Some(to) = self.place_of(pc) else {
            return Next::Fault { pc, why: NoBlock::NotExecutable };
        };
        let return_to = exit.return_to();
        if return_to.is_none() && Graph::jump(&place, &to) == Transfer::Stay {
            if !self.graph.context(context).aside {
                let counter = self.jump_counter(block, &place, false, last_pc, pc);
                // SAFETY: the block belongs to the running thread; the tool gave the counter.
                let taken = unsafe { state.counter(counter) };
                *taken += u64::from(counter != 0);
            }
            return self.resume_at(pc, context);
        }
        let site = CallSite { return_to, ..self.jump_site(context, block, last_pc, pc) };
        match self.thunk(&site, exit.fragment) {
            Some((plain, _)) => Next::Resume(plain),
            None => Next::Fault { pc, why: NoBlock::NotExecutable },
        }
    }

    /// The dynamic linker's resolver jumps to the function it found: it returns, and its caller
    /// calls that function.
    fn leave_resolver(&mut self, state: &mut ThreadState, pc: u64, fragment: u32) -> Next {
        // SAFETY: the newest entry is mapped and the thread's own.
        let top = unsafe { *(state.shadow_top as *const Entry) };
        let from_pc = self.off_sites.get(&top.continuation).map_or(0, |s| s.pc);
        let info = self.with_stack(state, |stack, fx| if stack.depth() > 1 { stack.pop(fx) } else { None });
        let (caller, site) = match info {
            Some(info) => (info.caller, self.graph.edge(info.edge).from),
            None => (CtxId::NONE, BlockId::NONE),
        };
        let site = self.jump_site(caller, site, from_pc, pc);
        match self.thunk(&site, fragment) {
            Some((plain, _)) => Next::Resume(plain),
            None => Next::Fault { pc, why: NoBlock::NotExecutable },
        }
    }

    /// A return that its continuation did not accept.
    fn on_return(&mut self, state: &mut ThreadState) -> Next {
        self.stats.returns += 1;
        let sp = state.regs.gpr[reg::RSP];
        let mut bytes = [0u8; 8];
        if tallygraph_sys::mem::read_guest(crate::own_pid(), sp, &mut bytes) != 8 {
            return Next::Fault { pc: 0, why: NoBlock::NotExecutable };
        }
        let target = u64::from_le_bytes(bytes);
        let after = sp.wrapping_add(8 + core::mem::take(&mut state.ret_pop) as u64);
        let block = BlockId(state.last_block);
        self.with_stack(state, |stack, fx| stack.leave_jumped(fx));
        if let Some(context) = self.switch_stack(state, sp, target) {
            state.regs.gpr[reg::RSP] = after;
            return self.resume_at(target, context);
        }
        let outcome = self.with_stack(state, |stack, fx| stack.on_return(after, target, fx));
        state.regs.gpr[reg::RSP] = after;
        match outcome {
            ReturnOutcome::Return(context) => self.resume_at(target, context),
            ReturnOutcome::Underflow => {
                let context = self.root_at(target);
                self.resume_at(target, context)
            }
            ReturnOutcome::Jump => {
                let known = self.block_contexts.get(block.0 as usize).copied();
                let Some(context) = known.or(self.off.then_some(self.off_context)) else {
                    let context = self.root_at(target);
                    return self.resume_at(target, context);
                };
                let site = self.jump_site(context, block, 0, target);
                match self.thunk(&site, 0) {
                    Some((plain, _)) => Next::Resume(plain),
                    None => Next::Fault { pc: target, why: NoBlock::NotExecutable },
                }
            }
        }
    }

    /// Removes all generated code. The threads given are all threads there are, each in the engine.
    /// What is known of the fragment `origin` is kept as the first fragment.
    pub fn flush_all(&mut self, threads: &mut [&mut ThreadState], origin: Option<u32>) {
        self.stats.flushes += 1;
        self.epoch += 1;
        let mut needed: Map<u64, EntryInfo> = Map::default();
        for state in threads.iter() {
            for entry in shadow_entries(state).iter() {
                if let Some(info) = self.continuations.get(&entry.continuation) {
                    needed.insert(entry.continuation, *info);
                }
            }
        }
        for entry in self.parked.entries_mut() {
            if let Some(info) = self.continuations.get(&entry.continuation) {
                needed.insert(entry.continuation, *info);
            }
        }
        self.return_points.clear();
        self.cache.reset();
        self.by_key.clear();
        self.thunks.clear();
        self.by_page.clear();
        self.copies.clear();
        self.continuations.clear();
        self.exits.clear();
        self.sites.clear();
        self.targets.clear();
        self.free_exits.clear();
        self.pc_map.clear();
        let facts = |f: u32| {
            let f = self.fragments.get(f as usize)?;
            Some(crate::engine::Fragment { start: 0, end: 0, dead: true, ..f.clone() })
        };
        // Fragments that held exits leave come after the first.
        let mut kept: Vec<crate::engine::Fragment> = origin.and_then(facts).into_iter().collect();
        for state in threads.iter_mut() {
            if let Some(f) = facts(state.origin) {
                state.origin = kept.len() as u32;
                kept.push(f);
            }
        }
        self.fragments.clear();
        self.fragments.append(&mut kept);
        self.clear_lookup();
        let off_sites = core::mem::take(&mut self.off_sites);
        let mut moved: Map<u64, u64> = Map::default();
        for (&old, &info) in &needed {
            let stub = self.lazy_continuation(info);
            if let Some(&site) = off_sites.get(&old) {
                self.off_sites.insert(stub, site);
            }
            moved.insert(old, stub);
            if let EntryKind::Call { return_to } = info.kind {
                self.return_points.insert(return_to);
            }
        }
        for entry in self.parked.entries_mut() {
            if let Some(&stub) = moved.get(&entry.continuation) {
                entry.continuation = stub;
            }
        }
        for state in threads.iter_mut() {
            for entry in shadow_entries(state).iter_mut() {
                if let Some(&stub) = moved.get(&entry.continuation) {
                    entry.continuation = stub;
                }
            }
        }
    }
}

/// The entries of a thread's shadow stack, the bottom first.
pub(crate) fn shadow_entries(state: &ThreadState) -> &'static mut [Entry] {
    let n = (state.shadow_top - state.shadow_base) / size_of::<Entry>() as u64 + 1;
    // SAFETY: mapped and owned by a thread that is in the engine.
    unsafe { core::slice::from_raw_parts_mut(state.shadow_base as *mut Entry, n as usize) }
}
