//! What holds for every command: exit status, help, manual pages, completions, broken pipes.

use super::{fixtures, out, run};
use std::io::Read;
use std::process::{Command, Stdio};

const COMMANDS: [&str; 6] = ["annotate", "flamegraph", "diff", "report", "export", "validate"];

#[test]
fn help_is_printed_and_wrong_options_are_status_2() {
    for command in COMMANDS {
        assert!(out(&[command, "--help"]).contains("Usage: tallygraph"), "{command}");
        let said = run(&[command, "--no-such-option"]).with_status(2);
        assert!(said.out.is_empty() && said.err.contains("--no-such-option"), "{command}: {}", said.err);
    }
}

#[test]
fn missing_and_malformed_files_are_status_1_and_named() {
    for command in ["annotate", "flamegraph", "report"] {
        let said = run(&[command, "absent.out"]).with_status(1);
        assert!(said.err.contains("absent.out: No such file or directory"), "{command}: {}", said.err);
        let said = run(&[command, "malformed/unknown_line.out"]).with_status(1);
        assert!(said.err.contains("unknown_line.out:7: unknown line `xyz=3`"), "{command}: {}", said.err);
    }
    let said = run(&["annotate", "malformed/empty.out"]).with_status(1);
    assert!(said.err.contains("the file is empty"), "{}", said.err);
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    for command in COMMANDS {
        let page = out(&["man", command]);
        assert!(page.contains(".TH") && page.contains("OPTIONS"), "{command}: {page}");
    }
    assert!(out(&["man"]).contains("SUBCOMMANDS"));
    run(&["man", "no-such-command"]).with_status(2);
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&["completions", shell]);
        assert!(script.contains("flamegraph") && script.contains("fail-above"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tallygraph"))
        .args(["export", "valid/instr_jumps_cache_branch.out", "-f", "jsonl", "--table=lines"])
        .current_dir(fixtures())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert_eq!(said, "");
}
