//! Adds up the segments of profiles, in parallel.

use super::order::strip_recursion_level;
use super::{CallGraph, Edge, Function, InlineCost, InstructionCost, LineCall, LineCost, Options, UNKNOWN};
use crate::model::{Call, Costs, Cursor, Item, NameSpace, NameTable, Names, Place, Profile, Segment, SlotId};
use hashbrown::HashMap;
use rayon::prelude::*;

/// Object, file and name, as texts of the merged tables.
type FunctionKey = [u32; 3];

/// From slots of one profile to texts of the merged tables.
struct Translation([Vec<u32>; 3]);

/// Text 0 of every merged table is [`UNKNOWN`].
const UNKNOWN_TEXT: u32 = 0;

impl Translation {
    fn text(&self, space: NameSpace, slot: Option<SlotId>) -> u32 {
        slot.map_or(UNKNOWN_TEXT, |s| self.0[space as usize][s.0 as usize])
    }
}

/// Costs by key, in one vector.
struct Costed<K> {
    index: HashMap<K, u32>,
    keys: Vec<K>,
    costs: Vec<i64>,
    counts: Vec<u64>,
    events: usize,
}

impl<K: Copy + Eq + std::hash::Hash> Costed<K> {
    fn new(events: usize) -> Self {
        Costed { index: HashMap::new(), keys: Vec::new(), costs: Vec::new(), counts: Vec::new(), events }
    }

    #[inline]
    fn slot(&mut self, key: K) -> usize {
        let next = self.keys.len() as u32;
        let index = *self.index.entry(key).or_insert(next);
        if index == next {
            self.keys.push(key);
            self.costs.resize(self.costs.len() + self.events, 0);
            self.counts.push(0);
        }
        index as usize
    }

    #[inline]
    fn add(&mut self, index: usize, costs: &Costs, columns: &[usize]) {
        let row = &mut self.costs[index * self.events..][..self.events];
        for (cost, &column) in costs.iter().zip(columns) {
            row[column] = row[column].wrapping_add(cost);
        }
    }

    fn row(&self, index: usize) -> &[i64] {
        &self.costs[index * self.events..][..self.events]
    }

    /// Adds another table whose keys are `map`ped to this one's.
    fn merge(&mut self, other: &Self, map: impl Fn(K) -> K) {
        for (i, &key) in other.keys.iter().enumerate() {
            let index = self.slot(map(key));
            self.counts[index] = self.counts[index].wrapping_add(other.counts[i]);
            let row = &mut self.costs[index * self.events..][..self.events];
            for (sum, cost) in row.iter_mut().zip(other.row(i)) {
                *sum = sum.wrapping_add(*cost);
            }
        }
    }
}

/// What one thread has added up. Functions are numbered locally.
struct Sum {
    functions: Costed<FunctionKey>,
    /// Whether the function has an `fn=` of its own.
    defined: Vec<bool>,
    /// Whether a call named the function's file.
    file_given: Vec<bool>,
    edges: Costed<(u32, u32)>,
    lines: Costed<(u32, u32, u64)>,
    line_calls: Costed<(u32, u32, u64, u32)>,
    instructions: Costed<(u32, u64, u32, u64)>,
    inlined: Costed<(u32, u32)>,
    lines_wanted: bool,
    instructions_wanted: bool,
}

impl Sum {
    fn new(events: usize, options: &Options) -> Sum {
        Sum {
            functions: Costed::new(events),
            defined: Vec::new(),
            file_given: Vec::new(),
            edges: Costed::new(events),
            lines: Costed::new(events),
            line_calls: Costed::new(events),
            instructions: Costed::new(events),
            inlined: Costed::new(events),
            lines_wanted: options.lines,
            instructions_wanted: options.instructions,
        }
    }

    fn function(&mut self, key: FunctionKey, defined: bool, file_given: bool) -> u32 {
        let index = self.functions.slot(key);
        if index == self.defined.len() {
            self.defined.push(false);
            self.file_given.push(false);
        }
        self.defined[index] |= defined;
        self.file_given[index] |= file_given;
        index as u32
    }

