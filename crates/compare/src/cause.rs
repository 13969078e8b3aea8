//! Where a change comes from: two profiles compared function by function.
//!
//! Reading profiles is the business of `tallygraph-profile`; this crate only asks for the costs by
//! function through [`ProfileSource`], so that its decisions can be tested with costs typed in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Cost of one function in one profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// Self cost, in the profile's unit.
    pub self_cost: f64,
    /// Number of calls; 0 where the profile does not count calls.
    pub calls: u64,
}

/// Costs by function name.
pub type FunctionCosts = BTreeMap<String, FunctionCost>;

/// Gives the costs by function of a stored profile.
pub trait ProfileSource {
    /// The self cost and calls of each function in the profile at `reference`.
    ///
    /// The error says in one line what is wrong with it.
    fn functions(&self, reference: &str) -> Result<FunctionCosts, String>;
}

/// No profiles at hand.
pub struct NoProfiles;

impl ProfileSource for NoProfiles {
    fn functions(&self, reference: &str) -> Result<FunctionCosts, String> {
        Err(format!("{reference}: profiles are not read here"))
    }
}

/// One function's part in a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionDelta {
    /// The function.
    pub function: String,
    /// Self cost before and after.
    pub base: f64,
    /// Self cost after.
    pub head: f64,
    /// Calls before.
    pub base_calls: u64,
    /// Calls after.
    pub head_calls: u64,
    /// Its part of the total cost of the base, signed: +0.03 if it alone made the total 3 % larger.
    pub share: f64,
}

impl FunctionDelta {
    /// How much its self cost grew.
    pub fn growth(&self) -> f64 {
        self.head - self.base
    }
}

/// The functions whose self cost differs, the largest difference first.
pub fn difference(base: &FunctionCosts, head: &FunctionCosts) -> Vec<FunctionDelta> {
    let total: f64 = base.values().map(|c| c.self_cost).sum::<f64>().max(f64::MIN_POSITIVE);
    let names: std::collections::BTreeSet<&String> = base.keys().chain(head.keys()).collect();
    let mut deltas: Vec<FunctionDelta> = names
        .into_iter()
        .map(|name| {
            let (b, h) =
                (base.get(name).copied().unwrap_or_default(), head.get(name).copied().unwrap_or_default());
            FunctionDelta {
                function: name.clone(),
                base: b.self_cost,
                head: h.self_cost,
                base_calls: b.calls,
                head_calls: h.calls,
                share: (h.self_cost - b.self_cost) / total,
            }
        })
        .filter(|d| d.growth() != 0.0 || d.base_calls != d.head_calls)
        .collect();
    deltas.sort_by(|a, b| b.growth().abs().total_cmp(&a.growth().abs()).then(a.function.cmp(&b.function)));
    deltas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(list: &[(&str, f64, u64)]) -> FunctionCosts {
        list.iter()
            .map(|&(name, self_cost, calls)| (name.to_string(), FunctionCost { self_cost, calls }))
            .collect()
    }

    #[test]
    fn the_largest_change_comes_first_and_new_functions_count_from_zero() {
        let base = costs(&[("parse", 700.0, 10), ("print", 300.0, 1)]);
        let head = costs(&[("parse", 710.0, 10), ("print", 300.0, 1), ("copy", 90.0, 5)]);
        let deltas = difference(&base, &head);
        assert_eq!(deltas.iter().map(|d| d.function.as_str()).collect::<Vec<_>>(), ["copy", "parse"]);
        assert_eq!((deltas[0].base, deltas[0].head_calls), (0.0, 5));
        assert!((deltas[0].share - 0.09).abs() < 1e-12);
    }

    #[test]
    fn more_calls_at_the_same_cost_are_a_difference() {
        let deltas = difference(&costs(&[("f", 5.0, 1)]), &costs(&[("f", 5.0, 2)]));
        assert_eq!(deltas.len(), 1);
    }
}
