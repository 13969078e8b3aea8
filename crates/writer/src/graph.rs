//! Costs per instruction and calls per call site, summed by function.
//!
//! A *node* is what `fn=` lines tell apart: object, file and name, the name with recursion level and
//! callers. Contexts, blocks and edges of the spool that come out as the same node, instruction or
//! call site are added up.

use crate::places::{Place, Places};
use crate::tables::{Tables, get};
use std::collections::HashMap;
use tallygraph_wire::spool::{Block, Charge};

/// A function as the profile shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Number in [`Places::objects`].
    pub object: u32,
    /// Number in [`Places::files`].
    pub file: u32,
    /// Readable name with recursion level and callers.
    pub name: Vec<u8>,
}

/// An instruction of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Index in [`Graph::nodes`].
    pub node: u32,
    /// Number in [`Places::objects`].
    pub object: u32,
    /// Address as the object states it.
    pub svma: u64,
}

impl Site {
    /// The site as one number, in the same order.
    fn key(&self) -> u128 {
        (self.node as u128) << 96 | (self.object as u128) << 64 | self.svma as u128
    }
}

/// Self cost of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct SelfCost {
    /// The instruction.
    pub site: Site,
    /// Index in [`Graph::costs`] of the first of its event counts.
    pub costs: u32,
}

/// Calls from one instruction to one function.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The calling instruction.
    pub site: Site,
    /// Called function, index in [`Graph::nodes`].
    pub callee: u32,
    /// Object and address of the callee's first instruction.
    pub target: (u32, u64),
    /// Number of calls.
    pub count: u64,
    /// Index in [`Graph::costs`] of the first of its inclusive event counts.
    pub costs: u32,
}

/// Jumps from one instruction to another in one function.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    /// The branch.
    pub site: Site,
    /// Object and address of the target.
    pub target: (u32, u64),
    /// It is conditional.
    pub conditional: bool,
    /// How often it was taken.
    pub count: u64,
}

/// A part of a profile, ready for printing.
pub struct Graph {
    /// Functions.
    pub nodes: Vec<Node>,
    /// Self costs, sorted by site; sites are distinct.
    pub selves: Vec<SelfCost>,
    /// Calls, sorted by site, callee and target; these are distinct.
    pub calls: Vec<Call>,
    /// Jumps, sorted by site and target; these are distinct.
    pub jumps: Vec<Jump>,
    /// Event counts, one per event type each.
    pub costs: Vec<u64>,
    /// Sum of all self costs.
    pub totals: Vec<u64>,
}

/// Joins records and counts.
struct Builder<'t, 'a> {
    tables: &'t Tables<'a>,
    counts: &'t [u64],
    places: &'t mut Places,
    events: usize,
    nodes: Vec<Node>,
    numbers: HashMap<Node, u32>,
    /// Node of each context, once it was asked for.
    of_context: Vec<Option<u32>>,
    /// Number of each recorded object's path, by id.
    objects: Vec<u32>,
    selves: Vec<SelfCost>,
    /// Costs of skipped code, at the instructions that pay for it.
    paid: Vec<SelfCost>,
    calls: Vec<Call>,
    costs: Vec<u64>,
}

