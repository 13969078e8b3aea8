//! The simulated machine: caches and branch predictors, and where their events are counted.
//!
//! Generated code filters what changes nothing and hands over the rest as lists of items
//! ([`tallygraph_engine::events`]). Each thread has an L1 and predictors of its own; LL is shared, behind a
//! lock of its own. What is counted here, in contrast to what is certain when a block is translated, goes to
//! three places: the counter of the site, and, for the inclusive cost of calls, a *row* beside the newest shadow
//! stack entry, with one sum per event. When the entry is popped, its row is added to the edge and to the row of
//! the entry below ([`on_pop`]). So a call under which nothing happened pays for one comparison.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use tallygraph_cachesim::{
    Cache, ConditionalPredictor, Fidelity, Geometry, IndirectPredictor, Kind, LastLevel, Options, RowLayout,
};
use tallygraph_callgraph::Entry;
use tallygraph_engine::events::{
    self, CERTAIN, Computed, Filter, Item, ROW_SCALE, Simulation, SiteKind, kind,
};
use tallygraph_engine::layout::{DATA_ROWS_OFFSET, ROWS_ROOM, TOTAL_COUNTER};
use tallygraph_engine::thread::{ThreadState, reg};
use tallygraph_sys::mem::{self, RW};
use tallygraph_sys::{Errno, abi, syscall};
use tallygraph_wire::config::{Config, Number, Text};
use tallygraph_wire::events::{Event, PREFETCH, WRITE_BACK, collected};
use tallygraph_x64::accesses::{Address, Form, Lanes, NO_REGISTER};

/// Bytes of shadow stack that rows are kept for.
pub const SHADOW_STACK: u64 = 1 << 30;

/// What is simulated in this process; set once, before the guest runs.
pub struct Machine {
    /// For the engine; none when only Ir is counted.
    pub simulation: Option<Simulation>,
    /// Columns in all.
    pub columns: usize,
    /// Column of the first event of fetches, reads and writes by level: L1 missed, LL missed, line written back.
    misses: [[u8; 3]; 3],
    /// Columns of `Bcm` and `Bim`.
    mispredictions: [u8; 2],
    /// Columns of the certain events.
    certain: [u8; CERTAIN],
    /// Columns of system calls: number, time, CPU time.
    system: [u8; 3],
    /// 1 msec, 2 usec, 3 nsec, 0 off.
    system_unit: u64,
    i1: Option<Geometry>,
    d1: Option<Geometry>,
    ll: Option<Geometry>,
    options: Options,
    min_line: u32,
}

static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(core::ptr::null_mut());

/// The simulated machine.
pub fn machine() -> &'static Machine {
    // SAFETY: null or set by `configure` to what is never freed.
    unsafe { MACHINE.load(Ordering::Relaxed).as_ref() }.unwrap_or(&NOTHING)
}

const NO_OPTIONS: Options = Options { write_back: false, prefetch: false, fidelity: Fidelity::Exact };

static NOTHING: Machine = Machine {
    simulation: None,
    columns: 1,
    misses: [[0; 3]; 3],
    mispredictions: [0; 2],
    certain: [0; CERTAIN],
    system: [0; 3],
    system_unit: 0,
    i1: None,
    d1: None,
    ll: None,
    options: NO_OPTIONS,
    min_line: 64,
};

/// LL; null when there is none.
static LAST_LEVEL: AtomicPtr<LastLevel<&'static mut [u64]>> = AtomicPtr::new(core::ptr::null_mut());

/// Held by who uses LL when there are several threads. A lock that spins: it is held for a few dozen
/// instructions, in generated code too, and a thread that holds it waits for nothing.
static LAST_LEVEL_LOCK: AtomicU32 = AtomicU32::new(0);

/// There are or were several threads.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Rows of LL for [`events::references`], 0 when the tool looks after it: it has another shape.
static LAST_LEVEL_ROWS: AtomicU64 = AtomicU64::new(0);

