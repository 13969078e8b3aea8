//! Writing a profile from a spool: at the guest's end, at a dump, or after the guest was killed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallygraph_wire::config::{Number, Text};

pub mod format;
pub mod names;
pub mod spool;

use spool::Spool;

/// What the agent asks for.
struct Order {
    spool: PathBuf,
    part: u32,
    trigger: String,
    last: bool,
    keep: bool,
}

fn parse(args: &[std::ffi::OsString]) -> Result<Order, String> {
    use std::os::unix::ffi::OsStrExt;
    let mut order = Order {
        spool: PathBuf::new(),
        part: 0,
        trigger: "Program termination".into(),
        last: false,
        keep: false,
    };
    for arg in args {
        let bytes = arg.as_bytes();
        let text = arg.to_string_lossy();
        if let Some(path) = bytes.strip_prefix(b"--spool=") {
            order.spool = std::ffi::OsStr::from_bytes(path).into();
        } else if let Some(n) = text.strip_prefix("--part=") {
            order.part = n.parse().map_err(|_| format!("bad part number: {n}"))?;
        } else if let Some(t) = text.strip_prefix("--trigger=") {
            order.trigger = t.to_string();
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

/// The hidden `__write` command.
pub fn main(args: &[std::ffi::OsString]) -> ExitCode {
    let result = parse(args).and_then(|order| write(&order));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("tallygraph: {e}");
            ExitCode::from(1)
        }
    }
}

fn write(order: &Order) -> Result<(), String> {
    let spool = Spool::read(&order.spool)?;
    let name = output_name(&spool, order)?;
    let number = if order.part == 0 { 1 } else { order.part };
    let written = format::profile(&spool, &format::Part { number, trigger: &order.trigger });
    store(&name, written.text.as_bytes())?;
    if order.last {
        report(&spool, written.total);
        if !order.keep {
            let _ = std::fs::remove_file(&order.spool);
        }
    }
    Ok(())
}

/// Name of the part's file: the base name, with a suffix for parts dumped before the end.
fn output_name(spool: &Spool, order: &Order) -> Result<PathBuf, String> {
    use std::os::unix::ffi::OsStrExt;
    let pattern = spool.config.text(Text::OutFile).unwrap_or(b"callgrind.out.%p");
    let dir = spool.config.text(Text::StartDir).unwrap_or(b"/");
    let base = super::pattern::expand(pattern, spool.pid, Path::new(std::ffi::OsStr::from_bytes(dir)))?;
    if order.last || order.part == 0 {
        return Ok(base);
    }
    let mut name = base.into_os_string();
    name.push(format!(".{}", order.part));
    Ok(name.into())
}

/// Writes beside and renames, so that nobody sees half a profile.
fn store(name: &Path, text: &[u8]) -> Result<(), String> {
    use std::os::unix::fs::OpenOptionsExt;
    let error = |e: std::io::Error| format!("{}: {e}", name.display());
    // A device or a pipe is written as it is.
    if std::fs::metadata(name).is_ok_and(|m| !m.is_file()) {
        return std::fs::write(name, text).map_err(error);
    }
    let mut beside = name.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .map_err(error)?;
    file.write_all(text).map_err(error)?;
    std::fs::rename(&beside, name).map_err(error)
}

/// The lines at the end of a run.
fn report(spool: &Spool, total: u64) {
    if spool.config.is(Number::Quiet) {
        return;
    }
    let pid = spool.pid;
    let mut text = String::new();
    for line in [
        String::new(),
        "Events    : Ir".into(),
        format!("Collected : {total}"),
        String::new(),
        format!("I   refs:      {}", grouped(total)),
    ] {
        text.push_str(&format!("=={pid}== {line}\n"));
    }
    use std::os::fd::FromRawFd;
    let fd = spool.config.get(Number::LogFd) as i32;
    // SAFETY: the log's descriptor was inherited for this; it is not closed here.
    let mut log = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(fd) });
    let _ = log.write_all(text.as_bytes());
}

/// A number with commas between groups of three digits.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// `tallygraph recover [DIRECTORY | SPOOL]...`: writes the profiles of guests that are gone.
pub fn recover(args: &[std::ffi::OsString]) -> ExitCode {
    let places: Vec<PathBuf> = if args.is_empty() {
        super::spool_dir::candidates()
    } else {
        args.iter().map(PathBuf::from).collect()
    };
    let (mut done, mut failed) = (0, 0);
    for place in places {
        let spools = match std::fs::read_dir(&place) {
            Ok(entries) => {
                let mut all: Vec<PathBuf> = entries
                    .flatten()
                    .map(|e| e.path())
                    .filter(|p| p.extension().is_some_and(|x| x == "spool"))
                    .collect();
                all.sort();
                all
            }
            Err(_) if place.is_file() => vec![place],
            Err(_) if args.is_empty() => continue,
            Err(e) => {
                eprintln!("tallygraph recover: {}: {e}", place.display());
                failed += 1;
                continue;
            }
        };
        for path in spools {
            match recover_one(&path) {
                Ok(Some(name)) => {
                    println!("{} -> {}", path.display(), name.display());
                    done += 1;
                }
                Ok(None) => println!("{}: its program is still running", path.display()),
                Err(e) => {
                    eprintln!("tallygraph recover: {e}");
                    failed += 1;
                }
            }
        }
    }
    if done == 0 && failed == 0 {
        println!("nothing to recover");
    }
    ExitCode::from(u8::from(failed > 0))
}

fn recover_one(path: &Path) -> Result<Option<PathBuf>, String> {
    let spool = Spool::read(path)?;
    if is_running(spool.pid, spool.start_time) {
        return Ok(None);
    }
    let order =
        Order { spool: path.into(), part: 0, trigger: "Program termination".into(), last: true, keep: false };
    let name = output_name(&spool, &order)?;
    let written = format::profile(&spool, &format::Part { number: 1, trigger: &order.trigger });
    store(&name, written.text.as_bytes())?;
    std::fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(Some(name))
}

/// True when the process that owns a spool still exists (and is not a later one of the same number).
fn is_running(pid: u32, start_time: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let Some((_, rest)) = stat.rsplit_once(')') else { return true };
    let mut fields = rest.split_ascii_whitespace();
    let zombie = fields.next() == Some("Z");
    let started = fields.nth(18).and_then(|f| f.parse::<u64>().ok());
    !zombie && (start_time == 0 || started == Some(start_time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn this_process_is_running_and_an_unlikely_one_is_not() {
        assert!(is_running(std::process::id(), 0));
        assert!(!is_running(std::process::id(), 1));
        assert!(!is_running(u32::MAX - 1, 0));
    }
}
