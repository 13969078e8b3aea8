//! Feeds the reader damaged and random text: it answers, never panics, and what it accepts it can
//! write back.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::fs;
use std::path::Path;
use tallygraph_profile::graph::CallGraph;
use tallygraph_profile::{read, validate, write};

fn corpus() -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    for kind in ["valid", "malformed"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind);
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        texts.extend(paths.iter().map(|p| fs::read(p).unwrap()));
    }
    texts
}

/// Reads in whole and in small pieces; both must agree, and an accepted text must survive writing.
fn check(text: &[u8]) {
    let small = read::Options { piece_bytes: 7, ..read::Options::default() };
    let whole = read::bytes("text", text);
    let cut = read::bytes_with("text", text, small);
    match (whole, cut) {
        (Ok(whole), Ok(cut)) => {
            assert!(whole == cut, "pieces differ: {}", String::from_utf8_lossy(text));
            let written = write::callgrind(&whole);
            let again = read::bytes("text", &written).unwrap_or_else(|e| {
                panic!("refused what was written: {e}\n{}", String::from_utf8_lossy(&written))
            });
            assert!(whole == again, "not written back equal: {}", String::from_utf8_lossy(text));
            let graph = CallGraph::of(&whole);
            assert!(graph == CallGraph::of(&again), "graphs differ: {}", String::from_utf8_lossy(text));
            let _ = validate::findings(&whole);
        }
        (Err(whole), Err(cut)) => assert_eq!(whole.to_string(), cut.to_string()),
        (whole, cut) => panic!("{:?} and {:?} for {}", whole.err(), cut.err(), String::from_utf8_lossy(text)),
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Replace(usize, u8),
    Insert(usize, Vec<u8>),
    Delete(usize, usize),
    DuplicateLine(usize),
    Truncate(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let words = prop::sample::select(vec![
        "fn=",
        "cfn=(1)",
        "calls=1 1\n",
        "(1)",
        "\n",
        "+",
        "-",
        "*",
        "0x",
        "99999999999999999999",
        "events: ",
        "events: Ir\n",
        "jcnd=1/2 ",
        "summary: ",
        "totals: 1\n",
        "part: 2\n",
        " ",
        "\r",
        "#",
        ":",
        "cfni=",
        "ob=",
        "positions: instr line\n",
        "=(",
        "\u{fffd}",
    ]);
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        (any::<usize>(), words).prop_map(|(at, word)| Edit::Insert(at, word.as_bytes().to_vec())),
        (any::<usize>(), 1..30usize).prop_map(|(at, n)| Edit::Delete(at, n)),
        any::<usize>().prop_map(Edit::DuplicateLine),
        any::<usize>().prop_map(Edit::Truncate),
    ]
}

fn apply(text: &mut Vec<u8>, edit: &Edit) {
    if text.is_empty() {
        return;
    }
    let n = text.len();
    match edit {
        Edit::Replace(at, byte) => text[at % n] = *byte,
        Edit::Insert(at, word) => drop(text.splice(at % n..at % n, word.iter().copied())),
        Edit::Delete(at, count) => drop(text.drain(at % n..(at % n + count).min(n))),
        Edit::DuplicateLine(at) => {
            let start = text[..at % n].iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
            let end = text[at % n..].iter().position(|&b| b == b'\n').map_or(n, |i| at % n + i + 1);
            let line = text[start..end].to_vec();
            drop(text.splice(start..start, line));
        }
        Edit::Truncate(at) => text.truncate(at % n),
    }
}

proptest! {
    #![proptest_config(Config { cases: 3000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..Config::default() })]

    #[test]
    fn damaged_profiles_do_not_confuse_the_reader(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 1..6),
    ) {
        let corpus = corpus();
        let mut text = which.get(&corpus).clone();
        for edit in &edits {
            apply(&mut text, edit);
        }
        check(&text);
    }

    #[test]
    fn random_lines_do_not_confuse_the_reader(
        lines in prop::collection::vec("(fn=|cfn=|fl=|ob=|calls=|[+*-]?[0-9]{0,3} |events: |jump=|\\([0-9]\\) ?)[a-z0-9 ()+*-]{0,8}", 0..20),
    ) {
        check(format!("events: Ir Dr\n{}\n", lines.join("\n")).as_bytes());
    }
}
