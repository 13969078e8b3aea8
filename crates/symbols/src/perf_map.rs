//! Names of generated code: the `perf-PID.map` files that just-in-time compilers write.
//!
//! Each line is `START SIZE NAME`, numbers in hexadecimal. Code may be replaced: of two entries for
//! an address the later one counts.

use std::path::Path;

/// An entry: first address, address after the last, position in the file, name.
#[derive(Debug)]
struct Entry {
    start: u64,
    end: u64,
    order: usize,
    name: String,
}

/// The entries of one file.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// Sorted by start, then by order.
    entries: Vec<Entry>,
    /// Length of the longest entry, to bound how far back a covering one can begin.
    longest: u64,
}

impl PerfMap {
    /// Reads the file, if it is there and belongs to the user: anybody could put names into `/tmp`.
    pub fn open(path: &Path) -> PerfMap {
        use std::os::unix::fs::MetadataExt;
        let owner = |p: &Path| std::fs::symlink_metadata(p).ok().filter(|m| !m.is_symlink()).map(|m| m.uid());
        let user = std::fs::metadata("/proc/self").map(|m| m.uid()).ok();
        if user.is_none() || owner(path) != user {
            return PerfMap::default();
        }
        std::fs::read(path).map_or_else(|_| PerfMap::default(), |text| PerfMap::parse(&text))
    }

    /// Reads lines; those that make no sense (the last may be incomplete) are passed over.
    pub fn parse(text: &[u8]) -> PerfMap {
        let mut entries = Vec::new();
        for (order, line) in text.split(|&b| b == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let mut words = line.trim_end().splitn(3, ' ');
            let number = |w: Option<&str>| u64::from_str_radix(w?.trim_start_matches("0x"), 16).ok();
            let (Some(start), Some(size), Some(name)) =
                (number(words.next()), number(words.next()), words.next())
            else {
                continue;
            };
            if size > 0 && !name.is_empty() {
                entries.push(Entry { start, end: start.saturating_add(size), order, name: name.to_string() });
            }
        }
        entries.sort_by_key(|e| (e.start, e.order));
        let longest = entries.iter().map(|e| e.end - e.start).max().unwrap_or(0);
        PerfMap { entries, longest }
    }

    /// Start and name of the code at an address.
    pub fn lookup(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.entries.partition_point(|e| e.start <= address);
        let candidates = self.entries[..after].iter().rev();
        let near = candidates.take_while(|e| address - e.start < self.longest);
        let latest = near.filter(|e| address < e.end).max_by_key(|e| e.order)?;
        Some((latest.start, &latest.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_entry_that_covers_an_address_counts() {
        let map = PerfMap::parse(b"1000 100 py::f:/a b.py\n1080 10 inner\n0x2000 20 g\n1000 40 newer\n");
        assert_eq!(map.lookup(0x1000), Some((0x1000, "newer")));
        assert_eq!(map.lookup(0x1040), Some((0x1000, "py::f:/a b.py")));
        assert_eq!(map.lookup(0x1085), Some((0x1080, "inner")));
        assert_eq!(map.lookup(0x1090), Some((0x1000, "py::f:/a b.py")));
        assert_eq!(map.lookup(0x201f), Some((0x2000, "g")));
        assert_eq!(map.lookup(0x2020), None);
        assert_eq!(map.lookup(0), None);
    }

    #[test]
    fn lines_without_sense_are_passed_over() {
        let map = PerfMap::parse(b"garbage\n10 x name\n10 0 empty\n20 4\n30 4 \n40 4 good\n50 4 go");
        assert_eq!(map.lookup(0x41), Some((0x40, "good")));
        assert_eq!(map.lookup(0x51), Some((0x50, "go")));
        assert_eq!(map.lookup(0x10), None);
        assert_eq!(map.lookup(0x30), None);
    }

    #[test]
    fn a_file_of_the_user_is_read() {
        let path = std::env::temp_dir().join(format!("tallygraph-perf-{}.map", std::process::id()));
        std::fs::write(&path, "10 4 f\n").unwrap();
        assert_eq!(PerfMap::open(&path).lookup(0x10), Some((0x10, "f")));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(PerfMap::open(&path).lookup(0x10), None);
    }
}
