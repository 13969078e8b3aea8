//! Signals of the guest.
//!
//! The kernel knows handlers of ours only, on an alternate stack of ours. What the guest asked for
//! is kept in a table. A signal reaches the guest's handler at a *safe point*: the entry of a
//! fragment, where all guest registers are in the machine and nothing is half counted.
//!
//! - The signal arrives at the entry of a fragment: the guest's frame is built at once.
//! - It arrives elsewhere in the code cache, or while registers are being loaded: the thread is
//!   single-stepped (trap flag) to the next fragment entry, at most a block away.
//! - It arrives in the engine: it waits in the thread's data, all signals blocked, and when the
//!   guest is resumed the trap flag is set, so that the first fragment entry is the safe point.
//! - It arrives at a system call that is about to be made: the call is not made; the guest sees the
//!   signal arrive just before the instruction.
//!
//! Synchronous faults in copied code are exact: the pc map gives the guest instruction, and the
//! counters are corrected for the part of the block that ran.
//!
//! The frame on the guest's stack is a copy of the one the kernel made for us, floating-point state
//! included, with the guest's address for the code cache's. `rt_sigreturn` goes through the kernel
//! with a copy the other way round.

use crate::runtime::{Access, access};
use crate::syscalls::write_guest;
use crate::{log, process, triggers, world, writer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tallygraph_callgraph::CtxId;
use tallygraph_engine::Next;
use tallygraph_engine::events;
use tallygraph_engine::switch;
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_sys::lock::Lock;
use tallygraph_sys::mem::{self, RW, read_guest};
use tallygraph_sys::{Errno, abi, syscall};

/// Bytes of a `siginfo_t`.
const INFO_SIZE: usize = 128;
/// Bytes of a `ucontext` as the kernel lays it out, without extended state.
const UCONTEXT_SIZE: usize = 304;
/// Bytes of our alternate stack.
const ALT_STACK: u64 = 128 * 1024;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;
const SIGSTOP: i32 = 19;

const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_NOCLDSTOP: u64 = 1;
const SA_NOCLDWAIT: u64 = 2;

const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

const TRAP_FLAG: u64 = 0x100;
const TRAP_TRACE: i32 = 2;

/// Signals that an instruction raises; they are never blocked while the guest is brought to a safe
/// point.
const SYNCHRONOUS: u64 = bit(SIGILL) | bit(SIGTRAP) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV);

/// Signals that the kernel tells us of even when the guest ignores them.
const OURS_ALWAYS: u64 = SYNCHRONOUS | bit(world::STOP_SIGNAL);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The kernel's `sigaction` structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Action {
    /// Handler, or 0 for default, 1 for ignore.
    pub handler: u64,
    /// Flags.
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: u64,
    /// Signals blocked while the handler runs.
    pub mask: u64,
}

/// The kernel's machine context inside a signal frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UContext {
    flags: u64,
    link: u64,
    stack_sp: u64,
    stack_flags: u64,
    stack_size: u64,
    /// r8–r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
    regs: [u64; 16],
    rip: u64,
    eflags: u64,
    segments: u64,
    err: u64,
    trapno: u64,
    oldmask: u64,
    cr2: u64,
    fpstate: u64,
    reserved: [u64; 8],
    mask: u64,
}

/// Hardware register numbers in the order of [`UContext::regs`].
const ORDER: [usize; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];
const UC_RSP: usize = 15;

impl UContext {
    fn set(&mut self, register: usize, value: u64) {
        if let Some(i) = ORDER.iter().position(|&r| r == register) {
            self.regs[i] = value;
        }
    }
}

/// A handler that has been entered and not left.
#[derive(Clone, Copy)]
struct Frame {
    /// Address of the frame on the guest's stack.
    at: u64,
    /// Entries on the shadow stack below the marker.
    depth: usize,
    /// Interrupted context.
    context: CtxId,
}

/// What the agent keeps of a thread.
pub struct GuestThread {
    /// A signal on its way to a safe point.
    pending: Option<(i32, [u8; INFO_SIZE])>,
    /// The thread is to stop at a safe point.
    stop: bool,
    /// The guest's signal mask while everything is blocked for `pending`.
    saved_mask: u64,
    frames: Vec<Frame>,
    /// The guest's alternate stack: pointer, flags, size.
    pub alt: (u64, u32, u64),
    /// Our alternate stack.
    own_stack: u64,
    /// The thread is a child that shares its parent's memory until it executes a program.
    pub vfork_child: bool,
}

