//! Spools made by hand, for tests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tallygraph_wire::VERSION;
use tallygraph_wire::config::{Config, Number, Text};
use tallygraph_wire::spool::{
    ARENA_STRIDE, ARENAS_OFFSET, BASELINE_OFFSET, Block, Edge, HEADER_SIZE, Header, MAGIC, Record, Section,
};

/// A spool under construction, with a directory of its own that goes when it goes.
pub struct SpoolBuilder {
    directory: PathBuf,
    config: Config,
    log: Vec<u8>,
    counters: BTreeMap<(u32, u32, bool), u64>,
}

impl Drop for SpoolBuilder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl SpoolBuilder {
    /// An empty spool of process 77 that writes to `out.%p` in its directory.
    pub fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("tallygraph-writer-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let mut config = Config::new();
        for key in [Number::DumpLine, Number::CompressStrings, Number::CompressPos, Number::Demangle] {
            config.set(key, 1);
        }
        config.push(Text::StartDir, directory.as_os_str().as_encoded_bytes());
        config.push(Text::OutFile, b"out.%p");
        config.push(Text::CommandLine, b"./prog a b");
        SpoolBuilder { directory, config, log: Vec::new(), counters: BTreeMap::new() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn set(&mut self, key: Number, value: u64) -> &mut Self {
        self.config.set(key, value);
        self
    }

    pub fn out_file(&mut self, pattern: &str) -> &mut Self {
        self.config.push(Text::OutFile, pattern.as_bytes());
        self
    }

    pub fn record(&mut self, record: Record) -> &mut Self {
        record.encode(&mut self.log);
        self
    }

    pub fn counter(&mut self, slot: u32, counter: u32, value: u64) -> &mut Self {
        self.counters.insert((slot, counter, false), value);
        self
    }

    pub fn baseline(&mut self, slot: u32, counter: u32, value: u64) -> &mut Self {
        self.counters.insert((slot, counter, true), value);
        self
    }

    /// An object with bias 0x1000 whose file does not exist.
    pub fn object(&mut self, id: u32, path: &str) -> &mut Self {
        self.record(Record::Object {
            id,
            bias: 0x1000,
            start: 0x1000,
            end: 0x9000,
            path: path.as_bytes(),
            build_id: b"",
        })
    }

    /// A function of object 1.
    pub fn function(&mut self, id: u32, start: u64, name: &str) -> &mut Self {
        let name = name.as_bytes();
        self.record(Record::Function { id, object: 1, start, size: 0x40, section: Section::Text, name })
    }

    /// A context without callers, skipped when `site_block` is not 0.
    pub fn context(&mut self, id: u32, function: u32, level: u32, site_block: u32) -> &mut Self {
        self.record(Record::Context { id, function, level, caller: 0, site_block })
    }

    /// A block of object 1 at an svma.
    pub fn block(&mut self, id: u32, context: u32, svma: u64, counter: u32, lengths: &[u8]) -> &mut Self {
        self.record(Record::Block(plain_block(id, context, svma, counter, lengths)))
    }

    /// An edge to code of object 1 at an svma; its counters are `count` and the one after.
    pub fn edge(&mut self, id: u32, from_block: u32, to_context: u32, svma: u64, count: u32) -> &mut Self {
        let to_addr = svma + 0x1000;
        let inclusive = count + 1;
        self.record(Record::Edge(Edge {
            id,
            from_block,
            to_context,
            to_object: 1,
            to_addr,
            count,
            inclusive,
        }))
    }

    pub fn thread(&mut self, slot: u32, number: u32) -> &mut Self {
        self.record(Record::Thread { slot, number, tid: 77 + number })
    }

    /// Writes the file.
    pub fn write(&self) -> PathBuf {
        let mut log = Vec::new();
        Record::Config(&self.config.encode()).encode(&mut log);
        log.extend_from_slice(&self.log);
        let arenas = self.counters.keys().map(|k| k.0 + 1).max().unwrap_or(1);
        let used = self.counters.keys().map(|k| k.1 + 1).max().unwrap_or(1);
        let mut head = vec![0; size_of::<Header>()];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(std::mem::offset_of!(Header, version), &VERSION.to_le_bytes());
        put(std::mem::offset_of!(Header, pid), &77u32.to_le_bytes());
        put(std::mem::offset_of!(Header, records_used), &(log.len() as u64).to_le_bytes());
        put(std::mem::offset_of!(Header, counters_used), &used.to_le_bytes());
        put(std::mem::offset_of!(Header, arenas_used), &arenas.to_le_bytes());
        let path = self.directory.join("77.spool");
        let file = File::create(&path).unwrap();
        file.set_len(ARENAS_OFFSET + arenas as u64 * ARENA_STRIDE).unwrap();
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(&log, HEADER_SIZE).unwrap();
        for (&(slot, counter, is_baseline), value) in &self.counters {
            let arena = ARENAS_OFFSET + slot as u64 * ARENA_STRIDE + counter as u64 * 8;
            let at = if is_baseline { arena + BASELINE_OFFSET } else { arena };
            file.write_all_at(&value.to_le_bytes(), at).unwrap();
        }
        path
    }
}

/// A block of object 1 without simulated events.
pub fn plain_block<'a>(id: u32, context: u32, svma: u64, counter: u32, lengths: &'a [u8]) -> Block<'a> {
    Block {
        id,
        context,
        object: 1,
        addr: svma + 0x1000,
        counter,
        flags: 0,
        lengths,
        runs: &[],
        extra: &[],
        charges: &[],
    }
}

/// `main` (block 1, counter 10, three instructions at 0x100) calls `leaf` (block 2, counter 11, four
/// instructions at 0x200); the edge has counters 12 and 13.
pub fn two_functions(test: &str) -> SpoolBuilder {
    let mut b = SpoolBuilder::new(test);
    b.object(1, "/no/such/prog").function(1, 0x100, "main").function(2, 0x200, "leaf");
    b.context(1, 1, 1, 0).context(2, 2, 1, 0);
    b.block(1, 1, 0x100, 10, &[2, 3, 5]).block(2, 2, 0x200, 11, &[1, 1, 1, 1]);
    b.edge(1, 1, 2, 0x200, 12);
    b
}
