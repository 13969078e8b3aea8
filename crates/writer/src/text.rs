//! A part's body in Callgrind's format.
//!
//! Names are compressed as `(number) name` at their first use and `(number)` later, positions as
//! differences to the position before. Both can be switched off. Numbers live as long as the file, so
//! one [`Names`] serves all parts in it.

use crate::graph::{Call, Graph, Jump, Node, SelfCost};
use crate::places::{Place, Places};
use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;
use std::rc::Rc;
use tallygraph_wire::config::{Config, Number, Text};

/// Differences of at least this size are written as absolute numbers.
const FAR: i64 = 100;

/// Numbers handed out for compressed names, per file.
#[derive(Default)]
pub struct Names {
    objects: Numbers<Rc<[u8]>>,
    files: Numbers<Rc<[u8]>>,
    functions: Numbers<FunctionName>,
}

/// Object, file and name.
type FunctionName = (Rc<[u8]>, Rc<[u8]>, Rc<[u8]>);

/// Numbers of one kind of name.
struct Numbers<K> {
    known: HashMap<K, u32>,
    last: u32,
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Numbers { known: HashMap::new(), last: 0 }
    }
}

impl<K: Hash + Eq> Numbers<K> {
    /// The number of a name, and whether it is new.
    fn number(&mut self, name: K) -> (u32, bool) {
        if let Some(&n) = self.known.get(&name) {
            return (n, false);
        }
        self.last += 1;
        self.known.insert(name, self.last);
        (self.last, true)
    }
}

impl Names {
    /// Numbers for a part appended to `written`: none that is in use there.
    pub fn after(written: &[u8]) -> Names {
        let mut names = Names::default();
        for line in written.split(|&b| b == b'\n') {
            let Some(equals) = line.iter().position(|&b| b == b'=') else { continue };
            let last = match &line[..equals] {
                b"ob" | b"cob" => &mut names.objects.last,
                b"fl" | b"fi" | b"fe" | b"cfi" | b"cfl" | b"jfi" => &mut names.files.last,
                b"fn" | b"cfn" | b"cfni" => &mut names.functions.last,
                _ => continue,
            };
            let digits = line[equals + 1..].strip_prefix(b"(").unwrap_or(b"");
            let end = digits.iter().position(|&b| b == b')').unwrap_or(0);
            let number = std::str::from_utf8(&digits[..end]).ok().and_then(|d| d.parse().ok());
            *last = (*last).max(number.unwrap_or(0));
        }
        names
    }
}

/// How positions and names are written.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    instr: bool,
    line: bool,
    compress_names: bool,
    compress_positions: bool,
    inline: bool,
}

impl Style {
    /// The style the options ask for.
    pub fn of(config: &Config) -> Style {
        let instr = config.is(Number::DumpInstr);
        Style {
            instr,
            line: config.is(Number::DumpLine) || !instr,
            compress_names: config.is(Number::CompressStrings),
            compress_positions: config.is(Number::CompressPos),
            // The fork of Callgrind that has these lines writes them when inline information is read.
            inline: config.is(Number::DumpInline)
                || config.is(Number::ReadInlineInfo)
                    && config.text(Text::CreatorVersion).is_some_and(|v| v.ends_with(b"codspeed")),
        }
    }
}

/// A cost line's position.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position {
    svma: u64,
    place: Place,
    /// Number in [`Places::inlined`].
    inlined: u32,
}

/// Costs of consecutive instructions at one position.
struct Pending {
    at: Position,
    costs: Vec<u64>,
}

struct Printer<'p> {
    out: &'p mut Vec<u8>,
    graph: &'p Graph,
    places: &'p mut Places,
    names: &'p mut Names,
    style: Style,
    events: usize,
    /// Position of the line before, none after `fn=`.
    last: Option<Position>,
    /// Object and file as the last `ob=`, `fl=`, `fi=` or `fe=` line set them.
    object: Option<u32>,
    file: Option<u32>,
    /// File of the last `fl=` line.
    function_file: Option<u32>,
    /// As the last `cfni=` line set it.
    inlined: u32,
    pending: Option<Pending>,
    /// Number of each node's name, once it was written; 0 before.
    written: Vec<u32>,
}

