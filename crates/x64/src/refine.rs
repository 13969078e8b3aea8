//! Opcodes whose meaning is settled by ModRM: the manual's groups.

use crate::flags::Rule;
use crate::insn::Kind;
use crate::op::Use::{R, Rc, Rw, W};
use crate::op::Width::{Q, Stack, Y};
use crate::op::{Imm, Implied, MODRM, Op, Refine, Size, Width};

const BARE: Op = Op::BARE;

/// What the refinements look at.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    pub modrm: u8,
    pub pp: u8,
    pub rex: u8,
    pub opcode: u8,
}

impl Fields {
    const fn reg(self) -> u8 {
        (self.modrm >> 3) & 7
    }

    const fn memory(self) -> bool {
        self.modrm < 0xc0
    }
}

impl Op {
    /// The same operand, read only.
    const fn read_only(self) -> Op {
        Op { rm: crate::op::Operand::new(self.rm.width(), R), ..self }
    }

    /// An instruction without memory: ModRM selects it.
    const fn selected(self) -> Op {
        Op { form: self.form | MODRM, mem: Size::Zero, ..self }
    }
}

/// The facts about `op` for the given fields.
#[inline]
pub(crate) fn refine(op: Op, f: Fields) -> Op {
    match op.refine {
        Refine::Alu => match f.reg() {
            2 | 3 => op.rule(Rule::AllWithCarry),
            7 => op.read_only(),
            _ => op,
        },
        Refine::Shift => shift(op, f),
        Refine::Unary => unary(op, f),
        Refine::IncDec => match f.reg() {
            0 | 1 => op,
            _ => Op::INVALID,
        },
        Refine::Group5 => group5(op, f),
        Refine::Pop => match f.reg() {
            0 => op,
            _ => Op::INVALID,
        },
        Refine::MovImm => mov_imm(op, f),
        Refine::Group8 => match f.reg() {
            0..=3 => Op::INVALID,
            4 => op.read_only(),
            _ => op,
        },
        Refine::Fpu => fpu(op, f),
        // `nop` is an `xchg eax, eax` that changes nothing, unless REX.B names r8.
        Refine::Nop if f.rex & 1 == 0 || f.pp == 2 => BARE,
        Refine::None | Refine::Nop => op,
        _ => rare(op, f),
    }
}

fn shift(op: Op, f: Fields) -> Op {
    match (f.reg(), op.rule) {
        (4..=7, _) => op,
        (0 | 1, Rule::ShiftImm) => op.rule(Rule::RotateImm),
        (0 | 1, Rule::ShiftCl) => op.rule(Rule::RotateCl),
        (0 | 1, _) => op.rule(Rule::Rotate),
        (_, Rule::ShiftImm) => op.rule(Rule::RotateCarryImm),
        (_, Rule::ShiftCl) => op.rule(Rule::RotateCarryCl),
        (_, _) => op.rule(Rule::RotateCarry),
    }
}

fn unary(op: Op, f: Fields) -> Op {
    let byte = f.opcode & 1 == 0;
    match f.reg() {
        0 | 1 => op.read_only().imm(if byte { Imm::Byte } else { Imm::Z }), // test
        2 => op.rule(Rule::None),                                           // not
        3 => op,                                                            // neg
        4 | 5 => op.read_only().implied(if byte { Implied::MulByte } else { Implied::Mul }),
        _ => op.read_only().implied(if byte { Implied::DivByte } else { Implied::Div }),
    }
}

fn group5(op: Op, f: Fields) -> Op {
    let far = BARE.mem(Size::Far, R).kind(Kind::FarTransfer).implied(Implied::Anything).rule(Rule::ReadAll);
    match f.reg() {
        0 | 1 => op,
        2 => BARE.rm(Q, R).kind(Kind::CallInd).implied(Implied::CallPush),
        4 => BARE.rm(Q, R).kind(Kind::JmpInd),
        3 | 5 if f.memory() => far,
        6 => BARE.rm(Stack, R).implied(Implied::Push),
        _ => Op::INVALID,
    }
}

fn mov_imm(op: Op, f: Fields) -> Op {
    match (f.reg(), f.modrm, f.opcode) {
        (0, _, _) => op,
        // xabort, xbegin
        (_, 0xf8, 0xc6) => {
            BARE.selected().imm(Imm::Byte).kind(Kind::Xend).implied(Implied::Anything).rule(Rule::Anything)
        }
        (_, 0xf8, _) => {
            BARE.selected().imm(Imm::Z).kind(Kind::Xbegin).implied(Implied::AccModify).rule(Rule::ReadAll)
        }
        _ => Op::INVALID,
    }
}

