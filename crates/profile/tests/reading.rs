//! Reads the fixtures: valid ones come back equal, malformed ones are refused with a reason.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use tallygraph_profile::Profile;
use tallygraph_profile::graph::CallGraph;
use tallygraph_profile::read::{self, Options, ReadError};
use tallygraph_profile::write;

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "out"))
        .collect();
    files.sort();
    assert!(files.len() > 10, "only {} fixtures in {}", files.len(), folder.display());
    files
}

fn read_fixture(name: &str) -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/valid").join(name);
    read::bytes(name, &fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn what_is_read_is_written_back_equal() {
    for path in fixtures("valid") {
        let text = fs::read(&path).unwrap();
        let profile = read::bytes("first", &text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let written = write::callgrind(&profile);
        let again = read::bytes("second", &written).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(profile, again, "{}", path.display());
        assert_eq!(CallGraph::of(&profile), CallGraph::of(&again), "{}", path.display());
    }
}

#[test]
fn files_by_callgrind_come_back_byte_for_byte() {
    let mut seen = 0;
    for path in fixtures("valid") {
        let text = fs::read_to_string(&path).unwrap();
        if text.contains("creator: callgrind-") {
            seen += 1;
            let profile = read::bytes("fixture", text.as_bytes()).unwrap();
            let written = String::from_utf8(write::callgrind(&profile)).unwrap();
            assert_eq!(written, text, "{}", path.display());
        }
    }
    assert!(seen >= 9, "only {seen} files by Callgrind");
}

#[test]
fn the_size_of_pieces_does_not_matter() {
    for path in fixtures("valid") {
        let text = fs::read(&path).unwrap();
        let whole = read::bytes("fixture", &text).unwrap();
        for piece_bytes in [1, 40, 300] {
            let options = Options { piece_bytes, ..Options::default() };
            let cut = read::bytes_with("fixture", &text, options).unwrap();
            assert_eq!(whole, cut, "{} in pieces of {piece_bytes} bytes", path.display());
            assert_eq!(whole.remarks, cut.remarks, "{}", path.display());
            assert_eq!(CallGraph::of(&whole), CallGraph::of(&cut), "{}", path.display());
        }
    }
}

#[test]
fn malformed_lines_are_named_by_number_and_reason() {
    let mut report = String::new();
    for path in fixtures("malformed") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read(&path).unwrap();
        match read::bytes(name, &text) {
            Ok(_) => panic!("{name} was accepted"),
            Err(error) => writeln!(report, "{error}").unwrap(),
        }
        for piece_bytes in [1, 20] {
            let cut = read::bytes_with(name, &text, Options { piece_bytes, ..Options::default() });
            let whole = read::bytes(name, &text).unwrap_err().to_string();
            assert_eq!(cut.unwrap_err().to_string(), whole, "{name} in pieces of {piece_bytes} bytes");
        }
    }
    golden("malformed.txt", &report);
}

/// Compares with a file beside the fixtures; `BLESS=1` rewrites it.
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; run with BLESS=1 to create it", path.display()));
    assert_eq!(found, expected, "{} differs; run with BLESS=1 to rewrite it", path.display());
}

#[test]
fn a_missing_file_is_named() {
    let error = read::file(Path::new("/nonexistent/callgrind.out.1"), Options::default()).unwrap_err();
    assert!(matches!(error, ReadError::Io { .. }));
    assert!(error.to_string().starts_with("/nonexistent/callgrind.out.1: "), "{error}");
}

#[test]
fn files_are_read_like_bytes() {
    for path in fixtures("valid") {
        let mapped = read::file(&path, Options::default()).unwrap();
        let bytes = read::bytes("bytes", &fs::read(&path).unwrap()).unwrap();
        assert_eq!(mapped, bytes);
    }
}

#[test]
fn header_fields_are_understood() {
    let profile = read_fixture("instr_jumps_cache_branch.out");
    let header = &profile.parts[0].header;
    assert!(header.columns.instr && header.columns.line);
    assert_eq!(header.events.len(), 13);
    assert_eq!(header.pid, Some(100));
    assert_eq!(header.trigger().as_deref(), Some("Program termination"));
    let combined = read_fixture("combined_dumps.out");
    let totals: Vec<_> = combined.parts.iter().map(|p| p.header.totals.clone().unwrap()).collect();
    assert_eq!(totals, [vec![430], vec![156]]);
    let formulas = read_fixture("formulas.out");
    assert_eq!(formulas.definitions()[2].formula.as_ref().unwrap().to_string(), "Ir + 10 L1m");
    assert_eq!(read_fixture("separate_threads.out").parts[0].header.thread, Some(1));
}

#[test]
fn two_profiles_appended_by_xdebug_keep_their_own_names() {
    let profile = read_fixture("xdebug3.out");
    assert_eq!(profile.parts.len(), 2);
    let graph = CallGraph::of(&profile);
    let names: Vec<&str> = graph.functions.iter().map(|f| f.name.as_str()).collect();
    for name in ["php::str_repeat", "php::count", "greet"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    assert_eq!(graph.total, [41 + 119 + 300 + 7 + 30, 512]);
}

#[test]
fn writing_in_full_keeps_the_costs() {
    let options = write::Options {
        names: write::Names::Full,
        positions: write::PositionStyle::Absolute,
        no_instr: true,
        no_jumps: true,
        no_inline: true,
        part: None,
    };
    for path in fixtures("valid") {
        let profile = read::bytes("first", &fs::read(&path).unwrap()).unwrap();
        let mut text = Vec::new();
        write::callgrind_to(&profile, options, &mut text).unwrap();
        let again = read::bytes("second", &text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (before, after) = (CallGraph::of(&profile), CallGraph::of(&again));
        assert_eq!(before.total, after.total, "{}", path.display());
        assert_eq!(before.edges, after.edges, "{}", path.display());
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("=(1)") && !text.contains("\njump=") && !text.contains("cfni="), "{text}");
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let text =
        fs::read(fixtures("valid").iter().find(|p| p.ends_with("instr_jumps_cache_branch.out")).unwrap())
            .unwrap();
    let whole = read::bytes("fixture", &text).unwrap();
    for threads in [1, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        // Inside the pool, where waiting for it would be waiting for oneself.
        let inside = pool.install(|| {
            read::bytes_with("fixture", &text, Options { piece_bytes: 50, ..Options::default() }).unwrap()
        });
        assert!(whole == inside, "{threads} threads");
        assert_eq!(CallGraph::of(&whole), pool.install(|| CallGraph::of(&inside)));
    }
}
