//! Exits: where fragments leave the code cache.
//!
//! Each exit has a number; its stub stores the number and switches to the engine, which resolves
//! the exit and, where that is possible for good, *links* it by patching the branch that leads to
//! the stub.

use tallygraph_callgraph::{BlockId, CtxId, FnId};

/// Exit numbers that are not in the table of exits.
pub mod special {
    /// A return did not match the shadow stack.
    pub const RETURN: u32 = 1;
    /// An indirect branch was not found in the lookup table.
    pub const LOOKUP: u32 = 2;
    /// Numbers from here on index the table of exits.
    pub const FIRST: u32 = 16;
}

/// A transfer of control that counts as a call, at a given recursion level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallSite {
    /// Context of the caller.
    pub caller: CtxId,
    /// Calling block.
    pub site: BlockId,
    /// Callee.
    pub function: FnId,
    /// Callee's first instruction.
    pub to_addr: u64,
    /// Recursion level to try.
    pub level: u32,
    /// Return address for call instructions, none for jumps that count as calls.
    pub return_to: Option<u64>,
    /// Flags may be live at the callee's first instruction.
    pub keep_flags: bool,
    /// Guest address of the calling instruction.
    pub pc: u64,
}

/// What an exit means.
#[derive(Clone, Copy, Debug)]
pub enum ExitKind {
    /// A direct jump or a fall-through to `target`: whether it counts as a call is decided when it
    /// is first taken.
    Direct,
    /// Goes to `target` in this context; the call graph has been told already.
    Linked(CtxId),
    /// The callee is active: the next recursion level has to be tried. Index of the call site.
    CallLevel(u32),
    /// An indirect jump.
    IndirectJump,
    /// An indirect call; the exit's `target` is the address after it.
    IndirectCall,
    /// The fragment's guest code has changed.
    Stale,
    /// The fragment has run often: it is made again, with care.
    Warm,
    /// The thread has counted as many blocks as it does between two pauses; `target` is where it goes on.
    Pause,
    /// A function with triggers was entered, in this context; `target` is its first instruction.
    Enter(FnId, CtxId),
    /// A system call; `target` is the address after it.
    Syscall,
    /// A client request; `target` is the address after it.
    ClientRequest,
    /// An instruction the engine can't run; `target` is its address.
    Unsupported,
    /// A continuation whose code was flushed: the return is resolved by the engine.
    LazyContinuation,
}

/// An exit.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// What it means.
    pub kind: ExitKind,
    /// Fragment it leaves.
    pub fragment: u32,
    /// Block that ends in it.
    pub block: BlockId,
    /// Guest address it goes to, where that is known.
    pub target: u64,
    /// Code cache address of the branch displacement that leads here; 0 when it can't be linked.
    pub field: u32,
    /// Code cache address of the stub, 0 for none.
    pub stub: u32,
}

impl Exit {
    /// The address after an indirect call.
    pub fn return_to(&self) -> Option<u64> {
        matches!(self.kind, ExitKind::IndirectCall).then_some(self.target)
    }
}