/// Runs `f` on LL, if there is one.
fn with_last_level<R>(f: impl FnOnce(&mut LastLevel<&'static mut [u64]>) -> R) -> Option<R> {
    let last = LAST_LEVEL.load(Ordering::Relaxed);
    if last.is_null() {
        return None;
    }
    let shared = SHARED.load(Ordering::Relaxed);
    let mut tries = 0u32;
    while shared && LAST_LEVEL_LOCK.swap(1, Ordering::Acquire) != 0 {
        tries += 1;
        if tries.is_multiple_of(64) {
            // SAFETY: gives way to the thread that holds the lock.
            let _ = unsafe { syscall!(abi::__NR_sched_yield) };
        }
        core::hint::spin_loop();
    }
    // SAFETY: never freed; the lock, or that there is one thread, makes the access exclusive.
    let result = f(unsafe { &mut *last });
    if shared {
        LAST_LEVEL_LOCK.store(0, Ordering::Release);
    }
    Some(result)
}

/// What a thread has of the machine.
pub struct Core {
    /// D1.
    data: Option<Cache<&'static mut [u64]>>,
    /// Displacements of the records of the lines in I1, set by set, 0 for an empty way.
    fetched: Box<[u32]>,
    conditional: ConditionalPredictor,
    indirect: IndirectPredictor,
    /// Rows of sums beside the shadow stack.
    rows: u64,
}

/// Sets the machine up from the configuration.
pub fn configure(config: &Config, fs_base: bool) {
    let events = collected(config);
    let column = |e: Event| events.iter().position(|x| *x == e).unwrap_or(0) as u8;
    let geometry = |key: Text| {
        let text = core::str::from_utf8(config.text(key).unwrap_or(b"")).unwrap_or("");
        Geometry::parse(text).ok()
    };
    let caches = events.contains(&Event::Dr);
    let branches = events.contains(&Event::Bc);
    let bus = events.contains(&Event::Ge);
    let variant = config.get(Number::SimVariant);
    let (i1, d1, ll) = (geometry(Text::CacheI1), geometry(Text::CacheD1), geometry(Text::CacheLl));
    let options = Options {
        write_back: variant & WRITE_BACK != 0,
        prefetch: variant & PREFETCH != 0,
        fidelity: Fidelity::Callgrind,
    };
    let certain = [Event::Dr, Event::Dw, Event::Bc, Event::Bi, Event::Ge].map(column);
    let filter = |g: Option<Geometry>| g.map(filter_of).unwrap_or_default();
    let lines = [i1, d1, ll].map(|g| g.map_or(64, |g| g.line()));
    let simulation = Simulation {
        caches,
        branches,
        bus,
        data: filter(d1),
        fetch: filter(i1),
        every_reference: false,
        every_write: options.write_back,
        fs_base,
        min_line: lines.into_iter().min().unwrap_or(64) as u16,
        miss_columns: [Event::I1mr, Event::D1mr, Event::D1mw].map(column),
        usual_shape: !options.write_back
            && [i1, d1].iter().flatten().all(|g| (g.ways(), g.line()) == (8, 64))
            && ll.is_some_and(|g| g.line() == 64),
        columns: certain.map(u32::from),
    };
    let machine = Machine {
        simulation: (events.len() > 1).then_some(simulation),
        columns: events.len(),
        misses: [
            [Event::I1mr, Event::ILmr, Event::ILdmr].map(column),
            [Event::D1mr, Event::DLmr, Event::DLdmr].map(column),
            [Event::D1mw, Event::DLmw, Event::DLdmw].map(column),
        ],
        mispredictions: [Event::Bcm, Event::Bim].map(column),
        certain,
        system: [Event::sysCount, Event::sysTime, Event::sysCpuTime].map(column),
        system_unit: match config.get(Number::CollectSystime) {
            4 => 1,
            unit => unit,
        },
        i1,
        d1,
        ll,
        options,
        min_line: lines.into_iter().min().unwrap_or(64),
    };
    if let Some(ll) = machine.ll.filter(|_| caches) {
        let rows = alloc::vec![0u64; RowLayout::of(ll).words() + 8].leak();
        // A row begins with a line of the host's.
        let skip = (rows.as_ptr() as usize).wrapping_neg() % 64 / 8;
        let rows = &mut rows[skip..];
        if machine.simulation.is_some_and(|s| s.usual_shape)
            && (ll.ways(), ll.line()) == (16, 64)
            && !options.prefetch
        {
            LAST_LEVEL_ROWS.store(rows.as_ptr() as u64, Ordering::Relaxed);
        }
        LAST_LEVEL
            .store(Box::into_raw(Box::new(LastLevel::with_storage(ll, options, rows))), Ordering::Relaxed);
    }
    MACHINE.store(Box::into_raw(Box::new(machine)), Ordering::Relaxed);
}

fn filter_of(g: Geometry) -> Filter {
    let layout = RowLayout::of(g);
    Filter {
        line_shift: layout.line_shift as u8,
        stride_shift: layout.stride_shift as u8,
        set_mask: layout.set_mask as u32,
    }
}

impl Machine {
    /// Events other than Ir are counted.
    pub fn counts_events(&self) -> bool {
        self.columns > 1
    }

    /// The columns of what a site counts, in the order of its counters.
    pub fn site_columns(&self, site: SiteKind) -> Vec<u8> {
        let all: &[u8] = match site {
            SiteKind::Fetch => &self.misses[0],
            SiteKind::Read => &self.misses[1],
            SiteKind::Write => &self.misses[2],
            SiteKind::Conditional => &self.mispredictions[..1],
            SiteKind::Indirect => &self.mispredictions[1..],
            SiteKind::Count(event) => &self.certain[event..=event],
        };
        all.iter().copied().filter(|&c| c != 0).collect()
    }

    /// The column of a certain event, 0 when it is not collected.
    pub fn certain_column(&self, event: usize) -> u8 {
        self.certain[event]
    }

    /// The columns of system calls.
    pub fn system_columns(&self) -> impl Iterator<Item = u8> + '_ {
        self.system.iter().copied().filter(|&c| c != 0)
    }
}