/// Appends the body of a part.
pub fn body(out: &mut Vec<u8>, graph: &Graph, places: &mut Places, names: &mut Names, style: Style) {
    let events = graph.totals.len();
    let mut order: Vec<u32> = (0..graph.nodes.len() as u32).collect();
    let key = |n: &u32| {
        let Node { object, file, name } = &graph.nodes[*n as usize];
        (places.objects.get(*object), places.files.get(*file), name.as_slice())
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut printer = Printer {
        out,
        graph,
        places,
        names,
        style,
        events,
        last: None,
        object: None,
        file: None,
        function_file: None,
        inlined: 0,
        pending: None,
        written: vec![0; graph.nodes.len()],
    };
    for node in order {
        printer.function(node);
    }
}

/// Elements of `all`, sorted by node, that belong to `node`.
fn of_node<T>(all: &[T], node: u32, node_of: impl Fn(&T) -> u32) -> &[T] {
    let start = all.partition_point(|t| node_of(t) < node);
    let length = all[start..].partition_point(|t| node_of(t) == node);
    &all[start..start + length]
}

impl Printer<'_> {
    fn function(&mut self, number: u32) {
        let graph = self.graph;
        let node = &graph.nodes[number as usize];
        let selves = of_node(&graph.selves, number, |s| s.site.node);
        let calls = of_node(&graph.calls, number, |c| c.site.node);
        let jumps = of_node(&graph.jumps, number, |j| j.site.node);
        if selves.is_empty() && calls.is_empty() {
            return;
        }
        if self.object != Some(node.object) {
            self.object_name("ob", node.object);
            self.object = Some(node.object);
        }
        // Readers differ in whether `fn=` takes the file of the last `fl=` or the current one.
        if self.file != Some(node.file) || self.function_file != Some(node.file) {
            self.file_name("fl", node.file);
            self.file = Some(node.file);
            self.function_file = Some(node.file);
        }
        self.function_name("fn", number);
        self.last = None;
        self.inlined = 0;
        self.lines(node.file, selves, calls, jumps);
        self.flush(node.file);
        self.out.push(b'\n');
    }

    /// Costs, calls and jumps of one function, merged by address.
    fn lines(&mut self, own_file: u32, mut selves: &[SelfCost], mut calls: &[Call], mut jumps: &[Jump]) {
        loop {
            let first = [
                selves.first().map(|s| s.site),
                calls.first().map(|c| c.site),
                jumps.first().map(|j| j.site),
            ];
            let Some(site) = first.into_iter().flatten().min() else { return };
            let mut executed = 0;
            let inlined = if self.style.inline { self.places.inlined_at(site.object, site.svma) } else { 0 };
            let place = self.places.place(site.object, site.svma);
            let at = Position { svma: site.svma, place, inlined };
            if let Some((first, rest)) = selves.split_first()
                && first.site == site
            {
                executed = self.graph.costs[first.costs as usize];
                self.cost(own_file, at, first.costs);
                selves = rest;
            }
            while let Some((first, rest)) = calls.split_first()
                && first.site == site
            {
                self.call(own_file, at, first);
                calls = rest;
            }
            while let Some((first, rest)) = jumps.split_first()
                && first.site == site
            {
                self.jump(own_file, at, first, executed);
                jumps = rest;
            }
        }
    }

    fn cost(&mut self, own_file: u32, at: Position, row: u32) {
        let costs = &self.graph.costs[row as usize..row as usize + self.events];
        match &mut self.pending {
            Some(p) if (p.at.place, p.at.inlined) == (at.place, at.inlined) && !self.style.instr => {
                for (sum, cost) in p.costs.iter_mut().zip(costs) {
                    *sum = sum.wrapping_add(*cost);
                }
            }
            _ => {
                let costs = costs.to_vec();
                self.flush(own_file);
                self.pending = Some(Pending { at, costs });
            }
        }
    }

    fn flush(&mut self, own_file: u32) {
        let Some(Pending { at, costs }) = self.pending.take() else { return };
        if costs.iter().all(|&c| c == 0) {
            return;
        }
        self.switch_file(own_file, at.place.file);
        self.switch_inlined(at.inlined);
        self.cost_line(at, &costs);
    }

    fn switch_inlined(&mut self, inlined: u32) {
        if self.inlined != inlined {
            self.inlined = inlined;
            let name: Rc<[u8]> = self.places.inlined.get(inlined).into();
            let nothing: Rc<[u8]> = (&b""[..]).into();
            let id = self.names.functions.number((nothing.clone(), nothing, name.clone()));
            self.name("cfni", id, &name);
        }
    }

    fn switch_file(&mut self, own_file: u32, file: u32) {
        if self.file != Some(file) {
            self.file_name(if file == own_file { "fe" } else { "fi" }, file);
            self.file = Some(file);
        }
    }

    fn call(&mut self, own_file: u32, at: Position, call: &Call) {
        self.flush(own_file);
        self.switch_file(own_file, at.place.file);
        self.switch_inlined(at.inlined);
        let callee = &self.graph.nodes[call.callee as usize];
        if self.object != Some(callee.object) {
            self.object_name("cob", callee.object);
        }
        // Readers differ in whether a missing `cfi=` means the function's file or the current one.
        if callee.file != own_file || callee.file != at.place.file {
            self.file_name("cfi", callee.file);
        }
        self.function_name("cfn", call.callee);
        let place = self.places.place(call.target.0, call.target.1);
        let target = Position { svma: call.target.1, place, inlined: 0 };
        let _ = write!(self.out, "calls={} ", call.count);
        self.position(target);
        self.out.push(b'\n');
        let row = call.costs as usize;
        let graph = self.graph;
        self.cost_line(at, &graph.costs[row..row + self.events]);
    }

    /// A jump. `executed` is how often the branch was reached.
    fn jump(&mut self, own_file: u32, at: Position, jump: &Jump, executed: u64) {
        let place = self.places.place(jump.target.0, jump.target.1);
        let target = Position { svma: jump.target.1, place, inlined: 0 };
        // A line number tells nothing where there is none.
        if !self.style.instr && target.place.line == 0 {
            return;
        }
        self.flush(own_file);
        self.switch_file(own_file, at.place.file);
        if target.place.file != at.place.file {
            self.file_name("jfi", target.place.file);
        }
        if jump.conditional {
            let _ = write!(self.out, "jcnd={}/{executed} ", jump.count);
        } else {
            let _ = write!(self.out, "jump={} ", jump.count);
        }
        self.position(target);
        self.out.push(b'\n');
        self.position(at);
        self.out.push(b'\n');
    }

    /// A position and its costs. Zeros at the end are left out, but not all of them.
    fn cost_line(&mut self, at: Position, costs: &[u64]) {
        self.position(at);
        let used = costs.iter().rposition(|&c| c != 0).map_or(1, |i| i + 1);
        for (i, &cost) in costs[..used].iter().enumerate() {
            if i > 0 {
                self.out.push(b' ');
            }
            decimal(self.out, cost);
        }
        self.out.push(b'\n');
        self.last = Some(at);
    }

    /// The position as one or two words, each with a blank after it.
    fn position(&mut self, at: Position) {
        let last = if self.style.compress_positions { self.last } else { None };
        if self.style.instr {
            match last.map(|l| at.svma.wrapping_sub(l.svma) as i64) {
                Some(difference) if difference.abs() < FAR => relative(self.out, difference),
                _ => {
                    let _ = write!(self.out, "{:#x}", at.svma);
                }
            }
            self.out.push(b' ');
        }
        if self.style.line {
            match last.map(|l| at.place.line as i64 - l.place.line as i64) {
                Some(difference) if difference.abs() < FAR => relative(self.out, difference),
                _ => decimal(self.out, at.place.line as u64),
            }
            self.out.push(b' ');
        }
    }

    fn object_name(&mut self, key: &str, number: u32) {
        let name: Rc<[u8]> = self.places.objects.get(number).into();
        let id = self.names.objects.number(name.clone());
        self.name(key, id, &name);
    }

    fn file_name(&mut self, key: &str, number: u32) {
        let name: Rc<[u8]> = self.places.files.get(number).into();
        let id = self.names.files.number(name.clone());
        self.name(key, id, &name);
    }

    fn function_name(&mut self, key: &str, number: u32) {
        let node = &self.graph.nodes[number as usize];
        let written = self.written[number as usize];
        if written != 0 {
            return self.name(key, (written, false), &node.name);
        }
        let (object, file) = (self.places.objects.get(node.object), self.places.files.get(node.file));
        let name: Rc<[u8]> = node.name.as_slice().into();
        let id = self.names.functions.number((object.into(), file.into(), name.clone()));
        self.written[number as usize] = id.0;
        self.name(key, id, &name);
    }

    fn name(&mut self, key: &str, (id, first): (u32, bool), name: &[u8]) {
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'=');
        if self.style.compress_names {
            let _ = write!(self.out, "({id})");
            if first {
                self.out.push(b' ');
                self.out.extend_from_slice(name);
            }
        } else {
            self.out.extend_from_slice(name);
        }
        self.out.push(b'\n');
    }
}

fn relative(out: &mut Vec<u8>, difference: i64) {
    match difference {
        0 => out.push(b'*'),
        d => {
            out.push(if d > 0 { b'+' } else { b'-' });
            decimal(out, d.unsigned_abs());
        }
    }
}

fn decimal(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
