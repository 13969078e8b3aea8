//! What the host tells the agent: numbers and byte strings under numeric keys.
//!
//! The blob follows the agent's ELF image in the file that is executed; its last eight bytes are
//! the blob's length as a little-endian `u64`, so that the agent finds it from the end.

use crate::{Reader, VERSION, WireError};
use alloc::vec::Vec;

const MAGIC: u32 = u32::from_le_bytes(*b"TLYC");

/// Keys of numbers. A key that is absent means zero unless the key says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Number {
    /// [`Tool`] as a number.
    Tool = 1,
    /// 1: instrumentation is on at start. 2: inherited from the parent process.
    InstrAtStart = 2,
    /// 1: collection is on at start.
    CollectAtStart = 3,
    /// 1: costs are written per thread.
    SeparateThreads = 4,
    /// Recursion levels kept apart (Callgrind's `--separate-recs`, default 2).
    SeparateRecs = 5,
    /// Callers kept apart (`--separate-callers`, default 0).
    SeparateCallers = 6,
    /// 1: PLT stubs are skipped.
    SkipPlt = 7,
    /// 1: direct recursion does not raise the recursion level.
    SkipDirectRec = 8,
    /// 1: programs executed by the guest are profiled too.
    TraceChildren = 9,
    /// 1: a forked child writes no profile and no log.
    ChildSilentAfterFork = 10,
    /// 1: caches are simulated.
    CacheSim = 11,
    /// 1: branch prediction is simulated.
    BranchSim = 12,
    /// 1: jumps are recorded.
    CollectJumps = 13,
    /// 0 off, 1 msec, 2 usec, 3 nsec.
    CollectSystime = 14,
    /// 1: bus events are counted.
    CollectBus = 15,
    /// File descriptor of the log (a high private number), `u64::MAX` for none.
    LogFd = 16,
    /// 1: only errors are printed.
    Quiet = 17,
    /// Verbosity, 0 by default.
    Verbose = 18,
    /// Basic blocks between two dumps, 0 for none.
    DumpEveryBb = 19,
    /// 1: parts go into one file.
    CombineDumps = 20,
    /// 1: instruction addresses are written.
    DumpInstr = 21,
    /// 1: lines are written (default 1 from the host).
    DumpLine = 22,
    /// 1: strings are compressed.
    CompressStrings = 23,
    /// 1: positions are compressed.
    CompressPos = 24,
    /// 1: symbols are demangled.
    Demangle = 25,
    /// 1: inline information is read.
    ReadInlineInfo = 26,
    /// Write-back simulation, hardware prefetch, cache use: bits 0, 1, 2.
    SimVariant = 27,
    /// 1: the vdso is hidden from the guest.
    HideVdso = 28,
    /// 1: the call graph follows Callgrind even where it loses or invents something.
    CompatStrict = 29,
    /// 1: a calling-context tree is recorded.
    CallingContexts = 30,
    /// 1: start routines keep their names instead of `(below main)`.
    ShowBelowMain = 31,
    /// 1: log lines begin with the time since start.
    TimeStamp = 32,
    /// 1: what the engine did is printed at the end.
    Stats = 33,
    /// 1: `cfni=` lines name inlined functions.
    DumpInline = 50,
    /// Frames in back traces (`--num-callers`), 12 when zero.
    NumCallers = 60,
    /// Stress: 1: exits are never linked.
    StressNoLinks = 100,
    /// Stress: 1: traces are never built.
    StressNoTraces = 101,
    /// Stress: largest number of instructions in a block, 0 for the normal limit.
    StressBlockLimit = 102,
    /// Stress: size of the code cache in bytes, 0 for the normal size.
    StressCacheSize = 103,
    /// Stress: 1: everything is flushed at each exit to the engine.
    StressFlush = 104,
    /// Stress: 1: every direct branch goes through the indirect-branch lookup's slow path.
    StressNoIbl = 105,
}

