//! The directory of spools: one for each user, closed to others.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

fn uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |m| m.uid())
}

/// Places in order of preference: memory first, counters are written at every page fault.
pub fn candidates() -> Vec<PathBuf> {
    let name = format!("tallygraph-{}", uid());
    let mut places = vec![PathBuf::from("/dev/shm")];
    places.extend(std::env::var_os("TMPDIR").map(PathBuf::from));
    places.push("/tmp".into());
    places.into_iter().map(|p| p.join(&name)).collect()
}

/// A directory of ours that nobody else can write.
fn is_safe(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|m| m.is_dir() && m.uid() == uid() && m.mode() & 0o077 == 0)
}

/// The first place that can be used, created if need be.
pub fn create() -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for dir in candidates() {
        if is_safe(&dir) || std::fs::DirBuilder::new().mode(0o700).create(&dir).is_ok() && is_safe(&dir) {
            return Ok(dir);
        }
        tried.push(dir.display().to_string());
    }
    Err(format!("no private directory for the spool: tried {}; set TMPDIR", tried.join(", ")))
}
