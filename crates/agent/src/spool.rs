//! The agent's side of the spool: a log of records and the threads' counters.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use tallygraph_engine::layout::{COUNTERS_OFFSET, FIRST_COUNTER, TOTAL_COUNTER};
use tallygraph_sys::mem::{self, RW};
use tallygraph_sys::{Errno, abi, fd, syscall};
use tallygraph_wire::spool::{
    ARENA_STRIDE, ARENAS_OFFSET, BASELINE_OFFSET, HEADER_SIZE, Header, MAGIC, Record, State,
};

/// Largest record log.
const LOG_SIZE: u64 = 0x8000_0000;

/// Counters of a call edge; edges that the profile shows as one are of one group.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Number of the group.
    pub group: u32,
    /// Counter of calls.
    pub count: u32,
    /// First counter of inclusive cost.
    pub inclusive: u32,
}

/// Whose counters are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// All threads'.
    All,
    /// One thread's.
    One(u32),
}

/// A counter of calls that a part does not show.
#[derive(Clone, Copy, Debug)]
pub struct TakenOut {
    slot: u64,
    counter: u64,
    baseline: u64,
}

/// The spool of this process.
pub struct Spool {
    file: i32,
    base: u64,
    path: Vec<u8>,
    /// The file has no name any more.
    unnamed: bool,
    scratch: Vec<u8>,
    /// Bytes of the log whose pages are present.
    present: u64,
}

fn decimal(mut n: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (n % 10) as u8);
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// Start time of a process, field 22 of its `stat` file; 0 when it can't be read.
fn start_time() -> u64 {
    let Ok(file) = fd::open(b"/proc/self/stat\0", abi::O_RDONLY, 0) else { return 0 };
    let mut buf = [0u8; 1024];
    let n = fd::pread(file, &mut buf, 0).unwrap_or(0);
    fd::close(file);
    // The name in parentheses may hold anything: count fields after the last ')'.
    let Some(at) = buf[..n].iter().rposition(|&b| b == b')') else { return 0 };
    let field = buf[at + 1..n].split(|&b| b == b' ').nth(20);
    field.and_then(|f| core::str::from_utf8(f).ok()).and_then(|f| f.parse().ok()).unwrap_or(0)
}

impl Spool {
    /// Creates `DIR/PID.spool`.
    pub fn create(dir: &[u8], pid: u32, parent: u32) -> Result<Spool, Errno> {
        let mut path = dir.to_vec();
        path.push(b'/');
        decimal(pid as u64, &mut path);
        path.extend_from_slice(b".spool\0");
        let flags = abi::O_RDWR | abi::O_CREAT | abi::O_EXCL | abi::O_NOFOLLOW;
        let file = match fd::open(&path, flags, 0o600) {
            Err(Errno(17)) => {
                // Left by an earlier process of this number.
                // SAFETY: the path is NUL-terminated and in our own directory.
                let _ = unsafe { syscall!(abi::__NR_unlink, path.as_ptr()) };
                fd::open(&path, flags, 0o600)?
            }
            other => other?,
        };
        let file = fd::make_private(file)?;
        // SAFETY: changes the size of our own file.
        unsafe { syscall!(abi::__NR_ftruncate, file, ARENAS_OFFSET) }?;
        // SAFETY: a fresh mapping.
        let base = unsafe {
            let flags = abi::MAP_SHARED | abi::MAP_NORESERVE;
            mem::map(mem::own_place(HEADER_SIZE + LOG_SIZE), HEADER_SIZE + LOG_SIZE, RW, flags, file, 0)
        }?;
        let spool = Spool { file, base, path, unnamed: false, scratch: Vec::new(), present: 0 };
        // SAFETY: the header's page is mapped, zeroed, and not shared yet.
        let header = unsafe { &mut *(base as *mut Header) };
        header.magic = MAGIC;
        header.version = tallygraph_wire::VERSION;
        header.pid = pid;
        header.parent = parent;
        header.start_time = start_time();
        // Counter 0 means none, counter 1 is the running total; those of other events follow.
        header.counters_used.store(FIRST_COUNTER, Ordering::Relaxed);
        header.total_counter.store(TOTAL_COUNTER, Ordering::Relaxed);
        Ok(spool)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: mapped for the life of the spool; all fields that change are atomic.
        unsafe { &*(self.base as *const Header) }
    }

