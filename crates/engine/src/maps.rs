//! The guest's executable mappings, as the kernel lists them.
//!
//! The list is read when an address is not in it and whenever a system call may have changed it. It
//! is kept outside the guest's sight: `/proc/self/maps` stays open at a private descriptor.

use alloc::vec::Vec;
use tallygraph_sys::{abi, fd, mem};

/// One line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// May be executed.
    pub exec: bool,
    /// May be written.
    pub write: bool,
    /// May be read.
    pub read: bool,
    /// Shared: another mapping may change it.
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Inode, 0 for anonymous memory.
    pub inode: u64,
    /// Device, major and minor as printed.
    pub device: u64,
    /// Path, or a name in brackets, or empty.
    pub path: Vec<u8>,
}

impl Region {
    /// Code here may change without a system call: fragments check their bytes when entered.
    pub fn is_volatile(&self) -> bool {
        self.write || self.shared
    }

    /// Code here comes from no file: it may change between two changes of protection.
    pub fn is_generated(&self) -> bool {
        self.inode == 0 && !self.path.starts_with(b"[v")
    }
}

/// The list.
pub struct Maps {
    regions: Vec<Region>,
    file: i32,
    last: usize,
}

fn hex(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let text = core::str::from_utf8(&bytes[..digits]).ok()?;
    Some((u64::from_str_radix(text, 16).ok()?, &bytes[digits..]))
}

/// Reads one line of `/proc/self/maps`.
pub fn parse_line(line: &[u8]) -> Option<Region> {
    let (start, rest) = hex(line)?;
    let (end, rest) = hex(rest.strip_prefix(b"-")?)?;
    let flags = rest.get(1..5)?;
    let (offset, rest) = hex(rest.get(6..)?)?;
    let (major, rest) = hex(rest.get(1..)?)?;
    let (minor, rest) = hex(rest.strip_prefix(b":")?)?;
    let rest = rest.get(1..)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let inode = core::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let path = rest[digits..].iter().position(|&b| b != b' ').map_or(&[][..], |at| &rest[digits + at..]);
    Some(Region {
        start,
        end,
        read: flags[0] == b'r',
        write: flags[1] == b'w',
        exec: flags[2] == b'x',
        shared: flags[3] == b's',
        offset,
        inode,
        device: major << 32 | minor,
        path: path.to_vec(),
    })
}

impl Maps {
    /// Opens the list.
    pub fn new() -> Self {
        let mut maps = Maps { regions: Vec::new(), file: -1, last: 0 };
        maps.reopen();
        maps
    }

    /// Opens the list anew, as a forked child must.
    pub fn reopen(&mut self) {
        if self.file >= 0 {
            fd::close(self.file);
        }
        self.file = fd::open(b"/proc/self/maps\0", abi::O_RDONLY, 0).and_then(fd::make_private).unwrap_or(-1);
        self.regions.clear();
    }

    /// Forgets what is known of a range; empty ranges are ignored.
    pub fn forget(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        self.regions.retain(|r| r.end <= start || r.start >= end);
        self.last = 0;
    }

    /// The kernel's text.
    pub fn read_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut buf = [0u8; 4096];
        loop {
            // `pread` at growing offsets; the kernel produces the list line by line.
            match fd::pread_once(self.file, &mut buf, text.len() as u64) {
                Ok(0) | Err(_) => return text,
                Ok(n) => text.extend_from_slice(&buf[..n]),
            }
        }
    }

    /// Reads the whole list, all kinds of regions.
    pub fn read_all(&self) -> Vec<Region> {
        self.read_text().split(|&b| b == b'\n').filter_map(parse_line).collect()
    }

    fn refresh(&mut self) {
        self.regions = self.read_all();
        self.regions.retain(|r| r.exec);
        self.last = 0;
    }

    /// The executable region that holds `addr`.
    pub fn exec_region(&mut self, addr: u64) -> Option<&Region> {
        for attempt in 0..2 {
            let hit = match self.regions.get(self.last) {
                Some(r) if (r.start..r.end).contains(&addr) => Some(self.last),
                _ => self.regions.iter().position(|r| (r.start..r.end).contains(&addr)),
            };
            if let Some(i) = hit {
                self.last = i;
                return self.regions.get(i);
            }
            if attempt == 0 {
                self.refresh();
            }
        }
        None
    }

    /// Says that the descriptor has moved.
    pub fn set_file(&mut self, file: i32) {
        self.file = file;
    }

    /// The descriptor that must survive the guest's closing of everything.
    pub fn file(&self) -> i32 {
        self.file
    }
}

impl Default for Maps {
    fn default() -> Self {
        Self::new()
    }
}

/// End of the readable bytes from `addr` on inside a region; code may continue in the next one, but
/// instructions that cross regions are rare enough to be refused.
pub fn readable(region: &Region, addr: u64) -> &'static [u8] {
    if !region.read {
        return &[];
    }
    let len = (region.end - addr).min(16 * mem::PAGE) as usize;
    // SAFETY: the kernel listed the range as mapped and readable. The guest may unmap or change it
    // concurrently; the bytes are only decoded, and a change is seen by the invalidation that the
    // system call or the write fault triggers.
    unsafe { core::slice::from_raw_parts(addr as *const u8, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let r =
            parse_line(b"7f0327d84000-7f0327eda000 r-xp 00026000 fe:00 326279   /usr/lib/a b.so").unwrap();
        assert_eq!((r.start, r.end, r.offset, r.inode), (0x7f0327d84000, 0x7f0327eda000, 0x26000, 326279));
        assert_eq!((r.read, r.write, r.exec), (true, false, true));
        assert_eq!(r.path, b"/usr/lib/a b.so");
        let r = parse_line(b"1000-2000 rw-p 00000000 00:00 0").unwrap();
        assert!(r.path.is_empty());
        assert_eq!(parse_line(b"nonsense"), None);
    }

    #[test]
    fn this_very_function_is_in_an_executable_region() {
        let mut maps = Maps::new();
        let here = a_line_is_read as *const () as u64;
        let region = maps.exec_region(here).unwrap().clone();
        assert!(region.exec && !region.path.is_empty());
        assert!(maps.exec_region(0x10).is_none());
        assert!(!readable(&region, here).is_empty());
    }
}
