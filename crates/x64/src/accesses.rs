//! Which memory an instruction accesses, and how its address registers change.
//!
//! What is listed is what Callgrind counts, in its order: reads come before writes; a read and a write of
//! the same place by one instruction are one write; a locked instruction is a read, a write and a
//! conditional branch (its retry). Sizes are in bytes. Operand facts are the decoder's; the exceptions here
//! were found by running each instruction under Valgrind 3.19.

use crate::decoded::{Encoding, Insn, Kind};
use crate::op::Idiom;
use crate::operands::{Memory, Segment};

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
    /// It reads flags or may change them.
    pub touches_flags: bool,
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
    pub(crate) list: [Access; MAX_ACCESSES],
    pub(crate) len: usize,
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

    pub(crate) fn push(&mut self, access: Access) {
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

/// The accesses of an instruction at `pc`, into `out`, and its effects.
pub fn analyse(pc: u64, insn: &Insn, out: &mut Accesses) -> Effects {
    out.len = 0;
    let gprs = insn.gprs();
    let reads = gprs.read | gprs.may_write & !gprs.written;
    let mut effects = Effects {
        reads,
        writes: gprs.may_write,
        kills: gprs.written & !reads,
        touches_flags: !insn.flags_read.union(insn.flags_may_write()).is_empty(),
        steps: steps(insn),
        ..Effects::default()
    };
    let named = insn.memory().map(|m| (m, address(pc, insn, &m)));
    for write in [false, true] {
        if let Some((m, at)) = named
            && (m.access.reads() || m.access.writes())
            && m.access.writes() == write
        {
            out.push(Access { write, size: m.size, at });
        }
        for m in insn.implied_memory().filter(|m| m.access.writes() == write) {
            out.push(Access { write, size: m.size, at: address(pc, insn, &m) });
        }
    }
    special(insn, named, &mut effects, out);
    for access in &mut out.list[..out.len] {
        if access.size == 0 {
            // Sizes that the operand does not tell.
            access.size = 8;
        }
    }
    effects
}

fn address(pc: u64, insn: &Insn, m: &Memory) -> Address {
    let index = m.index.filter(|_| m.index_size == 0);
    let has_register = m.base.is_some() || index.is_some();
    let mut disp = m.disp;
    if m.rip {
        disp = (pc as i64).wrapping_add(insn.len as i64).wrapping_add(disp);
    }
    if m.narrow {
        disp = disp as u32 as i64;
    }
    Address {
        base: m.base.unwrap_or(NO_REGISTER),
        index: index.unwrap_or(NO_REGISTER),
        scale: if index.is_some() { m.scale } else { 1 },
        disp,
        fs: m.segment == Segment::Fs,
        narrow: m.narrow && has_register,
    }
}

const RSP: u8 = 4;

/// Registers that change by a constant.
fn steps(insn: &Insn) -> [Option<(u8, u8, i32)>; 2] {
    let op = insn.op();
    let stack = || insn.implied_memory().next().map_or(8, |m| m.size as i32);
    let register = insn.modrm >= 0xc0;
    let by = |n: i64| i32::try_from(n).ok();
    let constant = |by: i32| {
        // Without ModRM the register is rax.
        let number = if !insn.has_modrm() { 0 } else { insn.rm() };
        Some((number, number, by))
    };
    match op.idiom {
        Idiom::Add if register || !insn.has_modrm() => [by(insn.imm).and_then(constant), None],
        Idiom::Sub if register || !insn.has_modrm() => {
            [by(insn.imm).and_then(i32::checked_neg).and_then(constant), None]
        }
        Idiom::Inc if register => [constant(1), None],
        Idiom::Dec if register => [constant(-1), None],
        Idiom::Mov if register && insn.rex & 8 != 0 => {
            let to_reg = op.reg.access().writes();
            let (to, from) = if to_reg { (insn.reg(), insn.rm()) } else { (insn.rm(), insn.reg()) };
            [Some((to, from, 0)), None]
        }
        Idiom::Lea if insn.rex & 8 != 0 => {
            let m = insn.memory().filter(|m| m.index.is_none() && !m.narrow);
            let base = m.and_then(|m| m.base.map(|base| (base, m.disp)));
            [base.and_then(|(base, disp)| Some((insn.reg(), base, by(disp)?))), None]
        }
        Idiom::Push => [None, Some((RSP, RSP, -stack()))],
        Idiom::PopRegister if popped(insn) == RSP => [None; 2],
        Idiom::Pop | Idiom::PopRegister => [None, Some((RSP, RSP, stack()))],
        _ => [None; 2],
    }
}

/// The register that `pop` pops.
fn popped(insn: &Insn) -> u8 {
    if insn.has_modrm() { insn.rm() } else { insn.opcode & 7 | (insn.rex & 1) << 3 }
}

/// Where Callgrind counts otherwise than operands tell.
fn special(insn: &Insn, named: Option<(Memory, Address)>, effects: &mut Effects, out: &mut Accesses) {
    let op = insn.op();
    if insn.kind == Kind::StringOp && (insn.prefixes.rep() || insn.prefixes.repne()) {
        effects.form = Form::Repeated;
        for access in &mut out.list[..out.len] {
            access.size = step(insn);
        }
        return;
    }
    let locked = insn.prefixes.lock();
    match (op.idiom, named) {
        (Idiom::Xchg, Some(_)) => lock(effects, out, true),
        (Idiom::Cmpxchg, _) if locked => lock(effects, out, false),
        (Idiom::Cmpxchg8b, _) => lock(effects, out, false),
        (Idiom::BitTest | Idiom::BitModify, _) => bit_by_register(insn, named, effects, out),
        (Idiom::NoData, _) => out.len = 0,
        (Idiom::Fxsave, Some((_, at))) => state(out, true, at),
        (Idiom::Fxrstor, Some((_, at))) => state(out, false, at),
        (Idiom::Xsave, Some((_, at))) => {
            out.len = 0;
            out.push(Access { write: true, size: 8, at });
            effects.form = Form::SaveState;
        }
        (Idiom::Xrstor, Some((_, at))) => {
            out.len = 0;
            out.push(Access { write: false, size: 8, at });
            effects.form = Form::RestoreState;
        }
        (Idiom::Gather | Idiom::Masked4 | Idiom::Masked8, Some((m, at))) => lanes(insn, &m, at, effects, out),
        _ if is_table(insn) => effects.form = Form::Table,
        _ if locked => lock(effects, out, true),
        _ => {}
    }
}

/// Bytes that a string instruction handles at a time.
fn step(insn: &Insn) -> u16 {
    match insn.opcode & 1 {
        0 => 1,
        // `ins` and `outs` have no eight bytes.
        _ if insn.rex & 8 != 0 && !matches!(insn.opcode, 0x6c..=0x6f) => 8,
        _ if insn.prefixes.opsize() && insn.rex & 8 == 0 => 2,
        _ => 4,
    }
}

/// `xlat`.
fn is_table(insn: &Insn) -> bool {
    insn.op().bits & crate::op::bits::XLAT != 0
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
fn bit_by_register(insn: &Insn, named: Option<(Memory, Address)>, effects: &mut Effects, out: &mut Accesses) {
    let size = if insn.rex & 8 != 0 {
        8
    } else if insn.prefixes.opsize() {
        2
    } else {
        4
    };
    if named.is_some() {
        if insn.prefixes.lock() {
            lock(effects, out, true);
        }
        for access in &mut out.list[..out.len] {
            access.size = 1;
        }
        effects.form = Form::Bit { reg: insn.reg(), width: size as u8 };
        return;
    }
    let at = Address { base: RSP, index: NO_REGISTER, scale: 1, disp: -288, fs: false, narrow: false };
    out.len = 0;
    out.push(Access { write: true, size, at });
    if insn.op().idiom == Idiom::BitTest {
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
fn lanes(insn: &Insn, m: &Memory, at: Address, effects: &mut Effects, out: &mut Accesses) {
    debug_assert!(insn.enc == Encoding::Vex);
    let gathers = m.index_size != 0;
    let write = m.access.writes();
    // The operand of a masked move is a whole vector, that of a gather one element.
    let size = match insn.op().idiom {
        Idiom::Masked4 => 4,
        Idiom::Masked8 => 8,
        _ => m.size as u8,
    };
    out.len = 0;
    out.push(Access { write, size: size as u16, at });
    let vector = insn.shape().vector as u8;
    effects.form = Form::Lanes(Lanes {
        count: if gathers { m.elements } else { vector / size },
        size,
        mask: insn.vvvv,
        index: m.index.filter(|_| gathers).unwrap_or(NO_REGISTER),
        index_size: m.index_size,
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
        let effects = super::analyse(0x1000, &crate::decode(bytes).unwrap(), &mut out);
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
    fn what_may_change_flags_is_told_from_what_does_not() {
        let touches = |bytes: &[u8]| analyse(bytes).0.touches_flags;
        for bytes in [
            &[0x01, 0xd8][..],
            &[0xd3, 0xe0],
            &[0x0f, 0xa5, 0xc3],
            &[0x0f, 0x94, 0xc0],
            &[0x48, 0xc1, 0xe8, 0x20],
            &[0x9c],
            &[0xff, 0xc0],
        ] {
            assert!(touches(bytes), "{bytes:02x?}");
        }
        for bytes in [&[0x8b, 0x07][..], &[0x50], &[0x8d, 0x04, 0x8b], &[0xf7, 0xd0], &[0x0f, 0x29, 0x06]] {
            assert!(!touches(bytes), "{bytes:02x?}");
        }
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
