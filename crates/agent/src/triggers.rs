//! What is done when a function is entered for the first time, or left for the last: dumps and zeroing.

use crate::collect;
use crate::runtime::{Access, access};
use tallygraph_callgraph::FnId;
use tallygraph_engine::thread::ThreadState;

/// A function with triggers is entered; its call has been counted.
pub fn entered(state: &mut ThreadState, function: FnId) {
    let mut rt = access();
    let selected = rt.engine.tool.selected(function);
    if selected.dump_before {
        dump(&mut rt, state, b"--dump-before=", function);
    } else if selected.zero_before {
        collect::zero(&mut rt, state);
    }
}

/// Functions with triggers that the thread has left meanwhile.
pub fn run_left(rt: &mut Access, state: &mut ThreadState) {
    for function in rt.engine.take_left() {
        if rt.engine.tool.selected(function).dump_after {
            dump(rt, state, b"--dump-after=", function);
        }
    }
}

fn dump(rt: &mut Access, state: &mut ThreadState, option: &[u8], function: FnId) {
    let mut trigger = option.to_vec();
    trigger.extend_from_slice(&rt.engine.tool.shown_name(function));
    collect::dump(rt, state, &trigger);
}