impl GuestThread {
    /// A thread without anything pending. Its alternate stack is mapped.
    pub fn new() -> Result<Box<GuestThread>, Errno> {
        Ok(Box::new(GuestThread {
            pending: None,
            stop: false,
            saved_mask: 0,
            frames: Vec::new(),
            alt: (0, 2, 0),
            own_stack: mem::map_anywhere(ALT_STACK, RW)?,
            vfork_child: false,
        }))
    }

    /// Tells the kernel of our alternate stack; called on the thread itself.
    pub fn install_stack(&self) {
        let stack = [self.own_stack, 0, ALT_STACK];
        // SAFETY: the stack is mapped for the life of the thread.
        let _ = unsafe { syscall!(abi::__NR_sigaltstack, stack.as_ptr(), 0) };
    }

    /// Takes over handlers in progress from the thread this one is a copy of.
    pub fn inherit(&mut self, from: &GuestThread) {
        self.frames = from.frames.clone();
        self.alt = from.alt;
    }

    /// It is to stop, and no signal of the guest waits.
    pub fn only_stops(&self) -> bool {
        self.stop && self.pending.is_none()
    }

    /// It is being brought to a safe point.
    fn is_awaited(&self) -> bool {
        self.pending.is_some() || self.stop
    }

    /// Frees what the thread had mapped.
    pub fn release(self: Box<Self>) {
        // SAFETY: the thread is gone.
        let _ = unsafe { mem::unmap(self.own_stack, ALT_STACK) };
    }
}

/// The agent's data of a thread.
pub fn thread(state: &ThreadState) -> &'static mut GuestThread {
    // SAFETY: set when the state was made; only the thread itself uses it.
    unsafe { &mut *(state.agent as *mut GuestThread) }
}

static ACTIONS: Lock<[Action; 65]> = Lock::new([Action { handler: 0, flags: 0, restorer: 0, mask: 0 }; 65]);

/// Default actions that end the process.
fn ends_process(signal: i32) -> bool {
    // CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH do not.
    !matches!(signal, 17..=23 | 28)
}

fn set_kernel_action(signal: i32, handler: u64, flags: u64, mask: u64) -> Result<(), Errno> {
    let action = Action { handler, flags: flags | SA_RESTORER, restorer: restorer as *const () as u64, mask };
    // SAFETY: our own handlers, or the kernel's defaults.
    unsafe { syscall!(abi::__NR_rt_sigaction, signal, &raw const action, 0, 8) }.map(drop)
}

/// Makes the kernel call us for `signal` as far as the guest's action needs it.
fn apply(signal: i32, action: &Action) -> Result<(), Errno> {
    let synchronous = SYNCHRONOUS & bit(signal) != 0;
    let ours = match action.handler {
        SIG_IGN => OURS_ALWAYS & bit(signal) != 0,
        SIG_DFL => synchronous || ends_process(signal),
        _ => true,
    };
    if ours {
        let passed = action.flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT);
        let handler = entry as *const () as u64;
        set_kernel_action(signal, handler, SA_SIGINFO | SA_ONSTACK | passed, !0)
    } else {
        set_kernel_action(signal, action.handler, action.flags & (SA_NOCLDSTOP | SA_NOCLDWAIT), 0)
    }
}

/// Reads the actions the process started with and takes over.
pub fn start() {
    let mut actions = ACTIONS.lock();
    for signal in 1..=64 {
        if signal == SIGKILL || signal == SIGSTOP {
            continue;
        }
        let mut old = Action::default();
        // SAFETY: only asks.
        let _ = unsafe { syscall!(abi::__NR_rt_sigaction, signal, 0, &raw mut old, 8) };
        actions[signal as usize] = old;
        let _ = apply(signal, &old);
    }
}

