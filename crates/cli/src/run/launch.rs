//! Becoming the guest: checks, preamble, and the configuration of the agent.

use super::log::Log;
use super::options::{self, LogTarget, Options};
use super::{caches, execute, inherited, program, spool_dir};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tallygraph_wire::config::{Config, Number, Text, Tool};
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
    /// A failure told in one line.
    pub fn new(status: u8, line: String) -> Self {
        Failure { lines: vec![format!("valgrind: {line}")], status }
    }
}

/// Starts the guest; returns only when that fails.
pub fn launch(mut options: Options, traced_path: Option<OsString>) -> Failure {
    match prepare(&mut options, traced_path) {
        Ok((configuration, args)) => execute::execute([AGENT, &configuration], &args),
        Err(failure) => failure,
    }
}

/// The configuration as it follows the agent's image, and the guest's arguments.
fn prepare(
    options: &mut Options,
    traced_path: Option<OsString>,
) -> Result<(Vec<u8>, Vec<OsString>), Failure> {
    let mut command = options.command.clone();
    // A traced child names the file apart from its argument zero.
    let zero = traced_path.map(|path| std::mem::replace(&mut command[0], path));
    let mut program = program::resolve(&command).map_err(|r| Failure::new(r.status, r.line))?;
    if let Some(zero) = zero
        && program.path == program.exec_fn
    {
        program.args[0] = zero;
    }
    let start = std::env::current_dir().map_err(|e| Failure::new(1, format!("current directory: {e}")))?;
    let config = &mut options.config;
    let counting = config.get(Number::Tool) == Tool::Callgrind as u64;
    let notes = if counting { caches::resolve(config) } else { Vec::new() };
    for word in &options.words {
        config.push(Text::OptionWord, word);
    }
    describe_guest(config, &program, &options.command, &start);
    describe_host(config)?;

    let pattern = config.text(Text::OutFile).unwrap_or(b"callgrind.out.%p").to_vec();
    let out_file =
        expand_variables(&pattern).map_err(|e| bad_pattern("--callgrind-out-file", &pattern, &e))?;
    let profile = output::expand(&out_file, std::process::id(), &start)
        .map_err(|e| bad_pattern("--callgrind-out-file", &pattern, &e))?;
    config.clear(Text::OutFile);
    config.push(Text::OutFile, &out_file);

    let log_fd = open_log(&options.log, &start)?;
    config.set(Number::LogFd, log_fd as u64);
    let mut log = Log::inherited(log_fd, std::process::id());
    let to_file = matches!(options.log, LogTarget::File(_));
    if !options.quiet {
        log.lines(&preamble(counting, &options.command, to_file));
    }
    log.notes(&notes);
    if counting {
        prove_writable(&profile).map_err(|e| unwritable(&profile, &e))?;
    }
    let mut configuration = Vec::new();
    config.append_to(&mut configuration);
    Ok((configuration, program.args))
}

/// What the agent needs to know of the program.
fn describe_guest(config: &mut Config, program: &program::Program, command: &[OsString], start: &Path) {
    let path = std::fs::canonicalize(&program.path).unwrap_or_else(|_| program.path.clone());
    config.push(Text::GuestPath, path.as_os_str().as_bytes());
    config.push(Text::ExecFn, program.exec_fn.as_os_str().as_bytes());
    config.push(Text::StartDir, start.as_os_str().as_bytes());
    config.push(Text::CommandLine, &command_line(command));
}

/// How the environment variables begin that a command of `--debuginfo-command` is given.
const WANTED_BY_DEBUGINFOD: [&str; 7] =
    ["DEBUGINFOD_", "HOME", "PATH", "XDG_CACHE_HOME", "LANG", "http", "SSL_CERT"];

/// What the agent and the writer need to know of us.
fn describe_host(config: &mut Config) -> Result<(), Failure> {
    let host = std::fs::read_link("/proc/self/exe");
    let host = host.map_err(|e| Failure::new(1, format!("own executable: {e}")))?;
    config.push(Text::HostPath, host.as_os_str().as_bytes());
    let spools = spool_dir::create().map_err(|e| Failure::new(1, e))?;
    config.push(Text::SpoolDir, spools.as_os_str().as_bytes());
    if let Some(directory) = cache_directory() {
        config.push(Text::CacheDir, directory.as_os_str().as_bytes());
    }
    if config.text(Text::DebuginfoCommand).is_some() {
        // The writer is started without an environment; the command needs its own settings.
        for (name, value) in std::env::vars_os() {
            let mut entry = name.into_vec();
            if !WANTED_BY_DEBUGINFOD.iter().any(|w| entry.starts_with(w.as_bytes())) {
                continue;
            }
            entry.push(b'=');
            entry.extend_from_slice(value.as_bytes());
            config.push(Text::DebuginfoEnvironment, &entry);
        }
    }
    if let Ok(version) = std::env::var("TALLYGRAPH_VERSION") {
        let version = version.strip_prefix("valgrind-").unwrap_or(&version);
        config.push(Text::CreatorVersion, version.as_bytes());
    }
    Ok(())
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

fn expand_variables(pattern: &[u8]) -> Result<Vec<u8>, PatternError> {
    output::expand_variables(pattern, |name| std::env::var_os(OsStr::from_bytes(name)))
}

fn bad_pattern(option: &str, pattern: &[u8], error: &PatternError) -> Failure {
    let word = format!("{option}={}", String::from_utf8_lossy(pattern));
    Failure { lines: options::bad(word.as_bytes(), &error.to_string()).0, status: 1 }
}

/// Where line tables are kept between runs.
fn cache_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|d| !d.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|h| h.join(".cache")))?;
    Some(base.join("tallygraph"))
}

