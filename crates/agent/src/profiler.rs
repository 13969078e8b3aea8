//! The profiler as a tool of the engine: gives addresses objects and functions, and counters a home
//! in the spool.

use crate::generated::Generated;
use crate::objects::Object;
use crate::selection::{self, Selected};
use crate::simulation;
use crate::spool::Spool;
use alloc::vec::Vec;
use tallygraph_callgraph::hash::Map;
use tallygraph_callgraph::{BlockId, Context, CtxId, Edge, EdgeId, FnId, Place, Rules, Sink};
use tallygraph_engine::block::Decoded;
use tallygraph_engine::engine::PcEntry;
use tallygraph_engine::events::InsnEvents;
use tallygraph_engine::maps::Region;
use tallygraph_engine::thread::ThreadState;
use tallygraph_engine::tool::{BlockIds, NewBlock, Tool};
use tallygraph_wire::config::{Config, Number};
use tallygraph_wire::spool::{self as wire, Charge, Record, Section, block_flags, length};
use tallygraph_x64::Kind;

/// What is kept of a function.
#[derive(Clone, Default)]
struct Chosen {
    object: u32,
    selected: Selected,
    /// Raw name, where it is needed again.
    name: Vec<u8>,
}

/// The tool.
pub struct Profiler {
    /// Where everything is recorded.
    pub spool: Spool,
    counts: bool,
    skip_plt: bool,
    /// Jumps are counted.
    jumps: bool,
    /// Counters of jumps of their own, by block, branch and target.
    jump_counters: Map<(BlockId, u64, u64), u32>,
    /// Options that name functions.
    selection: selection::Functions,
    /// Objects that are skipped.
    skipped: selection::Objects,
    /// Whether functions are skipped, by object and symbol.
    fn_skips: Map<(u32, u64), bool>,
    /// Object and raw name of each function that any option means, what it says of it, by number.
    chosen: Vec<Chosen>,
    /// Directories below which separate debug files are installed.
    debug_roots: Vec<Vec<u8>>,
    /// Code that lies in no object.
    pub generated: Generated,
    objects: Vec<Object>,
    /// Index in `objects` of the object last asked for.
    last: usize,
    functions: Map<(u32, u64), FnId>,
    /// Functions by object and what several of one name have in common.
    by_name: Map<(u32, Vec<u8>), FnId>,
    resolvers: Vec<FnId>,
    /// First and last instruction of what each block ends with, by number.
    ends: Vec<(u64, u64)>,
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
    pub fn new(spool: Spool, counts: bool, config: &Config) -> Self {
        Profiler {
            spool,
            counts,
            skip_plt: config.is(Number::SkipPlt),
            jumps: counts && config.is(Number::CollectJumps),
            jump_counters: Map::default(),
            selection: selection::Functions::new(config),
            skipped: selection::Objects::default(),
            fn_skips: Map::default(),
            chosen: alloc::vec![Chosen::default()],
            debug_roots: alloc::vec![b"/usr/lib/debug".to_vec()],
            generated: Generated::new(tallygraph_engine::own_pid() as u32),
            objects: Vec::new(),
            last: usize::MAX,
            functions: Map::default(),
            by_name: Map::default(),
            resolvers: Vec::new(),
            ends: alloc::vec![(0, 0)],
            lengths: Vec::new(),
            runs: Vec::new(),
            extra: Vec::new(),
            charges: Vec::new(),
            system: Map::default(),
            prefixes: Map::default(),
        }
    }

    /// Skips an object, by path, base name or build-id; true when it is one that is known already.
    pub fn skip_object(&mut self, text: &[u8]) -> bool {
        self.skipped.add(text);
        let mut any = false;
        for object in self.objects.iter_mut().filter(|o| !o.skipped) {
            object.skipped = self.skipped.include(object);
            any |= object.skipped;
        }
        any
    }

    /// What the options say of a function.
    pub fn selected(&self, function: FnId) -> Selected {
        self.chosen.get(function.0 as usize).map_or(Selected::default(), |c| c.selected)
    }

