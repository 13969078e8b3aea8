//! The profiler as a tool of the engine: gives addresses objects and functions, and counters a home
//! in the spool.

use crate::objects::Object;
use crate::simulation;
use crate::spool::Spool;
use alloc::vec::Vec;
use tallygraph_callgraph::hash::Map;
use tallygraph_callgraph::{BlockId, Context, CtxId, Edge, EdgeId, FnId, Place, Sink};
use tallygraph_engine::block::Decoded;
use tallygraph_engine::engine::PcEntry;
use tallygraph_engine::events::InsnEvents;
use tallygraph_engine::maps::Region;
use tallygraph_engine::thread::ThreadState;
use tallygraph_engine::tool::{BlockIds, NewBlock, Tool};
use tallygraph_wire::spool::{self as wire, Charge, Record, Section, block_flags};
use tallygraph_x64::Kind;

/// The tool.
pub struct Profiler {
    /// Where everything is recorded.
    pub spool: Spool,
    counts: bool,
    skip_plt: bool,
    /// Paths of objects that are skipped.
    skipped_objects: Vec<Vec<u8>>,
    objects: Vec<Object>,
    /// Index in `objects` of the object last asked for.
    last: usize,
    functions: Map<(u32, u64), FnId>,
    resolvers: Vec<FnId>,
    blocks: u32,
    lengths: Vec<u8>,
    runs: Vec<u8>,
    extra: Vec<u8>,
    charges: Vec<u8>,
    /// Counters of system calls, by block.
    system: Map<u32, u32>,
    prefixes: Map<(u32, u64, u32), u32>,
}

impl Profiler {
    /// A profiler that counts (or only runs) and records into `spool`.
    pub fn new(spool: Spool, counts: bool, skip_plt: bool) -> Self {
        Profiler {
            spool,
            counts,
            skip_plt,
            skipped_objects: Vec::new(),
            objects: Vec::new(),
            last: usize::MAX,
            functions: Map::default(),
            resolvers: Vec::new(),
            blocks: 0,
            lengths: Vec::new(),
            runs: Vec::new(),
            extra: Vec::new(),
            charges: Vec::new(),
            system: Map::default(),
            prefixes: Map::default(),
        }
    }

    /// Skips an object, by its path with links resolved.
    pub fn skip_object(&mut self, path: &[u8]) {
        self.skipped_objects.push(path.to_vec());
    }

    /// The object mapped in a region; anonymous code belongs to none.
    fn object(&mut self, region: &Region) -> Option<usize> {
        if region.inode == 0 && region.path != b"[vdso]" {
            return None;
        }
        let known = |o: &Object| o.is_mapped_in(region);
        if self.objects.get(self.last).is_some_and(known) {
            return Some(self.last);
        }
        // The latest first: a file mapped again is the newer object.
        if let Some(i) = self.objects.iter().rposition(known) {
            self.last = i;
            return Some(i);
        }
        let object = Object::open(self.objects.len() as u32 + 1, region);
        self.spool.append(&Record::Object {
            id: object.id,
            bias: object.bias,
            start: region.start,
            end: region.end,
            path: &object.path,
            build_id: &object.build_id,
        });
        self.objects.push(object);
        self.last = self.objects.len() - 1;
        Some(self.last)
    }
}

impl Profiler {
    /// Notes the certain events of an instruction, which cost once per execution.
    fn charge_certain(&mut self, insn: usize, events: InsnEvents, counter: u32) {
        for (event, factor) in events.counts().into_iter().enumerate() {
            let column = simulation::machine().certain_column(event);
            if factor != 0 && column != 0 {
                Charge { insn: insn as u16, event: column, factor, counter }.encode(&mut self.charges);
            }
        }
    }

