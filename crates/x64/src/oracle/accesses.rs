//! The accesses of an instruction by iced-x86's facts.

use crate::accesses::{Access, Accesses, Address, Effects, Form, Lanes, NO_REGISTER};
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess,
    OpKind, Register,
};

fn number(register: Register) -> u8 {
    if register.is_gpr() { register.full_register().number() as u8 } else { NO_REGISTER }
}

fn bit(number: u8) -> u16 {
    if number < 16 { 1 << number } else { 0 }
}

/// The accesses of the instruction at `pc`, into `out`, and its effects. `bytes` hold a whole, valid
/// instruction.
pub fn analyse(factory: &mut InstructionInfoFactory, pc: u64, bytes: &[u8], out: &mut Accesses) -> Effects {
    out.len = 0;
    let mut i = Instruction::default();
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut i);
    let mut effects = Effects::default();
    let info = factory.info(&i);
    for used in info.used_registers() {
        let register = used.register();
        if !register.is_gpr() {
            continue;
        }
        let mask = bit(number(register));
        let (read, write, whole) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false, false),
            OpAccess::Write => (false, true, register.size() >= 4),
            OpAccess::CondWrite | OpAccess::ReadCondWrite | OpAccess::ReadWrite => (true, true, false),
            _ => (false, false, false),
        };
        if read || write && !whole {
            effects.reads |= mask;
        }
        if write {
            effects.writes |= mask;
        }
        if whole {
            effects.kills |= mask;
        }
    }
    effects.kills &= !effects.reads;
    effects.steps = steps(&i);
    let flags = super::facts::flags(i.rflags_read() | i.rflags_modified());
    // Of a shift by an immediate zero, iced knows that it leaves them alone.
    effects.touches_flags = super::facts::is_shift(&i) || !flags.is_empty();
    for pass in [false, true] {
        for used in info.used_memory() {
            let write = match used.access() {
                OpAccess::Read | OpAccess::CondRead => false,
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => true,
                _ => continue,
            };
            if write != pass {
                continue;
            }
            let narrow = used.base().is_gpr32() || used.index().is_gpr32();
            let at = Address {
                base: number(used.base()),
                index: number(used.index()),
                scale: used.scale() as u8,
                disp: used.displacement() as i64,
                fs: used.segment() == Register::FS,
                narrow,
            };
            out.push(Access { write, size: used.memory_size().size() as u16, at });
        }
    }
    special(&i, &mut effects, out);
    effects
}

/// Registers that change by a constant.
fn steps(i: &Instruction) -> [Option<(u8, u8, i32)>; 2] {
    const RSP: u8 = 4;
    let stack = i.stack_pointer_increment();
    let first = i.op0_register();
    let wide = i.op0_kind() == OpKind::Register && first.is_gpr64();
    let constant = || -> Option<i32> {
        match i.op1_kind() {
            OpKind::Immediate8to64 | OpKind::Immediate32to64 => i32::try_from(i.immediate(1) as i64).ok(),
            _ => None,
        }
    };
    let own = match i.mnemonic() {
        Mnemonic::Add if wide => constant().map(|c| (number(first), number(first), c)),
        Mnemonic::Sub if wide => {
            constant().and_then(i32::checked_neg).map(|c| (number(first), number(first), c))
        }
        Mnemonic::Inc if wide => Some((number(first), number(first), 1)),
        Mnemonic::Dec if wide => Some((number(first), number(first), -1)),
        Mnemonic::Mov if wide && i.op1_kind() == OpKind::Register && i.op1_register().is_gpr64() => {
            Some((number(first), number(i.op1_register()), 0))
        }
        Mnemonic::Lea if wide && i.memory_index() == Register::None && i.memory_base().is_gpr64() => {
            i32::try_from(i.memory_displacement64() as i64)
                .ok()
                .map(|d| (number(first), number(i.memory_base()), d))
        }
        _ => None,
    };
    let plain_stack = matches!(
        i.mnemonic(),
        Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Call
    );
    let pops_itself = i.mnemonic() == Mnemonic::Pop && first == Register::RSP;
    let moved = (plain_stack && stack != 0 && !pops_itself).then_some((RSP, RSP, stack));
    [own, moved]
}

