//! The simulators against Valgrind's, on the references of the same program.
//!
//! Lackey prints a program's references; fed through this crate they must give the counts that
//! Callgrind gives for the program. Skipped, visibly, where Valgrind or a C compiler is missing, unless
//! `REQUIRE_VALGRIND=1`.

use std::path::{Path, PathBuf};
use std::process::Command;

use tallygraph_cachesim::cache_use::{Charge, UsedIn};
use tallygraph_cachesim::event::Counts;
use tallygraph_cachesim::*;

/// Builds the guest, or says why the test cannot run.
fn guest(name: &str) -> Option<PathBuf> {
    let missing =
        ["valgrind", "cc"].into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        assert!(std::env::var("REQUIRE_VALGRIND").is_err(), "{tool} is not installed");
        eprintln!("skipped: {tool} is not installed");
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("references-{name}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/references.S");
    run(Command::new("cc").args(["-nostdlib", "-static", "-no-pie", "-o"]).arg(&program).arg(source));
    Some(program)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs Valgrind on the guest in an empty environment and returns what it wrote to a file.
fn valgrind(program: &Path, output_option: &str, options: &[&str]) -> String {
    let file = program.with_extension("out");
    let output = format!("{output_option}={}", file.display());
    run(Command::new("valgrind").env_clear().args(options).arg(output).arg(program));
    std::fs::read_to_string(&file).unwrap()
}

/// The references of the guest, as Lackey prints them.
fn references(program: &Path) -> Vec<(Kind, u64, u32)> {
    let text = valgrind(program, "--log-file", &["--tool=lackey", "--trace-mem=yes"]);
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

/// The counts of a Callgrind run: event name and count.
///
/// They are those of the `summary:` line, as the sum of what is written out (`totals:`) lacks the
/// last block before the exit, which is never left. Line use is only in the latter.
fn callgrind(program: &Path, options: &[&str]) -> Vec<(String, u64)> {
    let options = [&["--tool=callgrind"], options].concat();
    let text = valgrind(program, "--callgrind-out-file", &options);
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap().split_whitespace();
    // Zeros at the end are left out.
    let counts = |key| line(key).map(|count| count.parse::<u64>().unwrap()).chain(std::iter::repeat(0));
    line("events:")
        .zip(counts("summary:").zip(counts("totals:")))
        .map(|(name, (all, written))| {
            let is_use = name.starts_with("AcCost") || name.starts_with("SpLoss");
            (name.to_owned(), if is_use { written } else { all })
        })
        .collect()
}

const GEOMETRIES: [[[u32; 3]; 3]; 3] = [
    [[32768, 8, 64], [32768, 8, 64], [8388608, 16, 64]],
    [[4096, 1, 32], [6144, 3, 64], [262144, 16, 128]],
    [[16384, 4, 64], [2048, 32, 64], [65536, 8, 64]],
];

fn caches(geometries: [[u32; 3]; 3]) -> ([Geometry; 3], [String; 3]) {
    let options = [0, 1, 2].map(|i| {
        let [size, ways, line] = geometries[i];
        format!("--{}={size},{ways},{line}", ["I1", "D1", "LL"][i])
    });
    (geometries.map(|[size, ways, line]| Geometry::new(size, ways, line).unwrap()), options)
}

#[test]
fn cache_events_equal_callgrinds() {
    let Some(program) = guest("caches") else { return };
    let references = references(&program);
    for geometries in GEOMETRIES {
        for (write_back, prefetch) in [(false, false), (true, false), (false, true), (true, true)] {
            let ([i1, d1, ll], options) = caches(geometries);
            let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
            options.push("--cache-sim=yes");
            options.extend(write_back.then_some("--simulate-wb=yes"));
            options.extend(prefetch.then_some("--simulate-hwpref=yes"));
            let variant = Options { write_back, prefetch, fidelity: Fidelity::Callgrind };
            let mut hierarchy = Hierarchy::new(i1, d1, ll, variant);
            let mut counts = Counts::default();
            for (kind, address, size) in &references {
                counts.add(*kind, hierarchy.reference(*kind, *address, *size));
            }
            for (name, count) in callgrind(&program, &options) {
                assert_eq!(counts.get(&name), Some(count), "{name} with {options:?}");
            }
        }
    }
}

#[test]
fn line_use_equals_callgrinds() {
    let Some(program) = guest("use") else { return };
    let references = references(&program);
    for geometries in GEOMETRIES {
        if geometries.iter().any(|cache| cache[2] != geometries[2][2]) {
            // The handing on of use from lines of one size to lines of another has no meaning.
            continue;
        }
        let ([i1, d1, ll], options) = caches(geometries);
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        options.extend(["--cache-sim=yes", "--cacheuse=yes"]);
        let mut simulator = CacheUse::new(i1, d1, ll, Fidelity::Callgrind);
        let mut counts = Counts::default();
        let mut used = [0u64; 4];
        let mut charge = |charge: Charge| {
            let pair = if charge.used_in == UsedIn::L1 { 0 } else { 2 };
            used[pair] += u64::from(charge.access_cost);
            used[pair + 1] += u64::from(charge.spatial_loss);
        };
        for (kind, address, size) in &references {
            counts.add(*kind, simulator.reference(*kind, *address, *size, 0, &mut charge));
        }
        simulator.finish(&mut charge);
        let names = ["AcCost1", "SpLoss1", "AcCost2", "SpLoss2"];
        for (name, count) in callgrind(&program, &options) {
            let ours = names.iter().position(|n| *n == name).map(|i| used[i]).or_else(|| counts.get(&name));
            assert_eq!(ours, Some(count), "{name} with {options:?}");
        }
    }
}

/// The bytes of the guest's code at an address, from its program headers.
fn code_at(elf: &[u8], address: u64) -> Option<&[u8]> {
    let word = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    let headers = word(32) as usize;
    let count = u16::from_le_bytes([elf[56], elf[57]]) as usize;
    (0..count).map(|i| headers + i * 56).find_map(|header| {
        let (kind, offset, start, length) =
            (word(header) as u32, word(header + 8), word(header + 16), word(header + 32));
        let inside = kind == 1 && (start..start + length).contains(&address);
        inside.then(|| &elf[(offset + address - start) as usize..(offset + length) as usize])
    })
}

#[test]
fn branch_events_equal_callgrinds() {
    let Some(program) = guest("branches") else { return };
    let fetches: Vec<_> =
        references(&program).into_iter().filter(|(kind, ..)| *kind == Kind::Fetch).collect();
    let elf = std::fs::read(&program).unwrap();
    let (mut conditional, mut indirect) = (ConditionalPredictor::new(), IndirectPredictor::new());
    let [mut bc, mut bcm, mut bi, mut bim] = [0; 4];
    for pair in fetches.windows(2) {
        let (_, address, size) = pair[0];
        let next = pair[1].1;
        match code_at(&elf, address).unwrap() {
            // jcc rel8, jcc rel32
            [0x70..=0x7f, ..] | [0x0f, 0x80..=0x8f, ..] => {
                bc += 1;
                bcm += u64::from(conditional.mispredicts(address, next != address + u64::from(size)));
            }
            // call r/m64, jmp r/m64
            [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 2 | 4) => {
                bi += 1;
                bim += u64::from(indirect.mispredicts(address, next));
            }
            _ => {}
        }
    }
    let totals = callgrind(&program, &["--branch-sim=yes"]);
    let ours = [("Bc", bc), ("Bcm", bcm), ("Bi", bi), ("Bim", bim)];
    assert_eq!(totals[1..], ours.map(|(name, count)| (name.to_owned(), count)));
}
