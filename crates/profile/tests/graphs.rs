//! Random programs: their true inclusive costs are known, and what is computed from the call
//! graph that Callgrind would record must fit them.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::collections::BTreeMap;
use tallygraph_profile::fold;
use tallygraph_profile::graph::{CallGraph, Options};
use tallygraph_profile::read;

/// A call: the function, how many calls it returns from first, and its own cost.
#[derive(Debug, Clone)]
struct Step {
    function: usize,
    returns: usize,
    cost: i64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..7usize, 0..4usize, 0..1000i64).prop_map(|(function, returns, cost)| Step {
        function,
        returns,
        cost,
    });
    prop::collection::vec(step, 1..60)
}

/// What happened, and the profile of it.
struct Truth {
    text: String,
    total: i64,
    own: BTreeMap<usize, i64>,
    inclusive: BTreeMap<usize, i64>,
    /// Stacks with their costs.
    stacks: BTreeMap<String, i64>,
    /// Whether no function was on the stack twice, and each had one caller only.
    is_tree: bool,
}

fn happen(steps: &[Step]) -> Truth {
    // Nodes of the call tree: function, parent, own cost.
    let mut nodes: Vec<(usize, Option<usize>, i64)> = Vec::new();
    let mut stack: Vec<usize> = Vec::new();
    for step in steps {
        for _ in 0..step.returns.min(stack.len().saturating_sub(1)) {
            stack.pop();
        }
        nodes.push((step.function, stack.last().copied(), step.cost));
        stack.push(nodes.len() - 1);
    }
    let mut subtree: Vec<i64> = nodes.iter().map(|n| n.2).collect();
    for i in (1..nodes.len()).rev() {
        if let Some(parent) = nodes[i].1 {
            subtree[parent] += subtree[i];
        }
    }
    let mut own = BTreeMap::new();
    let mut inclusive = BTreeMap::new();
    let mut arcs: BTreeMap<(usize, usize), (u64, i64)> = BTreeMap::new();
    let mut stacks = BTreeMap::new();
    let mut callers: BTreeMap<usize, Vec<Option<usize>>> = BTreeMap::new();
    let mut recursion = false;
    for (i, &(function, parent, cost)) in nodes.iter().enumerate() {
        *own.entry(function).or_default() += cost;
        let mut above = Vec::new();
        let mut at = parent;
        while let Some(p) = at {
            above.push(nodes[p].0);
            at = nodes[p].1;
        }
        // Only the outermost of a recursion counts.
        let outermost = !above.contains(&function);
        recursion |= !outermost;
        *inclusive.entry(function).or_default() += if outermost { subtree[i] } else { 0 };
        let caller = parent.map(|p| nodes[p].0);
        let known = callers.entry(function).or_default();
        if !known.contains(&caller) {
            known.push(caller);
        }
        if let Some(caller) = caller {
            let arc = arcs.entry((caller, function)).or_default();
            arc.0 += 1;
            arc.1 += subtree[i];
        }
        let mut path: Vec<String> = above.iter().rev().map(|f| format!("f{f}")).collect();
        path.push(format!("f{function}"));
        if cost > 0 {
            *stacks.entry(path.join(";")).or_default() += cost;
        }
    }
    let mut text = String::from("events: Ir\nfl=a.c\n");
    for (function, cost) in &own {
        text.push_str(&format!("fn=f{function}\n1 {cost}\n"));
        for (&(_, callee), &(calls, cost)) in arcs.iter().filter(|((caller, _), _)| caller == function) {
            text.push_str(&format!("cfn=f{callee}\ncalls={calls} 1\n2 {cost}\n"));
        }
    }
    let total = own.values().sum();
    let is_tree = !recursion && callers.values().all(|c| c.len() == 1);
    Truth { text, total, own, inclusive, stacks, is_tree }
}

proptest! {
    #![proptest_config(Config {
        cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(11), ..Config::default()
    })]

    #[test]
    fn inclusive_costs_lie_between_the_truth_and_the_total(steps in steps()) {
        let truth = happen(&steps);
        let profile = read::bytes("program", truth.text.as_bytes()).unwrap();
        let graph = CallGraph::build(&[&profile], Options { lines: true, ..Options::default() });
        prop_assert_eq!(graph.total[0], truth.total);
        for f in &graph.functions {
            let number: usize = f.name[1..].parse().unwrap();
            let (own, inclusive) = (truth.own[&number], truth.inclusive[&number]);
            prop_assert_eq!(f.self_cost[0], own);
            prop_assert!(f.inclusive[0] <= truth.total, "{} of {}", f.inclusive[0], truth.total);
            prop_assert!(f.inclusive[0] >= inclusive, "{}: {} < {}", f.name, f.inclusive[0], inclusive);
            // Outside of cycles nothing is uncertain.
            if f.cycle.is_none() {
                prop_assert_eq!(f.inclusive[0], inclusive);
            }
        }
        for e in &graph.edges {
            prop_assert!(graph.edge_cost(e)[0] <= truth.total);
        }
        let lines: i64 = graph.lines.iter().map(|l| l.cost[0]).sum();
        prop_assert_eq!(lines, truth.total);
    }

    #[test]
    fn estimated_stacks_add_up_and_are_exact_for_trees(steps in steps()) {
        let truth = happen(&steps);
        let graph = CallGraph::of(&read::bytes("program", truth.text.as_bytes()).unwrap());
        for limit in [0.0, 0.05] {
            prop_assert_eq!(fold::estimate(&graph, 0, limit).total(), vec![truth.total]);
        }
        if truth.is_tree {
            let lines = fold::estimate(&graph, 0, 0.0).folded(0, |f| f.name.clone());
            let expected: Vec<String> = truth.stacks.iter().map(|(s, c)| format!("{s} {c}")).collect();
            prop_assert_eq!(lines, expected);
        }
    }
}
