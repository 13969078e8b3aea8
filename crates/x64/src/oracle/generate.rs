//! The tables, learned from the oracle.
//!
//! For each opcode every combination of the fields that can have a say is tried, with registers and addresses
//! of several kinds. What makes some of these invalid is explained by conditions ([`check`]), what depends on
//! sizes by formulas ([`Size`]); an encoding that neither explains stops the generator. What remains different
//! becomes nodes.

use super::describe::{Facts, OwnedImplied, describe};
use super::encode::{Fields, Space};
use super::facts;
use super::points::{
    ALL_FIELDS, Point, arity, at, distinguish, explain, neighbours, plain, points, score, shape,
    with_sizes_only, without_sizes,
};
use crate::decode::{EVEX_PAGES, LEGACY_PAGES, MODRM, NODE, PAGE_COUNT, VEX_PAGES, XOP_PAGES};
use crate::decoded::{Flags, Kind};
use crate::op::{Access, Field, Idiom, Imm, Op, Role, Shape, Size, bits, check};
use iced_x86::{Code, Instruction, InstructionInfoFactory};
use std::collections::{BTreeMap, HashMap};

/// The tables under construction.
pub struct Tables {
    pub pages: [u8; PAGE_COUNT],
    pub roots: Vec<[u16; 256]>,
    pub nodes: Vec<u16>,
    known_nodes: HashMap<Vec<u16>, u16>,
    pub ops: Vec<Op>,
    pub effects: Vec<(Flags, Flags, Flags)>,
    pub implied: Vec<OwnedImplied>,
    pub suffixes: [u64; 4],
    factory: InstructionInfoFactory,
}

/// Learns everything.
pub fn tables() -> Tables {
    let none = Op {
        kind: Kind::Plain,
        imm: Imm::None,
        bits: 0,
        checks: 0,
        effect: 0,
        size: Size(0),
        unit: Size(0),
        access: Access::None,
        reg: Role::NONE,
        rm: Role::NONE,
        opreg: Role::NONE,
        vvvv: Role::NONE,
        implied: 0,
        idiom: Idiom::None,
    };
    let mut t = Tables {
        pages: [0; PAGE_COUNT],
        roots: Vec::new(),
        nodes: Vec::new(),
        known_nodes: HashMap::new(),
        ops: vec![none],
        effects: vec![(Flags(0), Flags(0), Flags(0))],
        implied: vec![(0, 0, 0, Vec::new())],
        suffixes: suffixes(),
        factory: InstructionInfoFactory::new(),
    };
    t.page(0, Space::Legacy, 0, 0);
    for pp in 0..4 {
        for map in 1..=3 {
            t.page(LEGACY_PAGES + (map as usize - 1) * 4 + pp as usize, Space::Legacy, map, pp);
            t.page(VEX_PAGES + (map as usize - 1) * 4 + pp as usize, Space::Vex, map, pp);
        }
        for map in 1..=6 {
            t.page(EVEX_PAGES + (map as usize - 1) * 4 + pp as usize, Space::Evex, map, pp);
        }
        for map in 8..=10 {
            t.page(XOP_PAGES + (map as usize - 8) * 4 + pp as usize, Space::Xop, map, pp);
        }
    }
    t
}

/// Valid last bytes of 3DNow! instructions.
fn suffixes() -> [u64; 4] {
    let mut set = [0; 4];
    for imm in 0..=255u8 {
        let f = Fields { imm, ..Fields::new(Space::Legacy, 1, 0x0f) };
        if facts::decode(&f.bytes().0).is_ok() {
            set[imm as usize / 64] |= 1 << (imm % 64);
        }
    }
    set
}