impl Graph {
    /// Sums up `counts`, which has a value for each counter, over the records.
    pub fn new(tables: &Tables, counts: &[u64], events: usize, places: &mut Places) -> Graph {
        let objects = (0..tables.objects.len() as u32).map(|id| places.object(tables, id)).collect();
        let mut b = Builder {
            objects,
            tables,
            counts,
            places,
            events,
            nodes: Vec::new(),
            numbers: HashMap::new(),
            of_context: vec![None; tables.contexts.len()],
            selves: Vec::new(),
            paid: Vec::new(),
            calls: Vec::new(),
            costs: Vec::new(),
        };
        // In this order almost every instruction comes after the one before: what is out of order is
        // sorted node by node.
        let mut blocks: Vec<(u32, &Block)> =
            tables.blocks.iter().flatten().filter(|x| b.counted_anything(x)).map(|x| (0, x)).collect();
        for (node, block) in &mut blocks {
            *node = b.node(block.context);
        }
        blocks.sort_unstable_by_key(|(node, x)| (*node, x.object, x.addr));
        let instructions = blocks.iter().map(|(_, x)| x.lengths.len()).sum();
        b.selves.reserve_exact(instructions);
        b.costs.reserve(instructions * events);
        let mut start = 0;
        for nodes in blocks.chunk_by(|a, b| a.0 == b.0) {
            for (_, block) in nodes {
                b.block(block);
            }
            sort_from(&mut b.selves, start);
            start = b.selves.len();
        }
        b.paid.sort_unstable_by_key(|s| s.site.key());
        b.edges();
        b.finish()
    }
}

impl Builder<'_, '_> {
    fn count(&self, counter: u32) -> u64 {
        match counter {
            0 => 0,
            c => self.counts.get(c as usize).copied().unwrap_or(0),
        }
    }

    fn object(&self, id: u32) -> u32 {
        self.objects.get(id as usize).copied().unwrap_or(0)
    }

    fn svma(&self, object: u32, avma: u64) -> u64 {
        avma.wrapping_sub(get(&self.tables.objects, object).map_or(0, |o| o.bias))
    }

    /// False for blocks whose counters are all zero.
    fn counted_anything(&self, block: &Block) -> bool {
        if self.count(block.counter) != 0 {
            return true;
        }
        block.charges().any(|c| self.count(c.counter) != 0)
            || block.extras().any(|(_, counter)| self.count(counter) != 0)
    }

    fn block(&mut self, block: &Block) {
        let executions = self.count(block.counter);
        let context = get(&self.tables.contexts, block.context);
        match context.and_then(|c| get(&self.tables.blocks, c.site_block)) {
            Some(payer) => self.skipped(block, payer, executions),
            None => self.counted(block, executions),
        }
    }

    /// Adds a block's costs to its own instructions.
    fn counted(&mut self, block: &Block, executions: u64) {
        let node = self.node(block.context);
        let object = self.object(block.object);
        let mut extras = block.extras().peekable();
        let mut charges = block.charges().peekable();
        for (i, avma) in block.addresses().enumerate() {
            let mut ir = executions;
            while let Some(&(index, counter)) = extras.peek()
                && index as usize <= i
            {
                ir = ir.wrapping_add(self.count(counter));
                extras.next();
            }
            let site = Site { node, object, svma: self.svma(block.object, avma) };
            let costs = self.row(ir);
            while let Some(charge) = charges.next_if(|c| c.insn as usize <= i) {
                self.charge(costs, &charge);
            }
            self.selves.push(SelfCost { site, costs });
        }
    }

    /// Adds a skipped block's costs to the last instruction of the block that called into it.
    fn skipped(&mut self, block: &Block, payer: &Block, executions: u64) {
        let mut ir = executions.wrapping_mul(block.lengths.len() as u64);
        for (_, counter) in block.extras() {
            ir = ir.wrapping_add(self.count(counter));
        }
        let site = self.last_instruction(payer);
        let costs = self.row(ir);
        for charge in block.charges() {
            self.charge(costs, &charge);
        }
        self.paid.push(SelfCost { site, costs });
    }

    /// A fresh row of event counts, all zero but Ir.
    fn row(&mut self, ir: u64) -> u32 {
        let at = self.costs.len() as u32;
        self.costs.push(ir);
        if self.events > 1 {
            self.costs.resize(at as usize + self.events, 0);
        }
        at
    }

    /// Adds a charge to a row of event counts.
    fn charge(&mut self, row: u32, charge: &Charge) {
        let n = self.count(charge.counter).wrapping_mul(charge.factor as u64);
        if (charge.event as usize) < self.events {
            let sum = &mut self.costs[row as usize + charge.event as usize];
            *sum = sum.wrapping_add(n);
        }
    }

