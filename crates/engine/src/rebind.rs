//! Changing what the frames on a thread's stack mean, while they are there.
//!
//! Generated code has the context of its caller built in. A frame that is to return into another
//! context gets a continuation that leads to the engine, which then goes on as the entry says.

use crate::dispatch::{BOTTOM, shadow_entries};
use crate::engine::Engine;
use crate::thread::ThreadState;
use crate::tool::Tool;
use alloc::vec::Vec;
use tallygraph_callgraph::hash::Map;
use tallygraph_callgraph::{BlockId, Context, CtxId, EdgeId, Entry, EntryInfo, EntryKind, FnId};

impl<T: Tool> Engine<T> {
    fn info_of(&self, entry: &Entry) -> EntryInfo {
        self.continuations.get(&entry.continuation).copied().unwrap_or(BOTTOM)
    }

    /// Number of the oldest entry above the newest marker.
    fn above_marker(&self, entries: &[Entry]) -> usize {
        entries.iter().rposition(|e| self.info_of(e).kind == EntryKind::Marker).map_or(0, |i| i + 1)
    }

    /// Switches collection for a thread: everything it returns to, down to the newest signal handler,
    /// and `context`, where it goes on. Gives the context that replaces that one.
    pub fn switch_side(&mut self, state: &mut ThreadState, context: CtxId) -> CtxId {
        if self.is_off() {
            self.toggled = !self.toggled;
            return context;
        }
        let entries = shadow_entries(state);
        let first = self.above_marker(entries);
        let mut moved: Map<u64, u64> = Map::default();
        for entry in &mut entries[first..] {
            entry.continuation = match moved.get(&entry.continuation) {
                Some(&stub) => stub,
                None => {
                    let info = self.info_of(entry);
                    let caller = self.graph.other_side(info.caller, &mut self.tool);
                    let to = self.graph.other_side(info.to, &mut self.tool);
                    let stub = self.lazy_continuation(EntryInfo { caller, to, ..info });
                    moved.insert(entry.continuation, stub);
                    stub
                }
            };
        }
        self.graph.other_side(context, &mut self.tool)
    }

    /// Gives the frames of functions that are skipped from now on the contexts of skipped code, down to
    /// the newest signal handler; what they cost so far has to be booked before. `context` is where
    /// the thread goes on; gives the one that replaces it.
    pub fn skip_frames(&mut self, state: &mut ThreadState, context: CtxId) -> CtxId {
        let entries = shadow_entries(state);
        let first = self.above_marker(entries);
        let infos: Vec<EntryInfo> = entries[first..].iter().map(|e| self.info_of(e)).collect();
        // The context of each frame, oldest first: what the next entry returns to.
        let frames = infos.iter().map(|i| i.caller).chain([context]).collect::<Vec<_>>();
        if self.is_off() {
            return context;
        }
        let mut below = self.skipped_root(frames[0]);
        for (i, info) in infos.iter().enumerate() {
            let (next, edge) = self.skipped_callee(below, info.edge, frames[i + 1]);
            if (below, edge) != (info.caller, info.edge) {
                entries[first + i].continuation =
                    self.lazy_continuation(EntryInfo { caller: below, edge, to: next, ..*info });
            }
            below = next;
        }
        below
    }

    /// What stands for the context of a frame without a caller.
    fn skipped_root(&mut self, old: CtxId) -> CtxId {
        let c = *self.graph.context(old);
        if c.skipped || !self.tool.skips(c.function) {
            return old;
        }
        let root = self.graph.root(FnId::NONE, &mut self.tool);
        if self.graph.context(root).aside == c.aside {
            root
        } else {
            self.graph.other_side(root, &mut self.tool)
        }
    }

    /// What stands for the context of a frame, and for the edge that led to it, when its caller has
    /// context `below`.
    fn skipped_callee(&mut self, below: CtxId, edge: EdgeId, old: CtxId) -> (CtxId, EdgeId) {
        let (caller, callee) = (*self.graph.context(below), *self.graph.context(old));
        let led = *self.graph.edge(edge);
        if callee.skipped || self.tool.skips(callee.function) {
            let own: BlockId = if callee.skipped { callee.site } else { led.from };
            let site = if caller.skipped { caller.site } else { own };
            let context = Context { site, skipped: true, aside: callee.aside, ..caller };
            return (self.graph.context_id(context, &mut self.tool), EdgeId::NONE);
        }
        if !caller.skipped || edge.is_none() || led.from == caller.site {
            return (old, edge);
        }
        (old, self.graph.edge_between(caller.site, old, led.to_addr, led.to_object, &mut self.tool))
    }
}
