//! Becoming the guest: checks, preamble, and the execution of the agent in this very process.

use super::log::prefixed;
use super::options::{LogTarget, Options};
use super::{program, spool_dir};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tallygraph_wire::config::{Number, Text, Tool};
use tallygraph_writer::output::{self, PatternError};

static AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tallygraph-agent"));

/// Why the guest was not started: lines to print, and the exit status.
#[derive(Debug)]
pub struct Failure {
    /// Complete lines.
    pub lines: Vec<String>,
    /// Exit status.
    pub status: u8,
}

impl Failure {
    fn new(status: u8, line: String) -> Self {
        Failure { lines: vec![format!("valgrind: {line}")], status }
    }
}

/// Starts the guest; returns only when that fails.
pub fn launch(mut options: Options, traced_path: Option<OsString>) -> Failure {
    match prepare(&mut options, traced_path) {
        Ok((image, args)) => execute(image, &args),
        Err(failure) => failure,
    }
}

fn prepare(
    options: &mut Options,
    traced_path: Option<OsString>,
) -> Result<(OwnedFd, Vec<OsString>), Failure> {
    let mut command = options.command.clone();
    // A traced child names the file apart from its argument zero.
    let zero = traced_path.map(|path| std::mem::replace(&mut command[0], path));
    let mut program = program::resolve(&command).map_err(|r| Failure::new(r.status, r.line))?;
    if let Some(zero) = zero
        && program.path == program.exec_fn
    {
        program.args[0] = zero;
    }
    let cwd = std::env::current_dir().map_err(|e| Failure::new(1, format!("current directory: {e}")))?;
    let path = std::fs::canonicalize(&program.path).unwrap_or_else(|_| program.path.clone());
    let config = &mut options.config;
    config.push(Text::GuestPath, path.as_os_str().as_bytes());
    config.push(Text::ExecFn, program.exec_fn.as_os_str().as_bytes());
    config.push(Text::StartDir, cwd.as_os_str().as_bytes());
    config.push(Text::CommandLine, &command_line(&options.command));
    let pattern = config.text(Text::OutFile).unwrap_or(b"callgrind.out.%p").to_vec();
    let out_file =
        expand_variables(&pattern).map_err(|e| bad_pattern("--callgrind-out-file", &pattern, &e))?;
    config.clear(Text::OutFile);
    config.push(Text::OutFile, &out_file);
    if let Some(dir) = cache_directory() {
        config.push(Text::CacheDir, dir.as_os_str().as_bytes());
    }
    for word in &options.words {
        config.push(Text::OptionWord, word);
    }
    let host =
        std::fs::read_link("/proc/self/exe").map_err(|e| Failure::new(1, format!("own executable: {e}")))?;
    config.push(Text::HostPath, host.as_os_str().as_bytes());
    let dir = spool_dir::create().map_err(|e| Failure::new(1, e))?;
    config.push(Text::SpoolDir, dir.as_os_str().as_bytes());

    let log = open_log(&options.log)?;
    let counting = config.get(Number::Tool) == Tool::Callgrind as u64;
    if !options.quiet {
        preamble(&log, counting, &options.command);
    }
    if counting {
        let name = output::expand(&out_file, std::process::id(), &cwd)
            .map_err(|e| bad_pattern("--callgrind-out-file", &pattern, &e))?;
        prove_writable(&name, &log)?;
    }
    let log_fd = make_private(log.into())?;
    config.set(Number::LogFd, log_fd as u64);

    let mut image = AGENT.to_vec();
    config.append_to(&mut image);
    let fd = memory_file(&image)?;
    Ok((fd, program.args))
}

fn expand_variables(pattern: &[u8]) -> Result<Vec<u8>, PatternError> {
    output::expand_variables(pattern, |name| std::env::var_os(std::ffi::OsStr::from_bytes(name)))
}

fn bad_pattern(option: &str, pattern: &[u8], error: &PatternError) -> Failure {
    let usage = super::options::bad(
        format!("{option}={}", String::from_utf8_lossy(pattern)).as_bytes(),
        &error.to_string(),
    );
    Failure { lines: usage.0, status: 1 }
}

/// Where line tables are kept between runs.
fn cache_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|d| !d.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|h| h.join(".cache")))?;
    Some(base.join("tallygraph"))
}

/// The guest's command line as `cmd:` shows it: newline and backslash escaped.
fn command_line(command: &[OsString]) -> Vec<u8> {
    let mut line = Vec::new();
    for (i, word) in command.iter().enumerate() {
        if i > 0 {
            line.push(b' ');
        }
        for &b in word.as_bytes() {
            match b {
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\\' => line.extend_from_slice(b"\\\\"),
                _ => line.push(b),
            }
        }
    }
    line
}

