//! Several stacks in one thread: coroutines, fibers, goroutines.
//!
//! A program that switches stacks leaves a function by a return (or a jump) that belongs to a call made
//! on another stack, some time ago. Such a call is known by two numbers together: the stack pointer at
//! its return address, and the return address. When a return does not fit the newest frame,
//!
//! 1. an older frame of the stack in use may fit: what is above it is *parked*, for it may be a stack
//!    that has been entered for the first time meanwhile;
//! 2. the newest frame of a parked stack may fit: the stack in use is parked, the other one is taken up;
//! 3. else it is no switch.
//!
//! A parked frame has its inclusive cost booked, and what is spent while it is parked is none of its own.
//! Frames that were left for good stay parked until another frame takes their place in memory.

use crate::CtxId;
use crate::hash::Map;
use crate::shadow_stack::{Effects, Entry, EntryKind, Stack};
use alloc::vec::Vec;

/// Entries that are kept at most; then all are forgotten.
const MAX_ENTRIES: usize = 1 << 20;

/// Entries among which a call is searched that is not its stack's newest.
const MAX_SEARCHED: usize = 1 << 16;

/// The stacks that are not in use, by the stack pointer of their newest entry.
#[derive(Default)]
pub struct ParkedStacks {
    stacks: Map<u64, Vec<Entry>>,
    entries: usize,
}

impl ParkedStacks {
    /// Every parked entry.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.stacks.values_mut().flatten()
    }

    fn put(&mut self, entries: Vec<Entry>) {
        let Some(newest) = entries.last() else { return };
        if self.entries + entries.len() > MAX_ENTRIES {
            self.stacks.clear();
            self.entries = 0;
        }
        self.entries += entries.len();
        if let Some(old) = self.stacks.insert(newest.sp, entries) {
            self.entries -= old.len();
        }
    }

    /// The stack whose newest call has this stack pointer and return address. A stack that was parked
    /// together with one entered from it is parted from that.
    fn take(&mut self, sp: u64, target: u64, fx: &impl Effects) -> Option<Vec<Entry>> {
        let fits = |entries: &Vec<Entry>| entries.iter().rposition(|e| is_call(e, sp, target, fx));
        let newest = self.stacks.get(&sp).and_then(fits).map(|i| (sp, i));
        let (key, i) = newest.or_else(|| {
            if self.entries > MAX_SEARCHED {
                return None;
            }
            self.stacks.iter().find_map(|(&key, entries)| fits(entries).map(|i| (key, i)))
        })?;
        let mut entries = self.stacks.remove(&key)?;
        self.entries -= entries.len();
        // Jumps that count as calls belong to the call below.
        let end = i + 1 + entries[i + 1..].iter().take_while(|e| e.sp == sp).count();
        if end < entries.len() {
            self.put(entries.split_off(i + 1));
        }
        Some(entries)
    }
}

fn is_call(entry: &Entry, sp: u64, target: u64, fx: &impl Effects) -> bool {
    entry.sp == sp && fx.info(entry).kind == EntryKind::Call { return_to: target }
}

