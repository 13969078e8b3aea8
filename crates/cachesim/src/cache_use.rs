//! How well loaded lines are used: `AcCost1`, `SpLoss1`, `AcCost2`, `SpLoss2` of `--cacheuse=yes`.
//!
//! While a line is in L1, its accesses are counted and the parts touched are remembered. When it
//! leaves, whoever loaded it is charged
//!
//! - *access cost*: 1000 divided by the number of accesses, rounded down, so the smaller the
//!   better the line was used (temporal use);
//! - *spatial loss*: the bytes never touched, in 32nds of a line.
//!
//! A line that leaves L1 hands both on to its line in LL, where the same is charged when that
//! leaves. LL is referenced per missing line, not with the access's address and size, so miss
//! counts differ slightly from the plain model's. Not combined with write-back or prefetching.
//!
//! Each line present has a *slot* that stays its own while its place in the row changes. An L1
//! line keeps the LL slot it was filled from; if LL has given that slot to another line by then,
//! the other line inherits the use, as in Callgrind. I1, D1 and LL should have equal lines.

use alloc::boxed::Box;
use alloc::vec;

use crate::{Fidelity, Geometry, Kind, Level};

/// Which of the two pairs of events a line's use belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedIn {
    /// I1 or D1: `AcCost1`, `SpLoss1`.
    L1,
    /// LL: `AcCost2`, `SpLoss2`.
    LastLevel,
}

/// What the loader of a line is charged when the line leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Who loaded the line.
    pub owner: u32,
    /// Which events.
    pub used_in: UsedIn,
    /// 1000 divided by the number of accesses.
    pub access_cost: u32,
    /// Bytes of the line never touched.
    pub spatial_loss: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    accesses: u32,
    /// One bit per 32nd of the line.
    touched: u32,
    /// LL slot this line was filled from; not used in LL itself.
    backing: usize,
    /// `None` for a slot no instruction has filled.
    owner: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    tag: u64,
    slot: usize,
}

#[derive(Clone, Debug)]
struct UseCache {
    geometry: Geometry,
    fidelity: Fidelity,
    ways: Box<[Way]>,
    slots: Box<[Slot]>,
}

impl UseCache {
    fn new(geometry: Geometry, fidelity: Fidelity) -> Self {
        let lines = (geometry.sets() * geometry.ways()) as usize;
        let empty = Way { tag: 0, slot: 0 };
        let mut cache = Self {
            geometry,
            fidelity,
            ways: vec![empty; lines].into_boxed_slice(),
            slots: vec![Slot::default(); lines].into_boxed_slice(),
        };
        cache.clear();
        cache
    }

    fn clear(&mut self) {
        // No address has this tag, as its line bits are not zero.
        let tag = if self.fidelity == Fidelity::Exact { u64::MAX } else { 0 };
        for (slot, way) in self.ways.iter_mut().enumerate() {
            *way = Way { tag, slot };
        }
        self.slots.fill(Slot::default());
    }

    fn tag_of(&self, address: u64) -> u64 {
        match self.fidelity {
            Fidelity::Exact => self.geometry.line_of(address),
            Fidelity::Callgrind => {
                let set_bytes = u64::from(self.geometry.sets()) << self.geometry.line_shift();
                address & !(set_bytes - 1) & 0xffff_ffff
            }
        }
    }

    /// Moves the line of `address` to its row's front; returns its slot, and whether it was there.
    fn touch(&mut self, address: u64) -> (usize, bool) {
        let tag = self.tag_of(address);
        let ways = self.geometry.ways() as usize;
        let row = &mut self.ways[self.geometry.set_of(address) * ways..][..ways];
        let place = row.iter().position(|way| way.tag == tag);
        row[..=place.unwrap_or(ways - 1)].rotate_right(1);
        row[0].tag = tag;
        (row[0].slot, place.is_some())
    }

