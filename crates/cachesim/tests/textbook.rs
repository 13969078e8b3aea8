//! The simulators against deliberately naive ones, on random streams and geometries.
//!
//! The naive caches keep physical ways with the time of their last use and search all of them, where
//! the crate keeps rows in order of use; the naive predictors use maps.

use std::collections::HashMap;

use proptest::prelude::*;
use tallygraph_cachesim::cache_use::{Charge, UsedIn};
use tallygraph_cachesim::script::{Script, Step};
use tallygraph_cachesim::*;

/// A line in a physical way.
#[derive(Clone, Default)]
struct Line {
    number: u64,
    last_used: u64,
    dirty: bool,
    accesses: u32,
    bytes: Vec<bool>,
    owner: u32,
    backing: usize,
}

/// A cache as the textbook draws it.
struct Textbook {
    line_size: u64,
    sets: u64,
    ways: usize,
    places: Vec<Option<Line>>,
    now: u64,
}

impl Textbook {
    fn new(geometry: Geometry) -> Self {
        let (sets, ways) = (u64::from(geometry.sets()), geometry.ways() as usize);
        let places = vec![None; sets as usize * ways];
        Self { line_size: u64::from(geometry.line()), sets, ways, places, now: 0 }
    }

    /// The place of a line, brought in if need be; the line that was evicted for it.
    fn access(&mut self, number: u64) -> (usize, bool, Option<Line>) {
        self.now += 1;
        let first = (number % self.sets) as usize * self.ways;
        let places = first..first + self.ways;
        if let Some(place) =
            places.clone().find(|p| matches!(&self.places[*p], Some(l) if l.number == number))
        {
            self.places[place].as_mut().unwrap().last_used = self.now;
            return (place, true, None);
        }
        let place = places.min_by_key(|p| self.places[*p].as_ref().map_or(0, |l| l.last_used)).unwrap();
        let bytes = vec![false; self.line_size as usize];
        let line = Line { number, last_used: self.now, bytes, ..Line::default() };
        (place, false, self.places[place].replace(line))
    }

    /// The numbers of the lines that an access touches.
    fn lines(&self, address: u64, size: u64) -> impl Iterator<Item = u64> + use<> {
        address / self.line_size..=(address + size - 1) / self.line_size
    }

    fn reference(&mut self, address: u64, size: u64, write: bool) -> (bool, bool) {
        let (mut all_hit, mut dirty_left) = (true, false);
        for number in self.lines(address, size) {
            let (place, hit, evicted) = self.access(number);
            all_hit &= hit;
            dirty_left |= evicted.is_some_and(|line| line.dirty);
            self.places[place].as_mut().unwrap().dirty |= write;
        }
        (all_hit, dirty_left)
    }
}

/// Both levels, with the variants.
struct TextbookHierarchy {
    i1: Textbook,
    d1: Textbook,
    ll: Textbook,
    options: Options,
    /// Per stream: line seen last, and the length of the run with its sign.
    streams: HashMap<u64, (i64, i64)>,
}

impl TextbookHierarchy {
    fn new([i1, d1, ll]: [Geometry; 3], options: Options) -> Self {
        let [i1, d1, ll] = [i1, d1, ll].map(Textbook::new);
        Self { i1, d1, ll, options, streams: HashMap::new() }
    }

    fn reference(&mut self, kind: Kind, address: u64, size: u32) -> Level {
        let size = u64::from(size).min(self.i1.line_size).min(self.d1.line_size).min(self.ll.line_size);
        let first = if kind == Kind::Fetch { &mut self.i1 } else { &mut self.d1 };
        let (hit, _) = first.reference(address, size, false);
        let write = kind == Kind::Write;
        if hit && !(write && self.options.write_back) {
            return Level::L1;
        }
        if self.options.prefetch {
            self.prefetch(address);
        }
        let (found, dirty) = self.ll.reference(address, size, write && self.options.write_back);
        match (hit, found, dirty) {
            (true, ..) => Level::L1,
            (_, true, _) => Level::LastLevel,
            (.., false) => Level::Memory,
            (.., true) => Level::MemoryWriteBack,
        }
    }

