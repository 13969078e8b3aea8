//! Events besides Ir: which ones a block raises, and the code that simulates its memory accesses and branches.
//!
//! How many reads, writes and branches an execution makes is known when a block is translated, and is counted
//! with the block: [`InsnEvents`]. What a cache or a predictor makes of them is found out as the block runs.
//!
//! The accesses of a block, in order, are its *items*. Items whose addresses can be computed from the registers
//! at one point form a *group*. At that point the fragment asks, for each line the group touches, whether it is
//! the most recently used one of its set ([`Filter`]). If all are, the whole group changes nothing, in
//! whatever order, and costs a comparison for each line. If one is not, the group's addresses are stored and the
//! tool simulates the items one after the other ([`events`]). So the result is that of simulating every access in
//! order. The code for that lies behind the fragment's end.
//!
//! ```text
//! group check   lea s, [operand]            s, t: registers that are dead, else spilled for the check
//!               mov t, s / and t, sets
//!               sub s, gs:[t + rows]
//!               cmp s, 64 - size
//!               ja  out of line
//! ```
//!
//! Branches are always simulated out of line.

use crate::block::{self, Decoded, End, MAX_INSNS};
use crate::layout::{COUNTERS_OFFSET, DATA_ROWS_OFFSET, FETCH_ROWS_OFFSET, ROWS_ROOM, counter_disp};
use crate::maps::Maps;
use crate::thread::{ThreadState, disp, gpr_disp};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use tallygraph_callgraph::Entry;
use tallygraph_callgraph::hash::Map;
use tallygraph_x64::accesses::{self, Accesses, Address, Effects, Form, NO_REGISTER};
use tallygraph_x64::asm::{Asm, Gpr, cc};
use tallygraph_x64::{Flags, Kind};

/// Events that a block raises for certain, besides Ir: Dr, Dw, Bc, Bi, Ge. Each has a running total of its own.
pub const CERTAIN: usize = 5;
/// Index of data reads.
pub const READS: usize = 0;
/// Index of data writes.
pub const WRITES: usize = 1;
/// Index of conditional branches.
pub const CONDITIONAL: usize = 2;
/// Index of indirect branches.
pub const INDIRECT: usize = 3;
/// Index of bus events.
pub const BUS: usize = 4;

/// `gs` displacement of a running total.
pub const fn total_disp(event: usize) -> i32 {
    counter_disp(crate::layout::TOTAL_COUNTER + 1 + event as u32)
}

/// Bytes from a shadow stack entry to what the simulation keeps of it: three words at each distance, and not at a
/// multiple of the page size, as the CPU compares addresses within pages first.
const BESIDE: [i32; 2] = [0x4000_0000 + 0x240, -0x4000_0000 + 0x480];
/// Bytes that must be mapped on either side of a shadow stack.
pub const BESIDE_SHADOW: u64 = 0x4000_1000;

/// Displacement from a shadow stack entry to its copy of a running total.
pub const fn entry_disp(event: usize) -> i32 {
    match event {
        READS | WRITES => BESIDE[0] + event as i32 * 8,
        _ => BESIDE[1] + (event - CONDITIONAL) as i32 * 8,
    }
}

/// Displacement from a shadow stack entry to the mark that events of uncertain number were raised since.
pub const ENTRY_MARK: i32 = BESIDE[0] + 16;

/// How generated code finds the most recently used line of a set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    /// Binary logarithm of the line size.
    pub line_shift: u8,
    /// Binary logarithm of the distance of two sets' rows in bytes.
    pub stride_shift: u8,
    /// Number of sets less one.
    pub set_mask: u32,
}

impl Filter {
    fn line(&self) -> u64 {
        1 << self.line_shift
    }

    fn set(&self, address: u64) -> u32 {
        (address >> self.line_shift) as u32 & self.set_mask
    }

    fn row(&self, address: u64) -> i32 {
        (self.set(address) << self.stride_shift) as i32
    }
}

/// What is simulated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulation {
    /// Caches are simulated.
    pub caches: bool,
    /// Branch prediction is simulated.
    pub branches: bool,
    /// Bus events are counted.
    pub bus: bool,
    /// D1.
    pub data: Filter,
    /// I1.
    pub fetch: Filter,
    /// Every reference reaches the simulator.
    pub every_reference: bool,
    /// Every write reaches the simulator.
    pub every_write: bool,
    /// The CPU has `rdfsbase`.
    pub fs_base: bool,
    /// Smallest line: longer accesses are cut to it.
    pub min_line: u16,
    /// Columns of the L1 misses of fetches, reads and writes.
    pub miss_columns: [u8; 3],
    /// The caches have the shape that [`references`] is made for.
    pub usual_shape: bool,
    /// Column of each certain event in an edge's inclusive counters, 0 when it is not collected.
    pub columns: [u32; CERTAIN],
}

/// Certain events of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsnEvents {
    /// Data reads.
    pub reads: u8,
    /// Data writes.
    pub writes: u8,
    /// Conditional branches, indirect ones, bus events: one bit each.
    pub others: u8,
}

impl InsnEvents {
    /// Number of each event.
    pub fn counts(self) -> [u8; CERTAIN] {
        let bit = |n: u8| self.others >> n & 1;
        [self.reads, self.writes, bit(0), bit(1), bit(2)]
    }

    /// The guest's flags are in the thread block while the instruction runs: see [`kept_flags`].
    pub fn has_flags_kept(self) -> bool {
        self.others & FLAGS_KEPT != 0
    }

    /// Notes that.
    pub fn keep_flags(&mut self) {
        self.others |= FLAGS_KEPT;
    }

    fn set(&mut self, event: usize) {
        self.others |= 1 << (event - CONDITIONAL);
    }
}

const FLAGS_KEPT: u8 = 0x80;

/// `eflags` with the arithmetic flags that a check has saved in the thread block.
pub fn kept_flags(state: &ThreadState, eflags: u64) -> u64 {
    const ARITHMETIC: u64 = 0x8d5;
    let saved = state.event_flags;
    eflags & !ARITHMETIC | saved >> 8 & 0xd5 | (saved & 1) << 11
}

/// Sum over instructions.
pub fn sum(events: impl IntoIterator<Item = InsnEvents>) -> [u32; CERTAIN] {
    let mut sums = [0; CERTAIN];
    for e in events {
        for (sum, n) in sums.iter_mut().zip(e.counts()) {
            *sum += n as u32;
        }
    }
    sums
}

/// What counters an instruction needs for what is not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// Misses of its fetch.
    Fetch,
    /// Misses of reads.
    Read,
    /// Misses of writes.
    Write,
    /// Mispredictions of a conditional branch.
    Conditional,
    /// Mispredictions of an indirect branch.
    Indirect,
    /// A number of certain events that depends on the machine's state.
    Count(usize),
}

/// Where counters are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Index of the instruction.
    pub insn: u16,
    /// What for.
    pub kind: SiteKind,
}

/// Kinds of items as the tool sees them.
pub mod kind {
    /// Lines of code are fetched: the low and the high half of [`super::Item::word`] are the displacements of
    /// their records, the high one 0 for a single line. `size` is where in the first line the instruction begins, and
    /// in its four high bits how long it is.
    pub const FETCH: u8 = 0;
    /// Data is read at the next address.
    pub const READ: u8 = 1;
    /// Data is written at the next address.
    pub const WRITE: u8 = 2;
    /// A conditional jump at `word`: the outcome is in the thread's `event_taken`.
    pub const BRANCH: u8 = 3;
    /// A conditional branch at `word` that is not taken.
    pub const NOT_TAKEN: u8 = 4;
    /// `loop` and its kind at `word`; `size` is the opcode, with the address-size
    /// prefix in its high byte.
    pub const LOOP: u8 = 5;
    /// An indirect branch at `word`: the target is in the thread's `event_target`.
    pub const INDIRECT: u8 = 6;
    /// `word` points to a [`super::Computed`].
    pub const COMPUTED: u8 = 7;
    /// `word` points to a [`super::Computed`] whose instruction has run; the registers it began with are in
    /// the thread's `event_before`.
    pub const REPEATED: u8 = 8;
}

/// One item as the tool gets it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Item {
    /// See [`kind`].
    pub word: u64,
    /// First counter of the site.
    pub counter: u32,
    /// Bytes accessed.
    pub size: u16,
    /// See [`kind`].
    pub kind: u8,
    /// Column of L1 misses, for items that are references; that of LL misses is three further.
    pub column: u8,
}

/// An instruction whose accesses depend on more than address registers.
pub struct Computed {
    /// Its address.
    pub pc: u64,
    /// Which accesses.
    pub form: Form,
    /// The operands, as far as they are known.
    pub accesses: Accesses,
    /// Opcode and prefixes of a repeated instruction: compares, ends on ZF, 32-bit counter.
    pub repeat: Repeat,
    /// Bytes of the instruction.
    pub len: u8,
    /// Counters: of reads, writes and branches made, then of misses of reads and writes and of mispredictions.
    pub counters: [u32; 6],
}

