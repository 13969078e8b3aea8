//! Line tables kept on disk, by build-id.
//!
//! A stored table is a file of its own: a header that says what it was made from, then the table as
//! [`crate::lines`] lays it out. It is written under a temporary name and renamed, so that readers
//! see a whole file or none, whoever else writes. A file that does not fit its header or its checksum,
//! is of another version, or was made from a file that has changed since, is ignored and replaced.
//!
//! ```text
//! magic 8 bytes, version u32, length of the path u32 | debug file 4 × u64 | object 4 × u64 |
//! length of the table u64, checksum u64 | path of the debug file, padded to 8 bytes | table
//! ```

use crate::lines::LineTable;
use crate::sections::map_whole_file;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Changes whenever the layout or the meaning of stored tables does.
const VERSION: u32 = 3;
const MAGIC: [u8; 8] = *b"TLYLINES";
/// Bytes before the path.
const HEADER: usize = 96;
/// Where the checksum lies, the last word of the header.
const CHECKSUM: usize = HEADER - 8;
/// Bytes of stored tables from which the oldest are deleted.
const LIMIT: u64 = 1 << 30;
/// Temporary files of this age were left by writers that were killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A directory of stored line tables.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
    limit: u64,
}

/// What tells a file from an earlier or later one of the same name: size, time of modification in
/// seconds and nanoseconds, and inode.
type Identity = [u64; 4];

fn identity(m: &Metadata) -> Identity {
    [m.len(), m.mtime() as u64, m.mtime_nsec() as u64, m.ino()]
}

/// What a table is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file with the debug information.
    path: PathBuf,
    file: Identity,
    /// The object, when it has no build-id; else all zero: a copy of it elsewhere has the same lines.
    object: Identity,
}

impl Origin {
    /// The origin of a table of the object at `object`, made from `file`.
    pub fn of(object: &Path, build_id: &[u8], file: &Path) -> Option<Self> {
        let of = |path: &Path| Some(identity(&fs::metadata(path).ok()?));
        let object = if build_id.is_empty() { of(object)? } else { [0; 4] };
        Some(Origin { path: file.to_path_buf(), file: of(file)?, object })
    }

    /// Bytes of the file with the debug information.
    pub fn size(&self) -> u64 {
        self.file[0]
    }

    /// All that comes before the table: header, path and padding.
    fn encode(&self, table: &[u8]) -> Vec<u8> {
        let path = self.path.as_os_str().as_bytes();
        let mut bytes = Vec::with_capacity(HEADER + path.len() + 8);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(path.len() as u32).to_le_bytes());
        for word in self.file.iter().chain(&self.object).chain(&[table.len() as u64, 0]) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(path);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let sum = checksum(checksum(0, &bytes), table);
        bytes[CHECKSUM..HEADER].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// A sum that any change of a few bytes alters; four words at a time, as a stored table is read whole.
fn checksum(start: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [start ^ bytes.len() as u64, 1, 2, 3];
    let word = |b: &[u8]| {
        let mut all = [0; 8];
        all[..b.len()].copy_from_slice(b);
        u64::from_le_bytes(all)
    };
    let mix = |lane: u64, w: u64| (lane ^ w).wrapping_mul(FACTOR).rotate_left(29);
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, w) in lanes.iter_mut().zip(block.chunks_exact(8)) {
            *lane = mix(*lane, word(w));
        }
    }
    for w in blocks.remainder().chunks(8) {
        lanes[0] = mix(lanes[0], word(w));
    }
    lanes.iter().fold(0, |sum, &lane| mix(sum, lane))
}

impl Cache {
    /// A cache in `directory`, which need not exist yet.
    pub fn new(directory: &Path) -> Self {
        Cache { directory: directory.to_path_buf(), limit: LIMIT }
    }

    /// Name of an object's table: its build-id, or for objects without one a hash of its path.
    fn file(&self, path: &Path, build_id: &[u8]) -> PathBuf {
        let mut name = String::new();
        if build_id.is_empty() {
            let hash = path
                .as_os_str()
                .as_encoded_bytes()
                .iter()
                .fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
            let _ = write!(name, "path-{hash:016x}");
        } else {
            for byte in build_id {
                let _ = write!(name, "{byte:02x}");
            }
        }
        name.push_str(".lines");
        self.directory.join(name)
    }

    /// The stored table of an object, when what it was made from is still the same.
    pub fn load(&self, object: &Path, build_id: &[u8]) -> Option<LineTable> {
        let map = map_whole_file(&self.file(object, build_id))?;
        let header = map.get(..HEADER)?;
        let length = u32::from_le_bytes(header[12..16].try_into().expect("four bytes")) as usize;
        let path = map.get(HEADER..HEADER.checked_add(length)?)?;
        let start = (HEADER + length).next_multiple_of(8);
        let table = map.get(start..)?;
        let origin = Origin::of(object, build_id, Path::new(OsStr::from_bytes(path)))?;
        (origin.encode(table) == map[..start]).then_some(())?;
        LineTable::from_map(map, start)
    }

    /// Stores a table. Failure is no harm: the next reader makes the table again.
    pub fn store(&self, object: &Path, build_id: &[u8], origin: &Origin, table: &LineTable) {
        static STORED: AtomicU32 = AtomicU32::new(0);
        let target = self.file(object, build_id);
        let number = STORED.fetch_add(1, Ordering::Relaxed);
        let temporary = target.with_extension(format!("{}-{number}.tmp", std::process::id()));
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        let table = table.as_bytes();
        self.make_room(table.len() as u64);
        let write = || -> std::io::Result<()> {
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(&origin.encode(table))?;
            file.write_all(table)?;
            drop(file);
            fs::rename(&temporary, &target)
        };
        if write().is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }

