//! Stacks estimated from a call graph.
//!
//! A call graph says what `f` cost when called by `g`, not what it cost when `g` was called by `h`.
//! The estimate assumes that a function spends in the same proportions whoever calls it:
//!
//! - F1: a function's cost on a stack is shared among its own cost and its calls in proportion to
//!   their inclusive costs, in whole numbers that add up.
//! - F2: a call back to a function that is on the stack already is left out of the sharing.
//! - F3: stacks below a fraction of the total are put together in one frame, [`OTHERS`].
//!
//! So every stack tree adds up to the total of its graph, and none of its stacks may have existed.

use crate::graph::{CallGraph, GraphIndex};
use crate::stacks::{Frame, Node, StackTree};

/// Name of the frame that stands for calls below the limit.
pub const OTHERS: &str = "(below the limit)";

/// Shares `amount` in proportion to `weights`; the parts add up to it.
fn share(amount: i64, weights: &[i64]) -> Vec<i64> {
    let total: i128 = weights.iter().map(|&w| i128::from(w.max(0))).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    let mut sum = 0i128;
    let mut given = 0i128;
    weights
        .iter()
        .map(|&w| {
            sum += i128::from(w.max(0));
            let upto = i128::from(amount) * sum / total;
            let part = upto - given;
            given = upto;
            part as i64
        })
        .collect()
}

/// Estimates the stacks of a graph. `event` decides what is small: stacks with less than `limit`
/// of its total, from 0 to 1, are put together.
pub fn estimate(graph: &CallGraph, event: usize, limit: f64) -> StackTree {
    let events = graph.events.len();
    let mut tree = StackTree {
        events: graph.events.clone(),
        frames: graph
            .functions
            .iter()
            .map(|f| Frame { object: f.object.clone(), file: f.file.clone(), name: f.name.clone() })
            .collect(),
        nodes: Vec::new(),
        estimated: true,
    };
    tree.frames.push(Frame { name: OTHERS.to_string(), ..Frame::default() });
    let others = tree.frames.len() as u32 - 1;
    if events == 0 {
        return tree;
    }
    let least = ((graph.total[event].max(0) as f64) * limit.max(0.0)).max(1.0) as i64;
    let roots = roots(graph);
    Estimate {
        index: GraphIndex::new(graph),
        graph,
        on_path: vec![false; graph.functions.len()],
        tree: &mut tree,
        others,
        event,
        least,
    }
    .walk(&roots);
    tree
}

/// Costs with which each function is the bottom of a stack, by function: what its callers do not
/// account for. They add up to the total.
fn roots(graph: &CallGraph) -> Vec<Vec<i64>> {
    let n = graph.functions.len();
    let mut cost: Vec<Vec<i64>> = vec![vec![0; graph.events.len()]; n];
    for (e, &total) in graph.total.iter().enumerate() {
        let mut weight: Vec<i64> = vec![0; n];
        let mut by_cycle: Vec<i64> = graph.cycles.iter().map(|c| c.inclusive[e]).collect();
        for (i, function) in graph.functions.iter().enumerate().filter(|(_, f)| f.cycle.is_none()) {
            weight[i] = function.inclusive[e];
        }
        for edge in &graph.edges {
            let (from, to) = (&graph.functions[edge.caller as usize], &graph.functions[edge.callee as usize]);
            match to.cycle {
                Some(number) if from.cycle != Some(number) => {
                    let rest = &mut by_cycle[number as usize - 1];
                    *rest = rest.saturating_sub(edge.cost[e]);
                }
                None if edge.caller != edge.callee => {
                    let rest = &mut weight[edge.callee as usize];
                    *rest = rest.saturating_sub(edge.cost[e]);
                }
                _ => {}
            }
        }
        for (cycle, rest) in graph.cycles.iter().zip(by_cycle) {
            if let Some(&first) = cycle.members.first() {
                weight[first as usize] = rest;
            }
        }
        let positive = weight.iter().any(|&w| w > 0);
        if !positive {
            weight = graph.functions.iter().map(|f| f.self_cost[e]).collect();
        }
        for (i, part) in share(total, &weight).into_iter().enumerate() {
            cost[i][e] = part;
        }
    }
    cost
}

struct Estimate<'a> {
    index: GraphIndex<'a>,
    graph: &'a CallGraph,
    on_path: Vec<bool>,
    tree: &'a mut StackTree,
    others: u32,
    event: usize,
    least: i64,
}

enum Step {
    Enter { function: u32, parent: Option<u32>, cost: Vec<i64> },
    Leave(u32),
}