    /// Where the straight stretch of code that a block ends with starts and ends.
    pub fn last_stretch(&self, block: BlockId) -> (u64, u64) {
        self.ends.get(block.0 as usize).copied().unwrap_or_default()
    }

    /// Name of a function with triggers, as it is shown.
    pub fn shown_name(&self, function: FnId) -> Vec<u8> {
        self.chosen.get(function.0 as usize).map_or(Vec::new(), |c| self.selection.shown(&c.name))
    }

    /// Adds a directory below which separate debug files are installed.
    pub fn add_debug_root(&mut self, path: &[u8]) {
        self.debug_roots.push(path.to_vec());
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
        let mut object = Object::open(self.objects.len() as u32 + 1, region, &self.debug_roots);
        object.skipped = self.skipped.include(&object);
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

    /// Id of the object that stands for a region of code that lies in no object.
    fn region_object(&mut self, region: &Region) -> u32 {
        let next = self.objects.len() as u32 + 1;
        let id = self.generated.region(region, next);
        if id == next {
            self.objects.push(Object::without_file(id, region));
            self.spool.append(&Record::Object {
                id,
                bias: 0,
                start: region.start,
                end: region.end,
                path: b"",
                build_id: b"",
            });
        }
        id
    }

    /// The function of generated code. Named code is a function for each time it was named; other code
    /// is one for each address that is called, in the object of its region.
    fn generated_function(&mut self, addr: u64, region: &Region) -> FnId {
        self.generated.refresh();
        let (key, start, size) = match self.generated.lookup(addr) {
            Some(e) => ((NAMED, e.serial as u64), e.start, e.size),
            None => ((0, addr), addr, 0),
        };
        if let Some(&id) = self.functions.get(&key) {
            return id;
        }
        let id = FnId(self.chosen.len() as u32);
        self.functions.insert(key, id);
        let object = if key.0 == NAMED { 0 } else { self.region_object(region) };
        let name = self.generated.lookup(addr).map_or(&b""[..], |e| self.generated.name(e));
        let section = Section::Unknown;
        let selected = self.selection.select(name);
        let kept = if selected.rules.is_some_and(|r| r.triggers) { name.to_vec() } else { Vec::new() };
        self.chosen.push(Chosen { object: 0, selected, name: kept });
        self.spool.append(&Record::Function { id: id.0, object, start, size, section, name });
        id
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
        if !machine.counts_events() || !b.collected {
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
                self.system.insert(self.ends.len() as u32 - 1, first);
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

/// First and last address of the instructions after the last branch before the end.
fn last_stretch(insns: &[Decoded]) -> (u64, u64) {
    let Some((last, before)) = insns.split_last() else { return (0, 0) };
    let branch = before.iter().rposition(|d| d.insn.ends_block());
    (insns[branch.map_or(0, |i| i + 1)].pc, last.pc)
}
/// In the place of an object's number: code named by its compiler.
const NAMED: u32 = u32::MAX;

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
            self.generated.refresh();
            let entry = self.generated.lookup(addr).is_some_and(|e| e.start == addr);
            return Place { object: 0, section: Section::Unknown as u8, entry, skip: false };
        };
        let object = &self.objects[i];
        let svma = addr.wrapping_sub(object.bias);
        let section = object.section_at(svma);
        let symbol = object.symbol_at(svma);
        let by_name = symbol.is_some_and(|s| {
            self.selection.skip_some()
                && *self
                    .fn_skips
                    .entry((object.id, s.start))
                    .or_insert_with(|| self.selection.skips(object.name(s)))
        });
        Place {
            object: object.id,
            section: section as u8,
            entry: symbol.is_some_and(|s| s.start == svma),
            skip: self.skip_plt && section == Section::Plt || object.skipped || by_name,
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
            None => self.generated.next_border(addr).min(region.end),
        }
    }

    fn function(&mut self, addr: u64, region: &Region) -> FnId {
        let Some(i) = self.object(region) else { return self.generated_function(addr, region) };
        let o = &self.objects[i];
        let svma = addr.wrapping_sub(o.bias);
        let (object, start, size, section, name) = match o.symbol_at(svma) {
            Some(s) => (o.id, s.start, s.end - s.start, o.section_at(s.start), o.name(s)),
            None => (o.id, svma, 0, o.section_at(svma), &b""[..]),
        };
        if let Some(&id) = self.functions.get(&(object, start)) {
            return id;
        }
        let next = FnId(self.chosen.len() as u32);
        // Functions of one name in one file are one function.
        let identity = self.selection.identity(name, o.has_lines);
        let id = identity.map_or(next, |n| *self.by_name.entry((object, n.into_owned())).or_insert(next));
        self.functions.insert((object, start), id);
        if id != next {
            return id;
        }
        if name.starts_with(b"_dl_runtime_resolve") {
            self.resolvers.push(id);
        }
        let selected = self.selection.select(name);
        let kept = if selected.rules.is_some_and(|r| r.triggers) { name.to_vec() } else { Vec::new() };
        self.chosen.push(Chosen { object, selected, name: kept });
        self.spool.append(&Record::Function { id: id.0, object, start, size, section, name });
        id
    }

    fn rules(&mut self, function: FnId) -> Option<Rules> {
        self.selected(function).rules
    }

    fn skips(&mut self, function: FnId) -> bool {
        let object = self.chosen.get(function.0 as usize).map_or(0, |c| c.object);
        object != 0 && self.objects[object as usize - 1].skipped
    }

    fn same_function(&mut self, a: u64, b: u64) -> bool {
        if let (Some(x), Some(y)) = (self.generated.lookup(a), self.generated.lookup(b)) {
            return x.serial == y.serial;
        }
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
        let block = BlockId(self.ends.len() as u32);
        self.ends.push(last_stretch(b.insns));
        if !self.counts {
            return BlockIds { block, counter: 0, repeated: Vec::new(), sites: Vec::new() };
        }
        let counter = if b.collected { self.spool.counters(1) } else { 0 };
        self.lengths.clear();
        self.runs.clear();
        self.extra.clear();
        let mut expected = b.insns[0].pc;
        for (i, Decoded { pc, insn, .. }) in b.insns.iter().enumerate() {
            let mut length = insn.len;
            if i + 1 < b.insns.len() && insn.ends_block() {
                length |= length::BRANCH;
            }
            if *pc != expected {
                length |= length::NEW_RUN;
                self.runs.extend_from_slice(&pc.to_le_bytes());
            }
            self.lengths.push(length);
            expected = pc + insn.len as u64;
        }
        let mut repeated = Vec::new();
        for &i in b.repeated.iter().filter(|_| b.collected) {
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

    fn counts_jumps(&self) -> bool {
        self.jumps
    }

    fn jump(&mut self, block: BlockId, conditional: bool, from: u64, to: u64, counter: u32) -> u32 {
        if counter == 0
            && let Some(&known) = self.jump_counters.get(&(block, from, to))
        {
            return known;
        }
        let given = if counter == 0 { self.spool.counters(1) } else { counter };
        if counter == 0 {
            self.jump_counters.insert((block, from, to), given);
        }
        let conditional = u32::from(conditional);
        self.spool.append(&Record::Jump { block: block.0, conditional, from, to, counter: given });
        given
    }

    fn prefix_block(&mut self, context: CtxId, place: Place, insns: &[PcEntry]) -> u32 {
        let Some(first) = insns.first().filter(|_| self.counts) else { return 0 };
        let key = (context.0, first.pc, insns.len() as u32);
        if let Some(&counter) = self.prefixes.get(&key) {
            return counter;
        }
        let id = self.ends.len() as u32;
        self.ends.push((first.pc, first.pc));
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
                length |= length::NEW_RUN;
                self.runs.extend_from_slice(&i.pc.to_le_bytes());
            }
            self.lengths.push(length);
            expected = i.pc + i.len as u64;
        }
        self.spool.append(&Record::Block(wire::Block {
            id,
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
