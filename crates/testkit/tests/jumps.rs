//! `--collect-jumps`: branches and jumps, how often each was taken, as Callgrind has them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use tallygraph_testkit::compile::Guest;
use tallygraph_testkit::tools::{
    STRESS, TUNABLES, in_environment, tallygraph, under_tallygraph, valgrind_for, valgrind_preload,
};
use tallygraph_testkit::{scratch, skipped_unless_required};

/// Function, position of the branch, position of the target, and `jump` or `jcnd`; how often it was taken, and how
/// often it was reached (0 for `jump`).
type Jumps = BTreeMap<(String, String, String, String), (u64, u64)>;

const OPTIONS: &[&str] = &["--collect-jumps=yes", "--compress-strings=no", "--compress-pos=no"];

/// The jumps of an object in a profile that is not compressed.
fn jumps(path: &Path, object: &str) -> Jumps {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (mut own, mut function, mut pending) = (false, String::new(), None);
    let mut all = Jumps::new();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or(("", line));
        match key {
            "ob" => own = value.rsplit('/').next() == Some(object),
            "fn" => function = value.to_string(),
            "jump" | "jcnd" => {
                let (counts, target) = value.split_once(' ').expect("a target");
                let (taken, reached) = counts.split_once('/').unwrap_or((counts, "0"));
                let number = |n: &str| n.parse::<u64>().expect("a number");
                pending = Some((key.to_string(), target.trim().to_string(), number(taken), number(reached)));
            }
            "" => {
                if let Some((kind, target, taken, reached)) = pending.take()
                    && own
                {
                    let key = (function.clone(), line.trim().to_string(), target, kind);
                    let sum = all.entry(key).or_default();
                    *sum = (sum.0 + taken, sum.1 + reached);
                }
            }
            _ => {}
        }
    }
    all
}

#[test]
fn counts_are_those_of_the_source_whatever_the_engine_does() {
    let guest = Guest::build("jumps_counted.S");
    let source = std::fs::read_to_string(tallygraph_testkit::guests_dir().join("jumps_counted.S")).unwrap();
    let line = |text: &str| 1 + source.lines().position(|l| l.trim() == text).expect(text);
    let after = |text: &str, n: usize| (line(text) + n).to_string();
    let mut expected = Jumps::new();
    let mut state = |from: String, to: String, kind: &str, taken, reached| {
        expected.insert(("main".into(), from, to, kind.into()), (taken, reached));
    };
    state(after("jz 2f", 0), after("2:  cmp $3, %ebx", 0), "jcnd", 5, 10);
    state(after("jne 3f", 0), after("3:  inc %ecx", 0), "jcnd", 9, 10);
    state(after("jmp 4f", 0), after("4:  dec %ebx", 0), "jump", 1, 0);
    state(after("jnz 1b", 0), after("1:  test $1, %bl", 0), "jcnd", 9, 10);
    state(after("jz 7f", 0), after("7:  jmp *%rax", 0), "jcnd", 2, 5);
    state(after("7:  jmp *%rax", 0), after("6:  nop", 0), "jump", 2, 0);
    state(after("7:  jmp *%rax", 0), after("8:  dec %ebx", 0), "jump", 3, 0);
    state(after("jnz 5b", 0), after("5:  lea 6f(%rip), %rax", 0), "jcnd", 4, 5);
    state(after("9:  loop 9b", 0), after("9:  loop 9b", 0), "jcnd", 3, 4);
    for stress in std::iter::once(None).chain(STRESS.iter().map(Some)) {
        let mut options: Vec<String> = OPTIONS.iter().map(|o| o.to_string()).collect();
        options.extend(stress.map(|s| format!("--stress={s}")));
        let dir = scratch(&format!("jumps/stated-{}", stress.unwrap_or(&"none").replace('=', "-")));
        let run = under_tallygraph(&dir, &options, &[&guest.program]);
        run.profile();
        assert_eq!(jumps(&run.out, "jumps_counted"), expected, "{stress:?} {}", run.outcome);
    }
}

/// A program's own jumps are Callgrind's, by instruction; how often a branch was reached is left out, since Callgrind
/// tells it for each of its basic blocks.
fn compare(name: &str, object: &str, words: &[OsString]) {
    let Some(valgrind) = valgrind_for(name) else { return };
    let variables = [
        ("PATH", "/usr/bin:/bin"),
        ("LC_ALL", "C"),
        ("GLIBC_TUNABLES", TUNABLES),
        ("LD_BIND_NOW", "1"),
        ("PERL_HASH_SEED", "0"),
        ("PERL_PERTURB_KEYS", "0"),
    ];
    let mut options = OPTIONS.to_vec();
    options.extend(["--dump-instr=yes", "--dump-line=no"]);
    let preload = valgrind_preload(&valgrind);
    let run = |profiler: &Path, side| {
        let dir = scratch(&format!("jumps/{name}/{side}"));
        let mut variables = variables.to_vec();
        if side == "tallygrp" {
            variables.push(("LD_PRELOAD", preload));
        }
        let run = in_environment(profiler, &dir, &variables, &options, words);
        assert!(run.outcome.success(), "{name}: {}", run.outcome);
        let nameless = |f: &str| {
            f.starts_with("0x") || ["_init", "register_tm_clones", "deregister_tm_clones"].contains(&f)
        };
        // A repeated string instruction is a loop to Callgrind.
        let shown = |(f, from, to, _): &(String, String, String, String)| !nameless(f) && from != to;
        let all = jumps(&run.out, object).into_iter().filter(|(key, _)| shown(key));
        all.map(|(key, (taken, _))| (key, taken)).collect::<BTreeMap<_, _>>()
    };
    let (expected, found) = (run(&valgrind, "valgrind"), run(&tallygraph(), "tallygrp"));
    assert!(expected.len() > 8, "{name}: only {} jumps", expected.len());
    let differ = |key: &&(String, String, String, String)| expected.get(*key) != found.get(*key);
    let wrong: Vec<_> = expected.keys().chain(found.keys()).filter(differ).collect();
    let values = |key| (key, expected.get(key), found.get(key));
    assert!(
        wrong.is_empty(),
        "{name}: {} of {} differ: {:#?}",
        wrong.len(),
        expected.len(),
        wrong.iter().take(12).map(|k| values(k)).collect::<Vec<_>>()
    );
}

#[test]
fn a_program_in_c() {
    compare("c", "options_calls", &[Guest::build("options_calls.c").program.into_os_string()]);
}

#[test]
fn a_program_in_cpp() {
    compare("cpp", "programs_virtual", &[Guest::build("programs_virtual.cpp").program.into_os_string()]);
}

#[test]
fn perl() {
    let script = "my %h; $h{$_ % 17} .= chr(65 + $_ % 26) for 1 .. 60; print join(',', sort keys %h);";
    if !Path::new("/usr/bin/perl").exists() {
        return skipped_unless_required("perl", "it is not installed");
    }
    compare("perl", "perl", &["/usr/bin/perl", "-e", script].map(OsString::from));
}
