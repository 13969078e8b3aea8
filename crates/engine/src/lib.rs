//! Runs the guest in a code cache: blocks, fragments, links, dispatch.
//!
//! The engine copies the guest's own instructions, block by block, into memory of its own and
//! executes them there, with counting code in between. What the counts mean is the business of a
//! [`tool::Tool`] and of the call graph machine.
//!
//! Rules of this crate, as of everything in the guest's process: no libc, no thread-local storage,
//! no allocation from the guest's heap; the guest's stack is never written but as the guest would.
//!
//! - [`layout`]: where everything lives; [`thread`]: the block behind `gs`;
//! - [`block`]: guest bytes to instructions; [`emit`], [`calls`], [`translate`]: instructions to code;
//! - [`events`]: memory accesses and branches for the simulators;
//! - [`exit`], [`dispatch`]: leaving the code cache and going on; [`switch`]: the register switch;
//! - [`jumps`]: counting jumps within functions;
//! - [`rebind`]: changing what frames on the stack mean;
//! - [`maps`]: what is executable; [`tool`]: the seam to the profiler.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ahead;
pub mod block;
pub mod calls;
pub mod code_cache;
pub mod dispatch;
pub mod emit;
pub mod engine;
pub mod events;
pub mod exit;
pub mod jumps;
pub mod layout;
pub mod maps;
pub mod off;
pub mod rebind;
pub mod switch;
pub mod thread;
pub mod tool;
pub mod translate;

pub use dispatch::Next;
pub use engine::{Engine, EngineOptions};

use core::sync::atomic::{AtomicI32, Ordering};

static PID: AtomicI32 = AtomicI32::new(0);

/// Process id, kept to read guest memory without faulting.
pub fn own_pid() -> i32 {
    PID.load(Ordering::Relaxed)
}

/// Sets what [`own_pid`] gives: at start and in a forked child.
pub fn set_own_pid(pid: i32) {
    PID.store(pid, Ordering::Relaxed)
}
