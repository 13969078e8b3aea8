//! Generated code for calls and returns: the fast paths of the shadow stack.
//!
//! Every sequence here does what `tallygraph_callgraph::shadow_stack` states, for the case that
//! nothing is out of order; anything else leaves for the engine.
//!
//! Register conventions inside the sequences:
//!
//! - *spilled*: guest `rcx` and `rdx` are in their slots, both registers are free;
//! - *kept flags*: guest `rax` is in its slot and `rax` holds the guest's flags. A sequence keeps
//!   flags when they may be live at the guest instruction it leads to.
//!
//! A return jumps through the newest entry's continuation with *spilled*, `rcx` = the entry and
//! `rdx` = the running total. The continuation of a call instruction knows the return address and
//! whether flags are live there; so the return needs no comparison and no flags.

use crate::exit::CallSite;
use crate::layout::{TOTAL, active_disp, counter_disp};
use crate::thread::{disp, gpr_disp};
use tallygraph_callgraph::{CallVariant, Edge, Entry};
use tallygraph_x64::asm::{Asm, Gpr, cc};

const RAX: i32 = gpr_disp(0);
const RCX: i32 = gpr_disp(1);
const RDX: i32 = gpr_disp(2);
const ENTRY: i32 = size_of::<Entry>() as i32;
const SP: i32 = 0;
const ENTRY_TOTAL: i32 = 8;
const CONTINUATION: i32 = 16;

/// Offsets of fields to be bound once their targets exist.
pub struct CallFields {
    /// rel32 of the branch taken when the active count is another one; none when not checked.
    pub other_level: Option<usize>,
    /// imm32 of the continuation's address.
    pub continuation: usize,
}

/// Saves `rax` and the flags in it when `keep`.
pub fn keep_flags(asm: &mut Asm, keep: bool) {
    if keep {
        asm.store_gs(RAX, Gpr::Rax);
        asm.save_flags_rax();
    }
}

/// Undoes [`keep_flags`].
pub fn restore_flags(asm: &mut Asm, keep: bool) {
    if keep {
        asm.restore_flags_rax();
        asm.load_gs(Gpr::Rax, RAX);
    }
}

/// Loads the spilled registers.
pub fn unspill(asm: &mut Asm) {
    asm.load_gs(Gpr::Rcx, RCX);
    asm.load_gs(Gpr::Rdx, RDX);
}

/// Pushes a guest return address on the guest's stack.
pub fn push_return_address(asm: &mut Asm, address: u64) {
    let imm = address as i32;
    asm.push_imm32(imm);
    if imm as i64 as u64 != address {
        asm.store_top_high((address >> 32) as u32);
    }
}

/// Pushes a shadow stack entry and counts the call. *Spilled*, flags free or kept; `counting` says
/// whether there is a running total.
pub fn push_entry(
    asm: &mut Asm,
    variant: &CallVariant,
    edge: Option<&Edge>,
    is_jump: bool,
    counting: bool,
) -> CallFields {
    let other_level = (!variant.active.is_none()).then(|| {
        let active = active_disp(variant.active.0);
        if let Ok(before) = i8::try_from(variant.active_before) {
            asm.cmp_gs32_imm8(active, before);
        } else {
            asm.cmp_gs32_imm32(active, variant.active_before);
        }
        let field = asm.jcc(cc::NE, asm.pc());
        asm.store_gs32_imm(active, variant.active_before + 1);
        field
    });
    if let Some(edge) = edge
        && counting
    {
        asm.inc_gs(counter_disp(edge.count));
    }
    asm.load_gs(Gpr::Rcx, disp!(shadow_top));
    if is_jump {
        // The stack pointer of the entry below, so that the later return pops both.
        asm.load(Gpr::Rdx, Gpr::Rcx, SP);
        asm.lea(Gpr::Rcx, Gpr::Rcx, ENTRY);
        asm.store(Gpr::Rcx, SP, Gpr::Rdx);
    } else {
        asm.lea(Gpr::Rcx, Gpr::Rcx, ENTRY);
        asm.store(Gpr::Rcx, SP, Gpr::Rsp);
    }
    if counting {
        asm.load_gs(Gpr::Rdx, TOTAL);
        asm.store(Gpr::Rcx, ENTRY_TOTAL, Gpr::Rdx);
    }
    asm.store_imm32(Gpr::Rcx, CONTINUATION, 0);
    let continuation = asm.len() - 4;
    asm.store_gs(disp!(shadow_top), Gpr::Rcx);
    CallFields { other_level, continuation }
}

