//! Opcode tables of VEX, EVEX and XOP.
//!
//! VEX repeats most of the legacy maps with wider vectors, EVEX most of VEX; the tables start as
//! copies and then list what is new or different. Opcodes that don't exist are decoded as if they
//! did: the CPU that runs the copy knows better.

use crate::flags::Rule;
use crate::insn::Kind;
use crate::op::Use::{R, Rw, W};
use crate::op::Width::{D, Q, Y};
use crate::op::{Imm, Implied, Op, Refine, Size, VSIB};
use crate::tables::{
    ANY, BARE, Map, NAMED, NP, P66, PF2, PF3, THREE_BYTE_3A, THREE_BYTE_38, TWO_BYTE, load, rm_reg, set,
    store,
};

/// Any vector instruction that only reads its memory operand.
const VECTOR: Op = load(Size::Vector);
/// The same with an immediate byte.
const VECTOR_IMM: Op = VECTOR.imm(Imm::Byte);

/// Copies the opcodes `from..=to`, all columns.
const fn copy(mut map: Map, source: &Map, from: usize, to: usize) -> Map {
    let mut column = 0;
    while column < 1024 {
        let mut at = from;
        while at <= to {
            map[column + at] = source[column + at];
            at += 1;
        }
        column += 256;
    }
    map
}

pub(crate) static VEX_0F: Map = vex_0f();

const fn vex_0f() -> Map {
    let mut t = [VECTOR; 1024];
    t = copy(t, &TWO_BYTE, 0x10, 0x17);
    t = copy(t, &TWO_BYTE, 0x28, 0x2f);
    t = copy(t, &TWO_BYTE, 0x50, 0x7f);
    t = set(t, ANY, 0x41, 0x4b, NAMED); // mask arithmetic
    t = set(t, ANY, 0x60, 0x6d, VECTOR);
    t = set(t, ANY, 0x6f, 0x6f, VECTOR);
    t = set(t, ANY, 0x70, 0x70, VECTOR_IMM);
    t = set(t, ANY, 0x74, 0x76, VECTOR);
    t = set(t, ANY, 0x78, 0x79, VECTOR);
    t = set(t, ANY, 0x7f, 0x7f, store(Size::Vector));
    t = set(t, ANY, 0x90, 0x90, load(Size::Mask)); // kmov
    t = set(t, ANY, 0x91, 0x91, store(Size::Mask));
    t = set(t, ANY, 0x92, 0x92, BARE.rm(Q, R));
    t = set(t, ANY, 0x93, 0x93, NAMED.reg(Q, W));
    t = set(t, NP | P66, 0x92, 0x92, BARE.rm(D, R));
    t = set(t, NP | P66, 0x93, 0x93, NAMED.reg(D, W));
    t = set(t, PF2, 0x93, 0x93, NAMED.reg(Y, W));
    t = set(t, PF2, 0x92, 0x92, BARE.rm(Y, R));
    t = set(t, ANY, 0x98, 0x99, NAMED.rule(Rule::All)); // kortest, ktest
    t = set(t, ANY, 0xae, 0xae, load(Size::N4).refine(Refine::VexGroup15));
    t = copy(t, &TWO_BYTE, 0xc2, 0xc2);
    t = copy(t, &TWO_BYTE, 0xc4, 0xc6);
    t = set(t, ANY, 0xd1, 0xd3, load(Size::N16));
    t = copy(t, &TWO_BYTE, 0xd6, 0xd7);
    t = set(t, ANY, 0xe1, 0xe2, load(Size::N16));
    t = copy(t, &TWO_BYTE, 0xe6, 0xe7);
    t = set(t, ANY, 0xe7, 0xe7, store(Size::Vector));
    t = set(t, ANY, 0xf1, 0xf3, load(Size::N16));
    t = copy(t, &TWO_BYTE, 0xf7, 0xf7);
    t
}

