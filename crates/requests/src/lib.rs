//! Requests of a program to the profiler that runs it.
//!
//! A request is a sequence of instructions without effect that tallygraph, and Valgrind too, recognise
//! in any compiled program. Elsewhere it costs those five instructions and six stores, and gives its
//! default, so requests can stay in programs that are shipped. On other machines than x86-64 nothing
//! is left of them. The crate needs no allocator and no standard library.
//!
//! ```
//! use tallygraph_requests as requests;
//!
//! fn work() -> u64 {
//!     (1..100).sum()
//! }
//!
//! requests::start();
//! let result = work();
//! requests::stop();
//! requests::dump_at(c"work");
//! assert_eq!(result, 4950);
//! ```
//!
//! The same requests exist for C and C++ in `include/tallygraph.h`.

#![no_std]

use core::ffi::{CStr, c_char};
use core::fmt;

/// Numbers of requests, for [`request`].
pub mod number {
    /// Is anybody there?
    pub const RUNNING: usize = 0x1001;
    /// Code was rewritten.
    pub const DISCARD_TRANSLATIONS: usize = 0x1002;
    /// A command as a user would give it.
    pub const MONITOR_COMMAND: usize = 0x1202;
    /// Print, format and pointer to a `va_list`.
    pub const PRINTF: usize = 0x1403;
    /// Print with the active functions.
    pub const PRINTF_BACKTRACE: usize = 0x1404;
    /// First of Callgrind's requests.
    pub const CALLGRIND: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16;
    /// Write a part.
    pub const DUMP: usize = CALLGRIND;
    /// Forget what was counted.
    pub const ZERO: usize = CALLGRIND + 1;
    /// Switch collection.
    pub const TOGGLE_COLLECT: usize = CALLGRIND + 2;
    /// Write a part with a name.
    pub const DUMP_AT: usize = CALLGRIND + 3;
    /// Switch measurement on.
    pub const START: usize = CALLGRIND + 4;
    /// Switch measurement off.
    pub const STOP: usize = CALLGRIND + 5;
    /// Skip an object.
    pub const ADD_OBJ_SKIP: usize = CALLGRIND + 6;
    /// Describe the next part.
    pub const ADD_DESC: usize = CALLGRIND + 7;
}

/// Makes a request with five words; gives its answer, or `otherwise` where nobody listens.
///
/// # Safety
///
/// Words that the request takes as addresses must be valid for what it does with them: strings end in
/// NUL and can be read. Numbers nobody knows give `otherwise` and do nothing.
#[inline(always)]
pub unsafe fn request(otherwise: usize, number: usize, words: [usize; 5]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let block = [number, words[0], words[1], words[2], words[3], words[4]];
        let mut answer = otherwise;
        // SAFETY: the rotations of rdi come to 128 bits, and the exchange is one of rbx with itself:
        // natively nothing changes but flags. A profiler reads the block and what the caller vouches
        // for, and writes rdx.
        unsafe {
            core::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") &raw const block,
                inout("rdx") answer,
                options(nostack)
            );
        }
        answer
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (number, words);
        otherwise
    }
}

/// A request whose only word is a string.
#[inline(always)]
fn with_text(otherwise: usize, number: usize, text: &CStr) -> usize {
    // SAFETY: the string ends in NUL and lives until the request is answered.
    unsafe { request(otherwise, number, [text.as_ptr() as usize, 0, 0, 0, 0]) }
}

/// A request without words.
#[inline(always)]
fn plain(number: usize) -> usize {
    // SAFETY: no word is an address.
    unsafe { request(0, number, [0; 5]) }
}

/// How many profilers run this program within each other; 0 natively.
#[inline(always)]
pub fn running() -> usize {
    plain(number::RUNNING)
}

/// Writes what was counted since the last part as a part of its own.
#[inline(always)]
pub fn dump() {
    plain(number::DUMP);
}

/// Writes a part with a name.
#[inline(always)]
pub fn dump_at(name: &CStr) {
    with_text(0, number::DUMP_AT, name);
}

/// Forgets what was counted since the last part.
#[inline(always)]
pub fn zero() {
    plain(number::ZERO);
}

/// Switches the collection of costs on or off.
#[inline(always)]
pub fn toggle_collect() {
    plain(number::TOGGLE_COLLECT);
}