    fn segment(
        &mut self,
        segment: &Segment,
        columns: crate::model::Columns,
        to: &Translation,
        map: &[usize],
    ) {
        let mut last: Option<(Place, u32)> = None;
        for item in Cursor::new(segment, columns) {
            let (place, costs, call) = match item {
                Item::Cost(place, costs) => (place, costs, None),
                Item::Call(place, call, costs) => (place, costs, Some(call)),
                Item::Jump { .. } => continue,
            };
            let function = match last {
                Some((before, function))
                    if before.function == place.function
                        && before.object == place.object
                        && before.function_file == place.function_file =>
                {
                    function
                }
                _ => {
                    let key = [
                        to.text(NameSpace::Object, place.object),
                        to.text(NameSpace::File, place.function_file.or(place.file)),
                        to.text(NameSpace::Function, place.function),
                    ];
                    self.function(key, true, true)
                }
            };
            last = Some((place, function));
            match call {
                None => self.cost(function, &place, &costs, to, map),
                Some(call) => self.call(function, &place, &call, &costs, to, map),
            }
        }
    }

    #[inline]
    fn cost(&mut self, function: u32, place: &Place, costs: &Costs, to: &Translation, map: &[usize]) {
        self.functions.add(function as usize, costs, map);
        if let Some(inline) = place.inline {
            let name = to.text(NameSpace::Function, Some(inline));
            if name != UNKNOWN_TEXT {
                let index = self.inlined.slot((function, name));
                self.inlined.add(index, costs, map);
            }
        }
        if self.lines_wanted {
            let index = self.lines.slot((function, to.text(NameSpace::File, place.file), place.line));
            self.lines.add(index, costs, map);
        }
        if self.instructions_wanted {
            let file = to.text(NameSpace::File, place.file);
            let index = self.instructions.slot((function, place.address, file, place.line));
            self.instructions.add(index, costs, map);
        }
    }

    fn call(
        &mut self,
        function: u32,
        place: &Place,
        call: &Call,
        costs: &Costs,
        to: &Translation,
        map: &[usize],
    ) {
        let key = [
            to.text(NameSpace::Object, call.object),
            to.text(NameSpace::File, call.file),
            to.text(NameSpace::Function, call.function),
        ];
        let callee = self.function(key, false, call.file_given);
        let index = self.edges.slot((function, callee));
        self.edges.add(index, costs, map);
        self.edges.counts[index] = self.edges.counts[index].wrapping_add(call.count);
        if self.lines_wanted {
            let key = (function, to.text(NameSpace::File, place.file), place.line, callee);
            let index = self.line_calls.slot(key);
            self.line_calls.add(index, costs, map);
            self.line_calls.counts[index] = self.line_calls.counts[index].wrapping_add(call.count);
        }
    }

    fn merge(mut self, other: Sum) -> Sum {
        let map: Vec<u32> = (0..other.functions.keys.len())
            .map(|i| self.function(other.functions.keys[i], other.defined[i], other.file_given[i]))
            .collect();
        let f = |i: u32| map[i as usize];
        self.functions.merge(&other.functions, |key| key);
        self.edges.merge(&other.edges, |(a, b)| (f(a), f(b)));
        self.lines.merge(&other.lines, |(a, file, line)| (f(a), file, line));
        self.line_calls.merge(&other.line_calls, |(a, file, line, b)| (f(a), file, line, f(b)));
        self.instructions.merge(&other.instructions, |(a, address, file, line)| (f(a), address, file, line));
        self.inlined.merge(&other.inlined, |(a, name)| (f(a), name));
        self
    }
}

fn merge_names(profiles: &[&Profile], options: &Options) -> (Names, Vec<Translation>) {
    let mut names = Names::default();
    for space in NameSpace::ALL {
        names.table_mut(space).intern(UNKNOWN.as_bytes());
    }
    let mut translations = Vec::new();
    for profile in profiles {
        translations.push(Translation(NameSpace::ALL.map(|space| {
            let from = profile.names.table(space);
            let texts: Vec<u32> = (0..from.text_count() as u32)
                .map(|text| {
                    let bytes = from.bytes(crate::model::TextId(text));
                    let merged = space == NameSpace::Function && options.merge_recursion;
                    let bytes = if merged { strip_recursion_level(bytes) } else { bytes };
                    names.table_mut(space).intern(bytes).0
                })
                .collect();
            (0..from.len() as u32).map(|slot| texts[from.slot(SlotId(slot)).text.0 as usize]).collect()
        })));
    }
    (names, translations)
}