    fn last_instruction(&mut self, block: &Block) -> Site {
        let avma = block.addresses().last().unwrap_or(block.addr);
        Site {
            node: self.node(block.context),
            object: self.object(block.object),
            svma: self.svma(block.object, avma),
        }
    }

    fn edges(&mut self) {
        for edge in &self.tables.edges {
            let count = self.count(edge.count);
            let inclusive = (0..self.events as u32).any(|e| self.count(edge.inclusive + e) != 0);
            if edge.inclusive == 0 || count == 0 && !inclusive {
                continue;
            }
            // A root has no caller to be shown at.
            let Some(from) = get(&self.tables.blocks, edge.from_block) else { continue };
            let site = self.last_instruction(from);
            let callee = self.node(edge.to_context);
            let object = self.object(edge.to_object);
            let target = (object, self.svma(edge.to_object, edge.to_addr));
            let costs = self.row(0);
            for e in 0..self.events {
                self.costs[costs as usize + e] = self.count(edge.inclusive + e as u32);
            }
            self.calls.push(Call { site, callee, target, count, costs });
        }
    }

    fn jumps(&mut self) -> Vec<Jump> {
        let mut jumps = Vec::new();
        for j in &self.tables.jumps {
            let count = self.count(j.counter);
            let Some(block) = get(&self.tables.blocks, j.block).filter(|_| count != 0) else { continue };
            let skipped = get(&self.tables.contexts, block.context).is_some_and(|c| c.site_block != 0);
            if skipped {
                continue;
            }
            let object = self.object(block.object);
            let (from, to) = (self.svma(block.object, j.from), self.svma(block.object, j.to));
            let site = Site { node: self.node(block.context), object, svma: from };
            jumps.push(Jump { site, target: (object, to), conditional: j.conditional, count });
        }
        jumps.sort_unstable_by_key(|j| (j.site.key(), j.target));
        jumps.dedup_by(|next, kept| {
            let same = (next.site, next.target) == (kept.site, kept.target);
            if same {
                kept.count = kept.count.wrapping_add(next.count);
            }
            same
        });
        jumps
    }

    fn node(&mut self, context: u32) -> u32 {
        if let Some(&Some(node)) = self.of_context.get(context as usize) {
            return node;
        }
        let node = self.make_node(context);
        let number = match self.numbers.get(&node) {
            Some(&n) => n,
            None => {
                let n = self.nodes.len() as u32;
                self.nodes.push(node.clone());
                self.numbers.insert(node, n);
                n
            }
        };
        if let Some(slot) = self.of_context.get_mut(context as usize) {
            *slot = Some(number);
        }
        number
    }

    fn make_node(&mut self, id: u32) -> Node {
        let context = get(&self.tables.contexts, id);
        let function = context.and_then(|c| get(&self.tables.functions, c.function));
        let (Some(context), Some(function)) = (context, function) else {
            return Node { object: 0, file: 0, name: b"(skipped)".to_vec() };
        };
        let object = self.object(function.object);
        let Place { file, .. } = self.places.place(object, function.start);
        let mut name = self.places.function_name(object, function);
        if context.level > 1 {
            name.extend_from_slice(format!("'{}", context.level).as_bytes());
        }
        let mut up = context.caller;
        for _ in 0..self.places.callers_shown(function) {
            let Some(c) = get(&self.tables.contexts, up) else { break };
            let Some(f) = get(&self.tables.functions, c.function) else { break };
            name.push(b'\'');
            name.extend_from_slice(&self.places.function_name(self.object(f.object), f));
            up = c.caller;
        }
        Node { object, file, name }
    }

