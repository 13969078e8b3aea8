//! Client requests: what a program tells its profiler through the magic instruction sequence.

use crate::runtime::{Access, access};
use crate::{collect, log};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use tallygraph_callgraph::CtxId;
use tallygraph_engine::own_pid;
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_sys::mem::read_guest;
use tallygraph_wire::config::Text;
use tallygraph_wire::spool::Record;

/// Requests of the core and of Callgrind, by number.
mod number {
    pub const RUNNING_ON_VALGRIND: u64 = 0x1001;
    pub const DISCARD_TRANSLATIONS: u64 = 0x1002;
    pub const PRINTF: u64 = 0x1401;
    pub const PRINTF_BACKTRACE: u64 = 0x1402;
    pub const PRINTF_VALIST: u64 = 0x1403;
    pub const PRINTF_BACKTRACE_VALIST: u64 = 0x1404;
    pub const STACK_REGISTER: u64 = 0x1501;
    const CALLGRIND: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
    pub const DUMP: u64 = CALLGRIND;
    pub const ZERO: u64 = CALLGRIND + 1;
    pub const TOGGLE: u64 = CALLGRIND + 2;
    pub const DUMP_AT: u64 = CALLGRIND + 3;
    pub const START: u64 = CALLGRIND + 4;
    pub const STOP: u64 = CALLGRIND + 5;
    pub const ADD_OBJ_SKIP: u64 = CALLGRIND + 6;
    pub const ADD_DESC: u64 = CALLGRIND + 7;
}