/// How a repeated instruction ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeat {
    /// `cmps` and `scas`.
    pub compares: bool,
    /// Registers are used in 32 bits.
    pub narrow: bool,
    /// The loop goes on while ZF is set (`repe`).
    pub while_equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Records of the lines an instruction lies on (0 for none), and whether they have to be referenced.
    Fetch {
        records: [u32; 2],
        lines: [u64; 2],
        fresh: [bool; 2],
        place: u16,
    },
    Data {
        write: bool,
        size: u16,
        at: Address,
    },
    Branch,
    NotTaken,
    Loop {
        opcode: u16,
    },
    Computed {
        index: u16,
    },
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    insn: u16,
    site: u16,
    what: What,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// Index of the instruction before which the group is checked.
    at: u16,
    /// Its items.
    first: u16,
    end: u16,
    /// Registers its addresses are computed from.
    roots: u16,
    /// It is not checked but simulated always.
    always: bool,
}

/// Code that simulates a group when its check says so, to be emitted behind the fragment.
struct Late {
    group: u16,
    scratch: Scratch,
    /// The scratch registers are spilled.
    spilled: bool,
    /// Branches of the checks of fetches and of data.
    fetch_fields: Vec<usize>,
    data_fields: Vec<usize>,
    /// Where data is checked, and where the check ends.
    data: u64,
    back: u64,
}

/// What a block raises, and how it is simulated.
#[derive(Default)]
pub struct Plan {
    /// Certain events of each instruction.
    pub events: Vec<InsnEvents>,
    /// Where counters are needed.
    pub sites: Vec<Site>,
    /// The counters handed out for `sites`.
    pub counters: Vec<u32>,
    effects: Vec<Effects>,
    items: Vec<Planned>,
    groups: Vec<Group>,
    computed: Vec<(u16, Box<Computed>)>,
    dead_flags: Vec<bool>,
    dead_registers: Vec<u16>,
    late: Vec<Late>,
    next_group: usize,
    /// The guest's flags are in the thread block and not in the machine.
    pub flags_kept: bool,
}

/// Most items of a group: the thread block has room for as many addresses.
pub const MAX_ITEMS: usize = 48;
/// Most lines a group checks.
const MAX_CHECKS: usize = 8;
/// Address registers and the stack pointer's number.
const RSP: u8 = 4;

const fn bit(number: u8) -> u16 {
    if number < 16 { 1 << number } else { 0 }
}

impl Plan {
    /// Forgets the last block.
    pub fn clear(&mut self) {
        self.events.clear();
        self.sites.clear();
        self.counters.clear();
        self.effects.clear();
        self.items.clear();
        self.groups.clear();
        self.computed.clear();
        self.dead_flags.clear();
        self.dead_registers.clear();
        self.late.clear();
        self.next_group = 0;
        self.flags_kept = false;
    }

    fn site(&mut self, insn: usize, kind: SiteKind) -> u16 {
        self.sites.push(Site { insn: insn as u16, kind });
        self.sites.len() as u16 - 1
    }

    /// Finds out what the block raises.
    pub fn make(
        &mut self,
        sim: &Simulation,
        maps: &mut Maps,
        insns: &[Decoded],
        end: End,
        table: &mut Lines,
    ) {
        self.clear();
        let mut accesses = Accesses::default();
        let mut lines = KnownLines::default();
        for (i, d) in insns.iter().enumerate() {
            let mut effects = accesses::analyse(d.pc, &d.insn, &mut accesses);
            if end == End::Request {
                accesses = Accesses::default();
                effects = Effects::default();
            }
            let mut events = InsnEvents::default();
            if sim.caches {
                self.fetch(sim, &mut lines, table, i, d);
                self.data(sim, i, d, &effects, &accesses, &mut events);
            } else if effects.form == Form::Repeated && sim.branches {
                self.compute(i, d, &effects, &accesses);
            }
            if sim.branches {
                self.branch(i, d, &effects, &mut events);
            }
            if sim.bus && effects.locked {
                events.set(BUS);
            }
            self.events.push(events);
            self.effects.push(effects);
        }
        self.liveness(maps, insns);
        self.form_groups(sim, insns);
    }

    fn fetch(&mut self, sim: &Simulation, known: &mut KnownLines, table: &mut Lines, i: usize, d: &Decoded) {
        let f = &sim.fetch;
        let mask = !(f.line() - 1);
        let lines = [d.pc & mask, (d.next() - 1) & mask];
        let fresh = [!known.is(f, lines[0]), lines[1] != lines[0] && !known.is(f, lines[1])];
        if fresh == [false; 2] && !sim.every_reference {
            return;
        }
        known.set(f, lines[0]);
        known.set(f, lines[1]);
        let site = self.site(i, SiteKind::Fetch);
        let second = if lines[1] == lines[0] { 0 } else { table.record(lines[1]) };
        let what = What::Fetch {
            records: [table.record(lines[0]), second],
            lines,
            fresh,
            place: (d.pc - lines[0]) as u16 & 0xfff | (d.insn.len as u16) << 12,
        };
        self.items.push(Planned { insn: i as u16, site, what });
    }

    fn data(
        &mut self,
        sim: &Simulation,
        i: usize,
        d: &Decoded,
        effects: &Effects,
        accesses: &Accesses,
        events: &mut InsnEvents,
    ) {
        let segment = accesses.list().iter().any(|a| a.at.fs) && !sim.fs_base;
        if effects.form != Form::Once || segment {
            self.compute(i, d, effects, accesses);
            if effects.form == Form::Once || matches!(effects.form, Form::Bit { .. } | Form::Table) {
                Self::certain(accesses, events);
            }
            return;
        }
        Self::certain(accesses, events);
        let mut sites = [None; 2];
        for a in accesses.list() {
            let kind = if a.write { SiteKind::Write } else { SiteKind::Read };
            let site = match sites[a.write as usize] {
                Some(site) => site,
                None => *sites[a.write as usize].insert(self.site(i, kind)),
            };
            let what = What::Data { write: a.write, size: a.size, at: a.at };
            self.items.push(Planned { insn: i as u16, site, what });
        }
    }

    fn certain(accesses: &Accesses, events: &mut InsnEvents) {
        events.reads = accesses.list().iter().filter(|a| !a.write).count() as u8;
        events.writes = accesses.list().iter().filter(|a| a.write).count() as u8;
    }

    /// An instruction whose accesses the tool works out.
    fn compute(&mut self, i: usize, d: &Decoded, effects: &Effects, accesses: &Accesses) {
        let computed = Computed {
            pc: d.pc,
            form: effects.form,
            accesses: *accesses,
            repeat: Repeat {
                compares: matches!(d.insn.opcode & !1, 0xa6 | 0xae),
                narrow: d.insn.prefixes.addrsize(),
                while_equal: d.insn.prefixes.rep(),
            },
            len: d.insn.len,
            counters: [0; 6],
        };
        let first = self.site(i, SiteKind::Count(READS));
        self.site(i, SiteKind::Count(WRITES));
        self.site(i, SiteKind::Count(CONDITIONAL));
        self.site(i, SiteKind::Read);
        self.site(i, SiteKind::Write);
        self.site(i, SiteKind::Conditional);
        let index = self.computed.len() as u16;
        self.computed.push((first, Box::new(computed)));
        self.items.push(Planned { insn: i as u16, site: first, what: What::Computed { index } });
    }

    fn branch(&mut self, i: usize, d: &Decoded, effects: &Effects, events: &mut InsnEvents) {
        let what = match d.insn.kind {
            Kind::Jcc => What::Branch,
            Kind::Loop => {
                What::Loop { opcode: d.insn.opcode as u16 | (d.insn.prefixes.addrsize() as u16) << 8 }
            }
            Kind::JmpInd | Kind::CallInd => {
                // Simulated where the target is loaded.
                events.set(INDIRECT);
                self.site(i, SiteKind::Indirect);
                return;
            }
            _ if effects.retries => What::NotTaken,
            _ => return,
        };
        events.set(CONDITIONAL);
        let site = self.site(i, SiteKind::Conditional);
        self.items.push(Planned { insn: i as u16, site, what });
    }

    /// Which flags and registers are dead before each instruction.
    fn liveness(&mut self, maps: &mut Maps, insns: &[Decoded]) {
        let n = insns.len();
        self.dead_flags.resize(n, false);
        self.dead_registers.resize(n, 0);
        let mut live = Flags::ALL_ARITH;
        let mut dead = 0u16;
        for (i, d) in insns.iter().enumerate().rev() {
            if i + 1 < n && d.insn.kind == Kind::Jcc {
                dead = 0;
                let side = if d.taken { d.next() } else { d.insn.target(d.pc) };
                if !block::flags_dead_at(maps, side, None) {
                    live = Flags::ALL_ARITH;
                }
            }
            live = live.without(d.insn.flags_written).union(d.insn.flags_read.arith());
            let e = &self.effects[i];
            dead = (dead | e.kills) & !e.reads;
            self.dead_flags[i] = live.is_empty();
            self.dead_registers[i] = dead & !bit(RSP);
        }
    }

