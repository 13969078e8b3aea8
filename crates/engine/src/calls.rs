//! Generated code for calls and returns: the fast paths of the shadow stack.
//!
//! Every sequence here does what `tallygraph_callgraph::shadow_stack` states, for the case that
//! nothing is out of order; anything else leaves for the engine.
//!
//! Register conventions inside the sequences:
//!
//! - *spilled*: guest `r10` and `r11` are in their slots, both registers are free;
//! - why these two: no argument and no result is passed in them, so that the latency of spilling
//!   them is on nobody's path;
//! - *kept flags*: guest `rax` is in its slot and `rax` holds the guest's flags. A sequence keeps
//!   flags when they may be live at the guest instruction it leads to.
//!
//! A return jumps through the newest entry's continuation with *spilled*, `r11` = the entry and
//! `r10` = the running total. The continuation of a call instruction knows the return address and
//! whether flags are live there; so the return needs no comparison and no flags.

use crate::events::{self, CERTAIN, Simulation};
use crate::exit::CallSite;
use crate::layout::{TOTAL, active_disp, counter_disp};
use crate::thread::{disp, gpr_disp};
use tallygraph_callgraph::{CallVariant, Edge, Entry};
use tallygraph_x64::asm::{Asm, Gpr, cc};

const RAX: i32 = gpr_disp(0);
/// First scratch register: holds the entry, or the target of an indirect branch.
const A: Gpr = Gpr::R11;
/// Second scratch register: holds the running total.
const B: Gpr = Gpr::R10;
const A_SLOT: i32 = gpr_disp(11);
const B_SLOT: i32 = gpr_disp(10);
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
    asm.load_gs(A, A_SLOT);
    asm.load_gs(B, B_SLOT);
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
/// whether there is a running total, `total_loaded` that `r10` holds it.
pub fn push_entry(
    asm: &mut Asm,
    variant: &CallVariant,
    edge: Option<&Edge>,
    is_jump: bool,
    counting: bool,
    total_loaded: bool,
    sim: Option<&Simulation>,
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
    asm.load_gs(A, disp!(shadow_top));
    if is_jump {
        // The stack pointer of the entry below, so that the later return pops both.
        asm.load(B, A, SP);
        asm.lea(A, A, ENTRY);
        asm.store(A, SP, B);
    } else {
        asm.lea(A, A, ENTRY);
        asm.store(A, SP, Gpr::Rsp);
    }
    if counting {
        if is_jump || !total_loaded {
            asm.load_gs(B, TOTAL);
        }
        asm.store(A, ENTRY_TOTAL, B);
    }
    asm.store_imm32(A, CONTINUATION, 0);
    let continuation = asm.len() - 4;
    if let Some(sim) = sim {
        events::push_totals(asm, sim, A, B);
    }
    asm.store_gs(disp!(shadow_top), A);
    CallFields { other_level, continuation }
}

/// The continuation of a call instruction, up to where the guest goes on at `return_to` with all
/// registers in the machine. `mismatch` is where anything unexpected goes, *spilled* and with flags
/// kept when `keep`.
#[allow(clippy::too_many_arguments)]
pub fn call_continuation(
    asm: &mut Asm,
    variant: &CallVariant,
    edge: Option<&Edge>,
    return_to: u64,
    keep: bool,
    counting: bool,
    mismatch: u64,
    sim: Option<&Simulation>,
) {
    keep_flags(asm, keep);
    // No branch is taken on the usual path: history that indirect branches need stays short.
    asm.cmp_load(Gpr::Rsp, A, SP);
    asm.jcc(cc::NE, mismatch);
    let imm = return_to as i32;
    let near = imm as i64 as u64 == return_to;
    if near {
        asm.cmp_top_imm32(imm);
    } else {
        asm.mov_imm64(B, return_to);
        asm.cmp_top(B);
    }
    asm.jcc(cc::NE, mismatch);
    if let Some(edge) = edge
        && counting
    {
        if !near {
            asm.load_gs(B, TOTAL);
        }
        asm.sub_load(B, A, ENTRY_TOTAL);
        asm.add_gs(counter_disp(edge.inclusive), B);
        if let Some(sim) = sim {
            events::pop_totals(asm, sim, A, B, edge.inclusive);
        }
    }
    if sim.is_some() {
        events::pass_on(asm, A, edge.map_or(0, |e| e.inclusive));
    }
    if !variant.active.is_none() {
        asm.store_gs32_imm(active_disp(variant.active.0), variant.active_before);
    }
    asm.lea(A, A, -ENTRY);
    asm.store_gs(disp!(shadow_top), A);
    asm.lea_rsp(8);
    restore_flags(asm, keep);
    unspill(asm);
}

