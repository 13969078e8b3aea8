//! Opcode tables of the legacy encoding: one byte, `0F`, `0F38` and `0F3A`.
//!
//! The tables of the last three have four columns, one per mandatory prefix (none, `66`, `F3`, `F2`).
//! They are built while compiling, from lines in the order of the manual's opcode maps.

use crate::flags::Rule;
use crate::insn::Kind;
use crate::op::Use::{R, Rc, Rw, W};
use crate::op::Width::{B, D, Q, Stack, V, Y};
use crate::op::{Imm, Implied, MOD_IGNORED, NO_ADDRESS, Op, Refine, Size, Width};

/// Column of instructions without a mandatory prefix, and so on.
pub(crate) const NP: usize = 1;
pub(crate) const P66: usize = 2;
pub(crate) const PF3: usize = 4;
pub(crate) const PF2: usize = 8;
/// Every column: the prefix is no part of the opcode.
pub(crate) const ANY: usize = 15;

/// One opcode map with four columns; `column * 256 + opcode`.
pub(crate) type Map = [Op; 1024];

/// Sets opcodes `from` to `to` in the given columns.
pub(crate) const fn set(mut map: Map, columns: usize, from: usize, to: usize, op: Op) -> Map {
    let mut column = 0;
    while column < 4 {
        if columns & 1 << column != 0 {
            let mut at = from;
            while at <= to {
                map[column * 256 + at] = op;
                at += 1;
            }
        }
        column += 1;
    }
    map
}

const fn fill(mut map: [Op; 256], from: usize, to: usize, op: Op) -> [Op; 256] {
    let mut at = from;
    while at <= to {
        map[at] = op;
        at += 1;
    }
    map
}

/// The opcode alone.
pub(crate) const BARE: Op = Op::BARE;
/// With ModRM; a memory operand is only named.
pub(crate) const NAMED: Op = Op::MODRM;

/// With ModRM; what is named there doesn't matter.
const IGNORED: Op = NAMED.with(NO_ADDRESS);

/// `op r/m, r` and the like.
pub(crate) const fn rm_reg(width: Width, rm: crate::op::Use, reg: crate::op::Use) -> Op {
    BARE.rm(width, rm).reg(width, reg)
}

/// Reads a vector (or x87, mask, MMX) operand or memory.
pub(crate) const fn load(size: Size) -> Op {
    BARE.mem(size, R)
}

/// Writes a vector operand or memory.
pub(crate) const fn store(size: Size) -> Op {
    BARE.mem(size, W)
}

pub(crate) static ONE_BYTE: [Op; 256] = one_byte();

