//! The guest's system calls: passed through, except where they touch what the engine keeps.

use crate::loader::object_place;
use crate::runtime::access;
use crate::simulation::Clocks;
use crate::{exec, signals, threads};
use tallygraph_callgraph::CtxId;
use tallygraph_engine::layout::{BRK_ROOM, BRK_START};
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_engine::{Next, switch};
use tallygraph_sys::mem::{self, RW, page_up};
use tallygraph_sys::{abi, raw};

/// What a guest's system call came to.
enum Outcome {
    /// The value for `rax`.
    Value(u64),
    /// A signal came first: the guest makes the call again after its handler.
    NotPerformed,
}

/// Performs the system call in the guest's registers and says how the guest goes on. `next` is the
/// guest address after the instruction, `fragment` the one that ended in it.
pub fn perform(state: &mut ThreadState, next: u64, fragment: u32) -> Next {
    let g = &state.regs.gpr;
    let number = g[reg::RAX];
    let args = [g[reg::RDI], g[reg::RSI], g[reg::RDX], g[reg::R10], g[reg::R8], g[reg::R9]];
    let (context, counter, epoch) = {
        let rt = access();
        let block = rt.engine.fragment_block(fragment);
        (rt.engine.fragment_context(fragment), rt.engine.tool.system_counter(block), rt.engine.epoch())
    };
    let outcome = if state.signal_pending != 0 {
        Outcome::NotPerformed
    } else {
        let clocks = Clocks::now();
        let outcome = dispatch(state, number, args, next, context);
        if let Outcome::Value(_) = outcome {
            clocks.count_since(state, counter);
        }
        outcome
    };
    match outcome {
        Outcome::Value(result) => {
            state.regs.gpr[reg::RAX] = result;
            // The instruction leaves the next address in rcx and the flags in r11.
            state.regs.gpr[reg::RCX] = next;
            state.regs.gpr[reg::R11] = state.regs.rflags;
            let mut rt = access();
            let context = rt.engine.context_now(state, context);
            rt.engine.resume_at(next, context)
        }
        Outcome::NotPerformed => {
            let mut rt = access();
            // What the block was made of is forgotten when the cache was emptied meanwhile.
            if rt.engine.epoch() == epoch {
                rt.engine.uncount_last(state, fragment);
            }
            rt.engine.resume_at(next - 2, context)
        }
    }
}

/// Passes a call on as it is, without regard to signals.
pub fn pass(number: u64, a: [u64; 6]) -> u64 {
    // SAFETY: the guest asked for it; calls that would harm the engine are handled before.
    unsafe { raw::syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]) }
}

/// Passes on a call that may block.
fn pass_blocking(state: &mut ThreadState, number: u64, a: [u64; 6]) -> Outcome {
    let words = [number, a[0], a[1], a[2], a[3], a[4], a[5]];
    // SAFETY: as for `pass`; gs holds this thread's block.
    match crate::world::outside(state, || unsafe { switch::guest_syscall(&words) }) {
        switch::NOT_PERFORMED => Outcome::NotPerformed,
        // It was entered just before the signal that stops threads: the guest knows nothing of that.
        EINTR if signals::thread(state).only_stops() => Outcome::NotPerformed,
        result => Outcome::Value(result),
    }
}

/// The result of an interrupted call.
const EINTR: u64 = -4i64 as u64;

fn error(errno: i32) -> u64 {
    -(errno as i64) as u64
}

fn failed(result: u64) -> bool {
    result > -4096i64 as u64
}

