//! The block of memory behind `gs`: everything of a thread that generated code touches.
//!
//! ```text
//! gs:0                 ThreadState
//! gs:ACTIVE_OFFSET     active count of each function, u32
//! gs:COUNTERS_OFFSET   counters, u64, a window on the thread's arena of the spool
//! ```
//!
//! While the guest runs in the code cache its registers are in the machine, except that `r10` and
//! `r11` (and `rax` with the flags) may be *spilled* into [`GuestRegs`] for a few instructions.
//! While the engine runs, all of them are in [`GuestRegs`].

use core::mem::offset_of;

/// The guest's integer registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GuestRegs {
    /// General-purpose registers by hardware number.
    pub gpr: [u64; 16],
    /// Flags.
    pub rflags: u64,
    /// Instruction pointer; valid only where an engine function says so.
    pub rip: u64,
}

/// Indices into [`GuestRegs::gpr`].
pub mod reg {
    /// `rax`
    pub const RAX: usize = 0;
    /// `rcx`
    pub const RCX: usize = 1;
    /// `rdx`
    pub const RDX: usize = 2;
    /// `rbx`
    pub const RBX: usize = 3;
    /// `rsp`
    pub const RSP: usize = 4;
    /// `rsi`
    pub const RSI: usize = 6;
    /// `rdi`
    pub const RDI: usize = 7;
    /// `r8`
    pub const R8: usize = 8;
    /// `r9`
    pub const R9: usize = 9;
    /// `r10`
    pub const R10: usize = 10;
    /// `r11`
    pub const R11: usize = 11;
}

/// The thread's state as generated code and the context switch see it.
#[repr(C, align(64))]
pub struct ThreadState {
    /// Address of this block.
    pub this: u64,
    /// Guest registers.
    pub regs: GuestRegs,
    /// Address of the newest shadow stack entry.
    pub shadow_top: u64,
    /// Target of the indirect branch being looked up.
    pub ibl_target: u64,
    /// Exit number of the indirect branch being looked up.
    pub ibl_key: u32,
    /// Exit through which the thread left the code cache, or one of [`crate::exit::special`].
    pub exit_id: u32,
    /// Block that executed the latest return instruction.
    pub last_block: u32,
    /// Extra bytes popped by that return (`ret imm16`).
    pub ret_pop: u32,
    /// The engine's stack pointer when the guest runs.
    pub engine_sp: u64,
    /// Code cache address to resume at.
    pub resume: u64,
    /// The engine's exit function.
    pub on_exit: u64,
    /// Scratch of string instruction sequences.
    pub rep_count: u64,
    /// Guest vector registers (low halves; the engine's code leaves the upper halves alone).
    pub xmm: [u128; 16],
    /// Lowest entry of the shadow stack.
    pub shadow_base: u64,
    /// End of the shadow stack.
    pub shadow_end: u64,
    /// Kernel thread id.
    pub tid: u32,
    /// Arena slot of the counters.
    pub slot: u32,
    /// Nonzero: a signal waits for a safe point; no system call may block.
    pub signal_pending: u32,
    /// Unused.
    pub reserved: u32,
    /// The guest's alternate signal stack, empty when none is set.
    pub alternate_stack: (u64, u64),
    /// The agent's own data of the thread.
    pub agent: u64,
    /// Nonzero: in a system call that may block; nothing refers to generated code meanwhile.
    pub outside: u32,
    /// Nonzero: stopped at the entry of a fragment.
    pub parked: u32,
    /// Fragment of an exit that is held, `u32::MAX` for none.
    pub origin: u32,
    /// Nonzero: was asked to stop.
    pub stop_sent: u32,
    /// The guest's base of `gs`.
    pub guest_gs: u64,
    /// Context that the stack was replayed to when the engine came on.
    pub replayed: u32,
    /// Basic blocks to be counted up to the next pause, as a negative number.
    pub pause_count: i64,
    /// The agent's simulated machine of the thread.
    pub simulation: u64,
    /// The tool's function that simulates events.
    pub on_events: u64,
    /// The tool's function that passes events on when a call returns.
    pub on_pop: u64,
    /// List of the items to simulate.
    pub event_list: u64,
    /// Where to go on after that.
    pub event_back: u64,
    /// First inclusive counter of the edge of the entry that is popped.
    pub event_edge: u32,
    /// Nonzero: the thread is in the tool's functions above.
    pub event_busy: u32,
    /// Items of the list that are done.
    pub event_done: u32,
    /// Nonzero: the next item has missed in L1, which is up to date.
    pub event_missed: u32,
    /// Rows of D1 and the bits of an address that select one; likewise of LL. No rows of LL: the tool looks after it.
    pub data_rows: u64,
    /// Time of the latest reference of I1.
    pub fetch_clock: u64,
    /// Address of LL's lock, 0 while there is one thread.
    pub ll_lock: u64,
    /// See `data_rows`.
    pub ll_rows: u64,
    /// See `data_rows`.
    pub data_mask: u32,
    /// Number of LL's sets less one.
    pub ll_mask: u32,
    /// Address of the sums beside a shadow stack entry, less [`crate::events::ROW_SCALE`] times the entry's address.
    pub rows_bias: u64,
    /// Flags saved around a check.
    pub event_flags: u64,
    /// `rax` while the flags are restored.
    pub event_rax: u64,
    /// Flags saved around the tool's functions.
    pub event_flags_all: u64,
    /// Outcome of a conditional jump in the low byte.
    pub event_taken: u64,
    /// Target of an indirect branch.
    pub event_target: u64,
    /// `rcx`, `rsi` and `rdi` before a repeated instruction.
    pub event_before: [u64; 3],
    /// General registers when events were to be simulated.
    pub event_registers: [u64; 16],
    /// Addresses of the data items in the list.
    pub event_addresses: [u64; crate::events::MAX_ITEMS],
}

/// `gs` displacement of a general-purpose register's slot.
pub const fn gpr_disp(number: usize) -> i32 {
    (offset_of!(ThreadState, regs) + offset_of!(GuestRegs, gpr) + number * 8) as i32
}

/// `gs` displacement of a field.
macro_rules! disp {
    ($field:ident) => {
        core::mem::offset_of!($crate::thread::ThreadState, $field) as i32
    };
}
pub(crate) use disp;

/// `gs` displacement of the saved flags.
pub const RFLAGS_DISP: i32 = (offset_of!(ThreadState, regs) + offset_of!(GuestRegs, rflags)) as i32;

impl ThreadState {
    /// Value of a counter of this thread.
    ///
    /// # Safety
    ///
    /// `self` is the start of a thread block whose counters are mapped up to `index`.
    pub unsafe fn counter(&mut self, index: u32) -> &mut u64 {
        let at = self.this + crate::layout::counter_disp(index) as u64;
        // SAFETY: inside the thread block by this function's contract.
        unsafe { &mut *(at as *mut u64) }
    }

    /// Active count of a function in this thread.
    ///
    /// # Safety
    ///
    /// `self` is the start of a thread block and `function` is below `MAX_FUNCTIONS`.
    pub unsafe fn active(&mut self, function: u32) -> &mut u32 {
        let at = self.this + crate::layout::active_disp(function) as u64;
        // SAFETY: inside the thread block by this function's contract.
        unsafe { &mut *(at as *mut u32) }
    }
}
