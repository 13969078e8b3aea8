//! Which memory an instruction accesses, and how its address registers change.
//!
//! What is listed is what Callgrind counts, in its order: reads come before writes; a read and a write of
//! the same place by one instruction are one write; a locked instruction is a read, a write and a
//! conditional branch (its retry). Sizes are in bytes. Operand facts are `iced-x86`'s; the exceptions here
//! were found by running each instruction under Valgrind 3.19.

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess,
    OpKind, Register,
};

/// No register.
pub const NO_REGISTER: u8 = 0xff;

/// An address: `base + index * scale + disp`, plus the base of `fs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Hardware number of the base register, or [`NO_REGISTER`].
    pub base: u8,
    /// Hardware number of the index register, or [`NO_REGISTER`].
    pub index: u8,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Displacement; the whole address of an operand relative to `rip`.
    pub disp: i64,
    /// The base of `fs` is added.
    pub fs: bool,
    /// Computed in 32 bits.
    pub narrow: bool,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// It writes, or reads and writes the same place.
    pub write: bool,
    /// Bytes.
    pub size: u16,
    /// Where.
    pub at: Address,
}

/// What is not known when an instruction is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The listed accesses are made once.
    #[default]
    Once,
    /// The listed accesses (`rsi`, `rdi`) are made once per iteration of a repeat prefix.
    Repeated,
    /// One access for each active lane: see [`Lanes`].
    Lanes(Lanes),
    /// The byte that holds a bit: `at + (reg >> 3)`, `reg` signed.
    Bit {
        /// Register with the bit's number.
        reg: u8,
        /// Bytes of that register.
        width: u8,
    },
    /// `al` is added to the address.
    Table,
    /// `xsave` and its kind: the components in `edx:eax` are written.
    SaveState,
    /// `xrstor`.
    RestoreState,
}

/// A gather, scatter or masked move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// Number of elements.
    pub count: u8,
    /// Bytes of an element.
    pub size: u8,
    /// Vector register with the mask: an element is accessed when its highest bit is set.
    pub mask: u8,
    /// Vector register with the indices, or [`NO_REGISTER`] when elements are adjacent.
    pub index: u8,
    /// Bytes of an index.
    pub index_size: u8,
    /// Bytes of a mask element.
    pub mask_size: u8,
}

/// What else the simulation needs to know of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// General registers read, a bit each by hardware number.
    pub reads: u16,
    /// General registers that may change.
    pub writes: u16,
    /// General registers that are overwritten whole, whatever they held.
    pub kills: u16,
    /// Registers of `writes` that get the value of a register plus a constant: (register, source, constant).
    pub steps: [Option<(u8, u8, i32)>; 2],
    /// See [`Form`].
    pub form: Form,
    /// A bus event: a locked instruction.
    pub locked: bool,
    /// A conditional branch inside the instruction, never taken: the retry of a locked one.
    pub retries: bool,
}

/// Most accesses of one instruction.
pub const MAX_ACCESSES: usize = 40;

/// The accesses of one instruction.
#[derive(Clone, Copy)]
pub struct Accesses {
    list: [Access; MAX_ACCESSES],
    len: usize,
}

const NO_ACCESS: Access = Access {
    write: false,
    size: 0,
    at: Address { base: NO_REGISTER, index: NO_REGISTER, scale: 1, disp: 0, fs: false, narrow: false },
};

impl Default for Accesses {
    fn default() -> Self {
        Self::NONE
    }
}

impl Accesses {
    /// No access.
    pub const NONE: Accesses = Accesses { list: [NO_ACCESS; MAX_ACCESSES], len: 0 };

    fn push(&mut self, access: Access) {
        if let Some(slot) = self.list.get_mut(self.len) {
            *slot = access;
            self.len += 1;
        }
    }

    /// The accesses in order.
    pub fn list(&self) -> &[Access] {
        &self.list[..self.len]
    }
}

/// Analyses instructions; keeps what the work needs between calls.
pub struct Analyser {
    factory: InstructionInfoFactory,
}

fn number(register: Register) -> u8 {
    if register.is_gpr() { register.full_register().number() as u8 } else { NO_REGISTER }
}

fn bit(number: u8) -> u16 {
    if number < 16 { 1 << number } else { 0 }
}

impl Default for Analyser {
    fn default() -> Self {
        Self::new()
    }
}

impl Analyser {
    /// An analyser.
    pub fn new() -> Self {
        Analyser { factory: InstructionInfoFactory::new() }
    }