    fn is_always(&self, sim: &Simulation, item: &Planned) -> bool {
        match item.what {
            What::Fetch { .. } => sim.every_reference,
            What::Data { write, .. } => sim.every_reference || write && sim.every_write,
            _ => true,
        }
    }

    fn form_groups(&mut self, sim: &Simulation, insns: &[Decoded]) {
        let mut next = 0;
        // No check is moved before this instruction.
        let mut earliest = 0;
        while next < self.items.len() {
            let item = self.items[next];
            let i = item.insn as usize;
            let apart = !matches!(item.what, What::Fetch { .. } | What::Data { .. });
            if apart {
                self.groups.push(Group {
                    at: i as u16,
                    first: next as u16,
                    end: next as u16 + 1,
                    roots: 0,
                    always: true,
                });
                next += 1;
                earliest = i;
                continue;
            }
            let last_side_exit = (earliest..i).rev().find(|&k| insns[k].insn.kind == Kind::Jcc);
            let lowest = last_side_exit.map_or(earliest, |k| k + 1);
            let at = self.place_check(sim, &item, lowest, i);
            let (end, roots, always) = self.extend(sim, insns, next, at);
            self.groups.push(Group { at: at as u16, first: next as u16, end: end as u16, roots, always });
            earliest = at;
            next = end;
        }
    }

    /// Where the group that begins with `item` is checked: the latest place up to its instruction where flags are
    /// dead and its address can be computed, else at the instruction.
    fn place_check(&self, _sim: &Simulation, item: &Planned, lowest: usize, i: usize) -> usize {
        for at in (lowest..=i).rev() {
            if self.dead_flags[at] {
                return at;
            }
            if at > lowest
                && let What::Data { at: address, .. } = item.what
            {
                let changed = self.effects[at - 1].writes;
                if changed & (bit(address.base) | bit(address.index)) != 0 {
                    break;
                }
            }
        }
        i
    }

    /// Takes items into a group that is checked at `at` and begins with item `first`: gives its end, the
    /// registers needed, and whether it is simulated always.
    fn extend(&mut self, sim: &Simulation, insns: &[Decoded], first: usize, at: usize) -> (usize, u16, bool) {
        let mut values = Values::new();
        let (mut roots, mut always, mut checks) = (0, false, 0);
        let mut item = first;
        'insns: for (k, d) in insns.iter().enumerate().skip(at) {
            while item < self.items.len() && self.items[item].insn as usize == k {
                let planned = self.items[item];
                let mut cost = 1;
                match planned.what {
                    What::Fetch { fresh, .. } => cost = fresh[0] as usize + fresh[1] as usize,
                    What::Data { write, size, at } => {
                        let Some(there) = values.translate(&at) else { break 'insns };
                        self.items[item].what = What::Data { write, size, at: there };
                        roots |= bit(there.base) | bit(there.index);
                    }
                    _ => break 'insns,
                }
                let this_always = self.is_always(sim, &planned);
                if item > first
                    && (checks + cost > MAX_CHECKS || item - first >= MAX_ITEMS - 1 || always != this_always)
                {
                    // What was translated is read again from the instruction by the next group.
                    self.items[item] = planned;
                    break 'insns;
                }
                always = this_always;
                checks += cost;
                item += 1;
            }
            if d.insn.kind == Kind::Jcc {
                break;
            }
            values.step(&self.effects[k]);
        }
        debug_assert!(item > first, "a group is never empty");
        (item.max(first + 1), roots, always)
    }

    /// Gives sites their counters.
    pub fn set_counters(&mut self, counters: Vec<u32>) {
        self.counters = counters;
        for (first, computed) in &mut self.computed {
            let from = *first as usize;
            if let Some(own) = self.counters.get(from..from + 6) {
                computed.counters.copy_from_slice(own);
            }
        }
    }

    fn counter(&self, site: u16) -> u32 {
        self.counters.get(site as usize).copied().unwrap_or(0)
    }

    /// Emits what comes before instruction `i`.
    pub fn emit_before(&mut self, asm: &mut Asm, sim: &Simulation, insns: &[Decoded], i: usize) {
        while let Some(&group) = self.groups.get(self.next_group)
            && group.at as usize <= i
        {
            let number = self.next_group;
            if self.is_repeated(&group) {
                // Simulated after the instruction.
                self.restore_flags(asm, i);
                store_before(asm);
                return;
            }
            self.next_group += 1;
            if group.always {
                self.restore_flags(asm, i);
                self.emit_always(asm, sim, insns, number);
            } else {
                self.emit_check(asm, sim, number);
            }
        }
        if self.effects[i].touches_flags || insns[i].insn.kind != Kind::Plain {
            self.restore_flags(asm, i);
        }
    }

    fn is_repeated(&self, group: &Group) -> bool {
        matches!(self.items[group.first as usize].what, What::Computed { index }
            if self.computed[index as usize].1.form == Form::Repeated)
    }

    /// Emits what comes after instruction `i`: the simulation of a repeated one.
    pub fn emit_after(&mut self, asm: &mut Asm, sim: &Simulation, insns: &[Decoded], i: usize) {
        if let Some(&group) = self.groups.get(self.next_group)
            && group.at as usize == i
            && self.is_repeated(&group)
        {
            let number = self.next_group;
            self.next_group += 1;
            self.emit_always(asm, sim, insns, number);
        }
    }

    /// Emits the simulation of an indirect branch of instruction `i` whose target is in `target`.
    pub fn emit_indirect(&self, asm: &mut Asm, d: &Decoded, i: usize, target: Gpr) {
        let site = self.sites.iter().position(|s| s.insn as usize == i && s.kind == SiteKind::Indirect);
        let Some(site) = site else { return };
        asm.store_gs(disp!(event_target), target);
        let counter = self.counter(site as u16);
        let item = Item { word: d.pc, counter, size: d.insn.len as u16, kind: kind::INDIRECT, column: 0 };
        call_tool(asm, events as *const () as u64, None, &[item]);
    }

    fn item(&self, planned: &Planned, insns: &[Decoded], sim: &Simulation) -> Item {
        let pc = insns[planned.insn as usize].pc;
        let counter = self.counter(planned.site);
        let (word, size, kind) = match planned.what {
            What::Fetch { records, place, .. } => {
                let [first, second] = records.map(|r| if r == 0 { 0 } else { record_disp(r) as u64 });
                (first | second << 32, place, kind::FETCH)
            }
            What::Data { write: false, size, .. } => (0, size, kind::READ),
            What::Data { write: true, size, .. } => (0, size, kind::WRITE),
            What::Branch => (pc, 0, kind::BRANCH),
            What::NotTaken => (pc, 0, kind::NOT_TAKEN),
            What::Loop { opcode } => (pc, opcode, kind::LOOP),
            What::Computed { index } => {
                let computed: &Computed = &self.computed[index as usize].1;
                let kind = if computed.form == Form::Repeated { kind::REPEATED } else { kind::COMPUTED };
                (computed as *const Computed as u64, 0, kind)
            }
        };
        let column = sim.miss_columns.get(kind as usize).copied().unwrap_or(0);
        let size = if matches!(kind, kind::READ | kind::WRITE) { size.clamp(1, sim.min_line) } else { size };
        Item { word, counter, size, kind, column }
    }

    fn emit_always(&mut self, asm: &mut Asm, sim: &Simulation, insns: &[Decoded], number: usize) {
        let group = self.groups[number];
        let items = &self.items[group.first as usize..group.end as usize];
        if matches!(items[0].what, What::Branch) {
            // setcc byte gs:[event_taken]
            let cc = insns[items[0].insn as usize].insn.cc();
            asm.bytes(&[0x65, 0x0f, 0x90 | cc, 0x04, 0x25]);
            asm.bytes(&disp!(event_taken).to_le_bytes());
        }
        let dynamic = items.iter().any(|p| matches!(p.what, What::Data { .. }));
        let mut scratch = Scratch::none();
        if dynamic {
            scratch = Scratch::choose(self.dead_registers[group.at as usize], group.roots);
            scratch.spill(asm);
        }
        let list: Vec<Item> = items.iter().map(|p| self.item(p, insns, sim)).collect();
        store_addresses(asm, items, &scratch);
        call_tool(asm, events as *const () as u64, None, &list);
        scratch.reload(asm);
        for planned in items {
            if let What::Computed { index } = planned.what {
                // The code refers to it for as long as it exists.
                let place = core::mem::replace(&mut self.computed[index as usize].1, Box::new(EMPTY));
                let _ = Box::leak(place);
            }
        }
    }

