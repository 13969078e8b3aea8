//! The functions that are active in a thread, from its shadow stack.

use crate::runtime::Runtime;
use alloc::vec::Vec;
use tallygraph_callgraph::EntryKind;
use tallygraph_engine::thread::ThreadState;
use tallygraph_engine::tool::Tool;

/// An active function.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Where it is: the next instruction of the newest frame, the return address of the others.
    pub pc: u64,
    /// Number of the function in the spool.
    pub function: u32,
}

/// The frames of a thread, newest first, `most` of them; `pc` is the newest's address.
pub fn frames(rt: &mut Runtime, state: &ThreadState, pc: u64, most: usize) -> Vec<Frame> {
    let infos = rt.engine.active_calls(state);
    let mut all = Vec::new();
    let mut pc = Some(pc);
    let mut push = |rt: &mut Runtime, pc: u64, newest: bool| {
        // A call may be its function's last instruction.
        let inside = if newest { pc } else { pc.wrapping_sub(1) };
        let Some(region) = rt.engine.maps.exec_region(inside).cloned() else { return };
        let function = rt.engine.tool.function(inside, &region).0;
        all.push(Frame { pc, function });
    };
    let mut pushed = 0;
    for info in infos {
        if pushed == most {
            return all;
        }
        // A jump that counts as a call has left no frame.
        if let EntryKind::Call { return_to } = info.kind
            && let Some(pc) = pc.replace(return_to)
        {
            push(rt, pc, pushed == 0);
            pushed += 1;
        }
    }
    if let (Some(pc), true) = (pc, pushed < most) {
        push(rt, pc, pushed == 0);
    }
    all
}
