//! Latency and reciprocal throughput per instruction class: the events `Ct` and `Cl`.
//!
//! `--cycle-estimation=yes` adds two numbers per executed instruction, in hundredths of a cycle:
//! `Ct`, the reciprocal throughput (what the instruction costs among many independent ones), and
//! `Cl`, the latency (what it costs in a chain that waits for it). The truth lies between their
//! sums; neither knows caches, branch predictors or the order of instructions.
//!
//! The values were measured with `examples/measure_costs.rs` on an AMD EPYC (family 25, model 17,
//! Zen 4), which states the method, and rounded to 1/100 cycle where a simple fraction was meant.
//! They can be compared with AMD's *Software Optimization Guide for the AMD Zen4
//! Microarchitecture* (publication 57647), A. Fog's *Instruction tables*, and uops.info. Classes
//! the program does not measure are marked *assumed*.
//!
//! Which class an instruction belongs to is for the caller to say; it adds [`Class::Load`] and
//! [`Class::Store`] for memory operands through [`Class::with_memory`].

/// Cost of one execution, in hundredths of a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Reciprocal throughput, `Ct`.
    pub throughput: u32,
    /// Latency, `Cl`.
    pub latency: u32,
}

/// Event names of [`Cost::throughput`] and [`Cost::latency`].
pub const NAMES: [&str; 2] = ["Ct", "Cl"];

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $throughput:literal, $latency:literal;)*) => {
        /// What an instruction does, as far as its cost depends on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Class {
            $($(#[$doc])* $name,)*
        }

        impl Class {
            /// All classes.
            pub const ALL: &[Class] = &[$(Class::$name),*];

            /// The cost of an instruction of this class with register operands.
            pub const fn cost(self) -> Cost {
                match self {
                    $(Class::$name => Cost { throughput: $throughput, latency: $latency },)*
                }
            }
        }
    };
}

classes! {
    /// Nothing: `nop`, `endbr64`, prefetches.
    Nop = 8, 0;
    /// Copies between general registers, which renaming does.
    Move = 17, 0;
    /// Sums, differences, logic, comparisons, sign and zero extension, constants.
    Alu = 25, 100;
    /// Sums and differences with carry.
    AluCarry = 100, 100;
    /// Addresses of two parts.
    Lea = 25, 100;
    /// Addresses with a scaled index, or of three parts.
    LeaScaled = 50, 200;
    /// Shifts and rotations.
    Shift = 50, 100;
    /// `shld`, `shrd`.
    DoubleShift = 150, 200;
    /// `cmovcc`, `setcc`.
    Conditional = 50, 100;
    /// `bsf`, `bsr`, `tzcnt`, `lzcnt`.
    BitScan = 25, 100;
    /// `popcnt`.
    BitCount = 25, 100;
    /// Products that fit one register.
    Multiply = 100, 300;
    /// Products in two registers.
    MultiplyWide = 100, 300;
    /// Division of up to 32 bits, small quotients; large ones take more.
    Divide32 = 600, 900;
    /// Division of 64 bits, small quotients; large ones take more.
    Divide64 = 700, 900;
    /// `crc32`.
    Crc32 = 100, 300;
    /// Jumps, with or without condition, predicted.
    Branch = 50, 100;
    /// Direct and indirect calls, predicted; half of the pair measured.
    Call = 100, 100;
    /// Returns, predicted; half of the pair measured.
    Return = 100, 100;
    /// Loads of any width that hit in L1.
    Load = 33, 400;
    /// Stores of any width.
    Store = 100, 100;
    /// Read-modify-write with `lock`, and `xchg` with memory.
    Locked = 620, 620;
    /// `mfence`; `lfence` and `sfence` are cheaper.
    Fence = 5830, 5830;
    /// Copies between vector registers.
    VectorMove = 17, 0;
    /// Vector sums, logic, comparisons, minimum and maximum of integers.
    VectorInteger = 25, 100;
    /// Shuffles, packing, shifts within vectors.
    VectorShuffle = 50, 100;
    /// Vector products of integers.
    VectorMultiply = 50, 300;
    /// General register to vector register; half of the pair measured.
    ToVector = 100, 350;
    /// Vector register to general register; half of the pair measured.
    FromVector = 100, 350;
    /// Floating-point sums and differences, vector or not.
    FloatAdd = 50, 300;
    /// Floating-point products, vector or not.
    FloatMultiply = 50, 300;
    /// Fused products and sums.
    FloatFused = 50, 400;
    /// Comparisons that set the flags.
    FloatCompare = 100, 300;
    /// Division in double precision.
    FloatDivide = 450, 1300;
    /// Division in single precision.
    FloatDivide32 = 300, 1100;
    /// Square roots.
    FloatRoot = 840, 2100;
    /// Conversions between number formats.
    Convert = 50, 300;
    /// AES rounds, carry-less products.
    Crypto = 50, 400;
    /// SHA rounds (assumed: as an AES round, not pipelined as well).
    Hash = 200, 400;
    /// Gathers and scatters, per instruction (assumed: eight lanes, one load each, and merging).
    Gather = 800, 2000;
    /// One step of a string instruction.
    StringStep = 100, 100;
    /// x87 arithmetic (assumed: half the rate of vectors, with the latency of an addition).
    X87 = 100, 700;
    /// x87 transcendental functions (assumed).
    X87Function = 5000, 10000;
    /// `rdtsc` and other instructions in microcode.
    Microcode = 3500, 3500;
    /// `cpuid`, `syscall` and others that drain the pipeline (assumed).
    Serialize = 10000, 10000;
}

impl Class {
    /// The cost of an instruction of this class that reads and writes memory so many times.
    ///
    /// Throughput is bound by the busiest of computing, loading and storing; latency is that of the
    /// class after that of one load, as loads of one instruction overlap. Stores delay nobody.
    pub const fn with_memory(self, reads: u32, writes: u32) -> Cost {
        let own = self.cost();
        let load = Class::Load.cost();
        let reading = reads * load.throughput;
        let writing = writes * Class::Store.cost().throughput;
        let throughput = max(own.throughput, max(reading, writing));
        let waits = reads > 0 && !matches!(self, Class::Load | Class::Locked);
        Cost { throughput, latency: own.latency + if waits { load.latency } else { 0 } }
    }
}

const fn max(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_operand_adds_the_latency_of_a_load() {
        assert_eq!(Class::Alu.with_memory(0, 0), Cost { throughput: 25, latency: 100 });
        assert_eq!(Class::Alu.with_memory(1, 0), Cost { throughput: 33, latency: 500 });
        assert_eq!(Class::Alu.with_memory(1, 1), Cost { throughput: 100, latency: 500 });
        assert_eq!(Class::Load.with_memory(1, 0), Class::Load.cost());
        assert_eq!(Class::Move.with_memory(0, 1).throughput, 100);
    }

    #[test]
    fn no_class_waits_less_than_it_occupies_except_where_renaming_or_carries_explain_it() {
        for class in Class::ALL {
            let Cost { throughput, latency } = class.cost();
            let renamed = matches!(class, Class::Nop | Class::Move | Class::VectorMove);
            assert!(throughput > 0 && (latency >= throughput || renamed), "{class:?}");
        }
    }
}
