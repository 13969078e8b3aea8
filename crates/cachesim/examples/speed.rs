//! Measures nanoseconds per reference: hit at the front of a set, hit elsewhere, miss; buffers.
//!
//! Given a file that Valgrind's Lackey wrote (`--tool=lackey --trace-mem=yes --log-file=FILE`), it
//! also measures a real stream, in the forms an engine can choose from. Least of several runs.
//!
//! ```text
//! cargo run --release -p tallygraph-cachesim --example speed [FILE]
//! ```

use std::hint::black_box;
use std::time::Instant;

use tallygraph_cachesim::script::{Script, Step};
use tallygraph_cachesim::*;

type Reference = (Kind, u64, u32);

fn hierarchy(options: Options) -> Hierarchy {
    let l1 = Geometry::new(32768, 8, 64).unwrap();
    Hierarchy::new(l1, l1, Geometry::new(8388608, 16, 64).unwrap(), options)
}

/// Nanoseconds per item of `run`, which does `items` of them; least of seven runs.
fn time(label: &str, items: usize, mut run: impl FnMut()) {
    // Small streams stay in the host's caches, and run often.
    let rounds = ((1 << 21) / items).max(1);
    let mut least = f64::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        (0..rounds).for_each(|_| run());
        least = least.min(start.elapsed().as_nanos() as f64);
    }
    println!("{label:<52} {:>8.2} ns", least / items as f64 / rounds as f64);
}

fn single(label: &str, options: Options, stream: &[Reference]) {
    let mut caches = hierarchy(options);
    time(label, stream.len(), || {
        let mut misses = 0u64;
        for (kind, address, size) in stream {
            misses += u64::from(caches.reference(*kind, *address, *size) != Level::L1);
        }
        black_box(misses);
    });
}

fn batch(label: &str, stream: &[Reference]) {
    let event = |(site, (kind, address, size)): (usize, &Reference)| {
        Event::new(*kind, *address, *size as u16, site as u32)
    };
    let events: Vec<_> = stream.iter().enumerate().map(event).collect();
    let mut caches = hierarchy(Options::default());
    time(label, stream.len(), || {
        let mut misses = 0u64;
        caches.consume(&events, &mut |_: u32, _: Kind, _: Level| misses += 1);
        black_box(misses);
    });
}

/// As a block's script would be: `block` references each, all alike.
fn replay(label: &str, stream: &[Reference], block: usize) {
    let steps = vec![Step::Read { size: 8 }; block];
    let scripts = [Script { first_site: 0, steps }];
    let mut words = Vec::new();
    for part in stream.chunks_exact(block) {
        words.push(Script::header(0, block as u32));
        words.extend(part.iter().map(|(_, address, _)| address));
    }
    let mut caches = hierarchy(Options::default());
    time(label, stream.len() / block * block, || {
        let mut misses = 0u64;
        black_box(caches.replay(&scripts, &words, &mut |_: u32, _: Kind, _: Level| misses += 1));
        black_box(misses);
    });
}

/// Reads of `count` lines in all, chosen by `line` from a running number and a random one.
fn reads(count: u64, line: impl Fn(u64, u64) -> u64) -> Vec<Reference> {
    let mut random = 20260801u64;
    let mut step = |i| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (Kind::Read, 0x10_0000 + line(i, random >> 33) * 64 + (random >> 60), 8)
    };
    (0..count).map(&mut step).collect()
}

fn lackey(text: &str) -> Vec<Reference> {
    let parse = |line: &str| {
        let kind = match line.get(..2)? {
            "I " => Kind::Fetch,
            " L" => Kind::Read,
            " S" | " M" => Kind::Write,
            _ => return None,
        };
        let (address, size) = line[2..].trim().split_once(',')?;
        Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

fn main() {
    const COUNT: u64 = 1 << 14;
    let wb = Options { write_back: true, ..Options::default() };
    let front = reads(COUNT, |i, _| i % 64);
    let other_fixed = reads(COUNT, |i, _| i % 512);
    let other = reads(64 * COUNT, |_, random| random % 512);
    let l1_miss = reads(16 * COUNT, |_, random| random % 65536);
    let ll_miss = reads(64 * COUNT, |_, random| random % (1 << 24));
    for (label, stream) in [
        ("hit, most recent line of the set", &front),
        ("hit, always the last of eight ways", &other_fixed),
        ("hit, random way of eight", &other),
        ("miss in D1, hit in LL (mostly; 4 MiB at random)", &l1_miss),
        ("miss in LL (mostly; 1 GiB at random)", &ll_miss),
    ] {
        single(label, Options::default(), stream);
    }
    single("the same misses in LL, --simulate-wb=yes", wb, &ll_miss);
    batch("16-byte events, most recent line", &front);
    batch("16-byte events, random way", &other);
    replay("8-byte script of 6 reads, most recent line", &front, 6);
    replay("8-byte script of 6 reads, random way", &other, 6);
    let mut predictor = ConditionalPredictor::new();
    time("conditional branch, random", other.len(), || {
        let wrong = other.iter().filter(|r| predictor.mispredicts(r.1, r.1 & 1 != 0)).count();
        black_box(wrong);
    });

    if let Some(file) = std::env::args().nth(1) {
        let stream = lackey(&std::fs::read_to_string(file).expect("the file Lackey wrote"));
        let mut caches = hierarchy(Options::default());
        // By kind, fetches and data: references, those not at the front of their set, misses.
        let mut seen = [[0usize; 3]; 2];
        for (kind, address, size) in &stream {
            let cache = if *kind == Kind::Fetch { &caches.first.instructions } else { &caches.first.data };
            let no_op = cache.layout().is_no_op(cache.rows(), *address, *size);
            let missed = caches.reference(*kind, *address, *size) != Level::L1;
            let row = &mut seen[usize::from(*kind != Kind::Fetch)];
            [1, usize::from(!no_op), usize::from(missed)]
                .into_iter()
                .zip(row)
                .for_each(|(one, sum)| *sum += one);
        }
        for (what, [all, slow, misses]) in ["fetches", "data references"].into_iter().zip(seen) {
            let percent = |part: usize| 100.0 * part as f64 / all as f64;
            println!(
                "{all} {what}: {:.2} % pass the filter, {:.2} % miss",
                100.0 - percent(slow),
                percent(misses)
            );
        }
        single("real stream, one call each", Options::default(), &stream);
        batch("real stream, 16-byte events", &stream);
        single("real stream, --simulate-wb=yes", wb, &stream);
    }
}
