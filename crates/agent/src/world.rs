//! Stopping all threads, so that the code cache can be emptied while several run.
//!
//! The thread that finds the cache full *stops the world*: it waits until every other thread is either
//!
//! - *outside*: in a system call that may block, where nothing refers to code; or
//! - *parked*: at the entry of a fragment (a safe point), in our signal handler, its guest address and
//!   context noted; or in the engine, with what is known of the exit it took held.
//!
//! Then it empties the cache with the engine's lock held, and the others go on: a thread that comes back from
//! outside waits until it may, a parked one is led to a new fragment for its guest address. Threads that are
//! neither get a signal, which brings them to a safe point as any other signal of the guest does, or park when
//! they leave the cache; what they translate before that goes to room that is kept for it.
//!
//! Invariants:
//!
//! - W1: a thread outside touches neither engine nor code; `outside` is cleared only while the world is not
//!   stopping (both are sequentially consistent: the one that comes back clears, then looks; the one
//!   that stops announces it, then looks).
//! - W2: `parked` changes with the engine's lock held.
//! - W3: one thread at a time stops the world.

use crate::runtime::access;
use crate::triggers;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tallygraph_engine::Next;
use tallygraph_engine::thread::ThreadState;
use tallygraph_sys::{abi, syscall};

/// The signal that stops a thread: the last one, which programs use least.
pub const STOP_SIGNAL: i32 = 64;
/// What its value says.
const MAGIC: u64 = 0x7461_6c6c_7967_7261;
/// `si_code` of queued signals.
const SI_QUEUE: i32 = -1;
/// Pauses of 0.1 ms before giving up: a thread that has all signals blocked may compute for long.
const PATIENCE: u32 = 100_000;

static STOPPING: AtomicU32 = AtomicU32::new(0);
/// Children that share the memory and are no thread of the guest's.
static LODGERS: AtomicU32 = AtomicU32::new(0);

/// The world is being stopped.
pub fn is_stopping() -> bool {
    STOPPING.load(SeqCst) != 0
}

/// True for the signal that stops a thread.
pub fn is_stop(signal: i32, info: &[u8; 128]) -> bool {
    let word = |at: usize| u64::from_le_bytes(info[at..at + 8].try_into().expect("eight bytes"));
    signal == STOP_SIGNAL && word(8) as i32 == SI_QUEUE && word(24) == MAGIC
}

/// Sleeps for 0.1 ms.
pub fn pause() {
    let time = [0u64, 100_000];
    // SAFETY: the kernel reads two words.
    let _ = unsafe { syscall!(abi::__NR_nanosleep, time.as_ptr(), 0) };
}

fn flag(state: *const ThreadState) -> &'static AtomicU32 {
    // SAFETY: blocks of threads are never unmapped while these are in the list.
    unsafe { &*(&raw const (*state).outside as *const AtomicU32) }
}

/// Runs `f`, which touches neither engine nor code, while others may empty the code cache.
pub fn outside<R>(state: &mut ThreadState, f: impl FnOnce() -> R) -> R {
    let outside = flag(state);
    outside.store(1, SeqCst);
    let result = f();
    loop {
        outside.store(0, SeqCst);
        if !is_stopping() {
            return result;
        }
        outside.store(1, SeqCst);
        while is_stopping() {
            pause();
        }
    }
}

/// As [`outside`], around making a child that shares the memory until it executes or ends.
pub fn with_lodger<R>(state: &mut ThreadState, f: impl FnOnce() -> R) -> R {
    LODGERS.fetch_add(1, SeqCst);
    let result = outside(state, f);
    LODGERS.fetch_sub(1, SeqCst);
    result
}

/// A forked child is alone.
pub fn start_alone(state: &mut ThreadState) {
    STOPPING.store(0, SeqCst);
    LODGERS.store(0, SeqCst);
    flag(state).store(0, SeqCst);
    state.origin = u32::MAX;
}

/// A new thread's block, before it is listed.
pub fn reset(state: &mut ThreadState) {
    (state.outside, state.parked, state.stop_sent, state.tid) = (0, 0, 0, 0);
    state.origin = u32::MAX;
}

/// Sends the signal to a thread; one that has not said its number yet gets it later.
fn send(state: &mut ThreadState) {
    if state.stop_sent != 0 || state.tid == 0 {
        return;
    }
    state.stop_sent = 1;
    let pid = tallygraph_engine::own_pid();
    let mut info = [0u64; 16];
    info[0] = STOP_SIGNAL as u64;
    info[1] = SI_QUEUE as u32 as u64;
    info[2] = pid as u32 as u64;
    info[3] = MAGIC;
    // SAFETY: the kernel reads a siginfo of 128 bytes.
    let _ = unsafe { syscall!(abi::__NR_rt_tgsigqueueinfo, pid, state.tid, STOP_SIGNAL, info.as_ptr()) };
}

/// Waits in the engine, with the exit held, until the cache has been emptied.
fn wait_at_exit(state: &mut ThreadState) -> Next {
    let held = {
        let mut rt = access();
        state.parked = 1;
        rt.engine.hold(state)
    };
    let mut rt = loop {
        while is_stopping() {
            pause();
        }
        let rt = access();
        if !is_stopping() {
            break rt;
        }
    };
    state.parked = 0;
    let next = rt.engine.resume_held(state, held);
    triggers::run_left(&mut rt, state);
    next
}

/// The running thread left the code cache and found it full while others run: empties it when all of
/// them stand still. Gives how the thread goes on, none when another one cannot be stopped.
pub fn make_room(state: &mut ThreadState) -> Option<Next> {
    if STOPPING.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        // Another thread is at it.
        return Some(wait_at_exit(state));
    }
    let this: *mut ThreadState = state;
    for _ in 0..PATIENCE {
        let mut rt = access();
        let mut still = LODGERS.load(SeqCst) == 0;
        let others: alloc::vec::Vec<*mut ThreadState> =
            rt.threads.iter().copied().filter(|&t| t != this).collect();
        for &other in &others {
            // SAFETY: listed blocks are mapped; what is touched here is written under the lock, or atomic.
            let parked = unsafe { (*other).parked };
            if parked == 0 && flag(other).load(SeqCst) == 0 {
                still = false;
                // SAFETY: as above.
                send(unsafe { &mut *other });
            }
        }
        if still {
            // SAFETY: these threads stand still, each outside or parked.
            let mut states: alloc::vec::Vec<&mut ThreadState> =
                others.iter().map(|&t| unsafe { &mut *t }).collect();
            let next = rt.engine.on_exit_stopped(state, &mut states);
            states.iter_mut().for_each(|t| t.stop_sent = 0);
            STOPPING.store(0, SeqCst);
            triggers::run_left(&mut rt, state);
            return Some(next);
        }
        drop(rt);
        pause();
    }
    STOPPING.store(0, SeqCst);
    None
}
