//! Which encodings the oracle is asked about for an opcode, and what makes some of them invalid.

use super::encode::{Fields, Space};
use super::facts;
use crate::op::{Field, Shape, check};
use iced_x86::Instruction;
use std::collections::BTreeMap;

/// Values of all [`Field`]s.
pub type Point = [u8; 10];

pub const ALL_FIELDS: [Field; 10] = [
    Field::Register,
    Field::Reg,
    Field::Rm,
    Field::Repeat,
    Field::OpSize,
    Field::Wide,
    Field::Length,
    Field::Broadcast,
    Field::RegHigh,
    Field::RmHigh,
];

pub fn arity(field: Field) -> usize {
    match field {
        Field::Reg | Field::Rm => 8,
        Field::Repeat | Field::Length => 4,
        _ => 2,
    }
}

/// All combinations of the fields that can tell an opcode's instructions apart.
pub fn points(base: &Fields, pp: u8) -> Vec<Point> {
    let legacy = base.space == Space::Legacy;
    let mut axes: [Vec<u8>; 10] = std::array::from_fn(|_| vec![0]);
    let mut axis = |field: Field, values: &[u8]| axes[field as usize] = values.to_vec();
    axis(Field::Wide, &[0, 1]);
    match base.space {
        Space::Legacy if base.map == 0 => {
            axis(Field::Repeat, &[0, 1, 2]);
            axis(Field::OpSize, &[0, 1]);
        }
        Space::Legacy => {
            axis(Field::Repeat, &[pp.saturating_sub(1)]);
            axis(Field::OpSize, if pp < 2 { &[[0u8], [1]][pp as usize] } else { &[0, 1] });
        }
        Space::Evex => {
            axis(Field::Length, &[0, 1, 2, 3]);
            axis(Field::Broadcast, &[0, 1]);
        }
        _ => axis(Field::Length, &[0, 1]),
    }
    if base.has_modrm {
        axis(Field::Register, &[0, 1]);
        axis(Field::Reg, &[0, 1, 2, 3, 4, 5, 6, 7]);
        if legacy {
            axis(Field::RegHigh, &[0, 1]);
        }
        if base.space != Space::Evex {
            axis(Field::Rm, &[0, 1, 2, 3, 4, 5, 6, 7]);
        }
    }
    if legacy {
        axis(Field::RmHigh, &[0, 1]);
    }
    let mut all: Vec<Point> = vec![[0; 10]];
    for field in ALL_FIELDS {
        let values = &axes[field as usize];
        all = all
            .iter()
            .flat_map(|p| {
                values.iter().map(move |v| {
                    let mut p = *p;
                    p[field as usize] = *v;
                    p
                })
            })
            .collect();
    }
    // In memory, rm is part of the address.
    all.retain(|p| {
        !base.has_modrm || p[0] == 1 || p[Field::Rm as usize] == 0 && p[Field::RmHigh as usize] == 0
    });
    all
}

/// Leaves out the values of ModRM.reg and rm where the oracle makes the same of all of them.
pub fn distinguish(base: &Fields, points: Vec<Point>) -> Vec<Point> {
    let mut points = points;
    for field in [Field::Rm, Field::Reg] {
        let mut codes: BTreeMap<(bool, u8), Vec<u16>> = BTreeMap::new();
        for point in &points {
            let f = at(base, point);
            let list = codes.entry((f.is_memory(), point[field as usize])).or_default();
            for plain in plain(&f) {
                list.push(facts::decode(&plain.bytes().0).map_or(0, |i| i.code() as u16));
            }
        }
        let of = |memory| codes.iter().filter(move |(key, _)| key.0 == memory).map(|(_, list)| list);
        if [false, true].iter().all(|m| of(*m).all(|list| Some(list) == of(*m).next())) {
            points.retain(|p| p[field as usize] == 0);
            if field == Field::Rm {
                // Another register than that of ModRM.reg.
                points.iter_mut().filter(|p| p[0] == 1).for_each(|p| p[field as usize] = 6);
            }
        }
    }
    points
}

