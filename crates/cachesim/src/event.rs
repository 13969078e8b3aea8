//! What a reference is, who served it, and which of Callgrind's events that raises.

/// What a reference is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An instruction is read, through I1.
    Fetch = 0,
    /// Data is read, through D1.
    Read = 1,
    /// Data is written, or read and written at once, through D1.
    Write = 2,
}

impl Kind {
    /// All kinds, in the order of event columns.
    pub const ALL: [Kind; 3] = [Kind::Fetch, Kind::Read, Kind::Write];

    /// The kind with this number; what is out of range counts as a write.
    pub const fn from_index(index: u8) -> Kind {
        match index {
            0 => Kind::Fetch,
            1 => Kind::Read,
            _ => Kind::Write,
        }
    }
}

/// The level that served a reference. A higher level implies the events of all lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Found in I1 or D1.
    L1 = 0,
    /// Missed there, found in LL.
    LastLevel = 1,
    /// Missed in LL as well.
    Memory = 2,
    /// Missed in LL, and the line that had to give way was modified (write-back model only).
    MemoryWriteBack = 3,
}

/// Callgrind's names, by kind (column) and level (row), in the order profiles list them.
///
/// The last row exists with `--simulate-wb=yes` only.
pub const NAMES: [[&str; 3]; 4] =
    [["Ir", "Dr", "Dw"], ["I1mr", "D1mr", "D1mw"], ["ILmr", "DLmr", "DLmw"], ["ILdmr", "DLdmr", "DLdmw"]];

/// How often each kind of reference reached each level: `counts[level][kind]`, as in [`NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [[u64; 3]; 4]);

impl Counts {
    /// Counts one reference of `kind` that was served by `level`.
    #[inline]
    pub fn add(&mut self, kind: Kind, level: Level) {
        for row in &mut self.0[..=level as usize] {
            row[kind as usize] += 1;
        }
    }

    /// The count of an event by its name, `None` for a name not in [`NAMES`].
    pub fn get(&self, name: &str) -> Option<u64> {
        let flat = NAMES.as_flattened().iter().position(|n| *n == name)?;
        Some(self.0[flat / 3][flat % 3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_raises_the_events_of_the_levels_passed() {
        let mut counts = Counts::default();
        counts.add(Kind::Write, Level::LastLevel);
        counts.add(Kind::Write, Level::MemoryWriteBack);
        counts.add(Kind::Fetch, Level::L1);
        for (name, count) in [("Ir", 1), ("I1mr", 0), ("Dw", 2), ("D1mw", 2), ("DLmw", 1), ("DLdmw", 1)] {
            assert_eq!(counts.get(name), Some(count), "{name}");
        }
        assert_eq!(counts.get("Ge"), None);
    }
}
