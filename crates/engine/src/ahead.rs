//! Tables that only grow, whose pages are made present before they are used.
//!
//! A table has its whole range of addresses from the start and never moves. A fault for each of its pages would
//! cost several times what making some of them present at once does.

use alloc::vec::Vec;
use tallygraph_sys::mem;

/// Bytes made present at once.
const PIECE: u64 = 128 * 1024;
/// Least room that is present behind what a table holds.
const MARGIN: u64 = 8 * 1024;

/// How far a table is present.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    /// Address up to which pages are present.
    upto: u64,
}

impl Ahead {
    /// Called before a table grows by less than [`MARGIN`] bytes.
    #[inline]
    pub fn keep<T>(&mut self, table: &Vec<T>) {
        let end = table.as_ptr() as u64 + (table.len() * size_of::<T>()) as u64;
        if end + MARGIN > self.upto {
            self.extend(end, table.as_ptr() as u64 + (table.capacity() * size_of::<T>()) as u64);
        }
    }

    #[cold]
    fn extend(&mut self, end: u64, limit: u64) {
        let from = mem::page_down(end.max(self.upto));
        let upto = mem::page_up(end + PIECE).min(mem::page_down(limit));
        if upto > from {
            mem::populate(from, upto - from);
        }
        self.upto = upto.max(self.upto);
        if end + MARGIN > self.upto {
            // Full: nothing more is to be done for it.
            self.upto = u64::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_present_before_they_are_used() {
        let mut ahead = Ahead::default();
        let mut table: Vec<u64> = Vec::with_capacity(1 << 20);
        for n in 0..100_000 {
            ahead.keep(&table);
            table.push(n);
            let end = table.as_ptr() as u64 + (table.len() * 8) as u64;
            assert!(ahead.upto >= end, "{n}");
            assert!(ahead.upto <= end + PIECE + mem::PAGE, "{n}");
        }
    }

    #[test]
    fn the_end_of_a_table_is_no_obstacle() {
        let mut ahead = Ahead::default();
        let mut table: Vec<u64> = Vec::with_capacity(3000);
        while table.len() < table.capacity() {
            ahead.keep(&table);
            table.push(1);
        }
        ahead.keep(&table);
        assert_eq!(ahead.upto, u64::MAX);
    }
}