/// Fused multiply-add: `op` packed and `op + 1` scalar, in the rows 90, a0 and b0.
const fn fused(mut t: Map) -> Map {
    let mut row = 0x90;
    while row <= 0xb0 {
        t = set(t, ANY, row + 6, row + 15, VECTOR);
        let mut at = row + 9;
        while at <= row + 15 {
            t = set(t, ANY, at, at, load(Size::Scalar));
            at += 2;
        }
        row += 16;
    }
    t
}

pub(crate) static VEX_38: Map = vex_38();

const fn vex_38() -> Map {
    let mut t = [VECTOR; 1024];
    t = copy(t, &THREE_BYTE_38, 0x20, 0x25);
    t = copy(t, &THREE_BYTE_38, 0x30, 0x35);
    t = fused(t);
    t = set(t, ANY, 0x0e, 0x0f, VECTOR.rule(Rule::All)); // vtestps, vtestpd
    t = set(t, ANY, 0x13, 0x13, load(Size::Half)); // vcvtph2ps
    t = set(t, ANY, 0x17, 0x17, VECTOR.rule(Rule::All)); // vptest
    t = set(t, ANY, 0x18, 0x18, load(Size::N4));
    t = set(t, ANY, 0x19, 0x19, load(Size::N8));
    t = set(t, ANY, 0x1a, 0x1a, load(Size::N16));
    t = set(t, ANY, 0x2e, 0x2f, store(Size::Vector)); // vmaskmov
    t = set(t, ANY, 0x49, 0x49, NAMED.refine(Refine::TileConfig));
    t = set(t, ANY, 0x4a, 0x4b, load(Size::Tile));
    t = set(t, PF3, 0x4b, 0x4b, store(Size::Tile));
    t = set(t, ANY, 0x58, 0x58, load(Size::N4));
    t = set(t, ANY, 0x59, 0x59, load(Size::N8));
    t = set(t, ANY, 0x5a, 0x5a, load(Size::N16));
    t = set(t, ANY, 0x5c, 0x5e, NAMED); // tile products
    t = set(t, ANY, 0x6c, 0x6c, NAMED);
    t = set(t, ANY, 0x78, 0x78, load(Size::N1));
    t = set(t, ANY, 0x79, 0x79, load(Size::N2));
    t = set(t, ANY, 0x8e, 0x8e, store(Size::Vector));
    t = set(t, ANY, 0x90, 0x93, load(Size::Scalar).with(VSIB)); // gathers
    t = set(t, PF3 | P66, 0xb1, 0xb1, load(Size::N2)); // vbcstnebf162ps, vbcstnesh2ps
    // cmpccxadd
    t = set(t, ANY, 0xe0, 0xef, rm_reg(Y, Rw, Rw).implied(Implied::VvvvRead).rule(Rule::All));
    let bits = rm_reg(Y, R, W);
    t = set(t, ANY, 0xf2, 0xf2, bits.implied(Implied::VvvvRead).rule(Rule::All)); // andn
    t = set(t, ANY, 0xf3, 0xf3, BARE.rm(Y, R).implied(Implied::VvvvWrite).rule(Rule::All)); // blsr ...
    t = set(t, NP, 0xf5, 0xf5, bits.implied(Implied::VvvvRead).rule(Rule::All)); // bzhi
    t = set(t, PF3 | PF2, 0xf5, 0xf5, bits.implied(Implied::VvvvRead)); // pext, pdep
    t = set(t, PF2, 0xf6, 0xf6, bits.implied(Implied::Mulx));
    t = set(t, NP, 0xf7, 0xf7, bits.implied(Implied::VvvvRead).rule(Rule::All)); // bextr
    t = set(t, P66 | PF3 | PF2, 0xf7, 0xf7, bits.implied(Implied::VvvvRead)); // shlx, sarx, shrx
    t
}

pub(crate) static VEX_3A: Map = vex_3a();

