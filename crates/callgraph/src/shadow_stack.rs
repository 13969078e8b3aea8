//! The shadow stack: one entry for each call that has not returned.
//!
//! Generated code pushes and pops entries of the common cases by itself; what is here handles
//! everything else (mismatched returns, unwinding over frames) and states the rules for both.
//!
//! Invariants:
//!
//! - S1: entries are ordered by stack pointer, the oldest has the highest; entries of a jump that
//!   counts as a call have the stack pointer of the entry below them.
//! - S2: an entry's `continuation` identifies its [`EntryInfo`] for as long as the entry exists.
//! - S3: the active count of a function is the number of its entries that carry
//!   [`EntryInfo::active`]; it is set when such an entry is pushed and restored when it is popped.

use crate::{CtxId, EdgeId, FnId};

/// One entry. The layout is part of generated code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// Guest stack pointer on entry to the callee (it points at the return address).
    pub sp: u64,
    /// The thread's total cost at the call.
    pub total: u64,
    /// Where generated code continues when the call returns; identifies the entry's meaning.
    pub continuation: u64,
}

/// How an entry came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A call instruction: the return address is known.
    Call {
        /// Guest address the callee is expected to return to.
        return_to: u64,
    },
    /// A jump that counts as a call: it is popped together with the entry below.
    Jump,
    /// The boundary below a signal handler or at the bottom of a stack. Never popped by returns.
    Marker,
}

/// What an entry means, looked up by its continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// How it came about.
    pub kind: EntryKind,
    /// Edge that gets the inclusive cost, none for a skipped callee.
    pub edge: EdgeId,
    /// Function whose active count the entry raised, and the count to restore when it is popped.
    pub active: FnId,
    /// See `active`.
    pub active_before: u32,
    /// Context that goes on when the entry is popped.
    pub caller: CtxId,
    /// Context of the callee.
    pub to: CtxId,
}

/// What the machine must do when entries are popped: counters and active counts live outside.
pub trait Effects {
    /// The meaning of an entry (S2).
    fn info(&self, entry: &Entry) -> EntryInfo;
    /// Adds to the inclusive cost of an edge. The entry is given where it lies on the stack.
    fn add_inclusive(&mut self, edge: EdgeId, entry: &Entry);
    /// An entry is popped, whether it has an edge or not; given where it lies on the stack.
    fn leave(&mut self, edge: EdgeId, entry: &Entry) {
        let _ = (edge, entry);
    }
    /// Sets the active count of a function (S3).
    fn set_active(&mut self, function: FnId, count: u32);
    /// An entry was pushed that had been on the stack before: what is spent from now on is its callee's.
    fn begin(&mut self, entry: &mut Entry);
    /// The entry is a marker.
    fn is_marker(&self, entry: &Entry) -> bool {
        self.info(entry).kind == EntryKind::Marker
    }
}

/// What a return instruction turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnOutcome {
    /// A return; the context that goes on.
    Return(CtxId),
    /// A return out of the oldest known frame.
    Underflow,
    /// No frame is left: a jump by means of a return instruction.
    Jump,
}

/// A view of a thread's entries, oldest first. `depth` counts those in use.
pub struct Stack<'m> {
    entries: &'m mut [Entry],
    depth: usize,
}

impl<'m> Stack<'m> {
    /// A view of `depth` entries in `entries`.
    pub fn new(entries: &'m mut [Entry], depth: usize) -> Self {
        assert!(depth <= entries.len());
        Stack { entries, depth }
    }

    /// Number of entries in use.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The newest entry.
    pub fn top(&self) -> Option<&Entry> {
        self.depth.checked_sub(1).map(|i| &self.entries[i])
    }