    fn prefetch(&mut self, address: u64) {
        let block = (address / self.ll.line_size) as i64;
        let (last, run) = self.streams.entry(address / 4096 % 8).or_insert((0, 0));
        let step = block - std::mem::replace(last, block);
        if step == 0 {
            return;
        }
        *run = if step.abs() == 1 && *run * step >= 0 { *run + step } else { 0 };
        if run.abs() >= 2 {
            let ahead = block + 5 * run.signum();
            self.ll.access(ahead as u64);
        }
    }
}

/// I1, D1 and LL with the use of lines written out byte by byte.
struct TextbookUse {
    first: [Textbook; 2],
    ll: Textbook,
    charges: Vec<Charge>,
}

impl TextbookUse {
    fn reference(&mut self, kind: Kind, address: u64, size: u32, owner: u32) -> Level {
        let which = usize::from(kind != Kind::Fetch);
        let size = u64::from(size).min(self.first[which].line_size).min(self.ll.line_size);
        let mut level = Level::L1;
        let line_size = self.first[which].line_size;
        for number in self.first[which].lines(address, size) {
            let (place, hit, evicted) = self.first[which].access(number);
            if !hit {
                self.leave_first(evicted);
                let (backing, found, evicted) = self.ll.access(number);
                if let Some(line) = evicted {
                    self.charge(&line, UsedIn::LastLevel);
                }
                if !found {
                    self.ll.places[backing].as_mut().unwrap().owner = owner;
                }
                level = level.max(if found { Level::LastLevel } else { Level::Memory });
                let line = self.first[which].places[place].as_mut().unwrap();
                (line.owner, line.backing) = (owner, backing);
            }
            let line = self.first[which].places[place].as_mut().unwrap();
            line.accesses += 1;
            let start = number * line_size;
            for byte in address.max(start)..(address + size).min(start + line_size) {
                // Two bytes share a bit in lines of 64: the loss is counted in 32nds.
                let unit = (line_size / 32).max(1);
                let from = (byte - start) / unit * unit;
                line.bytes[from as usize..(from + unit) as usize].fill(true);
            }
        }
        level
    }

    fn leave_first(&mut self, line: Option<Line>) {
        let Some(line) = line else { return };
        self.charge(&line, UsedIn::L1);
        let backing = self.ll.places[line.backing].as_mut().unwrap();
        backing.accesses += line.accesses;
        backing.bytes.iter_mut().zip(&line.bytes).for_each(|(b, touched)| *b |= touched);
    }

    fn charge(&mut self, line: &Line, used_in: UsedIn) {
        if let Some(access_cost) = 1000u32.checked_div(line.accesses) {
            self.charges.push(Charge {
                owner: line.owner,
                used_in,
                access_cost,
                spatial_loss: line.bytes.iter().filter(|touched| !**touched).count() as u32,
            });
        }
    }

    fn finish(&mut self) {
        for line in self.first.iter_mut().flat_map(|c| std::mem::take(&mut c.places)).collect::<Vec<_>>() {
            self.leave_first(line);
        }
        for line in std::mem::take(&mut self.ll.places).into_iter().flatten() {
            self.charge(&line, UsedIn::LastLevel);
        }
    }
}

