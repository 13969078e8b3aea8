//! Line tables kept on disk, by build-id.
//!
//! A stored table is a file of its own: a header that says what it was made from, then the table as
//! [`crate::lines`] lays it out. It is written under a temporary name and renamed, so that readers
//! see a whole file or none. A file that does not fit its header, is of another version or was made
//! from another debug file is ignored and replaced.

use crate::lines::LineTable;
use crate::sections::map_whole_file;
use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Changes whenever the layout or the meaning of stored tables does.
const VERSION: u32 = 2;
const MAGIC: [u8; 8] = *b"TLYLINES";
const HEADER: usize = 64;
/// Bytes of stored tables from which the oldest are deleted.
const LIMIT: u64 = 1 << 30;

/// A directory of stored line tables.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
}

/// The file a table is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    size: u64,
    modified: i64,
    nanoseconds: i64,
    inode: u64,
}

impl Origin {
    /// What tells a file from an earlier or later one of the same name.
    pub fn of(metadata: &Metadata) -> Self {
        Origin {
            size: metadata.len(),
            modified: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
            inode: metadata.ino(),
        }
    }

    fn words(&self) -> [u64; 4] {
        [self.size, self.modified as u64, self.nanoseconds as u64, self.inode]
    }
}

fn header(origin: &Origin, table: &[u8]) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (i, word) in origin.words().iter().enumerate() {
        bytes[16 + i * 8..24 + i * 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes[48..56].copy_from_slice(&(table.len() as u64).to_le_bytes());
    bytes
}

impl Cache {
    /// A cache in `directory`, which need not exist yet.
    pub fn new(directory: &Path) -> Self {
        Cache { directory: directory.to_path_buf() }
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

    /// The stored table of an object, when it was made from one of `origins`, which are asked for
    /// only when there is a table.
    pub fn load(
        &self,
        path: &Path,
        build_id: &[u8],
        mut origins: impl Iterator<Item = Origin>,
    ) -> Option<LineTable> {
        let map = map_whole_file(&self.file(path, build_id))?;
        let (stored, table) = (map.get(..HEADER)?, map.get(HEADER..)?);
        origins.any(|origin| stored == header(&origin, table)).then_some(())?;
        LineTable::from_map(map, HEADER)
    }

    /// Stores a table. Failure is no harm: the next reader makes the table again.
    pub fn store(&self, path: &Path, build_id: &[u8], origin: &Origin, table: &LineTable) {
        let target = self.file(path, build_id);
        let temporary = target.with_extension(format!("{}.tmp", std::process::id()));
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        self.make_room(table.as_bytes().len() as u64);
        let write = || -> std::io::Result<()> {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&header(origin, table.as_bytes()))?;
            file.write_all(table.as_bytes())?;
            drop(file);
            fs::rename(&temporary, &target)
        };
        if write().is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }

    /// Deletes the tables written longest ago until `more` bytes fit below the limit.
    fn make_room(&self, more: u64) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|e| {
                let m = e.metadata().ok()?;
                Some((m.modified().ok()?, m.len(), e.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|f| f.1).sum::<u64>() + more;
        files.sort();
        for (_, size, path) in files {
            if total <= LIMIT {
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

    fn cache(name: &str) -> Cache {
        let directory = std::env::temp_dir().join(format!("tallygraph-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        Cache::new(&directory)
    }

    const ORIGIN: Origin = Origin { size: 1, modified: 2, nanoseconds: 3, inode: 4 };

    #[test]
    fn a_table_is_found_again_only_for_its_origin() {
        let cache = cache("cache-origin");
        let path = Path::new("/lib/x");
        assert!(cache.load(path, b"\x01\x02", [ORIGIN].into_iter()).is_none());
        cache.store(path, b"\x01\x02", &ORIGIN, &LineTable::empty());
        assert!(cache.load(path, b"\x01\x02", [ORIGIN].into_iter()).is_some());
        assert!(cache.load(path, b"\x01\x02", [Origin { size: 9, ..ORIGIN }].into_iter()).is_none());
        assert!(cache.load(path, b"\x01\x03", [ORIGIN].into_iter()).is_none());
        fs::remove_dir_all(&cache.directory).unwrap();
    }

    #[test]
    fn a_damaged_file_is_ignored_and_replaced() {
        let cache = cache("cache-damage");
        let path = Path::new("/lib/x");
        cache.store(path, b"", &ORIGIN, &LineTable::empty());
        let file = cache.file(path, b"");
        let good = fs::read(&file).unwrap();
        for n in 0..good.len() {
            fs::write(&file, &good[..n]).unwrap();
            assert!(cache.load(path, b"", [ORIGIN].into_iter()).is_none(), "{n} bytes");
        }
        cache.store(path, b"", &ORIGIN, &LineTable::empty());
        assert!(cache.load(path, b"", [ORIGIN].into_iter()).is_some());
        fs::remove_dir_all(&cache.directory).unwrap();
    }
}
