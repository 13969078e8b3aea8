//! Where the debug information of an object lies.
//!
//! The order is that of debuggers: the object itself, the build-id directory, the file named by
//! `.gnu_debuglink` (beside the object, in its `.debug` directory, below `/usr/lib/debug`), and the
//! same places below extra paths. What is not there a command may fetch, if the user names one (a
//! [`Hook`]).

use crate::sections;
use object::Object;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Finds debug files.
#[derive(Clone, Debug)]
pub struct Finder {
    roots: Vec<PathBuf>,
    hook: Option<Hook>,
}

/// A command that fetches debug files by build-id, with the interface of `debuginfod-find`: it is run
/// with the words `debuginfo BUILDID` and prints the path of the file.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The command and the words before `debuginfo`.
    words: Vec<OsString>,
    /// Its whole environment.
    environment: Vec<(OsString, OsString)>,
    /// What it said, by build-id: it may take its time.
    answers: Arc<Mutex<HashMap<Vec<u8>, Option<PathBuf>>>>,
}

/// What is known of an object before its debug information is looked for.
pub struct Wanted<'a> {
    /// Path of the object.
    pub path: &'a Path,
    /// Build-id, empty when there is none.
    pub build_id: &'a [u8],
    /// File name and checksum of `.gnu_debuglink`.
    pub link: Option<(&'a [u8], u32)>,
}

impl Finder {
    /// A finder that looks below `/usr/lib/debug` and then below `extra`.
    pub fn new(extra: &[PathBuf]) -> Self {
        let mut roots = vec![PathBuf::from("/usr/lib/debug")];
        roots.extend_from_slice(extra);
        Finder { roots, hook: None }
    }

    /// The same finder that asks a command for what it does not find.
    pub fn with_hook(self, hook: Hook) -> Self {
        Finder { hook: Some(hook), ..self }
    }

    /// True when a command may be asked.
    pub fn has_hook(&self) -> bool {
        self.hook.is_some()
    }

    /// The separate debug file that belongs to an object, if one is installed.
    pub fn debug_file(&self, wanted: &Wanted) -> Option<PathBuf> {
        let installed = self.by_build_id(wanted.build_id).or_else(|| self.by_link(wanted));
        installed.or_else(|| self.hook.as_ref()?.fetch(wanted.build_id))
    }

    /// The file named by `.gnu_debugaltlink` of the debug file at `from`.
    pub fn shared_file(&self, from: &Path, name: &[u8], build_id: &[u8]) -> Option<PathBuf> {
        // Names are relative to where the debug file is, not to a link to it.
        let from = from.canonicalize().ok()?;
        let named = from.parent()?.join(OsStr::from_bytes(name));
        let is_it = |path: &Path| {
            let Some(map) = sections::map_file(path) else { return false };
            sections::parse(&map).is_some_and(|elf| elf.build_id().ok().flatten() == Some(build_id))
        };
        if is_it(&named) { Some(named) } else { self.by_build_id(build_id) }
    }

    fn by_build_id(&self, build_id: &[u8]) -> Option<PathBuf> {
        let (first, rest) = build_id.split_first()?;
        if rest.is_empty() {
            return None;
        }
        let name = format!(".build-id/{first:02x}/{}.debug", hexadecimal(rest));
        self.roots.iter().map(|root| root.join(&name)).find(|p| p.is_file())
    }

    fn by_link(&self, wanted: &Wanted) -> Option<PathBuf> {
        let (name, checksum) = wanted.link?;
        let name = Path::new(OsStr::from_bytes(name));
        let directory = wanted.path.parent()?;
        let below = directory.strip_prefix("/").unwrap_or(directory);
        let mut places = vec![directory.join(name), directory.join(".debug").join(name)];
        for root in &self.roots {
            places.push(root.join(below).join(name));
            places.push(root.join(name));
        }
        places.into_iter().find(|p| p != wanted.path && matches(p, wanted.build_id, checksum))
    }
}

impl Hook {
    /// A command, as its words, with this environment and no other.
    pub fn new(words: Vec<OsString>, environment: Vec<(OsString, OsString)>) -> Hook {
        Hook { words, environment, answers: Arc::default() }
    }

    fn fetch(&self, build_id: &[u8]) -> Option<PathBuf> {
        if build_id.is_empty() {
            return None;
        }
        let mut answers = self.answers.lock().unwrap_or_else(|e| e.into_inner());
        answers.entry(build_id.to_vec()).or_insert_with(|| self.ask(build_id)).clone()
    }

    /// The file the command names, if it is the one that was asked for.
    fn ask(&self, build_id: &[u8]) -> Option<PathBuf> {
        let (program, words) = self.words.split_first()?;
        let mut command = Command::new(program);
        command.args(words).args(["debuginfo", &hexadecimal(build_id)]);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        // The program's own streams are none of the command's business.
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let line = output.stdout.split(|&b| b == b'\n').next().filter(|l| !l.is_empty())?;
        let path = PathBuf::from(OsStr::from_bytes(line));
        let map = sections::map_file(&path)?;
        let is_it = sections::parse(&map)?.build_id().ok().flatten() == Some(build_id);
        (output.status.success() && is_it).then_some(path)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// True when the file at `path` is the one a debug link means: the same build-id, or without one the
/// checksum of the link.
fn matches(path: &Path, build_id: &[u8], checksum: u32) -> bool {
    let Some(map) = sections::map_file(path) else { return false };
    let Some(elf) = sections::parse(&map) else { return false };
    match elf.build_id() {
        Ok(Some(id)) if !build_id.is_empty() => id == build_id,
        _ => crc32(&map) == checksum,
    }
}

/// The checksum of `.gnu_debuglink` (CRC-32 as in zip files).
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0u32; 256];
        let mut n = 0;
        while n < 256 {
            let mut c = n as u32;
            let mut k = 0;
            while k < 8 {
                c = if c & 1 != 0 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 };
                k += 1;
            }
            table[n] = c;
            n += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |c, &b| TABLE[((c ^ b as u32) & 0xff) as usize] ^ (c >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zip_files() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn a_build_id_is_looked_for_below_every_root() {
        let root = std::env::temp_dir().join(format!("tallygraph-find-{}", std::process::id()));
        let directory = root.join(".build-id/ab");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("cdef.debug"), b"x").unwrap();
        let finder = Finder::new(std::slice::from_ref(&root));
        let wanted = |build_id| Wanted { path: Path::new("/none"), build_id, link: None };
        assert_eq!(finder.debug_file(&wanted(b"\xab\xcd\xef")), Some(directory.join("cdef.debug")));
        assert_eq!(finder.debug_file(&wanted(b"\xab\xcd\xee")), None);
        assert_eq!(finder.debug_file(&wanted(b"\xab")), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
