//! The one instance of engine and options in a guest process, and the loop around exits.

use crate::profiler::Profiler;
use crate::syscalls;
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_engine::{Engine, Next};
use tallygraph_sys::lock::{Guard, Lock};
use tallygraph_wire::config::Config;

/// Everything of the process that needs the engine's lock.
pub struct Runtime {
    /// The engine.
    pub engine: Engine<Profiler>,
    /// Options.
    pub config: Config,
    /// Break of the emulated heap.
    pub brk: u64,
    /// End of what is mapped for it.
    pub brk_mapped: u64,
    /// Virtual `gs` base of the guest.
    pub guest_gs: u64,
}

static RUNTIME: Lock<Option<Runtime>> = Lock::new(None);

/// Access to the runtime.
pub struct Access(Guard<'static, Option<Runtime>>);

impl core::ops::Deref for Access {
    type Target = Runtime;
    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("set at start")
    }
}

impl core::ops::DerefMut for Access {
    fn deref_mut(&mut self) -> &mut Runtime {
        self.0.as_mut().expect("set at start")
    }
}

/// Takes the engine's lock.
pub fn access() -> Access {
    Access(RUNTIME.lock())
}

/// Sets the runtime at start.
pub fn install(runtime: Runtime) {
    *RUNTIME.lock() = Some(runtime);
}

/// Called by the context switch when a thread left the code cache; gives the address to resume at.
///
/// # Safety
///
/// `state` is the running thread's block.
pub unsafe extern "C" fn on_exit(state: *mut ThreadState) -> u64 {
    // SAFETY: by this function's contract; no other reference exists while the thread is in the
    // engine.
    let state = unsafe { &mut *state };
    let next = access().engine.on_exit(state);
    follow(state, next)
}

/// Does what `next` asks until the guest can run again.
pub fn follow(state: &mut ThreadState, mut next: Next) -> u64 {
    loop {
        next = match next {
            Next::Resume(at) => return at,
            Next::Syscall { next, context } => {
                syscalls::perform(state, next);
                access().engine.resume_at(next, context)
            }
            Next::Request { next, context } => {
                // The result register keeps the default: no request is known here.
                let _ = state.regs.gpr[reg::RDX];
                access().engine.resume_at(next, context)
            }
            Next::Fault { pc, why: _ } => {
                crate::log!("no code can be executed at {pc:#x}");
                // Executing there natively raises what the hardware would.
                return pc;
            }
            Next::Unsupported { pc } => {
                crate::log!("unsupported instruction at {pc:#x} (see docs/capabilities.md)");
                crate::process::exit_group(132)
            }
        };
    }
}
