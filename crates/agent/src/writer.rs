//! Starts the host side to write a profile from the spool, and waits for it.

use crate::runtime::{Access, Runtime};
use crate::spool::Slots;
use crate::trace::Frame;
use crate::{collect, log, signals};
use alloc::vec::Vec;
use tallygraph_engine::thread::ThreadState;
use tallygraph_sys::{Errno, abi, syscall};
use tallygraph_wire::config::{Number, Text, Tool};
use tallygraph_wire::spool::Record;

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const WALL: u64 = 0x4000_0000;

/// Runs a program and waits for it; gives its exit status, 126 when a signal ended it.
///
/// The program is no child the guest could see. The kernel gives a process that executes a program
/// back its exit signal, so it is the child of a child: the one in between sends no signal when it ends,
/// is not among those that a plain `wait` finds, and is not reaped by itself when the guest ignores
/// SIGCHLD.
///
/// # Safety
///
/// `path`, `argv` and `envp` are NUL-terminated as for `execve`.
pub unsafe fn run_host(path: *const u8, argv: *const u64, envp: *const u64) -> Result<i32, Errno> {
    let words = [path as u64, argv as u64, envp as u64];
    let default_action = [0u64; 4];
    // A handler of ours would take the child for this thread.
    let mask = signals::block_all();
    let pid: u64;
    // SAFETY: both children share our memory and stack until they execute or end, and write below the
    // stack pointer only; each parent is suspended meanwhile (CLONE_VFORK). The table of handlers is
    // the child's own copy.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 9f",
            "mov edi, 17",
            "mov rsi, r13",
            "xor edx, edx",
            "mov r10d, 8",
            "mov eax, 13", // rt_sigaction
            "syscall",
            "mov edi, {flags}",
            "xor esi, esi",
            "xor edx, edx",
            "xor r10d, r10d",
            "xor r8d, r8d",
            "mov eax, 56", // clone
            "syscall",
            "test rax, rax",
            "js 6f",
            "jnz 3f",
            "mov rdi, [r12]",
            "mov rsi, [r12 + 8]",
            "mov rdx, [r12 + 16]",
            "mov eax, 59", // execve
            "syscall",
            "6:",
            "mov edi, 127",
            "jmp 7f",
            "3:",
            "mov r14, rax",
            "push 0",
            "4:",
            "mov rdi, r14",
            "mov rsi, rsp",
            "mov edx, {wall}",
            "xor r10d, r10d",
            "mov eax, 61", // wait4
            "syscall",
            "cmp rax, -4",
            "je 4b",
            "mov edi, [rsp]",
            "test edi, 0x7f",
            "jz 5f",
            "mov edi, 126 << 8",
            "5:",
            "shr edi, 8",
            "7:",
            "mov eax, 60", // exit
            "syscall",
            "ud2",
            "9:",
            flags = const CLONE_VM | CLONE_VFORK,
            wall = const WALL,
            inlateout("rax") abi::__NR_clone as u64 => pid,
            in("rdi") CLONE_VM | CLONE_VFORK,
            in("rsi") 0u64, in("rdx") 0u64, in("r10") 0u64, in("r8") 0u64,
            in("r12") words.as_ptr(), in("r13") default_action.as_ptr(),
            out("r14") _, out("rcx") _, out("r11") _,
        );
    }
    let result = tallygraph_sys::result(pid).and_then(wait_for);
    signals::set_mask(mask);
    result
}

/// Waits for a child; gives its exit status.
fn wait_for(pid: u64) -> Result<i32, Errno> {
    let mut status = 0i32;
    loop {
        // SAFETY: the kernel writes one integer.
        match unsafe { syscall!(abi::__NR_wait4, pid, &raw mut status, WALL, 0) } {
            Ok(_) => return Ok(status >> 8),
            Err(Errno(4)) => continue,
            Err(e) => return Err(e),
        }
    }
}

fn c_strings(words: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<u64>) {
    let strings: Vec<Vec<u8>> = words
        .iter()
        .map(|w| {
            let mut s = w.clone();
            s.push(0);
            s
        })
        .collect();
    let mut pointers: Vec<u64> = strings.iter().map(|s| s.as_ptr() as u64).collect();
    pointers.push(0);
    (strings, pointers)
}

/// Runs the writer with these words after `__write --spool=PATH`.
fn run_writer(rt: &Runtime, words: &[&[u8]]) {
    match run_command(rt, b"__write", words) {
        Ok(0) => {}
        Ok(status) => {
            log!("tallygraph: the profile could not be written (status {status}); try 'tallygraph recover'")
        }
        Err(e) => log!("tallygraph: the writer could not be started ({e:?}); try 'tallygraph recover'"),
    }
}