const fn one_byte() -> [Op; 256] {
    let mut t = [Op::INVALID; 256];
    // 00-3F: add, or, adc, sbb, and, sub, xor, cmp in six forms each.
    let mut alu = 0;
    while alu < 8 {
        let rule = if alu == 2 || alu == 3 { Rule::AllWithCarry } else { Rule::All };
        let (dest, al, acc) = if alu == 7 {
            (R, Implied::AlRead, Implied::AccRead)
        } else {
            (Rw, Implied::AlModify, Implied::AccModify)
        };
        let at = alu * 8;
        t[at] = rm_reg(B, dest, R).rule(rule);
        t[at + 1] = rm_reg(V, dest, R).rule(rule);
        t[at + 2] = rm_reg(B, R, dest).rule(rule);
        t[at + 3] = rm_reg(V, R, dest).rule(rule);
        t[at + 4] = BARE.imm(Imm::Byte).implied(al).rule(rule);
        t[at + 5] = BARE.imm(Imm::Z).implied(acc).rule(rule);
        alu += 1;
    }
    t = fill(t, 0x50, 0x57, BARE.implied(Implied::PushOp));
    t = fill(t, 0x58, 0x5f, BARE.implied(Implied::PopOp));
    t[0x63] = BARE.rm(D, R).reg(V, W); // movsxd
    t[0x68] = BARE.imm(Imm::Z).implied(Implied::Push);
    t[0x69] = rm_reg(V, R, W).imm(Imm::Z).rule(Rule::All); // imul
    t[0x6a] = BARE.imm(Imm::Byte).implied(Implied::Push);
    t[0x6b] = rm_reg(V, R, W).imm(Imm::Byte).rule(Rule::All);
    let string = BARE.kind(Kind::StringOp).rule(Rule::ReadDirection);
    t = fill(t, 0x6c, 0x6d, string.implied(Implied::Ins));
    t = fill(t, 0x6e, 0x6f, string.implied(Implied::Outs));
    t = fill(t, 0x70, 0x7f, BARE.imm(Imm::Byte).kind(Kind::Jcc).rule(Rule::Condition));
    t[0x80] = BARE.rm(B, Rw).imm(Imm::Byte).rule(Rule::All).refine(Refine::Alu);
    t[0x81] = BARE.rm(V, Rw).imm(Imm::Z).rule(Rule::All).refine(Refine::Alu);
    t[0x83] = BARE.rm(V, Rw).imm(Imm::Byte).rule(Rule::All).refine(Refine::Alu);
    t[0x84] = rm_reg(B, R, R).rule(Rule::All); // test
    t[0x85] = rm_reg(V, R, R).rule(Rule::All);
    t[0x86] = rm_reg(B, Rw, Rw); // xchg
    t[0x87] = rm_reg(V, Rw, Rw);
    t[0x88] = rm_reg(B, W, R); // mov
    t[0x89] = rm_reg(V, W, R);
    t[0x8a] = rm_reg(B, R, W);
    t[0x8b] = rm_reg(V, R, W);
    t[0x8c] = BARE.rm(V, W).size(Size::N2); // mov r/m, sreg
    t[0x8d] = NAMED.reg(V, W); // lea
    t[0x8e] = BARE.rm(Width::W, R).kind(Kind::SegLoad);
    t[0x8f] = BARE.rm(Stack, W).implied(Implied::Pop).refine(Refine::Pop);
    t = fill(t, 0x90, 0x97, BARE.implied(Implied::OpSwap));
    t[0x90] = BARE.implied(Implied::OpSwap).refine(Refine::Nop);
    t[0x98] = BARE.implied(Implied::AccModify); // cbw, cwde, cdqe
    t[0x99] = BARE.implied(Implied::Cwd);
    t[0x9b] = BARE; // wait
    t[0x9c] = BARE.implied(Implied::Push).kind(Kind::Pushf).rule(Rule::ReadAll);
    t[0x9d] = BARE.implied(Implied::Pop).kind(Kind::Popf).rule(Rule::WriteAll);
    t[0x9e] = BARE.implied(Implied::Sahf).rule(Rule::WriteLow);
    t[0x9f] = BARE.implied(Implied::Lahf).rule(Rule::ReadLow);
    t[0xa0] = BARE.imm(Imm::Moffs).implied(Implied::AlWrite);
    t[0xa1] = BARE.imm(Imm::Moffs).implied(Implied::AccWrite);
    t[0xa2] = BARE.imm(Imm::Moffs).implied(Implied::AlRead);
    t[0xa3] = BARE.imm(Imm::Moffs).implied(Implied::AccRead);
    let compare = string.rule(Rule::Compare);
    t = fill(t, 0xa4, 0xa5, string.implied(Implied::Movs));
    t = fill(t, 0xa6, 0xa7, compare.implied(Implied::Cmps));
    t[0xa8] = BARE.imm(Imm::Byte).implied(Implied::AlRead).rule(Rule::All); // test
    t[0xa9] = BARE.imm(Imm::Z).implied(Implied::AccRead).rule(Rule::All);
    t = fill(t, 0xaa, 0xab, string.implied(Implied::Stos));
    t = fill(t, 0xac, 0xad, string.implied(Implied::Lods));
    t = fill(t, 0xae, 0xaf, compare.implied(Implied::Scas));
    t = fill(t, 0xb0, 0xb7, BARE.imm(Imm::Byte).implied(Implied::OpByteWrite));
    t = fill(t, 0xb8, 0xbf, BARE.imm(Imm::Full).implied(Implied::OpWrite));
    t[0xc0] = BARE.rm(B, Rw).imm(Imm::Byte).rule(Rule::ShiftImm).refine(Refine::Shift);
    t[0xc1] = BARE.rm(V, Rw).imm(Imm::Byte).rule(Rule::ShiftImm).refine(Refine::Shift);
    let ret = BARE.kind(Kind::Ret).implied(Implied::RetPop);
    t[0xc2] = ret.imm(Imm::Word);
    t[0xc3] = ret;
    t[0xc6] = BARE.rm(B, W).imm(Imm::Byte).refine(Refine::MovImm);
    t[0xc7] = BARE.rm(V, W).imm(Imm::Z).refine(Refine::MovImm);
    t[0xc8] = BARE.imm(Imm::Enter).implied(Implied::Enter);
    t[0xc9] = BARE.implied(Implied::Leave);
    let far = BARE.kind(Kind::FarTransfer).implied(Implied::Anything);
    t[0xca] = far.imm(Imm::Word).rule(Rule::ReadAll);
    t[0xcb] = far.rule(Rule::ReadAll);
    let int = BARE.implied(Implied::Anything).rule(Rule::Anything);
    t[0xcc] = int.kind(Kind::Int3);
    t[0xcd] = int.kind(Kind::Int).imm(Imm::Byte);
    t[0xcf] = far.rule(Rule::WriteAll); // iret
    t[0xd0] = BARE.rm(B, Rw).rule(Rule::All).refine(Refine::Shift);
    t[0xd1] = BARE.rm(V, Rw).rule(Rule::All).refine(Refine::Shift);
    t[0xd2] = BARE.rm(B, Rw).rule(Rule::ShiftCl).implied(Implied::Cl).refine(Refine::Shift);
    t[0xd3] = BARE.rm(V, Rw).rule(Rule::ShiftCl).implied(Implied::Cl).refine(Refine::Shift);
    t[0xd7] = BARE.implied(Implied::Xlat);
    t = fill(t, 0xd8, 0xdf, BARE.mem(Size::Zero, R).refine(Refine::Fpu));
    let looping = BARE.imm(Imm::Byte).kind(Kind::Loop).implied(Implied::LoopCount);
    t = fill(t, 0xe0, 0xe1, looping.rule(Rule::ReadZero));
    t[0xe2] = looping;
    t[0xe3] = looping.implied(Implied::JumpCount);
    let port = BARE.kind(Kind::Privileged);
    t[0xe4] = port.imm(Imm::Byte).implied(Implied::AlWrite);
    t[0xe5] = port.imm(Imm::Byte).implied(Implied::AccWrite);
    t[0xe6] = port.imm(Imm::Byte).implied(Implied::AlRead);
    t[0xe7] = port.imm(Imm::Byte).implied(Implied::AccRead);
    t[0xe8] = BARE.imm(Imm::Dword).kind(Kind::Call).implied(Implied::CallPush);
    t[0xe9] = BARE.imm(Imm::Dword).kind(Kind::Jmp);
    t[0xeb] = BARE.imm(Imm::Byte).kind(Kind::Jmp);
    t[0xec] = port.implied(Implied::InByte);
    t[0xed] = port.implied(Implied::In);
    t[0xee] = port.implied(Implied::OutByte);
    t[0xef] = port.implied(Implied::Out);
    t[0xf1] = int.kind(Kind::Int);
    t[0xf4] = port; // hlt
    t[0xf5] = BARE.rule(Rule::CarryToCarry);
    t[0xf6] = BARE.rm(B, Rw).rule(Rule::All).refine(Refine::Unary);
    t[0xf7] = BARE.rm(V, Rw).rule(Rule::All).refine(Refine::Unary);
    t = fill(t, 0xf8, 0xf9, BARE.rule(Rule::Carry));
    t = fill(t, 0xfa, 0xfb, port); // cli, sti
    t = fill(t, 0xfc, 0xfd, BARE.rule(Rule::Direction));
    t[0xfe] = BARE.rm(B, Rw).rule(Rule::AllButCarry).refine(Refine::IncDec);
    t[0xff] = BARE.rm(V, Rw).rule(Rule::AllButCarry).refine(Refine::Group5);
    t
}

