//! What one instance of an instruction says of all instructions like it.

use super::encode::{Fields, Space};
use super::facts;
use crate::decoded::{Flags, Kind};
use crate::op::{Access, Idiom, ImpliedMemory, bits};
use iced_x86::{
    Code, EncodingKind, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpCodeOperandKind as Operand, OpKind, Register,
};

/// Memory accessed without being named.
pub type OwnedImplied = (u16, u16, u16, Vec<ImpliedMemory>);

/// What an instance of an instruction tells, with sizes as numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub kind: Kind,
    pub bits: u16,
    pub imm: usize,
    /// Flags read, always written, written for some operands.
    pub effect: (Flags, Flags, Flags),
    pub size: u16,
    pub unit: u16,
    pub access: Access,
    /// Access and width in bytes of reg, rm, opreg and vvvv.
    pub roles: [(Access, usize); 4],
    pub implied: OwnedImplied,
    pub idiom: Idiom,
}

/// Width in bytes of a general-purpose register operand and which field names it.
pub fn role(operand: Operand) -> Option<(usize, usize)> {
    use Operand::*;
    Some(match operand {
        r8_reg => (0, 1),
        r16_reg | r16_reg_mem => (0, 2),
        r32_reg | r32_reg_mem => (0, 4),
        r64_reg | r64_reg_mem => (0, 8),
        r8_or_mem => (1, 1),
        r16_or_mem | r16_rm => (1, 2),
        r32_or_mem | r32_or_mem_mpx | r32_rm => (1, 4),
        r64_or_mem | r64_or_mem_mpx | r64_rm => (1, 8),
        r8_opcode => (2, 1),
        r16_opcode => (2, 2),
        r32_opcode => (2, 4),
        r64_opcode => (2, 8),
        r32_vvvv => (3, 4),
        r64_vvvv => (3, 8),
        _ => return Option::None,
    })
}

/// What an instance says of all instructions like it.
pub fn describe(factory: &mut InstructionInfoFactory, fields: &Fields, insn: &Instruction) -> Facts {
    let (bytes, modrm_end) = fields.bytes();
    let names_memory = facts::names_memory(insn);
    let ignores_mode = fields.is_memory() && !names_memory;
    let address = if ignores_mode { 0 } else { fields.address_len() };
    let op_code = insn.code().op_code();
    let info = factory.info(insn);
    let mut set = 0;
    let mut explicit: Vec<Register> = Vec::new();
    let mut roles = [(Access::None, 0); 4];
    let mut explicit_access = Access::None;
    let (mut reg_register, mut rm_register) = (Register::None, Register::None);
    for n in 0..insn.op_count() {
        let access = facts::access(info.op_access(n));
        if insn.op_kind(n) == OpKind::Memory {
            explicit_access = access;
            if info.op_access(n) == OpAccess::None {
                set |= bits::UNUSED;
            }
            continue;
        }
        if let Some((field, width)) = role(op_code.op_kind(n)) {
            let register = insn.op_register(n);
            assert!(roles[field].0 == Access::None, "{insn:?}");
            roles[field] = (access, width);
            explicit.push(register.full_register());
            match field {
                0 => reg_register = register.full_register(),
                1 => rm_register = register.full_register(),
                _ => {}
            }
        }
    }
    if names_memory && !fields.has_modrm && insn.code() == Code::Xlat_m8 {
        set |= bits::MEMORY | bits::XLAT;
        explicit_access = Access::None;
    } else if names_memory {
        set |= bits::MEMORY;
        explicit.push(insn.memory_base().full_register());
        explicit.push(insn.memory_index().full_register());
    }
    if ignores_mode {
        set |= bits::MOD_IGNORED;
    }
    if insn.is_privileged() {
        set |= bits::PRIVILEGED;
    }
    match insn.vsib() {
        Some(false) => set |= bits::VSIB32,
        Some(true) => set |= bits::VSIB64,
        None => {}
    }
    let mut implied: OwnedImplied = (0, 0, 0, Vec::new());
    let mut seen_explicit = false;
    for m in info.used_memory() {
        let named = names_memory
            && set & bits::XLAT == 0
            && !seen_explicit
            && m.base() == insn.memory_base()
            && m.displacement() == insn.memory_displacement64();
        if named {
            seen_explicit = true;
            if m.segment() == Register::None {
                set |= bits::FLAT;
            }
            if m.index() == Register::None && insn.memory_index() != Register::None {
                set |= bits::INDEX_IGNORED;
            }
            assert_eq!(facts::access(m.access()), explicit_access, "{insn:?}");
            continue;
        }
        let base = if m.base().full_register() == reg_register {
            ImpliedMemory::REG
        } else if m.base().full_register() == rm_register {
            ImpliedMemory::RM
        } else {
            facts::gpr(m.base()).unwrap_or_else(|| panic!("{insn:?} {m:?}"))
        };
        implied.3.push(ImpliedMemory {
            base,
            index: facts::gpr(m.index()).unwrap_or(ImpliedMemory::NO_INDEX),
            disp: i8::try_from(m.displacement() as i64).unwrap(),
            size: u8::try_from(m.memory_size().size()).unwrap(),
            access: facts::access(m.access()),
            segment: m.segment() == Register::DS,
        });
    }
    for used in info.used_registers() {
        let register = used.register();
        let Some(number) = facts::gpr(register) else { continue };
        if explicit.contains(&register.full_register()) {
            continue;
        }
        let bit = 1u16 << number;
        let access = facts::access(used.access());
        if access.reads() {
            implied.0 |= bit;
        }
        if access.writes() {
            implied.2 |= bit;
            if matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite) && register.size() >= 4 {
                implied.1 |= bit;
            }
        }
    }
    let written = facts::always_written(insn);
    let mut zero = bytes;
    zero[modrm_end + address] = 0;
    if facts::is_shift(insn)
        && insn.op_kind(insn.op_count() - 1) == OpKind::Immediate8
        && facts::decode(&zero).is_ok_and(|i| facts::always_written(&i) != written)
    {
        set |= bits::COUNT;
    }
    let unit = if names_memory && fields.mode == 1 { insn.memory_displacement64() as u16 } else { 1 };
    let immediate = insn.len() - modrm_end - address;
    Facts {
        kind: facts::kind(insn),
        bits: set,
        imm: immediate,
        effect: (facts::flags(insn.rflags_read()), written, facts::flags(insn.rflags_modified())),
        size: if names_memory && explicit_access != Access::None {
            insn.memory_size().size() as u16
        } else {
            0
        },
        unit: if fields.space == Space::Evex && names_memory { unit } else { 1 },
        access: explicit_access,
        roles,
        implied,
        idiom: idiom(insn),
    }
}