fn open_log(target: &LogTarget) -> Result<File, Failure> {
    match target {
        LogTarget::Fd(fd) => {
            // SAFETY: only duplicates the descriptor; a bad number is an error.
            let copy = unsafe { libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, 3) };
            if copy < 0 {
                return Err(Failure::new(1, format!("--log-fd={fd}: not an open file descriptor")));
            }
            // SAFETY: a fresh descriptor that nobody else owns.
            Ok(unsafe { File::from_raw_fd(copy) })
        }
        LogTarget::File(text) => {
            let cwd = std::env::current_dir().unwrap_or_default();
            let name = expand_variables(text)
                .and_then(|t| output::expand(&t, std::process::id(), &cwd))
                .map_err(|e| bad_pattern("--log-file", text, &e))?;
            File::create(&name).map_err(|e| {
                Failure::new(1, format!("Can't create log file '{}' ({e}); giving up!", name.display()))
            })
        }
    }
}

fn preamble(mut log: &File, counting: bool, command: &[OsString]) {
    let what = if counting {
        "Callgrind, a call-graph generating cache profiler (tallygraph)"
    } else {
        "Nulgrind, the minimal Valgrind tool (tallygraph)"
    };
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    let mut lines = vec![
        what.to_string(),
        "Free software, MIT or Apache-2.0; by the tallygraph contributors.".into(),
        format!("Using tallygraph-{}; rerun with -h for help", env!("CARGO_PKG_VERSION")),
        format!("Command: {}", words.join(" ")),
        String::new(),
    ];
    if counting {
        lines.push("For interactive control, run 'tallygraph control -h'.".into());
    }
    let _ = log.write_all(prefixed(std::process::id(), &lines).as_bytes());
}

/// Creates the profile's file, to prove before the program runs that it can be written.
fn prove_writable(name: &std::path::Path, mut log: &File) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    let open = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(name);
    match open {
        Ok(_) => Ok(()),
        Err(e) => {
            let _ = log.flush();
            let pid = std::process::id();
            let why = e.to_string();
            let why = why.split(" (os error").next().unwrap_or("").to_string();
            let line = format!(
                "=={pid}== Error: can not open cache simulation output file `{}': {why}",
                name.display()
            );
            Err(Failure { lines: vec![line], status: 1 })
        }
    }
}

/// Moves a descriptor to a number that programs do not use. It stays open across the execution of
/// the agent.
fn make_private(fd: OwnedFd) -> Result<RawFd, Failure> {
    const BASE: RawFd = 960;
    // SAFETY: duplicates an owned descriptor; a base above the limit is an error.
    let mut high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, BASE) };
    if high < 0 {
        // SAFETY: as above.
        high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, 3) };
    }
    if high < 0 {
        return Err(Failure::new(
            1,
            format!("no file descriptor is left: {}", std::io::Error::last_os_error()),
        ));
    }
    Ok(high)
}

/// A file without a name that holds `image`.
fn memory_file(image: &[u8]) -> Result<OwnedFd, Failure> {
    // SAFETY: the name is NUL-terminated.
    let fd = unsafe { libc::memfd_create(c"tallygraph".as_ptr(), 0) };
    if fd < 0 {
        return Err(Failure::new(1, format!("memfd_create: {}", std::io::Error::last_os_error())));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(image).map_err(|e| Failure::new(1, format!("the agent's memory: {e}")))?;
    let high = make_private(file.into())?;
    // SAFETY: made just above.
    Ok(unsafe { OwnedFd::from_raw_fd(high) })
}

fn execute(image: OwnedFd, args: &[OsString]) -> Failure {
    let strings: Vec<CString> = args.iter().filter_map(|a| CString::new(a.as_bytes()).ok()).collect();
    let mut argv: Vec<*const libc::c_char> = strings.iter().map(|s| s.as_ptr()).collect();
    argv.push(std::ptr::null());
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    let fd = image.into_raw_fd();
    // SAFETY: all strings are NUL-terminated and the vectors NULL-terminated; the process either
    // becomes the agent or the call fails.
    let error = unsafe {
        // The runtime ignores SIGPIPE; the guest must find what this process was started with.
        restore_sigpipe();
        libc::syscall(libc::SYS_execveat, fd, c"".as_ptr(), argv.as_ptr(), environ, libc::AT_EMPTY_PATH);
        std::io::Error::last_os_error()
    };
    Failure::new(
        1,
        format!(
            "the agent could not be executed from memory ({error}); memory files may be forbidden (vm.memfd_noexec)"
        ),
    )
}

/// Gives SIGPIPE its default action again, unless it was ignored when the process started.
///
/// # Safety
///
/// Changes the process's signal table.
unsafe fn restore_sigpipe() {
    if !super::SIGPIPE_WAS_IGNORED.load(std::sync::atomic::Ordering::Relaxed) {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
}