    fn emit_check(&mut self, asm: &mut Asm, sim: &Simulation, number: usize) {
        let group = self.groups[number];
        let at = group.at as usize;
        let scratch = Scratch::choose(self.dead_registers[at], group.roots);
        let items = &self.items[group.first as usize..group.end as usize];
        let save = !self.dead_flags[at] && !self.flags_kept;
        let dynamic = items.iter().any(|p| matches!(p.what, What::Data { .. })) || save;
        let lines: Vec<(u32, u32)> = fresh_lines(&sim.fetch, items).collect();
        let spill = dynamic;
        if spill {
            scratch.spill(asm);
        }
        if save {
            save_flags(asm, &scratch);
        }
        let (mut fetch_fields, mut data_fields) = (Vec::new(), Vec::new());
        check_fetches(asm, &lines, &mut fetch_fields);
        let data = asm.pc();
        check_data(asm, sim, items, &scratch, &mut data_fields);
        let back = asm.pc();
        if spill {
            scratch.reload(asm);
        }
        if save {
            self.flags_kept = true;
        }
        let group = number as u16;
        self.late.push(Late { group, scratch, spilled: spill, fetch_fields, data_fields, data, back });
    }

    /// Restores flags that were saved for checks, if they were; emitted before instruction `i`, or behind the last.
    pub fn restore_flags(&mut self, asm: &mut Asm, i: usize) {
        if !core::mem::take(&mut self.flags_kept) || self.dead_flags.get(i).copied().unwrap_or(false) {
            return;
        }
        let dead = self.dead_registers.get(i).copied().unwrap_or(0);
        let rax = bit(Gpr::Rax as u8);
        let other = GPRS.into_iter().find(|&r| dead & bit(r as u8) != 0 && r != Gpr::Rax);
        let restore = |asm: &mut Asm| {
            asm.load_gs(Gpr::Rax, disp!(event_flags));
            asm.restore_flags_rax();
        };
        match other {
            _ if dead & rax != 0 => restore(asm),
            Some(r) => {
                asm.mov(r, Gpr::Rax);
                restore(asm);
                asm.mov(Gpr::Rax, r);
            }
            None => {
                asm.store_gs(disp!(event_rax), Gpr::Rax);
                restore(asm);
                asm.load_gs(Gpr::Rax, disp!(event_rax));
            }
        }
    }

    /// Emits what the checks lead to when they fail.
    pub fn emit_late(&mut self, asm: &mut Asm, sim: &Simulation, insns: &[Decoded]) {
        let routine = if sim.usual_shape { references as *const () } else { events as *const () } as u64;
        for late in core::mem::take(&mut self.late) {
            let group = self.groups[late.group as usize];
            let items = &self.items[group.first as usize..group.end as usize];
            let list = |only_data: bool| -> Vec<Item> {
                let wanted = |p: &&Planned| !only_data || matches!(p.what, What::Data { .. });
                items.iter().filter(wanted).map(|p| self.item(p, insns, sim)).collect()
            };
            if !late.fetch_fields.is_empty() {
                bind(asm, &late.fetch_fields);
                if !late.spilled {
                    late.scratch.spill(asm);
                }
                let mut others = Vec::new();
                for line in fresh_lines(&sim.fetch, items) {
                    reference_present(asm, line, late.scratch.first, &mut others);
                }
                if !late.spilled {
                    late.scratch.reload(asm);
                }
                asm.jmp(late.data);
                bind(asm, &others);
                if !late.spilled {
                    late.scratch.reload(asm);
                }
            }
            if !late.fetch_fields.is_empty() {
                store_addresses(asm, items, &late.scratch);
                call_tool(asm, events as *const () as u64, Some(late.back), &list(false));
            }
            if !late.data_fields.is_empty() {
                bind(asm, &late.data_fields);
                store_addresses(asm, items, &late.scratch);
                call_tool(asm, routine, Some(late.back), &list(true));
            }
        }
    }
}

/// Record and set of the lines of fetches that are not known to be the most recently used ones.
fn fresh_lines<'i>(f: &'i Filter, items: &'i [Planned]) -> impl Iterator<Item = (u32, u32)> + 'i {
    let each = move |planned: &Planned| match planned.what {
        What::Fetch { records, lines, fresh, .. } => {
            [0, 1].map(|n| (fresh[n] && records[n] != 0).then(|| (records[n], f.set(lines[n]))))
        }
        _ => [None, None],
    };
    items.iter().flat_map(each).flatten()
}

/// Checks that the lines are the latest ones of their sets.
fn check_fetches(asm: &mut Asm, lines: &[(u32, u32)], fields: &mut Vec<usize>) {
    for &(record, set) in lines {
        asm.cmp_gs32_imm32(latest_disp(set), record);
        fields.push(asm.jcc(cc::NE, asm.pc()));
    }
}

/// References a line of I1 that is there; else leaves by `others`.
fn reference_present(asm: &mut Asm, (record, set): (u32, u32), scratch: Gpr, others: &mut Vec<usize>) {
    asm.cmp_gs32_imm32(latest_disp(set), record);
    let over = asm.jcc8(cc::E);
    // cmp qword gs:[record], 0
    asm.bytes(&[0x65, 0x48, 0x83, 0x3c, 0x25]);
    asm.bytes(&record_disp(record).to_le_bytes());
    asm.bytes(&[0]);
    others.push(asm.jcc(cc::E, asm.pc()));
    asm.load_gs(scratch, disp!(fetch_clock));
    asm.lea(scratch, scratch, 1);
    asm.store_gs(record_disp(record), scratch);
    asm.store_gs(disp!(fetch_clock), scratch);
    asm.store_gs32_imm(latest_disp(set), record);
    asm.bind8(over);
}

/// Makes branches lead to here.
fn bind(asm: &mut Asm, fields: &[usize]) {
    for &field in fields {
        asm.patch32(field, (asm.len() - field - 4) as i32);
    }
}

const EMPTY: Computed = Computed {
    pc: 0,
    form: Form::Once,
    accesses: Accesses::NONE,
    repeat: Repeat { compares: false, narrow: false, while_equal: false },
    len: 0,
    counters: [0; 6],
};

/// The lines of code that are fetched, by number: a *record* of each line is in every thread block, and holds when
/// the line became the latest of its set, or zero when I1 does not have it. A fetch of the latest line of a set is one
/// comparison; that of another line which is there sets its time, in whichever way the line is. The least recently used
/// line of a set is the one with the earliest time.
#[derive(Default)]
pub struct Lines {
    by_address: Map<u64, u32>,
    /// Address of each line, for the tool; never moved.
    addresses: Vec<u64>,
}

/// Most records.
pub const MAX_LINES: usize = (ROWS_ROOM as usize - MAX_FETCH_SETS * 4) / 8;

/// Where the addresses of lines are.
static ADDRESSES_OF_LINES: AtomicU64 = AtomicU64::new(0);

/// Most sets of I1.
pub const MAX_FETCH_SETS: usize = 1 << 16;

/// Displacement of the number of the record that was referenced last in a set of I1, `u32`.
pub const fn latest_disp(set: u32) -> i32 {
    FETCH_ROWS_OFFSET + set as i32 * 4
}

const RECORDS_OFFSET: i32 = FETCH_ROWS_OFFSET + MAX_FETCH_SETS as i32 * 4;

/// Displacement of a line's record.
pub const fn record_disp(record: u32) -> i32 {
    RECORDS_OFFSET + record as i32 * 8
}

/// The record at a displacement.
pub const fn record_at(disp: u32) -> u32 {
    (disp as i32 - RECORDS_OFFSET) as u32 / 8
}

/// Address of the line that a record at this displacement stands for.
pub fn line_of_record(disp: u32) -> u64 {
    let record = record_at(disp);
    let table = ADDRESSES_OF_LINES.load(Ordering::Relaxed) as *const u64;
    // SAFETY: the table is never moved; the record is in generated code, so its entry was written before.
    unsafe { *table.add(record as usize) }
}

impl Lines {
    /// Number of records, those not used included.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// True before the first record.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    fn record(&mut self, line: u64) -> u32 {
        if let Some(&record) = self.by_address.get(&line) {
            return record;
        }
        if self.addresses.is_empty() {
            // Room is address space only; pages come when touched.
            self.addresses.reserve_exact(MAX_LINES);
            ADDRESSES_OF_LINES.store(self.addresses.as_ptr() as u64, Ordering::Relaxed);
            self.addresses.push(0);
        }
        let record = self.addresses.len() as u32;
        if record as usize >= MAX_LINES {
            tallygraph_sys::die(2, b"tallygraph: too many lines of code for the simulation of I1\n");
        }
        self.addresses.push(line);
        self.by_address.insert(line, record);
        record
    }
}

/// Lines that are the most recently used ones of their sets at this point of the block.
#[derive(Default)]
struct KnownLines(Vec<(u32, u64)>);

impl KnownLines {
    fn is(&self, f: &Filter, line: u64) -> bool {
        self.0.contains(&(f.set(line), line))
    }

    fn set(&mut self, f: &Filter, line: u64) {
        let set = f.set(line);
        self.0.retain(|k| k.0 != set);
        self.0.push((set, line));
    }
}

/// What registers hold, in terms of their values at the group's check.
struct Values([Option<(u8, i32)>; 16]);

impl Values {
    fn new() -> Self {
        Values(core::array::from_fn(|n| Some((n as u8, 0))))
    }