impl Tables {
    fn page(&mut self, number: usize, space: Space, map: u8, pp: u8) {
        let mut roots = [0; 256];
        for opcode in 0..=255u8 {
            let escape = matches!((space, map, opcode), (Space::Legacy, 1, 0x38 | 0x3a));
            let prefixes = matches!(
                opcode,
                0x0f | 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x62 | 0x64..=0x67 | 0xc4 | 0xc5 | 0xf0 | 0xf2 | 0xf3
            );
            let prefix = (space, map) == (Space::Legacy, 0) && prefixes;
            if !escape && !prefix {
                roots[opcode as usize] = self.opcode(space, map, pp, opcode);
            }
        }
        self.pages[number] = match self.roots.iter().position(|r| *r == roots) {
            Some(known) => known as u8,
            None => {
                self.roots.push(roots);
                self.roots.len() as u8 - 1
            }
        };
    }

    /// Entry for an opcode.
    fn opcode(&mut self, space: Space, map: u8, pp: u8, opcode: u8) -> u16 {
        let base = Fields { pp, ..Fields::new(space, map, opcode) };
        let points = distinguish(&base, points(&base, pp));
        let mut learned: Vec<(Point, Code, u32, u16)> = Vec::new();
        let mut best: BTreeMap<(u16, Point), (u32, Fields, Instruction)> = BTreeMap::new();
        for point in points {
            let f = at(&base, &point);
            let ask = |s: Fields| (s, facts::decode(&s.bytes().0).ok());
            let mut decoded: Vec<_> = plain(&f).into_iter().map(ask).collect();
            let valid = decoded.iter().filter(|d| d.1.is_some()).map(|d| d.0);
            let near: Vec<Fields> = valid.flat_map(|s| neighbours(&s)).collect();
            decoded.extend(near.into_iter().map(ask));
            let Some(code) = decoded.iter().find_map(|(_, i)| i.map(|i| i.code())) else {
                learned.push((point, Code::INVALID, 0, 0));
                continue;
            };
            let checks = explain(&decoded);
            let mut lockable = 0;
            for (sample, insn) in &decoded {
                let Some(insn) = insn else { continue };
                if sample.narrow && insn.code() != code {
                    // jecxz
                    continue;
                }
                assert_eq!(insn.code(), code, "{sample:?}");
                let key = (code as u16, with_sizes_only(&point));
                let score = score(sample);
                if best.get(&key).is_none_or(|b| b.0 < score) {
                    best.insert(key, (score, *sample, *insn));
                }
                let locked = Fields { lock: true, ..*sample };
                if space == Space::Legacy && sample.is_memory() && facts::decode(&locked.bytes().0).is_ok() {
                    lockable = bits::LOCKABLE;
                }
            }
            learned.push((point, code, checks, lockable));
        }
        let facts: BTreeMap<(u16, Point), Facts> = best
            .iter()
            .map(|(key, (_, fields, insn))| (*key, describe(&mut self.factory, fields, insn)))
            .collect();
        // The same place with other sizes, to find formulas.
        let mut alike: HashMap<Point, Vec<(Shape, &Facts)>> = HashMap::new();
        for (point, code, ..) in learned.iter().filter(|l| l.1 != Code::INVALID) {
            let here = &facts[&(*code as u16, with_sizes_only(point))];
            alike.entry(without_sizes(point)).or_default().push((shape(&base, point), here));
        }
        let mut rows: Vec<(Point, Option<Op>)> = learned
            .iter()
            .map(|&(point, code, checks, lockable)| {
                if code == Code::INVALID {
                    return (point, None);
                }
                let here = &facts[&(code as u16, with_sizes_only(&point))];
                let others = &alike[&without_sizes(&point)];
                (point, Some(self.row(here, shape(&base, &point), others, checks, lockable)))
            })
            .collect();
        unite(&mut rows);
        let leaves: Vec<(Point, u16)> =
            rows.iter().map(|(p, row)| (*p, row.map_or(0, |op| intern(&mut self.ops, op) as u16))).collect();
        let entry = self.tree(simplify(leaves));
        if entry != 0 && base.has_modrm { entry | MODRM } else { entry }
    }

