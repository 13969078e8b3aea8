//! Cycles, and inclusive costs that count recursion once (R1–R3 of the module above).

use super::{CallGraph, Cycle};

/// Fills totals, calls, cycles and inclusive costs.
pub fn find(graph: &mut CallGraph) {
    let events = graph.events.len();
    let n = graph.functions.len();
    graph.total = vec![0; events];
    let mut negative = vec![false; events];
    for function in &graph.functions {
        for (e, &cost) in function.self_cost.iter().enumerate() {
            graph.total[e] = graph.total[e].wrapping_add(cost);
            negative[e] |= cost < 0;
        }
    }
    for edge in &graph.edges {
        let callee = &mut graph.functions[edge.callee as usize];
        callee.calls = callee.calls.wrapping_add(edge.calls);
        callee.recursive |= edge.caller == edge.callee;
        for (e, &cost) in edge.cost.iter().enumerate() {
            negative[e] |= cost < 0;
        }
    }
    let component = components(n, graph);
    let mut sizes = vec![0u32; n];
    for &c in &component {
        sizes[c as usize] += 1;
    }
    // Cycles are numbered in the order of their first function.
    let mut number = vec![0u32; n];
    for (i, &c) in component.iter().enumerate() {
        if sizes[c as usize] < 2 {
            continue;
        }
        if number[c as usize] == 0 {
            graph.cycles.push(Cycle { members: Vec::new(), inclusive: vec![0; events] });
            number[c as usize] = graph.cycles.len() as u32;
        }
        let cycle = &mut graph.cycles[number[c as usize] as usize - 1];
        cycle.members.push(i as u32);
        add(&mut cycle.inclusive, &graph.functions[i].self_cost);
        graph.functions[i].cycle = Some(number[c as usize]);
    }
    for function in &mut graph.functions {
        function.inclusive = function.self_cost.clone();
    }
    for edge in &graph.edges {
        if edge.caller == edge.callee {
            continue;
        }
        add(&mut graph.functions[edge.caller as usize].inclusive, &edge.cost);
        let from = component[edge.caller as usize];
        if number[from as usize] != 0 && component[edge.callee as usize] != from {
            add(&mut graph.cycles[number[from as usize] as usize - 1].inclusive, &edge.cost);
        }
    }
    let limit = |cost: &mut [i64], bound: &[i64]| {
        for (e, cost) in cost.iter_mut().enumerate().filter(|(e, _)| !negative[*e]) {
            *cost = (*cost).min(bound[e]);
        }
    };
    for cycle in &mut graph.cycles {
        limit(&mut cycle.inclusive, &graph.total);
    }
    for function in &mut graph.functions {
        match function.cycle {
            Some(number) => limit(&mut function.inclusive, &graph.cycles[number as usize - 1].inclusive),
            None => limit(&mut function.inclusive, &graph.total),
        }
    }
}

fn add(sum: &mut [i64], cost: &[i64]) {
    for (sum, cost) in sum.iter_mut().zip(cost) {
        *sum = sum.wrapping_add(*cost);
    }
}

/// The strongly connected component of each function (Tarjan's algorithm, with its own stack, since
/// call chains are longer than ours may be).
fn components(n: usize, graph: &CallGraph) -> Vec<u32> {
    const UNSEEN: u32 = u32::MAX;
    let mut first_edge = vec![0usize; n + 1];
    for edge in &graph.edges {
        first_edge[edge.caller as usize + 1] += 1;
    }
    for i in 0..n {
        first_edge[i + 1] += first_edge[i];
    }
    let mut index = vec![UNSEEN; n];
    let mut low = vec![0u32; n];
    let mut on_stack = vec![false; n];
    let mut component = vec![UNSEEN; n];
    let mut stack = Vec::new();
    let mut next = 0;
    for root in 0..n {
        if index[root] != UNSEEN {
            continue;
        }
        // (function, next edge to follow)
        let mut path = vec![(root, first_edge[root])];
        index[root] = next;
        low[root] = next;
        next += 1;
        stack.push(root);
        on_stack[root] = true;
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if *edge < first_edge[node + 1] {
                let callee = graph.edges[*edge].callee as usize;
                *edge += 1;
                if index[callee] == UNSEEN {
                    index[callee] = next;
                    low[callee] = next;
                    next += 1;
                    stack.push(callee);
                    on_stack[callee] = true;
                    path.push((callee, first_edge[callee]));
                } else if on_stack[callee] {
                    low[node] = low[node].min(index[callee]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    component[member] = node as u32;
                    if member == node {
                        break;
                    }
                }
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    #[test]
    fn a_long_call_chain_does_not_overflow_the_stack() {
        let mut text = String::from("events: Ir\n");
        let n = 100_000;
        for i in 0..n {
            text.push_str(&format!(
                "fn=({i}) f{i}\n1 1\ncfn=({}) f{}\ncalls=1 1\n1 {}\n",
                i + 1,
                i + 1,
                n - i
            ));
        }
        text.push_str(&format!("fn=({n})\n1 1\n"));
        let graph = CallGraph::of(&read::bytes("chain", text.as_bytes()).unwrap());
        assert_eq!(graph.total, [n + 1]);
        let first = graph.functions.iter().find(|f| f.name == "f0").unwrap();
        assert_eq!(first.inclusive, [n + 1]);
        assert!(graph.cycles.is_empty());
    }

    #[test]
    fn components_of_two_rings_joined_by_a_call_are_apart() {
        let call = |f: &str, to: &str| format!("fn={f}\n1 1\ncfn={to}\ncalls=1 1\n1 1\n");
        let text = [
            "events: Ir\n",
            &call("a", "b"),
            &call("b", "a"),
            &call("b", "c"),
            &call("c", "d"),
            &call("d", "c"),
        ]
        .concat();
        let graph = CallGraph::of(&read::bytes("rings", text.as_bytes()).unwrap());
        let members: Vec<usize> = graph.cycles.iter().map(|c| c.members.len()).collect();
        assert_eq!(members, [2, 2]);
    }
}