/// Bytes of address space before and behind the shadow stack of a thread that simulates.
pub fn beside_shadow() -> u64 {
    if machine().counts_events() { events::BESIDE_SHADOW } else { 0 }
}

/// Bytes behind a thread block's counters.
pub fn behind_counters() -> u64 {
    if machine().simulation.is_some() { 2 * ROWS_ROOM as u64 } else { 0 }
}

fn rows_size() -> u64 {
    SHADOW_STACK * ROW_SCALE
}

/// Gives a new thread its part of the machine. The memory behind its counters and beside its shadow stack is
/// mapped.
pub fn equip(state: &mut ThreadState) -> Result<(), Errno> {
    let machine = machine();
    if !machine.counts_events() {
        return Ok(());
    }
    let rows = mem::map_anywhere(rows_size(), RW)?;
    let (mut data, mut fetched) = (None, Box::default());
    if let (Some(i1), Some(d1), Some(Simulation { caches: true, .. })) =
        (machine.i1, machine.d1, machine.simulation)
    {
        let words = RowLayout::of(d1).words();
        assert!(words * 8 <= ROWS_ROOM as usize && i1.sets() as usize <= events::MAX_FETCH_SETS);
        let at = state.this + DATA_ROWS_OFFSET as u64;
        // SAFETY: mapped for this alone, zeroed, and never unmapped while the thread lives.
        let storage = unsafe { core::slice::from_raw_parts_mut(at as *mut u64, words) };
        data = Some(Cache::with_storage(d1, storage));
        fetched = alloc::vec![0u32; (i1.sets() * i1.ways()) as usize].into_boxed_slice();
    }
    let core = Core {
        data,
        fetched,
        conditional: ConditionalPredictor::new(),
        indirect: IndirectPredictor::new(),
        rows,
    };
    if let Some(d1) = machine.d1 {
        state.data_rows = state.this + DATA_ROWS_OFFSET as u64;
        state.data_mask = (RowLayout::of(d1).set_mask << 6) as u32;
        state.ll_mask = machine.ll.map_or(0, |g| RowLayout::of(g).set_mask as u32);
    }
    state.rows_bias = rows.wrapping_sub(state.shadow_base.wrapping_mul(ROW_SCALE));
    state.on_events = on_events as *const () as u64;
    state.on_pop = on_pop as *const () as u64;
    state.simulation = Box::into_raw(Box::new(core)) as u64;
    Ok(())
}

/// A block begins a new thread: an empty machine.
pub fn reset(state: &mut ThreadState) {
    if let Some(core) = core_of(state) {
        empty(core, state);
        state.ll_rows = LAST_LEVEL_ROWS.load(Ordering::Relaxed);
        state.ll_lock = if SHARED.load(Ordering::Relaxed) { &raw const LAST_LEVEL_LOCK as u64 } else { 0 };
        state.event_busy = 0;
        core.conditional = ConditionalPredictor::new();
        core.indirect = IndirectPredictor::new();
        events::clear_mark(state.shadow_base);
    }
}

/// Empties a thread's L1.
fn empty(core: &mut Core, state: &mut ThreadState) {
    if let Some(data) = &mut core.data {
        data.clear();
    }
    for at in core.fetched.iter_mut().filter(|at| **at != 0) {
        *time_of(state, core::mem::take(at)) = 0;
    }
    for set in 0..machine().i1.map_or(0, |g| g.sets()) {
        *latest_of(state, set) = 0;
    }
}