    /// What the owner of the line in `slot` is charged, if it was used at all.
    fn charge(&self, slot: usize, used_in: UsedIn) -> Option<Charge> {
        let Slot { accesses, touched, owner, .. } = self.slots[slot];
        let access_cost = 1000u32.checked_div(accesses)?;
        let spatial_loss = (touched.count_zeros() * self.geometry.line()) >> 5;
        Some(Charge { owner: owner?, used_in, access_cost, spatial_loss })
    }

    /// The bits for `bytes` bytes from `offset`, both within a line.
    fn mask(&self, offset: u32, bytes: u32) -> u32 {
        let line = self.geometry.line();
        let bit = |byte: u32| (u64::from(byte) * 32 / u64::from(line)) as u32;
        // With lines below 32 bytes, a byte has several bits.
        let last = if line < 32 { bit(offset + bytes) - 1 } else { bit(offset + bytes - 1) };
        (u32::MAX << bit(offset)) & (u32::MAX >> (31 - last))
    }
}

/// I1, D1 and LL, with the use of each line.
#[derive(Clone, Debug)]
pub struct CacheUse {
    first: [UseCache; 2],
    last: UseCache,
    min_line: u32,
    /// Whether charges are made and use is handed on to LL. References are simulated always.
    pub collect: bool,
}

impl CacheUse {
    /// Empty caches, collecting.
    pub fn new(i1: Geometry, d1: Geometry, ll: Geometry, fidelity: Fidelity) -> Self {
        Self {
            first: [UseCache::new(i1, fidelity), UseCache::new(d1, fidelity)],
            last: UseCache::new(ll, fidelity),
            min_line: i1.line().min(d1.line()).min(ll.line()),
            collect: true,
        }
    }

    /// References `size` bytes at `address` on behalf of `owner`; lines that leave are reported.
    ///
    /// `size` is at least 1, and cut to the smallest line size.
    pub fn reference(
        &mut self,
        kind: Kind,
        address: u64,
        size: u32,
        owner: u32,
        charge: &mut impl FnMut(Charge),
    ) -> Level {
        let which = usize::from(kind != Kind::Fetch);
        let cache = &self.first[which];
        let (geometry, line) = (cache.geometry, cache.geometry.line());
        let size = size.min(self.min_line);
        let offset = (address & u64::from(line - 1)) as u32;
        let end = address.wrapping_add(u64::from(size) - 1);
        let one_line = match cache.fidelity {
            Fidelity::Exact => geometry.line_of(address) == geometry.line_of(end),
            Fidelity::Callgrind => geometry.set_of(address) == geometry.set_of(end),
        };
        let end_offset = (end & u64::from(line - 1)) as u32;
        if one_line {
            // Only in a cache of one set, as Callgrind has it, can the end come before the start.
            let mask = if end_offset >= offset {
                cache.mask(offset, size)
            } else {
                cache.mask(offset, line - offset) & cache.mask(0, end_offset + 1)
            };
            return self.touch(which, address, mask, owner, charge);
        }
        let (low, high) = (cache.mask(offset, line - offset), cache.mask(0, end_offset + 1));
        let first = self.touch(which, address, low, owner, charge);
        first.max(self.touch(which, end, high, owner, charge))
    }

    fn touch(
        &mut self,
        which: usize,
        address: u64,
        mask: u32,
        owner: u32,
        charge: &mut impl FnMut(Charge),
    ) -> Level {
        let cache = &mut self.first[which];
        let (slot, hit) = cache.touch(address);
        if hit {
            cache.slots[slot].accesses = cache.slots[slot].accesses.wrapping_add(1);
            cache.slots[slot].touched |= mask;
            return Level::L1;
        }
        let line = cache.geometry.line_of(address);
        self.leave_first(which, slot, charge);
        let (backing, found) = self.last.touch(line);
        self.first[which].slots[slot] = Slot { accesses: 1, touched: mask, backing, owner: Some(owner) };
        if found {
            return Level::LastLevel;
        }
        self.leave_last(backing, charge);
        self.last.slots[backing] = Slot { owner: Some(owner), ..Slot::default() };
        Level::Memory
    }

