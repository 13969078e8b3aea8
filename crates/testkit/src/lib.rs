//! Builds guests, runs them natively, under tallygraph and under Valgrind, and says how what they did and
//! what was counted differ from what was expected.
//!
//! A guest is a small program in `guests/`, named `AREA_WHAT.{S,c,cpp,rs}`, that checks itself. Its
//! opening comment says how it is built and what is expected of it ([`header`]); the tests collect
//! guests by looking into the directory, so that a new file is a new test. Profiles are read by a
//! parser of this crate's own ([`callgrind`]), which shares nothing with the one under test.
//!
//! What is equal in every run: the environment holds only what [`run::Command::new`] puts there,
//! addresses are not randomised, and standard input is empty. Where nothing else is said a program may
//! run for [`run::PATIENCE`] before it counts as hung.
//!
//! Variables: `TALLYGRAPH_BIN` names the executable under test, else the one next to the tests is
//! taken; `REQUIRE_VALGRIND=1` makes the absence of Valgrind, or of a program to compare with it, a
//! failure; `BLESS=1` rewrites golden files.

pub mod against;
pub mod callgrind;
pub mod check;
pub mod compile;
pub mod differences;
pub mod golden;
pub mod header;
pub mod run;
pub mod tools;

use std::io::Write;
use std::path::{Path, PathBuf};

/// The directory of guests.
pub fn guests_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests")
}

/// A fresh directory for the files of one test, below the target directory.
pub fn scratch(test: &str) -> PathBuf {
    let dir = target_tmp().join("runs").join(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}

/// `tmp/testkit` in the target directory that the running test was built in.
pub fn target_tmp() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    let target = exe.ancestors().nth(3).expect("a test lies in target/PROFILE/deps");
    target.join("tmp/testkit")
}

/// Says that something is not tested, and why, past the test harness's capture of output.
pub fn skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

/// As [`skipped`], but a failure where `REQUIRE_VALGRIND` is set.
pub fn skipped_unless_required(what: &str, why: &str) {
    let required = std::env::var_os("REQUIRE_VALGRIND").is_some_and(|v| v != "0");
    assert!(!required, "{what}: {why}, and REQUIRE_VALGRIND is set");
    skipped(what, why);
}
