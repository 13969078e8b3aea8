//! A spool as a file: its header, its log, and the counters of each thread slot.

use crate::Error;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tallygraph_wire::WireError;
use tallygraph_wire::spool::{
    ARENA_STRIDE, ARENAS_OFFSET, BASELINE_OFFSET, HEADER_SIZE, Header, MAX_COUNTERS, MAX_EVENTS,
    PART_TOTALS_OFFSET, State, check_header,
};

/// An open spool. The guest may be running and counting meanwhile.
pub struct SpoolFile {
    file: File,
    path: PathBuf,
    head: Vec<u8>,
}

/// The bytes of a record log.
pub struct Log(Option<Mmap>);

impl std::ops::Deref for Log {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}

macro_rules! field {
    ($spool:expr, $name:ident: $type:ty) => {{
        let at = std::mem::offset_of!(Header, $name);
        <$type>::from_le_bytes($spool.head[at..at + size_of::<$type>()].try_into().expect("in the header"))
    }};
}

impl SpoolFile {
    /// Opens a spool and checks its header.
    pub fn open(path: &Path) -> Result<SpoolFile, Error> {
        let failed = |source| Error::File { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let mut head = vec![0; size_of::<Header>()];
        let mut filled = 0;
        while filled < head.len() {
            match file.read_at(&mut head[filled..], filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        let senseless = |source| Error::Spool { path: path.to_path_buf(), source };
        check_header(&head[..filled]).map_err(senseless)?;
        if filled < head.len() {
            return Err(senseless(WireError::Truncated(filled)));
        }
        let spool = SpoolFile { file, path: path.to_path_buf(), head };
        let size = spool.file.metadata().map_err(failed)?.len();
        let arenas_end = ARENAS_OFFSET + spool.arenas() as u64 * ARENA_STRIDE;
        if spool.counters_used() > MAX_COUNTERS || arenas_end > size.max(ARENAS_OFFSET) {
            return Err(senseless(WireError::Truncated(std::mem::offset_of!(Header, counters_used))));
        }
        Ok(spool)
    }

    /// Path the spool was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Process id of the guest.
    pub fn pid(&self) -> u32 {
        field!(self, pid: u32)
    }

    /// Parent process of the guest.
    pub fn parent(&self) -> u32 {
        field!(self, parent: u32)
    }

    /// Start time of the guest, see [`Header::start_time`].
    pub fn start_time(&self) -> u64 {
        field!(self, start_time: u64)
    }

    /// Parts dumped before this one.
    pub fn parts(&self) -> u32 {
        field!(self, parts: u32)
    }

    /// Basic blocks executed at the last dump.
    pub fn blocks_before(&self) -> u64 {
        field!(self, blocks_before: u64)
    }

    /// True when the guest said that it had ended.
    pub fn ended(&self) -> bool {
        field!(self, state: u32) == State::Ended as u32
    }

    fn counters_used(&self) -> u32 {
        field!(self, counters_used: u32)
    }

    /// Number of arena slots.
    pub fn arenas(&self) -> u32 {
        field!(self, arenas_used: u32)
    }

    /// The record log. It is mapped, so that damage is found before more than it is read.
    pub fn log(&self) -> Result<Log, Error> {
        let used = field!(self, records_used: u64);
        let failed = |source| Error::File { path: self.path.clone(), source };
        let size = self.file.metadata().map_err(failed)?.len();
        if used > ARENAS_OFFSET - HEADER_SIZE || used > size.saturating_sub(HEADER_SIZE) {
            let source = WireError::Truncated(std::mem::offset_of!(Header, records_used));
            return Err(Error::Spool { path: self.path.clone(), source });
        }
        if used == 0 {
            return Ok(Log(None));
        }
        let mut options = MmapOptions::new();
        if used < 8 << 20 {
            options.populate();
        }
        // SAFETY: what lies below `records_used` is never written again, and the agent never makes
        // the file shorter.
        let map = unsafe { options.offset(HEADER_SIZE).len(used as usize).map(&self.file) };
        Ok(Log(Some(map.map_err(failed)?)))
    }

    /// What slot `slot` has counted since the last dump or zeroing, added to `sums`, which has an
    /// element for each counter (see [`SpoolFile::no_counts`]).
    pub fn add_counts(&self, slot: u32, sums: &mut [u64]) -> Result<(), Error> {
        self.add(slot, true, sums)
    }

    /// As [`SpoolFile::add_counts`], with all that was ever counted.
    pub fn add_everything(&self, slot: u32, sums: &mut [u64]) -> Result<(), Error> {
        self.add(slot, false, sums)
    }

    fn add(&self, slot: u32, less_baseline: bool, sums: &mut [u64]) -> Result<(), Error> {
        let start = ARENAS_OFFSET + slot as u64 * ARENA_STRIDE;
        let read = |offset| self.read_filled(offset, sums.len() * 8);
        let counters = read(start)?;
        let baseline = if less_baseline { read(start + BASELINE_OFFSET)? } else { Vec::new() };
        let word = |bytes: &[u8], i: usize| {
            bytes.get(i * 8..i * 8 + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
        };
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = sum.wrapping_add(word(&counters, i).wrapping_sub(word(&baseline, i)));
        }
        Ok(())
    }

    /// Costs in the parts written before this one, by column.
    pub fn earlier_totals(&self, events: usize) -> Result<Vec<u64>, Error> {
        let bytes = self.read_filled(PART_TOTALS_OFFSET, events.min(MAX_EVENTS) * 8)?;
        let words = bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
        let mut totals: Vec<u64> = words.collect();
        totals.resize(events, 0);
        Ok(totals)
    }

    /// Notes in the file that part `number` is complete, the costs in all parts so far, and how many
    /// basic blocks were executed.
    pub fn note_part(&self, number: u32, totals: &[u64], blocks: u64) -> Result<(), Error> {
        let note = || -> io::Result<()> {
            let file = File::options().write(true).open(&self.path)?;
            let bytes: Vec<u8> = totals.iter().take(MAX_EVENTS).flat_map(|t| t.to_le_bytes()).collect();
            file.write_all_at(&bytes, PART_TOTALS_OFFSET)?;
            let before = std::mem::offset_of!(Header, blocks_before) as u64;
            file.write_all_at(&blocks.to_le_bytes(), before)?;
            file.write_all_at(&number.to_le_bytes(), std::mem::offset_of!(Header, parts) as u64)
        };
        note().map_err(|source| Error::File { path: self.path.clone(), source })
    }

    /// As many zeros as there are counters.
    pub fn no_counts(&self) -> Vec<u64> {
        vec![0; self.counters_used() as usize]
    }

    /// Up to `length` bytes from `offset`; what lies past the end of the file is left out.
    fn read_filled(&self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::File { path: self.path.clone(), source }),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SpoolBuilder;

    #[test]
    fn counts_are_counters_minus_baseline() {
        let mut b = SpoolBuilder::new("counts");
        b.counter(0, 3, 10).counter(1, 3, 5).counter(1, 4, 7).baseline(0, 3, 4);
        let spool = SpoolFile::open(&b.write()).unwrap();
        let mut sums = spool.no_counts();
        spool.add_counts(0, &mut sums).unwrap();
        assert_eq!(sums[3..5], [6, 0]);
        spool.add_counts(1, &mut sums).unwrap();
        assert_eq!(sums[3..5], [11, 7]);
    }

    #[test]
    fn files_that_are_no_spools_are_named() {
        let b = SpoolBuilder::new("no-spool");
        let path = b.write();
        let mut good = [0; 64];
        File::open(&path).unwrap().read_exact_at(&mut good, 0).unwrap();
        for n in [0, 5, 11, 40] {
            std::fs::write(&path, &good[..n]).unwrap();
            assert!(matches!(SpoolFile::open(&path), Err(Error::Spool { .. })), "{n} bytes");
        }
        assert!(matches!(SpoolFile::open(Path::new("/no/such/spool")), Err(Error::File { .. })));
    }
}