fn fpu(op: Op, f: Fields) -> Op {
    let (opcode, reg) = (f.opcode & 7, f.reg());
    if !f.memory() {
        let op = BARE.selected();
        return match (opcode, reg) {
            (2, 0) | (3, 0) => op.rule(Rule::ReadCarry), // fcmov
            (2, 1) | (3, 1) => op.rule(Rule::ReadZero),
            (2, 2) | (3, 2) => op.rule(Rule::ReadCarryZero),
            (2, 3) | (3, 3) => op.rule(Rule::ReadParity),
            (3 | 7, 5 | 6) => op.rule(Rule::ZeroParityCarry), // fcomi
            (7, 4) if f.modrm == 0xe0 => op.implied(Implied::AxWrite), // fnstsw
            _ => op,
        };
    }
    let stores = |size: Size| op.mem(size, W);
    let loads = |size: Size| op.mem(size, R);
    match (opcode, reg) {
        (0 | 2, _) => loads(Size::N4),
        (4, _) => loads(Size::N8),
        (6, _) => loads(Size::N2),
        (1, 0) => loads(Size::N4),
        (1, 2 | 3) => stores(Size::N4),
        (1, 4) => loads(Size::FpuEnv),
        (1 | 5, 5) if opcode == 1 => loads(Size::N2), // fldcw
        (1, 6) => stores(Size::FpuEnv).kind(Kind::FpuEnv),
        (1, 7) => stores(Size::N2),
        (3, 0) => loads(Size::N4),
        (3, 1..=3) => stores(Size::N4),
        (3, 5) => loads(Size::N10),
        (3, 7) => stores(Size::N10),
        (5, 0) => loads(Size::N8),
        (5, 1..=3) => stores(Size::N8),
        (5, 4) => loads(Size::FpuState),
        (5, 6) => stores(Size::FpuState).kind(Kind::FpuEnv),
        (5, 7) => stores(Size::N2),
        (7, 0) => loads(Size::N2),
        (7, 1..=3) => stores(Size::N2),
        (7, 4) => loads(Size::N10),
        (7, 5) => loads(Size::N8),
        (7, 6) => stores(Size::N10),
        (7, _) => stores(Size::N8),
        _ => op,
    }
}

#[cold]
fn rare(op: Op, f: Fields) -> Op {
    match op.refine {
        Refine::Group6 => group6(f),
        Refine::Group7 => {
            if f.memory() {
                group7_memory(f)
            } else {
                group7(f)
            }
        }
        Refine::Group9 => group9(f),
        Refine::Group15 => group15(f),
        Refine::VexGroup15 => match f.reg() {
            3 => op.mem(Size::N4, W),
            _ => op,
        },
        Refine::Rdssp if f.modrm >= 0xc0 && f.reg() == 1 => BARE.rm(Y, Rc),
        Refine::Padlock if f.modrm & 7 == 0 && !f.memory() => BARE.selected().implied(Implied::Anything),
        Refine::Padlock => Op::INVALID,
        Refine::KeyLocker if !f.memory() && f.opcode != 0xdc => Op::INVALID,
        Refine::KeyLocker if !f.memory() => BARE.selected().implied(Implied::ReadAny).rule(Rule::All),
        // uwrmsr, urdmsr
        Refine::DirectStore if !f.memory() => BARE.rm(Q, if f.pp == 2 { R } else { W }).reg(Q, R),
        Refine::Hreset if f.modrm == 0xc0 => {
            BARE.selected().imm(Imm::Byte).kind(Kind::Privileged).implied(Implied::AccRead)
        }
        Refine::Hreset => Op::INVALID,
        Refine::TileConfig => match (f.memory(), f.pp) {
            (true, 0) => op.mem(Size::N64, R),
            (true, 1) => op.mem(Size::N64, W),
            _ => op,
        },
        _ => op,
    }
}

fn group6(f: Fields) -> Op {
    match f.reg() {
        0 | 1 => BARE.rm(Width::V, W).size(Size::N2), // sldt, str
        2 | 3 => BARE.rm(Width::W, R).kind(Kind::Privileged),
        4 | 5 => BARE.rm(Width::W, R).rule(Rule::Zero), // verr, verw
        6 if f.pp == 3 => BARE.rm(Q, R).kind(Kind::Privileged), // lkgs
        _ => Op::INVALID,
    }
}

fn group7_memory(f: Fields) -> Op {
    match f.reg() {
        0 | 1 => BARE.mem(Size::N10, W), // sgdt, sidt
        2 | 3 => BARE.mem(Size::N10, R).kind(Kind::Privileged),
        4 => BARE.rm(Width::V, W).size(Size::N2), // smsw
        5 if f.pp == 2 => BARE.mem(Size::N8, Rw).rule(Rule::All), // rstorssp
        6 => BARE.rm(Width::W, R).kind(Kind::Privileged),
        7 => BARE.mem(Size::Zero, R).kind(Kind::Privileged), // invlpg
        _ => Op::INVALID,
    }
}

