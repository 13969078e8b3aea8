//! The commands that read profiles, run as a user runs them.

mod annotate;
mod consumers;
mod diff;
mod export;
mod flamegraph;
mod general;
mod validate;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a command said.
struct Said {
    command: String,
    status: i32,
    out: String,
    err: String,
}

impl Said {
    fn of(command: String, output: Output) -> Said {
        Said {
            command,
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Checks the exit status and returns what was printed.
    #[track_caller]
    fn with_status(self, status: i32) -> Said {
        assert_eq!(self.status, status, "{}\n{}\n{}", self.command, self.out, self.err);
        self
    }

    #[track_caller]
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{}: {e}\n{}", self.command, self.out))
    }
}

/// `tallygraph` with arguments, and variables that decide on colour set as given.
fn run_with(arguments: &[&str], variables: &[(&str, &str)]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallygraph"));
    command.args(arguments).current_dir(fixtures());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS", "CI"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let output = command.output().expect("tallygraph can be started");
    Said::of(format!("tallygraph {}", arguments.join(" ")), output)
}

fn run(arguments: &[&str]) -> Said {
    run_with(arguments, &[])
}

/// Runs and expects success; returns standard output.
#[track_caller]
fn out(arguments: &[&str]) -> String {
    run(arguments).with_status(0).out
}

/// The fixtures of the profile crate, which is also the working directory of the commands.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/tests/fixtures")
}

/// A folder of its own for a test, emptied first.
fn scratch(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tools-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a file into a scratch folder and returns its path as text.
fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

/// Compares with a stored text; `BLESS=1` rewrites it.
#[track_caller]
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; run with BLESS=1 to create it", path.display()));
    assert_eq!(found, expected, "{} differs; run with BLESS=1 to rewrite it", path.display());
}

/// Whether a program is installed; otherwise says that something is skipped, or fails where
/// `variable` is set.
fn installed(program: &str, variable: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        assert!(std::env::var_os(variable).is_none(), "{program} is required by {variable}");
        eprintln!("skipped: {program} is not installed");
    }
    found
}
