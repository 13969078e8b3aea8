//! Stacks as a tree: what flame graphs and most exports are drawn from.

use std::collections::BTreeMap;

/// One function as a frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Frame {
    /// Executable or library.
    pub object: String,
    /// Source file.
    pub file: String,
    /// Function.
    pub name: String,
}

/// A calling context: a frame called from a parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Index of the calling context; `None` at the bottom of a stack.
    pub parent: Option<u32>,
    /// Index of the frame.
    pub frame: u32,
    /// How often it was entered; 0 where unknown.
    pub calls: u64,
    /// Own cost, by event.
    pub cost: Vec<i64>,
}

/// Calling contexts with their own costs. A node's parent always stands before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackTree {
    /// Event names.
    pub events: Vec<String>,
    /// Frames.
    pub frames: Vec<Frame>,
    /// Contexts.
    pub nodes: Vec<Node>,
    /// Whether the stacks were estimated from a call graph rather than recorded.
    pub estimated: bool,
}

impl StackTree {
    /// Sum of all costs, by event.
    pub fn total(&self) -> Vec<i64> {
        let mut total = vec![0i64; self.events.len()];
        for node in &self.nodes {
            for (sum, cost) in total.iter_mut().zip(&node.cost) {
                *sum = sum.wrapping_add(*cost);
            }
        }
        total
    }

    /// Inclusive cost of each node, by node and event.
    pub fn inclusive(&self) -> Vec<Vec<i64>> {
        let mut inclusive: Vec<Vec<i64>> = self.nodes.iter().map(|n| n.cost.clone()).collect();
        for i in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[i].parent {
                let (before, after) = inclusive.split_at_mut(i);
                for (sum, cost) in before[parent as usize].iter_mut().zip(&after[0]) {
                    *sum = sum.wrapping_add(*cost);
                }
            }
        }
        inclusive
    }

    /// Frames from the bottom of the stack to node `index`.
    pub fn path(&self, index: usize) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = Some(index as u32);
        while let Some(i) = at {
            path.push(self.nodes[i as usize].frame);
            at = self.nodes[i as usize].parent;
        }
        path.reverse();
        path
    }

    /// Lines of the folded format, `a;b;c cost`, for one event: sorted, equal stacks added up.
    ///
    /// `;` inside a name is written `:`, since the format has no escape.
    pub fn folded(&self, event: usize, label: impl Fn(&Frame) -> String) -> Vec<String> {
        let labels: Vec<String> =
            self.frames.iter().map(|f| label(f).replace(';', ":").replace('\n', " ")).collect();
        let mut lines: BTreeMap<String, i64> = BTreeMap::new();
        for (i, node) in self.nodes.iter().enumerate().filter(|(_, n)| n.cost[event] != 0) {
            let path: Vec<&str> = self.path(i).iter().map(|&f| labels[f as usize].as_str()).collect();
            let sum = lines.entry(path.join(";")).or_default();
            *sum = sum.wrapping_add(node.cost[event]);
        }
        lines.into_iter().map(|(stack, cost)| format!("{stack} {cost}")).collect()
    }

    /// The part of the tree at and above frames that `wanted` selects: each such stack is cut so
    /// that it begins with the first selected frame.
    pub fn focus(&self, wanted: impl Fn(&Frame) -> bool) -> StackTree {
        let selected: Vec<bool> = self.frames.iter().map(wanted).collect();
        let mut place: Vec<Option<u32>> = vec![None; self.nodes.len()];
        let mut nodes = Vec::new();
        for (i, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.and_then(|p| place[p as usize]);
            if parent.is_some() || selected[node.frame as usize] {
                place[i] = Some(nodes.len() as u32);
                nodes.push(Node { parent, ..node.clone() });
            }
        }
        StackTree { nodes, frames: self.frames.clone(), events: self.events.clone(), ..*self }
    }

    /// Adds another tree as separate stacks; events are matched by name.
    pub fn append(&mut self, other: &StackTree) {
        for event in &other.events {
            if !self.events.contains(event) {
                self.events.push(event.clone());
                self.nodes.iter_mut().for_each(|n| n.cost.push(0));
            }
        }
        let column: Vec<usize> = other
            .events
            .iter()
            .map(|e| self.events.iter().position(|k| k == e).expect("every event was added"))
            .collect();
        let (first_frame, first_node) = (self.frames.len() as u32, self.nodes.len() as u32);
        self.frames.extend(other.frames.iter().cloned());
        for node in &other.nodes {
            let mut cost = vec![0; self.events.len()];
            for (c, &at) in node.cost.iter().zip(&column) {
                cost[at] = *c;
            }
            self.nodes.push(Node {
                parent: node.parent.map(|p| p + first_node),
                frame: node.frame + first_frame,
                calls: node.calls,
                cost,
            });
        }
        self.estimated |= other.estimated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> StackTree {
        let frame = |name: &str| Frame { name: name.to_string(), ..Frame::default() };
        let node = |parent, frame, cost| Node { parent, frame, calls: 1, cost: vec![cost] };
        StackTree {
            events: vec!["Ir".to_string()],
            frames: vec![frame("main"), frame("a;b"), frame("c")],
            nodes: vec![node(None, 0, 1), node(Some(0), 1, 2), node(Some(1), 2, 3), node(Some(0), 2, 4)],
            estimated: false,
        }
    }

    #[test]
    fn inclusive_costs_reach_the_root() {
        assert_eq!(tree().inclusive(), [[10], [5], [3], [4]]);
        assert_eq!(tree().total(), [10]);
    }

    #[test]
    fn folded_lines_are_sorted_and_have_no_stray_separator() {
        let lines = tree().folded(0, |f| f.name.clone());
        assert_eq!(lines, ["main 1", "main;a:b 2", "main;a:b;c 3", "main;c 4"]);
    }

    #[test]
    fn focus_begins_stacks_at_the_function() {
        let focused = tree().focus(|f| f.name == "c");
        assert_eq!(focused.folded(0, |f| f.name.clone()), ["c 7"]);
    }
}
