//! The predictor of conditional branches: `Bc`, `Bcm`.
//!
//! 2^14 two-bit saturating counters, selected by the last seven outcomes (high bits) and the low
//! seven bits of the branch's address. A counter of two or three predicts taken. All counters and
//! the history start at zero, and nothing resets them.

/// Bits of history, and of the address, that select a counter.
const BITS: u32 = 7;
const MASK: u64 = (1 << BITS) - 1;

/// State of the predictor.
///
/// Generated code may do the same steps: the counter is
/// `counters[history << 7 | (address & 127)]`; afterwards the history becomes
/// `(history << 1 | taken) & 127`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ConditionalPredictor {
    /// The last seven outcomes, the latest in bit 0.
    pub history: u64,
    /// The counters, each 0 to 3.
    pub counters: [u8; 1 << (2 * BITS)],
}

impl ConditionalPredictor {
    /// A predictor that has seen nothing.
    pub const fn new() -> Self {
        Self { history: 0, counters: [0; 1 << (2 * BITS)] }
    }

    /// Predicts the branch at `address`, learns its outcome, and returns true when the
    /// prediction was wrong.
    #[inline]
    pub fn mispredicts(&mut self, address: u64, taken: bool) -> bool {
        let index = (self.history & MASK) << BITS | (address & MASK);
        let counter = &mut self.counters[index as usize];
        let predicted = *counter >= 2;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | u64::from(taken)) & MASK;
        predicted != taken
    }
}

impl Default for ConditionalPredictor {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn generated_code_finds_the_fields_where_it_expects_them() {
        assert_eq!(offset_of!(ConditionalPredictor, history), 0);
        assert_eq!(offset_of!(ConditionalPredictor, counters), 8);
        assert_eq!(size_of::<ConditionalPredictor>(), 8 + 16384);
    }

    #[test]
    fn a_loop_branch_is_learned_once_the_history_is_full() {
        let mut predictor = ConditionalPredictor::new();
        let wrong: Vec<_> = (0..20).filter(|_| predictor.mispredicts(0x401000, true)).collect();
        // Seven new histories, then the counter of the full one needs two steps.
        assert_eq!(wrong.len(), 9);
    }

    #[test]
    fn only_seven_address_bits_are_looked_at() {
        let mut predictor = ConditionalPredictor::new();
        (0..20).for_each(|_| _ = predictor.mispredicts(0x401000, true));
        assert!(!predictor.mispredicts(0x401080, true));
        assert!(predictor.mispredicts(0x401001, true));
    }
}