    fn row(&mut self, f: &Facts, shape: Shape, others: &[(Shape, &Facts)], checks: u32, lockable: u16) -> Op {
        let size = formula(others, shape, |f| if f.access == Access::None { 0 } else { f.size });
        let unit = formula(others, shape, |f| f.unit);
        let mut roles = [Role::NONE; 4];
        for (n, role) in roles.iter_mut().enumerate() {
            let (access, width) = f.roles[n];
            if access == Access::None {
                continue;
            }
            let all = |test: &dyn Fn(Shape, usize) -> bool| {
                others.iter().all(|(s, o)| o.roles[n].0 == Access::None || test(*s, o.roles[n].1))
            };
            let width = if all(&|_, w| w >= 4) {
                Role::FULL
            } else if all(&|s, w| w == Size::V.bytes(s) as usize) {
                Role::V
            } else {
                match width {
                    1 => Role::BYTE,
                    2 => Role::WORD,
                    _ => Role::FULL,
                }
            };
            *role = Role(access as u8 | width);
        }
        Op {
            kind: f.kind,
            imm: imm(others, f.imm),
            bits: f.bits | lockable,
            checks,
            effect: intern(&mut self.effects, f.effect) as u8,
            size,
            unit,
            access: f.access,
            reg: roles[0],
            rm: roles[1],
            opreg: roles[2],
            vvvv: roles[3],
            implied: u8::try_from(intern(&mut self.implied, f.implied.clone())).unwrap(),
            idiom: f.idiom,
        }
    }

    /// Entry for the leaves of some points.
    fn tree(&mut self, points: Vec<(Point, u16)>) -> u16 {
        if points.iter().all(|p| p.1 == points[0].1) {
            return points[0].1;
        }
        let field = *ALL_FIELDS.iter().find(|f| has_a_say(&points, **f)).unwrap();
        let mut node = vec![field as u16];
        for value in 0..arity(field) {
            let part: Vec<_> =
                points.iter().copied().filter(|p| p.0[field as usize] as usize == value).collect();
            node.push(if part.is_empty() { 0 } else { self.tree(part) });
        }
        let next = self.nodes.len() as u16;
        let nodes = &mut self.nodes;
        let at = *self.known_nodes.entry(node).or_insert_with_key(|node| {
            nodes.extend(node);
            next
        });
        assert!(at < MODRM);
        at | NODE
    }
}

fn intern<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    match all.iter().position(|known| *known == one) {
        Some(at) => at,
        None => {
            all.push(one);
            all.len() - 1
        }
    }
}

/// Makes one row of the memory and the register form of an instruction, where what they have in common is the
/// same: the rest says which form it is about.
fn unite(rows: &mut [(Point, Option<Op>)]) {
    let common = |p: &Point| {
        let mut p = *p;
        for field in [Field::Register, Field::Rm, Field::RmHigh] {
            p[field as usize] = 0;
        }
        p
    };
    let registers = |rows: &[(Point, Option<Op>)], place: Point| -> Vec<usize> {
        (0..rows.len()).filter(|n| rows[*n].0[0] == 1 && common(&rows[*n].0) == place).collect()
    };
    for n in 0..rows.len() {
        let (point, Some(memory)) = rows[n] else { continue };
        let places = registers(rows, common(&point));
        let Some(&first) = places.first() else { continue };
        let Some(register) = rows[first].1 else { continue };
        let of_memory = bits::MEMORY
            | bits::LOCKABLE
            | bits::VSIB32
            | bits::VSIB64
            | bits::INDEX_IGNORED
            | bits::FLAT
            | bits::UNUSED;
        let memory_checks = check::NO_RIP | check::SIB;
        let united = Op {
            bits: memory.bits | register.bits,
            checks: memory.checks | register.checks,
            size: memory.size,
            unit: memory.unit,
            access: memory.access,
            rm: register.rm,
            // Those of registers say so.
            idiom: register.idiom,
            ..memory
        };
        let same = point[0] == 0
            && memory.bits & bits::MEMORY != 0
            && (memory.idiom == register.idiom || memory.idiom == Idiom::None)
            && (memory.bits ^ register.bits) & !of_memory == 0
            && (memory.checks ^ register.checks) & !memory_checks == 0
            && register.bits & of_memory == 0
            && (Op { bits: register.bits, checks: register.checks, size: register.size, unit: register.unit, access: register.access, ..united })
                == register
            && places.iter().all(|p| rows[*p].1 == Some(register))
            // A check of memory does not hurt a register.
            && memory.checks & check::SIB == 0;
        if same {
            rows[n].1 = Some(united);
            for place in places {
                rows[place].1 = Some(united);
            }
        }
    }
}

