//! Programs the guest executes.
//!
//! Without `--trace-children` the program runs natively and the profile ends with the process's
//! present program. With it the host's executable is started in its place, with the same options,
//! and profiles the program under the same process id.

use crate::runtime::{Access, access};
use crate::signals;
use crate::syscalls::pass;
use crate::writer;
use alloc::vec::Vec;
use tallygraph_engine::own_pid;
use tallygraph_engine::thread::ThreadState;
use tallygraph_sys::mem::read_guest;
use tallygraph_sys::{abi, fd, syscall};
use tallygraph_wire::config::{Number, Text};

/// A NUL-terminated string of the guest, with the NUL.
fn guest_string(addr: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut chunk = [0u8; 256];
    loop {
        let n = read_guest(own_pid(), addr + text.len() as u64, &mut chunk);
        let part = &chunk[..n];
        if let Some(end) = part.iter().position(|&b| b == 0) {
            text.extend_from_slice(&part[..=end]);
            return Some(text);
        }
        if n < chunk.len() || text.len() > 1 << 20 {
            return None;
        }
        text.extend_from_slice(part);
    }
}

/// The words of a NULL-terminated vector of the guest.
fn guest_vector(addr: u64) -> Option<Vec<u64>> {
    let mut words = Vec::new();
    if addr == 0 {
        return Some(words);
    }
    loop {
        let mut word = [0u8; 8];
        if read_guest(own_pid(), addr + words.len() as u64 * 8, &mut word) != 8 {
            return None;
        }
        match u64::from_le_bytes(word) {
            0 => return Some(words),
            w => words.push(w),
        }
        if words.len() > 1 << 20 {
            return None;
        }
    }
}

/// `execve`.
pub fn execve(state: &mut ThreadState, a: [u64; 6]) -> u64 {
    execute(state, a, [a[0], a[1], a[2]], abi::__NR_execve as u64)
}

/// `execveat`; traced when the path is absolute or relative to the current directory.
pub fn execveat(state: &mut ThreadState, a: [u64; 6]) -> u64 {
    execute(state, a, [a[1], a[2], a[3]], abi::__NR_execveat as u64)
}

/// Path, arguments and environment are guest addresses.
fn execute(state: &mut ThreadState, a: [u64; 6], words: [u64; 3], number: u64) -> u64 {
    let traced = {
        let rt = access();
        rt.config.is(Number::TraceChildren)
    };
    let at_descriptor = number == abi::__NR_execveat as u64 && (a[0] as i32 != -100 || a[4] != 0);
    if traced
        && !at_descriptor
        && let Some(result) = execute_traced(state, words)
    {
        return result;
    }
    execute_natively(state, a, number, words[0])
}

/// True when the kernel would execute the file at `path` (with NUL), as far as its first bytes tell:
/// an x86-64 ELF file, or a script whose interpreter is one.
fn can_execute(path: &[u8]) -> bool {
    let mut path = path.to_vec();
    // As many interpreters as the kernel follows.
    for _ in 0..5 {
        // X_OK
        // SAFETY: the path is NUL-terminated.
        if unsafe { syscall!(abi::__NR_access, path.as_ptr(), 1) }.is_err() {
            return false;
        }
        // A program that may be executed and not read is the kernel's to judge.
        let Ok(file) = fd::open(&path, abi::O_RDONLY, 0) else { return true };
        let mut head = [0u8; 256];
        let n = fd::pread(file, &mut head, 0).unwrap_or(0);
        fd::close(file);
        if head[..4] == *b"\x7fELF" {
            return head[4] == 2 && head[18..20] == [62, 0];
        }
        let Some(interpreter) = interpreter(&head[..n]) else { return false };
        path = interpreter;
    }
    false
}

/// The interpreter (with NUL) that a script's first line names.
fn interpreter(head: &[u8]) -> Option<Vec<u8>> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|b| matches!(b, b' ' | b'\t' | 0)).filter(|w| !w.is_empty());
    let mut path = words.next()?.to_vec();
    path.push(0);
    Some(path)
}

fn is_own_exe(path: &[u8]) -> bool {
    path == b"/proc/self/exe\0"
}