    /// Charges for the line in an L1 slot and hands its use on.
    fn leave_first(&mut self, which: usize, slot: usize, charge: &mut impl FnMut(Charge)) {
        if let Some(due) = self.first[which].charge(slot, UsedIn::L1)
            && self.collect
        {
            charge(due);
            let Slot { accesses, touched, backing, .. } = self.first[which].slots[slot];
            let backing = &mut self.last.slots[backing];
            backing.touched |= touched;
            backing.accesses = backing.accesses.wrapping_add(accesses);
        }
    }

    fn leave_last(&mut self, slot: usize, charge: &mut impl FnMut(Charge)) {
        if let Some(due) = self.last.charge(slot, UsedIn::LastLevel)
            && self.collect
        {
            charge(due);
        }
    }

    /// Charges for all lines still present, as at the end of the program, and empties the caches.
    pub fn finish(&mut self, charge: &mut impl FnMut(Charge)) {
        for which in 0..self.first.len() {
            for slot in 0..self.first[which].slots.len() {
                self.leave_first(which, slot, charge);
            }
        }
        for slot in 0..self.last.slots.len() {
            self.leave_last(slot, charge);
        }
        self.clear();
    }

    /// Empties the caches without charging anybody.
    pub fn clear(&mut self) {
        self.first.iter_mut().for_each(UseCache::clear);
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> CacheUse {
        let l1 = Geometry::new(128, 1, 64).unwrap();
        CacheUse::new(l1, l1, Geometry::new(256, 2, 64).unwrap(), Fidelity::Exact)
    }

    #[test]
    fn the_loader_pays_for_what_was_not_used() {
        let mut caches = small();
        let mut charges = Vec::new();
        let mut note = |due| charges.push(due);
        assert_eq!(caches.reference(Kind::Read, 0x1000, 8, 1, &mut note), Level::Memory);
        assert_eq!(caches.reference(Kind::Read, 0x1008, 8, 2, &mut note), Level::L1);
        assert_eq!(caches.reference(Kind::Read, 0x1000, 8, 3, &mut note), Level::L1);
        assert_eq!(caches.reference(Kind::Write, 0x1080, 64, 4, &mut note), Level::Memory);
        caches.finish(&mut note);
        let charge =
            |owner, used_in, access_cost, spatial_loss| Charge { owner, used_in, access_cost, spatial_loss };
        assert_eq!(
            charges,
            [
                charge(1, UsedIn::L1, 333, 48),
                charge(4, UsedIn::L1, 1000, 0),
                charge(4, UsedIn::LastLevel, 1000, 0),
                charge(1, UsedIn::LastLevel, 333, 48),
            ]
        );
    }

    #[test]
    fn nothing_is_charged_while_not_collecting() {
        let mut caches = small();
        caches.collect = false;
        caches.reference(Kind::Read, 0x1000, 8, 1, &mut |due| panic!("{due:?}"));
        caches.reference(Kind::Read, 0x1080, 8, 1, &mut |due| panic!("{due:?}"));
        caches.finish(&mut |due| panic!("{due:?}"));
    }

    #[test]
    fn masks_have_one_bit_per_32nd_of_a_line() {
        let mask = |line, offset, bytes| {
            UseCache::new(Geometry::new(line * 4, 1, line).unwrap(), Fidelity::Exact).mask(offset, bytes)
        };
        assert_eq!(mask(32, 5, 4), 0x1e0);
        assert_eq!(mask(64, 5, 4), 0b11100);
        assert_eq!(mask(64, 0, 64), u32::MAX);
        assert_eq!(mask(16, 1, 1), 0b1100);
        assert_eq!(mask(16, 0, 16), u32::MAX);
        assert_eq!(mask(128, 127, 1), 1 << 31);
    }
}