/// A formula for a size that holds for all of `others`; the size `here` itself when there is none.
fn formula(others: &[(Shape, &Facts)], here: Shape, size: impl Fn(&Facts) -> u16) -> Size {
    let fits = |formula: Size| others.iter().all(|(s, f)| formula.bytes(*s) == size(f));
    let own = others.iter().find(|(s, _)| *s == here).map_or(0, |o| size(o.1));
    let constant = Size(own.min(127) as u8);
    if own < 128 && fits(constant) {
        return constant;
    }
    match Size::FORMULAS.into_iter().find(|f| fits(*f)) {
        Some(formula) => formula,
        None if own < 128 => constant,
        None => Size::FORMULAS.into_iter().find(|f| f.bytes(here) == own).unwrap_or_else(|| panic!("{own}")),
    }
}

fn imm(others: &[(Shape, &Facts)], here: usize) -> Imm {
    let kinds = |s: Shape, len: usize| -> Vec<Imm> {
        let z = if s.opsize && !s.wide { 2 } else { 4 };
        let v = if s.wide { 8 } else { z };
        let all = [
            (Imm::None, 0),
            (Imm::I8, 1),
            (Imm::I16, 2),
            (Imm::I24, 3),
            (Imm::I32, 4),
            (Imm::Z, z),
            (Imm::V, v),
            (Imm::Moffs, 8),
        ];
        all.iter().filter(|(_, n)| *n == len).map(|(kind, _)| *kind).collect()
    };
    let mut possible = vec![Imm::None, Imm::I8, Imm::I16, Imm::I24, Imm::I32, Imm::Z, Imm::V, Imm::Moffs];
    for (s, f) in others {
        let here = kinds(*s, f.imm);
        possible.retain(|kind| here.contains(kind));
    }
    // Sizes that no rule explains lie at different nodes.
    *possible.first().unwrap_or(&match here {
        0 => Imm::None,
        1 => Imm::I8,
        2 => Imm::I16,
        3 => Imm::I24,
        4 => Imm::I32,
        _ => Imm::Moffs,
    })
}

/// True when leaves differ between values of a field.
fn has_a_say(points: &[(Point, u16)], field: Field) -> bool {
    let mut parts: BTreeMap<u8, BTreeMap<Point, u16>> = BTreeMap::new();
    for (point, leaf) in points {
        let mut rest = *point;
        rest[field as usize] = 0;
        parts.entry(point[field as usize]).or_default().insert(rest, *leaf);
    }
    let first = parts.values().next().unwrap();
    parts.values().any(|part| part != first)
}

/// Leaves out the values of rm where they have no say in any register form.
fn simplify(points: Vec<(Point, u16)>) -> Vec<(Point, u16)> {
    let mut points = points;
    for field in [Field::Rm, Field::RmHigh] {
        let registers: Vec<_> = points.iter().copied().filter(|p| p.0[0] == 1).collect();
        if !registers.is_empty() && !has_a_say(&registers, field) {
            points.iter_mut().for_each(|p| p.0[field as usize] = 0);
            points.sort();
            points.dedup();
        }
    }
    points
}