/// Number of the record referenced last in a set of I1.
fn latest_of(state: &mut ThreadState, set: u32) -> &mut u32 {
    // SAFETY: the table lies in the thread's block.
    unsafe { &mut *((state.this + events::latest_disp(set) as u64) as *mut u32) }
}

/// The record of a line.
fn time_of(state: &mut ThreadState, disp: u32) -> &mut u64 {
    // SAFETY: records lie in the thread's block.
    unsafe { &mut *((state.this + disp as u64) as *mut u64) }
}

/// The counters of a process were begun anew, or the stack was copied: what lies beside the entries of the shadow
/// stack is that of entries pushed now.
pub fn start_anew(state: &mut ThreadState) {
    let Some(sim) = machine().simulation.filter(|_| state.simulation != 0) else { return };
    let mut entry = state.shadow_base;
    while entry <= state.shadow_top {
        // SAFETY: the thread's own stack, with its surroundings mapped.
        unsafe { events::begin(state, &sim, entry as *const Entry) };
        entry += size_of::<Entry>() as u64;
    }
}

/// There are going to be several threads: LL is locked from now on. `threads` are those there are.
pub fn share(threads: &[*mut ThreadState]) {
    SHARED.store(true, Ordering::Relaxed);
    for &state in threads {
        // SAFETY: the only thread is in the engine, asking for another; blocks are never unmapped.
        unsafe { (*state).ll_lock = &raw const LAST_LEVEL_LOCK as u64 };
    }
}

/// A forked child has one thread, and perhaps a lock that another thread of its parent held.
pub fn after_fork(state: &mut ThreadState) {
    SHARED.store(false, Ordering::Relaxed);
    LAST_LEVEL_LOCK.store(0, Ordering::Relaxed);
    state.ll_lock = 0;
    start_anew(state);
}

/// Empties the caches, as at the start of instrumentation.
pub fn flush(state: &mut ThreadState) {
    if let Some(core) = core_of(state) {
        empty(core, state);
    }
    with_last_level(LastLevel::clear);
}

/// Lets go of a thread's part.
pub fn release(state: &mut ThreadState) {
    if state.simulation != 0 {
        // SAFETY: made by `equip`; the thread is gone.
        let core = unsafe { Box::from_raw(state.simulation as *mut Core) };
        let _ = unsafe { mem::unmap(core.rows, rows_size()) };
        state.simulation = 0;
    }
}

fn core_of(state: &ThreadState) -> Option<&'static mut Core> {
    // SAFETY: set by `equip`; used by the thread itself, or by one that has it stopped or under the engine's lock.
    (state.simulation != 0).then(|| unsafe { &mut *(state.simulation as *mut Core) })
}

/// Adds to a counter of the running thread.
fn count(state: &mut ThreadState, counter: u32, n: u64) {
    if counter != 0 {
        // SAFETY: counters handed out by the spool are mapped.
        unsafe {
            let c = state.counter(counter);
            *c = c.wrapping_add(n);
        }
    }
}

fn row(core: &Core, state: &ThreadState, entry: u64) -> *mut u64 {
    (core.rows + (entry - state.shadow_base) * ROW_SCALE) as *mut u64
}

/// Adds to the row beside the newest entry.
fn note(core: &Core, state: &ThreadState, column: u8, n: u64) {
    let entry = state.shadow_top;
    let row = row(core, state, entry);
    // SAFETY: rows are mapped for every entry, and the memory beside the shadow stack too.
    unsafe {
        let mark = events::mark(entry);
        if *mark == 0 {
            *mark = 1;
            core::slice::from_raw_parts_mut(row, machine().columns).fill(0);
        }
        let sum = row.add(column as usize);
        *sum = (*sum).wrapping_add(n);
    }
}

/// Counts what is not certain: at the site and beside the newest entry. A site without counter is in code
/// that runs aside.
fn uncertain(core: &Core, state: &mut ThreadState, counter: u32, column: u8, n: u64) {
    if column != 0 && counter != 0 {
        count(state, counter, n);
        note(core, state, column, n);
    }
}

/// Counts certain events whose number was not known: at the site and in the running total.
fn certain(state: &mut ThreadState, counter: u32, event: usize, n: u64) {
    if n != 0 && counter != 0 && machine().certain[event] != 0 {
        count(state, counter, n);
        count(state, TOTAL_COUNTER + 1 + event as u32, n);
    }
}