    /// Notes the events of a block other than Ir, and hands out the counters of its sites.
    fn charge(&mut self, b: &NewBlock, counter: u32) -> Vec<u32> {
        let machine = simulation::machine();
        if !machine.counts_events() {
            return Vec::new();
        }
        let mut sites = Vec::with_capacity(b.sites.len());
        let mut next = b.sites.iter().peekable();
        for i in 0..b.insns.len() {
            if let Some(&events) = b.events.get(i) {
                self.charge_certain(i, events, counter);
            }
            while let Some(site) = next.next_if(|s| s.insn as usize <= i) {
                let columns = machine.site_columns(site.kind);
                let first = if columns.is_empty() { 0 } else { self.spool.counters(columns.len() as u32) };
                self.charge_site(i, &columns, first);
                sites.push(first);
            }
        }
        let last = b.insns.len() - 1;
        if b.insns[last].insn.kind == Kind::Syscall {
            let columns: Vec<u8> = machine.system_columns().collect();
            if !columns.is_empty() {
                let first = self.spool.counters(columns.len() as u32);
                self.charge_site(last, &columns, first);
                self.system.insert(self.blocks, first);
            }
        }
        sites
    }

    fn charge_site(&mut self, insn: usize, columns: &[u8], first: u32) {
        for (n, &event) in columns.iter().enumerate() {
            let charge = Charge { insn: insn as u16, event, factor: 1, counter: first + n as u32 };
            charge.encode(&mut self.charges);
        }
    }

    /// First counter of the system calls of a block, 0 for none.
    pub fn system_counter(&self, block: BlockId) -> u32 {
        self.system.get(&block.0).copied().unwrap_or(0)
    }
}

impl Sink for Profiler {
    fn context(&mut self, id: CtxId, c: &Context) {
        self.spool.append(&Record::Context {
            id: id.0,
            function: c.function.0,
            level: c.level,
            caller: c.caller.0,
            site_block: if c.skipped { c.site.0 } else { 0 },
        });
    }

    fn edge(&mut self, id: EdgeId, e: &Edge) {
        self.spool.append(&Record::Edge(wire::Edge {
            id: id.0,
            from_block: e.from.0,
            to_context: e.to.0,
            to_object: e.to_object,
            to_addr: e.to_addr,
            count: e.count,
            inclusive: e.inclusive,
        }));
    }

    fn counter(&mut self) -> u32 {
        self.spool.counters(1)
    }

    fn inclusive_counters(&mut self) -> u32 {
        self.spool.counters(simulation::machine().columns as u32)
    }
}

impl Tool for Profiler {
    fn counts(&self) -> bool {
        self.counts
    }

    fn place(&mut self, addr: u64, region: &Region) -> Place {
        let Some(i) = self.object(region) else {
            return Place { object: 0, section: Section::Unknown as u8, entry: false, skip: false };
        };
        let object = &self.objects[i];
        let svma = addr.wrapping_sub(object.bias);
        let section = object.section_at(svma);
        Place {
            object: object.id,
            section: section as u8,
            entry: object.symbol_at(svma).is_some_and(|s| s.start == svma),
            skip: self.skip_plt && section == Section::Plt || self.skipped_objects.contains(&object.path),
        }
    }

    fn stretch_end(&mut self, addr: u64, region: &Region) -> u64 {
        match self.object(region) {
            Some(i) => {
                let o = &self.objects[i];
                let next = o.next_border(addr.wrapping_sub(o.bias));
                if next == u64::MAX {
                    return region.end;
                }
                next.wrapping_add(o.bias).min(region.end)
            }
            None => region.end,
        }
    }

    fn function(&mut self, addr: u64, region: &Region) -> FnId {
        let (object, start, size, section, name) = match self.object(region) {
            None => (0, addr, 0, Section::Unknown, &b""[..]),
            Some(i) => {
                let o = &self.objects[i];
                let svma = addr.wrapping_sub(o.bias);
                match o.symbol_at(svma) {
                    Some(s) => (o.id, s.start, s.end - s.start, o.section_at(s.start), o.name(s)),
                    None => (o.id, svma, 0, o.section_at(svma), &b""[..]),
                }
            }
        };
        if let Some(&id) = self.functions.get(&(object, start)) {
            return id;
        }
        let id = FnId(self.functions.len() as u32 + 1);
        self.functions.insert((object, start), id);
        if name.starts_with(b"_dl_runtime_resolve") {
            self.resolvers.push(id);
        }
        self.spool.append(&Record::Function { id: id.0, object, start, size, section, name });
        id
    }

