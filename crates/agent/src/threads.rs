//! Threads and processes the guest makes: thread blocks, clone, fork, vfork, exit.
//!
//! Every thread has a block behind `gs` with its own counters, a shadow stack, a stack for the
//! engine and one for signal handlers. A new thread starts in the engine, on its own engine stack,
//! with all signals blocked, and enters the code cache from there.
//!
//! - A *thread* (`CLONE_VM`) gets an arena of the spool. When it ends, block and arena go to a pool:
//!   the next thread counts on in the same arena, since only sums matter.
//! - A *vfork child* (`CLONE_VM | CLONE_VFORK` without `CLONE_THREAD`) shares the memory but is a
//!   process of its own until it executes a program; what it counts goes nowhere.
//! - A *forked child* gets a spool of its own, with the parent's records and zeroed counters.

use crate::runtime::{Access, Runtime, access, follow, on_exit};
use crate::signals::{self, GuestThread, thread};
use crate::simulation::{self, SHADOW_STACK};
use crate::spool::Spool;
use crate::{ALLOCATOR, process, syscalls, world, writer};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use tallygraph_callgraph::{CtxId, Entry};
use tallygraph_engine::layout::COUNTERS_OFFSET;
use tallygraph_engine::switch;
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_sys::mem::{self, RW};
use tallygraph_sys::{Errno, abi, raw, syscall};
use tallygraph_wire::spool::{BASELINE_OFFSET, Record};

/// Bytes of the engine's stack of a thread.
const ENGINE_STACK: u64 = 1 << 20;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;

/// Where a new thread's counts go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counters {
    /// An arena of the spool.
    Arena,
    /// Nowhere.
    Private,
}

/// Makes the block of the first thread.
pub fn create_first(rt: &mut Runtime) -> Result<*mut ThreadState, Errno> {
    create(rt, Counters::Arena)
}

/// The ended thread with the lowest number: a new one takes its place, as in Valgrind.
fn lowest_ended(rt: &Runtime) -> Option<usize> {
    let ended = rt.ended.iter().enumerate().filter(|(_, s)| has_ended(**s));
    // SAFETY: blocks are never unmapped.
    ended.min_by_key(|(_, s)| unsafe { (***s).slot }).map(|(i, _)| i)
}

fn create(rt: &mut Runtime, counters: Counters) -> Result<*mut ThreadState, Errno> {
    if counters == Counters::Arena
        && let Some(i) = lowest_ended(rt)
    {
        let state = rt.ended.swap_remove(i);
        reset(state, rt);
        rt.threads.push(state);
        return Ok(state);
    }
    let block = mem::map_anywhere(block_size(), RW)?;
    let stack = mem::map_anywhere(ENGINE_STACK, RW)?;
    let beside = simulation::beside_shadow();
    let shadow = mem::map_anywhere(SHADOW_STACK + 2 * beside, RW)? + beside;
    // SAFETY: the block was just mapped, zeroed, and is large and aligned enough.
    let state = unsafe { &mut *(block as *mut ThreadState) };
    if counters == Counters::Arena {
        let spool = &mut rt.engine.tool.spool;
        let slot = spool.arena()?;
        spool.map_arena(slot, block)?;
        spool.append(&Record::Thread { slot, number: slot + 1, tid: 0 });
        state.slot = slot;
    }
    state.this = block;
    state.on_exit = on_exit as *const () as u64;
    state.engine_sp = stack + ENGINE_STACK - 64;
    state.shadow_base = shadow;
    state.shadow_end = shadow + SHADOW_STACK;
    state.agent = Box::into_raw(GuestThread::new()?) as u64;
    simulation::equip(state)?;
    reset(state, rt);
    if counters == Counters::Arena {
        rt.threads.push(state);
    }
    Ok(state)
}

/// Bytes of a thread block.
fn block_size() -> u64 {
    COUNTERS_OFFSET as u64 + BASELINE_OFFSET + simulation::behind_counters()
}

/// Makes a block ready for a thread that starts.
fn reset(state: *mut ThreadState, rt: &Runtime) {
    // SAFETY: the block belongs to no running thread.
    let state = unsafe { &mut *state };
    world::reset(state);
    state.reserved = 0;
    state.signal_pending = 0;
    state.ret_pop = 0;
    state.pause_count = -(rt.engine.options.pause_every as i64);
    state.alternate_stack = (0, 0);
    state.shadow_top = state.shadow_base;
    // SAFETY: the shadow stack is mapped.
    let bottom = unsafe { &mut *(state.shadow_base as *mut Entry) };
    *bottom = Entry { sp: u64::MAX, total: 0, continuation: switch::bottom(false) };
    simulation::reset(state);
    let t = thread(state);
    t.alt = (0, 2, 0);
    t.vfork_child = false;
}

