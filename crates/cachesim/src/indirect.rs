//! The predictor of indirect jumps and calls: `Bi`, `Bim`.
//!
//! 512 targets, selected by the low nine bits of the instruction's address; the prediction is
//! the target taken last. Returns do not come here: they count as always predicted.

const TARGETS: usize = 512;

/// State of the predictor. Generated code may use `targets[address & 511]` likewise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IndirectPredictor {
    /// Targets taken last; zero where none was.
    pub targets: [u64; TARGETS],
}

impl IndirectPredictor {
    /// A predictor that has seen nothing.
    pub const fn new() -> Self {
        Self { targets: [0; TARGETS] }
    }

    /// Predicts the jump at `address`, learns its `target`, and returns true when the prediction
    /// was wrong.
    #[inline]
    pub fn mispredicts(&mut self, address: u64, target: u64) -> bool {
        core::mem::replace(&mut self.targets[address as usize % TARGETS], target) != target
    }
}

impl Default for IndirectPredictor {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_target_is_predicted() {
        let mut predictor = IndirectPredictor::new();
        assert_eq!(size_of::<IndirectPredictor>(), 4096);
        assert!(predictor.mispredicts(0x401000, 0x500000));
        assert!(!predictor.mispredicts(0x401000, 0x500000));
        assert!(predictor.mispredicts(0x401200, 0x600000), "shares the entry");
        assert!(predictor.mispredicts(0x401000, 0x500000));
        assert!(predictor.mispredicts(0x401001, 0x500000), "does not");
    }
}
