//! Caches of named machines, so that counts do not depend on the machine at hand.
//!
//! The simulated hierarchy has two levels, so a real machine's L2 is left out: LL is its L3, whole,
//! as if one core had it for itself. Real caches also replace otherwise than by recency and are
//! filled by prefetchers; a preset gives the sizes, not the behaviour.

use crate::Geometry;

/// The three caches of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Name on the command line.
    pub name: &'static str,
    /// Instruction cache: size, ways, line size.
    pub i1: [u32; 3],
    /// Data cache.
    pub d1: [u32; 3],
    /// Last-level cache.
    pub ll: [u32; 3],
    /// Where the sizes are documented.
    pub source: &'static str,
}

/// The machines known by name.
pub const MODELS: [Model; 7] = [
    Model {
        name: "callgrind",
        i1: [65536, 2, 64],
        d1: [65536, 2, 64],
        ll: [262144, 8, 64],
        source: "Valgrind's defaults for x86 where the CPU's caches cannot be detected (an early Athlon)",
    },
    Model {
        name: "codspeed",
        i1: [32768, 8, 64],
        d1: [32768, 8, 64],
        ll: [8388608, 16, 64],
        source: "options that CodSpeed and gungraun give to Callgrind",
    },
    Model {
        name: "skylake",
        i1: [32768, 8, 64],
        d1: [32768, 8, 64],
        ll: [8388608, 16, 64],
        source: "Core i7-6700K: Intel 64 and IA-32 Architectures Optimization Reference Manual, Skylake client; \
                 L3 of 2 MiB and 16 ways per core, four cores",
    },
    Model {
        name: "icelake",
        i1: [32768, 8, 64],
        d1: [49152, 12, 64],
        ll: [8388608, 16, 64],
        source: "Core i7-1065G7: Intel 64 and IA-32 Architectures Optimization Reference Manual, Ice Lake client; \
                 L3 of 2 MiB and 16 ways per core, four cores",
    },
    Model {
        name: "zen3",
        i1: [32768, 8, 64],
        d1: [32768, 8, 64],
        ll: [33554432, 16, 64],
        source: "AMD Software Optimization Guide for the AMD Zen3 Microarchitecture (publication 56665); \
                 one core complex, L3 of 32 MiB",
    },
    Model {
        name: "zen4",
        i1: [32768, 8, 64],
        d1: [32768, 8, 64],
        ll: [33554432, 16, 64],
        source: "AMD Software Optimization Guide for the AMD Zen4 Microarchitecture (publication 57647); \
                 one core complex, L3 of 32 MiB",
    },
    Model {
        name: "graviton-like",
        i1: [65536, 4, 64],
        d1: [65536, 4, 64],
        ll: [33554432, 16, 64],
        source: "AWS Graviton2: Arm Neoverse N1 Technical Reference Manual (L1 64 KiB, 4 ways); \
                 system cache of 32 MiB, 16 ways (Arm CoreLink CMN-600)",
    },
];

impl Model {
    /// The machine with this name.
    pub fn named(name: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// I1, D1 and LL.
    pub fn caches(&self) -> [Geometry; 3] {
        let [i1, d1, ll] =
            [self.i1, self.d1, self.ll].map(|[size, ways, line]| Geometry::new(size, ways, line));
        match (i1, d1, ll) {
            (Ok(i1), Ok(d1), Ok(ll)) => [i1, d1, ll],
            _ => unreachable!("the models are constants, and tested"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_can_be_simulated_and_says_where_it_comes_from() {
        for model in &MODELS {
            let [i1, d1, ll] = model.caches();
            assert!(ll.size() > i1.size() && ll.size() > d1.size(), "{}", model.name);
            assert!([i1, d1, ll].iter().all(|cache| cache.line() >= 32), "{}: AVX registers fit", model.name);
            assert!(!model.source.is_empty());
            assert_eq!(
                Model::named(model.name).map(|found| found.name),
                Some(model.name),
                "names are unique"
            );
        }
        assert!(Model::named("z80").is_none());
    }
}
