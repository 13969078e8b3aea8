//! `validate`.

use super::{fixtures, installed, out, run};
use std::process::Command;

#[test]
fn well_formed_files_pass_and_say_who_reads_them() {
    let text = out(&["validate", "valid/plain.out"]);
    assert!(text.starts_with("valid/plain.out: well-formed, 1 part, events Ir\n"), "{text}");
    for consumer in ["KCachegrind", "callgrind_annotate", "gprof2dot", "speedscope", "gungraun"] {
        assert!(text.contains(&format!("{consumer} reads this file")), "{text}");
    }
}

#[test]
fn malformed_lines_are_listed_and_fail() {
    let said = run(&["validate", "malformed/several_lines.out"]).with_status(1);
    assert!(said.out.contains("malformed/several_lines.out:7: unknown line `bad`"), "{}", said.out);
    let document = run(&["validate", "malformed/several_lines.out", "--format=json"]).with_status(1).json();
    assert_eq!(document["files"][0]["well_formed"], false);
    assert_eq!(document["files"][0]["defects"].as_array().unwrap().len(), 3);
    run(&["validate", "absent.out"]).with_status(1);
}

#[test]
fn a_file_can_be_checked_for_one_consumer() {
    run(&["validate", "valid/fork_inline.out"]).with_status(0);
    let said = run(&["validate", "valid/fork_inline.out", "--for=gungraun"]).with_status(1);
    assert!(said.out.contains(":26: gungraun refuses this file: `cfni=` lines are unknown"), "{}", said.out);
    run(&["validate", "valid/fork_inline.out", "--for=kcachegrind"]).with_status(0);
    run(&["validate", "valid/fork_inline.out", "--for=notepad"]).with_status(2);
}

#[test]
fn callgrind_annotate_complains_where_we_say_so() {
    if !installed("callgrind_annotate", "REQUIRE_VALGRIND") {
        return;
    }
    let mut complaints = 0;
    for entry in std::fs::read_dir(fixtures().join("valid")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        // What it says about a profile without source files is a slip of its own.
        if name == "crlf.out" {
            continue;
        }
        let output = Command::new("callgrind_annotate").arg("--auto=no").arg(&path).output().unwrap();
        let theirs = !output.stderr.is_empty();
        let said = run(&["validate", path.to_str().unwrap(), "--format=json"]).with_status(0).json();
        let findings = said["files"][0]["findings"].as_array().unwrap();
        let ours = findings.iter().any(|f| f["consumer"] == "callgrind_annotate");
        assert_eq!(ours, theirs, "{name}: {}", String::from_utf8_lossy(&output.stderr));
        complaints += usize::from(theirs);
    }
    assert!(complaints >= 4, "only {complaints} files drew a complaint");
}
