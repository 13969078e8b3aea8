//! Builds guests with the system's compilers, once per source, flags and compiler.

use crate::header::Header;
use crate::{guests_dir, target_tmp};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A guest that is built.
#[derive(Clone, Debug)]
pub struct Guest {
    /// File name in `guests/`.
    pub name: String,
    /// What its opening comment says.
    pub header: Header,
    /// The executable.
    pub program: PathBuf,
}

impl Guest {
    /// Reads the header of a guest and builds it. Panics with the compiler's messages.
    pub fn build(name: &str) -> Guest {
        let source = guests_dir().join(name);
        let header = Header::of_file(&source).unwrap_or_else(|e| panic!("{e}"));
        let program = build(&source, &header);
        Guest { name: name.into(), header, program }
    }

    /// File name without its ending.
    pub fn stem(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }

    /// Features the guest needs and this CPU lacks.
    pub fn missing_cpu_features(&self) -> Vec<&str> {
        let has = cpu_features();
        self.header.cpu.iter().map(String::as_str).filter(|f| !has.iter().any(|h| h == f)).collect()
    }
}

/// The first CPU's `flags` line in `/proc/cpuinfo`.
fn cpu_features() -> &'static [String] {
    static FEATURES: OnceLock<Vec<String>> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/cpuinfo").expect("/proc/cpuinfo");
        let line = text.lines().find(|l| l.starts_with("flags")).expect("a flags line");
        line.split_whitespace().skip(2).map(str::to_string).collect()
    })
}

/// Compiler and first flags by the ending of a source file.
fn compiler(source: &Path) -> (&'static str, &'static [&'static str]) {
    match source.extension().and_then(|e| e.to_str()) {
        Some("S") => ("gcc", &["-g", "-nostdlib", "-static"]),
        Some("c") => ("gcc", &["-g", "-O2", "-pthread"]),
        Some("cpp") => ("g++", &["-g", "-O2", "-pthread"]),
        Some("rs") => ("rustc", &["--edition=2024", "-g", "-O"]),
        _ => panic!("{}: no compiler for such a file", source.display()),
    }
}

fn build(source: &Path, header: &Header) -> PathBuf {
    let stem = source.file_stem().and_then(|s| s.to_str()).expect("a plain file name");
    let (compiler, first) = compiler(source);
    // Built files are found again by everything that went into them.
    let mut hasher = DefaultHasher::new();
    for path in headers_beside(source).iter().map(PathBuf::as_path).chain([source]) {
        std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).hash(&mut hasher);
    }
    (compiler, first, version_of(compiler)).hash(&mut hasher);
    let dir = target_tmp().join("guests").join(format!("{stem}-{:016x}", hasher.finish()));
    let program = dir.join(stem);
    if program.exists() {
        return program;
    }
    // Several test processes may build one guest: each works apart, the directory appears complete.
    let parent = dir.parent().expect("a parent");
    static SERIAL: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let work = parent.join(format!(".{stem}.{}.{serial}", std::process::id()));
    std::fs::create_dir_all(&work).unwrap_or_else(|e| panic!("{}: {e}", work.display()));
    let expand = |words: &[String]| -> Vec<String> {
        words.iter().map(|w| w.replace("{dir}", work.to_str().expect("a plain path"))).collect()
    };
    for (library, flags) in &header.libraries {
        let mut all: Vec<String> = first.iter().map(|f| f.to_string()).collect();
        all.extend(["-shared".to_string(), "-fPIC".to_string()]);
        all.extend(expand(flags));
        compile(compiler, &all, source, &work.join(library));
    }
    let mut all: Vec<String> = first.iter().map(|f| f.to_string()).collect();
    all.extend(expand(&header.flags));
    compile(compiler, &all, source, &work.join(stem));
    if std::fs::rename(&work, &dir).is_err() {
        assert!(program.exists(), "{} can't be put into its place", dir.display());
        let _ = std::fs::remove_dir_all(&work);
    }
    program
}

/// Header files that a guest may include.
fn headers_beside(source: &Path) -> Vec<PathBuf> {
    let dir = source.parent().expect("a directory");
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|x| x == "h"))
        .collect();
    paths.sort();
    paths
}

/// What a compiler says about itself.
fn version_of(compiler: &str) -> Vec<u8> {
    let output = Command::new(compiler).arg("--version").output();
    output.unwrap_or_else(|e| panic!("{compiler} is needed to build guests: {e}")).stdout
}

fn compile(compiler: &str, flags: &[String], source: &Path, output: &Path) {
    // Libraries come after what needs them.
    let (libraries, flags): (Vec<_>, Vec<_>) = flags.iter().partition(|f| f.starts_with("-l"));
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(output).arg(source).args(libraries);
    let result = command.output().unwrap_or_else(|e| panic!("{compiler}: {e}"));
    assert!(
        result.status.success(),
        "{command:?}: {}\n{}",
        result.status,
        String::from_utf8_lossy(&result.stderr)
    );
}
