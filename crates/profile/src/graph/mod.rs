//! Functions, call edges, lines and instructions of one profile or of several added up.
//!
//! A function is an object, a file and a name. Its inclusive cost is its own plus that of its calls,
//! with recursion counted once:
//!
//! - R1: a call of a function to itself adds nothing, since its cost is in the outer call.
//! - R2: functions that call each other in a circle form a *cycle*. The cycle's inclusive cost is
//!   its members' own cost and that of calls leaving it; a member's is at most that.
//! - R3: no inclusive cost is above the total; [`CallGraph::call_cost`] gives that of calls.
//!
//! The result does not depend on the order in which pieces of the profile are added up.

mod accumulate;
mod cycle;
mod order;

use crate::model::{EventDefinition, Part, Profile};

pub use order::{GraphIndex, strip_recursion_level};

/// What shows where no name is known.
pub const UNKNOWN: &str = "???";

/// One function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Function {
    /// Executable or library.
    pub object: String,
    /// Source file.
    pub file: String,
    /// Name.
    pub name: String,
    /// Own cost, by event.
    pub self_cost: Vec<i64>,
    /// Own cost and that of callees, by event.
    pub inclusive: Vec<i64>,
    /// How often it was called, as far as recorded.
    pub calls: u64,
    /// Whether it calls itself directly.
    pub recursive: bool,
    /// Number of the cycle it belongs to, from 1.
    pub cycle: Option<u32>,
}

/// Calls from one function to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Index of the calling function.
    pub caller: u32,
    /// Index of the called function.
    pub callee: u32,
    /// How often.
    pub calls: u64,
    /// Inclusive cost of the calls, by event.
    pub cost: Vec<i64>,
}

/// Self cost of a source line within a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCost {
    /// Index of the function.
    pub function: u32,
    /// Index in [`CallGraph::files`].
    pub file: u32,
    /// Line number; 0 is unknown.
    pub line: u64,
    /// Cost, by event.
    pub cost: Vec<i64>,
}

/// Calls from a source line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineCall {
    /// Index of the calling function.
    pub function: u32,
    /// Index in [`CallGraph::files`].
    pub file: u32,
    /// Line number; 0 is unknown.
    pub line: u64,
    /// Index of the called function.
    pub callee: u32,
    /// How often.
    pub calls: u64,
    /// Inclusive cost, by event.
    pub cost: Vec<i64>,
}

/// Self cost of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionCost {
    /// Index of the function.
    pub function: u32,
    /// Address within the object.
    pub address: u64,
    /// Index in [`CallGraph::files`].
    pub file: u32,
    /// Line number; 0 is unknown.
    pub line: u64,
    /// Cost, by event.
    pub cost: Vec<i64>,
}

/// Cost of a function's code that was inlined from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineCost {
    /// Index of the function it was inlined into.
    pub function: u32,
    /// Name of the inlined function.
    pub name: String,
    /// Cost, by event.
    pub cost: Vec<i64>,
}

/// A set of functions that call each other in a circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Indices of its functions.
    pub members: Vec<u32>,
    /// Inclusive cost of the whole, by event.
    pub inclusive: Vec<i64>,
}

/// The aggregate of profiles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallGraph {
    /// Event names; costs are in this order.
    pub events: Vec<String>,
    /// Definitions from `event:` lines.
    pub definitions: Vec<EventDefinition>,
    /// Functions, sorted by object, file and name.
    pub functions: Vec<Function>,
    /// Call edges, sorted by caller and callee.
    pub edges: Vec<Edge>,
    /// Cycles of more than one function.
    pub cycles: Vec<Cycle>,
    /// Sum of all self costs.
    pub total: Vec<i64>,
    /// Sum of what the parts declare in `totals:` or `summary:`, if all of them do.
    pub declared: Option<Vec<i64>>,
    /// Source files that lines refer to.
    pub files: Vec<String>,
    /// Costs of lines, sorted; filled when asked for.
    pub lines: Vec<LineCost>,
    /// Calls of lines, sorted; filled when asked for.
    pub line_calls: Vec<LineCall>,
    /// Costs of instructions, sorted; filled when asked for.
    pub instructions: Vec<InstructionCost>,
    /// Costs of inlined functions.
    pub inlined: Vec<InlineCost>,
}

