//! Instrumentation and collection on and off, zeroing, and parts.
//!
//! Counters never stop and are never reset: a profile shows *counter − baseline*. While costs are not
//! to be collected, what the counters gain is added to the baseline when collection goes on. So the
//! shadow stack is always true, and what a part shows is exactly what ran while collection was on,
//! wherever it was switched: in any depth, in a handler, in a recursive function.
//!
//! Before each change the inclusive costs of all frames on the stacks are booked up to now.

use crate::runtime::Access;
use crate::{simulation, writer};
use alloc::vec::Vec;
use tallygraph_engine::thread::ThreadState;

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

/// Switches instrumentation and collection; costs are kept while both are on. The guest goes on at `next`.
///
/// With one thread, generated code does not count while instrumentation is off.
pub fn set(
    rt: &mut Access,
    state: &mut ThreadState,
    next: u64,
    instrument: Option<bool>,
    collect: Option<bool>,
) {
    if instrument == Some(true) {
        rt.engine.turn_on(state, next);
        if !rt.instrumenting {
            simulation::flush(state);
        }
    }
    let before = rt.instrumenting && rt.collecting;
    rt.instrumenting = instrument.unwrap_or(rt.instrumenting);
    rt.collecting = collect.unwrap_or(rt.collecting);
    let after = rt.instrumenting && rt.collecting;
    if before != after {
        settle_all(rt, state);
        if after { resume(rt) } else { pause(rt) }
    }
    if instrument == Some(false) && rt.engine.single_thread {
        settle_all(rt, state);
        rt.engine.turn_off(state);
    }
}

/// Remembers the counters at the moment collection stops.
fn pause(rt: &mut Access) {
    rt.paused = Some(rt.engine.tool.spool.snapshot());
}

/// Adds what was counted meanwhile to the baseline.
fn resume(rt: &mut Access) {
    if let Some(then) = rt.paused.take() {
        rt.engine.tool.spool.discard_since(&then);
    }
}

/// Nothing is collected from the start.
pub fn start_paused(rt: &mut Access) {
    rt.paused = Some(Vec::new());
}

/// Makes a part show nothing of what happened so far.
pub fn zero(rt: &mut Access, state: &mut ThreadState) {
    settle_all(rt, state);
    rt.engine.tool.spool.rebase();
    if rt.paused.is_some() {
        pause(rt);
    }
}

/// Writes a part of what was collected since the last one, and starts the next.
pub fn dump(rt: &mut Access, state: &mut ThreadState, trigger: &[u8]) {
    settle_all(rt, state);
    let paused = rt.paused.is_some();
    resume(rt);
    writer::part(rt, trigger);
    rt.engine.tool.spool.rebase();
    if paused {
        pause(rt);
    }
}
