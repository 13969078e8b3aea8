//! The guest's system calls: passed through, except where they touch what the engine keeps.

use crate::loader::object_place;
use crate::process;
use crate::runtime::access;
use tallygraph_engine::layout::{BRK_ROOM, BRK_START};
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_sys::mem::{self, RW, page_up};
use tallygraph_sys::{abi, raw};

/// Performs the system call in the guest's registers and leaves the result in them. `next` is the
/// guest address after the instruction.
pub fn perform(state: &mut ThreadState, next: u64) {
    let g = &state.regs.gpr;
    let number = g[reg::RAX];
    let args = [g[reg::RDI], g[reg::RSI], g[reg::RDX], g[reg::R10], g[reg::R8], g[reg::R9]];
    let result = dispatch(state, number, args);
    state.regs.gpr[reg::RAX] = result;
    // The instruction leaves the next address in rcx and the flags in r11.
    state.regs.gpr[reg::RCX] = next;
    state.regs.gpr[reg::R11] = state.regs.rflags;
}

fn pass(number: u64, a: [u64; 6]) -> u64 {
    // SAFETY: the guest asked for it; calls that would harm the engine are handled before.
    unsafe { raw::syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]) }
}

fn error(errno: i32) -> u64 {
    -(errno as i64) as u64
}

fn failed(result: u64) -> bool {
    result > -4096i64 as u64
}

fn dispatch(state: &mut ThreadState, number: u64, a: [u64; 6]) -> u64 {
    let _ = &state;
    match number as u32 {
        abi::__NR_exit_group => process::exit_group(a[0] as i32),
        abi::__NR_exit => process::exit_group(a[0] as i32),
        abi::__NR_brk => brk(a[0]),
        abi::__NR_mmap => mmap(a),
        abi::__NR_munmap | abi::__NR_mprotect | abi::__NR_pkey_mprotect => {
            let result = pass(number, a);
            forget(a[0], a[1]);
            result
        }
        abi::__NR_mremap => {
            let result = pass(number, a);
            forget(a[0], a[1]);
            if !failed(result) {
                forget(result, a[2]);
            }
            result
        }
        abi::__NR_rseq => error(38),
        abi::__NR_readlink => readlink(number, a, a[0], a[1], a[2]),
        abi::__NR_readlinkat => readlink(number, a, a[1], a[2], a[3]),
        _ => pass(number, a),
    }
}

fn forget(start: u64, len: u64) {
    let mut rt = access();
    rt.engine.maps.forget(start, page_up(len));
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
    let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
    let name = &name[..end];
    if name == b"/proc/self/exe" || name == b"/proc/thread-self/exe" {
        return true;
    }
    let pid = name.strip_prefix(b"/proc/").and_then(|n| n.strip_suffix(b"/exe"));
    let pid = pid.and_then(|p| core::str::from_utf8(p).ok()).and_then(|p| p.parse::<i32>().ok());
    pid == Some(tallygraph_engine::own_pid())
}

/// Copies to guest memory without faulting.
pub fn write_guest(addr: u64, bytes: &[u8]) -> bool {
    let local = [bytes.as_ptr() as u64, bytes.len() as u64];
    let remote = [addr, bytes.len() as u64];
    // SAFETY: the kernel checks the guest's range.
    let done = unsafe {
        raw::syscall6(
            abi::__NR_process_vm_writev as u64,
            tallygraph_engine::own_pid() as u64,
            local.as_ptr() as u64,
            1,
            remote.as_ptr() as u64,
            1,
            0,
        )
    };
    done == bytes.len() as u64
}