/// Prints the frames of a back trace to the log, with names and lines.
pub fn print_frames(rt: &Runtime, frames: &[Frame]) {
    let fd = log::log_fd();
    if fd < 0 {
        return;
    }
    let mut words = alloc::vec![alloc::format!("--log-fd={fd}").into_bytes()];
    if log::end_open_line() {
        words.push(b"--open-line".to_vec());
    }
    words.extend(frames.iter().map(|f| alloc::format!("{:x}:{}", f.pc, f.function).into_bytes()));
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    if !matches!(run_command(rt, b"__frames", &words), Ok(0)) {
        for f in frames {
            log!("   by 0x{:X}: ???", f.pc);
        }
    }
}

/// Runs a command of the host with `--spool=PATH` and these words; gives its status.
fn run_command(rt: &Runtime, command: &[u8], words: &[&[u8]]) -> Result<i32, Errno> {
    let spool = &rt.engine.tool.spool;
    let mut at = b"--spool=".to_vec();
    at.extend_from_slice(&spool.path());
    let host = rt.config.text(Text::HostPath).unwrap_or(b"").to_vec();
    let mut args = alloc::vec![b"tallygraph".to_vec(), command.to_vec(), at];
    args.extend(words.iter().map(|w| w.to_vec()));
    let (_strings, argv) = c_strings(&args);
    let envp = [0u64];
    let mut path = host;
    path.push(0);
    // SAFETY: the vectors end in 0 and outlive the call.
    unsafe { run_host(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) }
}

/// Writes the last part at the end of the guest.
pub fn final_dump_locked(rt: &mut Access, state: &mut ThreadState) {
    collect::settle_all(rt, state);
    collect::prepare_last(rt);
    rt.engine.tool.spool.finish();
    if rt.config.is(Number::Stats) {
        print_statistics(rt);
    }
    let silent = rt.silent || rt.child && rt.config.is(Number::ChildSilentAfterFork);
    if silent || rt.config.get(Number::Tool) == Tool::None as u64 {
        rt.engine.tool.spool.remove();
        return;
    }
    run_writer(rt, &[b"--final"]);
}

/// What the engine did, for `--stats=yes`.
fn print_statistics(rt: &Runtime) {
    let s = rt.engine.stats;
    log!(
        "translation: {} fragments of {} instructions, {} of them superblocks",
        s.fragments,
        s.insns,
        s.warmed
    );
    log!(
        "calls: {} thunks; indirect branches: {} stubs, {} of them for one use",
        s.thunks,
        s.stubs,
        s.passing
    );
    log!(
        "exits: {}, of these {} system calls, {} lookups, {} returns out of order",
        s.exits,
        s.syscalls,
        s.lookups,
        s.returns
    );
    let (code, stubs) = rt.engine.code_bytes();
    log!("code cache: {code} bytes of code, {stubs} of exit stubs, {} flushes", s.flushes);
}

/// Writes a part.
pub fn part(rt: &mut Access, trigger: &[u8], slots: Slots) {
    if rt.silent || rt.config.get(Number::Tool) == Tool::None as u64 {
        return;
    }
    rt.parts += 1;
    let number = alloc::format!("--part={}", rt.parts);
    let mut text = b"--trigger=".to_vec();
    text.extend_from_slice(trigger);
    match slots {
        Slots::All => run_writer(rt, &[number.as_bytes(), &text]),
        Slots::One(slot) => {
            let slot = alloc::format!("--slot={slot}");
            run_writer(rt, &[number.as_bytes(), &text, slot.as_bytes()]);
        }
    }
    let number = rt.parts;
    rt.engine.tool.spool.append(&Record::PartEnd { number });
}

/// Writes the profile of the present program before another is executed in its place.
///
/// The execution may still fail; then the program goes on and its profile is written again, whole,
/// at its end. So the spool stays, but without a name: nothing of it is left when the execution
/// succeeds.
pub fn dump_before_exec(rt: &mut Access, state: &mut ThreadState) {
    let silent = rt.silent || rt.child && rt.config.is(Number::ChildSilentAfterFork);
    if !silent && rt.config.get(Number::Tool) != Tool::None as u64 {
        rt.engine.settle(state);
        run_writer(rt, &[b"--final", b"--keep"]);
    }
    rt.engine.tool.spool.unname();
}