    /// The entries in use, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..self.depth]
    }

    /// Pushes an entry; `false` when there is no room.
    pub fn push(&mut self, entry: Entry) -> bool {
        if self.depth == self.entries.len() {
            return false;
        }
        self.entries[self.depth] = entry;
        self.depth += 1;
        true
    }

    /// Lets the newest entry begin now.
    pub(crate) fn begin_newest(&mut self, fx: &mut impl Effects) {
        if let Some(i) = self.depth.checked_sub(1) {
            fx.begin(&mut self.entries[i]);
        }
    }

    /// Pops the newest entry, books its inclusive cost, and gives its meaning.
    pub fn pop(&mut self, fx: &mut impl Effects) -> Option<EntryInfo> {
        self.depth = self.depth.checked_sub(1)?;
        let entry = &self.entries[self.depth];
        let info = fx.info(entry);
        if !info.edge.is_none() {
            fx.add_inclusive(info.edge, entry);
        }
        fx.leave(info.edge, entry);
        if !info.active.is_none() {
            fx.set_active(info.active, info.active_before);
        }
        Some(info)
    }

    /// Pops entries whose frame the stack pointer has left (`longjmp`, exceptions); gives the
    /// context of the last one's caller when any was popped. Stops at a marker.
    pub fn unwind(&mut self, sp: u64, fx: &mut impl Effects) -> Option<CtxId> {
        let mut context = None;
        while let Some(top) = self.top() {
            if top.sp >= sp || fx.info(top).kind == EntryKind::Marker {
                break;
            }
            context = self.pop(fx).map(|i| i.caller);
        }
        context
    }

    /// A return ends functions that were jumped to, wherever it leads: their entries are popped, as
    /// generated code does before it looks at the call below.
    pub fn leave_jumped(&mut self, fx: &mut impl Effects) {
        while self.top().is_some_and(|top| fx.info(top).kind == EntryKind::Jump) {
            self.pop(fx);
        }
    }

    /// A return instruction left the stack pointer at `sp` and goes to `target`.
    ///
    /// It is a return when the stack pointer left the newest frame, or equals it and the target is
    /// the return address of one of the entries with that stack pointer; else it is a jump.
    pub fn on_return(&mut self, sp: u64, target: u64, fx: &mut impl Effects) -> ReturnOutcome {
        let Some(top) = self.top() else { return ReturnOutcome::Underflow };
        if fx.info(top).kind == EntryKind::Marker {
            return if top.sp < sp { ReturnOutcome::Underflow } else { ReturnOutcome::Jump };
        }
        if top.sp < sp {
            return self.unwind(sp, fx).map_or(ReturnOutcome::Underflow, ReturnOutcome::Return);
        }
        if top.sp > sp {
            return ReturnOutcome::Jump;
        }
        let matching = self
            .entries()
            .iter()
            .rev()
            .take_while(|e| e.sp == sp)
            .position(|e| fx.info(e).kind == EntryKind::Call { return_to: target });
        let Some(above) = matching else { return ReturnOutcome::Jump };
        let mut context = CtxId::NONE;
        for _ in 0..=above {
            context = self.pop(fx).map_or(context, |i| i.caller);
        }
        ReturnOutcome::Return(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct World {
        info: HashMap<u64, EntryInfo>,
        total: u64,
        inclusive: HashMap<u32, u64>,
        active: HashMap<u32, u32>,
    }

    impl World {
        fn call(&mut self, id: u64, return_to: u64, edge: u32, caller: u32) -> Entry {
            let kind = EntryKind::Call { return_to };
            self.entry(id, kind, edge, caller)
        }
        fn entry(&mut self, id: u64, kind: EntryKind, edge: u32, caller: u32) -> Entry {
            let info = EntryInfo {
                kind,
                edge: EdgeId(edge),
                active: FnId(edge),
                active_before: 0,
                caller: CtxId(caller),
                to: CtxId::NONE,
            };
            self.info.insert(id, info);
            self.active.insert(edge, 1);
            Entry { sp: 0, total: self.total, continuation: id }
        }
    }

    impl Effects for World {
        fn info(&self, entry: &Entry) -> EntryInfo {
            self.info[&entry.continuation]
        }
        fn add_inclusive(&mut self, edge: EdgeId, entry: &Entry) {
            *self.inclusive.entry(edge.0).or_default() += self.total - entry.total;
        }
        fn begin(&mut self, entry: &mut Entry) {
            entry.total = self.total;
        }
        fn set_active(&mut self, function: FnId, count: u32) {
            self.active.insert(function.0, count);
        }
    }

    /// main (ctx 1) called f (edge 1) at 0x1000, f called g (edge 2) at 0x900.
    fn two_frames(w: &mut World, memory: &mut [Entry]) -> usize {
        let mut s = Stack::new(memory, 0);
        let e = w.call(10, 0xaaa, 1, 1);
        s.push(Entry { sp: 0x1000, ..e });
        w.total = 5;
        let e = w.call(11, 0xbbb, 2, 2);
        s.push(Entry { sp: 0x900, ..e });
        w.total = 12;
        s.depth()
    }

    #[test]
    fn a_return_books_the_inclusive_cost_of_its_frame() {
        let (mut w, mut m) = (World::default(), [Entry::default(); 8]);
        let depth = two_frames(&mut w, &mut m);
        let mut s = Stack::new(&mut m, depth);
        assert_eq!(s.on_return(0x908, 0xbbb, &mut w), ReturnOutcome::Return(CtxId(2)));
        assert_eq!((s.depth(), w.inclusive[&2], w.active[&2], w.active[&1]), (1, 7, 0, 1));
        w.total = 20;
        assert_eq!(s.on_return(0x1008, 0xaaa, &mut w), ReturnOutcome::Return(CtxId(1)));
        assert_eq!((s.depth(), w.inclusive[&1]), (0, 20));
        assert_eq!(s.on_return(0x1010, 0, &mut w), ReturnOutcome::Underflow);
    }

    #[test]
    fn a_longjmp_pops_all_frames_it_leaves() {
        let (mut w, mut m) = (World::default(), [Entry::default(); 8]);
        let depth = two_frames(&mut w, &mut m);
        let mut s = Stack::new(&mut m, depth);
        assert_eq!(s.unwind(0x800, &mut w), None);
        assert_eq!(s.unwind(0x1100, &mut w), Some(CtxId(1)));
        assert_eq!((s.depth(), w.inclusive[&1], w.inclusive[&2]), (0, 12, 7));
    }

    #[test]
    fn a_return_with_another_address_still_leaves_the_frame() {
        let (mut w, mut m) = (World::default(), [Entry::default(); 8]);
        let depth = two_frames(&mut w, &mut m);
        let mut s = Stack::new(&mut m, depth);
        assert_eq!(s.on_return(0x908, 0x123, &mut w), ReturnOutcome::Return(CtxId(2)));
    }

    #[test]
    fn push_and_return_is_a_jump() {
        let (mut w, mut m) = (World::default(), [Entry::default(); 8]);
        let depth = two_frames(&mut w, &mut m);
        let mut s = Stack::new(&mut m, depth);
        assert_eq!(s.on_return(0x900, 0x123, &mut w), ReturnOutcome::Jump);
        assert_eq!(s.on_return(0x880, 0xbbb, &mut w), ReturnOutcome::Jump);
        assert_eq!(s.depth(), 2);
    }

    #[test]
    fn a_tail_call_is_popped_with_the_frame_it_used() {
        let (mut w, mut m) = (World::default(), [Entry::default(); 8]);
        let depth = two_frames(&mut w, &mut m);
        let mut s = Stack::new(&mut m, depth);
        let e = w.entry(12, EntryKind::Jump, 3, 3);
        s.push(Entry { sp: 0x900, ..e });
        w.total = 15;
        assert_eq!(s.on_return(0x908, 0xbbb, &mut w), ReturnOutcome::Return(CtxId(2)));
        assert_eq!((s.depth(), w.inclusive[&3], w.inclusive[&2]), (1, 3, 10));
    }

    #[test]
    fn equal_stack_pointers_are_popped_down_to_the_matching_address() {
        let (mut w, mut m) = (World::default(), [Entry::default(); 8]);
        let depth = two_frames(&mut w, &mut m);
        let mut s = Stack::new(&mut m, depth);
        let e = w.entry(12, EntryKind::Jump, 3, 3);
        s.push(Entry { sp: 0x900, ..e });
        assert_eq!(s.on_return(0x900, 0xbbb, &mut w), ReturnOutcome::Return(CtxId(2)));
        assert_eq!(s.depth(), 1);
    }

    #[test]
    fn nothing_unwinds_past_a_marker() {
        let (mut w, mut m) = (World::default(), [Entry::default(); 8]);
        let depth = two_frames(&mut w, &mut m);
        let mut s = Stack::new(&mut m, depth);
        let e = w.entry(13, EntryKind::Marker, 0, 0);
        s.push(Entry { sp: 0x880, ..e });
        assert_eq!(s.unwind(0x2000, &mut w), None);
        assert_eq!(s.on_return(0x888, 0x1, &mut w), ReturnOutcome::Underflow);
        assert_eq!(s.depth(), 3);
    }

    #[test]
    fn a_full_stack_says_so() {
        let mut m = [Entry::default(); 1];
        let mut s = Stack::new(&mut m, 0);
        assert!(s.push(Entry::default()));
        assert!(!s.push(Entry::default()));
    }

    #[test]
    fn the_layout_generated_code_relies_on() {
        assert_eq!(size_of::<Entry>(), 24);
        assert_eq!(core::mem::offset_of!(Entry, sp), 0);
        assert_eq!(core::mem::offset_of!(Entry, total), 8);
        assert_eq!(core::mem::offset_of!(Entry, continuation), 16);
    }
}
