//! Functions, calling contexts and call edges, and what a transfer of control means for them.
//!
//! A *context* is what costs are kept apart by: a function, its recursion level, and with
//! `--separate-callers` the functions above it. Code that is skipped has a context of its own kind:
//! it belongs to the block that called it, and its costs are shown there.

use crate::hash::Map;
use crate::{BlockId, CtxId, EdgeId, FnId, Place};
use alloc::vec::Vec;

/// Options that shape contexts, named as Callgrind's.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `--separate-recs`: levels kept apart, at least 1.
    pub separate_recs: u32,
    /// `--separate-callers`.
    pub separate_callers: u32,
    /// `--skip-direct-rec`.
    pub skip_direct_rec: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { separate_recs: 2, separate_callers: 0, skip_direct_rec: false }
    }
}

/// A calling context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context {
    /// The function; none for skipped code without a caller.
    pub function: FnId,
    /// Recursion level from 1; 0 in a context that only names callers.
    pub level: u32,
    /// Context that names the callers kept apart, or none.
    pub caller: CtxId,
    /// In a skipped context the block that the costs belong to.
    pub site: BlockId,
    /// The code is skipped.
    pub skipped: bool,
}

/// A call edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Calling block, none for a root.
    pub from: BlockId,
    /// Callee's context.
    pub to: CtxId,
    /// Callee's first instruction.
    pub to_addr: u64,
    /// Object of that instruction.
    pub to_object: u32,
    /// Counter of calls.
    pub count: u32,
    /// First counter of inclusive costs.
    pub inclusive: u32,
}

/// Receives what is created and hands out counters.
pub trait Sink {
    /// A context was created.
    fn context(&mut self, id: CtxId, context: &Context);
    /// An edge was created.
    fn edge(&mut self, id: EdgeId, edge: &Edge);
    /// Hands out one counter.
    fn counter(&mut self) -> u32;
    /// Hands out the counters of an inclusive cost, one for each event; gives the first.
    fn inclusive_counters(&mut self) -> u32;
}

/// What a jump or fall-through means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// The context goes on.
    Stay,
    /// It counts as a call.
    Call,
}

/// One way a call can go, by the callee's recursion level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallVariant {
    /// Callee's context.
    pub to: CtxId,
    /// Edge that is counted, none for a skipped callee.
    pub edge: EdgeId,
    /// Function whose active count must equal `active_before` for this variant to apply, and is
    /// `active_before + 1` while it runs. None: the variant applies always and counts nothing.
    pub active: FnId,
    /// See `active`.
    pub active_before: u32,
}

/// The graph so far.
pub struct Graph {
    options: Options,
    contexts: Vec<Context>,
    by_context: Map<Context, CtxId>,
    edges: Vec<Edge>,
    by_edge: Map<(BlockId, CtxId, u64), EdgeId>,
}