fn dispatch(state: &mut ThreadState, number: u64, a: [u64; 6], next: u64, context: CtxId) -> Outcome {
    Outcome::Value(match number as u32 {
        abi::__NR_exit_group => threads::exit_process(state, a[0] as i32),
        abi::__NR_exit => threads::exit_thread(state, a[0]),
        abi::__NR_clone | abi::__NR_clone3 | abi::__NR_fork | abi::__NR_vfork => {
            threads::clone(state, number, a, next, context)
        }
        abi::__NR_execve => exec::execve(state, a),
        abi::__NR_execveat => exec::execveat(state, a),
        abi::__NR_rt_sigaction => signals::sigaction(a),
        abi::__NR_sigaltstack => signals::sigaltstack(state, a),
        abi::__NR_rt_sigreturn => signals::sigreturn(state),
        abi::__NR_arch_prctl => arch_prctl(state, number, a),
        abi::__NR_close => close(number, a),
        abi::__NR_close_range => close_range(number, a),
        abi::__NR_dup2 | abi::__NR_dup3 => dup_onto(number, a),
        abi::__NR_brk => brk(a[0]),
        abi::__NR_mmap => {
            let result = mmap(a);
            let executable_file = a[2] & abi::PROT_EXEC as u64 != 0 && a[3] & abi::MAP_ANONYMOUS as u64 == 0;
            if executable_file && !failed(result) {
                executable_file_mapped(a[4]);
            }
            result
        }
        abi::__NR_munmap => {
            let result = pass(number, a);
            forget(a[0], a[1]);
            result
        }
        abi::__NR_mprotect | abi::__NR_pkey_mprotect => {
            let result = pass(number, a);
            reprotected(a[0], a[1], a[2]);
            result
        }
        abi::__NR_mremap => {
            let result = pass(number, a);
            if !failed(result) {
                forget(a[0], a[1]);
                forget(result, a[2]);
            }
            result
        }
        // Critical sections would never see an abort in the code cache.
        abi::__NR_rseq => error(38),
        abi::__NR_readlink => readlink(number, a, a[0], a[1], a[2]),
        abi::__NR_readlinkat => readlink(number, a, a[1], a[2], a[3]),
        abi::__NR_open => return open(state, number, a, 0),
        abi::__NR_openat => return open(state, number, a, 1),
        _ => return pass_blocking(state, number, a),
    })
}

/// `gs` is the engine's: the guest's base is kept aside.
fn arch_prctl(state: &mut ThreadState, number: u64, a: [u64; 6]) -> u64 {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_GET_GS: u64 = 0x1004;
    match a[0] {
        ARCH_SET_GS => {
            // The kernel's limit for user addresses.
            if a[1] >= (1 << 47) - 4096 {
                return error(1);
            }
            state.guest_gs = a[1];
            0
        }
        ARCH_GET_GS => {
            let base = state.guest_gs;
            if write_guest(a[1], &base.to_le_bytes()) { 0 } else { error(14) }
        }
        _ => pass(number, a),
    }
}

/// True for a descriptor of ours.
fn is_private(fd: u64) -> bool {
    let rt = access();
    let fd = fd as i32;
    fd == rt.engine.tool.spool.file() || fd == rt.engine.maps.file() || fd > 2 && fd == crate::log::log_fd()
}

fn close(number: u64, a: [u64; 6]) -> u64 {
    if is_private(a[0] as u32 as u64) { error(9) } else { pass(number, a) }
}

/// Closes all of a range but what is ours.
fn close_range(number: u64, a: [u64; 6]) -> u64 {
    let mut ours = {
        let rt = access();
        [rt.engine.tool.spool.file(), rt.engine.maps.file(), crate::log::log_fd()].map(|fd| fd as i64)
    };
    ours.sort_unstable();
    let (mut first, last) = (a[0] as u32 as i64, a[1] as u32 as i64);
    if first > last {
        return error(22);
    }
    for fd in ours.into_iter().filter(|&fd| fd > 2) {
        if fd < first || fd > last {
            continue;
        }
        if fd > first {
            let result = pass(number, [first as u64, fd as u64 - 1, a[2], 0, 0, 0]);
            if failed(result) {
                return result;
            }
        }
        first = fd + 1;
    }
    if first > last { 0 } else { pass(number, [first as u64, last as u64, a[2], 0, 0, 0]) }
}

