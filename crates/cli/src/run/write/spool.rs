//! Reading a spool into tables.

use memmap2::Mmap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use tallygraph_wire::config::Config;
use tallygraph_wire::spool::{
    self, ARENA_STRIDE, ARENAS_OFFSET, BASELINE_OFFSET, Edge, HEADER_SIZE, Header, MAX_COUNTERS, Record,
    Section,
};

/// An object.
#[derive(Debug, Default)]
pub struct Object {
    /// avma − svma.
    pub bias: u64,
    /// Path as mapped.
    pub path: Vec<u8>,
    /// Build-id.
    pub build_id: Vec<u8>,
}

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Object, 0 for none.
    pub object: u32,
    /// Start, svma.
    pub start: u64,
    /// Section of the start.
    pub section: Section,
    /// Raw name, empty without a symbol.
    pub name: Vec<u8>,
}

/// A context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// Function.
    pub function: u32,
    /// Recursion level.
    pub level: u32,
    /// Context that names the callers.
    pub caller: u32,
    /// Block that the costs belong to.
    pub site: u32,
}

/// A block.
#[derive(Debug)]
pub struct Block {
    /// Context.
    pub context: u32,
    /// Object.
    pub object: u32,
    /// Counter of executions.
    pub counter: u32,
    /// avma of each instruction.
    pub addresses: Vec<u64>,
    /// Instruction index and counter of further executions.
    pub extras: Vec<(u32, u32)>,
}

/// The tables of a spool. Ids index them directly; entry 0 stands for none.
pub struct Spool {
    /// Process id.
    pub pid: u32,
    /// Start time of the process in clock ticks.
    pub start_time: u64,
    /// The agent's configuration.
    pub config: Config,
    /// Objects.
    pub objects: Vec<Object>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Contexts.
    pub contexts: Vec<Context>,
    /// Blocks.
    pub blocks: Vec<Option<Block>>,
    /// Edges.
    pub edges: Vec<Edge>,
    /// Texts of `desc:` lines.
    pub descriptions: Vec<Vec<u8>>,
    /// Value of each counter since the last dump, over all threads.
    pub counters: Vec<u64>,
}

/// Grows a table so that `id` is an index, and puts the value there.
fn put<T>(table: &mut Vec<T>, id: u32, value: T, fill: impl Fn() -> T) -> Result<(), String> {
    let id = id as usize;
    if id > table.len() + (1 << 20) {
        return Err(format!("id {id} out of order"));
    }
    while table.len() <= id {
        table.push(fill());
    }
    table[id] = value;
    Ok(())
}

impl Spool {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Spool, String> {
        let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::read_file(&file).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn read_file(file: &File) -> Result<Spool, String> {
        let size = file.metadata().map_err(|e| e.to_string())?.len();
        if size < HEADER_SIZE {
            return Err("truncated: shorter than a header".into());
        }
        // SAFETY: the file is ours; the agent may append to it meanwhile, which the header's count of
        // whole records makes harmless.
        let head = unsafe { memmap2::MmapOptions::new().len(HEADER_SIZE as usize).map(file) };
        let head = head.map_err(|e| e.to_string())?;
        spool::check_header(&head).map_err(|e| e.to_string())?;
        // SAFETY: page-aligned and longer than the header; all bit patterns are valid.
        let header = unsafe { &*head.as_ptr().cast::<Header>() };
        let used = header.records_used.load(Ordering::Acquire);
        let counters = header.counters_used.load(Ordering::Relaxed).min(MAX_COUNTERS);
        let arenas = header.arenas_used.load(Ordering::Relaxed);
        if HEADER_SIZE.checked_add(used).is_none_or(|end| end > size) {
            return Err("truncated: the record log goes past the end".into());
        }
        // SAFETY: as above.
        let log =
            unsafe { memmap2::MmapOptions::new().offset(HEADER_SIZE).len((used as usize).max(1)).map(file) };
        let log: Mmap = log.map_err(|e| e.to_string())?;
        let mut s = Spool {
            pid: header.pid,
            start_time: header.start_time,
            config: Config::new(),
            objects: vec![Object::default()],
            functions: Vec::new(),
            contexts: vec![Context::default()],
            blocks: vec![None],
            edges: Vec::new(),
            descriptions: Vec::new(),
            counters: vec![0; counters as usize],
        };
        for record in spool::records(&log[..used as usize]) {
            s.add(record.map_err(|e| e.to_string())?)?;
        }
        for slot in 0..arenas as u64 {
            s.add_arena(file, ARENAS_OFFSET + slot * ARENA_STRIDE)?;
        }
        Ok(s)
    }

    fn add(&mut self, record: Record) -> Result<(), String> {
        let no_function = || Function { object: 0, start: 0, section: Section::Unknown, name: Vec::new() };
        match record {
            Record::Config(blob) => self.config = Config::decode(blob).map_err(|e| e.to_string())?,
            Record::Object { id, bias, path, build_id, .. } => {
                let object = Object { bias, path: path.to_vec(), build_id: build_id.to_vec() };
                put(&mut self.objects, id, object, Object::default)?;
            }
            Record::Function { id, object, start, section, name, .. } => {
                let function = Function { object, start, section, name: name.to_vec() };
                put(&mut self.functions, id, function, no_function)?;
            }
            Record::Context { id, function, level, caller, site_block } => {
                let context = Context { function, level, caller, site: site_block };
                put(&mut self.contexts, id, context, Context::default)?;
            }
            Record::Block(b) => {
                let block = Block {
                    context: b.context,
                    object: b.object,
                    counter: b.counter,
                    addresses: b.addresses().collect(),
                    extras: b.extras().collect(),
                };
                put(&mut self.blocks, b.id, Some(block), || None)?;
            }
            Record::Edge(e) => self.edges.push(e),
            Record::Thread { .. } => {}
            Record::Description(text) => self.descriptions.push(text.to_vec()),
        }
        Ok(())
    }

    /// Adds one thread's counters, less their baseline.
    fn add_arena(&mut self, file: &File, offset: u64) -> Result<(), String> {
        let mut bytes = vec![0u8; self.counters.len() * 8];
        for (at, sign) in [(offset, 1u64), (offset + BASELINE_OFFSET, u64::MAX)] {
            file.read_exact_at(&mut bytes, at).map_err(|e| format!("a thread's counters: {e}"))?;
            for (sum, word) in self.counters.iter_mut().zip(bytes.chunks_exact(8)) {
                let value = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                *sum = sum.wrapping_add(value.wrapping_mul(sign));
            }
        }
        Ok(())
    }

    /// Value of a counter.
    pub fn count(&self, counter: u32) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }

    /// A block.
    pub fn block(&self, id: u32) -> Option<&Block> {
        self.blocks.get(id as usize)?.as_ref()
    }

    /// A context; the empty one for an unknown id.
    pub fn context(&self, id: u32) -> Context {
        self.contexts.get(id as usize).copied().unwrap_or_default()
    }

    /// The context that a block's cost is shown in, and for skipped code the calling block that it
    /// belongs to.
    pub fn owner(&self, block: &Block) -> (u32, Option<&Block>) {
        let mut context = block.context;
        let mut site = None;
        // Sites are blocks of contexts made earlier, so this ends.
        for _ in 0..self.contexts.len() {
            let at = self.context(context).site;
            match self.block(at) {
                Some(b) if at != 0 => {
                    site = Some(b);
                    context = b.context;
                }
                _ => break,
            }
        }
        (context, site)
    }
}
