//! Copying guest instructions into the code cache.

use crate::block::Decoded;
use crate::thread::{disp, gpr_disp};
use tallygraph_x64::asm::{Asm, Gpr};
use tallygraph_x64::{Encoding, Kind};

/// Room for the longest form a single copied instruction takes.
pub const MAX_COPY: usize = 64;

/// Why an instruction can't be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncopyable;

/// Emits `d` so that it does in the code cache what it does at its own address. The instruction
/// proper starts at the returned offset from the position before the call.
pub fn copy(asm: &mut Asm, d: &Decoded) -> Result<usize, Uncopyable> {
    let insn = &d.insn;
    let bytes = &d.bytes[..insn.len as usize];
    if insn.prefixes.seg_gs() && insn.mem_operand_modrm() {
        return Err(Uncopyable);
    }
    if !insn.is_rip_relative() {
        asm.bytes(bytes);
        return Ok(0);
    }
    let operand = d.next().wrapping_add(insn.disp as i64 as u64);
    let operand = if insn.prefixes.addrsize() { operand as u32 as u64 } else { operand };
    let from = asm.pc() + insn.len as u64;
    let at = insn.disp_off as usize;
    if let Ok(rel) = i32::try_from(operand.wrapping_sub(from) as i64) {
        asm.bytes(&bytes[..at]);
        asm.bytes(&rel.to_le_bytes());
        asm.bytes(&bytes[at + 4..]);
        return Ok(0);
    }
    let scratch = scratch_for(d);
    let start = asm.len();
    asm.store_gs(gpr_disp(scratch as usize), scratch);
    asm.mov_imm64(scratch, operand);
    let offset = asm.len() - start;
    // The same instruction with `[scratch]` for `[rip + disp32]`: mod 00, rm = scratch.
    let mut form = [0u8; 16];
    let modrm = insn.modrm_off as usize;
    form[..modrm].copy_from_slice(&bytes[..modrm]);
    clear_base_extension(&mut form, d);
    form[modrm] = insn.modrm & 0x38 | scratch as u8;
    let rest = &bytes[at + 4..];
    form[modrm + 1..modrm + 1 + rest.len()].copy_from_slice(rest);
    asm.bytes(&form[..modrm + 1 + rest.len()]);
    asm.load_gs(scratch, gpr_disp(scratch as usize));
    Ok(offset)
}

/// A register that the instruction neither names nor uses implicitly. Instructions with a `rip`
/// operand use `rax`, `rcx`, `rdx` and `rbx` implicitly at most, never `rsi` or `rdi`.
pub fn scratch_for(d: &Decoded) -> Gpr {
    let insn = &d.insn;
    let reg = (insn.modrm >> 3) & 7 | (insn.rex & 4) << 1;
    for r in [Gpr::Rsi, Gpr::Rdi, Gpr::Rbx] {
        if reg != r as u8 && !(insn.enc != Encoding::Legacy && insn.vvvv == r as u8) {
            return r;
        }
    }
    Gpr::Rbx
}

/// Clears the bit that extends the base register in `form`, a copy of the instruction's start.
fn clear_base_extension(form: &mut [u8; 16], d: &Decoded) {
    let insn = &d.insn;
    let p = insn.prefix_len as usize;
    match insn.enc {
        // The REX byte, if any, is the one before the opcode.
        Encoding::Legacy => {
            if insn.rex != 0 && p > 0 {
                form[p - 1] &= !1;
            }
        }
        // In three-byte VEX, EVEX and XOP the bit is inverted, bit 5 of the second byte; EVEX's X
        // extends a register operand only and is ignored for memory without index.
        Encoding::Vex => {
            if form[p] == 0xc4 {
                form[p + 1] |= 0x20;
            }
        }
        Encoding::Evex | Encoding::Xop => form[p + 1] |= 0x20,
    }
}

