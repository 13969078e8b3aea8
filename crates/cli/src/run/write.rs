//! The hidden `__write` command, by which the agent has its profile written.

use super::inherited;
use super::log::Log;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use tallygraph_wire::config::Number;
use tallygraph_writer::spool_file::SpoolFile;
use tallygraph_writer::tables::Tables;
use tallygraph_writer::{Report, Request, end_lines};

/// What the agent asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Order {
    spool: PathBuf,
    /// Number of a part before the end.
    part: Option<u32>,
    trigger: Option<String>,
    /// The guest has ended: say so in the log and delete the spool.
    last: bool,
    /// With `last`: the spool stays and the log is silent, since the guest may go on.
    keep: bool,
    /// Arena slot of the only thread to be written, where threads are written apart.
    slot: Option<u32>,
    /// Descriptor of the log, when it is not the one the guest was started with.
    log_fd: Option<i32>,
}

fn parse(args: &[OsString]) -> Result<Order, String> {
    let mut order = Order::default();
    for arg in args {
        let text = arg.to_string_lossy();
        let number = |digits: &str| digits.parse().map_err(|_| format!("bad number in {text}"));
        if let Some(path) = arg.as_bytes().strip_prefix(b"--spool=") {
            order.spool = OsStr::from_bytes(path).into();
        } else if let Some(n) = text.strip_prefix("--part=") {
            order.part = Some(number(n)?);
        } else if let Some(t) = text.strip_prefix("--trigger=") {
            order.trigger = Some(t.replace('\n', " "));
        } else if let Some(n) = text.strip_prefix("--slot=") {
            order.slot = Some(number(n)?);
        } else if let Some(n) = text.strip_prefix("--log-fd=") {
            order.log_fd = Some(number(n)? as i32);
        } else if text == "--final" {
            order.last = true;
        } else if text == "--keep" {
            order.keep = true;
        } else {
            return Err(format!("unknown word: {text}"));
        }
    }
    Ok(order)
}

/// Runs the command with the words after `__write`.
pub fn main(args: &[OsString]) -> ExitCode {
    let mut log = None;
    let result = parse(args).and_then(|order| {
        let spool = SpoolFile::open(&order.spool).map_err(|e| e.to_string())?;
        let written = write(&order, &spool);
        if written.is_err() {
            log = log_fd(&order, &spool).filter(|&fd| fd >= 0).map(|fd| Log::inherited(fd, spool.pid()));
        }
        written
    });
    let Err(e) = result else { return ExitCode::SUCCESS };
    // The guest may have closed its standard error; the log is still there.
    match log {
        Some(mut log) => log.lines(&[format!("tallygraph: {e}")]),
        None if inherited::was_open(2) => eprintln!("tallygraph: {e}"),
        None => {}
    }
    ExitCode::from(1)
}

/// The log's descriptor, as the order or the guest's configuration name it.
fn log_fd(order: &Order, spool: &SpoolFile) -> Option<i32> {
    order.log_fd.or_else(|| {
        let log = spool.log().ok()?;
        Some(Tables::read(&log).ok()?.config.get(Number::LogFd) as i32)
    })
}

fn write(order: &Order, spool: &SpoolFile) -> Result<(), String> {
    let request = Request {
        part: if order.last { None } else { order.part },
        trigger: order.trigger.as_deref().unwrap_or(Request::LAST.trigger),
        slot: order.slot,
    };
    let report = tallygraph_writer::write(spool, &request).map_err(|e| e.to_string())?;
    if order.last && !order.keep {
        say_the_end(spool, &report, order.log_fd);
        let _ = std::fs::remove_file(&order.spool);
    }
    Ok(())
}

fn say_the_end(spool: &SpoolFile, report: &Report, log_fd: Option<i32>) {
    if report.config.is(Number::Quiet) {
        return;
    }
    let fd = log_fd.unwrap_or(report.config.get(Number::LogFd) as i32);
    let mut log = Log::inherited(fd, spool.pid());
    log.lines(&end_lines::lines(&report.events, &report.totals));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(words: &[&str]) -> Result<Order, String> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_understood() {
        let o = order(&["--spool=/x/1.spool", "--part=3", "--trigger=a\nb", "--log-fd=9"]).unwrap();
        assert_eq!((o.part, o.trigger.as_deref(), o.log_fd, o.last), (Some(3), Some("a b"), Some(9), false));
        assert_eq!(o.spool, PathBuf::from("/x/1.spool"));
        assert_eq!(order(&["--slot=2"]).unwrap().slot, Some(2));
        let o = order(&["--final", "--keep"]).unwrap();
        assert!(o.last && o.keep);
        assert!(order(&["--part=x"]).is_err() && order(&["nonsense"]).is_err());
    }
}