/// Passes on what happened under an entry that is popped: to its edge's inclusive counters (from `inclusive` on, 0
/// for none) and to the entry below.
pub fn pass_on(state: &mut ThreadState, inclusive: u32, entry: u64) {
    let Some(core) = core_of(state) else { return };
    // SAFETY: as in `note`.
    let mark = unsafe { events::mark(entry) };
    if core::mem::take(mark) == 0 {
        return;
    }
    let columns = machine().columns;
    // SAFETY: the row was written when the mark was set.
    let sums = unsafe { core::slice::from_raw_parts(row(core, state, entry), columns) };
    let below = entry - size_of::<Entry>() as u64;
    let has_below = entry > state.shadow_base;
    let mut to: &mut [u64] = &mut [];
    if has_below {
        // SAFETY: as in `note`.
        unsafe {
            to = core::slice::from_raw_parts_mut(row(core, state, below), columns);
            let mark = events::mark(below);
            if *mark == 0 {
                *mark = 1;
                to.fill(0);
            }
        }
    }
    for (column, &n) in sums.iter().enumerate() {
        if n == 0 {
            continue;
        }
        if let Some(sum) = to.get_mut(column) {
            *sum = sum.wrapping_add(n);
        }
        if inclusive != 0 {
            count(state, inclusive + column as u32, n);
        }
    }
}

/// Called by generated code when the newest entry is about to be popped and has a row.
///
/// # Safety
///
/// `state` is the running thread's block.
unsafe extern "C" fn on_pop(state: *mut ThreadState) {
    // SAFETY: by this function's contract.
    let state = unsafe { &mut *state };
    pass_on(state, state.event_edge, state.shadow_top);
}

/// Called by generated code with a list of items to simulate.
///
/// # Safety
///
/// `state` is the running thread's block.
unsafe extern "C" fn on_events(state: *mut ThreadState) {
    // SAFETY: by this function's contract.
    let state = unsafe { &mut *state };
    let Some(core) = core_of(state) else { return };
    let done = core::mem::take(&mut state.event_done) as usize;
    let mut missed = core::mem::take(&mut state.event_missed) != 0;
    let items = events::items(state);
    let mut address = 0;
    // SAFETY: as below.
    let kind_of = |item: &Item| unsafe { (&raw const item.kind).read_unaligned() };
    for item in &items[..done] {
        address += matches!(kind_of(item), kind::READ | kind::WRITE) as usize;
    }
    for item in &items[done..] {
        // The list lies in code, at any address.
        // SAFETY: an item of the list.
        let item = unsafe { (item as *const Item).read_unaligned() };
        match item.kind {
            kind::FETCH => fetch(core, state, item.word, item.size, item.counter),
            kind::READ | kind::WRITE => {
                let at = state.event_addresses[address];
                address += 1;
                let kind = if item.kind == kind::READ { Kind::Read } else { Kind::Write };
                if missed {
                    last_level(core, state, kind, at, item.size, item.counter, false);
                } else {
                    reference(core, state, kind, at, item.size, item.counter);
                }
            }
            kind::BRANCH => conditional(core, state, item.word, state.event_taken & 1 != 0, item.counter),
            kind::NOT_TAKEN => conditional(core, state, item.word, false, item.counter),
            kind::LOOP => {
                let taken = loops(state, item.size);
                conditional(core, state, item.word, taken, item.counter);
            }
            kind::INDIRECT => {
                if core.indirect.mispredicts(item.word, state.event_target) {
                    uncertain(core, state, item.counter, machine().mispredictions[1], 1);
                }
            }
            _ => {
                // SAFETY: such items point to what the engine keeps for as long as the code exists.
                let computed = unsafe { &*(item.word as *const Computed) };
                compute(core, state, computed);
            }
        }
        missed = false;
    }
}

/// Fetches the lines whose records are at the displacements in the halves of `word`, and counts a miss. `place` is as
/// in an item's `size`.
fn fetch(core: &mut Core, state: &mut ThreadState, word: u64, place: u16, counter: u32) {
    let (first, second) = (word as u32, (word >> 32) as u32);
    let mut hit = fetch_line(core, state, first);
    if second != 0 {
        hit &= fetch_line(core, state, second);
    }
    if !hit {
        let at = events::line_of_record(first) + (place & 0xfff) as u64;
        let size = place >> 12;
        last_level(core, state, Kind::Fetch, at, size, counter, false);
    }
}

