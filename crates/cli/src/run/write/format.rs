//! The text of a profile, as Callgrind writes it.

use super::names::{FunctionKey, Names, Position};
use super::spool::Spool;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use tallygraph_wire::config::Number;

/// A call shown below a cost line.
struct Call {
    callee: FunctionKey,
    count: u64,
    target: (u64, u32),
    inclusive: u64,
}

/// Costs and calls at one position of a function.
#[derive(Default)]
struct Line {
    cost: u64,
    calls: Vec<Call>,
}

/// Address and source position: the address first, so that lines come in the order of the code.
type Place = (u64, Position);

/// What is written about one function.
#[derive(Default)]
struct Body {
    lines: BTreeMap<Place, Line>,
}

/// Writes names once with their number, then the number.
struct Compressor {
    on: bool,
    seen: HashMap<u32, u32>,
}

impl Compressor {
    fn name(&mut self, id: u32, text: &str) -> String {
        if !self.on {
            return text.to_string();
        }
        let next = self.seen.len() as u32 + 1;
        match self.seen.get(&id) {
            Some(n) => format!("({n})"),
            None => {
                self.seen.insert(id, next);
                format!("({next}) {text}")
            }
        }
    }
}

/// How positions are written.
struct Positions {
    instr: bool,
    line: bool,
    relative: bool,
    last: (u64, u32),
}

impl Positions {
    fn reset(&mut self) {
        self.last = (0, 0);
    }

    fn write(&mut self, out: &mut String, (addr, line): (u64, u32)) {
        let mut column = |now: i128, last: i128, hex: bool| {
            let distance = now - last;
            // Nothing is relative to an unknown position.
            let relative = self.relative && last > 0 && now > 0;
            let written = match distance {
                0 if relative => write!(out, "* "),
                -99..=99 if relative => write!(out, "{distance:+} "),
                _ if hex => write!(out, "{now:#x} "),
                _ => write!(out, "{now} "),
            };
            written.expect("writing to a string");
        };
        if self.instr {
            column(addr as i128, self.last.0 as i128, true);
        }
        if self.line {
            column(line as i128, self.last.1 as i128, false);
        } else if !self.instr {
            column(0, 0, false);
        }
        self.last = (addr, line);
    }
}

/// What one part is about.
pub struct Part<'p> {
    /// Number from 1.
    pub number: u32,
    /// Text of the `Trigger:` line.
    pub trigger: &'p str,
}

/// Total of each event and the text.
pub struct Written {
    /// Instructions.
    pub total: u64,
    /// The profile.
    pub text: String,
}

/// Makes the text of a profile.
pub fn profile(spool: &Spool, part: &Part) -> Written {
    let mut names = Names::new(spool);
    let config = &spool.config;
    let instr = config.is(Number::DumpInstr);
    let mut bodies: BTreeMap<FunctionKey, Body> = BTreeMap::new();
    let mut total = 0u64;
    // Without instruction positions, lines of a function are told apart by file and line alone.
    let mut first_at: HashMap<(FunctionKey, Position), u64> = HashMap::new();
    let mut place = |key: FunctionKey, addr: u64, at: Position| -> Place {
        if instr { (addr, at) } else { (*first_at.entry((key, at)).or_insert(addr), at) }
    };
    for block in spool.blocks.iter().flatten() {
        let executions = spool.count(block.counter);
        let extra: u64 = block.extras.iter().map(|&(_, c)| spool.count(c)).fold(0, u64::wrapping_add);
        if executions == 0 && extra == 0 {
            continue;
        }
        let (context, site) = spool.owner(block);
        let key = names.function(context);
        total = total.wrapping_add(executions.wrapping_mul(block.addresses.len() as u64)).wrapping_add(extra);
        if let Some(site) = site {
            let Some(&addr) = site.addresses.last() else { continue };
            let at = names.position(site.object, addr);
            let svma = addr.wrapping_sub(spool.objects[site.object as usize].bias);
            let line = bodies.entry(key).or_default().lines.entry(place(key, svma, at)).or_default();
            line.cost += executions * block.addresses.len() as u64 + extra;
            continue;
        }
        let bias = spool.objects.get(block.object as usize).map_or(0, |o| o.bias);
        let mut extras = block.extras.iter().peekable();
        let body = bodies.entry(key).or_default();
        for (i, &addr) in block.addresses.iter().enumerate() {
            let mut cost = executions;
            while let Some(&&(index, counter)) = extras.peek().filter(|e| e.0 as usize == i) {
                let _ = index;
                cost = cost.wrapping_add(spool.count(counter));
                extras.next();
            }
            let at = names.position(block.object, addr);
            body.lines.entry(place(key, addr.wrapping_sub(bias), at)).or_default().cost += cost;
        }
    }
    for edge in &spool.edges {
        let count = spool.count(edge.count);
        let inclusive = spool.count(edge.inclusive);
        let Some(from) = spool.block(edge.from_block) else { continue };
        if count == 0 && inclusive == 0 {
            continue;
        }
        let (context, _) = spool.owner(from);
        let key = names.function(context);
        let Some(&addr) = from.addresses.last() else { continue };
        let at = names.position(from.object, addr);
        let bias = |object: u32| spool.objects.get(object as usize).map_or(0, |o| o.bias);
        let target = names.position(edge.to_object, edge.to_addr);
        let call = Call {
            callee: names.function(edge.to_context),
            count,
            target: (edge.to_addr.wrapping_sub(bias(edge.to_object)), target.line),
            inclusive,
        };
        let at = place(key, addr.wrapping_sub(bias(from.object)), at);
        let line = bodies.entry(key).or_default().lines.entry(at).or_default();
        match line.calls.iter_mut().find(|c| c.callee == call.callee && c.target == call.target) {
            Some(known) => {
                known.count += call.count;
                known.inclusive += call.inclusive;
            }
            None => line.calls.push(call),
        }
    }
    let mut text = header(spool, part, total);
    write_bodies(&mut text, spool, &names, &bodies);
    let _ = write!(text, "\ntotals: {total}\n");
    Written { total, text }
}

