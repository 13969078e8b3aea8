//! Ways through a graph: callers and callees of a function, functions by cost, names without levels.

use super::CallGraph;

/// `main'2` without `'2`: the level of recursion Callgrind appends to a name.
pub fn strip_recursion_level(name: &[u8]) -> &[u8] {
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let rest = &name[..name.len() - digits];
    match rest.strip_suffix(b"'") {
        Some(base) if digits > 0 && !base.is_empty() => base,
        _ => name,
    }
}

/// Edges by function, for walking the graph.
#[derive(Debug)]
pub struct GraphIndex<'g> {
    graph: &'g CallGraph,
    out: Vec<usize>,
    into: Vec<usize>,
    into_edges: Vec<u32>,
}

impl<'g> GraphIndex<'g> {
    /// Indexes a graph.
    pub fn new(graph: &'g CallGraph) -> Self {
        let n = graph.functions.len();
        let mut out = vec![0; n + 1];
        let mut into = vec![0; n + 1];
        for edge in &graph.edges {
            out[edge.caller as usize + 1] += 1;
            into[edge.callee as usize + 1] += 1;
        }
        for i in 0..n {
            out[i + 1] += out[i];
            into[i + 1] += into[i];
        }
        let mut next = into.clone();
        let mut into_edges = vec![0; graph.edges.len()];
        for (i, edge) in graph.edges.iter().enumerate() {
            into_edges[next[edge.callee as usize]] = i as u32;
            next[edge.callee as usize] += 1;
        }
        GraphIndex { graph, out, into, into_edges }
    }

    /// Indices of the edges that leave a function.
    pub fn callees(&self, function: u32) -> impl Iterator<Item = usize> + '_ {
        self.out[function as usize]..self.out[function as usize + 1]
    }

    /// Indices of the edges that reach a function.
    pub fn callers(&self, function: u32) -> impl Iterator<Item = usize> + '_ {
        self.into_edges[self.into[function as usize]..self.into[function as usize + 1]]
            .iter()
            .map(|&e| e as usize)
    }

    /// The graph.
    pub fn graph(&self) -> &'g CallGraph {
        self.graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_level_after_a_quote_is_stripped() {
        for (name, base) in
            [("f'2", "f"), ("f'12", "f"), ("f2", "f2"), ("'2", "'2"), ("f'", "f'"), ("a'b", "a'b")]
        {
            assert_eq!(strip_recursion_level(name.as_bytes()), base.as_bytes());
        }
    }
}