/// A few encodings of which one is valid if any is.
pub fn plain(f: &Fields) -> Vec<Fields> {
    let f = if f.is_memory() { Fields { mode: 1, rm: 4, sib: 0x91, x: true, b: true, ..*f } } else { *f };
    let mut all = vec![f];
    if f.space == Space::Legacy {
        // Some want an address-size prefix.
        all.push(Fields { narrow: true, ..f });
        return all;
    }
    all.push(Fields { vvvv: 12, ..f });
    if !f.is_memory() {
        all.push(Fields { vvvv: 12, b: true, ..f });
        // Three of eight registers.
        all.extend((1..8).find(|v| ![f.reg, f.rm].contains(v)).map(|vvvv| Fields { vvvv, ..f }));
    }
    if f.space == Space::Evex {
        all.push(Fields { mask: 1, ..f });
        all.push(Fields { mask: 1, vvvv: 12, ..f });
    }
    all
}

pub fn at(base: &Fields, point: &Point) -> Fields {
    let v = |field: Field| point[field as usize];
    Fields {
        mode: if v(Field::Register) == 1 { 3 } else { 0 },
        reg: v(Field::Reg),
        rm: v(Field::Rm),
        repeat: v(Field::Repeat),
        opsize: v(Field::OpSize) == 1,
        wide: v(Field::Wide) == 1,
        length: v(Field::Length),
        broadcast: v(Field::Broadcast) == 1,
        r: v(Field::RegHigh) == 1,
        b: v(Field::RmHigh) == 1,
        ..*base
    }
}

/// Encodings that differ from a valid one in one respect that the tables have a condition for.
pub fn neighbours(f: &Fields) -> Vec<Fields> {
    let mut out = vec![*f, Fields { narrow: true, ..*f }, Fields { imm: 0, ..*f }];
    if f.is_memory() {
        // r9 + r10 * 4 + disp8; r9; r9 + disp8; rip
        out.push(Fields { mode: 1, rm: 4, sib: 0x91, x: true, b: true, ..*f });
        out.push(Fields { mode: 0, rm: 1, b: true, ..*f });
        out.push(Fields { mode: 1, rm: 1, b: true, ..*f });
        out.push(Fields { mode: 0, rm: 5, ..*f });
        out.push(Fields { b: true, ..*f });
        // The index that is the destination.
        out.push(Fields {
            rm: 4,
            sib: 0x81 | f.reg << 3,
            x: f.r,
            vvvv: f.vvvv & 15 | (f.r_high as u8) << 4,
            ..*f
        });
        out.push(Fields { rm: 4, sib: 0x81 | f.reg << 3, x: true, r: true, ..*f });
    }
    if f.space == Space::Legacy {
        return out;
    }
    out.push(Fields { r: true, ..*f });
    out.push(Fields { b: true, ..*f });
    out.push(Fields { x: true, ..*f });
    out.push(Fields { x: true, b: true, ..*f });
    out.push(Fields { x: true, b: true, r: true, ..*f });
    for vvvv in [0, 1, 5, 7, 8, 12, f.reg, f.reg | 8, f.rm, f.sib >> 3 & 7 | (f.x as u8) << 3] {
        out.push(Fields { vvvv, ..*f });
        out.push(Fields { vvvv, r: true, b: true, ..*f });
    }
    if !f.is_memory() {
        for rm in 0..8 {
            // The register may be part of the opcode.
            if f.space == Space::Evex {
                out.push(Fields { rm, ..*f });
            }
        }
    }
    if f.space == Space::Evex {
        out.push(Fields { r_high: true, ..*f });
        out.push(Fields { r_high: true, r: true, ..*f });
        out.push(Fields { vvvv: f.vvvv | 16, ..*f });
        for mask in [0, 1, 7] {
            out.push(Fields { mask, ..*f });
            out.push(Fields { mask, zeroing: mask > 0, ..*f });
        }
    }
    out
}

