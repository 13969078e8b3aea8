//! Source positions of every code byte of small programs, against `addr2line`.
//!
//! The programs are built here, in each form of debug information the compiler can make. A form it
//! can't make is skipped and named.

use object::{Object, ObjectSection};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tallygraph_symbols::cache::Cache;
use tallygraph_symbols::{Finder, Hook, ObjectSymbols};

const PROGRAM: &str = r#"
#include "part.h"
static int twice(int x) { return part(x) + part(x + 1); }
__attribute__((noinline)) int walk(int n, int *out) {
    int s = 0;
    for (int i = 0; i < n; i++) {
        if (i & 1)
            s += twice(i);
        else
            s ^= part(i) * 3;
        out[i & 7] = s;
    }
    return s;
}
int main(int argc, char **argv) {
    int out[8] = {0};
    return walk(argc * 10, out) + out[3] & 1;
}
"#;

const PART: &str = "
static inline __attribute__((always_inline)) int part(int x) {
    if (x > 5)
        return x * 7;
    return x - 1;
}
";

/// A directory of its own, removed at the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("tallygraph-lines-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("inc")).unwrap();
        fs::write(path.join("main.c"), PROGRAM).unwrap();
        fs::write(path.join("inc/part.h"), PART).unwrap();
        Place(path)
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let done = Command::new(program).args(args).current_dir(&self.0).stderr(Stdio::null()).status();
        done.is_ok_and(|s| s.success())
    }

    /// Builds `prog`; false when the compiler can't.
    fn build(&self, flags: &[&str]) -> bool {
        let mut args = vec!["-Iinc", "main.c", "-o", "prog"];
        args.extend_from_slice(flags);
        let built = self.run("cc", &args);
        if !built {
            eprintln!("skipped: cc cannot build with {flags:?}");
        }
        built
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Addresses of an object's `.text`.
fn code(object: &Path) -> Range<u64> {
    let bytes = fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    text.address()..text.address() + text.size()
}

/// What `addr2line` says, `file:line`.
fn reference(object: &Path, addresses: Range<u64>) -> Vec<String> {
    let mut child = Command::new("addr2line")
        .arg("-e")
        .arg(object)
        .current_dir(object.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("addr2line, of binutils like the linker, is installed");
    let text: String = addresses.map(|a| format!("{a:x}\n")).collect();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    // Without lines it falls back on names of symbols, which have no directory.
    let plain = |line: &str| match line.split(" (discriminator").next().unwrap() {
        line if line.contains('/') => line.replace(":?", ":0"),
        _ => "??:0".to_string(),
    };
    String::from_utf8(output.stdout).unwrap().lines().map(plain).collect()
}

fn ours(symbols: &ObjectSymbols, addresses: Range<u64>) -> Vec<String> {
    let show = |a| match symbols.lookup(a) {
        Some(at) => format!("{}:{}", symbols.file(at.file), at.line),
        None => "??:0".to_string(),
    };
    addresses.map(show).collect()
}

/// A stripped copy of `prog`, whose lines are in a file of their own; returns that.
fn split_off(place: &Place) -> PathBuf {
    assert!(place.build(&["-g", "-O2", "-Wl,--build-id=0xabcdef0123456789"]));
    assert!(place.run("objcopy", &["--only-keep-debug", "prog", "fetched.debug"]));
    assert!(place.run("objcopy", &["--strip-all", "prog", "stripped"]));
    place.path("fetched.debug")
}

fn open(object: &Path) -> ObjectSymbols {
    ObjectSymbols::open(object, b"", &Finder::new(&[]), None)
}

/// Compares all code of `stripped`, with the lines found for it, to what `full` has.
fn assert_same(full: &Path, symbols: &ObjectSymbols) {
    let addresses = code(full);
    let expected = reference(full, addresses.clone());
    let found = ours(symbols, addresses.clone());
    let known = expected.iter().filter(|l| l.contains("main.c:")).count();
    assert!(known > 100 && expected.iter().any(|l| l.ends_with("part.h:4")), "the reference knows lines");
    for ((address, e), f) in addresses.zip(&expected).zip(&found) {
        assert_eq!(f, e, "{}: {address:#x}", full.display());
    }
}

#[test]
fn every_version_of_dwarf_is_read() {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"] {
        for level in ["-O0", "-O2"] {
            let place = Place::new(&format!("version{version}{level}"));
            if place.build(&[version, level]) {
                assert_same(&place.path("prog"), &open(&place.path("prog")));
            }
        }
    }
}

#[test]
fn compressed_sections_are_read() {
    for kind in ["-gz=zlib", "-gz=zstd"] {
        let place = Place::new(kind);
        if place.build(&["-g", "-O2", kind]) {
            assert_same(&place.path("prog"), &open(&place.path("prog")));
        }
    }
}

#[test]
fn split_units_keep_their_lines() {
    let place = Place::new("split");
    assert!(place.build(&["-g", "-O2"]));
    fs::rename(place.path("prog"), place.path("whole")).unwrap();
    if place.build(&["-g", "-O2", "-gsplit-dwarf"]) {
        // The code is the same, and the reference is surer of the whole file.
        assert_eq!(code(&place.path("prog")), code(&place.path("whole")));
        assert_same(&place.path("whole"), &open(&place.path("prog")));
    }
}

#[test]
fn other_compilers_are_read() {
    for compiler in ["clang", "g++"] {
        let place = Place::new(compiler);
        if place.run(compiler, &["-Iinc", "-g", "-O2", "main.c", "-o", "prog"]) {
            assert_same(&place.path("prog"), &open(&place.path("prog")));
        } else {
            eprintln!("skipped: no {compiler}");
        }
    }
}

#[test]
fn debug_links_are_followed() {
    for directory in ["", ".debug/"] {
        let place = Place::new(&format!("link{}", directory.len()));
        assert!(place.build(&["-g", "-O2", "-Wl,--build-id=none"]));
        fs::create_dir_all(place.path(".debug")).unwrap();
        let debug = format!("{directory}prog.debug");
        assert!(place.run("objcopy", &["--only-keep-debug", "prog", &debug]));
        let link = format!("--add-gnu-debuglink={debug}");
        assert!(place.run("objcopy", &["--strip-all", &link, "prog", "stripped"]));
        assert_same(&place.path("prog"), &open(&place.path("stripped")));
        // Another file under the same name is not taken.
        fs::copy(place.path("stripped"), place.path(&debug)).unwrap();
        assert!(open(&place.path("stripped")).table().is_empty());
    }
}

#[test]
fn strings_in_a_shared_file_are_found() {
    let place = Place::new("shared");
    fs::write(place.path("other.c"), PROGRAM.replace("walk", "run")).unwrap();
    assert!(place.build(&["-g", "-O2"]));
    assert!(place.run("cc", &["-Iinc", "-g", "-O2", "other.c", "-o", "other"]));
    fs::copy(place.path("prog"), place.path("whole")).unwrap();
    if !place.run("dwz", &["--multifile=shared.debug", "prog", "other"]) {
        eprintln!("skipped: dwz is not installed");
        return;
    }
    let bytes = fs::read(place.path("prog")).unwrap();
    assert!(object::File::parse(&*bytes).unwrap().gnu_debugaltlink().unwrap().is_some());
    assert_same(&place.path("whole"), &open(&place.path("prog")));
}

#[test]
fn a_supplementary_file_is_found() {
    let place = Place::new("supplementary");
    fs::write(place.path("other.c"), PROGRAM.replace("walk", "run")).unwrap();
    assert!(place.build(&["-gdwarf-5", "-O2"]));
    assert!(place.run("cc", &["-Iinc", "-gdwarf-5", "-O2", "other.c", "-o", "other"]));
    fs::copy(place.path("prog"), place.path("whole")).unwrap();
    if !place.run("dwz", &["--dwarf-5", "--multifile=shared.debug", "prog", "other"]) {
        eprintln!("skipped: no dwz that knows DWARF 5");
        return;
    }
    let bytes = fs::read(place.path("prog")).unwrap();
    assert!(object::File::parse(&*bytes).unwrap().section_by_name(".debug_sup").is_some());
    assert_same(&place.path("whole"), &open(&place.path("prog")));
}

#[test]
fn a_command_fetches_what_is_not_there() {
    let place = Place::new("hook");
    let debug = split_off(&place);
    let script = "echo \"$@\" >>\"$0.words\"; echo \"$WHERE/fetched.debug\"; echo more";
    fs::write(place.path("fetch"), script).unwrap();
    let words = vec!["sh".into(), place.path("fetch").into(), "first".into()];
    let environment = vec![("WHERE".into(), place.0.clone().into())];
    let hook = Hook::new(words.clone(), environment.clone());
    let mut finder = Finder::new(&[]).with_hook(hook);
    let build_id = b"\xab\xcd\xef\x01\x23\x45\x67\x89";
    let symbols = ObjectSymbols::open(&place.path("stripped"), build_id, &finder, None);
    assert_same(&place.path("prog"), &symbols);
    let asked = fs::read_to_string(place.path("fetch.words")).unwrap();
    assert_eq!(asked, "first debuginfo abcdef0123456789\n");
    // A file of another build-id is not taken, and an object with lines asks for nothing.
    fs::copy(place.path("stripped"), place.path("prog")).unwrap();
    assert!(place.run("objcopy", &["--remove-section=.note.gnu.build-id", "fetched.debug"]));
    finder = Finder::new(&[]).with_hook(Hook::new(words, environment));
    assert!(ObjectSymbols::open(&place.path("stripped"), build_id, &finder, None).table().is_empty());
    fs::remove_file(debug).unwrap();
    assert!(place.build(&["-g", "-O2"]));
    let _ = fs::remove_file(place.path("fetch.words"));
    assert!(!ObjectSymbols::open(&place.path("prog"), b"", &finder, None).table().is_empty());
    assert!(!place.path("fetch.words").exists());
}

#[test]
fn extra_paths_are_searched_by_build_id() {
    let place = Place::new("extra");
    let debug = split_off(&place);
    let directory = place.path("extra/.build-id/ab");
    fs::create_dir_all(&directory).unwrap();
    fs::rename(debug, directory.join("cdef0123456789.debug")).unwrap();
    let build_id = b"\xab\xcd\xef\x01\x23\x45\x67\x89";
    let finder = Finder::new(&[place.path("extra")]);
    let symbols = ObjectSymbols::open(&place.path("stripped"), build_id, &finder, None);
    assert_same(&place.path("prog"), &symbols);
    // The file on disk is not the one that was mapped.
    let replaced = ObjectSymbols::open(&place.path("stripped"), b"\x01\x02", &finder, None);
    assert!(replaced.table().is_empty());
}

#[test]
fn a_stored_table_says_the_same() {
    let place = Place::new("stored");
    // Large enough to be worth storing.
    let mut source = String::new();
    for f in 0..400 {
        source.push_str(&format!("int f{f}(int x) {{\n  x += {f};\n  x ^= x << 3;\n"));
        source.push_str("  if (x & 4)\n    x *= 5;\n  return x;\n}\n");
    }
    fs::write(place.path("many.c"), source).unwrap();
    let build = || assert!(place.build(&["-g", "-O0", "many.c", "-Wl,--build-id=0x0102"]));
    build();
    let object = place.path("prog");
    let cache = Cache::new(&place.path("cache"));
    let finder = Finder::new(&[]);
    let made = ObjectSymbols::open(&object, b"\x01\x02", &finder, Some(&cache));
    let files: Vec<_> = fs::read_dir(place.path("cache")).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(files, [place.path("cache/0102.lines")]);
    let stored = ObjectSymbols::open(&object, b"\x01\x02", &finder, Some(&cache));
    assert!(made.table().as_bytes() == stored.table().as_bytes());
    assert_same(&object, &stored);
    // A rebuilt object is read again.
    fs::write(place.path("inc/part.h"), format!("\n\n{PART}")).unwrap();
    build();
    let rebuilt = ObjectSymbols::open(&object, b"\x01\x02", &finder, Some(&cache));
    assert!(rebuilt.table().as_bytes() != stored.table().as_bytes());
}

#[test]
fn damage_costs_lines_and_nothing_else() {
    let place = Place::new("damage");
    assert!(place.build(&["-g", "-O2"]));
    let good = fs::read(place.path("prog")).unwrap();
    let file = object::File::parse(&*good).unwrap();
    let sections = [".debug_line", ".debug_info", ".debug_abbrev", ".debug_line_str", ".debug_str"];
    let ranges: Vec<Range<u64>> = sections
        .iter()
        .filter_map(|name| file.section_by_name(name)?.file_range())
        .map(|(start, size)| start..start + size)
        .collect();
    assert!(ranges.len() >= 4);
    let addresses = code(&place.path("prog"));
    let path = place.path("damaged");
    // A fixed sequence, so that a failure repeats.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..300 {
        let mut bytes = good.clone();
        for _ in 0..1 + round % 8 {
            let range = &ranges[random() as usize % ranges.len()];
            let at = range.start + random() % (range.end - range.start);
            bytes[at as usize] = random() as u8;
        }
        if round % 10 == 9 {
            bytes.truncate((random() % good.len() as u64) as usize);
        }
        fs::write(&path, &bytes).unwrap();
        let symbols = open(&path);
        assert_eq!(ours(&symbols, addresses.clone()).len(), (addresses.end - addresses.start) as usize);
    }
}
