//! Costs by function of stored profiles, through `tallygraph-profile`.

use std::path::PathBuf;

use tallygraph_compare::cause::{FunctionCost, FunctionCosts, ProfileSource};
use tallygraph_profile::graph::CallGraph;
use tallygraph_profile::read;

/// Profiles kept beside a store.
pub struct StoredProfiles {
    /// The store's directory; references are relative to it.
    pub directory: PathBuf,
}

impl ProfileSource for StoredProfiles {
    fn functions(&self, reference: &str) -> Result<FunctionCosts, String> {
        let path = self.directory.join(reference);
        let profile = read::file(&path, read::Options::default()).map_err(|e| e.to_string())?;
        let graph = CallGraph::of(&profile);
        let event = graph.event("Ir").unwrap_or(0);
        let mut costs = FunctionCosts::new();
        for function in &graph.functions {
            let cost = function.self_cost.get(event).copied().unwrap_or(0) as f64;
            let entry: &mut FunctionCost = costs.entry(function.name.clone()).or_default();
            entry.self_cost += cost;
            entry.calls += function.calls;
        }
        Ok(costs)
    }
}
