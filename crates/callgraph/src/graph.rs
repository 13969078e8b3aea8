//! Functions, calling contexts and call edges, and what a transfer of control means for them.
//!
//! A *context* is what costs are kept apart by: a function, its recursion level, and with
//! `--separate-callers` the functions above it. Code that is skipped has a context of its own kind:
//! it belongs to the block that called it, and its costs are shown there.
//!
//! Whether costs are collected is part of the context too: what runs *aside* has contexts of its own,
//! which nothing is shown of but the calls. So a function that switches collection on or off
//! (`--toggle-collect`) costs nothing at run time: its contexts are simply the other ones.

use crate::hash::Map;
use crate::rules::Rules;
use crate::{BlockId, CtxId, EdgeId, FnId, Place};
use alloc::vec::Vec;

/// Options that shape contexts, named as Callgrind's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Rules of functions that no pattern names: `--separate-recs`, `--separate-callers`.
    pub rules: Rules,
    /// Most callers that any function's contexts are kept apart by.
    pub most_callers: u32,
    /// `--skip-direct-rec`.
    pub skip_direct_rec: bool,
    /// `--collect-atstart=no`: threads and signal handlers start aside.
    pub start_aside: bool,
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
    /// Costs are not collected here.
    pub aside: bool,
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
    /// The call enters `active` for the first time, and that function has triggers: whoever executes
    /// it must run them on entry, and when the active count is back at zero.
    pub triggers: bool,
}

