//! Inline frames of every code byte of a small program, against `addr2line`, with the debug
//! information whole, split and packaged.

use object::{Object, ObjectSection};
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tallygraph_symbols::inline::Frame;
use tallygraph_symbols::{Finder, InlineFrames};

const PROGRAM: &str = r#"
static inline __attribute__((always_inline)) int inner(int x) {
    return x > 5 ? x * 7 : x - 1;
}
static inline __attribute__((always_inline)) int middle(int x) {
    return inner(x) + inner(x + 1);
}
__attribute__((noinline)) int outer(int n) {
    int s = 0;
    for (int i = 0; i < n; i++)
        s += middle(i) ^ inner(s);
    return s;
}
int main(int argc, char **argv) { return outer(argc * 10) & 1; }
"#;

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("tallygraph-inline-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("main.c"), PROGRAM).unwrap();
        Place(path)
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let done = Command::new(program).args(args).current_dir(&self.0).stderr(Stdio::null()).status();
        done.is_ok_and(|s| s.success())
    }

    fn build(&self, output: &str, flags: &[&str]) {
        assert!(self.run("cc", &[&["-O2", "main.c", "-o", output], flags].concat()), "{flags:?}");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn code(object: &Path) -> Range<u64> {
    let bytes = fs::read(object).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    text.address()..text.address() + text.size()
}

/// `function file:line` of each frame, as `addr2line -a -i -f` has them.
fn reference(object: &Path) -> Vec<Vec<String>> {
    let mut child = Command::new("addr2line")
        .args(["-a", "-i", "-f", "-e"])
        .arg(object)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("addr2line, of binutils like the linker, is installed");
    let mut input = child.stdin.take().unwrap();
    let text: String = code(object).map(|a| format!("{a:x}\n")).collect();
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap().split(" (discriminator").next().unwrap();
        // Without debug information it falls back on symbols, which have no directory.
        if place.contains('/') {
            all.last_mut().unwrap().push(format!("{line} {}", place.replace(":?", ":0")));
        }
    }
    all
}

fn assert_same(whole: &Path, object: &Path) {
    let frames = InlineFrames::open(object, b"", &Finder::new(&[])).expect("debug information");
    let expected = reference(whole);
    assert!(
        expected.iter().any(|f| f.len() == 3 && f[0].starts_with("inner ")),
        "the reference knows frames"
    );
    for (address, expected) in code(whole).zip(expected) {
        let show = |f: Frame| format!("{} {}:{}", f.function.unwrap(), f.file.unwrap(), f.line);
        let found: Vec<String> = frames.frames(address).into_iter().map(show).collect();
        assert_eq!(found, expected, "{address:#x}");
    }
}

#[test]
fn whole_debug_information_is_read() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let place = Place::new(version);
        place.build("prog", &[version]);
        assert_same(&place.path("prog"), &place.path("prog"));
    }
}

#[test]
fn split_units_are_found() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let place = Place::new(&format!("split{version}"));
        place.build("whole", &[version]);
        place.build("prog", &[version, "-gsplit-dwarf"]);
        assert_same(&place.path("whole"), &place.path("prog"));
        // Moved together, the parts are found beside each other.
        fs::create_dir(place.path("moved")).unwrap();
        for entry in fs::read_dir(&place.0).unwrap().flatten() {
            if entry.path().extension().is_some_and(|e| e == "dwo") {
                fs::rename(entry.path(), place.path("moved").join(entry.file_name())).unwrap();
            }
        }
        fs::rename(place.path("prog"), place.path("moved/prog")).unwrap();
        assert_same(&place.path("whole"), &place.path("moved/prog"));
    }
}

#[test]
fn packages_are_read() {
    let place = Place::new("package");
    place.build("whole", &["-gdwarf-4"]);
    place.build("prog", &["-gdwarf-4", "-gsplit-dwarf"]);
    if !place.run("dwp", &["-e", "prog", "-o", "prog.dwp"]) {
        eprintln!("skipped: dwp is not installed");
        return;
    }
    for entry in fs::read_dir(&place.0).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "dwo") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert_same(&place.path("whole"), &place.path("prog"));
}
