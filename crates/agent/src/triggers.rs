//! What is done when a function is entered for the first time, or left for the last: dumps and zeroing.

use crate::collect;
use crate::runtime::{Access, access};
use crate::signals::thread;
use crate::spool::Slots;
use tallygraph_callgraph::FnId;
use tallygraph_engine::thread::ThreadState;
use tallygraph_wire::config::Number;

/// A function with triggers is entered; its call has been counted.
pub fn entered(state: &mut ThreadState, function: FnId) {
    if is_counted_nowhere(state) {
        return;
    }
    let mut rt = access();
    let selected = rt.engine.tool.selected(function);
    if selected.dump_before {
        dump(&mut rt, state, b"--dump-before=", function);
    } else if selected.zero_before {
        collect::zero(&mut rt, state);
    }
}

/// The thread has counted as many blocks as `--dump-every-bb` says.
pub fn paused(state: &mut ThreadState) {
    if is_counted_nowhere(state) {
        return;
    }
    let mut rt = access();
    let trigger = alloc::format!("--dump-every-bb={}", rt.config.get(Number::DumpEveryBb));
    collect::dump_of(&mut rt, state, trigger.as_bytes(), Slots::All);
}

/// Functions with triggers that the thread has left meanwhile.
pub fn run_left(rt: &mut Access, state: &mut ThreadState) {
    let left = rt.engine.take_left();
    if left.is_empty() || is_counted_nowhere(state) {
        return;
    }
    for function in left {
        if rt.engine.tool.selected(function).dump_after {
            dump(rt, state, b"--dump-after=", function);
        }
    }
}

/// True for a child that shares its parent's memory until it executes a program.
fn is_counted_nowhere(state: &mut ThreadState) -> bool {
    thread(state).vfork_child
}

fn dump(rt: &mut Access, state: &mut ThreadState, option: &[u8], function: FnId) {
    let mut trigger = option.to_vec();
    trigger.extend_from_slice(&rt.engine.tool.shown_name(function));
    collect::dump(rt, state, &trigger);
}