    fn same_function(&mut self, a: u64, b: u64) -> bool {
        // Both addresses were just asked for, so their object is the last one or not the same.
        let Some(object) = self.objects.get(self.last) else { return a >> 20 == b >> 20 };
        let (a, b) = (a.wrapping_sub(object.bias), b.wrapping_sub(object.bias));
        match (object.symbol_at(a), object.symbol_at(b)) {
            (Some(x), Some(y)) => x.start == y.start,
            (None, None) => a.abs_diff(b) < 1 << 20,
            _ => false,
        }
    }

    fn pops_on_jump(&self, function: FnId) -> bool {
        self.resolvers.contains(&function)
    }

    fn block(&mut self, b: &NewBlock) -> BlockIds {
        self.blocks += 1;
        let block = BlockId(self.blocks);
        if !self.counts {
            return BlockIds { block, counter: 0, repeated: Vec::new(), sites: Vec::new() };
        }
        let counter = self.spool.counters(1);
        self.lengths.clear();
        self.runs.clear();
        self.extra.clear();
        let mut expected = b.insns[0].pc;
        for Decoded { pc, insn, .. } in b.insns {
            let mut length = insn.len;
            if *pc != expected {
                length |= 0x80;
                self.runs.extend_from_slice(&pc.to_le_bytes());
            }
            self.lengths.push(length);
            expected = pc + insn.len as u64;
        }
        let mut repeated = Vec::new();
        for &i in b.repeated {
            let counter = self.spool.counters(1);
            self.extra.extend_from_slice(&(i as u32).to_le_bytes());
            self.extra.extend_from_slice(&counter.to_le_bytes());
            repeated.push(counter);
        }
        self.charges.clear();
        let sites = self.charge(b, counter);
        let mut flags = 0;
        if b.conditional {
            flags |= block_flags::COND;
        }
        self.spool.append(&Record::Block(wire::Block {
            id: block.0,
            context: b.context.0,
            object: b.place.object,
            addr: b.insns[0].pc,
            counter,
            flags,
            lengths: &self.lengths,
            runs: &self.runs,
            extra: &self.extra,
            charges: &self.charges,
        }));
        BlockIds { block, counter, repeated, sites }
    }

    fn prefix_block(&mut self, context: CtxId, place: Place, insns: &[PcEntry]) -> u32 {
        let Some(first) = insns.first().filter(|_| self.counts) else { return 0 };
        let key = (context.0, first.pc, insns.len() as u32);
        if let Some(&counter) = self.prefixes.get(&key) {
            return counter;
        }
        self.blocks += 1;
        let counter = self.spool.counters(1);
        self.lengths.clear();
        self.runs.clear();
        self.charges.clear();
        for (i, insn) in insns.iter().enumerate() {
            self.charge_certain(i, insn.events, counter);
        }
        let mut expected = first.pc;
        for i in insns {
            let mut length = i.len;
            if i.pc != expected {
                length |= 0x80;
                self.runs.extend_from_slice(&i.pc.to_le_bytes());
            }
            self.lengths.push(length);
            expected = i.pc + i.len as u64;
        }
        self.spool.append(&Record::Block(wire::Block {
            id: self.blocks,
            context: context.0,
            object: place.object,
            addr: first.pc,
            counter,
            flags: block_flags::PREFIX,
            lengths: &self.lengths,
            runs: &self.runs,
            extra: &[],
            charges: &self.charges,
        }));
        self.prefixes.insert(key, counter);
        counter
    }

    fn pass_on(state: &mut ThreadState, inclusive: u32, entry: u64) {
        simulation::pass_on(state, inclusive, entry);
    }

    fn forget(&mut self, start: u64, len: u64) {
        let _ = (start, len);
        self.last = usize::MAX;
    }
}