fn execute_natively(state: &mut ThreadState, mut a: [u64; 6], number: u64, path: u64) -> u64 {
    let own = guest_string(path).filter(|p| is_own_exe(p)).map(|_| {
        let mut target = access().config.text(Text::GuestPath).unwrap_or(b"").to_vec();
        target.push(0);
        target
    });
    if let Some(target) = &own {
        let slot = if number == abi::__NR_execveat as u64 { 1 } else { 0 };
        a[slot] = target.as_ptr() as u64;
    }
    let vfork = signals::thread(state).vfork_child;
    if !vfork && path != 0 {
        // The present program ends here, if the execution succeeds: its profile is written first.
        let known = guest_string(path).is_some_and(|p| can_execute(&p) || own.is_some());
        if known {
            let mut rt = access();
            end_program(&mut rt, state);
        }
    }
    signals::before_exec();
    let result = pass(number, a);
    signals::after_failed_exec();
    result
}

/// The profile of the present program, before another one takes its place.
fn end_program(rt: &mut Access, state: &mut ThreadState) {
    writer::dump_before_exec(rt, state);
}

/// Starts the host in the program's place; none when the program is to run natively.
fn execute_traced(state: &mut ThreadState, words: [u64; 3]) -> Option<u64> {
    let path = guest_string(words[0])?;
    let argv = guest_vector(words[1])?;
    let envp = guest_vector(words[2])?;
    if !can_execute(&path) {
        // Let the kernel say what is wrong.
        return None;
    }
    let path = if is_own_exe(&path) {
        let mut target = access().config.text(Text::GuestPath).unwrap_or(b"").to_vec();
        target.push(0);
        target
    } else {
        path
    };
    let mut rt = access();
    if skipped(&rt, &path, &argv) {
        return None;
    }
    let mut host = rt.config.text(Text::HostPath)?.to_vec();
    host.push(0);
    let mut strings: Vec<Vec<u8>> = Vec::new();
    strings.push(b"tallygraph\0".to_vec());
    strings.push(b"__exec\0".to_vec());
    for word in rt.config.texts(Text::OptionWord) {
        let mut w = word.to_vec();
        w.push(0);
        strings.push(w);
    }
    strings.push(b"--\0".to_vec());
    strings.push(path);
    let mut args: Vec<u64> = strings.iter().map(|s| s.as_ptr() as u64).collect();
    args.extend_from_slice(&argv);
    args.push(0);
    let mut env = envp;
    env.push(0);
    let log = crate::log::log_fd();
    if !signals::thread(state).vfork_child {
        end_program(&mut rt, state);
    }
    drop(rt);
    signals::before_exec();
    if log > 2 {
        // The log goes on in the new program.
        // SAFETY: changes a flag of our own descriptor.
        let _ = unsafe { syscall!(abi::__NR_fcntl, log, abi::F_SETFD, 0) };
    }
    // SAFETY: all strings and vectors end in NUL and outlive the call.
    let result = unsafe { syscall!(abi::__NR_execve, host.as_ptr(), args.as_ptr(), env.as_ptr()) };
    signals::after_failed_exec();
    let _ = fd::PRIVATE_BASE;
    match result {
        Ok(v) => Some(v),
        Err(e) => Some(-(e.0 as i64) as u64),
    }
}

fn skipped(rt: &Access, path: &[u8], argv: &[u64]) -> bool {
    let name = &path[..path.len() - 1];
    if rt.config.texts(Text::TraceChildrenSkip).any(|p| matches(p, name)) {
        return true;
    }
    rt.config.texts(Text::TraceChildrenSkipByArg).any(|p| {
        argv.iter().skip(1).filter_map(|&at| guest_string(at)).any(|arg| matches(p, &arg[..arg.len() - 1]))
    })
}

/// Matches `*` and `?`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((sp, st)) => {
                    p = sp + 1;
                    t = st + 1;
                    star = Some((sp, st + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::{can_execute, interpreter, matches};

    #[test]
    fn what_can_be_executed_is_told_by_its_first_bytes() {
        assert_eq!(interpreter(b"#! /bin/sh -e\nexit"), Some(b"/bin/sh\0".to_vec()));
        assert_eq!(interpreter(b"#!\n"), None);
        assert_eq!(interpreter(b"garbage"), None);
        assert!(can_execute(b"/proc/self/exe\0"));
        assert!(!can_execute(b"/etc/passwd\0") && !can_execute(b"/no/such/file\0"));
    }

    #[test]
    fn patterns_match_as_in_the_shell() {
        assert!(matches(b"*esbuild", b"/x/esbuild"));
        assert!(matches(b"a?c*", b"abcdef"));
        assert!(matches(b"*", b""));
        assert!(!matches(b"abc", b"abcd"));
        assert!(matches(b"*a*b", b"xaxxab"));
        assert!(!matches(b"*a*b", b"xaxxa"));
    }
}