/// Keys of byte strings. A key may occur several times; order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Text {
    /// Path of the ELF program to load.
    GuestPath = 1,
    /// What the guest finds at `AT_EXECFN`.
    ExecFn = 2,
    /// Directory in which spools are created.
    SpoolDir = 3,
    /// Path of the tallygraph executable.
    HostPath = 4,
    /// `--callgrind-out-file` as given, made absolute by [`Text::StartDir`] when relative.
    OutFile = 5,
    /// `--log-file` pattern as given, if any.
    LogFile = 6,
    /// Directory at start.
    StartDir = 7,
    /// One option word of the command line, to start children with the same options.
    OptionWord = 8,
    /// The guest's command line as the `cmd:` header line shows it.
    CommandLine = 9,
    /// `--fn-skip` pattern.
    FnSkip = 20,
    /// `--obj-skip` path.
    ObjSkip = 21,
    /// `--toggle-collect` pattern.
    ToggleCollect = 22,
    /// `--dump-before` pattern.
    DumpBefore = 23,
    /// `--dump-after` pattern.
    DumpAfter = 24,
    /// `--zero-before` pattern.
    ZeroBefore = 25,
    /// `--separate-callersN=fn`: `N=fn`.
    SeparateCallersFn = 26,
    /// `--separate-recsN=fn`: `N=fn`.
    SeparateRecsFn = 27,
    /// `--fn-groupN=fn`: `N=fn`.
    FnGroup = 28,
    /// `--trace-children-skip` pattern.
    TraceChildrenSkip = 29,
    /// `--trace-children-skip-by-arg` pattern.
    TraceChildrenSkipByArg = 30,
    /// `--I1`, `--D1`, `--LL`: `size,assoc,line`, resolved by the host.
    CacheI1 = 31,
    /// See [`Text::CacheI1`].
    CacheD1 = 32,
    /// See [`Text::CacheI1`].
    CacheLl = 33,
    /// `--extra-debuginfo-path`.
    ExtraDebuginfoPath = 34,
    /// `--fullpath-after`.
    FullpathAfter = 35,
    /// Directory for what can be made again: line tables by build-id.
    CacheDir = 36,
    /// Version in the profile's `creator:` line, `3.26.0` when absent.
    CreatorVersion = 37,
    /// Command that fetches debug files, with the interface of `debuginfod-find`.
    DebuginfoCommand = 50,
    /// `NAME=VALUE` of that command's environment.
    DebuginfoEnvironment = 51,
}

/// The tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Tool {
    /// Run the guest in the code cache and count nothing.
    None = 0,
    /// Count as Callgrind does.
    Callgrind = 1,
}

/// The table itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    numbers: Vec<(u16, u64)>,
    texts: Vec<(u16, Vec<u8>)>,
}

impl Config {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a number, replacing an earlier one.
    pub fn set(&mut self, key: Number, value: u64) {
        match self.numbers.iter_mut().find(|(k, _)| *k == key as u16) {
            Some(slot) => slot.1 = value,
            None => self.numbers.push((key as u16, value)),
        }
    }

    /// The number under `key`, zero when absent.
    pub fn get(&self, key: Number) -> u64 {
        self.numbers.iter().find(|(k, _)| *k == key as u16).map_or(0, |n| n.1)
    }

    /// True when the number under `key` is not zero.
    pub fn is(&self, key: Number) -> bool {
        self.get(key) != 0
    }

    /// Adds a byte string after those already under `key`.
    pub fn push(&mut self, key: Text, value: &[u8]) {
        self.texts.push((key as u16, value.to_vec()));
    }

    /// All byte strings under `key`, in order.
    pub fn texts(&self, key: Text) -> impl Iterator<Item = &[u8]> {
        self.texts.iter().filter(move |(k, _)| *k == key as u16).map(|(_, v)| v.as_slice())
    }

    /// The last byte string under `key`.
    pub fn text(&self, key: Text) -> Option<&[u8]> {
        self.texts.iter().rev().find(|(k, _)| *k == key as u16).map(|(_, v)| v.as_slice())
    }

    /// Removes every byte string under `key`.
    pub fn clear(&mut self, key: Text) {
        self.texts.retain(|(k, _)| *k != key as u16);
    }

    /// The table as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [MAGIC, VERSION, self.numbers.len() as u32, self.texts.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for &(key, value) in &self.numbers {
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        for (key, value) in &self.texts {
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(value);
        }
        out
    }

    /// Reads what [`Config::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(bytes);
        if r.u32()? != MAGIC {
            return Err(WireError::BadMagic);
        }
        let version = r.u32()?;
        if version != VERSION {
            return Err(WireError::Version(version));
        }
        let (numbers, texts) = (r.u32()?, r.u32()?);
        let mut config = Config::new();
        for _ in 0..numbers {
            let key = r.u16()?;
            config.numbers.push((key, r.u64()?));
        }
        for _ in 0..texts {
            let key = r.u16()?;
            config.texts.push((key, r.blob()?.to_vec()));
        }
        Ok(config)
    }

    /// Appends the blob and its length to an agent image.
    pub fn append_to(&self, image: &mut Vec<u8>) {
        let blob = self.encode();
        image.extend_from_slice(&blob);
        image.extend_from_slice(&(blob.len() as u64).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_survives_the_round_trip() {
        let mut c = Config::new();
        c.set(Number::SeparateRecs, 2);
        c.set(Number::SeparateRecs, 3);
        c.push(Text::FnSkip, b"a*");
        c.push(Text::FnSkip, b"\xff\0b");
        let d = Config::decode(&c.encode()).unwrap();
        assert_eq!(d, c);
        assert_eq!(d.get(Number::SeparateRecs), 3);
        assert_eq!(d.texts(Text::FnSkip).collect::<Vec<_>>(), [&b"a*"[..], b"\xff\0b"]);
        assert_eq!(d.text(Text::ObjSkip), None);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let mut c = Config::new();
        c.set(Number::Quiet, 1);
        c.push(Text::OutFile, b"callgrind.out.%p");
        let bytes = c.encode();
        for n in 0..bytes.len() {
            assert!(Config::decode(&bytes[..n]).is_err(), "{n} bytes");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Config::new().encode();
        bytes[4] = 99;
        assert_eq!(Config::decode(&bytes), Err(WireError::Version(99)));
    }
}