/// What is known of an instruction beyond its operands.
fn idiom(i: &Instruction) -> Idiom {
    let registers = i.op_count() > 0 && (0..i.op_count().min(2)).all(|n| i.op_kind(n) == OpKind::Register);
    let wide = i.op0_kind() == OpKind::Register && i.op0_register().is_gpr64();
    let by_constant = wide && matches!(i.op1_kind(), OpKind::Immediate8to64 | OpKind::Immediate32to64);
    let memory = facts::names_memory(i);
    match i.mnemonic() {
        Mnemonic::Add if by_constant => Idiom::Add,
        Mnemonic::Sub if by_constant => Idiom::Sub,
        Mnemonic::Xor | Mnemonic::Sub if registers => Idiom::Clear,
        Mnemonic::Inc if wide => Idiom::Inc,
        Mnemonic::Dec if wide => Idiom::Dec,
        Mnemonic::Mov if wide && registers && i.op1_register().is_gpr64() => Idiom::Mov,
        Mnemonic::Lea if wide => Idiom::Lea,
        Mnemonic::Push | Mnemonic::Pushfq => Idiom::Push,
        Mnemonic::Call if i.is_call_near() || i.is_call_near_indirect() => Idiom::Push,
        Mnemonic::Pop if registers && i.op0_register().is_gpr() => Idiom::PopRegister,
        Mnemonic::Pop | Mnemonic::Popfq => Idiom::Pop,
        Mnemonic::Xchg if memory => Idiom::Xchg,
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg16b => Idiom::Cmpxchg,
        Mnemonic::Cmpxchg8b => Idiom::Cmpxchg8b,
        Mnemonic::Bt if i.op1_kind() == OpKind::Register => Idiom::BitTest,
        Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc if i.op1_kind() == OpKind::Register => Idiom::BitModify,
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb | Mnemonic::Cldemote => Idiom::NoData,
        Mnemonic::Fxsave | Mnemonic::Fxsave64 => Idiom::Fxsave,
        Mnemonic::Fxrstor | Mnemonic::Fxrstor64 => Idiom::Fxrstor,
        Mnemonic::Xsave
        | Mnemonic::Xsave64
        | Mnemonic::Xsavec
        | Mnemonic::Xsavec64
        | Mnemonic::Xsaveopt
        | Mnemonic::Xsaveopt64 => Idiom::Xsave,
        Mnemonic::Xrstor | Mnemonic::Xrstor64 => Idiom::Xrstor,
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd => Idiom::Masked4,
        Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovq => Idiom::Masked8,
        _ if i.is_vsib() && i.code().op_code().encoding() == EncodingKind::VEX => Idiom::Gather,
        _ => Idiom::None,
    }
}