/// The graph so far.
pub struct Graph {
    options: Options,
    contexts: Vec<Context>,
    by_context: Map<Context, CtxId>,
    edges: Vec<Edge>,
    by_edge: Map<(BlockId, CtxId, u64), EdgeId>,
    /// Rules of each function, as far as functions were told of.
    rules: Vec<Rules>,
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
            aside: false,
        };
        let nowhere =
            Edge { from: BlockId::NONE, to: CtxId::NONE, to_addr: 0, to_object: 0, count: 0, inclusive: 0 };
        Graph {
            options,
            contexts: alloc::vec![none],
            by_context: Map::default(),
            edges: alloc::vec![nowhere],
            by_edge: Map::default(),
            rules: Vec::new(),
        }
    }

    /// Says how calls of a function are treated, before the first of them.
    pub fn set_rules(&mut self, function: FnId, rules: Rules) {
        let at = function.0 as usize;
        if self.rules.len() <= at {
            self.rules.resize(at + 1, self.options.rules);
        }
        self.rules[at] = rules;
    }

    /// True when a function's rules were set, or those of a later one.
    pub fn knows(&self, function: FnId) -> bool {
        (function.0 as usize) < self.rules.len()
    }

    /// The rules of a function.
    pub fn rules(&self, function: FnId) -> &Rules {
        self.rules.get(function.0 as usize).unwrap_or(&self.options.rules)
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

    /// All edges.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.edges[1..].iter()
    }

    /// Number of contexts, including the one that stands for none.
    pub fn context_count(&self) -> usize {
        self.contexts.len()
    }

    /// The context with these facts.
    pub fn context_id(&mut self, context: Context, sink: &mut impl Sink) -> CtxId {
        self.intern(context, sink)
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
            aside: self.options.start_aside,
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
            aside: false,
        };
        self.intern(context, sink)
    }

    /// The context that differs from `id` in whether costs are collected.
    pub fn other_side(&mut self, id: CtxId, sink: &mut impl Sink) -> CtxId {
        let context = *self.context(id);
        self.intern(Context { aside: !context.aside, ..context }, sink)
    }

    /// The function that a call of `function` from `caller` counts as: within a group
    /// (`--fn-group`) the caller calls itself.
    pub fn callee(&self, caller: CtxId, function: FnId) -> FnId {
        let group = self.rules(function).group;
        let from = self.context(caller).function;
        if group != 0 && !from.is_none() && self.rules(from).group == group { from } else { function }
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

    /// Number of variants a call of `function` can have: those with an active count to check, and the
    /// last one, which always applies.
    pub fn variants(&self, function: FnId) -> u32 {
        let rules = self.rules(function);
        // Whoever must know of the first activation has to tell it from the others.
        if rules.toggles || rules.triggers { rules.separate_recs.max(2) } else { rules.separate_recs.max(1) }
    }

    /// The lowest recursion level a call of `function` from `caller` can have, and whether it is
    /// certain.
    pub fn first_level(&self, caller: CtxId, function: FnId) -> (u32, bool) {
        let max = self.variants(function);
        if max == 1 {
            return (1, true);
        }
        let from = self.context(caller);
        if from.function == function && from.level > 0 {
            let level = if self.options.skip_direct_rec { from.level } else { (from.level + 1).min(max) };
            return (level, true);
        }
        (1, false)
    }

    /// The variant of a call at `level` (from [`Graph::first_level`] up to
    /// [`Graph::variants`]). `site` is the calling block, `caller` its context, `function` what
    /// [`Graph::callee`] gives.
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
            let to = self.intern(Context { site, skipped: true, ..from }, sink);
            let active = FnId::NONE;
            return CallVariant { to, edge: EdgeId::NONE, active, active_before: 0, triggers: false };
        }
        let chain = self.chain_for(&from, function, sink);
        let rules = *self.rules(function);
        let direct = from.function == function;
        let counted = level < self.variants(function) && !(direct && self.options.skip_direct_rec);
        let entered = counted && level == 1;
        let context = Context {
            function,
            level: level.min(rules.separate_recs.max(1)),
            caller: chain,
            site: BlockId::NONE,
            skipped: false,
            aside: from.aside != (entered && rules.toggles),
        };
        let to_context = self.intern(context, sink);
        let edge = self.edge_between(site, to_context, to_addr, to.object, sink);
        CallVariant {
            to: to_context,
            edge,
            active: if counted { function } else { FnId::NONE },
            active_before: level - 1,
            triggers: entered && rules.triggers,
        }
    }

    /// The callers part of a callee's context.
    fn chain_for(&mut self, from: &Context, function: FnId, sink: &mut impl Sink) -> CtxId {
        if self.options.most_callers == 0 || from.function.is_none() {
            return CtxId::NONE;
        }
        if from.function == function {
            return from.caller;
        }
        let mut names = alloc::vec![from.function];
        let mut up = from.caller;
        while !up.is_none() && (names.len() as u32) < self.options.most_callers {
            let c = *self.context(up);
            names.push(c.function);
            up = c.caller;
        }
        let mut chain = CtxId::NONE;
        for &function in names.iter().rev() {
            let link = Context {
                function,
                level: 0,
                caller: chain,
                site: BlockId::NONE,
                skipped: false,
                aside: false,
            };
            chain = self.intern(link, sink);
        }
        chain
    }

    /// The edge from a block to a context by way of an address.
    pub fn edge_between(
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
        let options = Options { most_callers: 2, ..Options::default() };
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
    fn a_call_through_skipped_code_is_direct_recursion() {
        let options = Options { skip_direct_rec: true, ..Options::default() };
        let (mut g, mut log) = (Graph::new(options), Log::default());
        let f = g.root(F, &mut log);
        let plt = Place { object: 1, section: 1, entry: false, skip: true };
        let stub = g.call(f, BlockId(7), FnId(9), &plt, 0x20, 1, &mut log);
        assert_eq!(g.first_level(stub.to, F), (1, true));
        let again = g.call(stub.to, BlockId(8), F, &TEXT, 0x10, 1, &mut log);
        assert_eq!((again.to, again.active), (f, FnId::NONE));
    }

    #[test]
    fn functions_can_have_levels_of_their_own() {
        let (mut g, mut log) = (Graph::new(Options::default()), Log::default());
        g.set_rules(F, Rules { separate_recs: 3, ..Rules::default() });
        g.set_rules(MAIN, Rules { separate_recs: 1, ..Rules::default() });
        assert_eq!((g.variants(F), g.variants(MAIN), g.variants(FnId(9))), (3, 1, 2));
        let f = g.root(F, &mut log);
        let two = g.call(f, BlockId(1), F, &TEXT, 0x10, 2, &mut log);
        assert_eq!((g.context(two.to).level, two.active, two.active_before), (2, F, 1));
        assert_eq!(g.first_level(two.to, F), (3, true));
        let main = g.call(f, BlockId(2), MAIN, &TEXT, 0x90, 1, &mut log);
        assert_eq!((g.context(main.to).level, main.active), (1, FnId::NONE));
    }

    #[test]
    fn within_a_group_the_caller_calls_itself() {
        let (mut g, mut log) = (Graph::new(Options::default()), Log::default());
        for function in [F, FnId(3)] {
            g.set_rules(function, Rules { group: 1, ..Rules::default() });
        }
        let (main, f) = (g.root(MAIN, &mut log), g.root(F, &mut log));
        assert_eq!(g.callee(main, FnId(3)), FnId(3));
        assert_eq!(g.callee(f, FnId(3)), F);
        assert_eq!(g.callee(f, MAIN), MAIN);
        let again = g.call(f, BlockId(1), g.callee(f, FnId(3)), &TEXT, 0x30, 2, &mut log);
        assert_eq!((g.context(again.to).function, g.context(again.to).level), (F, 2));
    }

    #[test]
    fn a_toggling_function_runs_on_the_other_side_once() {
        let options = Options { start_aside: true, ..Options::default() };
        let (mut g, mut log) = (Graph::new(options), Log::default());
        g.set_rules(F, Rules { toggles: true, separate_recs: 1, ..Rules::default() });
        let main = g.root(MAIN, &mut log);
        assert!(g.context(main).aside);
        // Even without levels the first activation is told from the others.
        assert_eq!(g.first_level(main, F), (1, false));
        let first = g.call(main, BlockId(1), F, &TEXT, 0x10, 1, &mut log);
        assert_eq!((first.active, first.active_before, first.triggers), (F, 0, false));
        assert!(!g.context(first.to).aside);
        let inner = g.call(first.to, BlockId(2), FnId(3), &TEXT, 0x30, 1, &mut log);
        assert!(!g.context(inner.to).aside);
        let nested = g.call(inner.to, BlockId(3), F, &TEXT, 0x10, 2, &mut log);
        assert_eq!((nested.to, nested.active), (first.to, FnId::NONE));
        // Called aside while active elsewhere, nothing is switched.
        let elsewhere = g.call(main, BlockId(4), F, &TEXT, 0x10, 2, &mut log);
        assert!(g.context(elsewhere.to).aside);
        let other = g.other_side(main, &mut log);
        assert!(!g.context(other).aside);
        assert_eq!(g.other_side(other, &mut log), main);
    }

    #[test]
    fn triggers_are_told_at_the_first_activation() {
        let (mut g, mut log) = (Graph::new(Options::default()), Log::default());
        g.set_rules(F, Rules { triggers: true, ..Rules::default() });
        let main = g.root(MAIN, &mut log);
        let first = g.call(main, BlockId(1), F, &TEXT, 0x10, 1, &mut log);
        let second = g.call(main, BlockId(1), F, &TEXT, 0x10, 2, &mut log);
        assert_eq!((first.triggers, second.triggers), (true, false));
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
