//! Finding the program and proving that it can be run, as the kernel and a shell would.

use super::options::os_text;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How deep interpreters of interpreters may go, as in the kernel.
const MAX_SCRIPTS: usize = 5;

/// A program that can be loaded.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The ELF file.
    pub path: PathBuf,
    /// What the program finds at `AT_EXECFN`.
    pub exec_fn: PathBuf,
    /// Its arguments, with those that `#!` lines add.
    pub args: Vec<OsString>,
}

/// Why a program can't be run: the line to print, and the exit status.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Without the prefix.
    pub line: String,
    /// 127 not found, 126 found but not runnable.
    pub status: u8,
}

fn refuse(status: u8, path: &Path, why: &str) -> Refusal {
    Refusal { line: format!("{}: {why}", path.display()), status }
}

/// Looks a command up as a shell does.
fn find(name: &OsStr) -> Result<PathBuf, Refusal> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/bin:/usr/bin".into());
    let mut denied = None;
    for dir in std::env::split_paths(&path) {
        let candidate = if dir.as_os_str().is_empty() { Path::new(".").join(name) } else { dir.join(name) };
        match std::fs::metadata(&candidate) {
            Ok(m) if m.is_file() && m.permissions().mode() & 0o111 != 0 => return Ok(candidate),
            Ok(m) if m.is_file() => denied = Some(candidate),
            _ => {}
        }
    }
    match denied {
        Some(path) => Err(refuse(126, &path, "Permission denied")),
        None => Err(Refusal { line: format!("{}: command not found", name.to_string_lossy()), status: 127 }),
    }
}

/// Finds `command[0]` and follows `#!` lines to an ELF program of this machine.
pub fn resolve(command: &[OsString]) -> Result<Program, Refusal> {
    let exec_fn = find(&command[0])?;
    let mut path = exec_fn.clone();
    let mut args = command.to_vec();
    for _ in 0..=MAX_SCRIPTS {
        let head = read_head(&path)?;
        let Some(line) = head.strip_prefix(b"#!") else {
            check_elf(&path, &head)?;
            return Ok(Program { path, exec_fn, args });
        };
        let (interpreter, argument) =
            parse_script(line).ok_or_else(|| refuse(126, &path, "bad interpreter line"))?;
        // interpreter [argument] script-path remaining-arguments
        let mut next = vec![interpreter.clone()];
        next.extend(argument);
        next.push(path.into_os_string());
        next.extend(args.drain(..).skip(1));
        args = next;
        if !Path::new(&interpreter).exists() {
            let line = format!(
                "{}: bad interpreter: {}: No such file or directory",
                exec_fn.display(),
                interpreter.to_string_lossy()
            );
            return Err(Refusal { line, status: 126 });
        }
        path = interpreter.into();
    }
    Err(refuse(126, &exec_fn, "too many levels of interpreters"))
}

/// Interpreter and optional argument of a `#!` line: everything after the first blank is one argument.
fn parse_script(line: &[u8]) -> Option<(OsString, Option<OsString>)> {
    let line = &line[..line.iter().position(|&b| b == b'\n').unwrap_or(line.len())];
    let line = line.trim_ascii();
    let end = line.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(line.len());
    let (path, rest) = line.split_at(end);
    if path.is_empty() {
        return None;
    }
    let rest = rest.trim_ascii();
    let argument = (!rest.is_empty()).then(|| OsString::from_vec(rest.to_vec()));
    Some((OsString::from_vec(path.to_vec()), argument))
}