/// Where Callgrind counts otherwise than operands tell.
fn special(i: &Instruction, effects: &mut Effects, out: &mut Accesses) {
    let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    let at = |disp: i64| Address {
        base: number(i.memory_base()),
        index: number(i.memory_index()),
        scale: i.memory_index_scale() as u8,
        disp: (i.memory_displacement64() as i64).wrapping_add(disp),
        fs: i.memory_segment() == Register::FS,
        narrow: i.memory_base().is_gpr32() || i.memory_index().is_gpr32(),
    };
    if i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix()) {
        effects.form = Form::Repeated;
        for access in &mut out.list[..out.len] {
            access.size = i.memory_size().size() as u16;
        }
        return;
    }
    match i.mnemonic() {
        Mnemonic::Xchg if memory => {
            lock(effects, out, true);
        }
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg16b if i.has_lock_prefix() => lock(effects, out, false),
        Mnemonic::Cmpxchg8b => lock(effects, out, false),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc if i.op1_kind() == OpKind::Register => {
            bit_by_register(i, effects, out, memory);
        }
        Mnemonic::Pop if memory && i.memory_base() == Register::RSP => {
            // The address is that of after the pop.
            if let Some(last) = out.list[..out.len].last_mut() {
                last.at.disp = at(0).disp.wrapping_add(last.size as i64);
            }
        }
        Mnemonic::Xlatb => effects.form = Form::Table,
        Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb | Mnemonic::Cldemote => out.len = 0,
        Mnemonic::Fxsave | Mnemonic::Fxsave64 => state(out, true, at(0)),
        Mnemonic::Fxrstor | Mnemonic::Fxrstor64 => state(out, false, at(0)),
        Mnemonic::Xsave
        | Mnemonic::Xsave64
        | Mnemonic::Xsavec
        | Mnemonic::Xsavec64
        | Mnemonic::Xsaveopt
        | Mnemonic::Xsaveopt64 => {
            out.len = 0;
            out.push(Access { write: true, size: 8, at: at(0) });
            effects.form = Form::SaveState;
        }
        Mnemonic::Xrstor | Mnemonic::Xrstor64 => {
            out.len = 0;
            out.push(Access { write: false, size: 8, at: at(0) });
            effects.form = Form::RestoreState;
        }
        Mnemonic::Enter => {
            // Nesting levels other than 0 do not occur.
            out.len = out.len.min(1);
        }
        _ if i.has_lock_prefix() => lock(effects, out, true),
        _ => lanes(i, effects, out, &at),
    }
    for access in &mut out.list[..out.len] {
        if access.size == 0 {
            access.size = size_of_state(i);
        }
    }
}

/// Sizes that the operand does not tell.
fn size_of_state(i: &Instruction) -> u16 {
    match i.mnemonic() {
        Mnemonic::Fnstenv | Mnemonic::Fldenv => 28,
        Mnemonic::Fnsave | Mnemonic::Frstor => 108,
        _ => 8,
    }
}

fn lock(effects: &mut Effects, out: &mut Accesses, retries: bool) {
    effects.locked = true;
    effects.retries = retries;
    if retries && let Some(&last) = out.list().last() {
        out.len = 0;
        out.push(Access { write: false, ..last });
        out.push(Access { write: true, ..last });
    }
}