/// References a line of I1; true when it was there.
fn fetch_line(core: &mut Core, state: &mut ThreadState, disp: u32) -> bool {
    let Some(i1) = machine().i1 else { return true };
    let (ways, set) =
        (i1.ways() as usize, events::line_of_record(disp) >> i1.line_shift() & (i1.sets() as u64 - 1));
    state.fetch_clock += 1;
    let now = state.fetch_clock;
    let before = core::mem::replace(time_of(state, disp), now);
    *latest_of(state, set as u32) = events::record_at(disp);
    if before != 0 {
        return true;
    }
    let start = set as usize * ways;
    let mut oldest = (u64::MAX, start);
    for way in start..start + ways {
        let there = core.fetched[way];
        let time = if there == 0 { 0 } else { *time_of(state, there) };
        if time < oldest.0 {
            oldest = (time, way);
        }
    }
    let out = core::mem::replace(&mut core.fetched[oldest.1], disp);
    if out != 0 {
        *time_of(state, out) = 0;
    }
    false
}

/// References D1 and counts a miss.
#[inline]
fn reference(core: &mut Core, state: &mut ThreadState, kind: Kind, address: u64, size: u16, counter: u32) {
    let machine = machine();
    let size = (size as u32).clamp(1, machine.min_line);
    let Some(data) = &mut core.data else { return };
    let hit = data.reference(address, size);
    if hit && !(machine.options.write_back && kind == Kind::Write) {
        return;
    }
    last_level(core, state, kind, address, size as u16, counter, hit);
}

/// References LL and counts a miss. `hit`: it was no miss of L1, which costs nothing.
fn last_level(
    core: &mut Core,
    state: &mut ThreadState,
    kind: Kind,
    address: u64,
    size: u16,
    counter: u32,
    hit: bool,
) {
    let machine = machine();
    let size = (size as u32).clamp(1, machine.min_line);
    let Some(level) = with_last_level(|last| last.reference(kind, address, size)) else { return };
    if hit || counter == 0 {
        return;
    }
    let columns = &machine.misses[kind as usize];
    for (n, &column) in columns.iter().enumerate().take(level as usize) {
        uncertain(core, state, counter + n as u32, column, 1);
    }
}

fn conditional(core: &mut Core, state: &mut ThreadState, pc: u64, taken: bool, counter: u32) {
    if core.conditional.mispredicts(pc, taken) {
        uncertain(core, state, counter, machine().mispredictions[0], 1);
    }
}

/// Whether `loop` and its kind will jump. `opcode` has the address-size prefix in its high byte.
fn loops(state: &ThreadState, opcode: u16) -> bool {
    let rcx = state.event_registers[reg::RCX];
    let count = if opcode >> 8 != 0 { rcx as u32 as u64 } else { rcx };
    let zero = state.event_flags_all & 0x40 != 0;
    match opcode & 3 {
        0 => count != 1 && !zero,
        1 => count != 1 && zero,
        2 => count != 1,
        _ => count == 0,
    }
}

/// The value of an address; `fs` is asked for.
fn value(state: &ThreadState, at: &Address) -> u64 {
    let register = |n: u8| if n == NO_REGISTER { 0 } else { state.event_registers[n as usize & 15] };
    let mut sum = register(at.base)
        .wrapping_add(register(at.index).wrapping_mul(at.scale as u64))
        .wrapping_add(at.disp as u64);
    if at.narrow {
        sum = sum as u32 as u64;
    }
    if at.fs {
        const ARCH_GET_FS: u64 = 0x1003;
        let mut base = 0u64;
        // SAFETY: the kernel writes one word.
        let _ = unsafe { syscall!(abi::__NR_arch_prctl, ARCH_GET_FS, &raw mut base) };
        sum = sum.wrapping_add(base);
    }
    sum
}

