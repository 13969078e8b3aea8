//! Client requests from C, C++ and Rust, natively, under tallygraph, and under Valgrind where it is
//! installed.

#[path = "../common/mod.rs"]
mod common;

use common::{command, describe, profile, read, scratch};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requests").join(name)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run_compiler(compiler: &mut Command) {
    let output = compiler.output().unwrap_or_else(|e| panic!("{compiler:?}: {e}"));
    assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Builds the C program with these words; warnings are errors.
fn build_c(compiler: &str, words: &[&str], program: &Path) -> String {
    let mut c = Command::new(compiler);
    c.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror"]).args(words).arg("-I").arg(root().join("include"));
    c.arg("-o").arg(program).arg(here("c_requests.c"));
    run_compiler(&mut c);
    program.to_str().expect("a plain path").into()
}

fn has_valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success());
    let required = std::env::var_os("REQUIRE_VALGRIND").is_some_and(|v| v != "0");
    assert!(found || !required, "Valgrind is required");
    found
}

/// The log without process numbers and without the high digits of addresses, which the load address
/// decides.
fn plain(log: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(log);
    text.lines()
        .map(|line| {
            let line = match line.get(2..).and_then(|l| l.find(['=', '*'])) {
                Some(end) if line.starts_with("==") || line.starts_with("**") => &line[end + 5..],
                _ => line,
            };
            match line.split_once("0x") {
                Some((before, after)) if before.ends_with("at ") || before.ends_with("by ") => {
                    let (address, name) = after.split_once(':').expect("an address and a name");
                    format!("{before}{}:{name}", &address[address.len() - 3..])
                }
                _ => line.to_string(),
            }
        })
        .collect()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn c_and_cpp_requests_print_as_under_valgrind() {
    let dir = scratch("requests_print");
    let builds: [(&str, &[&str]); 4] = [
        ("gcc", &["-std=gnu99", "-no-pie"]),
        ("gcc", &["-O2", "-std=c17"]),
        ("g++", &["-x", "c++", "-std=c++11"]),
        ("g++", &["-x", "c++", "-O0"]),
    ];
    for (i, (compiler, words)) in builds.iter().enumerate() {
        let program = build_c(compiler, words, &dir.join(format!("build{i}")));
        let native = command(&program).output().expect("it starts");
        assert!(native.status.success());
        assert!(stdout(&native).starts_with("running 0\nprinted 0\nprinted 0\n"), "{}", stdout(&native));
        assert!(native.stderr.is_empty());
        let (output, out) = profile(&dir, &[], &[&program]);
        assert!(output.status.success(), "{}", describe(&program, &output));
        let said = stdout(&output);
        assert!(said.ends_with("unknown 77\nunknown 77\n"), "{said}");
        let log = plain(&output.stderr);
        let first = "[   42] [42   ] [00042] [ff] [0xff] [123456789012] [-5] [x] [str] [     right] [left  ] [%] \
                     [4000000000] [0000abcd] [ 2.25]";
        assert_eq!(log[..3], [first, "no line end and the rest", "and a second line"]);
        let counts = format!("running 1\nprinted {}\nprinted 11\nprinted 32\nprinted 4\n", first.len() + 1);
        assert!(said.starts_with(&counts), "{said}");
        assert!(read(&out).total > 1000);
        for function in ["leaf", "middle", "main"] {
            let line = log.iter().find(|l| l.contains(&format!(": {function}"))).expect("a frame");
            assert!(line.contains("c_requests.c:"), "{line}");
        }
        if has_valgrind() {
            let under = command("valgrind")
                .args(["-q", "--tool=callgrind", "--callgrind-out-file=/dev/null", &program])
                .output()
                .expect("Valgrind starts");
            assert_eq!(stdout(&under), said);
            assert_eq!(plain(&under.stderr), log, "{compiler} {words:?}");
        }
    }
}

#[test]
fn requests_left_out_at_compile_time_give_their_defaults() {
    let dir = scratch("requests_none");
    for flag in ["-DNVALGRIND", "-DTALLYGRAPH_NO_REQUESTS"] {
        let program = build_c("gcc", &[flag], &dir.join("none"));
        let (output, _) = profile(&dir, &[], &[&program]);
        assert!(stdout(&output).starts_with("running 0\nprinted 0\n"), "{}", describe(flag, &output));
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn descriptions_are_in_the_next_part_and_no_other() {
    let dir = scratch("requests_parts");
    let program = build_c("gcc", &[], &dir.join("parts"));
    let (output, out) = profile(&dir, &[], &[&program, "parts"]);
    assert!(output.status.success(), "{}", describe("parts", &output));
    let part = |n: u32| PathBuf::from(format!("{}.{n}", out.display()));
    let header = |path: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("a part");
        let lines = text.lines().take_while(|l| !l.starts_with("positions:"));
        let cache = |l: &&str| l.contains(" cache:") || l.contains("Timerange:");
        lines.filter(|l| l.starts_with("desc: ")).filter(|l| !cache(l)).map(|l| l[6..].to_string()).collect()
    };
    assert_eq!(header(&part(1)), ["Trigger: Client Request: first", "for the first", "two lines"]);
    assert_eq!(header(&part(2)), ["Trigger: Client Request"]);
    assert_eq!(header(&out), ["Trigger: Program termination", "for the last"]);
    // What was counted when.
    let [first, second, last] = [read(&part(1)), read(&part(2)), read(&out)];
    let calls = |p: &common::Profile| ["before", "during", "after"].map(|f| p.edge("main", f).0);
    assert_eq!([calls(&first), calls(&second), calls(&last)], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
}

#[test]
fn rust_requests_are_answered() {
    let dir = scratch("requests_rust");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library = dir.join("libtallygraph_requests.rlib");
    let mut c = Command::new(&rustc);
    c.args(["--edition=2024", "-O", "--crate-type=rlib", "--crate-name=tallygraph_requests", "-o"]);
    c.arg(&library).arg(root().join("crates/requests/src/lib.rs"));
    run_compiler(&mut c);
    let program = dir.join("rust");
    let mut c = Command::new(&rustc);
    c.args(["--edition=2024", "-O", "-g", "--extern"]);
    c.arg(format!("tallygraph_requests={}", library.display())).arg("-o").arg(&program);
    c.arg(here("rust_requests.rs"));
    run_compiler(&mut c);
    let program = program.to_str().expect("a plain path");
    let native = command(program).output().expect("it starts");
    assert_eq!(stdout(&native), "running false\nprinted false\nprinted false\nunknown 77\n");
    let (output, out) = profile(&dir, &["--instr-atstart=no"], &[program]);
    assert_eq!(stdout(&output), "running true\nprinted true\nprinted true\nunknown 77\n");
    let log = plain(&output.stderr);
    assert_eq!(log[..3], ["a line 7".to_string(), "x".repeat(700), "where".to_string()]);
    assert!(log[3].starts_with("   at "), "{log:?}");
    let part = PathBuf::from(format!("{}.1", out.display()));
    let text = std::fs::read_to_string(&part).expect("a part");
    assert!(text.contains("\ndesc: Trigger: Client Request: part\ndesc: of the part\n"));
    let p = read(&part);
    let own =
        |name: &str| -> u64 { p.own.iter().filter(|((_, f), _)| f.contains(name)).map(|(_, c)| c).sum() };
    assert!(own("during") > 0);
    assert_eq!(own("before"), 0);
    if has_valgrind() {
        let under = command("valgrind")
            .args(["-q", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null", program])
            .output()
            .expect("Valgrind starts");
        assert_eq!(stdout(&under), stdout(&output));
        assert_eq!(plain(&under.stderr)[..3], log[..3]);
    }
}