/// `rt_sigaction`.
pub fn sigaction(a: [u64; 6]) -> u64 {
    let (signal, new, old, size) = (a[0] as i32, a[1], a[2], a[3]);
    let error = |e: i32| -(e as i64) as u64;
    if size != 8 || !(1..=64).contains(&signal) {
        return error(22);
    }
    let mut action = [0u8; 32];
    if new != 0 {
        if signal == SIGKILL || signal == SIGSTOP {
            return error(22);
        }
        if read_guest(tallygraph_engine::own_pid(), new, &mut action) != 32 {
            return error(14);
        }
    }
    let mut actions = ACTIONS.lock();
    let before = actions[signal as usize];
    if new != 0 {
        // SAFETY: plain data of the same size.
        let action: Action = unsafe { core::mem::transmute(action) };
        let action = Action { mask: action.mask & !(bit(SIGKILL) | bit(SIGSTOP)), ..action };
        if let Err(e) = apply(signal, &action) {
            return error(e.0);
        }
        actions[signal as usize] = action;
    }
    drop(actions);
    if old != 0 {
        // SAFETY: plain data of the same size.
        let bytes: [u8; 32] = unsafe { core::mem::transmute(before) };
        if !write_guest(old, &bytes) {
            return error(14);
        }
    }
    0
}

/// `sigaltstack`, kept from the kernel.
pub fn sigaltstack(state: &mut ThreadState, a: [u64; 6]) -> u64 {
    let error = |e: i32| -(e as i64) as u64;
    let t = thread(state);
    let sp = state.regs.gpr[reg::RSP];
    let (alt_sp, alt_flags, alt_size) = t.alt;
    let on_stack = alt_size != 0 && sp > alt_sp && sp - alt_sp <= alt_size;
    let mut new = [0u8; 24];
    if a[0] != 0 && read_guest(tallygraph_engine::own_pid(), a[0], &mut new) != 24 {
        return error(14);
    }
    if a[1] != 0 {
        let flags = if alt_size == 0 { 2 } else { (on_stack as u32) | alt_flags & 0x8000_0000 };
        let mut old = [0u8; 24];
        old[..8].copy_from_slice(&alt_sp.to_le_bytes());
        old[8..12].copy_from_slice(&flags.to_le_bytes());
        old[16..].copy_from_slice(&alt_size.to_le_bytes());
        if !write_guest(a[1], &old) {
            return error(14);
        }
    }
    if a[0] != 0 {
        if on_stack {
            return error(1);
        }
        let word = |at: usize| u64::from_le_bytes(new[at..at + 8].try_into().expect("eight bytes"));
        let (sp, flags, size) = (word(0), word(8) as u32, word(16));
        match flags & !0x8000_0000 {
            2 => t.alt = (0, flags, 0),
            0 | 1 => {
                if size < 2048 {
                    return error(12);
                }
                t.alt = (sp, flags & 0x8000_0000, size);
            }
            _ => return error(22),
        }
        state.alternate_stack = (t.alt.0, t.alt.0 + t.alt.2);
    }
    0
}

/// Where our handlers return to.
#[unsafe(naked)]
unsafe extern "C" fn restorer() {
    core::arch::naked_asm!("mov eax, 15", "syscall", "ud2")
}

/// Where the kernel enters us: the interrupted code's alignment check is none of ours.
#[unsafe(naked)]
unsafe extern "C" fn entry() {
    core::arch::naked_asm!("pushfq", "btr qword ptr [rsp], 18", "popfq", "jmp {handler}", handler = sym handler)
}

/// Our handler for every signal.
unsafe extern "C" fn handler(signal: i32, info: *mut [u8; INFO_SIZE], uc: *mut UContext) {
    // SAFETY: gs holds the running thread's block whenever a signal can arrive: they are blocked
    // until it does.
    let state = unsafe {
        let this: *mut ThreadState;
        core::arch::asm!("mov {}, gs:[0]", out(reg) this, options(nostack, readonly));
        &mut *this
    };
    // SAFETY: the kernel's frame on our alternate stack.
    let (info, uc) = unsafe { (&*info, &mut *uc) };
    let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
    if signal == SIGTRAP && code == TRAP_TRACE {
        return stepped(state, uc);
    }
    // Codes above zero come from the kernel: of these signals, from an instruction.
    if SYNCHRONOUS & bit(signal) != 0 && code > 0 {
        return fault(state, signal, info, uc);
    }
    arrive(state, signal, info, uc);
}