/// Opens the log under a private number.
fn open_log(target: &LogTarget, start: &Path) -> Result<RawFd, Failure> {
    let copy = match target {
        LogTarget::Fd(fd) if !inherited::was_open(*fd) => return Ok(-1),
        LogTarget::Fd(fd) => execute::private_copy(*fd)
            .map_err(|e| Failure::new(1, format!("--log-fd={fd}: {}", options::os_text(&e))))?,
        LogTarget::File(pattern) => {
            let name = expand_variables(pattern)
                .and_then(|t| output::expand(&t, std::process::id(), start))
                .map_err(|e| bad_pattern("--log-file", pattern, &e))?;
            // Several processes may share it.
            let opened = File::create(&name).and_then(|_| OpenOptions::new().append(true).open(&name));
            let file = opened.map_err(|e| {
                let why = options::os_text(&e);
                Failure::new(1, format!("Cannot create log file '{}': {why}", name.display()))
            })?;
            execute::private_copy(file.into_raw_fd()).map_err(|e| Failure::new(1, e.to_string()))?
        }
    };
    Ok(copy.into_raw_fd())
}

/// The first lines of the log.
fn preamble(counting: bool, command: &[OsString], to_file: bool) -> Vec<String> {
    let words: Vec<String> = command.iter().map(|w| shown(w)).collect();
    let mut lines = vec![
        if counting {
            "Callgrind, a call-graph generating cache profiler (tallygraph)"
        } else {
            "Nulgrind, the minimal Valgrind tool (tallygraph)"
        }
        .to_string(),
        "Free software, MIT or Apache-2.0; by the tallygraph contributors.".into(),
        format!("Using tallygraph-{}; rerun with -h for help", env!("CARGO_PKG_VERSION")),
        format!("Command: {}", words.join(" ")),
    ];
    if to_file {
        lines.push(format!("Parent PID: {}", std::os::unix::process::parent_id()));
    }
    lines.push(String::new());
    lines
}

/// A word of the command line as the log shows it: one that a shell reads as one word.
fn shown(word: &OsStr) -> String {
    const PLAIN: &str = "%+,-./:=@_";
    let mut text = String::new();
    for c in word.to_string_lossy().chars() {
        if c.is_control() {
            text.push('_');
            continue;
        }
        if c.is_ascii() && !c.is_ascii_alphanumeric() && !PLAIN.contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

/// Creates the profile's file, to prove before the program runs that it can be written.
fn prove_writable(profile: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(profile).map(drop)
}

fn unwritable(profile: &Path, error: &io::Error) -> Failure {
    let pid = std::process::id();
    let why = options::os_text(error);
    let line =
        format!("=={pid}== Error: can not open cache simulation output file `{}': {why}", profile.display());
    Failure { lines: vec![line], status: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_shown_so_that_a_shell_could_read_it() {
        assert_eq!(shown(OsStr::new("a b")), "a\\ b");
        assert_eq!(shown(OsStr::new("x=1,/y.z")), "x=1,/y.z");
        assert_eq!(shown(OsStr::new("n\nl'é")), "n_l\\'é");
        let lines = preamble(true, &["./a".into(), "x y".into()], true);
        assert!(lines.contains(&"Command: ./a x\\ y".to_string()));
        assert!(lines[lines.len() - 2].starts_with("Parent PID: ") && lines.last().unwrap().is_empty());
    }

    #[test]
    fn the_header_shows_the_command_in_one_line() {
        let words: Vec<OsString> = vec!["./a".into(), "b\nc".into(), "d\\e".into()];
        assert_eq!(command_line(&words), b"./a b\\nc d\\\\e");
    }

    #[test]
    fn an_unset_variable_is_named_with_its_option() {
        let error = expand_variables(b"x%q{NO_SUCH_VARIABLE_HERE}").unwrap_err();
        let failure = bad_pattern("--callgrind-out-file", b"x%q{NO_SUCH_VARIABLE_HERE}", &error);
        assert_eq!(failure.lines[0], "valgrind: Bad option: --callgrind-out-file=x%q{NO_SUCH_VARIABLE_HERE}");
        assert_eq!(failure.lines[1], "valgrind: Environment variable 'NO_SUCH_VARIABLE_HERE' is not set");
    }

    #[test]
    fn a_profile_that_cannot_be_written_is_found_out_first() {
        let path = Path::new("/no/such/directory/out");
        let failure = unwritable(path, &prove_writable(path).unwrap_err());
        let expected =
            "Error: can not open cache simulation output file `/no/such/directory/out': No such file";
        assert!(failure.lines[0].contains(expected) && failure.status == 1, "{:?}", failure.lines);
    }
}
