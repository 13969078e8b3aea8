//! Client requests: what a program tells its profiler through the magic instruction sequence.

use crate::format::{Arguments, guest_text};
use crate::runtime::{Access, access};
use crate::{collect, format, log, trace, writer};
use tallygraph_callgraph::CtxId;
use tallygraph_engine::own_pid;
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_sys::mem::read_guest;
use tallygraph_wire::config::{Number, Text};
use tallygraph_wire::spool::Record;

/// Requests of the core and of Callgrind, by number.
mod number {
    pub const RUNNING_ON_VALGRIND: u64 = 0x1001;
    pub const DISCARD_TRANSLATIONS: u64 = 0x1002;
    pub const COUNT_ERRORS: u64 = 0x1201;
    pub const PRINTF: u64 = 0x1401;
    pub const PRINTF_BACKTRACE: u64 = 0x1402;
    pub const PRINTF_VALIST: u64 = 0x1403;
    pub const PRINTF_BACKTRACE_VALIST: u64 = 0x1404;
    pub const STACK_REGISTER: u64 = 0x1501;
    pub const STACK_DEREGISTER: u64 = 0x1502;
    pub const STACK_CHANGE: u64 = 0x1503;
    pub const LOAD_PDB_DEBUGINFO: u64 = 0x1601;
    pub const MAP_IP_TO_SRCLOC: u64 = 0x1701;
    pub const CHANGE_ERR_DISABLEMENT: u64 = 0x1801;
    pub const INNER_THREADS: u64 = 0x1902;
    const CALLGRIND: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
    pub const DUMP: u64 = CALLGRIND;
    pub const ZERO: u64 = CALLGRIND + 1;
    pub const TOGGLE: u64 = CALLGRIND + 2;
    pub const DUMP_AT: u64 = CALLGRIND + 3;
    pub const START: u64 = CALLGRIND + 4;
    pub const STOP: u64 = CALLGRIND + 5;
    pub const ADD_OBJ_SKIP: u64 = CALLGRIND + 6;
    pub const ADD_DESC: u64 = CALLGRIND + 7;
}

/// Frames of a back trace where `--num-callers` says nothing else.
const DEFAULT_CALLERS: usize = 12;

/// Answers the request at the block that `rax` points to; the result goes to `rdx`. The guest was in
/// `context` and goes on at `next`; gives the context it goes on in.
pub fn answer(state: &mut ThreadState, next: u64, mut context: CtxId) -> CtxId {
    let mut words = [0u8; 48];
    if read_guest(own_pid(), state.regs.gpr[reg::RAX], &mut words) != 48 {
        return context;
    }
    let word = |i: usize| u64::from_le_bytes(words[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
    let (request, first, second) = (word(0), word(1), word(2));
    let mut rt = access();
    let result = match request {
        number::RUNNING_ON_VALGRIND => 1,
        number::DISCARD_TRANSLATIONS => {
            rt.engine.maps.forget(first, second);
            rt.engine.invalidate(first, second, false);
            0
        }
        // Nothing is checked, so nothing is found.
        number::COUNT_ERRORS | number::CHANGE_ERR_DISABLEMENT => 0,
        number::STACK_DEREGISTER | number::STACK_CHANGE | number::INNER_THREADS => 0,
        number::LOAD_PDB_DEBUGINFO | number::MAP_IP_TO_SRCLOC => 0,
        // The variadic forms pass the list itself, which is an address on this machine.
        number::PRINTF | number::PRINTF_VALIST => print(&mut rt, state, first, second, None),
        number::PRINTF_BACKTRACE | number::PRINTF_BACKTRACE_VALIST => {
            print(&mut rt, state, first, second, Some(next))
        }
        number::STACK_REGISTER => {
            rt.stacks += 1;
            rt.stacks
        }
        number::DUMP => {
            collect::dump(&mut rt, state, b"Client Request");
            0
        }
        number::DUMP_AT => {
            let mut trigger = b"Client Request: ".to_vec();
            trigger.extend_from_slice(&guest_text(first));
            collect::dump(&mut rt, state, &trigger);
            0
        }
        number::ZERO => {
            collect::zero(&mut rt, state);
            0
        }
        number::TOGGLE => {
            let here = rt.engine.context_now(state, context);
            context = rt.engine.switch_side(state, here);
            rt.collecting = !rt.engine.graph.context(context).aside;
            0
        }
        number::START => {
            collect::set(&mut rt, state, next, true);
            context = rt.engine.context_now(state, context);
            0
        }
        number::STOP => {
            collect::set(&mut rt, state, next, false);
            0
        }
        number::ADD_OBJ_SKIP => {
            context = add_obj_skip(&mut rt, state, context, &guest_text(first));
            0
        }
        number::ADD_DESC => {
            let text = guest_text(first);
            rt.engine.tool.spool.append(&Record::Description(&text));
            0
        }
        // Unknown requests give their default.
        _ => return context,
    };
    state.regs.gpr[reg::RDX] = result;
    context
}

/// Skips an object from now on: new calls into it, and its frames on the stack.
fn add_obj_skip(rt: &mut Access, state: &mut ThreadState, context: CtxId, path: &[u8]) -> CtxId {
    rt.config.push(Text::ObjSkip, path);
    // Programs executed from now on skip it too.
    let mut word = b"--obj-skip=".to_vec();
    word.extend_from_slice(path);
    rt.config.push(Text::OptionWord, &word);
    if !rt.engine.tool.skip_object(path) {
        return context;
    }
    // Calls into the object have been translated: all code is made again.
    if rt.engine.single_thread {
        rt.engine.flush_all(&mut [state], None);
    }
    collect::settle_all(rt, state);
    rt.engine.skip_frames(state, context)
}

/// Prints what the guest formats; gives the number of bytes. `trace_from` asks for the active functions
/// too, and is where the guest is.
fn print(rt: &mut Access, state: &mut ThreadState, format: u64, list: u64, trace_from: Option<u64>) -> u64 {
    let Some(mut arguments) = Arguments::read(list) else { return 0 };
    let out = format::format(&guest_text(format), &mut arguments);
    log::guest_text(&out);
    if let Some(pc) = trace_from {
        let most = match rt.config.get(Number::NumCallers) {
            0 => DEFAULT_CALLERS,
            n => n as usize,
        };
        let frames = trace::frames(rt, state, pc, most);
        writer::print_frames(rt, &frames);
    }
    out.len() as u64
}
