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
    if let Some(done) = segment_base(asm, d) {
        return done.map(|()| 0);
    }
    if insn.kind == Kind::StringOp {
        string_op(asm, d);
        return Ok(0);
    }
    if has_gs_operand(d) {
        return copy_with_gs(asm, d);
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

/// True for instructions that access memory through the guest's `gs`.
pub fn has_gs_operand(d: &Decoded) -> bool {
    let insn = &d.insn;
    let lea = insn.enc == Encoding::Legacy && insn.opcode == 0x8d && !is_two_byte(d);
    let xlat = insn.enc == Encoding::Legacy && insn.opcode == 0xd7 && !is_two_byte(d);
    insn.prefixes.seg_gs() && (insn.mem_operand_modrm() && !lea || xlat)
}

/// Copies a string instruction; where its source lies in `gs`, `rsi` is moved by the guest's base
/// meanwhile.
fn string_op(asm: &mut Asm, d: &Decoded) {
    let bytes = &d.bytes[..d.insn.len as usize];
    // movs, cmps, lods, outs; the others have no source that a prefix could change.
    if !d.insn.prefixes.seg_gs() || !matches!(d.insn.opcode, 0xa4..=0xa7 | 0xac | 0xad | 0x6e | 0x6f) {
        return asm.bytes(bytes);
    }
    let (rsi, other) = (Gpr::Rsi, Gpr::Rbx);
    let slot = gpr_disp(other as usize);
    let shift = |asm: &mut Asm, back: bool| {
        asm.store_gs(slot, other);
        asm.load_gs(other, disp!(guest_gs));
        if back {
            asm.bytes(&[0x48, 0xf7, 0xd3]); // not rbx
        }
        asm.lea_sum(rsi, rsi, other);
        if back {
            asm.lea(rsi, rsi, 1);
        }
        asm.load_gs(other, slot);
    };
    shift(asm, false);
    for &byte in bytes.iter().filter(|&&b| b != 0x65) {
        asm.bytes(&[byte]);
    }
    shift(asm, true);
}

fn is_two_byte(d: &Decoded) -> bool {
    d.bytes[d.insn.prefix_len as usize] == 0x0f
}

/// Instructions that read or set the base of `gs`, which is the engine's: the guest's is in the thread
/// block. None for all others.
fn segment_base(asm: &mut Asm, d: &Decoded) -> Option<Result<(), Uncopyable>> {
    let insn = &d.insn;
    if insn.enc != Encoding::Legacy {
        return None;
    }
    let rm = insn.modrm & 7 | (insn.rex & 1) << 3;
    let field = (insn.modrm >> 3) & 7;
    let base = disp!(guest_gs);
    match (is_two_byte(d), insn.opcode) {
        // rdgsbase, wrgsbase
        (true, 0xae) if insn.modrm >= 0xc0 && insn.prefixes.rep() && matches!(field, 1 | 3) => {
            let wide = insn.rex & 8 != 0;
            // mov r, gs:[base] and mov gs:[base], r
            let opcode = if field == 1 { 0x8b } else { 0x89 };
            let rex = 0x40 | (rm & 8) >> 1 | if wide { 8 } else { 0 };
            asm.bytes(&[0x65, rex, opcode, (rm & 7) << 3 | 4, 0x25]);
            asm.bytes(&base.to_le_bytes());
            if field == 3 && !wide {
                asm.store_gs32_imm(base + 4, 0);
            }
            Some(Ok(()))
        }
        // mov gs, r/m: the null selector, the only one in use, clears the base.
        (false, 0x8e) if field == 5 && insn.modrm >= 0xc0 => {
            for half in [base, base + 4] {
                asm.store_gs32_imm(half, 0);
            }
            Some(Ok(()))
        }
        // mov gs, m; lgs; pop gs
        (false, 0x8e) if field == 5 => Some(Err(Uncopyable)),
        (true, 0xb5 | 0xa9) => Some(Err(Uncopyable)),
        _ => None,
    }
}

/// Copies an instruction with a `gs` operand: its address is computed with the guest's base, and the
/// instruction works on `[scratch]`.
fn copy_with_gs(asm: &mut Asm, d: &Decoded) -> Result<usize, Uncopyable> {
    let insn = &d.insn;
    let bytes = &d.bytes[..insn.len as usize];
    let opcode = insn.prefix_len as usize;
    let absolute = insn.enc == Encoding::Legacy && matches!(insn.opcode, 0xa0..=0xa3) && !is_two_byte(d);
    // pop: the address is that after the stack pointer has moved.
    let pops = insn.enc == Encoding::Legacy && insn.opcode == 0x8f && !is_two_byte(d);
    if !absolute && (insn.enc == Encoding::Evex || insn.is_vector_indexed() || pops && insn.has_rsp_base())
        || !absolute && !insn.mem_operand_modrm()
    {
        return Err(Uncopyable);
    }
    let scratch = if absolute { Gpr::Rsi } else { scratch_for(d) };
    let start = asm.len();
    asm.store_gs(gpr_disp(scratch as usize), scratch);
    gs_address(asm, d, scratch, absolute);
    let offset = asm.len() - start;
    let mut form = [0u8; 16];
    let n = if absolute {
        // mov al/eax/rax, [scratch] or the reverse.
        form[..opcode].copy_from_slice(&bytes[..opcode]);
        form[opcode] = [0x8a, 0x8b, 0x88, 0x89][(insn.opcode - 0xa0) as usize];
        form[opcode + 1] = scratch as u8;
        opcode + 2
    } else {
        let modrm = insn.modrm_off as usize;
        form[..modrm].copy_from_slice(&bytes[..modrm]);
        clear_base_extension(&mut form, d);
        form[modrm] = insn.modrm & 0x38 | scratch as u8;
        let tail = &bytes[insn.disp_off as usize + displacement_size(d)..];
        form[modrm + 1..modrm + 1 + tail.len()].copy_from_slice(tail);
        modrm + 1 + tail.len()
    };
    // Without segment and address size: any other segment is flat.
    for &byte in form[..opcode].iter() {
        let legacy_prefix = !(0x40..0x50).contains(&byte);
        if !(legacy_prefix && matches!(byte, 0x65 | 0x67)) {
            asm.bytes(&[byte]);
        }
    }
    asm.bytes(&form[opcode..n]);
    asm.load_gs(scratch, gpr_disp(scratch as usize));
    Ok(offset)
}

/// Bytes of the displacement of a ModRM operand.
fn displacement_size(d: &Decoded) -> usize {
    let insn = &d.insn;
    match insn.modrm >> 6 {
        1 => 1,
        2 => 4,
        _ if insn.modrm & 7 == 5 => 4,
        _ if insn.modrm & 7 == 4 && insn.sib & 7 == 5 => 4,
        _ => 0,
    }
}

/// Emits `into` = address of the `gs` operand. Flags and all other registers stay.
fn gs_address(asm: &mut Asm, d: &Decoded, into: Gpr, absolute: bool) {
    let insn = &d.insn;
    if absolute {
        let at = insn.imm as u64;
        asm.mov_imm64(into, if insn.prefixes.addrsize() { at as u32 as u64 } else { at });
    } else if insn.is_rip_relative() {
        let at = d.next().wrapping_add(insn.disp as i64 as u64);
        asm.mov_imm64(into, if insn.prefixes.addrsize() { at as u32 as u64 } else { at });
    } else {
        if insn.prefixes.addrsize() {
            asm.bytes(&[0x67]);
        }
        let reg = into as u8;
        asm.bytes(&[0x48 | insn.rex & 3 | (reg & 8) >> 1, 0x8d, insn.modrm & 0xc7 | (reg & 7) << 3]);
        let from = insn.modrm_off as usize + 1;
        asm.bytes(&d.bytes[from..insn.disp_off as usize + displacement_size(d)]);
    }
    let other = if into == Gpr::Rsi { Gpr::Rdi } else { Gpr::Rsi };
    asm.store_gs(gpr_disp(other as usize), other);
    asm.load_gs(other, disp!(guest_gs));
    asm.lea_sum(into, into, other);
    asm.load_gs(other, gpr_disp(other as usize));
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
        gs_address(asm, d, Gpr::R11, false);
        asm.load(Gpr::R11, Gpr::R11, 0);
        return Ok(());
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
        string_op(asm, d);
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
        string_op(asm, d);
    }
    asm.bind8(field);
}