const fn vex_3a() -> Map {
    let mut t = [VECTOR_IMM; 1024];
    t = copy(t, &THREE_BYTE_3A, 0x0a, 0x0b);
    t = copy(t, &THREE_BYTE_3A, 0x14, 0x17);
    t = copy(t, &THREE_BYTE_3A, 0x20, 0x22);
    t = copy(t, &THREE_BYTE_3A, 0x60, 0x63);
    t = set(t, ANY, 0x18, 0x18, VECTOR_IMM.size(Size::N16)); // vinsert, vextract
    t = set(t, ANY, 0x19, 0x19, store(Size::N16).imm(Imm::Byte));
    t = set(t, ANY, 0x1d, 0x1d, store(Size::Half).imm(Imm::Byte)); // vcvtps2ph
    t = set(t, ANY, 0x30, 0x33, NAMED.imm(Imm::Byte)); // mask shifts
    t = set(t, ANY, 0x38, 0x38, VECTOR_IMM.size(Size::N16));
    t = set(t, ANY, 0x39, 0x39, store(Size::N16).imm(Imm::Byte));
    // Scalar forms of four-operand multiply-add.
    let mut at = 0x6a;
    while at <= 0x7e {
        t = set(t, ANY, at, at, VECTOR_IMM.size(Size::N4));
        t = set(t, ANY, at + 1, at + 1, VECTOR_IMM.size(Size::N8));
        at += if at & 7 == 2 { 4 } else { 12 };
    }
    t = set(t, ANY, 0xf0, 0xf0, rm_reg(Y, R, W).imm(Imm::Byte)); // rorx
    t
}

pub(crate) static EVEX_0F: Map = evex_0f();

const fn evex_0f() -> Map {
    let mut t = vex_0f();
    t = set(t, ANY, 0x71, 0x73, VECTOR_IMM);
    t = set(t, NP | P66, 0x78, 0x7b, VECTOR);
    t = set(t, P66, 0x78, 0x7b, load(Size::HalfUnlessWide));
    t = set(t, PF3, 0x78, 0x79, load(Size::N4).reg(Y, W));
    t = set(t, PF2, 0x78, 0x79, load(Size::N8).reg(Y, W));
    t = set(t, PF3, 0x7a, 0x7a, load(Size::HalfUnlessWide));
    t = set(t, PF2, 0x7a, 0x7a, VECTOR);
    t = set(t, PF3 | PF2, 0x7b, 0x7b, BARE.rm(Y, R));
    t = set(t, PF3, 0xe6, 0xe6, load(Size::HalfUnlessWide));
    t
}

pub(crate) static EVEX_38: Map = evex_38();