fn has_ended(state: *mut ThreadState) -> bool {
    // SAFETY: blocks are never unmapped.
    let flag = unsafe { &*(&raw const (*state).reserved as *const AtomicU32) };
    flag.load(Ordering::Acquire) != 0
}

/// Makes `state` the current thread's block and enters the code cache.
pub fn enter(state: &mut ThreadState, at: u64) -> ! {
    set_gs(state);
    signals::before_resume(state);
    // SAFETY: `resume` loads everything from the block behind gs and jumps to `rax`.
    unsafe { core::arch::asm!("jmp {resume}", resume = sym switch::resume, in("rax") at, options(noreturn)) }
}

/// Points `gs` to the thread's block.
pub fn set_gs(state: &ThreadState) {
    const ARCH_SET_GS: u64 = 0x1001;
    // SAFETY: gs is the engine's.
    let _ = unsafe { syscall!(abi::__NR_arch_prctl, ARCH_SET_GS, state.this) };
}

/// Arguments of clone in one form.
struct Clone {
    number: u64,
    args: [u64; 6],
    flags: u64,
    /// Stack pointer of the child, 0 for the parent's.
    sp: u64,
}

/// `clone`, `clone3`, `fork`, `vfork`. `next` is the guest address after the instruction.
pub fn clone(state: &mut ThreadState, number: u64, a: [u64; 6], next: u64, context: CtxId) -> u64 {
    let mut clone3 = [0u64; 11];
    let request = match number as u32 {
        abi::__NR_fork => {
            Clone { number: abi::__NR_clone as u64, args: [17, 0, 0, 0, 0, 0], flags: 17, sp: 0 }
        }
        abi::__NR_vfork => {
            let flags = CLONE_VM | CLONE_VFORK | 17;
            Clone { number: abi::__NR_clone as u64, args: [flags, 0, 0, 0, 0, 0], flags, sp: 0 }
        }
        abi::__NR_clone => Clone { number, args: a, flags: a[0], sp: a[1] },
        _ => {
            let size = (a[1] as usize).min(88);
            // SAFETY: plain data of that many bytes.
            let bytes = unsafe { core::slice::from_raw_parts_mut(clone3.as_mut_ptr().cast::<u8>(), size) };
            if mem::read_guest(tallygraph_engine::own_pid(), a[0], bytes) != size || a[1] > 88 {
                return syscalls::pass(number, a);
            }
            let sp = if clone3[5] != 0 { clone3[5] + clone3[6] } else { 0 };
            Clone { number, args: [clone3.as_ptr() as u64, a[1], 0, 0, 0, 0], flags: clone3[0], sp }
        }
    };
    let shares = request.flags & CLONE_VM != 0;
    if !shares {
        return fork(state, &request, &mut clone3);
    }
    let own_process = request.flags & CLONE_THREAD == 0;
    let mut rt = access();
    // Threads can't be moved between code that counts and code that does not while they run.
    if request.flags & CLONE_VFORK == 0 {
        rt.engine.turn_on(state, next);
    }
    let context = rt.engine.context_now(state, context);
    let counters = if own_process { Counters::Private } else { Counters::Arena };
    let child = match create(&mut rt, counters) {
        Ok(child) => child,
        Err(e) => return -(e.0 as i64) as u64,
    };
    // SAFETY: the child does not run yet.
    let c = unsafe { &mut *child };
    prepare_child(state, c, request.sp, next);
    if own_process {
        thread(c).vfork_child = true;
        thread(c).inherit(thread(state));
        c.alternate_stack = state.alternate_stack;
        copy_shadow(state, c);
    }
    rt.engine.single_thread = false;
    if !own_process || request.flags & CLONE_VFORK == 0 {
        simulation::share(&rt.threads);
    }
    // A thread of its own stack starts a call graph of its own.
    c.resume = if request.sp == 0 { context.0 as u64 } else { 0 };
    drop(rt);
    let mask = signals::block_all();
    c.rep_count = mask;
    let mut args = request.args;
    let stack = c.engine_sp;
    if request.number == abi::__NR_clone3 as u64 {
        clone3[5] = stack - 4096;
        clone3[6] = 4096;
        args[0] = clone3.as_ptr() as u64;
    } else {
        args[1] = stack;
    }
    // SAFETY: the child runs `child_start` on its own stack with the state it is given.
    let mut make = || unsafe { clone_raw(request.number, &args, c) };
    let result = if own_process { world::with_lodger(state, make) } else { make() };
    signals::set_mask(mask);
    if own_process && (request.flags & CLONE_VFORK != 0 || result > -4096i64 as u64) {
        // The child has executed a program or ended, or was not made.
        release(child);
        let mut rt = access();
        rt.engine.single_thread = rt.threads.len() == 1;
    } else if result > -4096i64 as u64 {
        let mut rt = access();
        rt.threads.retain(|&s| s != child);
        c.reserved = 1;
        rt.ended.push(child);
    }
    result
}