    fn step(&mut self, effects: &Effects) {
        let before = self.0;
        for number in 0..16 {
            if effects.writes >> number & 1 != 0 {
                self.0[number] = None;
            }
        }
        for &(register, source, by) in effects.steps.iter().flatten() {
            if let Some((root, offset)) = before[source as usize & 15]
                && let Some(offset) = offset.checked_add(by)
            {
                self.0[register as usize & 15] = Some((root, offset));
            }
        }
    }

    /// An address in terms of the registers at the check.
    fn translate(&self, a: &Address) -> Option<Address> {
        let mut there = *a;
        let mut add = 0i64;
        for (part, scale) in [(&mut there.base, 1), (&mut there.index, a.scale as i64)] {
            if *part != NO_REGISTER {
                let (root, offset) = self.0[*part as usize & 15]?;
                *part = root;
                add += offset as i64 * scale;
            }
        }
        there.disp = there.disp.wrapping_add(add);
        let fits = i32::try_from(there.disp).is_ok();
        let has_register = there.base != NO_REGISTER || there.index != NO_REGISTER;
        // An index is never the stack pointer, and 32-bit addresses wrap.
        let encodable = there.index != RSP && !(a.narrow && there != *a);
        (encodable && (fits || !has_register)).then_some(there)
    }
}

/// Registers for a check.
struct Scratch {
    first: Gpr,
    second: Gpr,
    /// Those that must be spilled.
    spilled: u16,
}

const GPRS: [Gpr; 16] = [
    Gpr::Rax,
    Gpr::Rcx,
    Gpr::Rdx,
    Gpr::Rbx,
    Gpr::Rsp,
    Gpr::Rbp,
    Gpr::Rsi,
    Gpr::Rdi,
    Gpr::R8,
    Gpr::R9,
    Gpr::R10,
    Gpr::R11,
    Gpr::R12,
    Gpr::R13,
    Gpr::R14,
    Gpr::R15,
];

impl Scratch {
    fn none() -> Self {
        Scratch { first: Gpr::R10, second: Gpr::R11, spilled: 0 }
    }

    /// Two registers that `roots` does not need, dead ones first. `r12` can't be an index without a byte more.
    fn choose(dead: u16, roots: u16) -> Self {
        let usable = !roots & !bit(RSP) & !bit(12);
        let pick = |from: u16| {
            const ORDER: [u8; 14] = [11, 10, 0, 2, 1, 9, 8, 7, 6, 3, 15, 14, 13, 5];
            ORDER.into_iter().find(|&n| from >> n & 1 != 0)
        };
        let first = pick(dead & usable).or(pick(usable)).unwrap_or(11);
        let rest = usable & !bit(first);
        let second = pick(dead & rest).or(pick(rest)).unwrap_or(10);
        let spilled = (bit(first) | bit(second)) & !dead;
        Scratch { first: GPRS[first as usize], second: GPRS[second as usize], spilled }
    }

    fn spill(&self, asm: &mut Asm) {
        for r in [self.first, self.second] {
            if self.spilled & bit(r as u8) != 0 {
                asm.store_gs(gpr_disp(r as usize), r);
            }
        }
    }

    fn reload(&self, asm: &mut Asm) {
        for r in [self.first, self.second] {
            if self.spilled & bit(r as u8) != 0 {
                asm.load_gs(r, gpr_disp(r as usize));
            }
        }
    }
}

/// Saves the flags; `rax` and the scratch registers keep their values otherwise.
fn save_flags(asm: &mut Asm, scratch: &Scratch) {
    asm.mov(scratch.first, Gpr::Rax);
    asm.save_flags_rax();
    asm.store_gs(disp!(event_flags), Gpr::Rax);
    if scratch.first != Gpr::Rax {
        asm.mov(Gpr::Rax, scratch.first);
    }
}

fn is_near(address: u64) -> bool {
    i32::try_from(address as i64).is_ok()
}

/// Checks a line whose address is known.
fn check_constant(
    asm: &mut Asm,
    filter: &Filter,
    rows: i32,
    line: u64,
    scratch: &Scratch,
    fields: &mut Vec<usize>,
) {
    let at = rows + filter.row(line);
    if is_near(line) {
        asm.cmp_gs_imm32(at, line as i32);
    } else {
        asm.mov_imm64(scratch.first, line);
        asm.cmp_gs(at, scratch.first);
    }
    fields.push(asm.jcc(cc::NE, asm.pc()));
}

/// Checks the lines of data accesses: those at one base are looked at together.
fn check_data(
    asm: &mut Asm,
    sim: &Simulation,
    items: &[Planned],
    scratch: &Scratch,
    fields: &mut Vec<usize>,
) {
    // (key, lowest offset, end)
    let mut spans: Vec<(Address, i64, i64)> = Vec::new();
    for planned in items {
        let What::Data { size, at, .. } = planned.what else { continue };
        let key = Address { disp: 0, ..at };
        let size = (size as u64).min(sim.data.line()) as i64;
        spans.push((key, at.disp, at.disp.wrapping_add(size)));
    }
    spans.sort_unstable_by_key(|s| (s.0.base, s.0.index, s.0.scale, s.0.fs, s.0.narrow, s.1));
    let line = sim.data.line() as i64;
    let mut n = 0;
    while n < spans.len() {
        let (key, low, mut high) = spans[n];
        let mut several = false;
        n += 1;
        while n < spans.len() && spans[n].0 == key && spans[n].2.max(high) - low <= line {
            several |= spans[n].1 != low || spans[n].2 != high;
            high = high.max(spans[n].2);
            n += 1;
        }
        let at = Address { disp: low, ..key };
        if key.base == NO_REGISTER && key.index == NO_REGISTER && !key.fs {
            let mask = !(line as u64 - 1);
            let (first, last) = (low as u64 & mask, (high as u64 - 1) & mask);
            check_constant(asm, &sim.data, DATA_ROWS_OFFSET, first, scratch, fields);
            if last != first {
                check_constant(asm, &sim.data, DATA_ROWS_OFFSET, last, scratch, fields);
            }
        } else if !several || high - low <= line / 4 {
            check_line(asm, &sim.data, &at, line - (high - low), scratch, fields);
        } else {
            check_line(asm, &sim.data, &at, line - 1, scratch, fields);
            check_line(asm, &sim.data, &Address { disp: high - 1, ..key }, line - 1, scratch, fields);
        }
    }
}

/// Checks that the address is at most `limit` bytes into the most recently used line of its set.
fn check_line(
    asm: &mut Asm,
    filter: &Filter,
    at: &Address,
    limit: i64,
    scratch: &Scratch,
    fields: &mut Vec<usize>,
) {
    let (s, t) = (scratch.first, scratch.second);
    load_address(asm, s, t, at);
    let (sn, tn) = (s as u8, t as u8);
    // mov t32, s32
    let rex = 0x40 | (sn >> 3) << 2 | tn >> 3;
    asm.bytes(&[rex, 0x89, 0xc0 | (sn & 7) << 3 | tn & 7]);
    let group = |asm: &mut Asm, opcode: u8, field: u8| {
        asm.bytes(&[0x40 | tn >> 3, opcode, 0xc0 | field << 3 | tn & 7]);
    };
    if filter.line_shift > filter.stride_shift {
        group(asm, 0xc1, 5);
        asm.bytes(&[filter.line_shift - filter.stride_shift]);
    } else if filter.line_shift < filter.stride_shift {
        group(asm, 0xc1, 4);
        asm.bytes(&[filter.stride_shift - filter.line_shift]);
    }
    group(asm, 0x81, 4);
    asm.bytes(&((filter.set_mask << filter.stride_shift) as i32).to_le_bytes());
    // sub s, gs:[t + rows]
    asm.bytes(&[0x65, 0x48 | (sn >> 3) << 2 | tn >> 3, 0x2b, 0x80 | (sn & 7) << 3 | tn & 7]);
    asm.bytes(&DATA_ROWS_OFFSET.to_le_bytes());
    // cmp s, limit
    if let Ok(limit) = i8::try_from(limit) {
        asm.bytes(&[0x48 | sn >> 3, 0x83, 0xf8 | sn & 7, limit as u8]);
    } else {
        asm.bytes(&[0x48 | sn >> 3, 0x81, 0xf8 | sn & 7]);
        asm.bytes(&(limit as i32).to_le_bytes());
    }
    fields.push(asm.jcc(cc::A, asm.pc()));
}

/// Loads an address into `s`; `t` is clobbered when the base of `fs` takes part.
fn load_address(asm: &mut Asm, s: Gpr, t: Gpr, at: &Address) {
    if !at.fs {
        return lea(asm, s, at);
    }
    // rdfsbase s
    asm.bytes(&[0xf3, 0x48 | s as u8 >> 3, 0x0f, 0xae, 0xc0 | s as u8 & 7]);
    if at.index == NO_REGISTER && at.base == NO_REGISTER && !at.narrow {
        lea(asm, s, &Address { base: s as u8, fs: false, ..*at });
    } else {
        lea(asm, t, &Address { fs: false, ..*at });
        lea(asm, s, &Address { base: s as u8, index: t as u8, scale: 1, disp: 0, fs: false, narrow: false });
    }
}