pub(crate) static TWO_BYTE: Map = two_byte();

/// `0F`: system instructions, jumps, bits; and the first vector instructions.
const fn two_byte() -> Map {
    let mut t = [Op::INVALID; 1024];
    let system = BARE.kind(Kind::Privileged);
    let far = BARE.kind(Kind::FarTransfer).implied(Implied::Anything).rule(Rule::WriteAll);
    t = set(t, ANY, 0x00, 0x00, BARE.rm(Width::W, R).refine(Refine::Group6));
    t = set(t, ANY, 0x01, 0x01, BARE.mem(Size::N10, R).refine(Refine::Group7));
    t = set(t, ANY, 0x02, 0x03, BARE.rm(Width::W, R).reg(V, Rc).rule(Rule::Zero)); // lar, lsl
    t = set(t, ANY, 0x05, 0x05, BARE.kind(Kind::Syscall).implied(Implied::Syscall).rule(Rule::Anything));
    t = set(t, ANY, 0x06, 0x06, system);
    t = set(t, ANY, 0x07, 0x07, far);
    t = set(t, ANY, 0x08, 0x09, system);
    t = set(t, ANY, 0x0b, 0x0b, BARE.kind(Kind::Ud));
    t = set(t, ANY, 0x0d, 0x0d, NAMED);
    t = set(t, ANY, 0x0e, 0x0e, BARE); // femms
    t = set(t, ANY, 0x0f, 0x0f, load(Size::N8).imm(Imm::Byte)); // 3DNow!

    t = set(t, ANY, 0x10, 0x10, load(Size::Float));
    t = set(t, ANY, 0x11, 0x11, store(Size::Float));
    t = set(t, NP | P66, 0x12, 0x12, load(Size::N8));
    t = set(t, PF3, 0x12, 0x12, load(Size::Vector));
    t = set(t, PF2, 0x12, 0x12, load(Size::Dup));
    t = set(t, ANY, 0x13, 0x13, store(Size::N8));
    t = set(t, ANY, 0x14, 0x15, load(Size::Vector));
    t = set(t, ANY, 0x16, 0x16, load(Size::N8));
    t = set(t, PF3, 0x16, 0x16, load(Size::Vector));
    t = set(t, ANY, 0x17, 0x17, store(Size::N8));
    t = set(t, ANY, 0x18, 0x18, NAMED); // prefetch
    t = set(t, ANY, 0x19, 0x1f, IGNORED);
    t = set(t, PF3, 0x1e, 0x1e, IGNORED.refine(Refine::Rdssp));
    let control = BARE.with(MOD_IGNORED).kind(Kind::Privileged).rule(Rule::Anything);
    t = set(t, ANY, 0x20, 0x21, control.rm(Q, W));
    t = set(t, ANY, 0x22, 0x23, control.rm(Q, R));
    t = set(t, ANY, 0x28, 0x28, load(Size::Vector));
    t = set(t, ANY, 0x29, 0x29, store(Size::Vector));
    t = set(t, NP | P66, 0x2a, 0x2a, load(Size::N8));
    t = set(t, PF3 | PF2, 0x2a, 0x2a, BARE.rm(Y, R));
    t = set(t, ANY, 0x2b, 0x2b, store(Size::Float));
    t = set(t, NP, 0x2c, 0x2d, load(Size::N8));
    t = set(t, P66, 0x2c, 0x2d, load(Size::N16));
    t = set(t, PF3, 0x2c, 0x2d, load(Size::N4).reg(Y, W));
    t = set(t, PF2, 0x2c, 0x2d, load(Size::N8).reg(Y, W));
    t = set(t, NP, 0x2e, 0x2f, load(Size::N4).rule(Rule::All));
    t = set(t, P66, 0x2e, 0x2f, load(Size::N8).rule(Rule::All));

    t = set(t, ANY, 0x30, 0x30, system.implied(Implied::WriteByCx));
    t = set(t, ANY, 0x31, 0x31, BARE.kind(Kind::Rdtsc).implied(Implied::Rdtsc));
    t = set(t, ANY, 0x32, 0x33, system.implied(Implied::ReadByCx));
    t = set(t, ANY, 0x34, 0x34, far.kind(Kind::Sysenter).rule(Rule::ReadAll));
    t = set(t, ANY, 0x35, 0x35, far);
    t = set(t, ANY, 0x37, 0x37, system.implied(Implied::Anything).rule(Rule::Anything)); // getsec
    t = set(t, ANY, 0x40, 0x4f, rm_reg(V, R, Rw).rule(Rule::Condition));
    t = set(t, ANY, 0x50, 0x50, NAMED.reg(D, W)); // movmskps
    t = set(t, ANY, 0x51, 0x53, load(Size::Float));
    t = set(t, ANY, 0x54, 0x57, load(Size::Vector));
    t = set(t, ANY, 0x58, 0x59, load(Size::Float));
    t = set(t, NP, 0x5a, 0x5a, load(Size::Half));
    t = set(t, P66, 0x5a, 0x5a, load(Size::Vector));
    t = set(t, PF3, 0x5a, 0x5a, load(Size::N4));
    t = set(t, PF2, 0x5a, 0x5a, load(Size::N8));
    t = set(t, ANY, 0x5b, 0x5b, load(Size::Vector));
    t = set(t, ANY, 0x5c, 0x5f, load(Size::Float));
    t = set(t, ANY, 0x60, 0x62, load(Size::MmxLow));
    t = set(t, ANY, 0x63, 0x6d, load(Size::Mmx));
    t = set(t, ANY, 0x6e, 0x6e, BARE.rm(Y, R));
    t = set(t, ANY, 0x6f, 0x6f, load(Size::Mmx));

    t = set(t, ANY, 0x70, 0x70, load(Size::Mmx).imm(Imm::Byte));
    t = set(t, ANY, 0x71, 0x73, load(Size::Vector).imm(Imm::Byte));
    t = set(t, ANY, 0x74, 0x76, load(Size::Mmx));
    t = set(t, ANY, 0x77, 0x77, BARE); // emms
    t = set(t, NP, 0x78, 0x78, rm_reg(Q, W, R).kind(Kind::Privileged).rule(Rule::All)); // vmread
    t = set(t, P66 | PF2, 0x78, 0x78, NAMED.imm(Imm::TwoBytes)); // extrq, insertq
    t = set(t, NP, 0x79, 0x79, rm_reg(Q, R, R).kind(Kind::Privileged).rule(Rule::All)); // vmwrite
    t = set(t, P66 | PF2, 0x79, 0x79, NAMED);
    t = set(t, ANY, 0x7c, 0x7d, load(Size::Vector));
    t = set(t, ANY, 0x7e, 0x7e, BARE.rm(Y, W));
    t = set(t, PF3, 0x7e, 0x7e, load(Size::N8));
    t = set(t, ANY, 0x7f, 0x7f, store(Size::Mmx));

    t = set(t, ANY, 0x80, 0x8f, BARE.imm(Imm::Dword).kind(Kind::Jcc).rule(Rule::Condition));
    t = set(t, ANY, 0x90, 0x9f, BARE.rm(B, W).rule(Rule::Condition));
    t = set(t, ANY, 0xa0, 0xa0, BARE.implied(Implied::Push));
    t = set(t, ANY, 0xa1, 0xa1, BARE.implied(Implied::Pop).kind(Kind::SegLoad));
    t = set(t, ANY, 0xa2, 0xa2, BARE.kind(Kind::Cpuid).implied(Implied::Cpuid));
    t = set(t, ANY, 0xa3, 0xa3, rm_reg(V, R, R).rule(Rule::AllButZero));
    let shift = rm_reg(V, Rw, R);
    t = set(t, ANY, 0xa4, 0xa4, shift.imm(Imm::Byte).rule(Rule::ShiftImm));
    t = set(t, ANY, 0xa5, 0xa5, shift.implied(Implied::Cl).rule(Rule::ShiftCl));
    t = set(t, ANY, 0xa6, 0xa7, NAMED.refine(Refine::Padlock));
    t = set(t, ANY, 0xa8, 0xa8, BARE.implied(Implied::Push));
    t = set(t, ANY, 0xa9, 0xa9, BARE.implied(Implied::Pop).kind(Kind::SegLoad));
    t = set(t, ANY, 0xaa, 0xaa, far.kind(Kind::Privileged)); // rsm
    t = set(t, ANY, 0xab, 0xab, rm_reg(V, Rw, R).rule(Rule::AllButZero));
    t = set(t, ANY, 0xac, 0xac, shift.imm(Imm::Byte).rule(Rule::ShiftImm));
    t = set(t, ANY, 0xad, 0xad, shift.implied(Implied::Cl).rule(Rule::ShiftCl));
    t = set(t, ANY, 0xae, 0xae, NAMED.refine(Refine::Group15));
    t = set(t, ANY, 0xaf, 0xaf, rm_reg(V, R, Rw).rule(Rule::All)); // imul

    let exchange = Implied::Cmpxchg;
    t = set(t, ANY, 0xb0, 0xb0, rm_reg(B, Rc, R).implied(Implied::CmpxchgByte).rule(Rule::All));
    t = set(t, ANY, 0xb1, 0xb1, rm_reg(V, Rc, R).implied(exchange).rule(Rule::All));
    let far_pointer = load(Size::Far).reg(V, W).kind(Kind::SegLoad);
    t = set(t, ANY, 0xb2, 0xb2, far_pointer);
    t = set(t, ANY, 0xb3, 0xb3, rm_reg(V, Rw, R).rule(Rule::AllButZero));
    t = set(t, ANY, 0xb4, 0xb5, far_pointer);
    t = set(t, ANY, 0xb6, 0xb6, BARE.rm(B, R).reg(V, W));
    t = set(t, ANY, 0xb7, 0xb7, BARE.rm(Width::W, R).reg(V, W));
    t = set(t, PF3, 0xb8, 0xb8, rm_reg(V, R, W).rule(Rule::All)); // popcnt
    t = set(t, ANY, 0xb9, 0xb9, IGNORED.kind(Kind::Ud));
    t = set(t, ANY, 0xba, 0xba, BARE.rm(V, Rw).imm(Imm::Byte).rule(Rule::AllButZero).refine(Refine::Group8));
    t = set(t, ANY, 0xbb, 0xbb, rm_reg(V, Rw, R).rule(Rule::AllButZero));
    t = set(t, ANY, 0xbc, 0xbd, rm_reg(V, R, Rc).rule(Rule::All)); // bsf, bsr
    t = set(t, PF3, 0xbc, 0xbd, rm_reg(V, R, W).rule(Rule::All)); // tzcnt, lzcnt
    t = set(t, ANY, 0xbe, 0xbe, BARE.rm(B, R).reg(V, W));
    t = set(t, ANY, 0xbf, 0xbf, BARE.rm(Width::W, R).reg(V, W));

    t = set(t, ANY, 0xc0, 0xc0, rm_reg(B, Rw, Rw).rule(Rule::All)); // xadd
    t = set(t, ANY, 0xc1, 0xc1, rm_reg(V, Rw, Rw).rule(Rule::All));
    t = set(t, ANY, 0xc2, 0xc2, load(Size::Float).imm(Imm::Byte));
    t = set(t, ANY, 0xc3, 0xc3, rm_reg(Y, W, R)); // movnti
    t = set(t, ANY, 0xc4, 0xc4, BARE.rm(D, R).size(Size::N2).imm(Imm::Byte));
    t = set(t, ANY, 0xc5, 0xc5, NAMED.reg(D, W).imm(Imm::Byte));
    t = set(t, ANY, 0xc6, 0xc6, load(Size::Vector).imm(Imm::Byte));
    t = set(t, ANY, 0xc7, 0xc7, BARE.mem(Size::Pair, Rw).refine(Refine::Group9));
    t = set(t, ANY, 0xc8, 0xcf, BARE.implied(Implied::OpModify)); // bswap

    t = set(t, ANY, 0xd0, 0xd0, load(Size::Vector));
    t = set(t, ANY, 0xd1, 0xd3, load(Size::MmxCount));
    t = set(t, ANY, 0xd4, 0xd5, load(Size::Mmx));
    t = set(t, ANY, 0xd6, 0xd6, NAMED);
    t = set(t, P66, 0xd6, 0xd6, store(Size::N8));
    t = set(t, ANY, 0xd7, 0xd7, NAMED.reg(D, W));
    t = set(t, ANY, 0xd8, 0xe0, load(Size::Mmx));
    t = set(t, ANY, 0xe1, 0xe2, load(Size::MmxCount));
    t = set(t, ANY, 0xe3, 0xe5, load(Size::Mmx));
    t = set(t, ANY, 0xe6, 0xe6, load(Size::Vector));
    t = set(t, PF3, 0xe6, 0xe6, load(Size::Half));
    t = set(t, ANY, 0xe7, 0xe7, store(Size::Mmx));
    t = set(t, ANY, 0xe8, 0xef, load(Size::Mmx));
    t = set(t, ANY, 0xf0, 0xf0, load(Size::Vector));
    t = set(t, ANY, 0xf1, 0xf3, load(Size::MmxCount));
    t = set(t, ANY, 0xf4, 0xf6, load(Size::Mmx));
    t = set(t, ANY, 0xf7, 0xf7, NAMED.implied(Implied::MaskMove));
    t = set(t, ANY, 0xf8, 0xfe, load(Size::Mmx));
    t = set(t, ANY, 0xff, 0xff, IGNORED.kind(Kind::Ud));
    t
}