/// Frees a vfork child's block.
fn release(child: *mut ThreadState) {
    // SAFETY: the child is gone.
    unsafe {
        let c = &mut *child;
        Box::from_raw(c.agent as *mut GuestThread).release();
        let stack = c.engine_sp + 64 - ENGINE_STACK;
        let shadow = c.shadow_base;
        let _ = mem::unmap(stack, ENGINE_STACK);
        let beside = simulation::beside_shadow();
        simulation::release(c);
        let _ = mem::unmap(shadow - beside, SHADOW_STACK + 2 * beside);
        let _ = mem::unmap(child as u64, block_size());
    }
}

fn prepare_child(parent: &ThreadState, child: &mut ThreadState, sp: u64, next: u64) {
    child.regs = parent.regs;
    child.guest_gs = parent.guest_gs;
    child.xmm = parent.xmm;
    child.regs.gpr[reg::RAX] = 0;
    child.regs.gpr[reg::RCX] = next;
    child.regs.gpr[reg::R11] = parent.regs.rflags;
    if sp != 0 {
        child.regs.gpr[reg::RSP] = sp;
    }
    child.regs.rip = next;
}

fn copy_shadow(from: &ThreadState, to: &mut ThreadState) {
    let bytes = from.shadow_top - from.shadow_base + size_of::<Entry>() as u64;
    // SAFETY: both stacks are mapped and of one size.
    unsafe {
        core::ptr::copy_nonoverlapping(
            from.shadow_base as *const u8,
            to.shadow_base as *mut u8,
            bytes as usize,
        );
    }
    to.shadow_top = to.shadow_base + (from.shadow_top - from.shadow_base);
    simulation::start_anew(to);
}

/// Makes the system call; the child goes to [`child_start`].
unsafe fn clone_raw(number: u64, a: &[u64; 6], child: &mut ThreadState) -> u64 {
    let result;
    // SAFETY: by the caller's contract; in the child nothing of this frame is used.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call {start}",
            "ud2",
            "2:",
            start = sym child_start,
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            in("r12") child as *mut ThreadState,
            out("rcx") _, out("r11") _,
        );
    }
    result
}

/// First code of a new thread, on its engine stack, all signals blocked.
unsafe extern "C" fn child_start(state: *mut ThreadState) -> ! {
    // SAFETY: the thread's own block.
    let state = unsafe { &mut *state };
    set_gs(state);
    thread(state).install_stack();
    // SAFETY: gettid has no effect.
    state.tid = unsafe { syscall!(abi::__NR_gettid) }.unwrap_or(0) as u32;
    let (context, mask) = (CtxId(state.resume as u32), state.rep_count);
    let pc = state.regs.rip;
    let next = {
        let mut rt = access();
        let context = if context.is_none() {
            rt.engine.set_root(state, pc);
            signals::root_context(&mut rt, pc)
        } else {
            context
        };
        rt.engine.resume_at(pc, context)
    };
    let at = follow(state, next);
    signals::set_mask(mask);
    enter(state, at)
}

/// A child with memory of its own.
fn fork(state: &mut ThreadState, request: &Clone, clone3: &mut [u64; 11]) -> u64 {
    let mask = signals::block_all();
    let mut rt = access();
    let mut args = request.args;
    if request.number == abi::__NR_clone3 as u64 {
        // The child goes on on a copy of this very stack.
        clone3[5] = 0;
        clone3[6] = 0;
        args[0] = clone3.as_ptr() as u64;
    } else {
        args[1] = 0;
    }
    // The allocator is quiet: this thread holds its lock.
    // SAFETY: a child without shared memory goes on here, as the parent does.
    let result = ALLOCATOR.quiesced(|| unsafe {
        raw::syscall6(request.number, args[0], args[1], args[2], args[3], args[4], args[5])
    });
    if result != 0 {
        drop(rt);
        signals::set_mask(mask);
        return result;
    }
    become_child(&mut rt, state);
    drop(rt);
    if request.sp != 0 {
        state.regs.gpr[reg::RSP] = request.sp;
    }
    signals::set_mask(mask);
    0
}