/// Switches measurement on, at any depth of the stack.
#[inline(always)]
pub fn start() {
    plain(number::START);
}

/// Switches measurement off.
#[inline(always)]
pub fn stop() {
    plain(number::STOP);
}

/// Skips an object from now on, as `--obj-skip` does: its costs go to who calls it.
#[inline(always)]
pub fn add_obj_skip(path: &CStr) {
    with_text(0, number::ADD_OBJ_SKIP, path);
}

/// Adds a line `desc: TEXT` to the header of the next part.
#[inline(always)]
pub fn add_desc(text: &CStr) {
    with_text(0, number::ADD_DESC, text);
}

/// Makes the profiler act on a command as a user would (`dump`, `zero`, `status`, `instrumentation
/// on`). True when it was understood; natively too, since nobody objects.
#[inline(always)]
pub fn monitor_command(command: &CStr) -> bool {
    with_text(0, number::MONITOR_COMMAND, command) == 0
}

/// Says that code in a range was rewritten. tallygraph notices that by itself.
#[inline(always)]
pub fn discard_translations(start: *const u8, len: usize) {
    // SAFETY: the range is not read.
    unsafe { request(0, number::DISCARD_TRANSLATIONS, [start as usize, len, 0, 0, 0]) };
}

/// Prints a line of text to the profiler's log; gives the number of bytes, 0 natively. Text is passed
/// on in pieces, so a profiler that is not there costs the formatting: ask [`running`] first where that
/// matters.
pub fn print(text: fmt::Arguments) -> usize {
    written(number::PRINTF, text)
}

/// Prints and adds the functions that are active.
pub fn print_backtrace(text: fmt::Arguments) -> usize {
    let mut printer = Printer::new(number::PRINTF);
    let _ = fmt::write(&mut printer, text);
    // The pieces before the last come without a back trace.
    printer.number = number::PRINTF_BACKTRACE;
    printer.flush();
    printer.printed
}

fn written(number: usize, text: fmt::Arguments) -> usize {
    let mut printer = Printer::new(number);
    let _ = fmt::write(&mut printer, text);
    if printer.used > 0 {
        printer.flush();
    }
    printer.printed
}

/// Prints to the profiler's log as `print!` does to standard output.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => { $crate::print(core::format_args!($($arg)*)) };
}

/// Prints with a back trace.
#[macro_export]
macro_rules! print_backtrace {
    ($($arg:tt)*) => { $crate::print_backtrace(core::format_args!($($arg)*)) };
}

/// Collects text into pieces that end in NUL.
struct Printer {
    number: usize,
    text: [u8; 256],
    used: usize,
    printed: usize,
}

impl Printer {
    fn new(number: usize) -> Printer {
        Printer { number, text: [0; 256], used: 0, printed: 0 }
    }

    /// Passes on the piece: format `%s` with one argument, in the form of a `va_list` that takes it
    /// from the overflow area.
    fn flush(&mut self) {
        /// The System V ABI's `va_list`.
        #[repr(C)]
        struct List {
            gp_offset: u32,
            fp_offset: u32,
            overflow: *const *const c_char,
            saved: *const u8,
        }
        self.text[self.used] = 0;
        let arguments = [self.text.as_ptr().cast::<c_char>()];
        let list =
            List { gp_offset: 48, fp_offset: 304, overflow: arguments.as_ptr(), saved: core::ptr::null() };
        let words = [c"%s".as_ptr() as usize, &raw const list as usize, 0, 0, 0];
        // SAFETY: the format takes one string, which ends in NUL; all of it outlives the request.
        self.printed += unsafe { request(0, self.number, words) };
        self.used = 0;
    }
}

impl fmt::Write for Printer {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for byte in s.bytes().filter(|&b| b != 0) {
            if self.used == self.text.len() - 1 {
                self.flush();
            }
            self.text[self.used] = byte;
            self.used += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natively_requests_give_their_defaults() {
        // SAFETY: nobody knows the number.
        assert_eq!(unsafe { request(77, 0x4d43_0000, [1, 2, 3, 4, 5]) }, 77);
        if running() == 0 {
            assert_eq!(crate::print!("to nobody {}\n", 1), 0);
            assert_eq!(crate::print_backtrace!("to nobody"), 0);
        }
        start();
        zero();
        toggle_collect();
        toggle_collect();
        add_desc(c"a test");
        stop();
    }
}