/// Emits `mov r11, operand` for the `r/m` operand of an indirect branch; `r11` is spilled already and
/// still holds the guest's value. `rsp` is the guest's, so operands based on it are right.
pub fn load_branch_target(asm: &mut Asm, d: &Decoded) -> Result<(), Uncopyable> {
    let insn = &d.insn;
    debug_assert!(matches!(insn.kind, Kind::JmpInd | Kind::CallInd));
    if insn.prefixes.seg_gs() && insn.mem_operand_modrm() {
        return Err(Uncopyable);
    }
    if insn.is_rip_relative() {
        let operand = d.next().wrapping_add(insn.disp as i64 as u64);
        if insn.prefixes.seg_fs() {
            return Err(Uncopyable);
        }
        match i32::try_from(operand as i64) {
            // mov r11, [disp32]
            Ok(absolute) => {
                asm.bytes(&[0x4c, 0x8b, 0x1c, 0x25]);
                asm.bytes(&absolute.to_le_bytes());
            }
            Err(_) => {
                asm.mov_imm64(Gpr::R11, operand);
                asm.load(Gpr::R11, Gpr::R11, 0);
            }
        }
        return Ok(());
    }
    if insn.prefixes.seg_fs() {
        asm.bytes(&[0x64]);
    }
    if insn.prefixes.addrsize() {
        asm.bytes(&[0x67]);
    }
    asm.bytes(&[0x4c | insn.rex & 3, 0x8b, insn.modrm & 0xc7 | 3 << 3]);
    let tail = insn.modrm_off as usize + 1;
    asm.bytes(&d.bytes[tail..insn.len as usize]);
    Ok(())
}

/// Emits counting around a repeated string instruction and the instruction itself.
///
/// `counter` counts what it executes beyond the first time; the running total grows by the same.
/// Flags are left alone. See `docs/counting.md` for the numbers.
pub fn repeated(asm: &mut Asm, d: &Decoded, counter: i32, total: i32) {
    let bytes = &d.bytes[..d.insn.len as usize];
    let compares = matches!(d.insn.opcode & !1, 0xa6 | 0xae);
    let (rax, rcx, rdx) = (Gpr::Rax, Gpr::Rcx, Gpr::Rdx);
    let (rax_slot, rdx_slot) = (gpr_disp(0), gpr_disp(2));
    // jrcxz: without iterations the instruction does nothing and counts once, as any other. With
    // a 32-bit counter only ecx counts, and it is zero-extended first as the instruction would.
    if d.insn.prefixes.addrsize() {
        asm.bytes(&[0x67]);
    }
    asm.bytes(&[0xe3, 0]);
    let field = asm.len() - 1;
    if d.insn.prefixes.addrsize() {
        asm.bytes(&[0x89, 0xc9]); // mov ecx, ecx
    }
    if compares {
        asm.store_gs(disp!(rep_count), rcx);
        asm.bytes(bytes);
        asm.store_gs(rdx_slot, rdx);
        asm.mov_imm32(rdx, 0);
        // dl = 1 when the last comparison ended the loop: repe ends on NZ, repne on Z.
        asm.bytes(&[0x0f, if d.insn.prefixes.repne() { 0x94 } else { 0x95 }, 0xc2]);
        asm.lea_sum(rdx, rdx, rcx);
        asm.bytes(&[0x48, 0xf7, 0xd2]); // not rdx
        asm.store_gs(rax_slot, rax);
        asm.load_gs(rax, disp!(rep_count));
        asm.lea_sum(rdx, rdx, rax);
        asm.lea(rdx, rdx, 1); // before - after - ended
        for at in [counter, total] {
            asm.load_gs(rax, at);
            asm.lea_sum(rax, rax, rdx);
            asm.store_gs(at, rax);
        }
        asm.load_gs(rax, rax_slot);
        asm.load_gs(rdx, rdx_slot);
    } else {
        asm.store_gs(rdx_slot, rdx);
        for at in [counter, total] {
            asm.load_gs(rdx, at);
            asm.lea_sum(rdx, rdx, rcx);
            asm.store_gs(at, rdx);
        }
        asm.load_gs(rdx, rdx_slot);
        asm.bytes(bytes);
    }
    asm.bind8(field);
}
