//! Comparisons: all opcodes, odd prefixes, random fields, programs of the system.

use super::compare::compare;
use super::encode::{Fields, Space};
use crate::{DecodeError, decode};
use iced_x86::{Code, DecoderOptions, EncodingKind, InstructionInfoFactory, OpCodeInfo, OpCodeTableKind};
use std::collections::{BTreeMap, BTreeSet};

/// A small generator of pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Collects differences, by what they are about.
#[derive(Default)]
struct Report {
    compared: usize,
    valid: usize,
    seen: BTreeSet<Code>,
    differences: BTreeMap<String, (usize, String)>,
}

impl Report {
    fn compare(&mut self, factory: &mut InstructionInfoFactory, bytes: &[u8]) -> Option<usize> {
        self.compared += 1;
        match compare(factory, bytes) {
            Ok(Some(insn)) => {
                self.valid += 1;
                self.seen.insert(insn.code());
                Some(insn.len())
            }
            Ok(None) => None,
            Err(what) => {
                let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                let entry = self.differences.entry(what).or_insert((0, hex));
                entry.0 += 1;
                None
            }
        }
    }

    /// Fails unless every instruction of some forms was met.
    fn covers(&self, forms: &[EncodingKind]) {
        let missed: Vec<Code> = Code::values()
            .filter(|code| {
                let op = code.op_code();
                let exists = op.is_instruction()
                    && !op.fwait()
                    && op.intel_decoder64()
                    && op.decoder_option() == DecoderOptions::NONE;
                // The oracle never answers with this one.
                let exists = exists && *code != Code::Montmul_64;
                exists && forms.contains(&op.encoding()) && !self.seen.contains(code)
            })
            .collect();
        assert!(missed.is_empty(), "not met: {missed:?}");
    }

    fn finish(self, name: &str) {
        let codes = self.seen.len();
        eprintln!("{name}: {} compared, {} valid, of {codes} instructions", self.compared, self.valid);
        for (what, (count, example)) in self.differences.iter().take(60) {
            eprintln!("{count:8} {example} {what}");
        }
        assert!(self.differences.is_empty(), "{} kinds of difference", self.differences.len());
        assert!(self.valid > 0);
    }
}

/// What follows ModRM: a SIB byte, displacement and immediate of no special meaning.
const TAIL: [u8; 10] = [0x9c, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x08, 0x19];