/// The forked child's process gets a spool of its own and forgets the parent's other threads.
fn become_child(rt: &mut Access, state: &mut ThreadState) {
    // SAFETY: no effects.
    let (pid, parent) = unsafe { (syscall!(abi::__NR_getpid), syscall!(abi::__NR_getppid)) };
    let (pid, parent) = (pid.unwrap_or(0) as u32, parent.unwrap_or(0) as u32);
    tallygraph_engine::set_own_pid(pid as i32);
    state.tid = pid;
    world::start_alone(state);
    rt.engine.tool.generated.process_is(pid);
    // SAFETY: only this thread exists; the forking thread did not hold the lock.
    unsafe { signals::reset_lock() };
    rt.engine.maps.reopen();
    let this: *mut ThreadState = state;
    rt.threads.retain(|&s| s == this);
    rt.ended.clear();
    rt.child = true;
    rt.engine.single_thread = true;
    let dir = rt.config.text(tallygraph_wire::config::Text::SpoolDir).unwrap_or(b"/tmp").to_vec();
    let created = Spool::create(&dir, pid, parent).and_then(|mut spool| {
        rt.engine.tool.spool.copy_log_to(&mut spool);
        let slot = spool.arena()?;
        spool.map_arena(slot, state.this)?;
        spool.append(&Record::Thread { slot, number: 1, tid: pid });
        state.slot = slot;
        Ok(spool)
    });
    match created {
        Ok(spool) => {
            let old = core::mem::replace(&mut rt.engine.tool.spool, spool);
            old.abandon();
        }
        Err(e) => {
            crate::log!("tallygraph: no spool for the forked child ({e:?}): it is not profiled");
            rt.silent = true;
            // SAFETY: the counters become private memory, so that the parent's stay right.
            let _ = unsafe {
                let flags = abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_FIXED | abi::MAP_NORESERVE;
                mem::map(state.this + COUNTERS_OFFSET as u64, BASELINE_OFFSET, RW, flags, -1, 0)
            };
        }
    }
    // The total starts at zero, and so does what was running at the fork.
    let n = (state.shadow_top - state.shadow_base) / size_of::<Entry>() as u64 + 1;
    // SAFETY: the thread's own shadow stack.
    let entries = unsafe { core::slice::from_raw_parts_mut(state.shadow_base as *mut Entry, n as usize) };
    for entry in entries.iter_mut().filter(|e| !switch::is_bottom(e.continuation)) {
        entry.total = 0;
    }
    simulation::after_fork(state);
}

/// `exit`: ends one thread, and with the last one the process.
pub fn exit_thread(state: &mut ThreadState, status: u64) -> ! {
    if thread(state).vfork_child {
        exit_now(status);
    }
    let mut rt = access();
    let this: *mut ThreadState = state;
    rt.engine.settle(state);
    rt.engine.pop_to(state, 1);
    if rt.threads.len() <= 1 {
        writer::final_dump_locked(&mut rt, state);
        drop(rt);
        exit_now(status);
    }
    rt.threads.retain(|&s| s != this);
    rt.engine.single_thread = rt.threads.len() == 1;
    rt.ended.push(this);
    signals::block_all();
    drop(rt);
    // From the store on, the block may be given to another thread: nothing is touched any more.
    // SAFETY: ends the thread without using memory of its own.
    unsafe {
        core::arch::asm!(
            "mov dword ptr [{flag}], 1",
            "mov eax, 60",
            "syscall",
            "ud2",
            flag = in(reg) &raw mut (*this).reserved,
            in("rdi") status,
            options(noreturn)
        )
    }
}

fn exit_now(status: u64) -> ! {
    loop {
        // SAFETY: ends the thread.
        let _ = unsafe { syscall!(abi::__NR_exit, status) };
    }
}

/// `exit_group`.
pub fn exit_process(state: &mut ThreadState, status: i32) -> ! {
    if !thread(state).vfork_child {
        let mut rt = access();
        writer::final_dump_locked(&mut rt, state);
    }
    process::exit_raw(status)
}
