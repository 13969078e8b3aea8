//! Lines and inline chains at every executed address of real programs, against `addr2line` and, where it
//! is installed, `llvm-symbolizer`.

mod common;

use common::{build, command, describe, profile, scratch, tallygraph};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tallygraph_symbols::object::debug_file_of;
use tallygraph_symbols::{Finder, InlineFrames};

const RUST: &str = r#"
use std::collections::{BTreeMap, BTreeSet};
fn main() {
    let text = "the quick brown fox jumps over the lazy dog and the cat";
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in text.split(' ').cycle().take(500) {
        *counts.entry(word).or_default() += word.len();
    }
    let sorted: BTreeSet<_> = counts.into_iter().collect();
    let mut lines: Vec<String> = sorted.iter().map(|(w, n)| format!("{w}: {n}")).collect();
    lines.sort_by_key(|l| std::cmp::Reverse(l.len()));
    println!("{}", lines.join(", "));
}
"#;

/// Base name of the file, and line, of each frame, innermost first; the line 0 where there is none.
type Frames = Vec<(String, u32)>;

/// Lines by address that the profile shows for the instructions of each object.
fn shown(text: &str) -> BTreeMap<String, BTreeMap<u64, (String, u32)>> {
    let mut objects: BTreeMap<String, BTreeMap<u64, (String, u32)>> = BTreeMap::new();
    let (mut object, mut function_file, mut file) = (String::new(), String::new(), String::new());
    let mut after_calls = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name.into();
        } else if let Some(name) = line.strip_prefix("fl=") {
            (function_file, file) = (name.into(), name.into());
        } else if line.starts_with("fn=") {
            file.clone_from(&function_file);
        } else if let Some(name) = line.strip_prefix("fi=").or_else(|| line.strip_prefix("fe=")) {
            file = name.into();
        } else if line.starts_with("calls=") {
            after_calls = true;
        } else if let Some(rest) = line.strip_prefix("0x") {
            let mut words = rest.split(' ');
            let address = u64::from_str_radix(words.next().unwrap(), 16).unwrap();
            let number = words.next().unwrap().parse().unwrap();
            if !std::mem::take(&mut after_calls) {
                objects.entry(object.clone()).or_default().insert(address, (file.clone(), number));
            }
        }
    }
    objects
}

fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap().to_string()
}

/// Output of a tool that reads one address per line.
fn ask(program: &str, args: &[&str], addresses: &BTreeSet<u64>) -> Option<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let text: String = addresses.iter().map(|a| format!("{a:#x}\n")).collect();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn place(text: &str) -> (String, u32) {
    let text = text.split(" (discriminator").next().unwrap();
    let (file, line) = text.rsplit_once(':').unwrap_or((text, "0"));
    (base(file), line.parse().unwrap_or(0))
}

/// Frames by `addr2line -i`.
fn binutils(file: &Path, addresses: &BTreeSet<u64>) -> BTreeMap<u64, Frames> {
    let text = ask("addr2line", &["-a", "-i", "-e", file.to_str().unwrap()], addresses).expect("addr2line");
    let mut all: BTreeMap<u64, Frames> = BTreeMap::new();
    let mut address = 0;
    for line in text.lines() {
        match line.strip_prefix("0x") {
            Some(digits) => address = u64::from_str_radix(digits, 16).unwrap(),
            // Without debug information it falls back on names of symbols, which have no directory.
            None if line.contains('/') => all.entry(address).or_default().push(place(line)),
            None => all.entry(address).or_default().push(("??".into(), 0)),
        }
    }
    all
}

/// Frames by `llvm-symbolizer`; none when it is not installed.
fn llvm(file: &Path, addresses: &BTreeSet<u64>) -> Option<BTreeMap<u64, Frames>> {
    let object = format!("--obj={}", file.display());
    let args = [&object, "--inlines", "--functions=none", "--output-style=GNU", "--addresses"];
    let text = ask("llvm-symbolizer", &args, addresses)?;
    let mut all: BTreeMap<u64, Frames> = BTreeMap::new();
    let mut address = 0;
    for line in text.lines().filter(|l| !l.is_empty()) {
        match line.strip_prefix("0x").and_then(|d| u64::from_str_radix(d, 16).ok()) {
            Some(a) => address = a,
            None => all.entry(address).or_default().push(place(line)),
        }
    }
    Some(all)
}

