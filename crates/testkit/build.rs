//! Collects the guests, so that each is a test of its own and none can be forgotten.
//!
//! Writes `for_each_guest!`, a macro that takes the name of a function and defines one test per
//! guest, which calls the function with the guest's file name.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

fn main() {
    let guests = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../guests");
    println!("cargo::rerun-if-changed={}", guests.display());
    let mut names = BTreeMap::new();
    for entry in std::fs::read_dir(&guests).expect("the directory of guests") {
        let name = entry.expect("an entry").file_name().into_string().expect("a plain file name");
        let Some((stem, extension)) = name.split_once('.') else {
            panic!("guests/{name}: a guest's name ends in .S, .c, .cpp or .rs");
        };
        match extension {
            "S" | "c" | "cpp" | "rs" => {}
            "h" | "golden" => continue,
            _ => panic!("guests/{name}: how is a guest of this name built?"),
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(stem.contains('_') && stem.chars().all(plain), "guests/{name}: a name is AREA_WHAT");
        if let Some(other) = names.insert(stem.to_string(), name.clone()) {
            panic!("guests/{name} and guests/{other} have one name");
        }
    }
    let mut text = String::from("macro_rules! for_each_guest {\n    ($check:path) => {\n");
    for (stem, name) in &names {
        writeln!(
            text,
            "        #[test]\n        fn {stem}() {{\n            $check(\"{name}\");\n        }}"
        )
        .unwrap();
    }
    text.push_str("    };\n}\n");
    let out = Path::new(&std::env::var("OUT_DIR").expect("cargo sets it")).join("for_each_guest.rs");
    std::fs::write(out, text).expect("the generated tests are written");
}