impl Estimate<'_> {
    fn walk(&mut self, roots: &[Vec<i64>]) {
        let mut steps = Vec::new();
        self.children(
            None,
            roots.iter().enumerate().map(|(f, c)| (f as u32, c.clone())).collect(),
            &mut steps,
        );
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(function) => self.on_path[function as usize] = false,
                Step::Enter { function, parent, cost } => {
                    self.on_path[function as usize] = true;
                    steps.push(Step::Leave(function));
                    self.enter(function, parent, cost, &mut steps);
                }
            }
        }
    }

    /// Pushes children that are large enough and adds one node for the rest.
    fn children(&mut self, parent: Option<u32>, children: Vec<(u32, Vec<i64>)>, steps: &mut Vec<Step>) {
        let mut rest = vec![0i64; self.graph.events.len()];
        for (function, cost) in children {
            if cost[self.event] >= self.least {
                steps.push(Step::Enter { function, parent, cost });
            } else {
                rest.iter_mut().zip(&cost).for_each(|(sum, c)| *sum = sum.wrapping_add(*c));
            }
        }
        if rest.iter().any(|&c| c != 0) {
            self.tree.nodes.push(Node { parent, frame: self.others, calls: 0, cost: rest });
        }
    }

    fn enter(&mut self, function: u32, parent: Option<u32>, cost: Vec<i64>, steps: &mut Vec<Step>) {
        let edges: Vec<usize> = self
            .index
            .callees(function)
            .filter(|&e| !self.on_path[self.graph.edges[e].callee as usize])
            .collect();
        let costs: Vec<Vec<i64>> =
            edges.iter().map(|&e| self.graph.edge_cost(&self.graph.edges[e])).collect();
        let own = &self.graph.functions[function as usize].self_cost;
        let mut self_cost = vec![0; cost.len()];
        let mut child: Vec<(u32, Vec<i64>)> =
            edges.iter().map(|&e| (self.graph.edges[e].callee, vec![0; cost.len()])).collect();
        for (event, &amount) in cost.iter().enumerate() {
            let mut weights = vec![own[event]];
            weights.extend(costs.iter().map(|c| c[event]));
            let parts = share(amount, &weights);
            // Nothing to go by: it stays here.
            let given: i64 = parts.iter().sum();
            self_cost[event] = parts[0] + (amount - given);
            for (child, part) in child.iter_mut().zip(&parts[1..]) {
                child.1[event] = *part;
            }
        }
        let node = self.tree.nodes.len() as u32;
        self.tree.nodes.push(Node { parent, frame: function, calls: 0, cost: self_cost });
        child.retain(|(_, cost)| cost.iter().any(|&c| c != 0));
        child.sort_by_key(|(_, cost)| cost[self.event]);
        self.children(Some(node), child, steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn estimated(text: &str, limit: f64) -> (StackTree, CallGraph) {
        let graph = CallGraph::of(&read::bytes("test", text.as_bytes()).unwrap());
        (estimate(&graph, 0, limit), graph)
    }

    #[test]
    fn a_tree_of_calls_is_exact() {
        let (tree, _) = estimated(
            "events: Ir\nfn=main\n1 5\ncfn=f\ncalls=1 1\n1 30\ncfn=g\ncalls=1 1\n1 7\nfn=f\n2 30\nfn=g\n3 7\n",
            0.0,
        );
        assert_eq!(tree.folded(0, |f| f.name.clone()), ["main 5", "main;f 30", "main;g 7"]);
        assert!(tree.estimated);
    }

    #[test]
    fn shared_functions_are_split_in_proportion() {
        let (tree, _) = estimated(
            concat!(
                "events: Ir\nfn=main\n1 0\ncfn=a\ncalls=1 1\n1 75\ncfn=b\ncalls=1 1\n1 25\n",
                "fn=a\n1 0\ncfn=s\ncalls=1 1\n1 75\nfn=b\n1 0\ncfn=s\ncalls=1 1\n1 25\n",
                "fn=s\n1 60\ncfn=t\ncalls=1 1\n1 40\nfn=t\n1 40\n"
            ),
            0.0,
        );
        let lines = tree.folded(0, |f| f.name.clone());
        assert_eq!(lines, ["main;a;s 45", "main;a;s;t 30", "main;b;s 15", "main;b;s;t 10"]);
    }

    #[test]
    fn recursion_and_limits_keep_the_total() {
        let text = concat!(
            "events: Ir Dr\nfn=main\n1 5 1\ncfn=a\ncalls=1 1\n1 70 3\n",
            "fn=a\n2 30 1\ncfn=b\ncalls=5 2\n2 300 20\ncfn=a\ncalls=1 2\n2 9 9\n",
            "fn=b\n3 20 1\ncfn=a\ncalls=4 2\n2 250 10\ncfn=leaf\ncalls=3 9\n3 20 1\n",
            "fn=leaf\n9 20 1\nfn=thread\n7 100 4\n"
        );
        for limit in [0.0, 0.1, 0.5] {
            let (tree, graph) = estimated(text, limit);
            assert_eq!(tree.total(), graph.total, "limit {limit}");
        }
        let (tree, _) = estimated(text, 0.5);
        assert!(tree.folded(0, |f| f.name.clone()).iter().any(|l| l.contains(OTHERS)));
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(share(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(share(7, &[0, 0]), [0, 0]);
        assert_eq!(share(i64::MAX, &[i64::MAX, i64::MAX]).iter().sum::<i64>(), i64::MAX);
    }
}
