//! Instrumentation and collection on and off, zeroing, and parts.
//!
//! Counters never stop and are never reset: a profile shows *counter − baseline*. While instrumentation
//! is off, what the counters gain is added to the baseline when it goes on. So the shadow stack is always
//! true, and what a part shows is exactly what ran meanwhile, wherever it was switched: in any depth, in
//! a handler, in a recursive function.
//!
//! Collection is another matter: code that runs while it is off has contexts of its own (see
//! `tallygraph_callgraph::graph`), in which only calls are counted, as Callgrind does.
//!
//! Before each change the inclusive costs of all frames on the stacks are booked up to now.

use crate::runtime::Access;
use crate::spool::{Calls, Slots};
use crate::{simulation, writer};
use alloc::vec::Vec;
use tallygraph_callgraph::Context;
use tallygraph_callgraph::hash::Map;
use tallygraph_engine::thread::ThreadState;
use tallygraph_wire::config::Number;

/// Books what the frames of all threads have cost so far.
pub fn settle_all(rt: &mut Access, state: &mut ThreadState) {
    let this: *mut ThreadState = state;
    rt.engine.settle(state);
    let others: Vec<*mut ThreadState> = rt.threads.iter().copied().filter(|&s| s != this).collect();
    for other in others {
        // SAFETY: blocks are never unmapped. The thread may be running: what it does meanwhile falls
        // on either side of the change.
        rt.engine.settle(unsafe { &mut *other });
    }
}

/// Switches instrumentation. The guest goes on at `next`.
///
/// With one thread, generated code does not count while instrumentation is off.
pub fn set(rt: &mut Access, state: &mut ThreadState, next: u64, on: bool) {
    if on {
        rt.engine.turn_on(state, next);
        if !rt.instrumenting {
            simulation::flush(state);
        }
    }
    if core::mem::replace(&mut rt.instrumenting, on) != on {
        settle_all(rt, state);
        if on { resume(rt) } else { pause(rt) }
    }
    if !on && rt.engine.single_thread {
        settle_all(rt, state);
        rt.engine.turn_off(state);
    }
}

/// Remembers the counters at the moment instrumentation stops.
fn pause(rt: &mut Access) {
    rt.paused = Some(rt.engine.tool.spool.snapshot());
}

/// Adds what was counted meanwhile to the baseline.
fn resume(rt: &mut Access) {
    if let Some(then) = rt.paused.take() {
        rt.engine.tool.spool.discard_since(&then);
    }
}

/// Instrumentation is off from the start.
pub fn start_paused(rt: &mut Access) {
    rt.paused = Some(Vec::new());
}

/// Whose costs a request of a thread is about: its own where threads are written apart, else all.
fn concerned(rt: &Access, state: &ThreadState) -> Slots {
    if rt.config.is(Number::SeparateThreads) { Slots::One(state.slot) } else { Slots::All }
}

/// Makes the next part show nothing of what happened so far, in this thread where threads are written apart.
pub fn zero(rt: &mut Access, state: &mut ThreadState) {
    zero_of(rt, state, concerned(rt, state));
}

/// Makes the next part show nothing of what happened so far.
pub fn zero_of(rt: &mut Access, state: &mut ThreadState, slots: Slots) {
    settle_all(rt, state);
    rt.engine.tool.spool.rebase(slots);
    if rt.paused.is_some() {
        pause(rt);
    }
}

/// The last part shows all that is left but calls without cost.
pub fn prepare_last(rt: &mut Access) {
    resume(rt);
    if rt.parts > 0 {
        let (calls, spool) = (calls(rt), &rt.engine.tool.spool);
        if rt.config.is(Number::SeparateThreads) {
            spool.slots(Slots::All).for_each(|s| drop(spool.take_out(&calls, Slots::One(s as u32))));
        } else {
            spool.take_out(&calls, Slots::All);
        }
    }
}

/// The call edges in the order of what counts as one: the calls of a basic block to a function, whether
/// costs were collected or not.
fn calls(rt: &Access) -> Vec<Calls> {
    let (graph, tool) = (&rt.engine.graph, &rt.engine.tool);
    let collected = |context| Context { aside: false, ..*graph.context(context) };
    let mut numbers: Map<_, u32> = Map::default();
    let mut all: Vec<Calls> = Vec::new();
    for e in graph.edges() {
        let caller = collected(rt.engine.block_context(e.from));
        let key = (tool.last_stretch(e.from), caller, collected(e.to), e.to_addr);
        let next = numbers.len() as u32;
        let group = *numbers.entry(key).or_insert(next);
        all.push(Calls { group, count: e.count, inclusive: e.inclusive });
    }
    all.sort_by_key(|c| c.group);
    all
}

/// Writes a part of what was collected since the last one, and starts the next; of this thread alone
/// where threads are written apart.
pub fn dump(rt: &mut Access, state: &mut ThreadState, trigger: &[u8]) {
    dump_of(rt, state, trigger, concerned(rt, state));
}

/// Writes a part of what was collected since the last one, and starts the next.
pub fn dump_of(rt: &mut Access, state: &mut ThreadState, trigger: &[u8], slots: Slots) {
    settle_all(rt, state);
    let paused = rt.paused.is_some();
    resume(rt);
    let pending = rt.engine.tool.spool.take_out(&calls(rt), slots);
    writer::part(rt, trigger, slots);
    rt.engine.tool.spool.rebase(slots);
    rt.engine.tool.spool.give_back(&pending);
    if paused {
        pause(rt);
    }
}
