//! Generated code: names that just-in-time compilers give while they run, and regions for the rest.
//!
//! Two sources are followed as they grow: the text file `/tmp/perf-PID.map` ([`perf_map`]) and the
//! binary file `jit-PID.dump` ([`jitdump`]), which a compiler announces by mapping it executable. A
//! piece of code keeps its costs when other code takes its place: each entry is a function of its own.
//!
//! Code that nobody names belongs to its region, the mapping it lies in and what grew together with
//! it. The host may still find a name for it, since some compilers write theirs at the end only.

mod jitdump;
mod names;
mod perf_map;

use crate::generated::names::Names;
use alloc::vec::Vec;
use tallygraph_engine::maps::Region;
use tallygraph_sys::{abi, fd, syscall};

pub use names::Entry;

/// What is known of generated code.
#[derive(Default)]
pub struct Generated {
    names: Names,
    map: Source,
    dump: Source,
    regions: Vec<Known>,
}

/// A region of code without names.
struct Known {
    start: u64,
    end: u64,
    /// Number in the spool.
    object: u32,
}

/// A file that grows.
#[derive(Default)]
struct Source {
    /// Path with a NUL at its end; empty when there is none.
    path: Vec<u8>,
    /// How far the file was read.
    read: u64,
}

impl Source {
    fn at(path: Vec<u8>) -> Source {
        Source { path, read: 0 }
    }

    /// Calls `parse` with what was appended since the last time; it says how much of it was whole.
    fn follow(&mut self, parse: impl FnOnce(&[u8], u64) -> usize) {
        /// More than any compiler writes at once; the rest comes the next time.
        const MOST: u64 = 64 << 20;
        let Some(size) = size_of_own_file(&self.path) else { return };
        if size < self.read {
            self.read = 0;
        }
        if size == self.read {
            return;
        }
        let Ok(file) = fd::open(&self.path, abi::O_RDONLY | abi::O_NOFOLLOW | abi::O_NONBLOCK, 0) else {
            return;
        };
        let mut new = alloc::vec![0; (size - self.read).min(MOST) as usize];
        let n = fd::pread(file, &mut new, self.read).unwrap_or(0);
        fd::close(file);
        self.read += parse(&new[..n], self.read) as u64;
    }
}

/// Size of the file at `path` if it is a regular one of this user's: anybody could put names into
/// `/tmp`.
fn size_of_own_file(path: &[u8]) -> Option<u64> {
    const KIND: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
    if path.is_empty() {
        return None;
    }
    // SAFETY: stat is plain data, zero is a valid value.
    let mut st: abi::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the path is NUL-terminated, the kernel fills the struct.
    unsafe { syscall!(abi::__NR_newfstatat, abi::AT_FDCWD, path.as_ptr(), &raw mut st, AT_SYMLINK_NOFOLLOW) }
        .ok()?;
    // SAFETY: no arguments, no effect.
    let user = unsafe { syscall!(abi::__NR_geteuid) }.ok()?;
    (st.st_mode & KIND == REGULAR && st.st_uid as u64 == user).then_some(st.st_size as u64)
}

impl Generated {
    /// Nothing known yet of the process `pid`.
    pub fn new(pid: u32) -> Generated {
        let mut generated = Generated::default();
        generated.process_is(pid);
        generated
    }

    /// A forked child writes a map of its own. What its parent named stays.
    pub fn process_is(&mut self, pid: u32) {
        self.map = Source::at(alloc::format!("/tmp/perf-{pid}.map\0").into_bytes());
        self.dump = Source::default();
    }

    /// The program mapped the file at `path` to be executed: it may be a dump.
    pub fn mapped(&mut self, path: &[u8], pid: u32) {
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        if name == alloc::format!("jit-{pid}.dump").as_bytes() && self.dump.path.is_empty() {
            self.dump = Source::at([path, b"\0"].concat());
        }
    }

    /// Reads what was named since the last time.
    pub fn refresh(&mut self) {
        let Generated { names, map, dump, .. } = self;
        map.follow(|text, _| perf_map::read(text, names));
        dump.follow(|bytes, at| jitdump::read(bytes, at == 0, names));
    }

    /// The named code at an address.
    pub fn lookup(&self, address: u64) -> Option<&Entry> {
        self.names.lookup(address)
    }

    /// The first address behind `address` at which named code begins.
    pub fn next_border(&self, address: u64) -> u64 {
        self.names.next_border(address)
    }

    /// Raw name of an entry.
    pub fn name(&self, entry: &Entry) -> &[u8] {
        self.names.text(entry)
    }

    /// Number of the object that stands for a region. A new region takes `next`.
    pub fn region(&mut self, region: &Region, next: u32) -> u32 {
        let touches = |k: &Known| k.start <= region.end && region.start <= k.end;
        match self.regions.iter_mut().find(|k| touches(k)) {
            Some(known) => {
                known.start = known.start.min(region.start);
                known.end = known.end.max(region.end);
                known.object
            }
            None => {
                self.regions.push(Known { start: region.start, end: region.end, object: next });
                next
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64) -> Region {
        let line = alloc::format!("{start:x}-{end:x} rwxp 00000000 00:00 0");
        tallygraph_engine::maps::parse_line(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_region_that_grows_stays_the_same() {
        let mut g = Generated::new(1);
        assert_eq!(g.region(&region(0x1000, 0x2000), 7), 7);
        assert_eq!(g.region(&region(0x9000, 0xa000), 8), 8);
        assert_eq!(g.region(&region(0x2000, 0x3000), 9), 7);
        assert_eq!(g.region(&region(0x2800, 0x4000), 9), 7);
        assert_eq!(g.region(&region(0x4000, 0x5000), 9), 7);
        assert_eq!(g.region(&region(0x8000, 0x9000), 9), 8);
    }

    #[test]
    fn a_file_is_followed_while_it_grows() {
        let path = std::env::temp_dir().join(std::format!("tallygraph-follow-{}", std::process::id()));
        let mut with_nul = path.as_os_str().as_encoded_bytes().to_vec();
        with_nul.push(0);
        let mut g = Generated { map: Source::at(with_nul), ..Generated::default() };
        let name = |g: &mut Generated, address| {
            g.refresh();
            let entry = g.lookup(address)?;
            Some(std::string::String::from_utf8(g.name(entry).to_vec()).unwrap())
        };
        assert_eq!(name(&mut g, 0x1000), None);
        std::fs::write(&path, "1000 10 first\n1010 10 sec").unwrap();
        assert_eq!(name(&mut g, 0x1000).as_deref(), Some("first"));
        assert_eq!(name(&mut g, 0x1010), None);
        std::fs::write(&path, "1000 10 first\n1010 10 second\n1000 8 newer\n").unwrap();
        assert_eq!(name(&mut g, 0x1010).as_deref(), Some("second"));
        assert_eq!(name(&mut g, 0x1000).as_deref(), Some("newer"));
        assert_eq!(name(&mut g, 0x1008).as_deref(), Some("first"));
        std::fs::write(&path, "1000 10 x\n").unwrap();
        assert_eq!(name(&mut g, 0x1000).as_deref(), Some("x"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(name(&mut g, 0x1000).as_deref(), Some("x"));
        std::fs::remove_file(&path).unwrap();
    }
}
