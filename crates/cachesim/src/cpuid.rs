//! Default caches from the CPU's own description, as Valgrind finds them, or better.
//!
//! A pure function over the answers of the `cpuid` instruction, so that any CPU can be asked,
//! real or named. [`Method::Callgrind`] follows Valgrind 3.19 and gives the caches a profile of
//! its would have. On AMD CPUs from Zen on, that is a direct-mapped LL of odd size, because leaf 0x80000006
//! refers to leaf 0x8000001D for the associativity and Valgrind does not look there;
//! [`Method::Topology`] does.
//!
//! Formats: Intel SDM volume 2A, `CPUID`, leaves 2 and 4; AMD APM volume 3, appendix E, leaves
//! 0x80000005, 0x80000006 and 0x8000001D.

use core::fmt;

use crate::Geometry;

/// Whose reading of the leaves to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Valgrind's.
    Callgrind,
    /// The cache topology leaves (4 on Intel, 0x8000001D on AMD) where there are any, else Valgrind's.
    Topology,
}

/// What the user should be told of the detection. The text of each is Valgrind's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// There are more than two levels; LL stands for this one.
    LevelUsed(u8),
    /// LL had to be adjusted: size, associativity and line size as described, and as simulated.
    Adjusted([u32; 3], Geometry),
    /// Caches are described, but no unified one.
    NoLastLevel,
    /// Nothing usable is described; the fall-back is used.
    Undetected,
    /// The description cannot be simulated; the fall-back is used.
    Unsupported,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LevelUsed(level) => {
                write!(f, "warning: L{level} cache found, using its data for the LL simulation.")
            }
            Self::Adjusted([size, ways, line], to) => {
                writeln!(
                    f,
                    "warning: specified LL cache: line_size {line}  assoc {ways}  total_size {}",
                    Grouped(*size)
                )?;
                write!(
                    f,
                    "warning: simulated LL cache: line_size {}  assoc {}  total_size {}",
                    to.line(),
                    to.ways(),
                    Grouped(to.size())
                )
            }
            Self::NoLastLevel => f.write_str("warning: L2 cache not installed, ignore LL results."),
            Self::Undetected => f.write_str(
                "Warning: Cannot auto-detect cache config, using defaults.\n         Run with -v to see.",
            ),
            Self::Unsupported => {
                f.write_str("warning: auto-detected cache configuration not supported, using defaults.")
            }
        }
    }
}

/// A number with a comma after each three digits.
struct Grouped(u32);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            number @ 0..1000 => write!(f, "{number}"),
            number => write!(f, "{},{:03}", Grouped(number / 1000), number % 1000),
        }
    }
}

/// The caches to simulate by default, and what to tell the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detected {
    /// Instruction cache.
    pub i1: Geometry,
    /// Data cache.
    pub d1: Geometry,
    /// Last-level cache.
    pub ll: Geometry,
    notes: [Option<Note>; 2],
}

impl Detected {
    /// What the user should be told, in order.
    pub fn notes(&self) -> impl Iterator<Item = Note> {
        self.notes.into_iter().flatten()
    }
}

/// Caches as described: size in bytes, ways, line size.
#[derive(Clone, Copy, Debug, Default)]
struct Described {
    i1: Option<[u32; 3]>,
    d1: Option<[u32; 3]>,
    /// Unified caches of levels 2 and 3.
    unified: [Option<[u32; 3]>; 2],
    /// Highest level of any cache.
    levels: u8,
}

/// The registers eax, ebx, ecx and edx that `cpuid` leaves for a leaf and subleaf.
pub type Leaf = [u32; 4];

