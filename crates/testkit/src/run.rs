//! Runs one program under equal conditions and keeps everything needed to look into a failure.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// After this long a program counts as hung and is killed. Far above what any test needs.
pub const PATIENCE: Duration = Duration::from_secs(300);

const ADDR_NO_RANDOMIZE: std::ffi::c_ulong = 0x0040000;

unsafe extern "C" {
    fn personality(persona: std::ffi::c_ulong) -> std::ffi::c_int;
    fn kill(pid: i32, signal: i32) -> i32;
}

/// A program, its arguments, its environment, and the directory that it works in.
#[derive(Clone, Debug)]
pub struct Command {
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    dir: PathBuf,
}

impl Command {
    /// A command that works in `dir`, where its output streams are kept too. The environment is
    /// `PATH`, `LC_ALL` and nothing else.
    pub fn new(program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LC_ALL", "C")];
        Command {
            words: vec![program.as_ref().into()],
            environment: environment.iter().map(|(k, v)| (k.into(), v.into())).collect(),
            dir: dir.into(),
        }
    }

    /// Appends an argument.
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Command {
        self.words.push(word.as_ref().into());
        self
    }

    /// Appends arguments.
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, words: I) -> Command {
        self.words.extend(words.into_iter().map(|w| w.as_ref().into()));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Command {
        self.environment.retain(|(k, _)| k != name);
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Removes every variable.
    pub fn empty_environment(mut self) -> Command {
        self.environment.clear();
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Outcome {
        std::fs::create_dir_all(&self.dir).unwrap_or_else(|e| panic!("{}: {e}", self.dir.display()));
        let stream = |name: &str| {
            let path = self.dir.join(name);
            File::create(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        let mut command = std::process::Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .env_clear()
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(stream("stdout"))
            .stderr(stream("stderr"))
            .process_group(0);
        // SAFETY: the closure makes one system call and touches no memory of this process.
        unsafe {
            command.pre_exec(|| match personality(ADDR_NO_RANDOMIZE) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{self}: {e}"));
        let start = Instant::now();
        let mut hung = false;
        let mut pause = Duration::from_micros(200);
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if start.elapsed() > PATIENCE && !hung {
                hung = true;
                // SAFETY: the process group is the child's own, which has not been waited for yet.
                unsafe { kill(-(child.id() as i32), 9) };
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        let read = |name: &str| std::fs::read(self.dir.join(name)).expect("a stream is readable");
        Outcome { status, stdout: read("stdout"), stderr: read("stderr"), hung, command: self }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cd {} && env -i", self.dir.display())?;
        for (name, value) in &self.environment {
            write!(f, " {}={}", name.display(), quoted(value))?;
        }
        write!(f, " setarch -R")?;
        for word in &self.words {
            write!(f, " {}", quoted(word))?;
        }
        Ok(())
    }
}

/// A word as a shell takes it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Whether it had to be killed because it did not end.
    pub hung: bool,
    command: Command,
}

impl Outcome {
    /// Whether it exited with status 0.
    pub fn success(&self) -> bool {
        self.status.success()
    }

    /// Exit status, or the signal that ended it as a negative number.
    pub fn end(&self) -> i32 {
        self.status.code().unwrap_or_else(|| -self.status.signal().unwrap_or(0))
    }

    /// Directory it worked in.
    pub fn dir(&self) -> &Path {
        &self.command.dir
    }
}

/// Command, status, both streams, and where the files are.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "command: {}", self.command)?;
        writeln!(f, "status: {}{}", self.status, if self.hung { " (killed: it did not end)" } else { "" })?;
        for (name, bytes) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let text = String::from_utf8_lossy(bytes);
            let mut lines = text.lines();
            writeln!(f, "--- {name}")?;
            for line in lines.by_ref().take(40) {
                writeln!(f, "{line}")?;
            }
            if let left @ 1.. = lines.count() {
                writeln!(f, "... and {left} more lines")?;
            }
        }
        write!(f, "files: {}", self.command.dir.display())
    }
}
