//! Names beyond an object's own symbol tables: mini debug information and separate debug files.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tallygraph_symbols::{Finder, MoreNames};

const PROGRAM: &str = "
static __attribute__((noinline)) int hidden(int x) { return x * 7; }
int shown(int x) { return hidden(x) + 1; }
int main(int argc, char **argv) { return shown(argc); }
";

struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place {
    /// A directory with the program, as `prog`.
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("tallygraph-mini-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("main.c"), PROGRAM).unwrap();
        let place = Place(path);
        assert!(place.run("cc", &["-O1", "main.c", "-o", "prog"]));
        place
    }

    fn run(&self, program: &str, args: &[&str]) -> bool {
        let done = Command::new(program).args(args).current_dir(&self.0).stderr(Stdio::null()).status();
        done.is_ok_and(|s| s.success())
    }

    /// Address of a function of `prog`, by `nm`.
    fn address(&self, name: &str) -> u64 {
        let output = Command::new("nm").arg("prog").current_dir(&self.0).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|l| l.ends_with(&format!(" {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    }

    fn names(&self, object: &str) -> MoreNames {
        MoreNames::open(&self.0.join(object), b"", &Finder::new(&[]))
    }
}

#[test]
fn mini_debug_information_is_unpacked() {
    let place = Place::new("packed");
    // As distributions make it: a file of symbols alone, packed, in a section of the stripped object.
    assert!(place.run("objcopy", &["--only-keep-debug", "prog", "mini"]));
    if !place.run("xz", &["mini"]) {
        eprintln!("skipped: xz is not installed");
        return;
    }
    assert!(place.run("objcopy", &["--strip-all", "--add-section=.gnu_debugdata=mini.xz", "prog", "packed"]));
    let names = place.names("packed");
    let (hidden, shown) = (place.address("hidden"), place.address("shown"));
    assert_eq!(names.lookup(hidden), Some("hidden"));
    assert_eq!(names.lookup(hidden + 2), Some("hidden"));
    assert_eq!(names.lookup(shown), Some("shown"));
    assert_eq!(names.lookup(0), None);
    assert_eq!(names.lookup(u64::MAX), None);

    // Damage costs names and nothing else.
    let good = fs::read(place.0.join("packed")).unwrap();
    let packed = fs::read(place.0.join("mini.xz")).unwrap();
    let at = good.windows(packed.len()).position(|w| w == packed).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..200 {
        let mut bad = good.clone();
        for _ in 0..1 + random(4) {
            bad[at + random(packed.len())] = random(256) as u8;
        }
        fs::write(place.0.join("damaged"), &bad).unwrap();
        let _ = place.names("damaged").lookup(hidden);
    }
}

#[test]
fn a_separate_file_has_names_too() {
    let place = Place::new("separate");
    assert!(place.run("objcopy", &["--only-keep-debug", "prog", "prog.debug"]));
    assert!(place.run("objcopy", &["--strip-all", "--add-gnu-debuglink=prog.debug", "prog", "stripped"]));
    let names = place.names("stripped");
    assert_eq!(names.lookup(place.address("hidden")), Some("hidden"));
    // The object's own names are known already.
    assert_eq!(place.names("prog").lookup(place.address("hidden")), None);
}