/// Every opcode of the legacy maps with every ModRM byte and the prefixes that change its meaning.
#[test]
fn legacy_opcodes_are_alike() {
    let mut factory = InstructionInfoFactory::new();
    let mut report = Report::default();
    let prefixes: [&[u8]; 20] = [
        &[],
        &[0x66],
        &[0xf3],
        &[0xf2],
        &[0x48],
        &[0x45],
        &[0x66, 0x48],
        &[0xf3, 0x4f],
        &[0x66, 0xf2],
        &[0x67],
        &[0xf0],
        &[0x64],
        &[0x65, 0x41],
        &[0xf2, 0x48],
        &[0x66, 0xf3],
        &[0x67, 0x66],
        &[0x67, 0xf3],
        &[0x67, 0xf2],
        &[0x66, 0xf2, 0x48],
        &[0x67, 0xf3, 0x4c],
    ];
    for escape in [&[][..], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]] {
        for opcode in 0..=255u8 {
            for modrm in 0..=255u8 {
                for prefix in prefixes {
                    let bytes = [prefix, escape, &[opcode, modrm], &TAIL].concat();
                    report.compare(&mut factory, &bytes[..bytes.len().min(15)]);
                }
            }
        }
    }
    for suffix in 0..=255u8 {
        report.compare(&mut factory, &[0x0f, 0x0f, 0x01, suffix, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        report.compare(&mut factory, &[0x66, 0x0f, 0x0f, 0xc1, suffix, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    report.covers(&[EncodingKind::Legacy, EncodingKind::D3NOW]);
    report.finish("legacy");
}

/// Bytes that begin with any mixture of prefixes.
#[test]
fn prefixes_in_odd_order_are_alike() {
    let mut factory = InstructionInfoFactory::new();
    let mut report = Report::default();
    let mut random = Random(2);
    let prefixes =
        [0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x40, 0x41, 0x44, 0x48, 0x4f];
    for _ in 0..600_000 {
        let mut bytes: Vec<u8> = (0..random.below(6)).map(|_| prefixes[random.below(16) as usize]).collect();
        match random.below(8) {
            0..=2 => {}
            3 | 4 => bytes.push(0x0f),
            5 => bytes.extend([0x0f, 0x38]),
            6 => bytes.extend([0x0f, 0x3a]),
            _ => bytes.push([0xc4, 0xc5, 0x62, 0x8f][random.below(4) as usize]),
        }
        while bytes.len() < 15 {
            bytes.push(random.next() as u8);
        }
        report.compare(&mut factory, &bytes);
    }
    report.finish("prefixes");
}

/// Every opcode of the vector maps with all values of the fields that select an instruction, and registers,
/// masks and addresses of which some are always valid and others at random.
#[test]
fn vector_opcodes_are_alike() {
    let mut factory = InstructionInfoFactory::new();
    let mut report = Report::default();
    let mut random = Random(3);
    let defined: BTreeSet<_> = Code::values().map(|c| opcode_of(c.op_code())).collect();
    for (space, first, last) in [(Space::Vex, 0, 4), (Space::Evex, 0, 7), (Space::Xop, 8, 11)] {
        for (map, opcode) in (first..=last).flat_map(|map| (0..=255u8).map(move |opcode| (map, opcode))) {
            for n in 0..256u16 {
                let bit = |at: u16| n >> at & 1 == 1;
                if space != Space::Evex && (bit(6) || bit(7)) {
                    continue;
                }
                let f = Fields {
                    pp: n as u8 & 3,
                    wide: bit(2),
                    length: (n >> 3) as u8 & 1 | (bit(6) as u8) << 1,
                    mode: (n >> 4) as u8 & 3,
                    broadcast: bit(7),
                    ..Fields::new(space, map, opcode)
                };
                report.compare(&mut factory, &f.bytes().0);
                let rounds = if defined.contains(&(space, map, opcode)) { 8 } else { 0 };
                for reg in 0..rounds {
                    let rm = random.below(8) as u8;
                    let (sib, imm) = (random.next() as u8, random.next() as u8);
                    let f = Fields { reg, rm, sib, imm, ..f };
                    // What gathers ask for.
                    let gather = Fields { rm: if f.mode == 3 { rm } else { 4 }, x: true, mask: 1, ..f };
                    report.compare(&mut factory, &gather.bytes().0);
                    for f in variants(f, &mut random)
                        .into_iter()
                        .skip(random.below(3) as usize)
                        .step_by(if space == Space::Evex { 3 } else { 1 })
                    {
                        report.compare(&mut factory, &f.bytes().0);
                    }
                }
            }
        }
    }
    report.covers(&[EncodingKind::VEX, EncodingKind::EVEX, EncodingKind::XOP]);
    report.finish("vector");
}

/// Form, map and last opcode byte of an instruction.
fn opcode_of(op: &OpCodeInfo) -> (Space, u8, u8) {
    let space = match op.encoding() {
        EncodingKind::VEX => Space::Vex,
        EncodingKind::EVEX => Space::Evex,
        EncodingKind::XOP => Space::Xop,
        _ => Space::Legacy,
    };
    let map = match op.table() {
        OpCodeTableKind::Normal => 0,
        OpCodeTableKind::T0F => 1,
        OpCodeTableKind::T0F38 => 2,
        OpCodeTableKind::T0F3A => 3,
        OpCodeTableKind::MAP5 => 5,
        OpCodeTableKind::MAP6 => 6,
        OpCodeTableKind::MAP8 => 8,
        OpCodeTableKind::MAP9 => 9,
        OpCodeTableKind::MAP10 => 10,
        _ => 4,
    };
    (space, map, op.op_code() as u8)
}

/// An encoding with and without mask and vvvv, of low registers, of an address with index, and one of anything.
fn variants(f: Fields, random: &mut Random) -> [Fields; 7] {
    let bits = random.next();
    let bit = |n: u64| bits >> n & 1 == 1;
    let usual = Fields { r: bit(0), x: bit(1), b: bit(2), ..f };
    let vvvv = 8 | (bits >> 8) as u8 & 7;
    let any = Fields {
        r_high: bit(3) && bit(4),
        vvvv: (bits >> 16) as u8 & 31,
        mask: (bits >> 24) as u8 & 7,
        zeroing: bit(5) && bit(6),
        narrow: bit(7) && bit(8),
        ..usual
    };
    let indexed = Fields { rm: 4, vvvv: if bit(11) && bit(12) { vvvv } else { 0 }, ..usual };
    [
        usual,
        Fields { vvvv, ..usual },
        Fields { mask: 3, zeroing: bit(9), ..usual },
        Fields { mask: 0, vvvv: if bit(10) { vvvv } else { 0 }, ..any },
        Fields { mask: (bits >> 30) as u8 & 1, vvvv: (bits >> 12) as u8 & 7, ..f },
        Fields { mask: 1, ..indexed },
        any,
    ]
}

/// Random bytes: what is no instruction, mostly, and what comes after an instruction.
#[test]
fn random_bytes_are_alike() {
    let mut factory = InstructionInfoFactory::new();
    let mut report = Report::default();
    let mut random = Random(4);
    for _ in 0..500_000 {
        let bytes = [random.next().to_le_bytes(), random.next().to_le_bytes()].concat();
        report.compare(&mut factory, &bytes[..15]);
    }
    report.finish("random");
}

/// Executable sections of a 64-bit little-endian ELF file.
fn code(file: &[u8]) -> Vec<&[u8]> {
    let u16_at = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap()) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (table, size, count) = (u64_at(0x28), u16_at(0x3a), u16_at(0x3c));
    let headers = (0..count).map(|n| table + n * size);
    let executable = headers.filter(|at| u64_at(at + 8) & 4 != 0);
    executable.map(|at| &file[u64_at(at + 24)..][..u64_at(at + 32)]).collect()
}

/// Every instruction of some programs of the system.
#[test]
fn programs_are_alike() {
    let mut factory = InstructionInfoFactory::new();
    let mut report = Report::default();
    for path in [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/bin/python3",
        "/usr/bin/node",
    ] {
        let Ok(file) = std::fs::read(path) else {
            eprintln!("skipped: no {path}");
            continue;
        };
        for section in code(&file) {
            let mut at = 0;
            // A sample of very large ones, in stretches.
            let step = section.len() / 8_000_000 + 1;
            while at < section.len() {
                let bytes = &section[at..section.len().min(at + 15)];
                at += report.compare(&mut factory, bytes).unwrap_or(1);
                if step > 1 && at % 4096 < 16 {
                    at += 4096 * (step - 1);
                }
            }
        }
    }
    report.finish("programs");
}

/// An instruction that is cut short asks for more; a longer one than fifteen bytes does not exist.
#[test]
fn cut_instructions_ask_for_more() {
    let mut random = Random(5);
    let mut seen = 0;
    while seen < 20_000 {
        let bytes = [random.next().to_le_bytes(), random.next().to_le_bytes()].concat();
        let Ok(insn) = decode(&bytes[..15]) else { continue };
        seen += 1;
        for len in 0..insn.len as usize {
            assert_eq!(decode(&bytes[..len]).err(), Some(DecodeError::Truncated), "{bytes:02x?} {len}");
        }
        for len in insn.len as usize..15 {
            assert_eq!(decode(&bytes[..len]).map(|i| i.len), Ok(insn.len), "{bytes:02x?} {len}");
        }
    }
    let mut long = [0x66; 20];
    long[14] = 0x90;
    assert_eq!(decode(&long).map(|i| i.len), Ok(15));
    long[14] = 0x66;
    long[15] = 0x90;
    assert_eq!(decode(&long).err(), Some(DecodeError::Invalid));
}