/// A signal from outside.
fn arrive(state: &mut ThreadState, signal: i32, info: &[u8; INFO_SIZE], uc: &mut UContext) {
    let t = thread(state);
    if world::is_stop(signal, info) {
        if !world::is_stopping() {
            return;
        }
        t.stop = true;
    } else {
        t.pending = Some((signal, *info));
    }
    t.saved_mask = uc.mask;
    state.signal_pending = 1;
    let pc = uc.rip;
    if let Some(instead) = switch::before_syscall(pc) {
        uc.rip = instead;
        uc.mask = !SYNCHRONOUS;
        return;
    }
    if in_cache(pc) {
        let rt = access();
        if rt.engine.fragment_starting(pc).is_some() {
            return deliver(rt, state, uc);
        }
        drop(rt);
        uc.eflags |= TRAP_FLAG;
    } else if switch::is_resuming(pc) || events::is_simulating(state, pc) {
        uc.eflags |= TRAP_FLAG;
    }
    uc.mask = !SYNCHRONOUS;
}

fn in_cache(pc: u64) -> bool {
    use tallygraph_engine::layout::{CACHE_SIZE, CACHE_START};
    (CACHE_START..CACHE_START + CACHE_SIZE).contains(&pc)
}

/// One instruction was executed with the trap flag set.
fn stepped(state: &mut ThreadState, uc: &mut UContext) {
    if !thread(state).is_awaited() {
        // The flag travelled through the guest's own pushf and popf.
        uc.eflags &= !TRAP_FLAG;
        return;
    }
    let pc = uc.rip;
    if in_cache(pc) {
        let rt = access();
        if rt.engine.fragment_starting(pc).is_some() {
            deliver(rt, state, uc);
        }
    } else if !switch::is_resuming(pc) && !events::is_simulating(state, pc) {
        // Back in the engine: it sets the flag again when it resumes the guest.
        uc.eflags &= !TRAP_FLAG;
    }
}

/// Delivers the pending signal at a fragment entry.
fn deliver(mut rt: Access, state: &mut ThreadState, uc: &mut UContext) {
    let t = thread(state);
    state.signal_pending = 0;
    uc.eflags &= !TRAP_FLAG;
    uc.mask = t.saved_mask;
    if core::mem::take(&mut t.stop) {
        rt = stand_still(rt, state, uc);
    }
    let Some((signal, info)) = t.pending.take() else { return };
    let Some(f) = rt.engine.fragment_starting(uc.rip) else { return };
    let (pc, context) = (f.pc, f.context);
    enter_handler(&mut rt, state, signal, &info, uc, pc, context);
}

/// Waits at a fragment entry while the code cache is emptied.
fn stand_still(rt: Access, state: &mut ThreadState, uc: &mut UContext) -> Access {
    let Some(f) = rt.engine.fragment_starting(uc.rip) else { return rt };
    let (pc, context) = (f.pc, f.context);
    state.parked = 1;
    drop(rt);
    let mut rt = loop {
        while world::is_stopping() {
            world::pause();
        }
        let rt = access();
        if !world::is_stopping() {
            break rt;
        }
    };
    state.parked = 0;
    uc.rip = match rt.engine.resume_at(pc, context) {
        Next::Resume(code) => code,
        _ => pc,
    };
    rt
}

/// An instruction raised a signal.
fn fault(state: &mut ThreadState, signal: i32, info: &[u8; INFO_SIZE], uc: &mut UContext) {
    let mut rt = access();
    let t = thread(state);
    uc.eflags &= !TRAP_FLAG;
    let waiting = t.is_awaited();
    if waiting {
        uc.mask = t.saved_mask;
    }
    // A trap is reported after its instruction.
    let behind = signal == SIGTRAP;
    let pc = uc.rip;
    let (guest_pc, context) = match rt.engine.locate(if behind { pc - 1 } else { pc }) {
        Some((fragment, nth, entry)) => {
            if entry.spilled != 0xff {
                uc.set(entry.spilled as usize, state.regs.gpr[entry.spilled as usize]);
            }
            if entry.events.has_flags_kept() {
                uc.eflags = events::kept_flags(state, uc.eflags);
            }
            let executed = if behind { nth + 1 } else { nth };
            rt.engine.count_partial(state, fragment, executed, pc);
            let at = if behind { entry.pc + entry.len as u64 } else { entry.pc };
            (at, rt.engine.fragment_context(fragment))
        }
        None if in_cache(pc) || in_agent(pc) => internal(signal, pc, uc),
        // Executed at its own address: there was no code to copy.
        None => (pc, CtxId::NONE),
    };
    let mut info = *info;
    fix_address(signal, &mut info, pc, guest_pc);
    enter_handler(&mut rt, state, signal, &info, uc, guest_pc, context);
    if waiting {
        // The other signal is next, at the handler's first instruction.
        t.saved_mask = uc.mask;
        uc.mask = !SYNCHRONOUS;
        uc.eflags |= TRAP_FLAG;
    }
}