/// Bit instructions whose bit number is in a register. Without memory operand, Valgrind puts the register
/// onto the stack, well below the red zone, and works there.
fn bit_by_register(i: &Instruction, effects: &mut Effects, out: &mut Accesses, memory: bool) {
    let size = i.op1_register().size() as u16;
    let only_tests = i.mnemonic() == Mnemonic::Bt;
    if memory {
        if i.has_lock_prefix() {
            lock(effects, out, true);
        }
        for access in &mut out.list[..out.len] {
            access.size = 1;
        }
        effects.form = Form::Bit { reg: number(i.op1_register()), width: size as u8 };
        return;
    }
    const RSP: u8 = 4;
    let at = Address { base: RSP, index: NO_REGISTER, scale: 1, disp: -288, fs: false, narrow: false };
    out.len = 0;
    out.push(Access { write: true, size, at });
    if only_tests {
        out.push(Access { write: false, size: 1, at });
    } else {
        out.push(Access { write: true, size: 1, at });
        out.push(Access { write: false, size, at });
    }
}

/// `fxsave` and `fxrstor`: x87 state, control words, and sixteen registers.
fn state(out: &mut Accesses, write: bool, at: Address) {
    out.len = 0;
    let mut push = |offset: i64, size| {
        out.push(Access { write, size, at: Address { disp: at.disp.wrapping_add(offset), ..at } });
    };
    push(0, 160);
    push(24, 8);
    for n in 0..16 {
        push(160 + 16 * n, 16);
    }
}

/// Gathers and masked moves of VEX.
fn lanes(i: &Instruction, effects: &mut Effects, out: &mut Accesses, at: &dyn Fn(i64) -> Address) {
    let vector = |r: Register| r.number() as u8;
    let gather = matches!(
        i.code(),
        Code::VEX_Vpgatherdd_xmm_vm32x_xmm
            | Code::VEX_Vpgatherdd_ymm_vm32y_ymm
            | Code::VEX_Vpgatherdq_xmm_vm32x_xmm
            | Code::VEX_Vpgatherdq_ymm_vm32x_ymm
            | Code::VEX_Vpgatherqd_xmm_vm64x_xmm
            | Code::VEX_Vpgatherqd_xmm_vm64y_xmm
            | Code::VEX_Vpgatherqq_xmm_vm64x_xmm
            | Code::VEX_Vpgatherqq_ymm_vm64y_ymm
            | Code::VEX_Vgatherdps_xmm_vm32x_xmm
            | Code::VEX_Vgatherdps_ymm_vm32y_ymm
            | Code::VEX_Vgatherdpd_xmm_vm32x_xmm
            | Code::VEX_Vgatherdpd_ymm_vm32x_ymm
            | Code::VEX_Vgatherqps_xmm_vm64x_xmm
            | Code::VEX_Vgatherqps_xmm_vm64y_xmm
            | Code::VEX_Vgatherqpd_xmm_vm64x_xmm
            | Code::VEX_Vgatherqpd_ymm_vm64y_ymm
    );
    if gather {
        let size = match i.memory_size() {
            MemorySize::Int64 | MemorySize::UInt64 | MemorySize::Float64 => 8,
            _ => 4,
        };
        let index_size = if matches!(
            i.mnemonic(),
            Mnemonic::Vpgatherqd | Mnemonic::Vpgatherqq | Mnemonic::Vgatherqps | Mnemonic::Vgatherqpd
        ) {
            8
        } else {
            4
        };
        let indices = i.memory_index().size() as u8 / index_size;
        let results = i.op0_register().size() as u8 / size;
        out.len = 0;
        let at = Address { index: NO_REGISTER, ..at(0) };
        out.push(Access { write: false, size: size as u16, at });
        effects.form = Form::Lanes(Lanes {
            count: indices.min(results),
            size,
            mask: vector(i.op2_register()),
            index: vector(i.memory_index()),
            index_size,
            mask_size: size,
        });
        return;
    }
    let (size, mask, write) = match i.mnemonic() {
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd => (4, i.op1_register(), i.op0_kind() == OpKind::Memory),
        Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovq => (8, i.op1_register(), i.op0_kind() == OpKind::Memory),
        _ => return,
    };
    out.len = 0;
    out.push(Access { write, size: size as u16, at: at(0) });
    effects.form = Form::Lanes(Lanes {
        count: mask.size() as u8 / size,
        size,
        mask: vector(mask),
        index: NO_REGISTER,
        index_size: 0,
        mask_size: size,
    });
}