/// Simulates an instruction whose accesses depend on more than address registers.
fn compute(core: &mut Core, state: &mut ThreadState, c: &Computed) {
    let [reads, writes, branches, read_misses, write_misses, mispredictions] = c.counters;
    let access = |core: &mut Core, state: &mut ThreadState, write: bool, at: u64, size: u16| {
        let (kind, counter) = if write { (Kind::Write, write_misses) } else { (Kind::Read, read_misses) };
        reference(core, state, kind, at, size, counter);
    };
    match c.form {
        Form::Repeated => {
            repeated(core, state, c);
            let _ = (branches, mispredictions);
        }
        Form::Lanes(lanes) => {
            let Some(a) = c.accesses.list().first() else { return };
            let base = value(state, &a.at);
            let mut n = 0;
            let vectors = Vectors::read(state);
            for lane in 0..lanes.count {
                if let Some(at) = lane_address(&vectors, &lanes, base, c, lane) {
                    access(core, state, a.write, at, a.size);
                    n += 1;
                }
            }
            let (counter, event) = if a.write { (writes, events::WRITES) } else { (reads, events::READS) };
            certain(state, counter, event, n);
        }
        Form::SaveState | Form::RestoreState => {
            let Some(a) = c.accesses.list().first() else { return };
            let base = value(state, &a.at);
            let write = c.form == Form::SaveState;
            let mask = state.event_registers[reg::RAX] as u32;
            let mut n = 0;
            let mut one = |core: &mut Core, state: &mut ThreadState, offset: u64, size: u16| {
                access(core, state, write, base.wrapping_add(offset), size);
                n += 1;
            };
            if !write {
                for word in 0..3 {
                    one(core, state, 512 + word * 8, 8);
                }
            }
            if mask & 1 != 0 {
                one(core, state, 0, 160);
            }
            if mask & 2 != 0 {
                one(core, state, 24, 8);
                (0..16).for_each(|r| one(core, state, 160 + r * 16, 16));
            }
            if mask & 4 != 0 {
                (0..16).for_each(|r| one(core, state, 576 + r * 16, 16));
            }
            if write {
                one(core, state, 512, 8);
            }
            let (counter, event) = if write { (writes, events::WRITES) } else { (reads, events::READS) };
            certain(state, counter, event, n);
        }
        Form::Once | Form::Bit { .. } | Form::Table => {
            for a in c.accesses.list() {
                let mut at = value(state, &a.at);
                match c.form {
                    Form::Bit { reg, width } => {
                        let number = state.event_registers[reg as usize & 15];
                        let signed = match width {
                            2 => number as i16 as i64,
                            4 => number as i32 as i64,
                            _ => number as i64,
                        };
                        at = at.wrapping_add((signed >> 3) as u64);
                    }
                    // The index is `al` alone.
                    Form::Table => {
                        let rax = state.event_registers[reg::RAX];
                        at = at.wrapping_sub(rax).wrapping_add(rax & 0xff);
                    }
                    _ => {}
                }
                access(core, state, a.write, at, a.size);
            }
        }
    }
}

/// A repeated string instruction that has run.
fn repeated(core: &mut Core, state: &mut ThreadState, c: &Computed) {
    let [reads, writes, branches, read_misses, write_misses, mispredictions] = c.counters;
    let narrow = |v: u64| if c.repeat.narrow { v as u32 as u64 } else { v };
    let [rcx, rsi, rdi] = state.event_before.map(narrow);
    let left = narrow(state.event_registers[reg::RCX]);
    let n = rcx.wrapping_sub(left);
    let backwards = state.event_flags_all & 0x400 != 0;
    let list = c.accesses.list();
    if machine().certain[events::READS] != 0 {
        for i in 0..n {
            for a in list {
                let start = if a.at.base == reg::RSI as u8 { rsi } else { rdi };
                let offset = i.wrapping_mul(a.size as u64);
                let at = if backwards { start.wrapping_sub(offset) } else { start.wrapping_add(offset) };
                let (kind, counter) =
                    if a.write { (Kind::Write, write_misses) } else { (Kind::Read, read_misses) };
                reference(core, state, kind, at, a.size, counter);
            }
        }
        let written = list.iter().filter(|a| a.write).count() as u64;
        certain(state, reads, events::READS, n * (list.len() as u64 - written));
        certain(state, writes, events::WRITES, n * written);
    }
    if machine().certain[events::CONDITIONAL] != 0 {
        // Before each iteration the count is tested; comparisons are tested after each, too. A test of the count
        // that ends the loop leaves for the next instruction, which Callgrind takes for not jumping.
        let mut made = 0;
        let mut branch = |core: &mut Core, state: &mut ThreadState, taken: bool| {
            conditional(core, state, c.pc, taken, mispredictions);
            made += 1;
        };
        let ended_by_comparison = c.repeat.compares && n > 0 && !condition_holds(state, c);
        for i in 0..n {
            branch(core, state, !c.repeat.compares);
            if c.repeat.compares {
                branch(core, state, i + 1 < n || !ended_by_comparison);
            }
        }
        if !ended_by_comparison {
            branch(core, state, c.repeat.compares);
        }
        certain(state, branches, events::CONDITIONAL, made);
    }
}

/// The comparison of the last iteration would have let the loop go on.
fn condition_holds(state: &ThreadState, c: &Computed) -> bool {
    let zero = state.event_flags_all & 0x40 != 0;
    zero == c.repeat.while_equal
}