/// `lea r, [at]`, or `mov` for an address that is no displacement.
fn lea(asm: &mut Asm, r: Gpr, at: &Address) {
    let r = r as u8;
    if at.base == NO_REGISTER && at.index == NO_REGISTER && !is_near(at.disp as u64) {
        return asm.mov_imm64(GPRS[r as usize], at.disp as u64);
    }
    if at.narrow {
        asm.bytes(&[0x67]);
    }
    let (b, x) = (at.base, at.index);
    let base_bit = if b == NO_REGISTER { 0 } else { b >> 3 };
    let index_bit = if x == NO_REGISTER { 0 } else { x >> 3 };
    asm.bytes(&[0x48 | (r >> 3) << 2 | index_bit << 1 | base_bit, 0x8d]);
    let scale = at.scale.max(1).trailing_zeros() as u8;
    let disp = at.disp as i32;
    let short = i8::try_from(disp).ok();
    let mode = match (b, short) {
        (NO_REGISTER, _) => 0,
        (_, Some(0)) if b & 7 != 5 => 0,
        (_, Some(_)) => 0x40,
        _ => 0x80,
    };
    if x != NO_REGISTER || b == NO_REGISTER || b & 7 == 4 {
        let index = if x == NO_REGISTER { 4 } else { x & 7 };
        let base = if b == NO_REGISTER { 5 } else { b & 7 };
        asm.bytes(&[mode | (r & 7) << 3 | 4, scale << 6 | index << 3 | base]);
    } else {
        asm.bytes(&[mode | (r & 7) << 3 | b & 7]);
    }
    match (b, mode) {
        (NO_REGISTER, _) | (_, 0x80) => asm.bytes(&disp.to_le_bytes()),
        (_, 0x40) => asm.bytes(&[disp as u8]),
        _ => {}
    }
}

/// Stores the addresses of data items for the tool.
fn store_addresses(asm: &mut Asm, items: &[Planned], scratch: &Scratch) {
    let mut n = 0;
    for planned in items {
        let What::Data { at, .. } = planned.what else { continue };
        load_address(asm, scratch.first, scratch.second, &at);
        asm.store_gs(disp!(event_addresses) + n * 8, scratch.first);
        n += 1;
    }
}

/// Stores the registers that a repeated instruction changes.
fn store_before(asm: &mut Asm) {
    for (n, r) in [Gpr::Rcx, Gpr::Rsi, Gpr::Rdi].into_iter().enumerate() {
        asm.store_gs(disp!(event_before) + n as i32 * 8, r);
    }
}

/// Emits the call of the tool with a list of items, going on behind it or at `back`. All registers and flags
/// keep their values.
fn call_tool(asm: &mut Asm, routine: u64, back: Option<u64>, items: &[Item]) {
    // mov dword gs:[event_list], imm32: the list follows the jump.
    asm.store_gs32_imm(disp!(event_list), 0);
    let field = asm.len() - 4;
    asm.jmp(routine);
    let list = asm.pc();
    asm.patch32(field, list as i32);
    let behind = list + 8 + items.len() as u64 * size_of::<Item>() as u64;
    asm.bytes(&(items.len() as u32).to_le_bytes());
    asm.bytes(&(back.unwrap_or(behind) as u32).to_le_bytes());
    for item in items {
        asm.bytes(&item.word.to_le_bytes());
        asm.bytes(&item.counter.to_le_bytes());
        asm.bytes(&item.size.to_le_bytes());
        asm.bytes(&[item.kind, item.column]);
    }
}

/// The list of items a thread is to simulate.
pub fn items(state: &ThreadState) -> &'static [Item] {
    let at = state.event_list;
    // SAFETY: generated code stores the address of a list that `call_tool` wrote; the items may be unaligned.
    unsafe {
        let n = (at as *const u32).read_unaligned() as usize;
        core::slice::from_raw_parts((at + 8) as *const Item, n)
    }
}

/// Adds the certain events of a block to the running totals where flags are dead.
pub fn add_totals(asm: &mut Asm, sums: &[u32; CERTAIN]) {
    for (event, &n) in sums.iter().enumerate() {
        if n != 0 {
            asm.add_gs_imm(total_disp(event), n as i32);
        }
    }
}

/// The same through a register, with flags left alone.
pub fn add_totals_through(asm: &mut Asm, r: Gpr, sums: &[u32; CERTAIN]) {
    for (event, &n) in sums.iter().enumerate() {
        if n != 0 {
            asm.load_gs(r, total_disp(event));
            asm.lea(r, r, n as i32);
            asm.store_gs(total_disp(event), r);
        }
    }
}

/// The copies of the running totals beside an entry.
fn beside(entry: *const Entry, event: usize) -> *mut u64 {
    (entry as u64).wrapping_add(entry_disp(event) as i64 as u64) as *mut u64
}

/// What [`pop_totals`] does, for the engine.
///
/// # Safety
///
/// `entry` lies on the shadow stack of the thread, whose counters are mapped.
pub unsafe fn add_inclusive(state: &mut ThreadState, sim: &Simulation, inclusive: u32, entry: *const Entry) {
    for event in (0..CERTAIN).filter(|&e| sim.columns[e] != 0) {
        // SAFETY: by this function's contract.
        unsafe {
            let total = *state.counter(crate::layout::TOTAL_COUNTER + 1 + event as u32);
            let sum = state.counter(inclusive + sim.columns[event]);
            *sum = sum.wrapping_add(total.wrapping_sub(*beside(entry, event)));
        }
    }
}

/// Makes the entry begin now.
///
/// # Safety
///
/// As for [`add_inclusive`].
pub unsafe fn renew_totals(state: &mut ThreadState, sim: &Simulation, entry: *const Entry) {
    for event in (0..CERTAIN).filter(|&e| sim.columns[e] != 0) {
        // SAFETY: by this function's contract.
        unsafe { *beside(entry, event) = *state.counter(crate::layout::TOTAL_COUNTER + 1 + event as u32) };
    }
}

/// An entry is pushed now.
///
/// # Safety
///
/// As for [`add_inclusive`].
pub unsafe fn begin(state: &mut ThreadState, sim: &Simulation, entry: *const Entry) {
    // SAFETY: by this function's contract.
    unsafe { renew_totals(state, sim, entry) };
    clear_mark(entry as u64);
}

/// The mark of the entry at this address: uncertain events were raised under it.
///
/// # Safety
///
/// An entry of a shadow stack of a process that simulates.
pub unsafe fn mark(entry: u64) -> &'static mut u64 {
    // SAFETY: by this function's contract the memory beside the stack is mapped.
    unsafe { &mut *(entry.wrapping_add(ENTRY_MARK as u64) as *mut u64) }
}

/// Clears the mark of a new entry.
pub fn clear_mark(entry: u64) {
    // SAFETY: called when simulating, for an entry that was just pushed.
    unsafe { *mark(entry) = 0 };
}

/// Part of pushing a shadow stack entry: `entry` holds its address, `r` is free.
pub fn push_totals(asm: &mut Asm, sim: &Simulation, entry: Gpr, r: Gpr) {
    for event in 0..CERTAIN {
        if sim.columns[event] != 0 {
            asm.load_gs(r, total_disp(event));
            asm.store(entry, entry_disp(event), r);
        }
    }
    asm.store_imm32(entry, ENTRY_MARK, 0);
}

/// Part of popping an entry whose edge's inclusive counters begin at `inclusive`; flags are free.
pub fn pop_totals(asm: &mut Asm, sim: &Simulation, entry: Gpr, r: Gpr, inclusive: u32) {
    for event in 0..CERTAIN {
        if sim.columns[event] != 0 {
            asm.load_gs(r, total_disp(event));
            asm.sub_load(r, entry, entry_disp(event));
            asm.add_gs(counter_disp(inclusive + sim.columns[event]), r);
        }
    }
}

/// The same with flags left alone; `r` and `other` are free.
pub fn pop_totals_through(asm: &mut Asm, sim: &Simulation, entry: Gpr, r: Gpr, other: Gpr, inclusive: u32) {
    for event in 0..CERTAIN {
        if sim.columns[event] != 0 {
            let counter = counter_disp(inclusive + sim.columns[event]);
            asm.load(r, entry, entry_disp(event));
            asm.bytes(&[0x48 | r as u8 >> 3, 0xf7, 0xd0 | r as u8 & 7]); // not
            asm.load_gs(other, total_disp(event));
            asm.lea_sum(r, r, other);
            asm.lea(r, r, 1);
            asm.load_gs(other, counter);
            asm.lea_sum(r, r, other);
            asm.store_gs(counter, r);
        }
    }
}