/// Which parts to add up: given a part, whether it counts.
pub type PartFilter<'a> = &'a (dyn Fn(&Part) -> bool + Sync);

/// What to compute.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Costs and calls of lines.
    pub lines: bool,
    /// Costs of instructions.
    pub instructions: bool,
    /// Take `f'2`, the second level of recursion, for `f`.
    pub merge_recursion: bool,
    /// Which parts count; all when `None`.
    pub parts: Option<PartFilter<'a>>,
}

impl CallGraph {
    /// The graph of all parts of a profile, without lines.
    pub fn of(profile: &Profile) -> CallGraph {
        CallGraph::build(&[profile], Options::default())
    }

    /// The graph of several profiles added up.
    pub fn build(profiles: &[&Profile], options: Options) -> CallGraph {
        let mut graph = accumulate::accumulate(profiles, options);
        cycle::find(&mut graph);
        graph
    }

    /// Index of an event.
    pub fn event(&self, name: &str) -> Option<usize> {
        self.events.iter().position(|e| e == name)
    }

    /// What calls cost, as it is to be shown: recursion is in the outer call already, so a call to
    /// itself costs nothing more, and calls within a cycle at most what the cycle does.
    pub fn call_cost(&self, caller: u32, callee: u32, recorded: &[i64]) -> Vec<i64> {
        if caller == callee {
            return vec![0; recorded.len()];
        }
        let cycle = self.functions[caller as usize].cycle;
        let bound = match cycle {
            Some(number) if cycle == self.functions[callee as usize].cycle => {
                &self.cycles[number as usize - 1].inclusive
            }
            _ => &self.total,
        };
        // With negative costs, as of freed memory, a total bounds nothing.
        let limit = |(&cost, &bound): (&i64, &i64)| if bound >= 0 { cost.min(bound) } else { cost };
        recorded.iter().zip(bound).map(limit).collect()
    }

    /// [`call_cost`](Self::call_cost) of an edge.
    pub fn edge_cost(&self, edge: &Edge) -> Vec<i64> {
        self.call_cost(edge.caller, edge.callee, &edge.cost)
    }