/// `si_addr` of SIGILL, SIGFPE and SIGTRAP is the instruction's address.
fn fix_address(signal: i32, info: &mut [u8; INFO_SIZE], pc: u64, guest_pc: u64) {
    let addr = u64::from_le_bytes(info[16..24].try_into().expect("eight bytes"));
    if addr == pc && matches!(signal, SIGILL | SIGFPE | SIGTRAP | SIGSEGV) {
        info[16..24].copy_from_slice(&guest_pc.to_le_bytes());
    }
}

fn in_agent(pc: u64) -> bool {
    (0x7000_0000..0x7fff_0000).contains(&pc)
}

fn internal(signal: i32, pc: u64, uc: &UContext) -> ! {
    log!("tallygraph: internal error: signal {signal} at {pc:#x} (address {:#x})", uc.cr2);
    log!("tallygraph: please report this with the program and its arguments");
    process::exit_raw(1)
}

/// Goes on in the guest's handler, or does what the default action is.
fn enter_handler(
    rt: &mut Access,
    state: &mut ThreadState,
    signal: i32,
    info: &[u8; INFO_SIZE],
    uc: &mut UContext,
    pc: u64,
    context: CtxId,
) {
    let action = {
        let mut actions = ACTIONS.lock();
        let action = actions[signal as usize];
        if action.handler > SIG_IGN && action.flags & SA_RESETHAND != 0 {
            actions[signal as usize].handler = SIG_DFL;
            let _ = apply(signal, &actions[signal as usize]);
        }
        action
    };
    let synchronous =
        SYNCHRONOUS & bit(signal) != 0 && i32::from_le_bytes(info[8..12].try_into().expect("four bytes")) > 0;
    match action.handler {
        SIG_IGN if !synchronous => return,
        SIG_DFL if !ends_process(signal) => return,
        SIG_DFL | SIG_IGN => fatal(rt, state, signal, info),
        _ => {}
    }
    if synchronous && uc.mask & bit(signal) != 0 {
        // Blocked or already in its handler: the kernel kills.
        fatal(rt, state, signal, info);
    }
    let Some(at) = build_frame(state, &action, info, uc, pc) else {
        fatal(rt, state, SIGSEGV, info);
    };
    let t = thread(state);
    let depth = rt.engine.depth(state);
    t.frames.retain(|f| f.depth <= depth);
    t.frames.push(Frame { at, depth, context });
    rt.engine.push_marker(state, uc.regs[UC_RSP], context);
    let code = match enter_function(rt, action.handler) {
        Ok(code) => code,
        Err(_) => action.handler,
    };
    uc.mask |= action.mask;
    if action.flags & SA_NODEFER == 0 {
        uc.mask |= bit(signal);
    }
    uc.set(reg::RDI, signal as u64);
    uc.set(reg::RSI, at + 8 + UCONTEXT_SIZE as u64);
    uc.set(reg::RDX, at + 8);
    uc.set(reg::RAX, 0);
    uc.set(reg::RSP, at);
    uc.rip = code;
    // Direction, resume and trap flags are cleared.
    uc.eflags &= !(0x400 | 0x1_0000 | TRAP_FLAG);
}

/// Code for a function that is entered without a caller.
fn enter_function(rt: &mut Access, pc: u64) -> Result<u64, ()> {
    let context = root_context(rt, pc);
    match rt.engine.resume_at(pc, context) {
        Next::Resume(code) => Ok(code),
        _ => Err(()),
    }
}

/// The context of a function without callers.
pub fn root_context(rt: &mut Access, pc: u64) -> CtxId {
    rt.engine.root_at(pc)
}