/// Asks the tool to pass the uncertain events of the entry in `entry` on, when there are any. Flags are free.
pub fn pass_on(asm: &mut Asm, entry: Gpr, edge_inclusive: u32) {
    // cmp qword [entry + mark], 0
    let e = entry as u8;
    asm.bytes(&[0x48 | e >> 3, 0x83, 0xb8 | e & 7]);
    asm.bytes(&ENTRY_MARK.to_le_bytes());
    asm.bytes(&[0]);
    let over = asm.jcc8(cc::E);
    call_pass_on(asm, edge_inclusive);
    asm.bind8(over);
}

/// The same with flags left alone. `rcx` keeps its value.
pub fn pass_on_keeping_flags(asm: &mut Asm, entry: Gpr, edge_inclusive: u32) {
    asm.store_gs(gpr_disp(1), Gpr::Rcx);
    asm.load(Gpr::Rcx, entry, ENTRY_MARK);
    asm.bytes(&[0xe3, 0]); // jrcxz
    let over = asm.len() - 1;
    call_pass_on(asm, edge_inclusive);
    asm.bind8(over);
    asm.load_gs(Gpr::Rcx, gpr_disp(1));
}

fn call_pass_on(asm: &mut Asm, edge_inclusive: u32) {
    asm.store_gs32_imm(disp!(event_edge), edge_inclusive);
    asm.store_gs32_imm(disp!(event_list), 0);
    let field = asm.len() - 4;
    asm.jmp(passing_on as *const () as u64);
    let list = asm.pc();
    asm.patch32(field, list as i32);
    asm.bytes(&0u32.to_le_bytes());
    asm.bytes(&((list + 8) as u32).to_le_bytes());
}

const XMM: i32 = offset_of!(ThreadState, xmm) as i32;
const SAVE: i32 = offset_of!(ThreadState, event_registers) as i32;

macro_rules! tool_call {
    ($(#[$doc:meta])* $name:ident, $end:literal, $function:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// Jumped to from generated code only; not a function. All registers and flags keep their values.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "mov dword ptr gs:[{busy}], 1",
                "mov gs:[{s} + 0x00], rax",
                "mov gs:[{s} + 0x08], rcx",
                "mov gs:[{s} + 0x10], rdx",
                "mov gs:[{s} + 0x18], rbx",
                "mov gs:[{s} + 0x20], rsp",
                "mov gs:[{s} + 0x28], rbp",
                "mov gs:[{s} + 0x30], rsi",
                "mov gs:[{s} + 0x38], rdi",
                "mov gs:[{s} + 0x40], r8",
                "mov gs:[{s} + 0x48], r9",
                "mov gs:[{s} + 0x50], r10",
                "mov gs:[{s} + 0x58], r11",
                "mov gs:[{s} + 0x60], r12",
                "mov gs:[{s} + 0x68], r13",
                "mov gs:[{s} + 0x70], r14",
                "mov gs:[{s} + 0x78], r15",
                "mov rsp, gs:[{engine_sp}]",
                "pushfq",
                "pop rbx",
                "mov gs:[{flags}], rbx",
                "mov rbp, gs:[0]",
                "cld",
                "movaps [rbp + {x} + 0x00], xmm0",
                "movaps [rbp + {x} + 0x10], xmm1",
                "movaps [rbp + {x} + 0x20], xmm2",
                "movaps [rbp + {x} + 0x30], xmm3",
                "movaps [rbp + {x} + 0x40], xmm4",
                "movaps [rbp + {x} + 0x50], xmm5",
                "movaps [rbp + {x} + 0x60], xmm6",
                "movaps [rbp + {x} + 0x70], xmm7",
                "movaps [rbp + {x} + 0x80], xmm8",
                "movaps [rbp + {x} + 0x90], xmm9",
                "movaps [rbp + {x} + 0xa0], xmm10",
                "movaps [rbp + {x} + 0xb0], xmm11",
                "movaps [rbp + {x} + 0xc0], xmm12",
                "movaps [rbp + {x} + 0xd0], xmm13",
                "movaps [rbp + {x} + 0xe0], xmm14",
                "movaps [rbp + {x} + 0xf0], xmm15",
                "mov rdi, rbp",
                "call gs:[{function}]",
                "movaps xmm0, [rbp + {x} + 0x00]",
                "movaps xmm1, [rbp + {x} + 0x10]",
                "movaps xmm2, [rbp + {x} + 0x20]",
                "movaps xmm3, [rbp + {x} + 0x30]",
                "movaps xmm4, [rbp + {x} + 0x40]",
                "movaps xmm5, [rbp + {x} + 0x50]",
                "movaps xmm6, [rbp + {x} + 0x60]",
                "movaps xmm7, [rbp + {x} + 0x70]",
                "movaps xmm8, [rbp + {x} + 0x80]",
                "movaps xmm9, [rbp + {x} + 0x90]",
                "movaps xmm10, [rbp + {x} + 0xa0]",
                "movaps xmm11, [rbp + {x} + 0xb0]",
                "movaps xmm12, [rbp + {x} + 0xc0]",
                "movaps xmm13, [rbp + {x} + 0xd0]",
                "movaps xmm14, [rbp + {x} + 0xe0]",
                "movaps xmm15, [rbp + {x} + 0xf0]",
                "mov eax, gs:[{list}]",
                "mov eax, [rax + 4]",
                "mov gs:[{back}], rax",
                // Direction flag, overflow flag, then the others from the low byte.
                "bt ebx, 10",
                "jnc 2f",
                "std",
                "2:",
                "mov eax, ebx",
                "mov ah, bl",
                "shr ebx, 11",
                "and bl, 1",
                "add bl, 0x7f",
                "sahf",
                "mov rax, gs:[{s} + 0x00]",
                "mov rcx, gs:[{s} + 0x08]",
                "mov rdx, gs:[{s} + 0x10]",
                "mov rbx, gs:[{s} + 0x18]",
                "mov rsp, gs:[{s} + 0x20]",
                "mov rbp, gs:[{s} + 0x28]",
                "mov rsi, gs:[{s} + 0x30]",
                "mov rdi, gs:[{s} + 0x38]",
                "mov r8, gs:[{s} + 0x40]",
                "mov r9, gs:[{s} + 0x48]",
                "mov r10, gs:[{s} + 0x50]",
                "mov r11, gs:[{s} + 0x58]",
                "mov dword ptr gs:[{busy}], 0",
                "jmp gs:[{back}]",
                concat!(".globl ", $end),
                concat!($end, ":"),
                s = const SAVE,
                x = const XMM,
                flags = const disp!(event_flags_all),
                engine_sp = const disp!(engine_sp),
                function = const disp!($function),
                list = const disp!(event_list),
                back = const disp!(event_back),
                busy = const disp!(event_busy),
            )
        }
    };
}

tool_call! {
    /// Has the tool simulate the items in the thread's `event_list`.
    events, "tallygraph_events_end", on_events
}

tool_call! {
    /// Has the tool pass the uncertain events of the newest shadow stack entry on, to the edge whose inclusive
    /// counters begin at `event_edge`, and to the entry below.
    passing_on, "tallygraph_passing_on_end", on_pop
}

/// Distance of the rows beside two shadow stack entries, in bytes per byte of distance of the entries.
pub const ROW_SCALE: u64 = 8;
/// Most columns of such a row.
pub const ROW_COLUMNS: usize = 24;

const ADDRESSES: i32 = offset_of!(ThreadState, event_addresses) as i32;

