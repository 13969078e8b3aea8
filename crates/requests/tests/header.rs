//! `include/tallygraph.h` compiles without warnings as C and C++, is silent natively and when it is left
//! out, and is answered by Valgrind where that is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = r#"
#include "tallygraph.h"
int main(void) {
    CALLGRIND_ZERO_STATS;
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_TOGGLE_COLLECT;
    CALLGRIND_STOP_INSTRUMENTATION;
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ADD_DESC("text");
    CALLGRIND_ADD_OBJ_SKIP("/no/such/object");
    VALGRIND_DISCARD_TRANSLATIONS(main, 16);
    if (tallygraph_request(77, 0x4d430000ul, 1, 2, 3, 4, 5) != 77) return 100;
    return VALGRIND_PRINTF("%s %d\n", "said", 42) + (RUNNING_ON_VALGRIND ? 30 : 0);
}
"#;

fn build(name: &str, compiler: &str, words: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&source, PROGRAM).expect("a source");
    let mut c = Command::new(compiler);
    c.args(["-Wall", "-Wextra", "-Werror"]).args(words).arg("-I").arg(root.join("include"));
    let output = c.arg("-o").arg(&program).arg(&source).output().expect("a compiler");
    assert!(output.status.success(), "{c:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it starts")
}

#[test]
fn natively_nothing_happens() {
    let builds: [(&str, &str, &[&str]); 4] = [
        ("c99", "gcc", &["-std=c99", "-O2"]),
        ("cpp", "g++", &["-x", "c++", "-std=c++11"]),
        ("nvalgrind", "gcc", &["-DNVALGRIND"]),
        ("none", "gcc", &["-DTALLYGRAPH_NO_REQUESTS", "-O1"]),
    ];
    for (name, compiler, words) in builds {
        let output = run(&mut Command::new(build(name, compiler, words)));
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{name}");
    }
}

#[test]
fn valgrind_answers() {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success());
    let required = std::env::var_os("REQUIRE_VALGRIND").is_some_and(|v| v != "0");
    assert!(found || !required, "Valgrind is required");
    if !found {
        eprintln!("skipped: Valgrind is not installed");
        return;
    }
    for (name, status) in [("answered", 38), ("unanswered", 0)] {
        let words: &[&str] = if status == 0 { &["-DNVALGRIND"] } else { &["-O2"] };
        let program = build(name, "gcc", words);
        let valgrind = ["-q", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
        let output = run(Command::new("valgrind").args(valgrind).arg(program));
        assert_eq!(output.status.code(), Some(status), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
