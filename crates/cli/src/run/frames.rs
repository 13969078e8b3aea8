//! The hidden `__frames` command, by which the agent has a back trace printed with names and lines.

use super::log::Log;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use tallygraph_writer::frames;
use tallygraph_writer::places::Places;
use tallygraph_writer::spool_file::SpoolFile;
use tallygraph_writer::tables::Tables;

/// What the agent asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Order {
    spool: PathBuf,
    log_fd: i32,
    /// The first line goes on behind text without line end.
    open_line: bool,
    /// Address and function, newest first.
    frames: Vec<(u64, u32)>,
}

fn parse(args: &[OsString]) -> Option<Order> {
    let mut order = Order::default();
    for arg in args {
        let text = arg.to_string_lossy();
        if let Some(path) = arg.as_bytes().strip_prefix(b"--spool=") {
            order.spool = OsStr::from_bytes(path).into();
        } else if let Some(n) = text.strip_prefix("--log-fd=") {
            order.log_fd = n.parse().ok()?;
        } else if text == "--open-line" {
            order.open_line = true;
        } else {
            let (pc, function) = text.split_once(':')?;
            order.frames.push((u64::from_str_radix(pc, 16).ok()?, function.parse().ok()?));
        }
    }
    Some(order)
}

/// Runs the command with the words after `__frames`.
pub fn main(args: &[OsString]) -> ExitCode {
    match parse(args).and_then(|order| print(&order)) {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::from(1),
    }
}

fn print(order: &Order) -> Option<()> {
    let spool = SpoolFile::open(&order.spool).ok()?;
    let log = spool.log().ok()?;
    let tables = Tables::read(&log).ok()?;
    let mut places = Places::new(&tables.config, spool.pid());
    let mut lines = Vec::new();
    for (i, &(pc, function)) in order.frames.iter().enumerate() {
        let frame = frames::describe(&tables, &mut places, pc, function, i == 0);
        let word = if i == 0 { "at" } else { "by" };
        // Valgrind tells the last byte of a call.
        let shown = pc.wrapping_sub(u64::from(i > 0));
        lines.push(format!("   {word} 0x{shown:X}: {}{}", frame.function, frame.location()));
        if frame.function == "main" {
            break;
        }
    }
    let mut out = Log::inherited(order.log_fd, spool.pid());
    let rest = match order.open_line {
        true => {
            out.unfinished(lines.first()?);
            &lines[1..]
        }
        false => &lines[..],
    };
    out.lines(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        let words = ["--spool=/x/1.spool", "--log-fd=9", "--open-line", "4010ab:7", "401000:1"];
        let order = parse(&words.map(OsString::from)).unwrap();
        assert_eq!(order.frames, [(0x4010ab, 7), (0x401000, 1)]);
        assert!(order.open_line && order.log_fd == 9);
        assert_eq!(parse(&["nonsense".into()]), None);
    }
}