fn geometry(lines: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = Geometry> {
    (
        0..=4u32,
        prop_oneof![Just(1u32), Just(2), Just(3), Just(4), Just(8), Just(12), Just(16), 1..20u32],
        lines,
    )
        .prop_filter_map("one line is no cache", |(sets, ways, line)| {
            Geometry::new(ways << sets << line, ways, 1 << line).ok()
        })
}

/// Streams with locality, lines straddled, strides up and down, and some far jumps.
fn stream(length: usize) -> impl Strategy<Value = Vec<(Kind, u64, u32)>> {
    let kind = prop_oneof![Just(Kind::Fetch), Just(Kind::Read), Just(Kind::Write)];
    let size =
        prop_oneof![4 => 1..=8u32, 1 => 9..=16u32, 1 => Just(32u32), 1 => Just(64u32), 1 => Just(512u32)];
    let single = (kind.clone(), 0..8192u64, size).prop_map(|(kind, offset, size)| vec![(kind, offset, size)]);
    let run = (kind, 0..8192u64, -70..70i64, 2..12u64).prop_map(|(kind, from, stride, count)| {
        (0..count).map(|i| (kind, from.saturating_add_signed(stride * i as i64), 8)).collect()
    });
    let far = prop_oneof![9 => Just(0u64), 1 => Just(1u64 << 32), 1 => Just(0x7fff_0000_0000)];
    proptest::collection::vec((prop_oneof![single, run], far), 1..length).prop_map(|parts| {
        let place = |(part, far): (Vec<(Kind, u64, u32)>, u64)| {
            part.into_iter().map(move |(kind, offset, size)| (kind, 0x10_0000 + far + offset, size))
        };
        parts.into_iter().flat_map(place).collect()
    })
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 200,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn levels_equal_the_textbook(
        caches in [geometry(4..=7), geometry(4..=7), geometry(4..=7)],
        (write_back, prefetch) in any::<(bool, bool)>(),
        stream in stream(300),
    ) {
        let options = Options { write_back, prefetch, fidelity: Fidelity::Exact };
        let mut textbook = TextbookHierarchy::new(caches, options);
        let mut hierarchy = Hierarchy::new(caches[0], caches[1], caches[2], options);
        for (index, (kind, address, size)) in stream.into_iter().enumerate() {
            let expected = textbook.reference(kind, address, size);
            prop_assert_eq!(hierarchy.reference(kind, address, size), expected, "reference {}", index);
        }
    }

    #[test]
    fn what_the_filter_lets_pass_changes_nothing(cache in geometry(4..=7), stream in stream(300)) {
        let mut filtered = Cache::new(cache);
        let mut plain = Cache::new(cache);
        for (_, address, size) in stream {
            let size = size.min(cache.line());
            let hit = plain.reference(address, size);
            let no_op = filtered.layout().is_no_op(filtered.rows(), address, size);
            prop_assert!(hit || !no_op);
            if !no_op {
                prop_assert_eq!(filtered.reference(address, size), hit);
            }
            prop_assert_eq!(filtered.rows(), plain.rows());
        }
    }

    #[test]
    fn buffers_give_what_single_references_give(
        caches in [geometry(4..=7), geometry(4..=7), geometry(4..=7)],
        stream in stream(60),
    ) {
        let new = || Hierarchy::new(caches[0], caches[1], caches[2], Options::default());
        let mut expected = Vec::new();
        let mut single = new();
        for (site, (kind, address, size)) in stream.iter().enumerate() {
            let level = single.reference(*kind, *address, *size);
            if level != Level::L1 {
                expected.push((site as u32, *kind, level));
            }
        }
        let mut misses = Vec::new();
        let event = |(site, (kind, address, size)): (usize, &(Kind, u64, u32))| {
            Event::new(*kind, *address, *size as u16, site as u32)
        };
        let events: Vec<_> = stream.iter().enumerate().map(event).collect();
        new().consume(&events, &mut |site, kind, level| misses.push((site, kind, level)));
        prop_assert_eq!(&misses, &expected);

        let step = |(kind, address, size): &(Kind, u64, u32)| match kind {
            Kind::Fetch => Step::Fetch { address: *address, size: (*size).min(64) as u8 },
            Kind::Read => Step::Read { size: *size as u16 },
            Kind::Write => Step::Write { size: *size as u16 },
        };
        // A fetch of 512 bytes does not exist in a script; 64 are cut to the same size where lines
        // are no longer than that.
        prop_assume!(caches.iter().any(|cache| cache.line() <= 64));
        let script = Script { first_site: 0, steps: stream.iter().map(step).collect() };
        let mut words = vec![Script::header(0, stream.len() as u32)];
        words.extend(stream.iter().filter(|(kind, ..)| *kind != Kind::Fetch).map(|(_, address, _)| address));
        misses.clear();
        let taken = new().replay(&[script], &words, &mut |site, kind, level| misses.push((site, kind, level)));
        prop_assert_eq!(taken, words.len());
        prop_assert_eq!(&misses, &expected);
    }

    #[test]
    fn line_use_equals_the_textbook(
        shapes in [(0..=4u32, 1..=6u32), (0..=4u32, 1..=6u32), (1..=5u32, 2..=6u32)],
        line in 5..=6u32,
        stream in stream(300),
    ) {
        let [i1, d1, ll] = shapes.map(|(sets, ways)| {
            // One line is no cache.
            let ways = if sets == 0 { ways.max(2) } else { ways };
            Geometry::new(ways << sets << line, ways, 1 << line).unwrap()
        });
        let mut textbook = TextbookUse {
            first: [Textbook::new(i1), Textbook::new(d1)],
            ll: Textbook::new(ll),
            charges: Vec::new(),
        };
        let mut caches = CacheUse::new(i1, d1, ll, Fidelity::Exact);
        let mut charges = Vec::new();
        for (index, (kind, address, size)) in stream.into_iter().enumerate() {
            let expected = textbook.reference(kind, address, size, index as u32);
            let level = caches.reference(kind, address, size, index as u32, &mut |charge| charges.push(charge));
            prop_assert_eq!(level, expected, "reference {}", index);
        }
        prop_assert_eq!(&charges, &textbook.charges);
        caches.finish(&mut |charge| charges.push(charge));
        textbook.finish();
        // At the end the order among lines is not defined.
        let key = |charge: &Charge| (charge.owner, charge.used_in == UsedIn::L1, charge.access_cost, charge.spatial_loss);
        charges.sort_by_key(key);
        textbook.charges.sort_by_key(key);
        prop_assert_eq!(&charges, &textbook.charges);
    }

    #[test]
    fn predictors_equal_the_textbook(stream in proptest::collection::vec((0..2048u64, any::<bool>(), 0..4u64), 1..2000)) {
        let (mut conditional, mut indirect) = (ConditionalPredictor::new(), IndirectPredictor::new());
        let mut counters: HashMap<(Vec<bool>, u64), u8> = HashMap::new();
        let mut history = vec![false; 7];
        let mut targets = HashMap::new();
        for (address, taken, target) in stream {
            let address = 0x40_1000 + address;
            let counter = counters.entry((history.clone(), address % 128)).or_default();
            let expected = (*counter >= 2) != taken;
            *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
            history.remove(0);
            history.push(taken);
            prop_assert_eq!(conditional.mispredicts(address, taken), expected);
            let last = targets.insert(address % 512, 0x50_0000 + target);
            prop_assert_eq!(indirect.mispredicts(address, 0x50_0000 + target), last != Some(0x50_0000 + target));
        }
    }

    #[test]
    fn any_text_is_a_geometry_or_an_error(text in "[-0-9,]{0,20}") {
        if let Ok(geometry) = Geometry::parse(&text) {
            prop_assert!(geometry.sets().is_power_of_two() && geometry.line().is_power_of_two());
            prop_assert_eq!(geometry.sets() * geometry.ways() * geometry.line(), geometry.size());
        }
    }

    #[test]
    fn adjusting_keeps_the_capacity_about(size in 1..u32::MAX, ways in 1..64u32, line in 4..=8u32) {
        if let Some((geometry, changed)) = Geometry::adjusted(size, ways, 1 << line) {
            prop_assert_eq!(!changed, Geometry::new(size, ways, 1 << line) == Ok(geometry));
            let (before, after) = (f64::from(size), f64::from(geometry.size()));
            prop_assert!(after > before * 0.5 && after < before * 1.34, "{} became {}", size, geometry.size());
        }
    }
}