pub(crate) static THREE_BYTE_38: Map = three_byte_38();

/// `0F38`.
const fn three_byte_38() -> Map {
    let mut t = [Op::INVALID; 1024];
    t = set(t, ANY, 0x00, 0x0b, load(Size::Mmx));
    t = set(t, ANY, 0x10, 0x15, load(Size::Vector));
    t = set(t, ANY, 0x17, 0x17, load(Size::Vector).rule(Rule::All)); // ptest
    t = set(t, ANY, 0x1c, 0x1e, load(Size::Mmx));
    t = set(t, ANY, 0x20, 0x20, load(Size::Half)); // pmovsx
    t = set(t, ANY, 0x21, 0x21, load(Size::Quarter));
    t = set(t, ANY, 0x22, 0x22, load(Size::Eighth));
    t = set(t, ANY, 0x23, 0x23, load(Size::Half));
    t = set(t, ANY, 0x24, 0x24, load(Size::Quarter));
    t = set(t, ANY, 0x25, 0x25, load(Size::Half));
    t = set(t, ANY, 0x28, 0x2b, load(Size::Vector));
    t = set(t, ANY, 0x30, 0x30, load(Size::Half)); // pmovzx
    t = set(t, ANY, 0x31, 0x31, load(Size::Quarter));
    t = set(t, ANY, 0x32, 0x32, load(Size::Eighth));
    t = set(t, ANY, 0x33, 0x33, load(Size::Half));
    t = set(t, ANY, 0x34, 0x34, load(Size::Quarter));
    t = set(t, ANY, 0x35, 0x35, load(Size::Half));
    t = set(t, ANY, 0x37, 0x41, load(Size::Vector));
    let descriptor = load(Size::N16).reg(Q, R).kind(Kind::Privileged).rule(Rule::Anything);
    t = set(t, P66, 0x80, 0x82, descriptor); // invept, invvpid, invpcid
    t = set(t, ANY, 0xc8, 0xcf, load(Size::Vector));
    t = set(t, ANY, 0xdb, 0xdf, load(Size::Vector));
    t = set(t, PF3, 0xd8, 0xd8, load(Size::N48).rule(Rule::All).refine(Refine::KeyLocker));
    t = set(t, PF3, 0xdc, 0xdf, load(Size::N48).rule(Rule::All).refine(Refine::KeyLocker));
    t = set(t, ANY, 0xf0, 0xf0, rm_reg(V, R, W)); // movbe
    t = set(t, ANY, 0xf1, 0xf1, rm_reg(V, W, R));
    t = set(t, PF2, 0xf0, 0xf0, BARE.rm(B, R).reg(Y, Rw)); // crc32
    t = set(t, PF2, 0xf1, 0xf1, BARE.rm(V, R).reg(Y, Rw));
    t = set(t, P66, 0xf5, 0xf5, rm_reg(Y, W, R)); // wruss
    t = set(t, NP, 0xf6, 0xf6, rm_reg(Y, W, R)); // wrss
    t = set(t, P66, 0xf6, 0xf6, rm_reg(Y, R, Rw).rule(Rule::CarryToCarry)); // adcx
    t = set(t, PF3, 0xf6, 0xf6, rm_reg(Y, R, Rw).rule(Rule::OverflowToOverflow)); // adox
    t = set(t, P66, 0xf8, 0xf8, load(Size::N64).reg(Q, R).implied(Implied::Movdir64b));
    let enqueue = load(Size::N64).reg(Q, R).implied(Implied::Movdir64b).rule(Rule::All);
    t = set(t, PF3 | PF2, 0xf8, 0xf8, enqueue.refine(Refine::DirectStore));
    t = set(t, NP, 0xf9, 0xf9, rm_reg(Y, W, R)); // movdiri
    t = set(t, PF3, 0xfa, 0xfb, NAMED.rm(D, R).size(Size::Zero).reg(D, W).rule(Rule::All)); // encodekey
    t = set(t, ANY, 0xfc, 0xfc, rm_reg(Y, Rw, R)); // aadd, aand, aor, axor
    t
}