    /// Deletes what killed writers left, and the tables written longest ago until `more` bytes fit
    /// below the limit.
    fn make_room(&self, more: u64) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let now = SystemTime::now();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let (Ok(m), path) = (entry.metadata(), entry.path()) else { continue };
            let Ok(modified) = m.modified() else { continue };
            let temporary = path.extension().is_some_and(|e| e == "tmp");
            if temporary && now.duration_since(modified).is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(path);
            } else if !temporary {
                files.push((modified, m.len(), path));
            }
        }
        let mut total: u64 = files.iter().map(|f| f.1).sum::<u64>() + more;
        files.sort();
        for (_, size, path) in files {
            if total <= self.limit {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(Cache, PathBuf);

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.directory);
            let _ = fs::remove_file(&self.1);
        }
    }

    /// An empty cache, and a file that tables are said to be made from.
    fn place(name: &str) -> Place {
        let directory = std::env::temp_dir().join(format!("tallygraph-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let file = directory.with_extension("debug");
        fs::write(&file, "x").unwrap();
        Place(Cache::new(&directory), file)
    }

    #[test]
    fn a_table_is_found_again_only_while_its_origin_is_the_same() {
        let Place(cache, file) = &place("cache-origin");
        let (id, object) = (b"\x01\x02", Path::new("/lib/x"));
        assert!(cache.load(object, id).is_none());
        cache.store(object, id, &Origin::of(object, id, file).unwrap(), &LineTable::empty());
        assert!(cache.load(object, id).is_some());
        assert!(cache.load(Path::new("/another/copy"), id).is_some());
        assert!(cache.load(object, b"\x01\x03").is_none());
        fs::write(file, "xy").unwrap();
        assert!(cache.load(object, id).is_none());
        fs::remove_file(file).unwrap();
        assert!(cache.load(object, id).is_none());
    }

    #[test]
    fn an_object_without_build_id_is_known_by_its_file() {
        let Place(cache, file) = &place("cache-path");
        cache.store(file, b"", &Origin::of(file, b"", file).unwrap(), &LineTable::empty());
        assert!(cache.load(file, b"").is_some());
        assert!(cache.load(Path::new("/lib/y"), b"").is_none());
    }

    #[test]
    fn a_damaged_file_is_ignored_and_replaced() {
        let Place(cache, debug) = &place("cache-damage");
        let object = Path::new("/lib/x");
        let origin = Origin::of(object, b"\x07", debug).unwrap();
        let table = crate::lines::testing::table(&[(0x10, "a.c", 1), (0x20, "b.c", 2)]);
        cache.store(object, b"\x07", &origin, &table);
        let file = cache.file(object, b"\x07");
        let good = fs::read(&file).unwrap();
        assert!(good.len() > 150);
        for n in 0..good.len() {
            fs::write(&file, &good[..n]).unwrap();
            assert!(cache.load(object, b"\x07").is_none(), "{n} bytes");
            // No single changed bit goes unnoticed either.
            let mut bad = good.clone();
            bad[n] ^= 1 << (n % 8);
            fs::write(&file, &bad).unwrap();
            assert!(cache.load(object, b"\x07").is_none(), "byte {n}");
        }
        cache.store(object, b"\x07", &origin, &table);
        assert!(cache.load(object, b"\x07").unwrap().as_bytes() == table.as_bytes());
    }

    #[test]
    fn writers_at_the_same_time_leave_one_whole_table() {
        let Place(cache, debug) = &place("cache-writers");
        let object = Path::new("/lib/x");
        let origin = Origin::of(object, b"\x01", debug).unwrap();
        let rows: Vec<(u64, &str, u32)> = (0..5000).map(|n| (n, "a.c", n as u32)).collect();
        let table = crate::lines::testing::table(&rows);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        cache.store(object, b"\x01", &origin, &table);
                        let found = cache.load(object, b"\x01").expect("whole at any time");
                        assert!(found.as_bytes() == table.as_bytes());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&cache.directory).unwrap().count(), 1);
    }

    #[test]
    fn the_oldest_tables_make_room() {
        let Place(cache, debug) = &place("cache-room");
        let object = Path::new("/lib/x");
        let origin = Origin::of(object, b"\x01", debug).unwrap();
        let rows: Vec<(u64, &str, u32)> = (0..500).map(|n| (n, "a.c", n as u32)).collect();
        let table = crate::lines::testing::table(&rows);
        let cache = Cache { limit: 3 * (table.as_bytes().len() as u64 + 400), ..cache.clone() };
        let old = SystemTime::now() - Duration::from_secs(7200);
        for id in 1..=4u8 {
            cache.store(object, &[id], &origin, &table);
            if let Ok(file) = fs::File::options().write(true).open(cache.file(object, &[id])) {
                file.set_modified(old + Duration::from_secs(id.into())).unwrap();
            }
        }
        let left = cache.directory.join("killed.1-0.tmp");
        fs::write(&left, "half").unwrap();
        fs::File::options().write(true).open(&left).unwrap().set_modified(old).unwrap();
        cache.store(object, &[5], &origin, &table);
        let found: Vec<bool> = (1..=5u8).map(|id| cache.load(object, &[id]).is_some()).collect();
        assert_eq!(found, [false, false, true, true, true]);
        assert!(!left.exists());
    }
}