/// `dup2` onto a descriptor of ours: ours moves away first.
fn dup_onto(number: u64, a: [u64; 6]) -> u64 {
    if is_private(a[0] as u32 as u64) {
        return error(9);
    }
    if is_private(a[1] as u32 as u64) {
        let mut rt = access();
        let old = a[1] as i32;
        // SAFETY: duplicates a descriptor of ours; the old number is given to the guest below.
        let moved = unsafe { tallygraph_sys::syscall!(abi::__NR_fcntl, old, abi::F_DUPFD_CLOEXEC, old + 1) };
        let Ok(moved) = moved else { return error(24) };
        let moved = moved as i32;
        if old == rt.engine.tool.spool.file() {
            rt.engine.tool.spool.set_file(moved);
        } else if old == rt.engine.maps.file() {
            rt.engine.maps.set_file(moved);
        } else {
            crate::log::set_fd(moved);
        }
    }
    pass(number, a)
}

/// Opening `/proc/self/exe` opens the guest's program; `/proc/self/maps` shows the guest's mappings.
fn open(state: &mut ThreadState, number: u64, mut a: [u64; 6], path: usize) -> Outcome {
    let mut name = [0u8; 32];
    let n = mem::read_guest(tallygraph_engine::own_pid(), a[path], &mut name);
    let writes = a[path + 1] & (abi::O_WRONLY | abi::O_RDWR) as u64 != 0;
    if is_own_file(&name[..n], b"maps") && !writes {
        return Outcome::Value(guest_maps(a[path + 1] & abi::O_CLOEXEC as u64 != 0));
    }
    if !is_own_exe(&name[..n]) {
        return pass_blocking(state, number, a);
    }
    let mut target = access().config.text(tallygraph_wire::config::Text::GuestPath).unwrap_or(b"").to_vec();
    target.push(0);
    a[path] = target.as_ptr() as u64;
    Outcome::Value(pass(number, a))
}

/// The protection of a range has changed. Code that becomes executable again is compared with what
/// was translated; code that becomes writable too is translated anew, with checks.
fn reprotected(start: u64, len: u64, prot: u64) {
    let mut rt = access();
    rt.engine.maps.forget(start, page_up(len));
    let exec = prot & abi::PROT_EXEC as u64 != 0;
    let write = prot & abi::PROT_WRITE as u64 != 0;
    if exec {
        rt.engine.invalidate(start, page_up(len), !write);
    } else if prot == 0 {
        rt.engine.invalidate(start, page_up(len), false);
    }
    tallygraph_engine::tool::Tool::forget(&mut rt.engine.tool, start, page_up(len));
}

/// A range is unmapped or holds something else now.
fn forget(start: u64, len: u64) {
    let mut rt = access();
    rt.engine.maps.forget(start, page_up(len));
    rt.engine.invalidate(start, page_up(len), false);
    tallygraph_engine::tool::Tool::forget(&mut rt.engine.tool, start, page_up(len));
}

fn mmap(mut a: [u64; 6]) -> u64 {
    const MAP_DENYWRITE: u64 = 0x800;
    let flags = a[3];
    let file_backed = flags & abi::MAP_ANONYMOUS as u64 == 0;
    let free = a[0] == 0 && flags & (abi::MAP_FIXED | abi::MAP_SHARED) as u64 == 0;
    let library = file_backed && (flags & MAP_DENYWRITE != 0 || a[2] & abi::PROT_EXEC as u64 != 0);
    if free && library {
        // Libraries go where copied instructions reach them.
        while let Some(at) = object_place(a[1], mem::PAGE) {
            let mut near = a;
            near[0] = at;
            near[3] |= abi::MAP_FIXED_NOREPLACE as u64;
            let result = pass(abi::__NR_mmap as u64, near);
            if result != error(mem::abi_errno::EEXIST) {
                return result;
            }
        }
        a[0] = 0;
    }
    let result = pass(abi::__NR_mmap as u64, a);
    if !failed(result) && flags & abi::MAP_FIXED as u64 != 0 {
        forget(result, a[1]);
    }
    result
}

/// A file was mapped to be executed: just-in-time compilers so announce a file of names.
fn executable_file_mapped(descriptor: u64) {
    let link = alloc::format!("/proc/self/fd/{}\0", descriptor as i32);
    let mut target = [0u8; 4096];
    if let Ok(path) = tallygraph_sys::fd::readlink(link.as_bytes(), &mut target) {
        let pid = tallygraph_engine::own_pid() as u32;
        access().engine.tool.generated.mapped(path, pid);
    }
}

