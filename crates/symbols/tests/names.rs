//! Readable C++ names against those of the C++ library's own demangler.
//!
//! The names are those of a program built here, which also asks the library, and of the library
//! itself. Skipped, and said so, where no C++ compiler is installed.

use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tallygraph_symbols::Demangler;

/// Names the library cannot read.
const AHEAD: &[(&str, &str)] = &[
    (
        "_ZNK5outer2v15PlaincvSt6vectorIT_SaIS3_EEIiEEv",
        "outer::v1::Plain::operator std::vector<int, std::allocator<int> ><int>() const",
    ),
    (
        "_ZZ7lambdasiENKUlT_DpOT0_E0_clIiJicEEEDaS_S2_",
        "auto lambdas(int)::{lambda(auto:1, auto:2&&...)#2}::operator()<int, int, char>(int, int&&, char&&) const",
    ),
];

/// Builds the program; none without a compiler.
fn program(test: &str) -> Option<PathBuf> {
    let path = std::env::temp_dir().join(format!("tallygraph-names-{test}-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/names.cc");
    let built = Command::new("c++").args(["-std=c++17", "-O0", "-o"]).arg(&path).arg(source).status();
    match built {
        Ok(status) => {
            assert!(status.success(), "the program must build");
            Some(path)
        }
        Err(_) => {
            eprintln!("skipped: no C++ compiler");
            None
        }
    }
}

/// C++ symbols of an object, without versions.
fn symbols(object: &Path) -> BTreeSet<String> {
    let bytes = fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let names = file.symbols().chain(file.dynamic_symbols()).filter_map(|s| Some(s.name().ok()?.to_string()));
    names.map(|n| n.split('@').next().unwrap().to_string()).filter(|n| n.starts_with("_Z")).collect()
}

/// The library's answers.
fn reference(program: &Path, names: &BTreeSet<String>) -> Vec<String> {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("just built");
    let mut input = child.stdin.take().unwrap();
    let text: String = names.iter().map(|n| format!("{n}\n")).collect();
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

/// Names with our and the library's text where they differ.
fn differences(program: &Path, names: &BTreeSet<String>) -> Vec<(String, String, String)> {
    let demangler = Demangler::new(true);
    let theirs = reference(program, names);
    assert_eq!(theirs.len(), names.len());
    let pairs = names.iter().zip(theirs).map(|(n, t)| (n.clone(), demangler.demangle(n).into_owned(), t));
    pairs.filter(|(_, ours, theirs)| ours != theirs).collect()
}

#[test]
fn names_of_every_kind_are_equal() {
    let Some(program) = program("kinds") else { return };
    let names = symbols(&program);
    assert!(names.len() > 100);
    let all = differences(&program, &names);
    fs::remove_file(&program).unwrap();
    for (name, ours, theirs) in all {
        let ahead = AHEAD.iter().find(|a| a.0 == name && theirs == name);
        assert_eq!(ours, ahead.map_or(theirs.as_str(), |a| a.1), "{name}");
    }
}

#[test]
fn names_of_the_library_are_equal() {
    let Some(program) = program("library") else { return };
    let found = Command::new("c++").arg("-print-file-name=libstdc++.so.6").output().unwrap();
    let library = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
    if !library.is_file() {
        eprintln!("skipped: no shared C++ library");
        return;
    }
    let names = symbols(&library);
    assert!(names.len() > 3000);
    let all = differences(&program, &names);
    fs::remove_file(&program).unwrap();
    // Where the library takes a parameter of one template for one of another it says so itself in
    // later versions; see `Substitution` in the parser.
    assert!(
        all.len() <= names.len() / 1000,
        "{} of {}: {:#?}",
        all.len(),
        names.len(),
        &all[..all.len().min(5)]
    );
}

#[test]
fn damaged_names_neither_crash_nor_run_away() {
    let Some(program) = program("damaged") else { return };
    let names: Vec<String> = symbols(&program).into_iter().collect();
    fs::remove_file(&program).unwrap();
    let demangler = Demangler::new(true);
    // A fixed sequence, so that a failure repeats.
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    const LETTERS: &[u8] = b"_ZNESTKPROILXJDUCFAMvijlmtpsabc0123456789.";
    for _ in 0..60_000 {
        let mut bytes = names[random(names.len())].clone().into_bytes();
        for _ in 0..1 + random(3) {
            let at = 2 + random(bytes.len() - 2);
            match random(4) {
                0 => bytes[at] = LETTERS[random(LETTERS.len())],
                1 => bytes.insert(at, LETTERS[random(LETTERS.len())]),
                2 => bytes.truncate(at.max(3)),
                _ => {
                    let piece = bytes[at..(at + random(12)).min(bytes.len())].to_vec();
                    let to = 2 + random(bytes.len() - 2);
                    bytes.splice(to..to, piece);
                }
            }
        }
        let name = String::from_utf8(bytes).unwrap();
        assert!(demangler.demangle(&name).len() <= 256 * 1024 + 64);
    }
}