impl Graph {
    /// An empty graph.
    pub fn new(options: Options) -> Self {
        let none = Context {
            function: FnId::NONE,
            level: 0,
            caller: CtxId::NONE,
            site: BlockId::NONE,
            skipped: true,
        };
        let nowhere =
            Edge { from: BlockId::NONE, to: CtxId::NONE, to_addr: 0, to_object: 0, count: 0, inclusive: 0 };
        Graph {
            options: Options { separate_recs: options.separate_recs.max(1), ..options },
            contexts: alloc::vec![none],
            by_context: Map::default(),
            edges: alloc::vec![nowhere],
            by_edge: Map::default(),
        }
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// A context by its id; for [`CtxId::NONE`] a skipped context without function.
    pub fn context(&self, id: CtxId) -> &Context {
        &self.contexts[id.0 as usize]
    }

    /// An edge by its id.
    pub fn edge(&self, id: EdgeId) -> &Edge {
        &self.edges[id.0 as usize]
    }

    /// Number of contexts, including the one that stands for none.
    pub fn context_count(&self) -> usize {
        self.contexts.len()
    }

    fn intern(&mut self, context: Context, sink: &mut impl Sink) -> CtxId {
        if let Some(&id) = self.by_context.get(&context) {
            return id;
        }
        let id = CtxId(self.contexts.len() as u32);
        self.contexts.push(context);
        self.by_context.insert(context, id);
        sink.context(id, &context);
        id
    }

    /// The context of a function without callers: where a thread, a signal handler or the program
    /// starts.
    pub fn root(&mut self, function: FnId, sink: &mut impl Sink) -> CtxId {
        let context = Context {
            function,
            level: 1,
            caller: CtxId::NONE,
            site: BlockId::NONE,
            skipped: function.is_none(),
        };
        self.intern(context, sink)
    }

    /// The context of code that is not watched: it has no function and no costs.
    pub fn unwatched(&mut self, sink: &mut impl Sink) -> CtxId {
        let context = Context {
            function: FnId::NONE,
            level: 0,
            caller: CtxId::NONE,
            site: BlockId::NONE,
            skipped: false,
        };
        self.intern(context, sink)
    }

    /// What a jump or fall-through between two places means.
    ///
    /// It counts as a call when it reaches the first instruction of a function, another kind of
    /// section, or another object.
    pub fn jump(from: &Place, to: &Place) -> Transfer {
        if to.entry || from.section != to.section || from.object != to.object {
            Transfer::Call
        } else {
            Transfer::Stay
        }
    }

    /// Number of variants a call can have: those with an active count to check, and the last one,
    /// which always applies.
    pub fn variants(&self) -> u32 {
        self.options.separate_recs
    }

    /// The lowest recursion level a call of `function` from `caller` can have, and whether it is
    /// certain.
    pub fn first_level(&self, caller: CtxId, function: FnId) -> (u32, bool) {
        let max = self.options.separate_recs;
        if max == 1 {
            return (1, true);
        }
        let from = self.context(caller);
        if from.function == function && !from.skipped && from.level > 0 {
            let level = if self.options.skip_direct_rec { from.level } else { (from.level + 1).min(max) };
            return (level, true);
        }
        (1, false)
    }

    /// The variant of a call at `level` (from [`Graph::first_level`] up to
    /// [`Graph::variants`]). `site` is the calling block, `caller` its context.
    #[allow(clippy::too_many_arguments)]
    pub fn call(
        &mut self,
        caller: CtxId,
        site: BlockId,
        function: FnId,
        to: &Place,
        to_addr: u64,
        level: u32,
        sink: &mut impl Sink,
    ) -> CallVariant {
        let from = *self.context(caller);
        // Code that is skipped belongs to the last block that is not.
        let site = if from.skipped { from.site } else { site };
        if to.skip {
            let context = Context {
                function: from.function,
                level: from.level,
                caller: from.caller,
                site,
                skipped: true,
            };
            let to = self.intern(context, sink);
            return CallVariant { to, edge: EdgeId::NONE, active: FnId::NONE, active_before: 0 };
        }
        let chain = self.chain_for(&from, function, sink);
        let context = Context { function, level, caller: chain, site: BlockId::NONE, skipped: false };
        let to_context = self.intern(context, sink);
        let edge = self.edge_between(site, to_context, to_addr, to.object, sink);
        let direct = from.function == function && !from.skipped;
        let counted = level < self.options.separate_recs && !(direct && self.options.skip_direct_rec);
        CallVariant {
            to: to_context,
            edge,
            active: if counted { function } else { FnId::NONE },
            active_before: level - 1,
        }
    }

    /// The callers part of a callee's context.
    fn chain_for(&mut self, from: &Context, function: FnId, sink: &mut impl Sink) -> CtxId {
        if self.options.separate_callers == 0 || from.function.is_none() {
            return CtxId::NONE;
        }
        if from.function == function {
            return from.caller;
        }
        let mut names = alloc::vec![from.function];
        let mut up = from.caller;
        while !up.is_none() && (names.len() as u32) < self.options.separate_callers {
            let c = *self.context(up);
            names.push(c.function);
            up = c.caller;
        }
        let mut chain = CtxId::NONE;
        for &function in names.iter().rev() {
            let link = Context { function, level: 0, caller: chain, site: BlockId::NONE, skipped: false };
            chain = self.intern(link, sink);
        }
        chain
    }

    fn edge_between(
        &mut self,
        from: BlockId,
        to: CtxId,
        to_addr: u64,
        to_object: u32,
        sink: &mut impl Sink,
    ) -> EdgeId {
        if let Some(&id) = self.by_edge.get(&(from, to, to_addr)) {
            return id;
        }
        let id = EdgeId(self.edges.len() as u32);
        let edge = Edge {
            from,
            to,
            to_addr,
            to_object,
            count: sink.counter(),
            inclusive: sink.inclusive_counters(),
        };
        self.edges.push(edge);
        self.by_edge.insert((from, to, to_addr), id);
        sink.edge(id, &edge);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log {
        counters: u32,
        contexts: Vec<Context>,
        edges: Vec<Edge>,
    }

    impl Sink for Log {
        fn context(&mut self, id: CtxId, context: &Context) {
            self.contexts.push(*context);
            assert_eq!(id.0 as usize, self.contexts.len());
        }
        fn edge(&mut self, _: EdgeId, edge: &Edge) {
            self.edges.push(*edge);
        }
        fn counter(&mut self) -> u32 {
            self.counters += 1;
            self.counters
        }
        fn inclusive_counters(&mut self) -> u32 {
            self.counter()
        }
    }

    const MAIN: FnId = FnId(1);
    const F: FnId = FnId(2);
    const TEXT: Place = Place { object: 1, section: 0, entry: true, skip: false };

    #[test]
    fn recursion_raises_the_level_up_to_the_limit() {
        let (mut g, mut log) = (Graph::new(Options::default()), Log::default());
        let main = g.root(MAIN, &mut log);
        assert_eq!(g.first_level(main, F), (1, false));
        let one = g.call(main, BlockId(1), F, &TEXT, 0x10, 1, &mut log);
        assert_eq!((one.active, one.active_before), (F, 0));
        assert_eq!(g.first_level(one.to, F), (2, true));
        let two = g.call(one.to, BlockId(2), F, &TEXT, 0x10, 2, &mut log);
        assert_eq!((g.context(two.to).level, two.active), (2, FnId::NONE));
        assert_eq!(g.first_level(two.to, F), (2, true));
        let again = g.call(two.to, BlockId(3), F, &TEXT, 0x10, 2, &mut log);
        assert_eq!(again.to, two.to);
        assert_ne!(again.edge, two.edge);
    }

    #[test]
    fn direct_recursion_can_be_left_out() {
        let options = Options { skip_direct_rec: true, ..Options::default() };
        let (mut g, mut log) = (Graph::new(options), Log::default());
        let f = g.root(F, &mut log);
        assert_eq!(g.first_level(f, F), (1, true));
        let again = g.call(f, BlockId(2), F, &TEXT, 0x10, 1, &mut log);
        assert_eq!((again.to, again.active), (f, FnId::NONE));
    }

    #[test]
    fn a_skipped_callee_belongs_to_the_calling_block_and_passes_it_on() {
        let (mut g, mut log) = (Graph::new(Options::default()), Log::default());
        let main = g.root(MAIN, &mut log);
        let plt = Place { object: 1, section: 1, entry: false, skip: true };
        let stub = g.call(main, BlockId(7), FnId(9), &plt, 0x20, 1, &mut log);
        assert!(stub.edge.is_none());
        assert!(g.context(stub.to).skipped);
        assert_eq!(g.context(stub.to).site, BlockId(7));
        let real = g.call(stub.to, BlockId(8), F, &TEXT, 0x10, 1, &mut log);
        assert_eq!(g.edge(real.edge).from, BlockId(7));
        assert_eq!(g.context(real.to).function, F);
    }

    #[test]
    fn callers_kept_apart_are_part_of_the_context() {
        let options = Options { separate_callers: 2, ..Options::default() };
        let (mut g, mut log) = (Graph::new(options), Log::default());
        let main = g.root(MAIN, &mut log);
        let a = g.call(main, BlockId(1), FnId(3), &TEXT, 0x30, 1, &mut log).to;
        let b = g.call(a, BlockId(2), FnId(4), &TEXT, 0x40, 1, &mut log).to;
        let f = g.call(b, BlockId(3), F, &TEXT, 0x10, 1, &mut log).to;
        let mut names = vec![];
        let mut c = f;
        while !c.is_none() {
            names.push(g.context(c).function.0);
            c = g.context(c).caller;
        }
        assert_eq!(names, [2, 4, 3]);
        let other = g.call(main, BlockId(4), F, &TEXT, 0x10, 1, &mut log).to;
        assert_ne!(other, f);
    }

    #[test]
    fn jumps_count_as_calls_at_entries_and_borders() {
        let inside = Place { object: 1, section: 0, entry: false, skip: false };
        assert_eq!(Graph::jump(&TEXT, &inside), Transfer::Stay);
        assert_eq!(Graph::jump(&inside, &TEXT), Transfer::Call);
        assert_eq!(Graph::jump(&inside, &Place { object: 2, ..inside }), Transfer::Call);
        assert_eq!(Graph::jump(&inside, &Place { section: 1, ..inside }), Transfer::Call);
    }
}