fn brk(to: u64) -> u64 {
    let mut rt = access();
    if !(BRK_START..BRK_START + BRK_ROOM).contains(&to) {
        return rt.brk;
    }
    let end = page_up(to);
    if end > rt.brk_mapped {
        if mem::map_at(rt.brk_mapped, end - rt.brk_mapped, RW).is_err() {
            return rt.brk;
        }
        rt.brk_mapped = end;
    } else if end < rt.brk_mapped {
        // SAFETY: the guest gives the range back.
        let _ = unsafe { mem::unmap(end, rt.brk_mapped - end) };
        rt.brk_mapped = end;
    }
    rt.brk = to;
    to
}

/// `/proc/self/exe` names the guest's program, not the agent.
fn readlink(number: u64, a: [u64; 6], path: u64, buf: u64, len: u64) -> u64 {
    let mut name = [0u8; 32];
    let n = mem::read_guest(tallygraph_engine::own_pid(), path, &mut name);
    if !is_own_exe(&name[..n]) {
        return pass(number, a);
    }
    let rt = access();
    let Some(target) = rt.config.text(tallygraph_wire::config::Text::GuestPath) else { return error(2) };
    if (len as i64) <= 0 {
        return error(22);
    }
    let n = target.len().min(len as usize);
    // The kernel would fault on a bad buffer: let it write.
    if !write_guest(buf, &target[..n]) { error(14) } else { n as u64 }
}

/// True for the names of the process's own executable link.
fn is_own_exe(name: &[u8]) -> bool {
    is_own_file(name, b"exe")
}

/// True for the names of a file in the process's own directory of `/proc`.
fn is_own_file(name: &[u8], file: &[u8]) -> bool {
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let Some(rest) = name[..end].strip_prefix(b"/proc/") else { return false };
    let Some(owner) = rest.strip_suffix(file).and_then(|r| r.strip_suffix(b"/")) else { return false };
    if owner == b"self" || owner == b"thread-self" {
        return true;
    }
    let pid = core::str::from_utf8(owner).ok().and_then(|p| p.parse::<i32>().ok());
    pid == Some(tallygraph_engine::own_pid())
}

/// A file that holds the lines of `/proc/self/maps` about the guest's own mappings.
fn guest_maps(close_on_exec: bool) -> u64 {
    let text = access().engine.maps.read_text();
    let name = c"maps".as_ptr() as u64;
    let fd = pass(abi::__NR_memfd_create as u64, [name, close_on_exec as u64, 0, 0, 0, 0]);
    if failed(fd) {
        return fd;
    }
    for line in text.split_inclusive(|&b| b == b'\n') {
        let own = tallygraph_engine::maps::parse_line(line).is_some_and(|r| is_ours(r.start));
        if !own {
            tallygraph_sys::fd::write_all(fd as i32, line);
        }
    }
    pass(abi::__NR_lseek as u64, [fd, 0, 0, 0, 0, 0]);
    fd
}

/// True for addresses of the engine and the agent.
fn is_ours(address: u64) -> bool {
    use tallygraph_engine::layout::IBL_TABLE;
    (IBL_TABLE..0x7fff_8000).contains(&address) || mem::is_own(address)
}

/// Copies to guest memory without faulting.
pub fn write_guest(addr: u64, bytes: &[u8]) -> bool {
    let local = [bytes.as_ptr() as u64, bytes.len() as u64];
    let remote = [addr, bytes.len() as u64];
    let write = |id: u64| {
        let (local, remote) = (local.as_ptr() as u64, remote.as_ptr() as u64);
        // SAFETY: the kernel checks the guest's range.
        unsafe { raw::syscall6(abi::__NR_process_vm_writev as u64, id, local, 1, remote, 1, 0) }
    };
    let mut done = write(tallygraph_engine::own_pid() as u64);
    if done == error(3) {
        // The main thread has ended: any other's number will do.
        done = write(pass(abi::__NR_gettid as u64, [0; 6]));
    }
    done == bytes.len() as u64
}
