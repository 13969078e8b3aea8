//! Finds tallygraph and Valgrind and makes profiles with them.

use crate::callgrind::Profile;
use crate::run::{Command, Outcome};
use crate::{skipped_unless_required, target_tmp};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Options that must not change a profile.
pub const STRESS: &[&str] = &["no-links", "no-traces", "block=1", "cache=393216", "flush", "no-ibl"];

/// Makes glibc choose the same routines whatever the CPU, namely those it chooses under Valgrind: no
/// vector units beyond SSE2, no fast string instructions, fixed cache sizes.
pub const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ,-AVX512ER,\
-AVX2,-AVX,-FMA,-FMA4,-SSSE3,-SSE4_1,-SSE4_2,-BMI1,-BMI2,-LZCNT,-MOVBE,-POPCNT,-ERMS,-FSRM,-RTM,\
-XSAVEC,-XSAVE,-OSXSAVE,-AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy,-Fast_Unaligned_Load,\
-Fast_Copy_Backward,-Fast_Rep_String,-Slow_BSF,-Prefer_No_VZEROUPPER,-Prefer_ERMS,-Prefer_FSRM\
:glibc.cpu.x86_data_cache_size=32768:glibc.cpu.x86_shared_cache_size=1048576\
:glibc.cpu.x86_non_temporal_threshold=3145728:glibc.cpu.x86_rep_movsb_threshold=2048\
:glibc.cpu.x86_rep_stosb_threshold=2048";

/// The executable under test: `TALLYGRAPH_BIN`, else the one built next to the running test.
pub fn tallygraph() -> PathBuf {
    if let Some(path) = std::env::var_os("TALLYGRAPH_BIN") {
        return path.into();
    }
    let exe = std::env::current_exe().expect("a test knows its own path");
    let path = exe.ancestors().nth(2).expect("a test lies in target/PROFILE/deps").join("tallygraph");
    assert!(
        path.exists(),
        "{} does not exist: `cargo test --workspace` builds it, `cargo build -p tallygraph-cli` too",
        path.display()
    );
    path
}

/// Valgrind's path, where it is installed. Debian's script around it would add to the environment.
pub fn valgrind() -> Option<PathBuf> {
    let places = ["/usr/bin/valgrind.bin", "/usr/bin/valgrind", "/usr/local/bin/valgrind"];
    places.iter().map(PathBuf::from).find(|p| p.exists())
}

/// Valgrind's path; says that `what` is skipped where it is not installed.
pub fn valgrind_for(what: &str) -> Option<PathBuf> {
    let path = valgrind();
    if path.is_none() {
        skipped_unless_required(what, "valgrind is not installed");
    }
    path
}

/// A run that was to leave a profile.
#[derive(Debug)]
pub struct Profiled {
    /// What the run did.
    pub outcome: Outcome,
    /// Where its profile should be.
    pub out: PathBuf,
}

impl Profiled {
    /// The profile. Panics when there is none or when it is malformed or empty.
    pub fn profile(&self) -> Profile {
        let profile = Profile::read(&self.out).unwrap_or_else(|e| panic!("{e}\n{}", self.outcome));
        assert!(profile.total() > 0, "{}: an empty profile\n{}", self.out.display(), self.outcome);
        profile
    }
}

/// A command line that runs `words` under tallygraph, with the profile in `dir`.
pub fn under_tallygraph<S: AsRef<OsStr>>(dir: &Path, options: &[S], words: &[impl AsRef<OsStr>]) -> Profiled {
    profiled(Command::new(tallygraph(), dir).args(["run", "-q"]), dir, options, words)
}

/// Runs `words` under Valgrind's Callgrind, with the profile in `dir`.
pub fn under_callgrind<S: AsRef<OsStr>>(
    valgrind: &Path,
    dir: &Path,
    options: &[S],
    words: &[impl AsRef<OsStr>],
) -> Profiled {
    profiled(Command::new(valgrind, dir).args(["--tool=callgrind", "-q"]), dir, options, words)
}

/// Runs `words` with Callgrind's command line under `profiler`, with exactly these variables, in this
/// order: where they lie on the guest's stack shows in the counts.
pub fn in_environment(
    profiler: &Path,
    dir: &Path,
    variables: &[(&str, &str)],
    options: &[&str],
    words: &[impl AsRef<OsStr>],
) -> Profiled {
    let assignments = variables.iter().map(|(name, value)| format!("{name}={value}"));
    let command = Command::new("/usr/bin/env", dir).arg("-i").args(assignments).arg(profiler);
    profiled(command.args(["--tool=callgrind", "-q"]), dir, options, words)
}

/// The variable by which Valgrind preloads its own library into a guest.
pub fn valgrind_preload(valgrind: &Path) -> &'static str {
    static VALUE: OnceLock<String> = OnceLock::new();
    VALUE.get_or_init(|| {
        let dir = crate::scratch("valgrind-preload");
        let run = Command::new(valgrind, &dir).args(["--tool=callgrind", "-q"]);
        let outcome = run.arg("--callgrind-out-file=/dev/null").arg("/usr/bin/env").run();
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let value = text.lines().find_map(|l| l.strip_prefix("LD_PRELOAD="));
        value.unwrap_or_else(|| panic!("no LD_PRELOAD under Valgrind\n{outcome}")).into()
    })
}

fn profiled<S: AsRef<OsStr>>(
    command: Command,
    dir: &Path,
    options: &[S],
    words: &[impl AsRef<OsStr>],
) -> Profiled {
    let out = dir.join("profile.out");
    let _ = std::fs::remove_file(&out);
    let outcome =
        command.arg(format!("--callgrind-out-file={}", out.display())).args(options).args(words).run();
    Profiled { outcome, out }
}

/// A file in the target directory that is made once by `make`, which is given a path to write to.
pub fn made_once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let path = target_tmp().join("made").join(name);
    if !path.exists() {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory for made files");
        let work = path.with_extension(format!("{}.tmp", std::process::id()));
        make(&work);
        std::fs::rename(&work, &path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    path
}