/// Sums the parts of `profiles`; inclusive costs are left to the caller.
pub fn accumulate(profiles: &[&Profile], options: Options) -> CallGraph {
    let (names, translations) = merge_names(profiles, &options);
    let mut graph = CallGraph::default();
    let mut tasks = Vec::new();
    let mut declared = Some(Vec::new());
    for (profile, translation) in profiles.iter().zip(&translations) {
        for definition in profile.definitions() {
            if graph.definitions.iter().all(|d| d.name != definition.name) {
                graph.definitions.push(definition);
            }
        }
        for part in profile.parts.iter().filter(|p| options.parts.is_none_or(|wanted| wanted(p))) {
            let mut columns = Vec::new();
            for event in &part.header.events {
                let known = graph.event(event).unwrap_or_else(|| {
                    graph.events.push(event.clone());
                    graph.events.len() - 1
                });
                columns.push(known);
            }
            match (part.header.declared_total(), &mut declared) {
                (Some(costs), Some(sum)) => {
                    sum.resize(graph.events.len(), 0i64);
                    for (cost, &column) in costs.iter().zip(&columns) {
                        sum[column] = sum[column].wrapping_add(*cost);
                    }
                }
                _ => declared = None,
            }
            for segment in part.body.segments() {
                tasks.push((segment, part.header.columns, translation, columns.clone()));
            }
        }
    }
    let events = graph.events.len();
    graph.declared = declared.filter(|d| !d.is_empty());
    if let Some(declared) = &mut graph.declared {
        declared.resize(events, 0);
    }
    let sum = tasks
        .par_iter()
        .fold(
            || Sum::new(events, &options),
            |mut sum, (segment, columns, translation, map)| {
                sum.segment(segment, *columns, translation, map);
                sum
            },
        )
        .reduce(|| Sum::new(events, &options), Sum::merge);
    finish(graph, sum.adopt_definitions(events, &options), &names)
}

impl Sum {
    /// Takes a callee whose file no call named, and which has no `fn=` of its own, for the one
    /// function defined under its name: old generators leave out `cfl=`.
    fn adopt_definitions(self, events: usize, options: &Options) -> Sum {
        let keys = &self.functions.keys;
        let homeless = |i: usize| !self.defined[i] && !self.file_given[i];
        if !(0..keys.len()).any(homeless) {
            return self;
        }
        // None: more than one.
        let mut in_object: HashMap<(u32, u32), Option<u32>> = HashMap::new();
        let mut anywhere: HashMap<u32, Option<u32>> = HashMap::new();
        for (i, &[object, _, name]) in keys.iter().enumerate().filter(|&(i, _)| self.defined[i]) {
            in_object.entry((object, name)).and_modify(|e| *e = None).or_insert(Some(i as u32));
            anywhere.entry(name).and_modify(|e| *e = None).or_insert(Some(i as u32));
        }
        let home = |i: usize| {
            let [object, _, name] = keys[i];
            let there = in_object.get(&(object, name)).or_else(|| anywhere.get(&name));
            there.copied().flatten().filter(|_| homeless(i)).map_or(i, |i| i as usize)
        };
        let mut moved = Sum::new(events, options);
        let map: Vec<u32> = (0..keys.len())
            .map(|i| moved.function(keys[home(i)], self.defined[home(i)], self.file_given[home(i)]))
            .collect();
        let f = |i: u32| map[i as usize];
        moved.functions.merge(&self.functions, |key| {
            let index = self.functions.index[&key];
            keys[home(index as usize)]
        });
        moved.edges.merge(&self.edges, |(a, b)| (f(a), f(b)));
        moved.lines.merge(&self.lines, |(a, file, line)| (f(a), file, line));
        moved.line_calls.merge(&self.line_calls, |(a, file, line, b)| (f(a), file, line, f(b)));
        moved.instructions.merge(&self.instructions, |(a, address, file, line)| (f(a), address, file, line));
        moved.inlined.merge(&self.inlined, |(a, name)| (f(a), name));
        moved
    }
}