/// Writes the frame on the guest's stack; gives its address.
fn build_frame(
    state: &mut ThreadState,
    action: &Action,
    info: &[u8; INFO_SIZE],
    uc: &UContext,
    pc: u64,
) -> Option<u64> {
    let t = thread(state);
    let rsp = uc.regs[UC_RSP];
    let (alt_sp, alt_flags, alt_size) = t.alt;
    let on_stack = alt_size != 0 && rsp > alt_sp && rsp - alt_sp <= alt_size;
    let mut sp = if action.flags & SA_ONSTACK != 0 && alt_size != 0 && !on_stack {
        alt_sp + alt_size
    } else {
        rsp - 128
    };
    let mut frame_uc = *uc;
    if uc.fpstate != 0 {
        let size = fpstate_size(uc.fpstate);
        sp = (sp - size as u64) & !63;
        // SAFETY: the kernel wrote that many bytes into its frame on our stack.
        let bytes = unsafe { core::slice::from_raw_parts(uc.fpstate as *const u8, size) };
        if !write_guest(sp, bytes) {
            return None;
        }
        frame_uc.fpstate = sp;
    }
    const FRAME: u64 = 8 + UCONTEXT_SIZE as u64 + INFO_SIZE as u64;
    let at = ((sp - FRAME) & !15) - 8;
    frame_uc.rip = pc;
    frame_uc.link = 0;
    frame_uc.stack_sp = alt_sp;
    frame_uc.stack_size = alt_size;
    frame_uc.stack_flags = if alt_size == 0 { 2 } else { on_stack as u64 | (alt_flags & 0x8000_0000) as u64 };
    frame_uc.eflags &= !TRAP_FLAG;
    if alt_flags & 0x8000_0000 != 0 && action.flags & SA_ONSTACK != 0 {
        // SS_AUTODISARM.
        t.alt = (0, 2, 0);
        state.alternate_stack = (0, 0);
    }
    let mut frame = [0u8; FRAME as usize];
    frame[..8].copy_from_slice(&action.restorer.to_le_bytes());
    // SAFETY: plain data.
    let words: [u8; UCONTEXT_SIZE] = unsafe { core::mem::transmute(frame_uc) };
    frame[8..8 + UCONTEXT_SIZE].copy_from_slice(&words);
    frame[8 + UCONTEXT_SIZE..].copy_from_slice(info);
    let _ = SA_SIGINFO;
    write_guest(at, &frame).then_some(at)
}

/// Size of the floating-point state at `at`, extended part included.
fn fpstate_size(at: u64) -> usize {
    // SAFETY: the kernel's frame: 512 bytes of legacy state whose reserved part at 464 holds a
    // magic number and the size when there is more.
    unsafe {
        let magic = ((at + 464) as *const u32).read();
        if magic == 0x4650_5853 { ((at + 468) as *const u32).read() as usize } else { 512 }
    }
}