/// The continuation of a jump that counts as a call: pops its entry and goes on with the
/// continuation of the entry below. Whether flags are live is known there only, so they are left
/// alone here.
pub fn jump_continuation(
    asm: &mut Asm,
    variant: &CallVariant,
    edge: Option<&Edge>,
    counting: bool,
    sim: Option<&Simulation>,
) {
    if let Some(edge) = edge
        && counting
    {
        asm.store_gs(RAX, Gpr::Rax);
        asm.load(Gpr::Rax, A, ENTRY_TOTAL);
        asm.bytes(&[0x48, 0xf7, 0xd0]); // not rax
        asm.lea_sum(Gpr::Rax, Gpr::Rax, B);
        asm.lea(Gpr::Rax, Gpr::Rax, 1); // total now - total at the call
        asm.load_gs(A, counter_disp(edge.inclusive));
        asm.lea_sum(Gpr::Rax, Gpr::Rax, A);
        asm.store_gs(counter_disp(edge.inclusive), Gpr::Rax);
        asm.load_gs(A, disp!(shadow_top));
        if let Some(sim) = sim {
            asm.store_gs(disp!(event_target), B);
            events::pop_totals_through(asm, sim, A, Gpr::Rax, B, edge.inclusive);
            asm.load_gs(B, disp!(event_target));
        }
        asm.load_gs(Gpr::Rax, RAX);
    }
    if sim.is_some() {
        events::pass_on_keeping_flags(asm, A, edge.map_or(0, |e| e.inclusive));
    }
    if !variant.active.is_none() {
        asm.store_gs32_imm(active_disp(variant.active.0), variant.active_before);
    }
    asm.lea(A, A, -ENTRY);
    asm.store_gs(disp!(shadow_top), A);
    asm.jmp_mem(A, CONTINUATION);
}

/// A return instruction after the block's own counter: updates the total and goes through the
/// newest continuation. `count` adds a counter that could not be placed where flags are dead.
pub fn return_through(
    asm: &mut Asm,
    insns: i32,
    late_counter: Option<i32>,
    late_events: &[u32; CERTAIN],
    block: u32,
    counting: bool,
) {
    asm.store_gs(A_SLOT, A);
    asm.store_gs(B_SLOT, B);
    if let Some(counter) = late_counter {
        asm.load_gs(B, counter);
        asm.lea(B, B, 1);
        asm.store_gs(counter, B);
        events::add_totals_through(asm, B, late_events);
    }
    if counting {
        asm.load_gs(B, TOTAL);
        asm.lea(B, B, insns);
        asm.store_gs(TOTAL, B);
    }
    asm.store_gs32_imm(disp!(last_block), block);
    asm.load_gs(A, disp!(shadow_top));
    asm.jmp_mem(A, CONTINUATION);
}

/// Spills `r11`.
pub fn spill_first(asm: &mut Asm) {
    asm.store_gs(A_SLOT, A);
}

/// Pushes an entry that is not counted and loads `r11`, which is spilled; flags are left alone. Gives the
/// offset of the imm32 of the continuation's address.
pub fn push_uncounted(asm: &mut Asm) -> usize {
    asm.load_gs(A, disp!(shadow_top));
    asm.lea(A, A, ENTRY);
    asm.store(A, SP, Gpr::Rsp);
    asm.store_imm32(A, CONTINUATION, 0);
    let continuation = asm.len() - 4;
    asm.store_gs(disp!(shadow_top), A);
    asm.load_gs(A, A_SLOT);
    continuation
}

/// A return that is not counted: goes through the newest continuation with `r11` spilled.
pub fn return_uncounted(asm: &mut Asm) {
    asm.store_gs(A_SLOT, A);
    asm.load_gs(A, disp!(shadow_top));
    asm.jmp_mem(A, CONTINUATION);
}

/// [`call_continuation`] for a return that is not counted.
pub fn uncounted_continuation(asm: &mut Asm, return_to: u64, keep: bool, mismatch: u64) {
    keep_flags(asm, keep);
    asm.cmp_load(Gpr::Rsp, A, SP);
    asm.jcc(cc::NE, mismatch);
    let imm = return_to as i32;
    if imm as i64 as u64 == return_to {
        asm.cmp_top_imm32(imm);
    } else {
        // No register is free for the address: it is compared in halves.
        asm.cmp_top32(0, return_to as u32);
        asm.jcc(cc::NE, mismatch);
        asm.cmp_top32(4, (return_to >> 32) as u32);
    }
    asm.jcc(cc::NE, mismatch);
    asm.lea(A, A, -ENTRY);
    asm.store_gs(disp!(shadow_top), A);
    asm.lea_rsp(8);
    restore_flags(asm, keep);
    asm.load_gs(A, A_SLOT);
}

