//! The plan of a session: which benchmarks, in which order, with which digest.
//!
//! The order of block n depends on the seed and on n alone, so a session that was interrupted
//! continues in the order it would have had.

use tallygraph_stats::Rng;

use tallygraph_compare::report::stable_hash;

/// One part of a matrix, `2/3` for the second of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub index: usize,
    /// How many parts.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Shard { index, of }),
            _ => Err(format!("`{text}` is not a shard like 2/3")),
        }
    }
}

impl Shard {
    /// Whether the benchmark at a place of the matrix belongs to this part.
    ///
    /// Dealing round robin spreads the slow cells, which lie next to each other.
    pub fn contains(self, place: usize) -> bool {
        place % self.of == self.index - 1
    }
}

/// One run of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Place of the benchmark in the list of active ones.
    pub benchmark: usize,
    /// Side: 0 the base, 1 the head; 0 only without sides.
    pub side: usize,
    /// Place of the run among those of its benchmark in this block.
    pub position: u32,
}

/// The runs of one block: benchmarks in random order, the runs of each together, its sides mixed.
///
/// Within a benchmark every arrangement of the sides is equally likely, which is what the test of
/// the report relies on.
pub fn block(seed: u64, number: u32, benchmarks: usize, sides: usize, repeat: u32) -> Vec<Step> {
    let mut rng = Rng::stream(seed, u64::from(number));
    let mut order: Vec<usize> = (0..benchmarks).collect();
    rng.shuffle(&mut order);
    let mut steps = Vec::new();
    for benchmark in order {
        for (position, side) in order_of(seed, number, benchmark, sides, repeat).into_iter().enumerate() {
            steps.push(Step { benchmark, side, position: position as u32 });
        }
    }
    steps
}

/// The order of the sides in one benchmark's runs of a block.
fn order_of(seed: u64, number: u32, benchmark: usize, sides: usize, repeat: u32) -> Vec<usize> {
    let mut rng = Rng::stream(seed ^ 0x5eed_0f51_de50_0000, (u64::from(number) << 32) | benchmark as u64);
    let mut order: Vec<usize> =
        (0..sides).flat_map(|side| std::iter::repeat_n(side, repeat as usize)).collect();
    rng.shuffle(&mut order);
    order
}

/// A digest of everything that decides what is measured, to recognise an interrupted session.
pub fn digest(parts: &[&str]) -> String {
    format!("{:016x}", stable_hash(&parts.join("\u{1f}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_runs_every_side_equally_often_and_keeps_benchmarks_together() {
        let steps = block(7, 3, 5, 2, 2);
        assert_eq!(steps.len(), 20);
        for benchmark in 0..5 {
            let own: Vec<&Step> = steps.iter().filter(|s| s.benchmark == benchmark).collect();
            assert_eq!(own.iter().filter(|s| s.side == 0).count(), 2);
            assert_eq!(own.iter().map(|s| s.position).collect::<Vec<_>>(), [0, 1, 2, 3]);
            let first = steps.iter().position(|s| s.benchmark == benchmark).unwrap();
            assert!(steps[first..first + 4].iter().all(|s| s.benchmark == benchmark));
        }
        assert_eq!(steps, block(7, 3, 5, 2, 2));
        assert_ne!(steps, block(8, 3, 5, 2, 2));
    }

    #[test]
    fn every_arrangement_of_the_sides_is_about_equally_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for number in 0..6000 {
            *seen.entry(order_of(1, number, 0, 2, 2)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&n| (880..1120).contains(&n)), "{seen:?}");
    }

    #[test]
    fn shards_cover_the_matrix_once() {
        let shards: Vec<Shard> = (1..=3).map(|i| format!("{i}/3").parse().unwrap()).collect();
        for place in 0..20 {
            assert_eq!(shards.iter().filter(|s| s.contains(place)).count(), 1);
        }
        for bad in ["0/3", "4/3", "1", "a/b", "1/0"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