/// The continuation of a call instruction, up to where the guest goes on at `return_to` with all
/// registers in the machine. `mismatch` is where anything unexpected goes, *spilled*.
pub fn call_continuation(
    asm: &mut Asm,
    variant: &CallVariant,
    edge: Option<&Edge>,
    return_to: u64,
    keep: bool,
    counting: bool,
    mismatch: u64,
) {
    keep_flags(asm, keep);
    asm.cmp_load(Gpr::Rsp, Gpr::Rcx, SP);
    let wrong_sp = asm.jcc8(cc::NE);
    let imm = return_to as i32;
    let near = imm as i64 as u64 == return_to;
    if near {
        asm.cmp_top_imm32(imm);
    } else {
        asm.mov_imm64(Gpr::Rdx, return_to);
        asm.cmp_top(Gpr::Rdx);
    }
    let right = asm.jcc8(cc::E);
    asm.bind8(wrong_sp);
    restore_flags(asm, keep);
    asm.jmp(mismatch);
    asm.bind8(right);
    if let Some(edge) = edge
        && counting
    {
        if !near {
            asm.load_gs(Gpr::Rdx, TOTAL);
        }
        asm.sub_load(Gpr::Rdx, Gpr::Rcx, ENTRY_TOTAL);
        asm.add_gs(counter_disp(edge.inclusive), Gpr::Rdx);
    }
    if !variant.active.is_none() {
        asm.store_gs32_imm(active_disp(variant.active.0), variant.active_before);
    }
    asm.lea(Gpr::Rcx, Gpr::Rcx, -ENTRY);
    asm.store_gs(disp!(shadow_top), Gpr::Rcx);
    asm.lea_rsp(8);
    restore_flags(asm, keep);
    unspill(asm);
}

/// The continuation of a jump that counts as a call: pops its entry and goes on with the
/// continuation of the entry below. Whether flags are live is known there only, so they are left
/// alone here.
pub fn jump_continuation(asm: &mut Asm, variant: &CallVariant, edge: Option<&Edge>, counting: bool) {
    if let Some(edge) = edge
        && counting
    {
        asm.store_gs(RAX, Gpr::Rax);
        asm.load(Gpr::Rax, Gpr::Rcx, ENTRY_TOTAL);
        asm.bytes(&[0x48, 0xf7, 0xd0]); // not rax
        asm.lea_sum(Gpr::Rax, Gpr::Rax, Gpr::Rdx);
        asm.lea(Gpr::Rax, Gpr::Rax, 1); // total now - total at the call
        asm.load_gs(Gpr::Rcx, counter_disp(edge.inclusive));
        asm.lea_sum(Gpr::Rax, Gpr::Rax, Gpr::Rcx);
        asm.store_gs(counter_disp(edge.inclusive), Gpr::Rax);
        asm.load_gs(Gpr::Rcx, disp!(shadow_top));
        asm.load_gs(Gpr::Rax, RAX);
    }
    if !variant.active.is_none() {
        asm.store_gs32_imm(active_disp(variant.active.0), variant.active_before);
    }
    asm.lea(Gpr::Rcx, Gpr::Rcx, -ENTRY);
    asm.store_gs(disp!(shadow_top), Gpr::Rcx);
    asm.jmp_mem(Gpr::Rcx, CONTINUATION);
}