/// The hash of an indirect branch: 16 bits of target and exit number.
pub fn lookup_mix(key: u32) -> i32 {
    (key.wrapping_mul(0x9e37) & 0xffff) as i32
}

/// Index in the lookup table.
pub fn lookup_index(target: u64, key: u32) -> usize {
    (target as u32).wrapping_add(lookup_mix(key) as u32) as usize & 0xffff
}

/// The lookup: `r11` (spilled) holds the target.
pub fn lookup(asm: &mut Asm, key: u32) {
    asm.store_gs(disp!(ibl_target), A);
    asm.store_gs32_imm(disp!(ibl_key), key);
    asm.lea32(A, A, lookup_mix(key));
    asm.movzx_low16(A);
    asm.jmp_table8(A, crate::layout::IBL_TABLE as i32);
}

/// The start of a lookup stub: keeps flags, and goes to `miss` unless key and target are these. `r11` is
/// spilled.
pub fn lookup_check(asm: &mut Asm, key: u32, target: u64, miss: u64) {
    keep_flags(asm, true);
    asm.cmp_gs32_imm32(disp!(ibl_key), key);
    asm.jcc(cc::NE, miss);
    let imm = target as i32;
    if imm as i64 as u64 == target {
        asm.cmp_gs_imm32(disp!(ibl_target), imm);
    } else {
        asm.store_gs(B_SLOT, B);
        asm.mov_imm64(B, target);
        asm.cmp_gs(disp!(ibl_target), B);
        asm.load_gs(B, B_SLOT);
    }
    asm.jcc(cc::NE, miss);
}

/// Undoes [`keep_flags`] where the flags themselves are dead unless `live`.
pub fn release_flags(asm: &mut Asm, live: bool) {
    if live {
        restore_flags(asm, true);
    } else {
        asm.load_gs(Gpr::Rax, RAX);
    }
}

/// Goes to `out` when the stack pointer has left the newest entry's frame. `r11` is spilled, flags are
/// free or kept.
pub fn unwind_check(asm: &mut Asm, out: u64) {
    asm.load_gs(A, disp!(shadow_top));
    asm.cmp_load(Gpr::Rsp, A, SP);
    asm.jcc(cc::A, out);
}

/// Compares the target in `r11` with `target` without touching flags: another target may read them. What
/// follows runs when it is another one; gives the offset of the rel8 of the branch taken when it is the same.
/// Both ways begin with [`unspill_compared`].
pub fn compare_target(asm: &mut Asm, target: u64) -> usize {
    asm.store_gs(gpr_disp(1), Gpr::Rcx);
    match i32::try_from((target as i64).wrapping_neg()) {
        Ok(negative) => asm.lea(Gpr::Rcx, A, negative),
        Err(_) => {
            asm.mov_imm64(Gpr::Rcx, target.wrapping_neg());
            asm.lea_sum(Gpr::Rcx, Gpr::Rcx, A);
        }
    }
    asm.jrcxz8()
}

/// Loads the register that [`compare_target`] used.
pub fn unspill_compared(asm: &mut Asm) {
    asm.load_gs(Gpr::Rcx, gpr_disp(1));
}

/// Loads the target of the lookup's exit path and nothing else: only `r11` was spilled.
pub fn unspill_target(asm: &mut Asm) {
    asm.load_gs(A, A_SLOT);
}

/// Spills both registers.
pub fn spill(asm: &mut Asm) {
    asm.store_gs(A_SLOT, A);
    asm.store_gs(B_SLOT, B);
}

/// Spills `r10` where `r11` already is.
pub fn spill_second(asm: &mut Asm) {
    asm.store_gs(B_SLOT, B);
}

/// Adds 1 to a counter in code where flags may be live. `r11` is not spilled.
pub fn increment_neutral(asm: &mut Asm, counter: i32) {
    asm.store_gs(A_SLOT, A);
    asm.load_gs(A, counter);
    asm.lea(A, A, 1);
    asm.store_gs(counter, A);
    asm.load_gs(A, A_SLOT);
}

/// Adds `insns` and certain events to the running totals and 1 to a counter in code where flags may be live. `r10` and
/// `r11` are not spilled.
pub fn count_neutral(asm: &mut Asm, counter: i32, insns: i32, certain: &[u32; CERTAIN]) {
    asm.store_gs(A_SLOT, A);
    events::add_totals_through(asm, A, certain);
    for (at, by) in [(counter, 1), (TOTAL, insns)] {
        asm.load_gs(A, at);
        asm.lea(A, A, by);
        asm.store_gs(at, A);
    }
    asm.load_gs(A, A_SLOT);
}

impl CallSite {
    /// The same site at the next recursion level.
    pub fn next_level(self) -> CallSite {
        CallSite { level: self.level + 1, ..self }
    }
}
