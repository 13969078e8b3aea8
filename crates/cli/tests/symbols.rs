//! Names, files and lines in profiles: wherever debug information lies, and for generated code.

mod common;

use common::{command, describe, profile, read, scratch};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"
static __attribute__((noinline)) int hidden(int x) { __asm__ volatile("nop"); return x * 7; }
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 100; i++) sum += hidden(i + argc);
    return sum == 3;
}
"#;

/// A directory with the program built with debug information, as `prog`, and that in `prog.dbg`.
fn built(test: &str) -> PathBuf {
    let dir = scratch(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("prog.c"), PROGRAM).unwrap();
    run(&dir, "gcc", &["-O1", "-g", "-Wl,--build-id=0xabcdef0123456789", "prog.c", "-o", "prog"]);
    run(&dir, "objcopy", &["--only-keep-debug", "prog", "prog.dbg"]);
    dir
}

fn run(dir: &Path, program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).current_dir(dir).output().expect("the program starts");
    assert!(output.status.success(), "{}", describe(program, &output));
}

/// Profiles a file of `dir`; checks that `hidden` is there with its cost and its calls.
fn has_names(dir: &Path, options: &[&str], program: &str) -> String {
    let words = [dir.join(program)];
    let (output, out) = profile(dir, options, &[words[0].to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(program, &output));
    let found = read(&out);
    // imul in one or three instructions, nop, ret: whatever the compiler takes, 100 times.
    let own = found.own_of("hidden");
    assert!(own >= 300 && own.is_multiple_of(100), "{program}: {own}");
    let calls = found.calls.iter().filter(|((_, callee), _)| callee == "hidden");
    assert_eq!(calls.map(|(_, &(count, _))| count).sum::<u64>(), 100, "{program}");
    std::fs::read_to_string(out).unwrap()
}

#[test]
fn debug_information_is_found_wherever_it_lies() {
    let dir = built("symbols-places");
    let own_lines = |text: &str| text.lines().any(|l| l.ends_with("/prog.c"));
    assert!(own_lines(&has_names(&dir, &[], "prog")));

    run(&dir, "objcopy", &["--strip-all", "--add-gnu-debuglink=prog.dbg", "prog", "linked"]);
    assert!(own_lines(&has_names(&dir, &[], "linked")));

    // Moved away: only the extra path leads there.
    run(&dir, "objcopy", &["--strip-all", "prog", "bare"]);
    let place = dir.join("extra/.build-id/ab");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::copy(dir.join("prog.dbg"), place.join("cdef0123456789.debug")).unwrap();
    let extra = format!("--extra-debuginfo-path={}", dir.join("extra").display());
    assert!(own_lines(&has_names(&dir, &[&extra], "bare")));

    // A command fetches what is installed nowhere.
    let script = dir.join("fetch");
    std::fs::write(&script, "#!/bin/sh\necho \"$@\" >>\"$0.words\"\necho \"${0%/*}/prog.dbg\"\n").unwrap();
    run(&dir, "chmod", &["+x", "fetch"]);
    let fetch = format!("--debuginfo-command={} -q", script.display());
    assert!(own_lines(&has_names(&dir, &[&fetch], "bare")));
    let words = std::fs::read_to_string(dir.join("fetch.words")).unwrap();
    let asked = words.lines().filter(|l| *l == "-q debuginfo abcdef0123456789").count();
    assert_eq!(asked, 1, "once for each object: {words}");

    // Off by default.
    std::fs::remove_file(dir.join("fetch.words")).unwrap();
    let (_, out) = profile(&dir, &[], &[dir.join("bare").to_str().unwrap()]);
    assert_eq!(read(&out).own_of("hidden"), 0);
    assert!(!dir.join("fetch.words").exists());

    // Broken debug information costs names, never the profile.
    let mut bytes = std::fs::read(dir.join("prog.dbg")).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    std::fs::write(place.join("cdef0123456789.debug"), bytes).unwrap();
    let (output, out) = profile(&dir, &[&extra], &[dir.join("bare").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(read(&out).total > 1000);
}

#[test]
fn mini_debug_information_names_functions() {
    let dir = built("symbols-mini");
    run(&dir, "objcopy", &["--only-keep-debug", "--strip-debug", "prog", "mini"]);
    if Command::new("xz").arg("--version").output().is_err() {
        eprintln!("skipped: xz is not installed");
        return;
    }
    run(&dir, "xz", &["mini"]);
    run(&dir, "objcopy", &["--strip-all", "--add-section=.gnu_debugdata=mini.xz", "prog", "packed"]);
    has_names(&dir, &[], "packed");
}

#[test]
fn source_paths_are_shown_from_after_a_string() {
    let dir = built("symbols-paths");
    let directory = std::fs::canonicalize(&dir).unwrap();
    let whole = format!("fl=(1) {}/prog.c", directory.display());
    let text = has_names(&dir, &[], "prog");
    assert!(
        text.lines().any(|l| l.split_once(' ').map(|x| x.1) == whole.split_once(' ').map(|x| x.1)),
        "{whole}"
    );
    let option = format!("--fullpath-after={}/", directory.parent().unwrap().display());
    let text = has_names(&dir, &[&option], "prog");
    assert!(text.lines().any(|l| l.ends_with(") symbols-paths/prog.c")), "cut off");
    assert!(!text.contains(&format!("{}/prog.c", directory.display())));
}

/// The interpreter behind a name on the path, when it has perf trampolines.
fn python() -> Option<PathBuf> {
    let names = ["python3", "python3.12", "python3.13", "python3.14"];
    let question = "import sys; sys.activate_stack_trampoline; print(sys.executable)";
    names.iter().find_map(|name| {
        let output = Command::new(name).args(["-c", question]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().into())
    })
}

#[test]
fn functions_of_python_have_names() {
    let Some(python) = python() else {
        eprintln!("skipped: no Python with perf trampolines");
        return;
    };
    let dir = scratch("symbols-python");
    let script = dir.join("fib.py");
    std::fs::write(
        &script,
        "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\ndef other():\n    return fib(10)\n\
         for i in range(3):\n    other()\n",
    )
    .unwrap();
    let words = [python.to_str().unwrap(), "-X", "perf", script.to_str().unwrap()];
    let (output, out) = profile(&dir, &[], &words);
    assert_eq!(output.status.code(), Some(0), "{}", describe("python", &output));
    let found = read(&out);
    let name = |function: &str| format!("py::{function}:{}", script.display());
    let calls = |function: &str| {
        let (plain, deeper) = (name(function), format!("{}'2", name(function)));
        let to = found.calls.iter().filter(|((_, callee), _)| *callee == plain || *callee == deeper);
        to.map(|(_, &(count, _))| count).sum::<u64>()
    };
    // 177 calls make fib(10).
    assert_eq!((calls("other"), calls("fib")), (3, 3 * 177));
}

#[test]
fn functions_of_node_have_names() {
    if command("node").arg("--version").output().is_err() {
        eprintln!("skipped: no node");
        return;
    }
    let dir = scratch("symbols-node");
    let script = dir.join("work.js");
    std::fs::write(
        &script,
        "function work(n) { return n < 2 ? n : work(n - 1) + work(n - 2); }\nlet s = 0;\n\
         for (let i = 0; i < 300; i++) s += work(12);\nconsole.log(s);\n",
    )
    .unwrap();
    let log = format!("--logfile={}", dir.join("v8.log").display());
    let words = ["node", "--perf-basic-prof", "--no-logfile-per-isolate", &log, script.to_str().unwrap()];
    let (output, out) = profile(&dir, &[], &words);
    assert_eq!(output.status.code(), Some(0), "{}", describe("node", &output));
    let found = read(&out);
    let named = found.own.iter().filter(|((_, f), _)| f.contains("work ") && f.contains("work.js"));
    assert!(named.map(|(_, cost)| cost).sum::<u64>() > 100_000);
}

const INLINED: &str = r#"
static inline __attribute__((always_inline)) void inner(void) { __asm__ volatile("nop\n nop"); }
static inline __attribute__((always_inline)) void middle(void) {
    __asm__ volatile("nop");
    inner();
}
__attribute__((noinline)) int outer(int x) {
    middle();
    inner();
    return x + 1;
}
int main(void) {
    for (int i = 0; i < 100; i++) outer(i);
    return 0;
}
"#;

/// Costs in `outer` by the name of the last `cfni=` line.
fn inlined_costs(text: &str) -> std::collections::BTreeMap<String, u64> {
    let mut costs = std::collections::BTreeMap::new();
    let (mut function, mut inlined) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            (function, inlined) = (name.into(), "???".into());
        } else if let Some(name) = line.strip_prefix("cfni=") {
            inlined = name.into();
        } else if function == "outer" && line.starts_with(|c: char| c.is_ascii_digit()) {
            *costs.entry(inlined.clone()).or_insert(0) +=
                line.split_once(' ').unwrap().1.parse::<u64>().unwrap();
        }
    }
    costs
}

#[test]
fn inlined_functions_are_named_on_request_only() {
    let dir = scratch("symbols-inlined");
    std::fs::write(dir.join("prog.c"), INLINED).unwrap();
    run(&dir, "gcc", &["-O1", "-g", "prog.c", "-o", "prog"]);
    let program = dir.join("prog");
    let words = [program.to_str().unwrap()];
    let plain = ["--compress-strings=no", "--compress-pos=no"];
    let text = |options: &[&str]| {
        let (output, out) = profile(&dir, &[&plain, options].concat(), &words);
        assert_eq!(output.status.code(), Some(0), "{}", describe("prog", &output));
        std::fs::read_to_string(out).unwrap()
    };
    assert!(!text(&[]).contains("cfni="));
    assert!(!text(&["--read-inline-info=yes"]).contains("cfni="), "other readers stop on them");
    let named = text(&["--dump-inline=yes"]);
    let costs = inlined_costs(&named);
    // Two nops twice, and one, 100 times; what remains is `outer`'s own.
    assert_eq!((costs["inner"], costs["middle"]), (400, 100), "{costs:?}");
    assert!(costs["???"] >= 100 && costs.len() == 3, "{costs:?}");
    // Our own tools read it.
    let out = dir.join("profile.out");
    let output = command(common::tallygraph()).arg("annotate").arg(&out).output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("inner inlined into outer"), "{table}");
}

#[test]
fn methods_of_java_have_names() {
    let dir = scratch("symbols-java");
    std::fs::write(
        dir.join("Work.java"),
        "public class Work {\n    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n\
         public static void main(String[] words) {\n        int s = 0;\n\
         for (int i = 0; i < 400; i++) s += fib(12);\n        System.out.println(s);\n    }\n}\n",
    )
    .unwrap();
    let built = Command::new("javac").arg("Work.java").current_dir(&dir).status();
    if !built.is_ok_and(|s| s.success()) {
        eprintln!("skipped: no Java compiler");
        return;
    }
    // Its map is written at the end: the writer finds the names.
    let options = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp"];
    let words = [&["java"], &options[..], &[dir.to_str().unwrap(), "Work"]].concat();
    let (output, out) = profile(&dir, &[], &words);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "57600\n", "{}", describe("java", &output));
    let found = read(&out);
    let interpreted = found.own.iter().filter(|((_, f), _)| f.starts_with("Interpreter"));
    assert!(interpreted.map(|(_, cost)| cost).sum::<u64>() > 10_000);
    assert!(found.own.keys().any(|(_, f)| f.contains("Work.fib(int)")));
}