/// Fills the graph, everything sorted by names and numbers.
fn finish(mut graph: CallGraph, sum: Sum, names: &Names) -> CallGraph {
    let text = |table: &NameTable, id: u32| table.text(crate::model::TextId(id)).into_owned();
    let mut functions: Vec<(Function, u32)> = sum
        .functions
        .keys
        .iter()
        .enumerate()
        .map(|(i, &[object, file, name])| {
            let function = Function {
                object: text(&names.objects, object),
                file: text(&names.files, file),
                name: text(&names.functions, name),
                self_cost: sum.functions.row(i).to_vec(),
                ..Function::default()
            };
            (function, i as u32)
        })
        .collect();
    functions.sort_by(|(a, _), (b, _)| (&a.object, &a.file, &a.name).cmp(&(&b.object, &b.file, &b.name)));
    let mut place = vec![0; functions.len()];
    for (new, (_, old)) in functions.iter().enumerate() {
        place[*old as usize] = new as u32;
    }
    graph.functions = functions.into_iter().map(|(f, _)| f).collect();
    let at = |i: u32| place[i as usize];

    let mut used: Vec<u32> = sum.lines.keys.iter().map(|k| k.1).collect();
    used.extend(sum.line_calls.keys.iter().map(|k| k.1));
    used.extend(sum.instructions.keys.iter().map(|k| k.2));
    used.sort_unstable();
    used.dedup();
    let mut files: Vec<(String, u32)> = used.into_iter().map(|id| (text(&names.files, id), id)).collect();
    files.sort();
    let file_place: HashMap<u32, u32> =
        files.iter().enumerate().map(|(i, (_, id))| (*id, i as u32)).collect();
    graph.files = files.into_iter().map(|(name, _)| name).collect();

    graph.edges = Vec::with_capacity(sum.edges.keys.len());
    for (i, &(caller, callee)) in sum.edges.keys.iter().enumerate() {
        let (caller, callee) = (at(caller), at(callee));
        let cost = sum.edges.row(i).to_vec();
        graph.edges.push(Edge { caller, callee, calls: sum.edges.counts[i], cost });
    }
    graph.edges.sort_by_key(|e| (e.caller, e.callee));
    for (i, &(function, file, line)) in sum.lines.keys.iter().enumerate() {
        let cost = sum.lines.row(i).to_vec();
        graph.lines.push(LineCost { function: at(function), file: file_place[&file], line, cost });
    }
    graph.lines.sort_by_key(|l| (l.function, l.file, l.line));
    for (i, &(function, file, line, callee)) in sum.line_calls.keys.iter().enumerate() {
        graph.line_calls.push(LineCall {
            function: at(function),
            file: file_place[&file],
            line,
            callee: at(callee),
            calls: sum.line_calls.counts[i],
            cost: sum.line_calls.row(i).to_vec(),
        });
    }
    graph.line_calls.sort_by_key(|l| (l.function, l.file, l.line, l.callee));
    for (i, &(function, address, file, line)) in sum.instructions.keys.iter().enumerate() {
        let cost = sum.instructions.row(i).to_vec();
        let file = file_place[&file];
        graph.instructions.push(InstructionCost { function: at(function), address, file, line, cost });
    }
    graph.instructions.sort_by_key(|l| (l.function, l.address, l.file, l.line));
    for (i, &(function, name)) in sum.inlined.keys.iter().enumerate() {
        let cost = sum.inlined.row(i).to_vec();
        graph.inlined.push(InlineCost { function: at(function), name: text(&names.functions, name), cost });
    }
    graph.inlined.sort_by(|a, b| (a.function, &a.name).cmp(&(b.function, &b.name)));
    graph
}