const fn evex_38() -> Map {
    let mut t = vex_38();
    t = set(t, ANY, 0x0e, 0x0f, VECTOR);
    t = set(t, ANY, 0x17, 0x17, VECTOR);
    // Narrowing stores share their opcodes with widening loads.
    let mut row = 0x10;
    while row <= 0x30 {
        t = set(t, PF3, row, row, store(Size::Half));
        t = set(t, PF3, row + 1, row + 1, store(Size::Quarter));
        t = set(t, PF3, row + 2, row + 2, store(Size::Eighth));
        t = set(t, PF3, row + 3, row + 3, store(Size::Half));
        t = set(t, PF3, row + 4, row + 4, store(Size::Quarter));
        t = set(t, PF3, row + 5, row + 5, store(Size::Half));
        row += 16;
    }
    t = set(t, ANY, 0x1a, 0x1a, load(Size::N16));
    t = set(t, ANY, 0x1b, 0x1b, load(Size::N32));
    t = set(t, ANY, 0x28, 0x28, VECTOR);
    t = set(t, ANY, 0x2c, 0x2c, VECTOR);
    t = set(t, ANY, 0x2d, 0x2d, load(Size::Scalar));
    t = set(t, ANY, 0x2e, 0x2f, VECTOR);
    t = set(t, ANY, 0x43, 0x43, load(Size::Scalar));
    t = set(t, ANY, 0x49, 0x4a, VECTOR);
    t = set(t, ANY, 0x4b, 0x4b, VECTOR);
    t = set(t, ANY, 0x4d, 0x4d, load(Size::Scalar));
    t = set(t, ANY, 0x4f, 0x4f, load(Size::Scalar));
    t = set(t, PF2, 0x52, 0x53, load(Size::N16)); // vp4dpwssd
    t = set(t, ANY, 0x5b, 0x5b, load(Size::N32));
    t = set(t, ANY, 0x5c, 0x5e, VECTOR);
    t = set(t, ANY, 0x62, 0x62, load(Size::Packed)); // vpexpandb
    t = set(t, ANY, 0x63, 0x63, store(Size::Packed));
    t = set(t, ANY, 0x6c, 0x6c, VECTOR);
    t = set(t, ANY, 0x7a, 0x7b, BARE.rm(D, R)); // vpbroadcast from a register
    t = set(t, ANY, 0x7c, 0x7c, BARE.rm(Y, R));
    t = set(t, ANY, 0x88, 0x89, load(Size::Packed));
    t = set(t, ANY, 0x8a, 0x8b, store(Size::Packed));
    t = set(t, ANY, 0x8c, 0x8f, VECTOR);
    t = set(t, PF2, 0x9a, 0x9a, load(Size::N16)); // v4fmaddps
    t = set(t, PF2, 0x9b, 0x9b, load(Size::N16));
    t = set(t, PF2, 0xaa, 0xab, load(Size::N16));
    t = set(t, ANY, 0xa0, 0xa3, store(Size::Scalar).with(VSIB)); // scatters
    t = set(t, ANY, 0xb1, 0xb1, VECTOR);
    t = set(t, ANY, 0xc6, 0xc7, NAMED.with(VSIB)); // gather prefetches
    t = set(t, ANY, 0xcb, 0xcb, load(Size::Scalar));
    t = set(t, ANY, 0xcd, 0xcd, load(Size::Scalar));
    t
}

pub(crate) static EVEX_3A: Map = evex_3a();

const fn evex_3a() -> Map {
    let mut t = vex_3a();
    t = set(t, NP, 0x0a, 0x0a, VECTOR_IMM.size(Size::N2)); // vrndscalesh
    t = set(t, ANY, 0x1a, 0x1a, VECTOR_IMM.size(Size::N32));
    t = set(t, ANY, 0x1b, 0x1b, store(Size::N32).imm(Imm::Byte));
    t = set(t, ANY, 0x30, 0x33, VECTOR_IMM);
    t = set(t, ANY, 0x3a, 0x3a, VECTOR_IMM.size(Size::N32));
    t = set(t, ANY, 0x3b, 0x3b, store(Size::N32).imm(Imm::Byte));
    let mut at = 0x27;
    while at <= 0x67 {
        // vgetmant, vfixupimm, vrange, vreduce, vfpclass: odd opcodes are scalar
        if at == 0x27 || at == 0x51 || at == 0x55 || at == 0x57 || at == 0x67 {
            t = set(t, ANY, at, at, VECTOR_IMM.size(Size::Scalar));
            t = set(t, NP, at, at, VECTOR_IMM.size(Size::N2));
        }
        at += 2;
    }
    t = set(t, ANY, 0x60, 0x63, VECTOR_IMM);
    t = set(t, ANY, 0x68, 0x7f, VECTOR_IMM);
    t = set(t, PF3, 0xc2, 0xc2, VECTOR_IMM.size(Size::N2)); // vcmpsh
    t
}

pub(crate) static EVEX_5: Map = evex_5();