/// Does what [`events`] does for a list of references, for caches of the usual shape: lines of 64 bytes, eight ways
/// in I1 and D1, sixteen in LL. What it is not made for it leaves to [`events`], item by item.
///
/// `rsi` is the item, `ecx` the number of items left, `rdi` the next address; `rax` a line, `rdx` its row.
///
/// # Safety
///
/// Jumped to from generated code only; not a function. All registers keep their values, flags do not.
#[unsafe(naked)]
pub unsafe extern "C" fn references() {
    naked_asm!(
        "mov dword ptr gs:[{busy}], 1",
        "mov gs:[{s} + 0x00], rax",
        "mov gs:[{s} + 0x08], rcx",
        "mov gs:[{s} + 0x10], rdx",
        "mov gs:[{s} + 0x20], rsp",
        "mov gs:[{s} + 0x30], rsi",
        "mov gs:[{s} + 0x38], rdi",
        "mov gs:[{s} + 0x40], r8",
        "mov gs:[{s} + 0x48], r9",
        "mov esi, gs:[{list}]",
        "mov rsp, gs:[{engine_sp}]",
        "mov rdi, gs:[0]",
        "mov ecx, [rsi]",
        "add rdi, {addresses}",
        "add rsi, 8",
        // One item.
        "2:",
        "cmp byte ptr [rsi + 14], 0",
        "movzx r8d, word ptr [rsi + 12]",
        "je 30f",
        "mov rax, [rdi]",
        "add rdi, 8",
        "mov edx, eax",
        "and edx, 63",
        "add edx, r8d",
        "cmp edx, 64",
        "ja 4f",
        "and rax, -64",
        "mov edx, eax",
        "and edx, gs:[{data_mask}]",
        "add rdx, gs:[{data_rows}]",
        "cmp [rdx], rax",
        "je 5f",
        "call 20f",
        "jne 6f",
        "5:",
        "add rsi, 16",
        "dec ecx",
        "jnz 2b",
        "mov esi, gs:[{list}]",
        "mov eax, [rsi + 4]",
        "mov gs:[{back}], rax",
        "mov rax, gs:[{s} + 0x00]",
        "mov rcx, gs:[{s} + 0x08]",
        "mov rdx, gs:[{s} + 0x10]",
        "mov rsp, gs:[{s} + 0x20]",
        "mov rsi, gs:[{s} + 0x30]",
        "mov rdi, gs:[{s} + 0x38]",
        "mov r8, gs:[{s} + 0x40]",
        "mov r9, gs:[{s} + 0x48]",
        "mov dword ptr gs:[{busy}], 0",
        "jmp gs:[{back}]",
        // Data over two lines.
        "4:",
        "and rax, -64",
        "mov edx, eax",
        "and edx, gs:[{data_mask}]",
        "add rdx, gs:[{data_rows}]",
        "call 20f",
        "jne 8f",
        "add rax, 64",
        "mov edx, eax",
        "and edx, gs:[{data_mask}]",
        "add rdx, gs:[{data_rows}]",
        "call 20f",
        "je 5b",
        "jmp 9f",
        "8:",
        "add rax, 64",
        "mov edx, eax",
        "and edx, gs:[{data_mask}]",
        "add rdx, gs:[{data_rows}]",
        "call 20f",
        "jmp 9f",
        // The tool does this item and those that follow.
        "30:",
        "mov dword ptr gs:[{missed}], 0",
        "jmp 31f",
        // The tool does LL for this item and all for those that follow.
        "9:",
        "mov dword ptr gs:[{missed}], 1",
        "31:",
        "mov eax, gs:[{list}]",
        "mov eax, [rax]",
        "sub eax, ecx",
        "mov gs:[{done}], eax",
        "mov rax, gs:[{s} + 0x00]",
        "mov rcx, gs:[{s} + 0x08]",
        "mov rdx, gs:[{s} + 0x10]",
        "mov rsp, gs:[{s} + 0x20]",
        "mov rsi, gs:[{s} + 0x30]",
        "mov rdi, gs:[{s} + 0x38]",
        "mov r8, gs:[{s} + 0x40]",
        "mov r9, gs:[{s} + 0x48]",
        "jmp {events}",
        // Missed in L1, one line.
        "6:",
        "mov rdx, gs:[{ll_rows}]",
        "test rdx, rdx",
        "jz 9b",
        "mov r8, gs:[{top}]",
        "cmp qword ptr [r8 + {mark}], 0",
        "je 9b",
        // With several threads LL is locked; when another has it, the tool waits.
        "mov r9, gs:[{ll_lock}]",
        "test r9, r9",
        "jz 32f",
        "mov r8d, 1",
        "xchg [r9], r8d",
        "test r8d, r8d",
        "jnz 9b",
        "mov r8, gs:[{top}]",
        "32:",
        "shl r8, 3",
        "add r8, gs:[{rows_bias}]",
        "movzx r9d, byte ptr [rsi + 15]",
        "inc qword ptr [r8 + r9 * 8]",
        "mov r9d, [rsi + 8]",
        "inc qword ptr gs:[r9 * 8 + {counters}]",
        "mov r8d, eax",
        "shr r8d, 6",
        "and r8d, gs:[{ll_mask}]",
        "shl r8d, 7",
        "add rdx, r8",
        "cmp [rdx], rax",
        "je 33f",
        "call 21f",
        "je 33f",
        // Missed in LL, too.
        "mov r8, gs:[{top}]",
        "shl r8, 3",
        "add r8, gs:[{rows_bias}]",
        "movzx r9d, byte ptr [rsi + 15]",
        "inc qword ptr [r8 + r9 * 8 + 24]",
        "mov r9d, [rsi + 8]",
        "inc qword ptr gs:[r9 * 8 + {counters} + 8]",
        "33:",
        "mov r9, gs:[{ll_lock}]",
        "test r9, r9",
        "jz 5b",
        "mov dword ptr [r9], 0",
        "jmp 5b",
        // Moves the line to the front of eight ways; ZF says that it was there.
        "20:",
        "mov r8, [rdx]",
        "cmp r8, rax",
        "je 22f",
        "mov [rdx], rax",
        "mov r9, [rdx + 8]",
        "mov [rdx + 8], r8",
        "cmp r9, rax",
        "je 22f",
        "mov r8, [rdx + 16]",
        "mov [rdx + 16], r9",
        "cmp r8, rax",
        "je 22f",
        "mov r9, [rdx + 24]",
        "mov [rdx + 24], r8",
        "cmp r9, rax",
        "je 22f",
        "mov r8, [rdx + 32]",
        "mov [rdx + 32], r9",
        "cmp r8, rax",
        "je 22f",
        "mov r9, [rdx + 40]",
        "mov [rdx + 40], r8",
        "cmp r9, rax",
        "je 22f",
        "mov r8, [rdx + 48]",
        "mov [rdx + 48], r9",
        "cmp r8, rax",
        "je 22f",
        "mov r9, [rdx + 56]",
        "mov [rdx + 56], r8",
        "cmp r9, rax",
        "22:",
        "ret",
        // The same of sixteen.
        "21:",
        "mov r8, [rdx]",
        "mov [rdx], rax",
        "mov r9, [rdx + 8]",
        "mov [rdx + 8], r8",
        "cmp r9, rax",
        "je 23f",
        "mov r8, [rdx + 16]",
        "mov [rdx + 16], r9",
        "cmp r8, rax",
        "je 23f",
        "mov r9, [rdx + 24]",
        "mov [rdx + 24], r8",
        "cmp r9, rax",
        "je 23f",
        "mov r8, [rdx + 32]",
        "mov [rdx + 32], r9",
        "cmp r8, rax",
        "je 23f",
        "mov r9, [rdx + 40]",
        "mov [rdx + 40], r8",
        "cmp r9, rax",
        "je 23f",
        "mov r8, [rdx + 48]",
        "mov [rdx + 48], r9",
        "cmp r8, rax",
        "je 23f",
        "mov r9, [rdx + 56]",
        "mov [rdx + 56], r8",
        "cmp r9, rax",
        "je 23f",
        "mov r8, [rdx + 64]",
        "mov [rdx + 64], r9",
        "cmp r8, rax",
        "je 23f",
        "mov r9, [rdx + 72]",
        "mov [rdx + 72], r8",
        "cmp r9, rax",
        "je 23f",
        "mov r8, [rdx + 80]",
        "mov [rdx + 80], r9",
        "cmp r8, rax",
        "je 23f",
        "mov r9, [rdx + 88]",
        "mov [rdx + 88], r8",
        "cmp r9, rax",
        "je 23f",
        "mov r8, [rdx + 96]",
        "mov [rdx + 96], r9",
        "cmp r8, rax",
        "je 23f",
        "mov r9, [rdx + 104]",
        "mov [rdx + 104], r8",
        "cmp r9, rax",
        "je 23f",
        "mov r8, [rdx + 112]",
        "mov [rdx + 112], r9",
        "cmp r8, rax",
        "je 23f",
        "mov r9, [rdx + 120]",
        "mov [rdx + 120], r8",
        "cmp r9, rax",
        "23:",
        "ret",
        ".globl tallygraph_references_end",
        "tallygraph_references_end:",
        s = const SAVE,
        busy = const disp!(event_busy),
        list = const disp!(event_list),
        engine_sp = const disp!(engine_sp),
        addresses = const ADDRESSES,
        back = const disp!(event_back),
        data_mask = const disp!(data_mask),
        data_rows = const disp!(data_rows),
        ll_mask = const disp!(ll_mask),
        ll_rows = const disp!(ll_rows),
        ll_lock = const disp!(ll_lock),
        rows_bias = const disp!(rows_bias),
        top = const disp!(shadow_top),
        done = const disp!(event_done),
        missed = const disp!(event_missed),
        mark = const ENTRY_MARK,
        counters = const COUNTERS_OFFSET,
        events = sym events,
    )
}

unsafe extern "C" {
    static tallygraph_references_end: u8;
    static tallygraph_events_end: u8;
    static tallygraph_passing_on_end: u8;
}

/// True when a thread at `pc` is on its way into or out of the simulation, or in it: it will go on in the code
/// cache by itself.
pub fn is_simulating(state: &ThreadState, pc: u64) -> bool {
    let within = |start: unsafe extern "C" fn(), end: &u8| {
        (start as *const () as u64..end as *const u8 as u64).contains(&pc)
    };
    // SAFETY: only the addresses of the labels are taken.
    state.event_busy != 0
        || unsafe {
            within(events, &tallygraph_events_end)
                || within(passing_on, &tallygraph_passing_on_end)
                || within(references, &tallygraph_references_end)
        }
}

const _: () = assert!(MAX_INSNS < u16::MAX as usize);