/// Profiles a program and compares all of its executed addresses, and those of its libraries, that have
/// debug information.
fn assert_same(name: &str, words: &[&str]) {
    let dir = scratch(&format!("symbols-programs-{name}"));
    let options = ["--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"];
    let (output, out) = profile(&dir, &options, words);
    assert_eq!(output.status.code(), Some(0), "{}", describe(name, &output));
    let finder = Finder::new(&[]);
    let mut compared = 0;
    for (object, lines) in shown(&std::fs::read_to_string(out).unwrap()) {
        let path = PathBuf::from(&object);
        let Some(file) = debug_file_of(&path, b"", &finder) else { continue };
        let Some(inline) = InlineFrames::open(&path, b"", &finder) else { continue };
        let addresses: BTreeSet<u64> = lines.keys().copied().collect();
        let (theirs, others) = (binutils(&file, &addresses), llvm(&file, &addresses));
        if others.is_none() {
            eprintln!("skipped: llvm-symbolizer is not installed");
        }
        let (mut line_differs, mut chain_differs) = (Vec::new(), Vec::new());
        for (&address, (own_file, own_line)) in &lines {
            let all = [Some(&theirs), others.as_ref()];
            let tools: Vec<&Frames> = all.into_iter().flatten().map(|t| &t[&address]).collect();
            let own = (base(own_file), *own_line);
            let known = |t: &&&Frames| t[0].0 != "??";
            let mut answers = tools.iter().filter(known).map(|t| &t[0]).peekable();
            // `addr2line` names the unit's file for functions whose tree lies in another unit or file.
            let only_lines = others.is_none() && file != path;
            let files_count = !only_lines && own.1 != 0 && answers.peek().is_some();
            let same_line = answers.clone().all(|a| a.1 == own.1);
            if !same_line || files_count && !answers.any(|a| a.0 == own.0) {
                line_differs.push((address, own, tools.iter().map(|t| t[0].clone()).collect::<Vec<_>>()));
            }
            let frames: Frames = inline
                .frames(address)
                .into_iter()
                .map(|f| (base(f.file.as_deref().unwrap_or("??")), f.line))
                .collect();
            // One of the tools is enough: they disagree where code has line 0.
            let same = |t: &Frames| {
                let mut pairs = t.iter().zip(&frames);
                t.len() == frames.len() && pairs.all(|(a, b)| a.1 == b.1 && (only_lines || a.0 == b.0))
            };
            if !tools.iter().any(|t| same(t) || !known(&t)) {
                chain_differs.push((address, frames, tools.into_iter().cloned().collect::<Vec<_>>()));
            }
        }
        compared += lines.len();
        println!(
            "{name} {object}: {} addresses, {} lines and {} chains differ",
            lines.len(),
            line_differs.len(),
            chain_differs.len()
        );
        assert!(line_differs.is_empty(), "{object}: {:#x?}", &line_differs[..line_differs.len().min(5)]);
        assert!(chain_differs.is_empty(), "{object}: {:#x?}", &chain_differs[..chain_differs.len().min(5)]);
    }
    assert!(compared > 100, "{name}: {compared} addresses");
}

#[test]
fn a_program_in_c() {
    let program = build("threads_processes.c", &scratch("symbols-c"));
    assert_same("c", &[program.to_str().unwrap()]);
}

#[test]
fn a_program_in_cpp() {
    let program = build("unwind_exceptions.cpp", &scratch("symbols-cpp"));
    assert_same("cpp", &[program.to_str().unwrap()]);
}

#[test]
fn a_program_in_rust() {
    let dir = scratch("symbols-rust");
    std::fs::write(dir.join("prog.rs"), RUST).unwrap();
    for version in ["4", "5"] {
        // `addr2line` of binutils loses its way in what rustc writes as DWARF 5.
        if version == "5" && Command::new("llvm-symbolizer").arg("--version").output().is_err() {
            eprintln!("skipped: llvm-symbolizer is not installed");
            continue;
        }
        let built = Command::new("rustc")
            .args(["-g", "-O", "prog.rs", "-C", &format!("dwarf-version={version}"), "-o", "prog"])
            .current_dir(&dir)
            .stderr(Stdio::null())
            .status();
        if !built.is_ok_and(|s| s.success()) {
            eprintln!("skipped: rustc cannot write DWARF {version}");
            continue;
        }
        assert_same("rust", &[dir.join("prog").to_str().unwrap()]);
    }
}

#[test]
fn this_program_itself() {
    assert_same("own", &[tallygraph(), "--version"]);
}

#[test]
fn a_program_of_the_system() {
    assert_same("bash", &["/bin/bash", "-c", "for i in 1 2 3; do printf '%d\\n' $i; done"]);
}

/// Functions of the compiler's start files. Valgrind passes over their symbols, which have no size or no
/// kind, and shows addresses.
const START_FILES: &[&str] =
    &["__do_global_dtors_aux", "_fini", "_init", "deregister_tm_clones", "register_tm_clones", "frame_dummy"];

/// Names of a program's own functions in a profile with whole names, without levels of recursion.
fn own_names(text: &str, program: &Path) -> BTreeSet<String> {
    let own = format!("ob={}", std::fs::canonicalize(program).unwrap().display());
    let (mut names, mut in_own) = (BTreeSet::new(), false);
    for line in text.lines() {
        if line.starts_with("ob=") {
            in_own = line == own;
        } else if let Some(name) = line.strip_prefix("fn=").filter(|_| in_own) {
            names.insert(name.trim_end_matches("'2").to_string());
        }
    }
    names
}

fn assert_named_as_by_valgrind(program: &Path, dir: &Path, least: usize) {
    let word = program.to_str().unwrap();
    let (output, out) = profile(dir, &["--compress-strings=no"], &[word]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(word, &output));
    let mut ours = own_names(&std::fs::read_to_string(out).unwrap(), program);
    let out = dir.join("valgrind.out");
    let status = command("valgrind")
        .args(["-q", "--tool=callgrind", "--compress-strings=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .stdout(Stdio::null())
        .status();
    if status.is_err() {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind is required and not installed");
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let mut theirs = own_names(&std::fs::read_to_string(out).unwrap(), program);
    ours.retain(|n| !START_FILES.contains(&n.as_str()));
    theirs.retain(|n| !n.starts_with("0x"));
    assert!(theirs.len() >= least, "{theirs:#?}");
    assert_eq!(ours, theirs);
}

#[test]
fn names_are_valgrinds() {
    let dir = scratch("symbols-names");
    let program = build("unwind_exceptions.cpp", &dir);
    assert_named_as_by_valgrind(&program, &dir, 5);
    std::fs::write(dir.join("prog.rs"), RUST).unwrap();
    let built = Command::new("rustc").args(["-g", "prog.rs", "-o", "prog"]).current_dir(&dir).status();
    assert!(built.is_ok_and(|s| s.success()), "rustc, which built this test");
    // Without optimisation there are hundreds of functions.
    assert_named_as_by_valgrind(&dir.join("prog"), &dir, 200);
}
