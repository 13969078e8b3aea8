//! Formulas that turn event counts into one number of cycles.
//!
//! There is no right set of weights, so each formula has a name and a version, and users can set
//! their own. A formula is a sum of event counts times weights, in hundredths of a cycle, over totals
//! that may be taken of a line, a function or a program.

/// The events a formula can weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions: `Ir`.
    pub instructions: u64,
    /// Data accesses: `Dr` + `Dw`.
    pub accesses: u64,
    /// Misses in I1 and D1: `I1mr` + `D1mr` + `D1mw`.
    pub l1_misses: u64,
    /// Misses in LL: `ILmr` + `DLmr` + `DLmw`.
    pub ll_misses: u64,
    /// Mispredicted branches: `Bcm` + `Bim`.
    pub mispredictions: u64,
    /// Bus events: `Ge`.
    pub bus_events: u64,
}

/// Weights, in hundredths of a cycle per event; in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// Per instruction.
    pub instruction: u32,
    /// Per data access.
    pub access: u32,
    /// Per miss in I1 or D1, in addition.
    pub l1_miss: u32,
    /// Per miss in LL, in addition.
    pub ll_miss: u32,
    /// Per mispredicted branch, in addition.
    pub misprediction: u32,
    /// Per bus event, in addition.
    pub bus_event: u32,
}

impl Weights {
    /// Estimated cycles, in hundredths.
    pub fn estimate(&self, totals: &Totals) -> u128 {
        [
            (self.instruction, totals.instructions),
            (self.access, totals.accesses),
            (self.l1_miss, totals.l1_misses),
            (self.ll_miss, totals.ll_misses),
            (self.misprediction, totals.mispredictions),
            (self.bus_event, totals.bus_events),
        ]
        .into_iter()
        .map(|(weight, count)| u128::from(weight) * u128::from(count))
        .sum()
    }

    /// Parses `instruction,access,l1_miss,ll_miss,misprediction,bus_event`, in cycles with up to
    /// two decimals: `1,0,10,100,10,20`. Missing weights at the end are zero.
    pub fn parse(text: &str) -> Option<Self> {
        let mut weights = [0; 6];
        let mut parts = text.split(',');
        for (weight, part) in weights.iter_mut().zip(parts.by_ref()) {
            *weight = hundredths(part.trim())?;
        }
        if parts.next().is_some() {
            return None;
        }
        let [instruction, access, l1_miss, ll_miss, misprediction, bus_event] = weights;
        Some(Self { instruction, access, l1_miss, ll_miss, misprediction, bus_event })
    }
}

/// A decimal number with up to two decimals, times one hundred.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.len() > 2 || ![whole, part].iter().all(|s| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()))
    {
        return None;
    }
    let part: u32 = part.parse::<u32>().ok()? * if part.len() == 1 { 10 } else { 1 };
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
}

/// A published set of weights.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// Name on the command line and in output.
    pub name: &'static str,
    /// Raised whenever a weight changes.
    pub version: u32,
    /// The weights.
    pub weights: Weights,
    /// Where they come from.
    pub source: &'static str,
}

/// The formulas known by name.
pub const FORMULAS: [Formula; 3] = [
    Formula {
        name: "kcachegrind",
        version: 1,
        weights: Weights {
            instruction: 100,
            access: 0,
            l1_miss: 1000,
            ll_miss: 10000,
            misprediction: 1000,
            bus_event: 2000,
        },
        source: "KCachegrind's \"Cycle Estimation\" CEst = Ir + 10 Bm + 10 L1m + 20 Ge + 100 LLm",
    },
    Formula {
        name: "codspeed",
        version: 1,
        weights: Weights {
            instruction: 100,
            access: 100,
            l1_miss: 500,
            ll_miss: 10000,
            misprediction: 0,
            bus_event: 0,
        },
        source: "CodSpeed, CPU simulation: Ir + Dr + Dw + 5 L1m + 100 LLm",
    },
    Formula {
        name: "itamar",
        version: 1,
        weights: Weights {
            instruction: 100,
            access: 100,
            l1_miss: 400,
            ll_miss: 3000,
            misprediction: 0,
            bus_event: 0,
        },
        source: "I. Turner-Trauring, as used by iai: L1 hits + 5 LL hits + 35 memory accesses",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(name: &str) -> Weights {
        FORMULAS.iter().find(|formula| formula.name == name).unwrap().weights
    }

    #[test]
    fn the_formulas_say_what_their_sources_say() {
        let totals = Totals {
            instructions: 1000,
            accesses: 300,
            l1_misses: 20,
            ll_misses: 4,
            mispredictions: 7,
            bus_events: 1,
        };
        assert_eq!(formula("kcachegrind").estimate(&totals), 100 * (1000 + 10 * 7 + 10 * 20 + 20 + 100 * 4));
        assert_eq!(formula("codspeed").estimate(&totals), 100 * (1300 + 5 * 20 + 100 * 4));
        let (l1_hits, ll_hits) = (1300 - 20, 20 - 4);
        assert_eq!(formula("itamar").estimate(&totals), 100 * (l1_hits + 5 * ll_hits + 35 * 4));
    }

    #[test]
    fn weights_are_read_from_text() {
        assert_eq!(Weights::parse("1,0,10,100,10,20"), Some(formula("kcachegrind")));
        assert_eq!(
            Weights::parse("0.5, 1.25").map(|w| (w.instruction, w.access, w.l1_miss)),
            Some((50, 125, 0))
        );
        for wrong in ["", "x", "1,", "1.234", "-1", "1,1,1,1,1,1,1", "99999999999"] {
            assert_eq!(Weights::parse(wrong), None, "{wrong}");
        }
    }
}