const NAMES: [&str; 32] = [
    "",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The default action of a signal that ends the process: the profile is written, then the signal
/// does what it does natively.
fn fatal(rt: &mut Access, state: &mut ThreadState, signal: i32, info: &[u8; INFO_SIZE]) -> ! {
    let quiet = rt.config.is(tallygraph_wire::config::Number::Quiet);
    let addr = u64::from_le_bytes(info[16..24].try_into().expect("eight bytes"));
    if !quiet {
        log!("");
        match NAMES.get(signal as usize) {
            Some(name) => log!("Process terminating with default action of signal {signal} ({name})"),
            None => log!("Process terminating with default action of signal {signal}"),
        }
        if matches!(signal, SIGSEGV | SIGBUS) {
            log!(" Access at address {addr:#X}");
        }
    }
    if !thread(state).vfork_child {
        writer::final_dump_locked(rt, state);
    }
    let _ = set_kernel_action(signal, SIG_DFL, 0, 0);
    let mask = !bit(signal);
    // SAFETY: ends the process.
    unsafe {
        let pid = syscall!(abi::__NR_getpid).unwrap_or(0);
        let tid = syscall!(abi::__NR_gettid).unwrap_or(0);
        let _ = syscall!(abi::__NR_tgkill, pid, tid, signal);
        let _ = syscall!(abi::__NR_rt_sigprocmask, 2, &raw const mask, 0, 8);
    }
    process::exit_raw(128 + signal)
}

/// `rt_sigreturn`: leaves a handler.
pub fn sigreturn(state: &mut ThreadState) -> ! {
    let uc_at = state.regs.gpr[reg::RSP];
    let mut bytes = [0u8; UCONTEXT_SIZE];
    let readable = read_guest(tallygraph_engine::own_pid(), uc_at, &mut bytes) == UCONTEXT_SIZE;
    let mut rt = access();
    if !readable {
        fatal(&mut rt, state, SIGSEGV, &[0; INFO_SIZE]);
    }
    // SAFETY: plain data of the same size.
    let mut uc: UContext = unsafe { core::mem::transmute(bytes) };
    let t = thread(state);
    let known = t.frames.iter().rposition(|f| f.at + 8 == uc_at);
    let context = match known {
        Some(i) => {
            let frame = t.frames[i];
            t.frames.truncate(i);
            let context = rt.engine.interrupted_context(state, frame.depth, frame.context);
            rt.engine.pop_to(state, frame.depth);
            triggers::run_left(&mut rt, state);
            context
        }
        None => root_context(&mut rt, uc.rip),
    };
    t.alt = match uc.stack_flags as u32 & 2 {
        2 => (0, 2, 0),
        _ => (uc.stack_sp, uc.stack_flags as u32 & 0x8000_0000, uc.stack_size),
    };
    state.alternate_stack = (t.alt.0, t.alt.0 + t.alt.2);
    let context = if context.is_none() { root_context(&mut rt, uc.rip) } else { context };
    uc.rip = match rt.engine.resume_at(uc.rip, context) {
        Next::Resume(code) => code,
        _ => uc.rip,
    };
    drop(rt);
    // The kernel restores our own alternate stack from the frame.
    (uc.stack_sp, uc.stack_flags, uc.stack_size) = (t.own_stack, 0, ALT_STACK);
    if t.is_awaited() {
        t.saved_mask = uc.mask;
        uc.mask = !SYNCHRONOUS;
        uc.eflags |= TRAP_FLAG;
    }
    // SAFETY: the frame is what the kernel expects at rsp; everything else is restored from it.
    unsafe {
        core::arch::asm!("mov rsp, {uc}", "mov eax, 15", "syscall", "ud2", uc = in(reg) &raw const uc, options(noreturn))
    }
}

/// The guest is about to be resumed: when a signal waits, the next fragment entry is its safe point.
pub fn before_resume(state: &mut ThreadState) {
    if state.signal_pending != 0 {
        state.regs.rflags |= TRAP_FLAG;
    }
}

/// Blocks every signal on this thread; gives the mask that was in force.
pub fn block_all() -> u64 {
    let (all, mut old) = (!0u64, 0u64);
    // SAFETY: changes the own mask.
    let _ = unsafe { syscall!(abi::__NR_rt_sigprocmask, 2, &raw const all, &raw mut old, 8) };
    old
}

/// Sets this thread's mask.
pub fn set_mask(mask: u64) {
    // SAFETY: changes the own mask.
    let _ = unsafe { syscall!(abi::__NR_rt_sigprocmask, 2, &raw const mask, 0, 8) };
}

/// Puts the kernel's actions back to what a program executed now must see: handlers of ours for
/// signals whose action is the default or ignoring are replaced by these. (Handlers become
/// defaults at the execution itself.)
pub fn before_exec() {
    let actions = ACTIONS.lock();
    for signal in 1..=64 {
        if actions[signal as usize].handler == SIG_IGN && OURS_ALWAYS & bit(signal) != 0 {
            let _ = set_kernel_action(signal, SIG_IGN, 0, 0);
        }
    }
}

/// Takes over again after an execution that failed.
pub fn after_failed_exec() {
    let actions = ACTIONS.lock();
    for signal in 1..=64 {
        if actions[signal as usize].handler == SIG_IGN && OURS_ALWAYS & bit(signal) != 0 {
            let _ = apply(signal, &actions[signal as usize]);
        }
    }
}

/// Frees the table's lock in a forked child.
///
/// # Safety
///
/// Called by the only thread of the child.
pub unsafe fn reset_lock() {
    // SAFETY: by this function's contract; the table is consistent, the forking thread held it not.
    unsafe { ACTIONS.reset() }
}