fn read_head(path: &Path) -> Result<Vec<u8>, Refusal> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(refuse(127, path, "No such file or directory"));
        }
        Err(e) => return Err(refuse(126, path, &os_text(&e))),
    };
    if meta.is_dir() {
        return Err(refuse(126, path, "is a directory"));
    }
    let mode = meta.permissions().mode();
    if !meta.is_file() || mode & 0o111 == 0 {
        return Err(refuse(126, path, "Permission denied"));
    }
    if mode & 0o6000 != 0 && !is_root() {
        return Err(refuse(126, path, "is setuid or setgid: it would lose its privileges; not run"));
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(4096).read_to_end(&mut head));
    read.map_err(|e| refuse(126, path, &os_text(&e)))?;
    Ok(head)
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Checks that the first bytes are those of an x86-64 Linux program and that the file holds what its
/// headers promise.
fn check_elf(path: &Path, head: &[u8]) -> Result<(), Refusal> {
    let bad = |why: &str| Err(refuse(126, path, why));
    if !head.starts_with(b"\x7fELF") {
        return bad("cannot execute binary file: neither an ELF file nor a script with #!");
    }
    if head.len() < 64 {
        return bad("truncated ELF file");
    }
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let u64_at = |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"));
    if head[4] == 1 {
        return bad("32-bit program: only x86-64 programs can be run");
    }
    if head[4] != 2 || head[5] != 1 {
        return bad("wrong ELF class or byte order: only x86-64 programs can be run");
    }
    match u16_at(18) {
        62 => {}
        183 => return bad("program for AArch64: only x86-64 programs can be run"),
        other => {
            return bad(&format!(
                "program for another CPU (ELF machine {other}): only x86-64 programs can be run"
            ));
        }
    }
    match u16_at(16) {
        2 | 3 => {}
        1 => return bad("ELF object file, not a program: link it first"),
        4 => return bad("core dump, not a program"),
        other => return bad(&format!("ELF file of type {other}, not a program")),
    }
    let (phoff, entsize, count) = (u64_at(head, 32), u16_at(54) as usize, u16_at(56) as usize);
    if entsize < 56 || count == 0 {
        return bad("ELF file without program headers");
    }
    let size = std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
    let mut table = vec![0u8; entsize * count];
    let read =
        File::open(path).and_then(|f| std::os::unix::fs::FileExt::read_exact_at(&f, &mut table, phoff));
    if read.is_err() {
        return bad("truncated ELF file: its program headers are missing");
    }
    let mut loads = 0;
    for p in table.chunks_exact(entsize) {
        let kind = u32::from_le_bytes(p[..4].try_into().expect("four bytes"));
        let (offset, filesz) = (u64_at(p, 8), u64_at(p, 32));
        if kind == 1 {
            loads += 1;
            if offset.checked_add(filesz).is_none_or(|end| end > size) {
                return bad("truncated ELF file: a segment goes past its end");
            }
        }
        if kind == 3 && filesz < 4096 {
            let mut name = vec![0u8; filesz as usize];
            let file = File::open(path);
            let read = file.and_then(|f| std::os::unix::fs::FileExt::read_exact_at(&f, &mut name, offset));
            let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
            let interpreter = Path::new(OsStr::from_bytes(&name[..end]));
            if read.is_err() || !interpreter.exists() {
                let why = format!("its dynamic linker {} does not exist", interpreter.display());
                return Err(refuse(127, path, &why));
            }
        }
    }
    if loads == 0 {
        return bad("ELF file without anything to load");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tallygraph-program-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn status_of(path: &Path) -> (u8, String) {
        let e = resolve(&[path.as_os_str().to_owned()]).unwrap_err();
        (e.status, e.line)
    }

    #[test]
    fn programs_are_found_by_path() {
        let p = resolve(&["true".into(), "x".into()]).unwrap();
        assert!(p.path.is_absolute() && p.args == ["true", "x"]);
        assert_eq!(resolve(&["no-such-program-at-all".into()]).unwrap_err().status, 127);
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        let inner = file("inner", b"#!/bin/sh -e  x \necho\n", 0o755);
        let outer = file("outer", format!("#! {}\n", inner.display()).as_bytes(), 0o755);
        let p = resolve(&[outer.clone().into(), "arg".into()]).unwrap();
        let strings: Vec<OsString> =
            vec!["/bin/sh".into(), "-e  x".into(), inner.into(), outer.clone().into(), "arg".into()];
        assert_eq!(p.args, strings);
        assert_eq!(p.exec_fn, outer);
    }

    #[test]
    fn what_cannot_run_is_named() {
        let elf = std::fs::read("/proc/self/exe").unwrap();
        let mut other_cpu = elf[..4096].to_vec();
        other_cpu[18] = 183;
        let mut small = elf[..4096].to_vec();
        small[4] = 1;
        for (name, bytes, mode, status, part) in [
            ("text", &b"hello\n"[..], 0o755, 126, "neither an ELF file"),
            ("plain", &elf[..64], 0o644, 126, "Permission denied"),
            ("short", &elf[..40], 0o755, 126, "truncated"),
            ("cut", &elf[..4096], 0o755, 126, "truncated"),
            ("arm", &other_cpu, 0o755, 126, "AArch64"),
            ("i386", &small, 0o755, 126, "32-bit"),
            ("lost", b"#!/no/such/interpreter\n", 0o755, 126, "bad interpreter"),
            ("blank", b"#!\n", 0o755, 126, "bad interpreter line"),
        ] {
            let path = file(name, bytes, mode);
            let (got, line) = status_of(&path);
            assert!(got == status && line.contains(part), "{name}: {got} {line}");
        }
        let (status, line) = status_of(Path::new("/tmp"));
        assert!(status == 126 && line.contains("directory"));
        assert_eq!(status_of(Path::new("/no/such/file")).0, 127);
    }
}