/// A condition of the tables, and whether an encoding fails it.
pub fn conditions(f: &Fields) -> [(u32, bool); 17] {
    let memory = f.is_memory();
    let (reg, rm, index) = (f.reg_number(), f.rm_number(), f.index_number());
    let evex = f.space == Space::Evex;
    let suffix = f.imm != 0x0d;
    [
        (check::NO_VVVV, f.vvvv != 0),
        (check::NO_VVVV_LOW, f.vvvv & 15 != 0),
        (check::VVVV_LOW, f.vvvv > 7),
        (check::REG_LOW, reg > 7),
        (check::REG_LOW16, reg > 15),
        (check::RM_LOW, !memory && rm > 7),
        (check::NO_RIP, f.is_rip()),
        (check::SIB, !f.has_sib()),
        (check::NO_MASK, f.mask != 0),
        (check::MASK, f.mask == 0),
        (check::NO_ZEROING, f.zeroing),
        (check::GATHER, reg == index || !evex && (reg == f.vvvv || index == f.vvvv) || !memory),
        (check::THREE, reg == rm || reg == f.vvvv || rm == f.vvvv || memory),
        (check::FRESH, reg == f.vvvv || !memory && reg == rm),
        (check::SUFFIX, suffix),
        (check::ADDR64, f.narrow),
        (check::ADDR32, !f.narrow),
    ]
}

/// The conditions that tell the valid encodings of a point from the others.
pub fn explain(decoded: &[(Fields, Option<Instruction>)]) -> u32 {
    let mut checks = u32::MAX;
    for (fields, insn) in decoded {
        if insn.is_some() {
            for (bit, fails) in conditions(fields) {
                if fails {
                    checks &= !bit;
                }
            }
        }
    }
    let predicted = |checks: u32, fields: &Fields| {
        conditions(fields).iter().all(|(bit, fails)| checks & bit == 0 || !fails)
    };
    for (fields, insn) in decoded {
        assert_eq!(
            predicted(checks, fields),
            insn.is_some(),
            "{checks:#x} does not explain {fields:x?} {:02x?}",
            fields.bytes().0
        );
    }
    // Only what is needed: conditions that follow from others, or never failed, go.
    for bit in (0..32).map(|n| 1u32 << n) {
        let fewer = checks & !bit;
        if decoded.iter().all(|(fields, insn)| predicted(fewer, fields) == insn.is_some()) {
            checks = fewer;
        }
    }
    checks
}

/// How well an encoding tells its operands apart.
pub fn score(f: &Fields) -> u32 {
    let memory = f.is_memory();
    let (reg, rm) = (f.reg_number(), f.rm & 7 | (f.b as u8) << 3);
    let vvvv = f.vvvv & 15;
    let others = [9, 10, 11];
    let mut score = 0;
    score += (f.r && reg < 16 && !others.contains(&reg)) as u32 * 4;
    score += (!memory && f.b && rm != 11 && rm != reg) as u32 * 8;
    score += (memory && f.has_sib() && f.mode == 1 && f.sib == 0x91 && f.x && f.b && f.vvvv < 16) as u32 * 8;
    score += (vvvv > 7 && ![reg, rm].contains(&vvvv) && !others.contains(&vvvv)) as u32 * 4;
    score += (f.imm == 0x0d && !f.narrow) as u32 * 2;
    score += (f.mask == 0) as u32;
    score
}

/// The fields of a point that sizes, or an instruction's uses of registers, may follow.
pub fn with_sizes_only(point: &Point) -> Point {
    let mut p = *point;
    for field in [Field::Reg, Field::Rm, Field::RegHigh, Field::RmHigh] {
        p[field as usize] = 0;
    }
    p
}

pub fn without_sizes(point: &Point) -> Point {
    let mut p = *point;
    for field in [Field::OpSize, Field::Wide, Field::Length, Field::Broadcast] {
        p[field as usize] = 0;
    }
    p
}

pub fn shape(base: &Fields, point: &Point) -> Shape {
    Shape {
        opsize: point[Field::OpSize as usize] == 1,
        wide: point[Field::Wide as usize] == 1,
        vector: 16 << point[Field::Length as usize],
        broadcast: base.space == Space::Evex
            && point[Field::Broadcast as usize] == 1
            && point[Field::Register as usize] == 0,
    }
}