pub(crate) static THREE_BYTE_3A: Map = three_byte_3a();

/// `0F3A`: everything has an immediate byte.
const fn three_byte_3a() -> Map {
    let mut t = [Op::INVALID; 1024];
    let vector = load(Size::Vector).imm(Imm::Byte);
    t = set(t, ANY, 0x08, 0x09, vector);
    t = set(t, ANY, 0x0a, 0x0a, vector.size(Size::N4));
    t = set(t, ANY, 0x0b, 0x0b, vector.size(Size::N8));
    t = set(t, ANY, 0x0c, 0x0e, vector);
    t = set(t, ANY, 0x0f, 0x0f, vector.size(Size::Mmx)); // palignr
    t = set(t, ANY, 0x14, 0x14, BARE.rm(D, W).size(Size::N1).imm(Imm::Byte)); // pextr
    t = set(t, ANY, 0x15, 0x15, BARE.rm(D, W).size(Size::N2).imm(Imm::Byte));
    t = set(t, ANY, 0x16, 0x16, BARE.rm(Y, W).imm(Imm::Byte));
    t = set(t, ANY, 0x17, 0x17, BARE.rm(D, W).imm(Imm::Byte));
    t = set(t, ANY, 0x20, 0x20, BARE.rm(D, R).size(Size::N1).imm(Imm::Byte)); // pinsr
    t = set(t, ANY, 0x21, 0x21, vector.size(Size::N4));
    t = set(t, ANY, 0x22, 0x22, BARE.rm(Y, R).imm(Imm::Byte));
    t = set(t, ANY, 0x40, 0x44, vector);
    let text = vector.rule(Rule::All);
    t = set(t, ANY, 0x60, 0x60, text.implied(Implied::PcmpestrMask));
    t = set(t, ANY, 0x61, 0x61, text.implied(Implied::PcmpestrIndex));
    t = set(t, ANY, 0x62, 0x62, text);
    t = set(t, ANY, 0x63, 0x63, text.implied(Implied::PcmpistrIndex));
    t = set(t, ANY, 0xcc, 0xcf, vector);
    t = set(t, ANY, 0xdf, 0xdf, vector);
    t = set(t, PF3, 0xf0, 0xf0, NAMED.imm(Imm::Byte).refine(Refine::Hreset));
    t
}
