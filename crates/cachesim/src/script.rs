//! References that arrive as block numbers and addresses, 8 bytes each.
//!
//! What a block references is known when it is translated; only the addresses of its data are
//! not. A [`Script`] lists a block's steps once. The buffer then holds, per execution, a header and
//! one word per data step:
//!
//! ```text
//! header    bits  0..32   script number
//!           bits 32..63   steps executed (all of them, or fewer when the block was left early)
//! data step bits  0..64   address; zero when the access was not performed
//! ```
//!
//! Fetches take no space. Steps are simulated in order, instruction and data mixed as they were
//! executed, so the result equals that of one call per reference.

use alloc::vec::Vec;

use crate::batch::Sink;
use crate::{Hierarchy, Kind, Level};

/// One reference of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The instruction of `size` bytes at `address` is read.
    Fetch {
        /// Address of the instruction.
        address: u64,
        /// Length of the instruction.
        size: u8,
    },
    /// `size` bytes are read at the next address in the buffer.
    Read {
        /// Bytes read.
        size: u16,
    },
    /// `size` bytes are written at the next address in the buffer.
    Write {
        /// Bytes written.
        size: u16,
    },
}

/// The steps of a block. Step `i` is reported as site `first_site + i`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Site of the first step.
    pub first_site: u32,
    /// The references of one execution, in order.
    pub steps: Vec<Step>,
}

impl Script {
    /// The header for an execution of the first `steps` steps of script `number`.
    pub const fn header(number: u32, steps: u32) -> u64 {
        number as u64 | (steps as u64) << 32
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Hierarchy<S> {
    /// Simulates the executions in `words` and returns how many words that were.
    ///
    /// Less than all of them are taken when the last execution is not complete, or when a header
    /// names no script; the rest is left for the caller to judge.
    pub fn replay(&mut self, scripts: &[Script], words: &[u64], sink: &mut impl Sink) -> usize {
        let mut rest = words;
        while let Some((header, data)) = rest.split_first() {
            let Some(script) = scripts.get(*header as u32 as usize) else { break };
            let steps = (header >> 32) as usize;
            let Some(steps) = script.steps.get(..steps) else { break };
            let needed = steps.iter().filter(|step| !matches!(step, Step::Fetch { .. })).count();
            let Some((addresses, after)) = data.split_at_checked(needed) else { break };
            let mut addresses = addresses.iter().copied();
            for (site, step) in (script.first_site..).zip(steps) {
                let (kind, address, size) = match *step {
                    Step::Fetch { address, size } => (Kind::Fetch, address, u32::from(size)),
                    Step::Read { size } => (Kind::Read, addresses.next().unwrap_or(0), u32::from(size)),
                    Step::Write { size } => (Kind::Write, addresses.next().unwrap_or(0), u32::from(size)),
                };
                if address == 0 {
                    continue;
                }
                let level = self.reference(kind, address, size.max(1));
                if level != Level::L1 {
                    sink.miss(site, kind, level);
                }
            }
            rest = after;
        }
        words.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, Options};

    fn caches() -> Hierarchy {
        let geometry = Geometry::new(256, 2, 64).unwrap();
        Hierarchy::new(geometry, geometry, geometry, Options::default())
    }

    fn scripts() -> Vec<Script> {
        let steps = vec![
            Step::Fetch { address: 0x1000, size: 4 },
            Step::Read { size: 8 },
            Step::Fetch { address: 0x1004, size: 4 },
            Step::Write { size: 8 },
        ];
        vec![Script { first_site: 10, steps }]
    }

    #[test]
    fn steps_run_in_order_and_name_their_sites() {
        let mut misses = Vec::new();
        let words = [Script::header(0, 4), 0x1000, 0x2000, Script::header(0, 2), 0x2000];
        let taken =
            caches().replay(&scripts(), &words, &mut |site, _: Kind, level| misses.push((site, level)));
        assert_eq!(taken, 5);
        assert_eq!(misses, [(10, Level::Memory), (11, Level::LastLevel), (13, Level::Memory)]);
    }

    #[test]
    fn an_access_that_was_not_performed_costs_nothing() {
        let mut misses = Vec::new();
        let words = [Script::header(0, 4), 0, 0];
        caches().replay(&scripts(), &words, &mut |site, _: Kind, _: Level| misses.push(site));
        assert_eq!(misses, [10]);
    }

    #[test]
    fn an_incomplete_execution_is_left_over() {
        let mut ignore = |_: u32, _: Kind, _: Level| {};
        let words = [Script::header(0, 1), Script::header(0, 4), 0x1000];
        assert_eq!(caches().replay(&scripts(), &words, &mut ignore), 1);
        assert_eq!(caches().replay(&scripts(), &[Script::header(1, 0)], &mut ignore), 0);
        assert_eq!(caches().replay(&scripts(), &[Script::header(0, 5), 0, 0], &mut ignore), 0);
    }
}