    /// The accesses of the instruction at `pc`, into `out`, and its effects. `bytes` hold a whole, valid
    /// instruction.
    pub fn analyse(&mut self, pc: u64, bytes: &[u8], out: &mut Accesses) -> Effects {
        out.len = 0;
        let mut i = Instruction::default();
        Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode_out(&mut i);
        let mut effects = Effects::default();
        let info = self.factory.info(&i);
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
        for pass in [false, true] {
            for used in info.used_memory() {
                let write = match used.access() {
                    OpAccess::Read | OpAccess::CondRead => false,
                    OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                        true
                    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Write, size, base, index and displacement.
    type Facts = (bool, u16, u8, u8, i64);

    fn analyse(bytes: &[u8]) -> (Effects, Vec<Facts>) {
        let mut out = Accesses::default();
        let effects = Analyser::new().analyse(0x1000, bytes, &mut out);
        let list = out.list().iter().map(|a| (a.write, a.size, a.at.base, a.at.index, a.at.disp)).collect();
        (effects, list)
    }

    const NONE: u8 = NO_REGISTER;

    #[test]
    fn operands_and_the_stack_are_accessed_in_order() {
        // mov rax, [rbx + rcx*4 + 0x10]
        assert_eq!(analyse(&[0x48, 0x8b, 0x44, 0x8b, 0x10]).1, [(false, 8, 3, 1, 0x10)]);
        // mov eax, [rip + 0x20]: the address is known
        assert_eq!(analyse(&[0x8b, 0x05, 0x20, 0, 0, 0]).1, [(false, 4, NONE, NONE, 0x1026)]);
        // add [rdi], eax is one write
        assert_eq!(analyse(&[0x01, 0x07]).1, [(true, 4, 7, NONE, 0)]);
        // push [rax]; call [rax]: a read, then the stack
        assert_eq!(analyse(&[0xff, 0x30]).1, [(false, 8, 0, NONE, 0), (true, 8, 4, NONE, -8)]);
        assert_eq!(analyse(&[0xff, 0x10]).1, [(false, 8, 0, NONE, 0), (true, 8, 4, NONE, -8)]);
        // pop [rsp + 8]: the address is that of after the pop
        assert_eq!(analyse(&[0x8f, 0x44, 0x24, 8]).1, [(false, 8, 4, NONE, 0), (true, 8, 4, NONE, 16)]);
        // ret
        assert_eq!(analyse(&[0xc3]).1, [(false, 8, 4, NONE, 0)]);
        // movaps [rsi], xmm0
        assert_eq!(analyse(&[0x0f, 0x29, 0x06]).1, [(true, 16, 6, NONE, 0)]);
    }

    #[test]
    fn what_touches_no_memory_accesses_nothing() {
        for bytes in [
            &[0x48, 0x8d, 0x04, 0x8b][..], // lea
            &[0x0f, 0x1f, 0x00],           // nop [rax]
            &[0x0f, 0x18, 0x08],           // prefetcht0
            &[0x0f, 0xae, 0x38],           // clflush
            &[0x0f, 0xa2],                 // cpuid
            &[0x0f, 0x05],                 // syscall
        ] {
            assert_eq!(analyse(bytes).1, [], "{bytes:02x?}");
        }
    }

    #[test]
    fn locked_instructions_read_write_and_retry() {
        // lock add [rdi], eax
        let (effects, list) = analyse(&[0xf0, 0x01, 0x07]);
        assert_eq!(list, [(false, 4, 7, NONE, 0), (true, 4, 7, NONE, 0)]);
        assert!(effects.locked && effects.retries);
        // xchg [rdi], eax locks by itself
        assert!(analyse(&[0x87, 0x07]).0.locked);
        // lock cmpxchg [rdi], ecx
        let (effects, list) = analyse(&[0xf0, 0x0f, 0xb1, 0x0f]);
        assert_eq!(list, [(true, 4, 7, NONE, 0)]);
        assert!(effects.locked && !effects.retries);
    }

    #[test]
    fn repeated_instructions_know_the_size_of_a_step() {
        let (effects, list) = analyse(&[0xf3, 0x48, 0xa5]);
        assert_eq!(effects.form, Form::Repeated);
        assert_eq!(list.iter().map(|a| (a.0, a.1, a.2)).collect::<Vec<_>>(), [(false, 8, 6), (true, 8, 7)]);
    }

    #[test]
    fn gathers_know_their_lanes() {
        // vpgatherdd ymm2, [rax + ymm1*4], ymm0
        let (effects, list) = analyse(&[0xc4, 0xe2, 0x7d, 0x90, 0x14, 0x88]);
        let lanes = Lanes { count: 8, size: 4, mask: 0, index: 1, index_size: 4, mask_size: 4 };
        assert_eq!(effects.form, Form::Lanes(lanes));
        assert_eq!(list, [(false, 4, 0, NONE, 0)]);
        // vgatherqps xmm2, [rax + ymm1*4], xmm0: four lanes
        let (effects, _) = analyse(&[0xc4, 0xe2, 0x7d, 0x93, 0x14, 0x88]);
        assert!(matches!(effects.form, Form::Lanes(Lanes { count: 4, size: 4, index_size: 8, .. })));
    }

    #[test]
    fn registers_that_change_by_a_constant_are_followed() {
        assert_eq!(analyse(&[0x53]).0.steps[1], Some((4, 4, -8))); // push rbx
        assert_eq!(analyse(&[0x48, 0x83, 0xec, 0x18]).0.steps[0], Some((4, 4, -24))); // sub rsp, 24
        assert_eq!(analyse(&[0x48, 0x89, 0xe5]).0.steps[0], Some((5, 4, 0))); // mov rbp, rsp
        assert_eq!(analyse(&[0x48, 0x8d, 0x43, 0xf8]).0.steps[0], Some((0, 3, -8))); // lea rax, [rbx - 8]
        assert_eq!(analyse(&[0x5c]).0.steps, [None; 2]); // pop rsp
        assert_eq!(analyse(&[0xff, 0xc0]).0.steps, [None; 2]); // inc eax
    }

    #[test]
    fn a_register_is_killed_when_it_is_overwritten_whole_and_unread() {
        let kills = |bytes: &[u8]| analyse(bytes).0.kills;
        assert_eq!(kills(&[0x48, 0x8b, 0x07]), 1); // mov rax, [rdi]
        assert_eq!(kills(&[0x8b, 0x07]), 1); // mov eax, [rdi]
        assert_eq!(kills(&[0x48, 0x8b, 0x00]), 0); // mov rax, [rax]
        assert_eq!(kills(&[0x8a, 0x07]), 0); // mov al, [rdi]
        assert_eq!(kills(&[0x0f, 0x44, 0xc3]), 0); // cmovz eax, ebx
        assert_eq!(kills(&[0x31, 0xc0]), 1); // xor eax, eax
    }
}
