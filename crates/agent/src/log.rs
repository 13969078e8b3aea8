//! Lines for the user: `==PID== text`, on the log's descriptor.

use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use tallygraph_sys::fd;

static LOG_FD: AtomicI32 = AtomicI32::new(2);

/// Sets the log's descriptor; negative for none.
pub fn set_fd(fd: i32) {
    LOG_FD.store(fd, Ordering::Relaxed);
}

/// The log's descriptor.
pub fn log_fd() -> i32 {
    LOG_FD.load(Ordering::Relaxed)
}

/// The last thing in the log is a piece of text of the guest's without line end.
static OPEN_LINE: AtomicBool = AtomicBool::new(false);

/// Writes text of the guest: each line begins with `**PID** `, once.
pub fn guest_text(text: &[u8]) {
    let fd = log_fd();
    if fd < 0 || text.is_empty() {
        return;
    }
    let mut mark = Line::new();
    let _ = write!(mark, "**{}** ", tallygraph_engine::own_pid());
    let mut out = Vec::with_capacity(text.len() + 32);
    let mut open = OPEN_LINE.load(Ordering::Relaxed);
    for &c in text {
        if !open {
            out.extend_from_slice(mark.as_bytes());
        }
        out.push(c);
        open = c != b'\n';
    }
    OPEN_LINE.store(open, Ordering::Relaxed);
    fd::write_all(fd, &out);
}

/// True when a line of the guest's is open; somebody else is about to end it.
pub fn end_open_line() -> bool {
    OPEN_LINE.swap(false, Ordering::Relaxed)
}

/// A line of bounded length, built without an allocator.
pub struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Line {
    /// An empty line.
    pub const fn new() -> Self {
        Line { bytes: [0; 512], len: 0 }
    }
    /// What was written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let n = s.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Writes one line with the process's prefix.
pub fn line(args: core::fmt::Arguments) {
    let fd = log_fd();
    if fd < 0 {
        return;
    }
    let mut line = Line::new();
    let _ = write!(line, "=={}== ", tallygraph_engine::own_pid());
    let _ = line.write_fmt(args);
    let _ = line.write_str("\n");
    end_open_line();
    fd::write_all(fd, line.as_bytes());
}

/// Writes one line to the log.
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => { $crate::log::line(core::format_args!($($arg)*)) };
}

/// Reports a defect of ours and ends the process.
pub fn report_panic(info: &core::panic::PanicInfo) -> ! {
    let mut text = Line::new();
    let _ = writeln!(text, "=={}== tallygraph: internal error: {info}", tallygraph_engine::own_pid());
    let fd = if log_fd() < 0 { 2 } else { log_fd() };
    fd::write_all(fd, text.as_bytes());
    tallygraph_sys::die(fd, b"tallygraph: please report this with the program and its arguments\n")
}