    fn finish(mut self) -> Graph {
        let jumps = self.jumps();
        let paid = std::mem::take(&mut self.paid);
        if !paid.is_empty() {
            self.selves = merge(&self.selves, &paid);
        }
        let costs = &mut self.costs;
        let events = self.events;
        self.selves
            .dedup_by(|next, kept| next.site == kept.site && add(costs, events, kept.costs, next.costs));
        self.calls.sort_unstable_by_key(|c| (c.site.key(), c.callee, c.target));
        self.calls.dedup_by(|next, kept| {
            let same = (next.site, next.callee, next.target) == (kept.site, kept.callee, kept.target);
            if same {
                kept.count = kept.count.wrapping_add(next.count);
                add(costs, events, kept.costs, next.costs);
            }
            same
        });
        // Calls without cost were made while nothing was collected, or last into the next part.
        self.calls.retain(|c| costs[c.costs as usize..c.costs as usize + events].iter().any(|&n| n != 0));
        let mut totals = vec![0u64; events];
        for s in &self.selves {
            for (total, cost) in totals.iter_mut().zip(&costs[s.costs as usize..]) {
                *total = total.wrapping_add(*cost);
            }
        }
        let Builder { nodes, selves, calls, costs, .. } = self;
        Graph { nodes, selves, calls, jumps, costs, totals }
    }
}

/// Sorts the elements from `start` on, unless they are in order.
fn sort_from(selves: &mut [SelfCost], start: usize) {
    let part = &mut selves[start..];
    if !part.is_sorted_by_key(|s| s.site.svma) || !part.is_sorted_by_key(|s| s.site.object) {
        part.sort_unstable_by_key(|s| s.site.key());
    }
}

/// Two sorted runs as one.
fn merge(mut a: &[SelfCost], mut b: &[SelfCost]) -> Vec<SelfCost> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    while let (Some((x, xs)), Some((y, ys))) = (a.split_first(), b.split_first()) {
        if x.site.key() <= y.site.key() {
            all.push(*x);
            a = xs;
        } else {
            all.push(*y);
            b = ys;
        }
    }
    all.extend_from_slice(a);
    all.extend_from_slice(b);
    all
}

