//! Files, parts and threads: named and ordered as Callgrind's, with the same header lines.

use std::collections::BTreeMap;
use std::path::Path;
use tallygraph_testkit::callgrind::Profile;
use tallygraph_testkit::compile::Guest;
use tallygraph_testkit::scratch;
use tallygraph_testkit::tools::{STRESS, under_callgrind, under_tallygraph, valgrind_for};

/// Header lines of a file whose values are the same for both, in order.
fn header(text: &str) -> Vec<String> {
    const SAME: &[&str] =
        &["# callgrind", "version:", "cmd:", "part:", "thread:", "desc: Trigger", "positions:", "events:"];
    const KEYS: &[&str] = &[
        "creator:",
        "pid:",
        "desc: I1",
        "desc: D1",
        "desc: LL",
        "desc: Timerange: Basic block",
        "summary:",
        "totals:",
    ];
    let key = |l: &str| KEYS.iter().find(|k| l.starts_with(**k)).map(|k| k.to_string());
    let same = |l: &str| SAME.iter().any(|k| l.starts_with(k)).then(|| l.to_string());
    text.lines().filter_map(|l| same(l).or_else(|| key(l))).collect()
}

/// The files in a directory that a run left: header lines, and how often each function called `leaf`.
fn files(dir: &Path) -> BTreeMap<String, (Vec<String>, BTreeMap<String, u64>)> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry"));
    let profiles = entries.filter(|e| e.file_name().to_string_lossy().starts_with("profile.out"));
    profiles
        .map(|e| {
            let text = std::fs::read_to_string(e.path()).expect("a text");
            let mut calls = BTreeMap::new();
            if !text.is_empty() {
                let p = Profile::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", e.path().display()));
                for ((from, to), edge) in p.edges.iter().filter(|((_, to), _)| to.name == "leaf") {
                    calls.insert(format!("{} {}", from.name, to.name), edge.count);
                }
            }
            (e.file_name().to_string_lossy().into_owned(), (header(&text), calls))
        })
        .collect()
}

fn compare(name: &str, options: &[&str]) {
    let Some(valgrind) = valgrind_for(name) else { return };
    let guest = Guest::build("requests_parts.c");
    let words = [&guest.program];
    // Names of one length: the command is in the header.
    let (a, b) = (scratch(&format!("parts/{name}/valgrind")), scratch(&format!("parts/{name}/tallygrp")));
    let theirs = under_callgrind(&valgrind, &a, options, &words);
    assert!(theirs.outcome.success(), "{}", theirs.outcome);
    let ours = under_tallygraph(&b, options, &words);
    assert!(ours.outcome.success(), "{}", ours.outcome);
    let (expected, found) = (files(&a), files(&b));
    assert!(expected.len() > usize::from(!options.contains(&"--combine-dumps=yes")), "{}", theirs.outcome);
    assert!(expected.values().any(|(_, calls)| calls.contains_key("main leaf")), "{expected:?}");
    let names = |f: &BTreeMap<_, _>| f.keys().cloned().collect::<Vec<String>>();
    assert_eq!(names(&found), names(&expected), "{}", ours.outcome);
    for (file, theirs) in &expected {
        assert_eq!(found[file], *theirs, "{file}: {}", ours.outcome);
    }
}

#[test]
fn parts_have_files_of_their_own() {
    compare("plain", &[]);
}

#[test]
fn parts_share_a_file() {
    compare("combined", &["--combine-dumps=yes"]);
}

#[test]
fn threads_have_files_of_their_own() {
    compare("threads", &["--separate-threads=yes"]);
}

#[test]
fn threads_and_parts_share_a_file() {
    compare("threads-combined", &["--separate-threads=yes", "--combine-dumps=yes"]);
}

#[test]
fn lines_are_left_out_and_nothing_is_compressed() {
    let options = ["--dump-instr=yes", "--dump-line=no", "--compress-pos=no", "--compress-strings=no"];
    compare("instructions", &options);
}

#[test]
fn parts_come_after_a_number_of_basic_blocks() {
    let guest = Guest::build("options_calls.c");
    let words = [&guest.program];
    let whole = under_tallygraph(&scratch("parts/every/whole"), &[] as &[&str], &words).profile();
    for stress in std::iter::once(None).chain(STRESS.iter().filter(|s| **s != "block=1").map(Some)) {
        let mut options = vec!["--dump-every-bb=9000".to_string()];
        options.extend(stress.map(|s| format!("--stress={s}")));
        let dir = scratch(&format!("parts/every/{}", stress.unwrap_or(&"none").replace('=', "-")));
        let run = under_tallygraph(&dir, &options, &words);
        let part = |n: u32| dir.join(format!("profile.out.{n}"));
        let mut files: Vec<_> = (1..).map(part).take_while(|f| f.exists()).collect();
        assert!(files.len() > 2, "{stress:?}: {} parts\n{}", files.len(), run.outcome);
        files.push(run.out.clone());
        let (mut total, mut blocks) = (0, 0);
        for (i, file) in files.iter().enumerate() {
            let p = Profile::read(file).unwrap_or_else(|e| panic!("{e}"));
            let desc = &p.header["desc"];
            let trigger = if i + 1 < files.len() { "--dump-every-bb=9000" } else { "Program termination" };
            assert!(desc.contains(&format!("Trigger: {trigger}")), "{}: {desc}", file.display());
            let range = desc.split("Basic block ").nth(1).and_then(|r| r.lines().next()).expect("a range");
            let (from, to) = range.split_once(" - ").expect("two numbers");
            assert_eq!(from.parse(), Ok(blocks), "{}: {range}", file.display());
            blocks = to.parse::<u64>().expect("a number");
            total += p.total();
        }
        assert_eq!(total, whole.total(), "{stress:?} {}", run.outcome);
    }
}
