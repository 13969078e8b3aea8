//! Executing the agent in this very process, from memory.
//!
//! The agent's image and the configuration behind it lie in a file without a name, which is executed
//! by its descriptor. The descriptor stays open across the execution, because the agent reads its
//! configuration from it, and has a number that programs do not use.

use super::{inherited, launch::Failure};
use std::ffi::{CString, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Numbers from here on are left to us by the programs we know; the usual limit is 1024.
const PRIVATE_BASE: RawFd = 960;

/// A memory file may be executed, even where the system's default says otherwise (Linux 6.3).
const MFD_EXEC: libc::c_uint = 0x10;

/// What is executed, in parts: the agent, which is never copied here, and its configuration.
type Image<'a> = [&'a [u8]; 2];

/// Duplicates a descriptor to a private number. The copy stays open across an execution.
pub fn private_copy(fd: RawFd) -> io::Result<OwnedFd> {
    for base in [PRIVATE_BASE, 3] {
        // SAFETY: only duplicates; a bad descriptor or a base above the limit is an error.
        let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD, base) };
        if copy >= 0 {
            // SAFETY: a fresh descriptor that nobody else owns.
            return Ok(unsafe { OwnedFd::from_raw_fd(copy) });
        }
    }
    Err(io::Error::last_os_error())
}

/// Executes `image` with these arguments and the environment of this process. Returns only when that
/// is impossible, with the reasons.
pub fn execute(image: Image, args: &[OsString]) -> Failure {
    let strings: Vec<CString> = args.iter().filter_map(|a| CString::new(a.as_bytes()).ok()).collect();
    let mut argv: Vec<*const libc::c_char> = strings.iter().map(|s| s.as_ptr()).collect();
    argv.push(std::ptr::null());
    let memory = || execute_file(memory_file(image)?, &argv);
    let mut reasons = vec![format!("from memory: {}", memory().unwrap_err())];
    for directory in directories() {
        let on_disk = || execute_file(unlinked_file(&directory, image)?, &argv);
        reasons.push(format!("from {}: {}", directory.display(), on_disk().unwrap_err()));
    }
    Failure::new(
        1,
        format!(
            "the agent cannot be executed ({}); a directory for TMPDIR that allows it helps",
            reasons.join("; ")
        ),
    )
}

/// Where an executable file may be put when memory files are forbidden.
fn directories() -> Vec<PathBuf> {
    let set = ["TMPDIR", "XDG_RUNTIME_DIR"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    set.chain(["/tmp".into(), "/var/tmp".into(), "/dev/shm".into()]).collect()
}

/// A file in memory.
fn memory_file(image: Image) -> io::Result<OwnedFd> {
    let create = |flags| {
        // SAFETY: the name is NUL-terminated.
        unsafe { libc::memfd_create(c"tallygraph".as_ptr(), flags) }
    };
    let mut fd = create(MFD_EXEC);
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        fd = create(0);
    }
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let mut file = unsafe { File::from_raw_fd(fd) };
    image.iter().try_for_each(|part| file.write_all(part))?;
    private_copy(file.as_raw_fd())
}

/// A file in a directory, already without a name.
fn unlinked_file(directory: &std::path::Path, image: Image) -> io::Result<OwnedFd> {
    let path = directory.join(format!("tallygraph-agent-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
    let written = image.iter().try_for_each(|part| file.write_all(part));
    // A file open for writing can't be executed.
    drop(file);
    let opened = written.and_then(|()| File::open(&path));
    std::fs::remove_file(&path)?;
    private_copy(opened?.as_raw_fd())
}

/// Becomes the program in `file`.
fn execute_file(file: OwnedFd, argv: &[*const libc::c_char]) -> io::Result<std::convert::Infallible> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    let before = inherited::restore();
    // SAFETY: all strings are NUL-terminated and the vectors NULL-terminated; the process either
    // becomes the agent or the call fails.
    let error = unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            environ,
            libc::AT_EMPTY_PATH,
        );
        io::Error::last_os_error()
    };
    before.undo();
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn both_kinds_of_file_hold_the_image_under_a_private_number() {
        for file in [memory_file([b"im", b"age"]), unlinked_file(&std::env::temp_dir(), [b"im", b"age"])] {
            let file = file.unwrap();
            assert!(file.as_raw_fd() >= PRIVATE_BASE);
            // SAFETY: asks for the flags of an open descriptor.
            assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) } & libc::FD_CLOEXEC, 0);
            let mut text = String::new();
            let path = format!("/dev/fd/{}", file.as_raw_fd());
            File::open(path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "image");
        }
    }

    #[test]
    fn a_failure_tells_what_was_tried() {
        let failure = execute([b"not an ", b"executable"], &["x".into()]);
        assert_eq!(failure.status, 1);
        assert!(failure.lines[0].contains("from memory: Exec format error"), "{:?}", failure.lines);
        assert!(failure.lines[0].contains("/dev/shm"));
    }
}