/// Half precision: the opcodes of `0F`.
const fn evex_5() -> Map {
    let mut t = [VECTOR; 1024];
    t = set(t, PF3 | PF2, 0x00, 0xff, load(Size::N2));
    t = set(t, ANY, 0x11, 0x11, store(Size::N2));
    t = set(t, NP, 0x1d, 0x1d, load(Size::N4)); // vcvtss2sh
    t = set(t, PF3 | PF2, 0x2a, 0x2a, BARE.rm(Y, R));
    t = set(t, PF3, 0x2c, 0x2d, load(Size::N2).reg(Y, W));
    t = set(t, ANY, 0x2e, 0x2f, load(Size::N2).rule(Rule::All));
    t = set(t, NP, 0x5a, 0x5a, load(Size::Quarter)); // vcvtph2pd
    t = set(t, P66, 0x5a, 0x5a, VECTOR); // vcvtpd2ph
    t = set(t, PF2, 0x5a, 0x5a, load(Size::N8)); // vcvtsd2sh
    t = set(t, P66, 0x5b, 0x5b, load(Size::Half)); // vcvtph2dq
    t = set(t, PF3, 0x5b, 0x5b, load(Size::Half));
    t = set(t, ANY, 0x6e, 0x6e, BARE.rm(D, R).size(Size::N2));
    t = set(t, ANY, 0x7e, 0x7e, BARE.rm(D, W).size(Size::N2));
    t = set(t, NP, 0x78, 0x79, load(Size::Half)); // vcvtph2udq
    t = set(t, P66, 0x78, 0x7b, load(Size::Quarter)); // vcvtph2qq
    t = set(t, PF3, 0x78, 0x79, load(Size::N2).reg(Y, W));
    t = set(t, PF2, 0x7a, 0x7a, VECTOR);
    t = set(t, PF3, 0x7b, 0x7b, BARE.rm(Y, R));
    t = set(t, ANY, 0x7c, 0x7d, VECTOR);
    t
}

pub(crate) static EVEX_6: Map = evex_6();

/// Half precision: the opcodes of `0F38`.
const fn evex_6() -> Map {
    let mut t = [VECTOR; 1024];
    t = set(t, P66, 0x13, 0x13, load(Size::Half)); // vcvtph2psx
    t = set(t, NP, 0x13, 0x13, load(Size::N2)); // vcvtsh2ss
    t = set(t, P66, 0x2d, 0x2d, load(Size::N2));
    t = set(t, P66, 0x43, 0x43, load(Size::N2));
    t = set(t, P66, 0x4d, 0x4d, load(Size::N2));
    t = set(t, P66, 0x4f, 0x4f, load(Size::N2));
    t = fused(t);
    let mut at = 0x99;
    while at <= 0xbf {
        if at & 15 >= 9 {
            t = set(t, ANY, at, at, load(Size::N2));
        }
        at += 2;
    }
    t = set(t, PF3 | PF2, 0x57, 0x57, load(Size::N4)); // complex products
    t = set(t, PF3 | PF2, 0xd7, 0xd7, load(Size::N4));
    t
}

/// XOP maps 8, 9 and 10.
pub(crate) static XOP: [[Op; 256]; 3] = [xop_8(), xop_9(), xop_a()];

const fn xop_8() -> [Op; 256] {
    [VECTOR_IMM; 256]
}

const fn xop_9() -> [Op; 256] {
    let mut t = [VECTOR; 256];
    let bits = BARE.rm(Y, R).implied(Implied::VvvvWrite).rule(Rule::All);
    t[0x01] = bits;
    t[0x02] = bits;
    t[0x12] = BARE.rm(Y, R).implied(Implied::Anything).kind(Kind::Privileged); // llwpcb
    t[0x82] = load(Size::N4); // vfrczss
    t[0x83] = load(Size::N8);
    t
}

const fn xop_a() -> [Op; 256] {
    let mut t = [VECTOR.imm(Imm::Dword); 256];
    t[0x10] = rm_reg(Y, R, W).imm(Imm::Dword).rule(Rule::All); // bextr
    t[0x12] = BARE.rm(D, R).implied(Implied::VvvvRead).imm(Imm::Dword).rule(Rule::Carry); // lwpins, lwpval
    t
}