    /// Path for another process of this user, without NUL.
    pub fn path(&self) -> Vec<u8> {
        if self.unnamed {
            return alloc::format!("/proc/{}/fd/{}", tallygraph_engine::own_pid(), self.file).into_bytes();
        }
        self.path[..self.path.len() - 1].to_vec()
    }

    /// Deletes the file's name, but goes on with the file: it ends with the program, or is written from
    /// as long as the program lives.
    pub fn unname(&mut self) {
        if !self.unnamed {
            self.remove();
            self.unnamed = true;
        }
    }

    /// The descriptor.
    pub fn file(&self) -> i32 {
        self.file
    }

    /// Says that the descriptor has moved.
    pub fn set_file(&mut self, file: i32) {
        self.file = file;
    }

    /// Appends a record.
    pub fn append(&mut self, record: &Record) {
        self.scratch.clear();
        record.encode(&mut self.scratch);
        let used = self.header().records_used.load(Ordering::Relaxed);
        if used + self.scratch.len() as u64 > LOG_SIZE {
            tallygraph_sys::die(2, b"tallygraph: the record log is full (2 GiB)\n");
        }
        let at = self.base + HEADER_SIZE + used;
        if used + self.scratch.len() as u64 > self.present {
            const AHEAD: u64 = 256 * 1024;
            mem::populate(self.base + HEADER_SIZE + self.present, AHEAD);
            self.present += AHEAD;
        }
        // SAFETY: inside the mapped log, after all whole records.
        unsafe { core::ptr::copy_nonoverlapping(self.scratch.as_ptr(), at as *mut u8, self.scratch.len()) };
        self.header().records_used.store(used + self.scratch.len() as u64, Ordering::Release);
    }

    /// Hands out `n` counters in a row; gives the first.
    pub fn counters(&mut self, n: u32) -> u32 {
        let first = self.header().counters_used.load(Ordering::Relaxed);
        if first + n >= tallygraph_wire::spool::MAX_COUNTERS {
            tallygraph_sys::die(2, b"tallygraph: out of counters\n");
        }
        self.header().counters_used.store(first + n, Ordering::Relaxed);
        first
    }

    /// Takes a fresh arena slot.
    pub fn arena(&mut self) -> Result<u32, Errno> {
        let slot = self.header().arenas_used.load(Ordering::Relaxed);
        let size = ARENAS_OFFSET + (slot as u64 + 1) * ARENA_STRIDE;
        // SAFETY: changes the size of our own file.
        unsafe { syscall!(abi::__NR_ftruncate, self.file, size) }?;
        self.header().arenas_used.store(slot + 1, Ordering::Relaxed);
        Ok(slot)
    }

    /// Maps an arena's counters at `gs` + [`COUNTERS_OFFSET`], over what is reserved there.
    pub fn map_arena(&self, slot: u32, thread_block: u64) -> Result<(), Errno> {
        let at = thread_block + COUNTERS_OFFSET as u64;
        let offset = ARENAS_OFFSET + slot as u64 * ARENA_STRIDE;
        let flags = abi::MAP_SHARED | abi::MAP_FIXED | abi::MAP_NORESERVE;
        // SAFETY: the range is reserved as part of the thread block.
        unsafe { mem::map(at, BASELINE_OFFSET, RW, flags, self.file, offset) }.map(drop)
    }

    /// Copies all records and the number of counters to the spool of a forked child.
    pub fn copy_log_to(&self, child: &mut Spool) {
        let used = self.header().records_used.load(Ordering::Acquire);
        // SAFETY: both logs are mapped and of one size.
        unsafe {
            core::ptr::copy_nonoverlapping(
                (self.base + HEADER_SIZE) as *const u8,
                (child.base + HEADER_SIZE) as *mut u8,
                used as usize,
            );
        }
        child.header().records_used.store(used, Ordering::Release);
        let counters = self.header().counters_used.load(Ordering::Relaxed);
        child.header().counters_used.store(counters, Ordering::Relaxed);
    }

    /// Lets go of the parent's spool in a forked child.
    pub fn abandon(self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { mem::unmap(self.base, HEADER_SIZE + LOG_SIZE) };
        fd::close(self.file);
    }