/// Adds the row at `from` to the row at `to`; always true.
fn add(costs: &mut [u64], events: usize, to: u32, from: u32) -> bool {
    for e in 0..events {
        costs[to as usize + e] = costs[to as usize + e].wrapping_add(costs[from as usize + e]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::spool_file::SpoolFile;
    use crate::testing::{SpoolBuilder, plain_block, two_functions};
    use tallygraph_wire::config::Number;
    use tallygraph_wire::spool::Record;

    /// `name svma costs` of each instruction and `caller svma → callee count costs` of each call.
    fn shown(b: &SpoolBuilder) -> Vec<String> {
        let spool = SpoolFile::open(&b.write()).unwrap();
        let log = spool.log().unwrap();
        let tables = Tables::read(&log).unwrap();
        let mut counts = spool.no_counts();
        for slot in 0..spool.arenas() {
            spool.add_counts(slot, &mut counts).unwrap();
        }
        let events = Events::of(&tables.config).len();
        let g = Graph::new(&tables, &counts, events, &mut Places::new(&tables.config, 0));
        let name = |n: u32| String::from_utf8_lossy(&g.nodes[n as usize].name).into_owned();
        let costs = |row: u32| format!("{:?}", &g.costs[row as usize..row as usize + events]);
        let selves = g.selves.iter();
        let mut lines: Vec<String> =
            selves.map(|s| format!("{} {:x} {}", name(s.site.node), s.site.svma, costs(s.costs))).collect();
        lines.extend(g.calls.iter().map(|c| {
            let (from, to) = (name(c.site.node), name(c.callee));
            format!("{from} {:x} -> {to} {} {}", c.site.svma, c.count, costs(c.costs))
        }));
        lines
    }

    #[test]
    fn blocks_that_overlap_are_summed_per_instruction() {
        let mut b = two_functions("overlap");
        b.block(3, 1, 0x102, 14, &[3, 5]).counter(0, 10, 2).counter(0, 14, 5);
        assert_eq!(shown(&b), ["main 100 [2]", "main 102 [7]", "main 105 [7]"]);
    }

    #[test]
    fn a_block_goes_on_over_jumps_and_repeats_single_instructions() {
        let mut b = two_functions("runs");
        let runs = (0x1000u64 + 0x300).to_le_bytes();
        let extra: Vec<u8> = [1u32, 15].iter().flat_map(|w| w.to_le_bytes()).collect();
        let block = plain_block(3, 1, 0x100, 14, &[2, 3, 0x80 | 4]);
        b.record(Record::Block(Block { runs: &runs, extra: &extra, ..block }));
        b.counter(0, 14, 2).counter(0, 15, 100);
        assert_eq!(shown(&b), ["main 100 [2]", "main 102 [102]", "main 300 [2]"]);
    }

    #[test]
    fn skipped_code_is_paid_by_the_calling_instruction() {
        let mut b = two_functions("skipped");
        b.context(3, 2, 1, 1).block(3, 3, 0x200, 14, &[1, 1, 1, 1]).counter(0, 10, 2).counter(0, 14, 5);
        assert_eq!(shown(&b), ["main 100 [2]", "main 102 [2]", "main 105 [22]"]);
    }

    #[test]
    fn contexts_that_read_alike_are_one_function() {
        let mut b = two_functions("alike");
        b.function(3, 0x400, "leaf").context(3, 3, 1, 0).block(3, 3, 0x400, 14, &[1]);
        b.edge(2, 1, 3, 0x200, 16);
        b.counter(0, 11, 1).counter(0, 14, 1).counter(0, 12, 3).counter(0, 13, 30);
        b.counter(0, 16, 4).counter(0, 17, 40);
        let lines = shown(&b);
        assert_eq!(lines.last().unwrap(), "main 105 -> leaf 7 [70]");
        assert!(lines.contains(&"leaf 400 [1]".to_string()));
    }

    #[test]
    fn levels_and_callers_are_part_of_the_name() {
        let mut b = two_functions("names");
        b.set(Number::SeparateCallers, 1);
        b.record(Record::Context { id: 3, function: 2, level: 2, caller: 1, site_block: 0 });
        b.block(3, 3, 0x200, 14, &[1]).counter(0, 14, 9);
        assert_eq!(shown(&b), ["leaf'2'main 200 [9]"]);
    }

    #[test]
    fn simulated_events_follow_ir() {
        let mut b = two_functions("events");
        b.set(Number::BranchSim, 1);
        let charges = |list: &[(u16, u8, u8, u32)]| {
            let mut bytes = Vec::new();
            for &(insn, event, factor, counter) in list {
                Charge { insn, event, factor, counter }.encode(&mut bytes);
            }
            bytes
        };
        // Twice per execution, and by counters of their own; column 9 does not exist.
        let own = charges(&[(0, 1, 2, 20), (0, 2, 1, 21), (1, 2, 1, 22), (1, 4, 3, 20), (1, 9, 1, 20)]);
        let block = plain_block(3, 2, 0x200, 20, &[1, 1]);
        b.record(Record::Block(Block { charges: &own, ..block }));
        let skipped = charges(&[(0, 1, 1, 30), (1, 3, 1, 31)]);
        let block = plain_block(4, 3, 0x300, 29, &[1, 1]);
        b.context(3, 2, 1, 3).record(Record::Block(Block { charges: &skipped, ..block }));
        b.counter(0, 20, 7).counter(0, 21, 100).counter(0, 22, 101).counter(0, 30, 5).counter(0, 31, 6);
        assert_eq!(shown(&b), ["leaf 200 [7, 14, 100, 0, 0]", "leaf 201 [7, 5, 101, 6, 21]"]);
    }

    #[test]
    fn roots_and_edges_never_taken_are_not_shown() {
        let mut b = two_functions("roots");
        b.edge(2, 0, 1, 0x100, 16).counter(0, 16, 1).counter(0, 17, 5);
        assert_eq!(shown(&b), Vec::<String>::new());
    }
}