fn header(spool: &Spool, part: &Part, total: u64) -> String {
    let config = &spool.config;
    let command = config.text(tallygraph_wire::config::Text::CommandLine).unwrap_or_default();
    let mut h = String::from("# callgrind format\nversion: 1\n");
    let mut line = |text: std::fmt::Arguments| {
        let _ = h.write_fmt(text);
        h.push('\n');
    };
    line(format_args!("creator: callgrind-3.19.0 (tallygraph-{})", env!("CARGO_PKG_VERSION")));
    line(format_args!("pid: {}", spool.pid));
    line(format_args!("cmd:  {}", String::from_utf8_lossy(command)));
    line(format_args!("part: {}\n\n", part.number));
    line(format_args!("desc: I1 cache: \ndesc: D1 cache: \ndesc: LL cache: \n"));
    for text in &spool.descriptions {
        line(format_args!("desc: {}", String::from_utf8_lossy(text)));
    }
    let blocks: u64 =
        spool.blocks.iter().flatten().map(|b| spool.count(b.counter)).fold(0, u64::wrapping_add);
    line(format_args!("desc: Timerange: Basic block 0 - {blocks}"));
    line(format_args!("desc: Trigger: {}\n", part.trigger));
    let (instr, lines) = (config.is(Number::DumpInstr), config.is(Number::DumpLine));
    let columns = match (instr, lines) {
        (true, true) => "instr line",
        (true, false) => "instr",
        _ => "line",
    };
    line(format_args!("positions: {columns}"));
    line(format_args!("events: Ir"));
    line(format_args!("summary: {total}\n\n"));
    h
}

fn write_bodies(out: &mut String, spool: &Spool, names: &Names, bodies: &BTreeMap<FunctionKey, Body>) {
    let config = &spool.config;
    let on = config.is(Number::CompressStrings);
    let compressor = || Compressor { on, seen: HashMap::new() };
    let (mut objects, mut files, mut functions) = (compressor(), compressor(), compressor());
    let mut positions = Positions {
        instr: config.is(Number::DumpInstr),
        line: config.is(Number::DumpLine),
        relative: config.is(Number::CompressPos),
        last: (0, 0),
    };
    // Names are unique by text, but functions of one name in several files share their number.
    let mut last_object = None;
    let mut last_file = None;
    for (key, body) in bodies {
        if body.lines.values().all(|l| l.cost == 0 && l.calls.is_empty()) {
            continue;
        }
        out.push('\n');
        if last_object != Some(key.object) {
            let _ = writeln!(out, "ob={}", objects.name(key.object, names.objects.text(key.object)));
            last_object = Some(key.object);
            last_file = None;
        }
        if last_file != Some(key.file) {
            let _ = writeln!(out, "fl={}", files.name(key.file, names.files.text(key.file)));
            last_file = Some(key.file);
        }
        let _ = writeln!(out, "fn={}", functions.name(key.name, names.functions.text(key.name)));
        positions.reset();
        let mut current = key.file;
        for (&(addr, at), line) in &body.lines {
            if line.cost == 0 && line.calls.is_empty() {
                continue;
            }
            if positions.line && at.file != current {
                let tag = if at.file == key.file { "fe" } else { "fi" };
                let _ = writeln!(out, "{tag}={}", files.name(at.file, names.files.text(at.file)));
                current = at.file;
            }
            let here = (addr, at.line);
            if line.cost != 0 {
                positions.write(out, here);
                let _ = writeln!(out, "{}", line.cost);
            }
            for call in &line.calls {
                if call.callee.object != key.object {
                    let text = names.objects.text(call.callee.object);
                    let _ = writeln!(out, "cob={}", objects.name(call.callee.object, text));
                }
                if call.callee.file != current {
                    let text = names.files.text(call.callee.file);
                    let _ = writeln!(out, "cfi={}", files.name(call.callee.file, text));
                }
                let _ = writeln!(
                    out,
                    "cfn={}",
                    functions.name(call.callee.name, names.functions.text(call.callee.name))
                );
                let _ = write!(out, "calls={} ", call.count);
                let before = positions.last;
                positions.write(out, call.target);
                positions.last = before;
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                positions.write(out, here);
                let _ = writeln!(out, "{}", call.inclusive);
            }
        }
        // `fn=` takes the file back to `fl=`, so nothing is left open.
    }
}