/// `0F 01` with a register form: every byte is an instruction of its own.
fn group7(f: Fields) -> Op {
    let bare = BARE.selected();
    let system = bare.kind(Kind::Privileged).implied(Implied::Anything).rule(Rule::Anything);
    match f.modrm {
        0xd0 => bare.kind(Kind::Xgetbv).implied(Implied::ReadByCx),
        0xd1 => bare.kind(Kind::Privileged).implied(Implied::WriteByCx),
        0xd5 => bare.kind(Kind::Xend),
        0xd6 => bare.kind(Kind::Xend).rule(Rule::All),
        0xee if f.pp == 0 => bare.kind(Kind::Pkru).implied(Implied::ReadByCx),
        0xef if f.pp == 0 => bare.kind(Kind::Pkru).implied(Implied::WriteByCx),
        0xec if f.pp == 2 => {
            BARE.selected().kind(Kind::FarTransfer).implied(Implied::Anything).rule(Rule::WriteAll)
        }
        0xed if f.pp == 2 => bare.rule(Rule::All), // testui
        0xee | 0xef if f.pp == 2 => bare,          // clui, stui
        0xe8 if f.pp == 0 => bare,                 // serialize
        0xe8 if f.pp == 2 => bare,                 // setssbsy
        0xea if f.pp == 2 => bare.rule(Rule::All), // saveprevssp
        0xe8 | 0xe9 if f.pp == 3 => bare,          // xsusldtrk, xresldtrk
        0xf8 => system,                            // swapgs
        0xf9 => bare.kind(Kind::Rdtscp).implied(Implied::Rdtscp),
        0xfa => bare.implied(Implied::AxAddress), // monitorx
        0xfb => bare.implied(Implied::WaitMask),  // mwaitx
        0xfc => bare.implied(Implied::AxAddress), // clzero
        0xfd => bare.kind(Kind::Rdtsc).implied(Implied::ReadByCx).rule(Rule::All), // rdpru
        0xe0..=0xe7 => BARE.rm(Width::V, W),      // smsw
        0xf0..=0xf7 => BARE.rm(Width::W, R).kind(Kind::Privileged), // lmsw
        _ => system,
    }
}

fn group9(f: Fields) -> Op {
    if f.memory() {
        return match f.reg() {
            1 => BARE.mem(Size::Pair, Rw).implied(Implied::CmpxchgPair).rule(Rule::Zero),
            3 => BARE.mem(Size::XsaveArea, R).kind(Kind::Xrstor).implied(Implied::StateMask),
            4 | 5 => BARE.mem(Size::XsaveArea, W).kind(Kind::Xsave).implied(Implied::StateMask),
            6 => BARE.mem(Size::N8, R).kind(Kind::Privileged).rule(Rule::All),
            7 => BARE.mem(Size::N8, W).kind(Kind::Privileged).rule(Rule::All),
            _ => Op::INVALID,
        };
    }
    match (f.reg(), f.pp) {
        (7, 2) => BARE.rm(Q, W).kind(Kind::Rdpid),
        (6, 2) => BARE.rm(Q, R).kind(Kind::Privileged), // senduipi
        (6 | 7, _) => BARE.rm(Width::V, W).rule(Rule::All), // rdrand, rdseed
        _ => Op::INVALID,
    }
}

fn group15(f: Fields) -> Op {
    if f.memory() {
        return match (f.reg(), f.pp) {
            (0, _) => BARE.mem(Size::N512, W).kind(Kind::Xsave),
            (1, _) => BARE.mem(Size::N512, R).kind(Kind::Xrstor),
            (2, _) => BARE.mem(Size::N4, R),
            (3, _) => BARE.mem(Size::N4, W),
            (4, 2 | 3) => BARE.rm(Y, R), // ptwrite
            (4, _) => BARE.mem(Size::XsaveArea, W).kind(Kind::Xsave).implied(Implied::StateMask),
            (5, _) => BARE.mem(Size::XsaveArea, R).kind(Kind::Xrstor).implied(Implied::StateMask),
            (6, 0) => BARE.mem(Size::XsaveArea, W).kind(Kind::Xsave).implied(Implied::StateMask),
            (6, 2) => BARE.mem(Size::N8, Rw).rule(Rule::All), // clrssbsy
            // clwb, clflush, clflushopt
            _ => BARE.mem(Size::Zero, R),
        };
    }
    match (f.reg(), f.pp) {
        (0 | 1, 2) => BARE.rm(Y, W).kind(Kind::FsGsBase),
        (2 | 3, 2) => BARE.rm(Y, R).kind(Kind::FsGsBase),
        (4 | 5, 2) => BARE.rm(Y, R),                         // ptwrite, incssp
        (6, 2) => BARE.rm(Q, R).implied(Implied::AxAddress), // umonitor
        (6, 1 | 3) => BARE.rm(Width::D, R).implied(Implied::WaitMask).rule(Rule::All), // tpause, umwait
        (5..=7, _) => BARE.selected(),
        _ => Op::INVALID,
    }
}