    /// Adds a derived event to every cost, computed by its formula from the events so far.
    pub fn derive(&mut self, definition: &EventDefinition) -> Result<(), String> {
        let Some(formula) = &definition.formula else {
            return Err(format!("event `{}` has no formula", definition.name));
        };
        if let Some(term) = formula.0.iter().find(|t| self.event(&t.event).is_none()) {
            return Err(format!(
                "event `{}` of formula `{formula}` is not in the profile, which has {}",
                term.event,
                self.events.join(" ")
            ));
        }
        if self.event(&definition.name).is_some() {
            return Err(format!("event `{}` exists already", definition.name));
        }
        let terms: Vec<(usize, i64)> =
            formula.0.iter().map(|t| (self.event(&t.event).expect("checked above"), t.factor)).collect();
        let add = |cost: &mut Vec<i64>| {
            let value = terms.iter().fold(0i64, |sum, &(i, f)| sum.wrapping_add(cost[i].wrapping_mul(f)));
            cost.push(value);
        };
        for function in &mut self.functions {
            add(&mut function.self_cost);
            add(&mut function.inclusive);
        }
        self.edges.iter_mut().for_each(|e| add(&mut e.cost));
        self.cycles.iter_mut().for_each(|c| add(&mut c.inclusive));
        self.lines.iter_mut().for_each(|l| add(&mut l.cost));
        self.line_calls.iter_mut().for_each(|l| add(&mut l.cost));
        self.instructions.iter_mut().for_each(|l| add(&mut l.cost));
        self.inlined.iter_mut().for_each(|l| add(&mut l.cost));
        add(&mut self.total);
        if let Some(declared) = &mut self.declared {
            add(declared);
        }
        self.events.push(definition.name.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn graph(text: &str) -> CallGraph {
        CallGraph::of(&read::bytes("test", text.as_bytes()).unwrap())
    }

    fn inclusive(graph: &CallGraph, name: &str) -> i64 {
        graph.functions.iter().find(|f| f.name == name).unwrap().inclusive[0]
    }

    #[test]
    fn a_function_that_calls_itself_is_counted_once() {
        let g =
            graph("events: Ir\nfn=main\n1 5\ncfn=f\ncalls=1 1\n1 30\nfn=f\n2 30\ncfn=f\ncalls=9 2\n2 200\n");
        assert_eq!(g.total, [35]);
        assert_eq!(inclusive(&g, "f"), 30);
        assert_eq!(inclusive(&g, "main"), 35);
        let f = g.functions.iter().find(|f| f.name == "f").unwrap();
        assert!(f.recursive && f.cycle.is_none() && f.calls == 10);
    }

    #[test]
    fn a_cycle_is_marked_and_never_above_its_own_cost() {
        // a and b call each other; the arcs between them hold the same cost many times over.
        let g = graph(concat!(
            "events: Ir\nfn=main\n1 5\ncfn=a\ncalls=1 1\n1 70\n",
            "fn=a\n2 30\ncfn=b\ncalls=5 2\n2 300\n",
            "fn=b\n3 20\ncfn=a\ncalls=4 2\n2 250\ncfn=leaf\ncalls=3 9\n3 20\n",
            "fn=leaf\n9 20\n"
        ));
        assert_eq!(g.total, [75]);
        assert_eq!(g.cycles.len(), 1);
        assert_eq!(g.cycles[0].inclusive, [70]);
        for name in ["a", "b"] {
            assert_eq!(inclusive(&g, name), 70);
            assert_eq!(g.functions.iter().find(|f| f.name == name).unwrap().cycle, Some(1));
        }
        assert_eq!(inclusive(&g, "main"), 75);
        assert_eq!(inclusive(&g, "leaf"), 20);
        assert!(g.edges.iter().any(|e| e.cost[0] > 75), "the arcs hold more than the total");
        assert!(g.edges.iter().all(|e| g.edge_cost(e)[0] <= 70));
    }

    #[test]
    fn a_callee_without_file_is_the_function_defined_under_its_name() {
        let g = graph("events: Ir\nfl=lib\nfn=g\n1 3\nfl=main.c\nfn=main\n1 4\ncfn=g\ncalls=1 0\n1 3\n");
        assert_eq!(g.functions.len(), 2);
        assert_eq!(inclusive(&g, "main"), 7);
        assert_eq!(g.functions.iter().find(|f| f.name == "g").unwrap().file, "lib");
    }

    #[test]
    fn recursion_levels_can_be_merged() {
        let text = "events: Ir\nfn=f\n1 3\ncfn=f'2\ncalls=1 1\n1 4\nfn=f'2\n1 4\nfn=main\n1 1\ncfn=f\ncalls=1 1\n1 7\n";
        let profile = read::bytes("test", text.as_bytes()).unwrap();
        let options = Options { merge_recursion: true, ..Options::default() };
        let g = CallGraph::build(&[&profile], options);
        assert_eq!(g.functions.len(), 2);
        assert_eq!(inclusive(&g, "f"), 7);
        assert!(g.functions.iter().find(|f| f.name == "f").unwrap().recursive);
    }

    #[test]
    fn derived_events_are_computed_everywhere() {
        let text = "events: Ir Bm\nfn=f\n1 3 1\ncfn=g\ncalls=1 1\n1 5 2\nfn=g\n2 5 2\n";
        let mut g = graph(text);
        let definition = EventDefinition::parse("Cy = Ir + 10 Bm").unwrap();
        g.derive(&definition).unwrap();
        assert_eq!(g.total, [8, 3, 38]);
        assert_eq!(g.edges[0].cost, [5, 2, 25]);
        assert!(g.derive(&definition).is_err());
        assert!(g.derive(&EventDefinition::parse("X = Dr").unwrap()).unwrap_err().contains("`Dr`"));
    }

    #[test]
    fn several_profiles_add_up_by_event_name() {
        let a = read::bytes("a", b"events: Ir Dr\nfn=f\n1 3 1\n").unwrap();
        let b = read::bytes("b", b"events: Dr Ir\nfn=f\n1 10 100\n").unwrap();
        let g = CallGraph::build(&[&a, &b], Options { lines: true, ..Options::default() });
        assert_eq!(g.events, ["Ir", "Dr"]);
        assert_eq!(g.total, [103, 11]);
        assert_eq!(g.lines.len(), 1);
        assert_eq!(g.lines[0].cost, [103, 11]);
    }
}