/// The default caches of the CPU whose `cpuid` is `leaf(leaf, subleaf)`.
pub fn detect(method: Method, leaf: impl Fn(u32, u32) -> Leaf) -> Detected {
    let [max_leaf, b, c, d] = leaf(0, 0);
    let mut vendor = [0; 12];
    for (bytes, word) in vendor.chunks_exact_mut(4).zip([b, d, c]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    let described = match &vendor {
        _ if max_leaf == 0 => None,
        b"GenuineIntel" => intel(method, max_leaf, &leaf),
        b"AuthenticAMD" => amd(method, &leaf),
        b"HygonGenuine" if method == Method::Topology => amd(method, &leaf),
        // Valgrind's assumption: a VIA Nehemiah.
        b"CentaurHauls" => Some(Described {
            i1: Some([64 << 10, 4, 16]),
            d1: Some([64 << 10, 16, 16]),
            unified: [Some([64 << 10, 16, 16]), None],
            levels: 2,
        }),
        _ => None,
    };
    described.map_or_else(|| fallback([Some(Note::Undetected), None]), |described| settle(&described))
}

/// What Valgrind simulates on x86 when it knows nothing.
fn fallback(notes: [Option<Note>; 2]) -> Detected {
    let [i1, d1, ll] = match crate::model::Model::named("callgrind") {
        Some(model) => model.caches(),
        None => unreachable!("the model is a constant"),
    };
    Detected { i1, d1, ll, notes }
}

/// Chooses the three caches among those described.
fn settle(described: &Described) -> Detected {
    let ll = match described.levels {
        2 => described.unified[0],
        3 => described.unified[1],
        _ => None,
    };
    let (Some(i1), Some(d1), Some(ll)) = (described.i1, described.d1, ll) else {
        let missing = if ll.is_none() { Some(Note::NoLastLevel) } else { None };
        return fallback([missing, Some(Note::Undetected)]);
    };
    let level = (described.levels > 2).then_some(Note::LevelUsed(described.levels));
    let simple = |[size, ways, line]: [u32; 3]| Geometry::new(size, ways, line).ok();
    let (Some(i1), Some(d1), Some((adjusted, changed))) =
        (simple(i1), simple(d1), Geometry::adjusted(ll[0], ll[1], ll[2]))
    else {
        return fallback([level, Some(Note::Unsupported)]);
    };
    let change = changed.then_some(Note::Adjusted(ll, adjusted));
    Detected { i1, d1, ll: adjusted, notes: [level, change] }
}

impl Described {
    /// Notes a cache of `kind` (1 data, 2 instructions, 3 unified) and `level`.
    fn add(&mut self, level: u8, kind: u32, cache: [u32; 3]) {
        match (level, kind) {
            (1, 1) => self.d1 = Some(cache),
            (1, 2) => self.i1 = Some(cache),
            (2 | 3, 3) => self.unified[usize::from(level) - 2] = Some(cache),
            _ => {}
        }
        self.levels = self.levels.max(level.min(3));
    }

    /// Adds the caches that leaf `topology` lists; Intel's leaf 4 and AMD's 0x8000001D agree.
    fn add_topology(&mut self, topology: u32, leaf: &impl Fn(u32, u32) -> Leaf) {
        // No CPU has so many caches; the limit is for answers that never end.
        for subleaf in 0..16 {
            let [a, b, c, _] = leaf(topology, subleaf);
            let (kind, level) = (a & 0x1f, (a >> 5 & 7) as u8);
            if kind == 0 {
                break;
            }
            let (ways, parts, line) = ((b >> 22) + 1, (b >> 12 & 0x3ff) + 1, (b & 0xfff) + 1);
            let size = [ways, parts, line].into_iter().try_fold(c.wrapping_add(1), u32::checked_mul);
            if let Some(size) = size
                && level <= 3
            {
                self.add(level, kind, [size, ways, line]);
            }
        }
    }
}

/// Descriptors of leaf 2: value, level, kind (1 data, 2 instructions, 3 unified), KiB, ways, line.
///
/// Intel SDM volume 2A, table "Encoding of CPUID Leaf 2 Descriptors", as far as Valgrind knows it;
/// 0x39 and 0x3c are of older editions. 0x70 to 0x72 (trace caches, counted in micro-operations)
/// are given the size Valgrind simulates for them.
const DESCRIPTORS: &[(u8, u8, u8, u16, u8, u8)] = &[
    (0x06, 1, 2, 8, 4, 32),
    (0x08, 1, 2, 16, 4, 32),
    (0x09, 1, 2, 32, 4, 64),
    (0x30, 1, 2, 32, 8, 64),
    (0x70, 1, 2, 16, 8, 32),
    (0x71, 1, 2, 16, 8, 32),
    (0x72, 1, 2, 32, 8, 32),
    (0x0a, 1, 1, 8, 2, 32),
    (0x0c, 1, 1, 16, 4, 32),
    (0x0d, 1, 1, 16, 4, 64),
    (0x0e, 1, 1, 24, 6, 64),
    (0x2c, 1, 1, 32, 8, 64),
    (0x60, 1, 1, 16, 8, 64),
    (0x66, 1, 1, 8, 4, 64),
    (0x67, 1, 1, 16, 4, 64),
    (0x68, 1, 1, 32, 4, 64),
    (0x21, 2, 3, 256, 8, 64),
    (0x39, 2, 3, 128, 4, 64),
    (0x3c, 2, 3, 256, 4, 64),
    (0x41, 2, 3, 128, 4, 32),
    (0x42, 2, 3, 256, 4, 32),
    (0x43, 2, 3, 512, 4, 32),
    (0x44, 2, 3, 1024, 4, 32),
    (0x45, 2, 3, 2048, 4, 32),
    (0x48, 2, 3, 3072, 12, 64),
    (0x49, 2, 3, 4096, 16, 64),
    (0x4e, 2, 3, 6144, 24, 64),
    (0x78, 2, 3, 1024, 4, 64),
    (0x79, 2, 3, 128, 8, 64),
    (0x7a, 2, 3, 256, 8, 64),
    (0x7b, 2, 3, 512, 8, 64),
    (0x7c, 2, 3, 1024, 8, 64),
    (0x7d, 2, 3, 2048, 8, 64),
    (0x7e, 2, 3, 256, 8, 128),
    (0x7f, 2, 3, 512, 2, 64),
    (0x80, 2, 3, 512, 8, 64),
    (0x81, 2, 3, 128, 8, 32),
    (0x82, 2, 3, 256, 8, 32),
    (0x83, 2, 3, 512, 8, 32),
    (0x84, 2, 3, 1024, 8, 32),
    (0x85, 2, 3, 2048, 8, 32),
    (0x86, 2, 3, 512, 4, 64),
    (0x87, 2, 3, 1024, 8, 64),
    (0x22, 3, 3, 512, 4, 64),
    (0x23, 3, 3, 1024, 8, 64),
    (0x25, 3, 3, 2048, 8, 64),
    (0x29, 3, 3, 4096, 8, 64),
    (0x46, 3, 3, 4096, 4, 64),
    (0x47, 3, 3, 8192, 8, 64),
    (0x4a, 3, 3, 6144, 12, 64),
    (0x4b, 3, 3, 8192, 16, 64),
    (0x4c, 3, 3, 12288, 12, 64),
    (0x4d, 3, 3, 16384, 16, 64),
    (0xd0, 3, 3, 512, 4, 64),
    (0xd1, 3, 3, 1024, 4, 64),
    (0xd2, 3, 3, 2048, 4, 64),
    (0xd6, 3, 3, 1024, 8, 64),
    (0xd7, 3, 3, 2048, 8, 64),
    (0xd8, 3, 3, 4096, 8, 64),
    (0xdc, 3, 3, 1536, 12, 64),
    (0xdd, 3, 3, 3072, 12, 64),
    (0xde, 3, 3, 6144, 12, 64),
    (0xe2, 3, 3, 2048, 16, 64),
    (0xe3, 3, 3, 4096, 16, 64),
    (0xe4, 3, 3, 8192, 16, 64),
    (0xea, 3, 3, 12288, 24, 64),
    (0xeb, 3, 3, 18432, 24, 64),
    (0xec, 3, 3, 24576, 24, 64),
];

fn intel(method: Method, max_leaf: u32, leaf: &impl Fn(u32, u32) -> Leaf) -> Option<Described> {
    let mut described = Described::default();
    if method == Method::Topology && max_leaf >= 4 {
        described.add_topology(4, leaf);
        if described.levels > 0 {
            return Some(described);
        }
    }
    if max_leaf < 2 {
        return None;
    }
    let mut descriptors = [0; 16];
    for (bytes, word) in descriptors.chunks_exact_mut(4).zip(leaf(2, 0)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    // The first byte is the number of times the leaf has to be asked; always once.
    if descriptors[0] != 1 {
        return None;
    }
    for descriptor in &descriptors[1..] {
        if *descriptor == 0xff {
            described.add_topology(4, leaf);
        } else if let Some(&(_, level, kind, kib, ways, line)) =
            DESCRIPTORS.iter().find(|row| row.0 == *descriptor)
        {
            // On the Xeon MP of family 15, model 6, this one is an L3.
            let level = if *descriptor == 0x49 && family_model(leaf(1, 0)[0]) == (15, 6) { 3 } else { level };
            described.add(level, u32::from(kind), [u32::from(kib) << 10, u32::from(ways), u32::from(line)]);
        }
    }
    Some(described)
}

/// Family and model as Valgrind adds them up from leaf 1's eax.
fn family_model(signature: u32) -> (u32, u32) {
    let family = (signature >> 20 & 0xff) * 16 + (signature >> 8 & 0xf);
    let model = (signature >> 16 & 0xf) * 16 + (signature >> 4 & 0xf);
    (family, model)
}

fn amd(method: Method, leaf: &impl Fn(u32, u32) -> Leaf) -> Option<Described> {
    let max_extended = leaf(0x8000_0000, 0)[0];
    let mut described = Described::default();
    if method == Method::Topology && max_extended >= 0x8000_001d {
        described.add_topology(0x8000_001d, leaf);
        if described.levels > 0 {
            return Some(described);
        }
    }
    if max_extended < 0x8000_0006 {
        return None;
    }
    let [_, _, d1, i1] = leaf(0x8000_0005, 0);
    let [_, _, mut l2, l3] = leaf(0x8000_0006, 0);
    if leaf(1, 0)[0] == 0x630 {
        // This Duron reports 1 KiB where it has 64.
        l2 = 64 << 16 | (l2 & 0xffff);
    }
    let first = |word: u32| [(word >> 24) << 10, word >> 16 & 0xff, word & 0xff];
    described.add(1, 1, first(d1));
    described.add(1, 2, first(i1));
    described.add(2, 3, [(l2 >> 16) << 10, amd_ways(l2), l2 & 0xff]);
    if l3 >> 18 > 0 {
        described.add(3, 3, [(l3 >> 18).saturating_mul(512 << 10), amd_ways(l3), l3 & 0xff]);
    }
    Some(described)
}

/// Associativity in bits 12..16 of leaf 0x80000006; 1 for what Valgrind does not know.
fn amd_ways(word: u32) -> u32 {
    match word >> 12 & 0xf {
        2 => 2,
        4 => 4,
        6 => 8,
        8 => 16,
        0xa => 32,
        0xb => 48,
        0xc => 64,
        0xd => 96,
        0xe => 128,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Table = &'static [((u32, u32), Leaf)];

    fn ask(method: Method, table: Table) -> (String, Vec<String>) {
        let detected = detect(method, |leaf, subleaf| {
            table.iter().find(|row| row.0 == (leaf, subleaf)).map_or([0; 4], |row| row.1)
        });
        let caches = [detected.i1, detected.d1, detected.ll]
            .map(|g| format!("{},{},{}", g.size(), g.ways(), g.line()));
        (caches.join(" "), detected.notes().map(|note| note.to_string()).collect())
    }

    const AMD: Leaf = [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65];
    const INTEL: Leaf = [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69];

    /// An EPYC of family 25, model 17, as its `cpuid` answers.
    const EPYC: Table = &[
        ((0, 0), AMD),
        ((1, 0), [0x00a1_0f11, 0, 0, 0]),
        ((0x8000_0000, 0), [0x8000_0021, 0, 0, 0]),
        ((0x8000_0005, 0), [0xff48_ff40, 0xff48_ff40, 0x2008_0140, 0x2008_0140]),
        ((0x8000_0006, 0), [0x5c00_2200, 0x6c00_4200, 0x0400_6140, 0x0a00_9140]),
        ((0x8000_001d, 0), [0x121, 0x01c0_003f, 0x3f, 0]),
        ((0x8000_001d, 1), [0x122, 0x01c0_003f, 0x3f, 0]),
        ((0x8000_001d, 2), [0x143, 0x01c0_003f, 0x7ff, 2]),
        ((0x8000_001d, 3), [0x4163, 0x03c0_003f, 0x7fff, 1]),
    ];

    #[test]
    fn an_amd_cpu_as_valgrind_reads_it_and_as_it_is() {
        // Valgrind 3.19 -v -v prints exactly this on that CPU.
        let (caches, notes) = ask(Method::Callgrind, EPYC);
        assert_eq!(caches, "32768,8,64 32768,8,64 268435456,1,64");
        assert_eq!(
            notes,
            [
                "warning: L3 cache found, using its data for the LL simulation.",
                "warning: specified LL cache: line_size 64  assoc 1  total_size 335,544,320\n\
             warning: simulated LL cache: line_size 64  assoc 1  total_size 268,435,456",
            ]
        );
        let (caches, notes) = ask(Method::Topology, EPYC);
        assert_eq!(caches, "32768,8,64 32768,8,64 33554432,16,64");
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn an_intel_cpu_with_a_topology_leaf() {
        // The shape of a six-core client: leaf 2 says "see leaf 4"; an L3 of 12 MiB in 16 ways.
        const COFFEE_LAKE: Table = &[
            ((0, 0), INTEL),
            ((2, 0), [0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000]),
            ((4, 0), [0x1c00_4121, 0x01c0_003f, 0x3f, 0]),
            ((4, 1), [0x1c00_4122, 0x01c0_003f, 0x3f, 0]),
            ((4, 2), [0x1c00_4143, 0x00c0_003f, 0x3ff, 0]),
            ((4, 3), [0x1c03_c163, 0x03c0_003f, 0x2fff, 6]),
        ];
        for method in [Method::Callgrind, Method::Topology] {
            let (caches, notes) = ask(method, COFFEE_LAKE);
            assert_eq!(caches, "32768,8,64 32768,8,64 12582912,24,64");
            assert_eq!(notes.len(), 2, "{notes:?}");
        }
    }

    #[test]
    fn an_intel_cpu_with_descriptors_only() {
        // Core 2 (family 6, model 15): L1 32 KiB each, L2 4 MiB, no L3.
        const CORE2: Table = &[
            ((0, 0), [10, INTEL[1], INTEL[2], INTEL[3]]),
            ((1, 0), [0x6f6, 0, 0, 0]),
            ((2, 0), [0x05b0_b101, 0x0056_57f0, 0, 0x2cb4_3049]),
        ];
        let (caches, notes) = ask(Method::Callgrind, CORE2);
        assert_eq!(caches, "32768,8,64 32768,8,64 4194304,16,64");
        assert!(notes.is_empty());
    }

    #[test]
    fn what_cannot_be_detected_falls_back_with_a_warning() {
        const NONE: Table = &[((0, 0), [1, 0, 0, 0])];
        const NO_UNIFIED: Table = &[((0, 0), INTEL), ((2, 0), [0x0000_3001, 0x2c, 0, 0])];
        let defaults = "65536,2,64 65536,2,64 262144,8,64";
        let (caches, notes) = ask(Method::Callgrind, NONE);
        assert_eq!((caches.as_str(), notes.len()), (defaults, 1));
        assert!(notes[0].starts_with("Warning: Cannot auto-detect cache config, using defaults."));
        let (caches, notes) = ask(Method::Callgrind, NO_UNIFIED);
        assert_eq!((caches.as_str(), notes.len()), (defaults, 2));
        assert_eq!(notes[0], "warning: L2 cache not installed, ignore LL results.");
    }

    #[test]
    fn answers_that_never_end_are_survived() {
        let detected = detect(Method::Topology, |leaf, _| if leaf == 0 { INTEL } else { [u32::MAX; 4] });
        assert!(detected.notes().count() > 0);
        let detected = detect(Method::Callgrind, |leaf, _| if leaf == 0 { AMD } else { [u32::MAX; 4] });
        assert!(detected.notes().count() > 0);
    }
}