/// A return instruction after the block's own counter: updates the total and goes through the
/// newest continuation. `count` adds a counter that could not be placed where flags are dead.
pub fn return_through(asm: &mut Asm, insns: i32, late_counter: Option<i32>, block: u32, counting: bool) {
    asm.store_gs(RCX, Gpr::Rcx);
    asm.store_gs(RDX, Gpr::Rdx);
    if let Some(counter) = late_counter {
        asm.load_gs(Gpr::Rdx, counter);
        asm.lea(Gpr::Rdx, Gpr::Rdx, 1);
        asm.store_gs(counter, Gpr::Rdx);
    }
    if counting {
        asm.load_gs(Gpr::Rdx, TOTAL);
        asm.lea(Gpr::Rdx, Gpr::Rdx, insns);
        asm.store_gs(TOTAL, Gpr::Rdx);
    }
    asm.store_gs32_imm(disp!(last_block), block);
    asm.load_gs(Gpr::Rcx, disp!(shadow_top));
    asm.jmp_mem(Gpr::Rcx, CONTINUATION);
}

/// The hash of an indirect branch: 16 bits of target and exit number.
pub fn lookup_mix(key: u32) -> i32 {
    (key.wrapping_mul(0x9e37) & 0xffff) as i32
}

/// Index in the lookup table.
pub fn lookup_index(target: u64, key: u32) -> usize {
    (target as u32).wrapping_add(lookup_mix(key) as u32) as usize & 0xffff
}

/// The lookup: `rcx` (spilled) holds the target.
pub fn lookup(asm: &mut Asm, key: u32) {
    asm.store_gs(disp!(ibl_target), Gpr::Rcx);
    asm.store_gs32_imm(disp!(ibl_key), key);
    asm.lea32_rcx(Gpr::Rcx, lookup_mix(key));
    asm.movzx_ecx_cx();
    asm.jmp_table8(Gpr::Rcx, crate::layout::IBL_TABLE as i32);
}

/// The start of a lookup stub: goes to `miss` unless key and target are these. `rcx` is spilled.
pub fn lookup_check(asm: &mut Asm, key: u32, target: u64, keep: bool, miss: u64) {
    keep_flags(asm, keep);
    asm.cmp_gs32_imm32(disp!(ibl_key), key);
    let wrong_key = asm.jcc8(cc::NE);
    let imm = target as i32;
    if imm as i64 as u64 == target {
        asm.cmp_gs_imm32(disp!(ibl_target), imm);
    } else {
        asm.store_gs(RDX, Gpr::Rdx);
        asm.mov_imm64(Gpr::Rdx, target);
        asm.cmp_gs(disp!(ibl_target), Gpr::Rdx);
        asm.load_gs(Gpr::Rdx, RDX);
    }
    let hit = asm.jcc8(cc::E);
    asm.bind8(wrong_key);
    restore_flags(asm, keep);
    asm.jmp(miss);
    asm.bind8(hit);
}

/// Loads the target of the lookup's exit path and nothing else: only `rcx` was spilled.
pub fn unspill_rcx(asm: &mut Asm) {
    asm.load_gs(Gpr::Rcx, RCX);
}

/// Spills both registers.
pub fn spill(asm: &mut Asm) {
    asm.store_gs(RCX, Gpr::Rcx);
    asm.store_gs(RDX, Gpr::Rdx);
}

/// Spills `rdx` where `rcx` already is.
pub fn spill_rdx(asm: &mut Asm) {
    asm.store_gs(RDX, Gpr::Rdx);
}

/// Adds `insns` to the running total and 1 to a counter in code where flags may be live. `rcx` and
/// `rdx` are not spilled.
pub fn count_neutral(asm: &mut Asm, counter: i32, insns: i32) {
    asm.store_gs(RCX, Gpr::Rcx);
    for (at, by) in [(counter, 1), (TOTAL, insns)] {
        asm.load_gs(Gpr::Rcx, at);
        asm.lea(Gpr::Rcx, Gpr::Rcx, by);
        asm.store_gs(at, Gpr::Rcx);
    }
    asm.load_gs(Gpr::Rcx, RCX);
}

impl CallSite {
    /// The same site at the next recursion level.
    pub fn next_level(self) -> CallSite {
        CallSite { level: self.level + 1, ..self }
    }
}