impl Stack<'_> {
    /// Control goes to `target`, and `sp` is the stack pointer that a call which returns there had when it
    /// had pushed the return address. When such a call is found, its stack becomes the one in use and the
    /// call returns: gives the context that goes on.
    pub fn switch(
        &mut self,
        sp: u64,
        target: u64,
        parked: &mut ParkedStacks,
        fx: &mut impl Effects,
    ) -> Option<CtxId> {
        // Entries of an interrupted stack, below a marker, are out of reach.
        let mut floor = 0;
        let mut found = None;
        for (i, entry) in self.entries().iter().enumerate().rev() {
            if is_call(entry, sp, target, fx) {
                found = Some(i);
                break;
            }
            if fx.is_marker(entry) {
                floor = i + 1;
                break;
            }
        }
        if let Some(i) = found {
            if self.entries()[i + 1..].iter().any(|e| e.sp != sp) {
                self.park(i + 1, parked, fx);
            }
        } else {
            let entries = parked.take(sp, target, fx)?;
            self.park(floor, parked, fx);
            for entry in entries {
                if !self.push(entry) {
                    return None;
                }
                let info = fx.info(&entry);
                if !info.active.is_none() {
                    fx.set_active(info.active, info.active_before + 1);
                }
                self.begin_newest(fx);
            }
        }
        loop {
            let is_it = is_call(self.top()?, sp, target, fx);
            let info = self.pop(fx)?;
            if is_it {
                return Some(info.caller);
            }
        }
    }

    /// Takes the entries from an index on off the stack and keeps them.
    fn park(&mut self, from: usize, parked: &mut ParkedStacks, fx: &mut impl Effects) {
        let entries = self.entries()[from..].to_vec();
        while self.depth() > from {
            self.pop(fx);
        }
        // Without frames of this stack no function is active.
        if from <= 1 {
            for entry in &entries {
                let active = fx.info(entry).active;
                if !active.is_none() {
                    fx.set_active(active, 0);
                }
            }
        }
        parked.put(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow_stack::EntryInfo;
    use crate::{EdgeId, FnId};
    use std::collections::HashMap;

    /// Continuation n is a call that returns to n; 0 is the bottom.
    #[derive(Default)]
    struct World {
        total: u64,
        inclusive: HashMap<u32, u64>,
        active: HashMap<u32, u32>,
    }

    impl Effects for World {
        fn info(&self, entry: &Entry) -> EntryInfo {
            let n = entry.continuation;
            EntryInfo {
                kind: if n == 0 { EntryKind::Marker } else { EntryKind::Call { return_to: n } },
                edge: if n == 0 { EdgeId::NONE } else { EdgeId(n as u32) },
                active: if n == 0 { FnId::NONE } else { FnId(n as u32) },
                active_before: 0,
                caller: CtxId(n as u32 + 1000),
                to: CtxId::NONE,
            }
        }
        fn add_inclusive(&mut self, edge: EdgeId, entry: &Entry) {
            *self.inclusive.entry(edge.0).or_default() += self.total - entry.total;
        }
        fn set_active(&mut self, function: FnId, count: u32) {
            self.active.insert(function.0, count);
        }
        fn begin(&mut self, entry: &mut Entry) {
            entry.total = self.total;
        }
    }

    fn call(stack: &mut Stack, world: &mut World, sp: u64, n: u64) {
        assert!(stack.push(Entry { sp, total: world.total, continuation: n }));
        world.active.insert(n as u32, 1);
        world.total += 10;
    }

    #[test]
    fn two_stacks_take_turns_and_pay_for_their_own_time_only() {
        let (mut world, mut parked) = (World::default(), ParkedStacks::default());
        let mut memory = [Entry::default(); 16];
        memory[0].sp = u64::MAX;
        let mut stack = Stack::new(&mut memory, 1);
        call(&mut stack, &mut world, 0x9000, 1); // main calls resume
        call(&mut stack, &mut world, 0x8ff0, 2); // resume calls switch; the other stack begins
        call(&mut stack, &mut world, 0x1000, 3); // the coroutine calls yield
        call(&mut stack, &mut world, 0x0ff0, 4); // yield calls switch
        // Back to main's stack: an older frame fits.
        assert_eq!(stack.switch(0x8ff0, 2, &mut parked, &mut world), Some(CtxId(1002)));
        assert_eq!(stack.depth(), 2);
        assert_eq!((world.active[&3], world.active[&1]), (0, 1));
        assert_eq!(world.inclusive[&3], 20);
        world.total += 100;
        // And again into the coroutine: a parked frame fits.
        call(&mut stack, &mut world, 0x8ff0, 5);
        assert_eq!(stack.switch(0x0ff0, 4, &mut parked, &mut world), Some(CtxId(1004)));
        assert_eq!(stack.depth(), 2, "the bottom and the coroutine's frame");
        assert_eq!((world.active[&1], world.active[&3]), (0, 1));
        world.total += 7;
        // A return address that nobody waits for, and a stack pointer that nobody has.
        assert_eq!(stack.switch(0x8ff0, 99, &mut parked, &mut world), None);
        assert_eq!(stack.switch(0x7000, 5, &mut parked, &mut world), None);
        assert_eq!(stack.switch(0x8ff0, 5, &mut parked, &mut world), Some(CtxId(1005)));
        assert_eq!(world.inclusive[&3], 27, "what main spent meanwhile is not the coroutine's");
        assert_eq!(stack.depth(), 2);
        assert_eq!(stack.pop(&mut world).map(|i| i.caller), Some(CtxId(1001)));
    }

    #[test]
    fn a_stack_entered_from_another_one_is_parted_from_it() {
        let (mut world, mut parked) = (World::default(), ParkedStacks::default());
        let mut memory = [Entry::default(); 16];
        let mut stack = Stack::new(&mut memory, 1);
        call(&mut stack, &mut world, 0x9000, 1); // main enters the first
        call(&mut stack, &mut world, 0x1000, 2); // the first enters the second
        call(&mut stack, &mut world, 0x2000, 3); // the second goes back to main
        assert_eq!(stack.switch(0x9000, 1, &mut parked, &mut world), Some(CtxId(1001)));
        assert_eq!(stack.depth(), 1);
        call(&mut stack, &mut world, 0x9000, 4);
        assert_eq!(stack.switch(0x1000, 2, &mut parked, &mut world), Some(CtxId(1002)));
        call(&mut stack, &mut world, 0x1000, 5);
        assert_eq!(stack.switch(0x2000, 3, &mut parked, &mut world), Some(CtxId(1003)));
        assert_eq!(stack.depth(), 1);
        assert_eq!(stack.switch(0x9000, 4, &mut parked, &mut world), Some(CtxId(1004)));
        assert_eq!(stack.switch(0x1000, 5, &mut parked, &mut world), Some(CtxId(1005)));
    }

    #[test]
    fn frames_below_a_marker_are_out_of_reach() {
        let (mut world, mut parked) = (World::default(), ParkedStacks::default());
        let mut memory = [Entry::default(); 16];
        let mut stack = Stack::new(&mut memory, 1);
        call(&mut stack, &mut world, 0x9000, 1);
        assert!(stack.push(Entry { sp: 0x8000, total: 0, continuation: 0 }));
        call(&mut stack, &mut world, 0x7000, 2);
        assert_eq!(stack.switch(0x9000, 1, &mut parked, &mut world), None);
        assert_eq!(stack.depth(), 4);
    }
}
