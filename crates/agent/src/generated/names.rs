//! Named pieces of code by address, of which the latest counts.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A named piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the piece, in order of appearance from 0.
    pub serial: u32,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    name: (u32, u32),
}

/// The pieces.
#[derive(Default)]
pub struct Names {
    /// What is left of each piece after later ones took parts of it, by first address: address after
    /// the last, and the piece. No two overlap.
    parts: BTreeMap<u64, (u64, Entry)>,
    text: Vec<u8>,
    count: u32,
}

impl Names {
    /// Adds a piece, which takes the place of what was there. One without size or name is passed over.
    pub fn add(&mut self, start: u64, size: u64, name: &[u8]) {
        let end = start.saturating_add(size);
        let full = self.text.len() + name.len() > u32::MAX as usize || self.count == u32::MAX;
        if size == 0 || name.is_empty() || full {
            return;
        }
        let before = self.parts.range(..start).next_back().map(|(&s, &p)| (s, p));
        if let Some((s, (e, entry))) = before
            && e > start
        {
            self.parts.insert(s, (start, entry));
            if e > end {
                self.parts.insert(end, (e, entry));
            }
        }
        while let Some((&s, &(e, entry))) = self.parts.range(start..end).next() {
            self.parts.remove(&s);
            if e > end {
                self.parts.insert(end, (e, entry));
            }
        }
        let entry =
            Entry { serial: self.count, start, size, name: (self.text.len() as u32, name.len() as u32) };
        self.count += 1;
        self.text.extend_from_slice(name);
        self.parts.insert(start, (end, entry));
    }

    /// The piece at an address.
    pub fn lookup(&self, address: u64) -> Option<&Entry> {
        let (_, (end, entry)) = self.parts.range(..=address).next_back()?;
        (address < *end).then_some(entry)
    }

    /// The first address behind `address` at which a part of a piece begins.
    pub fn next_border(&self, address: u64) -> u64 {
        let after = (core::ops::Bound::Excluded(address), core::ops::Bound::Unbounded);
        self.parts.range(after).next().map_or(u64::MAX, |(&start, _)| start)
    }

    /// Name of a piece.
    pub fn text(&self, entry: &Entry) -> &[u8] {
        &self.text[entry.name.0 as usize..][..entry.name.1 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_piece_counts_and_leaves_the_rest() {
        let mut n = Names::default();
        n.add(0x100, 0x100, b"outer");
        n.add(0x140, 0x10, b"inner");
        n.add(0x0f8, 0x10, b"edge");
        n.add(0x300, 0, b"empty");
        let at = |n: &Names, a| n.lookup(a).map(|e| (n.text(e).to_vec(), e.serial));
        assert_eq!(at(&n, 0xf8), Some((b"edge".to_vec(), 2)));
        assert_eq!(at(&n, 0x107), Some((b"edge".to_vec(), 2)));
        assert_eq!(at(&n, 0x108), Some((b"outer".to_vec(), 0)));
        assert_eq!(at(&n, 0x14f), Some((b"inner".to_vec(), 1)));
        assert_eq!(at(&n, 0x150), Some((b"outer".to_vec(), 0)));
        assert_eq!(at(&n, 0x200), None);
        assert_eq!(at(&n, 0x300), None);
        assert_eq!((n.next_border(0x108), n.next_border(0x1ff)), (0x140, u64::MAX));
        n.add(0, u64::MAX, b"all");
        assert_eq!(at(&n, 0x140), Some((b"all".to_vec(), 3)));
    }

    #[test]
    fn random_pieces_are_found_as_in_a_list() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..50 {
            let mut names = Names::default();
            let mut list: Vec<(u64, u64)> = Vec::new();
            for _ in 0..40 {
                let (start, size) = (random(200), 1 + random(40));
                names.add(start, size, b"x");
                list.push((start, start + size));
            }
            for a in 0..260 {
                let latest = list.iter().rposition(|&(s, e)| (s..e).contains(&a));
                assert_eq!(names.lookup(a).map(|e| e.serial as usize), latest);
            }
        }
    }
}
