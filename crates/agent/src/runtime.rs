//! The one instance of engine and options in a guest process, and the loop around exits.

use crate::profiler::Profiler;
use crate::{requests, signals, syscalls, triggers};
use alloc::vec::Vec;
use tallygraph_engine::thread::ThreadState;
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
    /// Blocks of the threads that run.
    pub threads: Vec<*mut ThreadState>,
    /// Blocks of threads that have ended or are about to.
    pub ended: Vec<*mut ThreadState>,
    /// The process was forked by a guest.
    pub child: bool,
    /// No profile is written.
    pub silent: bool,
    /// Instrumentation is on.
    pub instrumenting: bool,
    /// Collection is on.
    pub collecting: bool,
    /// The counters when collection stopped.
    pub paused: Option<Vec<Vec<u64>>>,
    /// Stacks registered by client requests.
    pub stacks: u64,
    /// Parts dumped.
    pub parts: u32,
}

// SAFETY: the blocks are shared memory of the process; the lock orders access to the lists.
unsafe impl Send for Runtime {}

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
    let next = {
        let mut rt = access();
        let next = rt.engine.on_exit(state);
        triggers::run_left(&mut rt, state);
        next
    };
    let at = follow(state, next);
    signals::before_resume(state);
    at
}

/// Does what `next` asks until the guest can run again.
pub fn follow(state: &mut ThreadState, mut next: Next) -> u64 {
    loop {
        next = match next {
            Next::Resume(at) => return at,
            Next::Syscall { next, fragment } => syscalls::perform(state, next, fragment),
            Next::Pause { pc, context } => {
                triggers::paused(state);
                access().engine.resume_at(pc, context)
            }
            Next::Enter { function, pc, context } => {
                triggers::entered(state, function);
                access().engine.resume_at(pc, context)
            }
            Next::Request { next, context } => {
                let context = requests::answer(state, next, context);
                let mut rt = access();
                let context = rt.engine.context_now(state, context);
                rt.engine.resume_at(next, context)
            }
            // Executing there natively raises what the hardware would.
            Next::Fault { pc, why: _ } => return pc,
            Next::CacheFull => match crate::world::make_room(state) {
                Some(next) => next,
                None => {
                    crate::log!(
                        "tallygraph: the code cache is full and a thread cannot be stopped: giving up"
                    );
                    crate::threads::exit_process(state, 1)
                }
            },
            Next::Unsupported { pc } => {
                crate::log!("tallygraph: unsupported instruction at {pc:#x} (see docs/capabilities.md)");
                crate::process::exit_raw(132)
            }
        };
    }
}
