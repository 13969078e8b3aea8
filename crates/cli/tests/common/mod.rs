//! Builds guests, runs them under tallygraph, and reads profiles with a parser of its own.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The options that must not change a profile.
pub const STRESS: &[&str] = &["no-links", "no-traces", "block=1", "cache=786432", "flush", "no-ibl"];

/// The executable under test.
pub fn tallygraph() -> &'static str {
    env!("CARGO_BIN_EXE_tallygraph")
}

fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests")
}

/// Every guest, by file name.
pub fn all_guests() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(guests())
        .expect("the guests' directory")
        .map(|e| e.expect("an entry").file_name().into_string().expect("a plain name"))
        .filter(|n| n.contains('.') && !n.ends_with(".h"))
        .collect();
    names.sort();
    names
}

/// The source of a guest.
pub fn source(name: &str) -> String {
    std::fs::read_to_string(guests().join(name)).expect("a guest's source")
}

/// A directory of this test for built and written files.
pub fn scratch(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    dir
}

/// Builds a guest; gives its path.
pub fn build(name: &str, dir: &Path) -> PathBuf {
    let program = dir.join(name.replace('.', "_"));
    let (compiler, flags): (&str, &[&str]) = match name.rsplit('.').next() {
        Some("S") => ("gcc", &["-nostdlib", "-static"]),
        Some("c") => ("gcc", &["-O2", "-g", "-w", "-pthread", "-z", "execstack"]),
        Some("cpp") => ("g++", &["-O1", "-g", "-w"]),
        other => panic!("{name}: how is {other:?} built?"),
    };
    let output = Command::new(compiler)
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(guests().join(name))
        .output()
        .unwrap_or_else(|e| panic!("{compiler}: {e}"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A command in a cleared environment, so that counts repeat.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut c = Command::new(program);
    c.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C");
    c
}

/// Runs `words` under tallygraph with options; gives what happened and the profile's path.
pub fn profile(dir: &Path, options: &[&str], words: &[&str]) -> (Output, PathBuf) {
    let out = dir.join("profile.out");
    let _ = std::fs::remove_file(&out);
    // Without address randomisation, so that generated code has the same name each time.
    let output = command("setarch")
        .args(["x86_64", "-R", tallygraph(), "run", "-q"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args(options)
        .args(words)
        .output()
        .expect("tallygraph starts");
    (output, out)
}

/// What a profile says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Sum of all lines.
    pub total: u64,
    /// The `totals:` line.
    pub totals: u64,
    /// Self cost by (object's base name, function).
    pub own: BTreeMap<(String, String), u64>,
    /// Calls and inclusive cost by caller and callee.
    pub calls: BTreeMap<(String, String), (u64, u64)>,
}

impl Profile {
    /// Self cost of a function, whatever its object.
    pub fn own_of(&self, name: &str) -> u64 {
        self.own.iter().filter(|((_, f), _)| f == name).map(|(_, v)| v).sum()
    }

    /// The first entries that differ from another profile's, one line each; empty for equal ones.
    pub fn differences(&self, other: &Profile) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, value) in self.own.iter().chain(&other.own) {
            let theirs = (self.own.get(key), other.own.get(key));
            if theirs.0 != theirs.1 {
                lines.push(format!("self {key:?}: {theirs:?} ({value})"));
            }
        }
        for key in self.calls.keys().chain(other.calls.keys()) {
            let theirs = (self.calls.get(key), other.calls.get(key));
            if theirs.0 != theirs.1 {
                lines.push(format!("edge {key:?}: {theirs:?}"));
            }
        }
        lines.dedup();
        lines.truncate(12);
        lines
    }

    /// Calls and inclusive cost of an edge.
    pub fn edge(&self, from: &str, to: &str) -> (u64, u64) {
        self.calls.get(&(from.into(), to.into())).copied().unwrap_or_default()
    }
}

/// Reads a profile with one event and line positions. The start routine is called `_start`.
pub fn read(path: &Path) -> Profile {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(text.starts_with("# callgrind format\n"), "{}: not a profile", path.display());
    let mut names: BTreeMap<(char, String), String> = BTreeMap::new();
    let mut name = |space: char, text: &str| -> String {
        let Some((id, rest)) = text.strip_prefix('(').and_then(|t| t.split_once(')')) else {
            return text.into();
        };
        match rest.strip_prefix(' ') {
            Some(full) => {
                let old = names.insert((space, id.into()), full.into());
                assert!(old.is_none(), "id {space}({id}) is defined twice");
                full.into()
            }
            None => names
                .get(&(space, id.into()))
                .unwrap_or_else(|| panic!("id {space}({id}) is undefined"))
                .clone(),
        }
    };
    let shown = |n: String| if n == "(below main)" { "_start".to_string() } else { n };
    let mut p = Profile::default();
    let (mut object, mut function, mut callee) = (String::new(), String::new(), String::new());
    let mut calls = None;
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or(("", ""));
        match key {
            "ob" => object = name('o', value).rsplit('/').next().unwrap_or("").to_string(),
            "cob" => drop(name('o', value)),
            "fl" | "fi" | "fe" | "cfi" | "cfl" => drop(name('f', value)),
            "fn" => function = shown(name('n', value)),
            "cfn" => callee = shown(name('n', value)),
            "calls" => calls = value.split(' ').next().and_then(|n| n.parse::<u64>().ok()),
            _ if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) => {
                let cost: u64 = line.split(' ').nth(1).map_or(0, |c| c.parse().expect("a cost"));
                match calls.take() {
                    Some(count) => {
                        let edge =
                            p.calls.entry((function.clone(), std::mem::take(&mut callee))).or_default();
                        edge.0 += count;
                        edge.1 += cost;
                    }
                    None => {
                        p.total += cost;
                        *p.own.entry((object.clone(), function.clone())).or_default() += cost;
                    }
                }
            }
            _ => {
                if let Some(n) = line.strip_prefix("totals: ") {
                    p.totals = n.trim().parse().expect("a total");
                }
            }
        }
    }
    assert_eq!(p.total, p.totals, "{}: lines and totals differ", path.display());
    p
}

/// What to show when a run went wrong.
pub fn describe(what: &str, output: &Output) -> String {
    format!(
        "{what}: {}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