/// The vector registers.
struct Vectors {
    low: [u128; 16],
    high: [u128; 16],
}

impl Vectors {
    fn read(state: &ThreadState) -> Vectors {
        let mut v = Vectors { low: state.xmm, high: [0; 16] };
        // SAFETY: only called for an AVX instruction, so the CPU has AVX; compiled code here leaves the upper
        // halves alone.
        unsafe {
            core::arch::asm!(
                "vextractf128 [{p}], ymm0, 1",
                "vextractf128 [{p} + 16], ymm1, 1",
                "vextractf128 [{p} + 32], ymm2, 1",
                "vextractf128 [{p} + 48], ymm3, 1",
                "vextractf128 [{p} + 64], ymm4, 1",
                "vextractf128 [{p} + 80], ymm5, 1",
                "vextractf128 [{p} + 96], ymm6, 1",
                "vextractf128 [{p} + 112], ymm7, 1",
                "vextractf128 [{p} + 128], ymm8, 1",
                "vextractf128 [{p} + 144], ymm9, 1",
                "vextractf128 [{p} + 160], ymm10, 1",
                "vextractf128 [{p} + 176], ymm11, 1",
                "vextractf128 [{p} + 192], ymm12, 1",
                "vextractf128 [{p} + 208], ymm13, 1",
                "vextractf128 [{p} + 224], ymm14, 1",
                "vextractf128 [{p} + 240], ymm15, 1",
                p = in(reg) v.high.as_mut_ptr(),
                options(nostack, preserves_flags)
            );
        }
        v
    }

    fn element(&self, register: u8, n: u8, size: u8) -> u64 {
        let at = n as usize * size as usize;
        let half = if at < 16 { self.low } else { self.high }[register as usize & 15];
        let word = (half >> (at % 16 * 8)) as u64;
        if size == 4 { word as u32 as u64 } else { word }
    }
}

/// Address of a lane's element, none when its mask is clear.
fn lane_address(v: &Vectors, lanes: &Lanes, base: u64, c: &Computed, lane: u8) -> Option<u64> {
    let mask = v.element(lanes.mask, lane, lanes.mask_size);
    if mask >> (lanes.mask_size * 8 - 1) & 1 == 0 {
        return None;
    }
    if lanes.index == NO_REGISTER {
        return Some(base.wrapping_add(lane as u64 * lanes.size as u64));
    }
    let index = v.element(lanes.index, lane, lanes.index_size);
    let index = if lanes.index_size == 4 { index as i32 as i64 as u64 } else { index };
    let scale = c.accesses.list().first().map_or(1, |a| a.at.scale as u64);
    Some(base.wrapping_add(index.wrapping_mul(scale)))
}

/// Clocks before a system call.
#[derive(Clone, Copy, Default)]
pub struct Clocks {
    elapsed: u64,
    cpu: u64,
}

const CLOCK_MONOTONIC: u64 = 1;
const CLOCK_THREAD_CPUTIME_ID: u64 = 3;

fn clock(id: u64) -> u64 {
    let mut t = [0u64; 2];
    // SAFETY: the kernel writes two words.
    let _ = unsafe { syscall!(abi::__NR_clock_gettime, id, t.as_mut_ptr()) };
    t[0] * 1_000_000_000 + t[1]
}

impl Clocks {
    /// Now; zeros when system calls are not measured.
    pub fn now() -> Clocks {
        match machine().system_unit {
            0 => Clocks::default(),
            3 => Clocks { elapsed: clock(CLOCK_MONOTONIC), cpu: clock(CLOCK_THREAD_CPUTIME_ID) },
            _ => Clocks { elapsed: clock(CLOCK_MONOTONIC), cpu: 0 },
        }
    }

    /// Counts a system call that began at these clocks. `counter` is the site's first.
    pub fn count_since(self, state: &mut ThreadState, counter: u32) {
        let machine = machine();
        let Some(core) = core_of(state) else { return };
        if machine.system_unit == 0 || counter == 0 {
            return;
        }
        let now = Clocks::now();
        let unit = match machine.system_unit {
            1 => 1_000_000,
            2 => 1_000,
            _ => 1,
        };
        let elapsed = now.elapsed.saturating_sub(self.elapsed) / unit;
        let costs = [1, elapsed, now.cpu.saturating_sub(self.cpu)];
        for (n, (&column, cost)) in machine.system.iter().zip(costs).enumerate() {
            uncertain(core, state, counter + n as u32, column, cost);
        }
    }
}
