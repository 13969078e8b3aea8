//! Finds the last of many sorted addresses that is not above a given one.
//!
//! Every exit that is resolved asks for symbols several times, and a binary search over thousands of them misses
//! the cache at each step. Here the range is cut into about twice as many buckets as there are addresses; a
//! bucket knows how many addresses lie below it, so one or two comparisons are left.

use alloc::vec::Vec;

/// Sorted addresses with buckets.
#[derive(Default)]
pub struct Index {
    starts: Vec<u64>,
    /// Binary logarithm of a bucket's bytes.
    shift: u32,
    /// For each bucket, how many addresses lie below its first byte.
    below: Vec<u32>,
}

impl Index {
    /// An index of addresses in ascending order.
    pub fn new(starts: Vec<u64>) -> Index {
        let (Some(first), Some(last)) = (starts.first(), starts.last()) else { return Index::default() };
        let range = last - first;
        let mut shift = 4;
        while range >> shift > 2 * starts.len() as u64 {
            shift += 1;
        }
        let mut below = Vec::with_capacity((range >> shift) as usize + 1);
        for (n, start) in starts.iter().enumerate() {
            // Buckets that begin behind the address before, up to this one.
            while below.len() as u64 <= (start - first) >> shift {
                below.push(n as u32);
            }
        }
        Index { starts, shift, below }
    }

    /// How many addresses are not above `at`.
    pub fn upto(&self, at: u64) -> usize {
        let Some(offset) = self.starts.first().and_then(|first| at.checked_sub(*first)) else { return 0 };
        let Some(&below) = self.below.get((offset >> self.shift) as usize) else { return self.starts.len() };
        let rest = &self.starts[below as usize..];
        below as usize + rest.iter().position(|s| *s > at).unwrap_or(rest.len())
    }

    /// The first address above `at`.
    pub fn next(&self, at: u64) -> Option<u64> {
        self.starts.get(self.upto(at)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(starts: &[u64], at: u64) {
        let index = Index::new(starts.to_vec());
        let expected = starts.partition_point(|s| *s <= at);
        assert_eq!(index.upto(at), expected, "{starts:x?} {at:x}");
        assert_eq!(index.next(at), starts.get(expected).copied());
    }

    #[test]
    fn the_answer_is_that_of_a_search() {
        let mut dense: Vec<u64> = (0..1000).map(|n| 0x1000 + n * n / 3).collect();
        dense.dedup();
        let sparse = [0x10, 0x11, 0x5000, 0x5000_0000, 0x5000_0001, u64::MAX - 1];
        for starts in [&[][..], &[0], &[7], &[u64::MAX], &dense, &sparse] {
            for at in
                starts.iter().flat_map(|s| [s.wrapping_sub(1), *s, s.wrapping_add(1)]).chain([0, u64::MAX])
            {
                agrees(starts, at);
            }
        }
    }
}
