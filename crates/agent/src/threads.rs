//! Thread blocks: one for each thread, behind `gs`.

use crate::runtime::{access, on_exit};
use tallygraph_callgraph::Entry;
use tallygraph_engine::layout::COUNTERS_OFFSET;
use tallygraph_engine::thread::ThreadState;
use tallygraph_sys::mem::{self, RW};
use tallygraph_sys::{Errno, abi, syscall};
use tallygraph_wire::spool::{BASELINE_OFFSET, Record};

/// Bytes of the engine's stack of a thread.
const ENGINE_STACK: u64 = 256 * 1024;
/// Bytes of the shadow stack of a thread, touched as it grows.
const SHADOW_STACK: u64 = 1 << 30;

/// Makes the block of a new thread: state, counters, engine stack, shadow stack. Does not enter it.
pub fn create_state() -> Result<*mut ThreadState, Errno> {
    let block = mem::map_anywhere(COUNTERS_OFFSET as u64 + BASELINE_OFFSET, RW)?;
    let stack = mem::map_anywhere(ENGINE_STACK, RW)?;
    let shadow = mem::map_anywhere(SHADOW_STACK, RW)?;
    let mut rt = access();
    let slot = rt.engine.tool.spool.arena()?;
    rt.engine.tool.spool.map_arena(slot, block)?;
    // SAFETY: the block was just mapped, zeroed, and is large and aligned enough.
    let state = unsafe { &mut *(block as *mut ThreadState) };
    // SAFETY: gettid has no effect.
    let tid = unsafe { syscall!(abi::__NR_gettid) }.unwrap_or(0) as u32;
    rt.engine.tool.spool.append(&Record::Thread { slot, number: slot + 1, tid });
    state.this = block;
    state.slot = slot;
    state.tid = tid;
    state.on_exit = on_exit as *const () as u64;
    state.engine_sp = stack + ENGINE_STACK - 64;
    state.shadow_base = shadow;
    state.shadow_end = shadow + SHADOW_STACK;
    state.shadow_top = shadow;
    // SAFETY: the shadow stack was just mapped.
    let bottom = unsafe { &mut *(shadow as *mut Entry) };
    bottom.sp = u64::MAX;
    bottom.continuation = tallygraph_engine::switch::exit_return as *const () as u64;
    Ok(state)
}

/// Makes `state` the current thread's block and enters the code cache.
pub fn enter(state: &mut ThreadState, at: u64) -> ! {
    const ARCH_SET_GS: u64 = 0x1001;
    // SAFETY: gs is the engine's.
    let _ = unsafe { syscall!(abi::__NR_arch_prctl, ARCH_SET_GS, state.this) };
    // SAFETY: `resume` loads everything from the block behind gs and jumps to `rax`.
    unsafe {
        core::arch::asm!("jmp {resume}", resume = sym tallygraph_engine::switch::resume, in("rax") at, options(noreturn))
    }
}