/// Answers the request at the block that `rax` points to; the result goes to `rdx`. The guest was in
/// `context` and goes on at `next`; gives the context it goes on in.
pub fn answer(state: &mut ThreadState, next: u64, mut context: CtxId) -> CtxId {
    let mut words = [0u8; 48];
    if read_guest(own_pid(), state.regs.gpr[reg::RAX], &mut words) != 48 {
        return context;
    }
    let word = |i: usize| u64::from_le_bytes(words[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
    let (request, first, second) = (word(0), word(1), word(2));
    let mut rt = access();
    let result = match request {
        number::RUNNING_ON_VALGRIND => 1,
        number::DISCARD_TRANSLATIONS => {
            rt.engine.maps.forget(first, second);
            rt.engine.invalidate(first, second, false);
            0
        }
        // The variadic forms pass the list itself, which is an address on this machine.
        number::PRINTF
        | number::PRINTF_BACKTRACE
        | number::PRINTF_VALIST
        | number::PRINTF_BACKTRACE_VALIST => print(first, second),
        number::STACK_REGISTER => {
            rt.stacks += 1;
            rt.stacks
        }
        number::DUMP => {
            collect::dump(&mut rt, state, b"Client Request");
            0
        }
        number::DUMP_AT => {
            let mut trigger = b"Client Request: ".to_vec();
            trigger.extend_from_slice(&text(first));
            collect::dump(&mut rt, state, &trigger);
            0
        }
        number::ZERO => {
            collect::zero(&mut rt, state);
            0
        }
        number::TOGGLE => {
            let here = rt.engine.context_now(state, context);
            context = rt.engine.switch_side(state, here);
            rt.collecting = !rt.engine.graph.context(context).aside;
            0
        }
        number::START => {
            collect::set(&mut rt, state, next, true);
            context = rt.engine.context_now(state, context);
            0
        }
        number::STOP => {
            collect::set(&mut rt, state, next, false);
            0
        }
        number::ADD_OBJ_SKIP => {
            context = add_obj_skip(&mut rt, state, context, &text(first));
            0
        }
        number::ADD_DESC => {
            let text = text(first);
            rt.engine.tool.spool.append(&Record::Description(&text));
            0
        }
        // Unknown requests give their default.
        _ => return context,
    };
    state.regs.gpr[reg::RDX] = result;
    context
}

/// Skips an object from now on: new calls into it, and its frames on the stack.
fn add_obj_skip(rt: &mut Access, state: &mut ThreadState, context: CtxId, path: &[u8]) -> CtxId {
    rt.config.push(Text::ObjSkip, path);
    if !rt.engine.tool.skip_object(path) {
        return context;
    }
    // Calls into the object have been translated: all code is made again.
    if rt.engine.single_thread {
        rt.engine.flush_all(&mut [state], None);
    }
    collect::settle_all(rt, state);
    rt.engine.skip_frames(state, context)
}

/// A NUL-terminated string of the guest, without the NUL, of bounded length.
fn text(addr: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chunk = [0u8; 128];
    while out.len() < 1 << 16 {
        let n = read_guest(own_pid(), addr + out.len() as u64, &mut chunk);
        let part = &chunk[..n];
        match part.iter().position(|&b| b == 0) {
            Some(end) => {
                out.extend_from_slice(&part[..end]);
                return out;
            }
            None if n < chunk.len() => {
                out.extend_from_slice(part);
                return out;
            }
            None => out.extend_from_slice(part),
        }
    }
    out
}

/// A `va_list` of the System V ABI, read from the guest.
struct Arguments {
    gp_offset: u32,
    fp_offset: u32,
    overflow: u64,
    saved: u64,
}

impl Arguments {
    fn read(at: u64) -> Option<Arguments> {
        let mut b = [0u8; 24];
        if read_guest(own_pid(), at, &mut b) != 24 {
            return None;
        }
        let u32_at = |i: usize| u32::from_le_bytes(b[i..i + 4].try_into().expect("four bytes"));
        let u64_at = |i: usize| u64::from_le_bytes(b[i..i + 8].try_into().expect("eight bytes"));
        Some(Arguments { gp_offset: u32_at(0), fp_offset: u32_at(4), overflow: u64_at(8), saved: u64_at(16) })
    }

    fn load(at: u64) -> u64 {
        let mut b = [0u8; 8];
        read_guest(own_pid(), at, &mut b);
        u64::from_le_bytes(b)
    }

    fn integer(&mut self) -> u64 {
        if self.gp_offset < 48 {
            self.gp_offset += 8;
            Self::load(self.saved + self.gp_offset as u64 - 8)
        } else {
            self.overflow += 8;
            Self::load(self.overflow - 8)
        }
    }

    fn float(&mut self) -> f64 {
        f64::from_bits(if self.fp_offset < 176 {
            self.fp_offset += 16;
            Self::load(self.saved + self.fp_offset as u64 - 16)
        } else {
            self.overflow += 8;
            Self::load(self.overflow - 8)
        })
    }
}

/// Prints what the guest formats, each line with the process's mark; gives the number of bytes.
fn print(format: u64, list: u64) -> u64 {
    let Some(mut arguments) = Arguments::read(list) else { return 0 };
    let out = format_text(&text(format), &mut arguments);
    let fd = log::log_fd();
    if fd >= 0 {
        let mut line = log::Line::new();
        let _ = write!(line, "**{}** ", own_pid());
        tallygraph_sys::fd::write_all(fd, line.as_bytes());
        tallygraph_sys::fd::write_all(fd, out.as_bytes());
    }
    out.len() as u64
}

/// The conversions that programs use in requests: d i u x X o p c s f g e and %, with width and the
/// flags `-` and `0`.
fn format_text(format: &[u8], arguments: &mut Arguments) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some((&c, tail)) = rest.split_first() {
        rest = tail;
        if c != b'%' {
            out.push(c as char);
            continue;
        }
        let (mut left, mut zero, mut width, mut long) = (false, false, 0usize, false);
        while let Some((&c, tail)) = rest.split_first() {
            rest = tail;
            match c {
                b'-' => left = true,
                b'0' if width == 0 => zero = true,
                b'0'..=b'9' => width = (width * 10 + (c - b'0') as usize).min(512),
                b'l' | b'z' | b'j' | b't' => long = true,
                b'h' | b'+' | b' ' | b'#' | b'.' => {}
                _ => {
                    let part = convert(c, long, arguments);
                    let pad = width.saturating_sub(part.len());
                    let fill = |out: &mut String, c| (0..pad).for_each(|_| out.push(c));
                    match (left, zero) {
                        (true, _) => {
                            out.push_str(&part);
                            fill(&mut out, ' ');
                        }
                        (false, zero) => {
                            fill(&mut out, if zero { '0' } else { ' ' });
                            out.push_str(&part);
                        }
                    }
                    break;
                }
            }
        }
    }
    out
}

fn convert(kind: u8, long: bool, arguments: &mut Arguments) -> String {
    let mut part = String::new();
    let unsigned = |v: u64| if long { v } else { v as u32 as u64 };
    let _ = match kind {
        b'd' | b'i' => {
            let v = arguments.integer();
            write!(part, "{}", if long { v as i64 } else { v as i32 as i64 })
        }
        b'u' => write!(part, "{}", unsigned(arguments.integer())),
        b'x' => write!(part, "{:x}", unsigned(arguments.integer())),
        b'X' => write!(part, "{:X}", unsigned(arguments.integer())),
        b'o' => write!(part, "{:o}", unsigned(arguments.integer())),
        b'p' => write!(part, "{:#x}", arguments.integer()),
        b'c' => write!(part, "{}", arguments.integer() as u8 as char),
        b's' => write!(part, "{}", String::from_utf8_lossy(&text(arguments.integer()))),
        b'f' | b'g' | b'e' => write!(part, "{:.6}", arguments.float()),
        b'%' => write!(part, "%"),
        other => write!(part, "%{}", other as char),
    };
    part
}