    /// Reads all counters in use of one arena, or of its baseline.
    fn read_counters(&self, slot: u64, offset: u64) -> Vec<u64> {
        let n = self.header().counters_used.load(Ordering::Relaxed) as usize;
        let mut words = alloc::vec![0u64; n];
        // SAFETY: any bytes are valid words.
        let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), n * 8) };
        let _ = fd::pread(self.file, bytes, ARENAS_OFFSET + slot * ARENA_STRIDE + offset);
        words
    }

    fn write_baseline(&self, slot: u64, words: &[u64]) {
        // SAFETY: words are bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), words.len() * 8) };
        fd::pwrite_all(self.file, bytes, ARENAS_OFFSET + slot * ARENA_STRIDE + BASELINE_OFFSET);
    }

    /// The numbers of arena slots.
    pub fn slots(&self, slots: Slots) -> core::ops::Range<u64> {
        match slots {
            Slots::All => 0..self.arenas(),
            Slots::One(slot) => slot as u64..slot as u64 + 1,
        }
    }

    fn arenas(&self) -> u64 {
        self.header().arenas_used.load(Ordering::Relaxed) as u64
    }

    /// The counters of every arena now.
    pub fn snapshot(&self) -> Vec<Vec<u64>> {
        (0..self.arenas()).map(|slot| self.read_counters(slot, 0)).collect()
    }

    /// Adds to the baseline what was counted since a snapshot; what the snapshot does not have was
    /// zero then.
    pub fn discard_since(&self, then: &[Vec<u64>]) {
        for slot in 0..self.arenas() {
            let now = self.read_counters(slot, 0);
            let mut base = self.read_counters(slot, BASELINE_OFFSET);
            let then = then.get(slot as usize);
            for (i, (b, n)) in base.iter_mut().zip(&now).enumerate() {
                let before = then.and_then(|t| t.get(i)).copied().unwrap_or(0);
                *b = b.wrapping_add(n.wrapping_sub(before));
            }
            self.write_baseline(slot, &base);
        }
    }

    /// Makes the counters' present values the baseline.
    pub fn rebase(&self, slots: Slots) {
        for slot in self.slots(slots) {
            self.write_baseline(slot, &self.read_counters(slot, 0));
        }
    }

    /// Takes calls without inclusive cost out of the part that is about to be written: their number is
    /// kept for the next. `calls` is ordered by group. What is taken out is to be given back by
    /// [`Spool::give_back`].
    pub fn take_out(&self, calls: &[Calls], slots: Slots) -> Vec<TakenOut> {
        let slots: Vec<u64> = self.slots(slots).collect();
        let mut all: Vec<_> = slots
            .iter()
            .map(|&s| (self.read_counters(s, 0), self.read_counters(s, BASELINE_OFFSET)))
            .collect();
        let mut taken = Vec::new();
        for group in calls.chunk_by(|a, b| a.group == b.group) {
            let cost = |(now, base): &(Vec<u64>, Vec<u64>)| {
                let one = |c: &Calls| now[c.inclusive as usize].wrapping_sub(base[c.inclusive as usize]);
                group.iter().map(one).fold(0, u64::wrapping_add)
            };
            if all.iter().map(cost).fold(0, u64::wrapping_add) != 0 {
                continue;
            }
            for (&slot, (now, base)) in slots.iter().zip(all.iter_mut()) {
                for c in group.iter().map(|c| c.count as usize) {
                    if now[c] == base[c] {
                        continue;
                    }
                    taken.push(TakenOut { slot, counter: c as u64, baseline: base[c] });
                    base[c] = now[c];
                }
            }
        }
        if !taken.is_empty() {
            slots.iter().zip(&all).for_each(|(&slot, (_, base))| self.write_baseline(slot, base));
        }
        taken
    }

    /// See [`Spool::take_out`].
    pub fn give_back(&self, taken: &[TakenOut]) {
        for t in taken {
            let at = ARENAS_OFFSET + t.slot * ARENA_STRIDE + BASELINE_OFFSET + t.counter * 8;
            fd::pwrite_all(self.file, &t.baseline.to_le_bytes(), at);
        }
    }

    /// Deletes the file; what is mapped stays.
    pub fn remove(&self) {
        // SAFETY: the path is NUL-terminated and names our own file.
        let _ = unsafe { syscall!(abi::__NR_unlink, self.path.as_ptr()) };
    }

    /// Says that the guest has ended.
    pub fn finish(&self) {
        self.header().state.store(State::Ended as u32, Ordering::Release);
    }
}
