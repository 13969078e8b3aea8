//! An assembler for the shapes the engine emits.
//!
//! [`Asm`] writes machine code into a byte slice that will be executed at a known address. It knows
//! only the few forms that generated code is made of; each method is one instruction, named by its
//! operands. State of the running thread is reached as `gs:[disp32]`.
//!
//! Writing past the end sets [`Asm::overflow`] and drops the bytes; the caller checks once at the
//! end, so that emitting code needs no error handling in between.

/// A general-purpose register by its hardware number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Gpr {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

/// Condition codes as encoded in the low four bits of `Jcc` opcodes.
pub mod cc {
    /// Overflow.
    pub const O: u8 = 0;
    /// Below (carry).
    pub const B: u8 = 2;
    /// Equal (zero).
    pub const E: u8 = 4;
    /// Not equal.
    pub const NE: u8 = 5;
    /// Above, unsigned.
    pub const A: u8 = 7;
    /// Sign.
    pub const S: u8 = 8;
    /// Not sign.
    pub const NS: u8 = 9;
}

/// The assembler.
pub struct Asm<'b> {
    buf: &'b mut [u8],
    at: usize,
    base: u64,
    /// Set when something did not fit.
    pub overflow: bool,
}

impl<'b> Asm<'b> {
    /// Starts at the beginning of `buf`, which will be executed at `base`.
    pub fn new(buf: &'b mut [u8], base: u64) -> Self {
        Asm { buf, at: 0, base, overflow: false }
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.at
    }

    /// True when nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Address of the next instruction.
    pub fn pc(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Appends raw bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        match self.buf.get_mut(self.at..self.at + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.at += bytes.len();
            }
            None => self.overflow = true,
        }
    }

    fn imm32(&mut self, v: i32) {
        self.bytes(&v.to_le_bytes());
    }

    /// Overwrites four bytes written earlier, at offset `at`.
    pub fn patch32(&mut self, at: usize, v: i32) {
        if let Some(place) = self.buf.get_mut(at..at + 4) {
            place.copy_from_slice(&v.to_le_bytes());
        }
    }

    /// Overwrites one byte written earlier, at offset `at`.
    pub fn patch8(&mut self, at: usize, v: i8) {
        if let Some(place) = self.buf.get_mut(at) {
            *place = v as u8;
        }
    }

    /// Makes the rel8 at `field` (its own offset) jump to here.
    pub fn bind8(&mut self, field: usize) {
        let distance = self.at - field - 1;
        debug_assert!(distance < 128);
        self.patch8(field, distance as i8);
    }

    /// Pads with a no-op until the 4-byte field that starts `ahead` bytes from here does not
    /// cross an 8-byte boundary, so that it may be patched atomically.
    pub fn align_field(&mut self, ahead: usize) {
        let phase = (self.pc() + ahead as u64) & 7;
        if phase > 4 {
            self.nop((8 - phase) as usize);
        }
    }

    /// A no-op of 1 to 9 bytes.
    pub fn nop(&mut self, n: usize) {
        const NOPS: [&[u8]; 9] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
            &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
            &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        ];
        if n > 0 {
            self.bytes(NOPS[n - 1]);
        }
    }

    /// `gs:` prefix, REX.W, opcode, ModRM for `gs:[disp32]` with `reg` in the reg field.
    fn gs(&mut self, rex_w: bool, opcode: &[u8], reg: u8, disp: i32) {
        let rex = 0x40 | (rex_w as u8) << 3 | (reg >> 3) << 2;
        self.bytes(&[0x65]);
        if rex != 0x40 {
            self.bytes(&[rex]);
        }
        self.bytes(opcode);
        self.bytes(&[(reg & 7) << 3 | 4, 0x25]);
        self.imm32(disp);
    }

    /// `mov gs:[disp], r64`
    pub fn store_gs(&mut self, disp: i32, r: Gpr) {
        self.gs(true, &[0x89], r as u8, disp);
    }
    /// `mov r64, gs:[disp]`
    pub fn load_gs(&mut self, r: Gpr, disp: i32) {
        self.gs(true, &[0x8b], r as u8, disp);
    }
    /// `mov r32, gs:[disp]` (upper half cleared)
    pub fn load_gs32(&mut self, r: Gpr, disp: i32) {
        self.gs(false, &[0x8b], r as u8, disp);
    }
    /// `mov dword gs:[disp], imm32`
    pub fn store_gs32_imm(&mut self, disp: i32, imm: u32) {
        self.gs(false, &[0xc7], 0, disp);
        self.imm32(imm as i32);
    }
    /// `inc qword gs:[disp]`; writes all arithmetic flags but CF.
    pub fn inc_gs(&mut self, disp: i32) {
        self.gs(true, &[0xff], 0, disp);
    }
    /// `add qword gs:[disp], imm`
    pub fn add_gs_imm(&mut self, disp: i32, imm: i32) {
        if let Ok(imm) = i8::try_from(imm) {
            self.gs(true, &[0x83], 0, disp);
            self.bytes(&[imm as u8]);
        } else {
            self.gs(true, &[0x81], 0, disp);
            self.imm32(imm);
        }
    }
    /// `add gs:[disp], r64`
    pub fn add_gs(&mut self, disp: i32, r: Gpr) {
        self.gs(true, &[0x01], r as u8, disp);
    }
    /// `add r64, gs:[disp]`
    pub fn add_from_gs(&mut self, r: Gpr, disp: i32) {
        self.gs(true, &[0x03], r as u8, disp);
    }
    /// `cmp dword gs:[disp], imm8`
    pub fn cmp_gs32_imm8(&mut self, disp: i32, imm: i8) {
        self.gs(false, &[0x83], 7, disp);
        self.bytes(&[imm as u8]);
    }
    /// `cmp dword gs:[disp], imm32`
    pub fn cmp_gs32_imm32(&mut self, disp: i32, imm: u32) {
        self.gs(false, &[0x81], 7, disp);
        self.imm32(imm as i32);
    }
    /// `cmp qword gs:[disp], imm32` (sign-extended)
    pub fn cmp_gs_imm32(&mut self, disp: i32, imm: i32) {
        self.gs(true, &[0x81], 7, disp);
        self.imm32(imm);
    }
    /// `cmp gs:[disp], r64`
    pub fn cmp_gs(&mut self, disp: i32, r: Gpr) {
        self.gs(true, &[0x39], r as u8, disp);
    }

    /// REX.W opcode with a `[base + disp]` operand; base is neither `rsp` nor `r12`.
    fn mem(&mut self, opcode: &[u8], reg: u8, base: Gpr, disp: i32) {
        let b = base as u8;
        debug_assert!(b & 7 != 4);
        self.bytes(&[0x48 | (reg >> 3) << 2 | b >> 3]);
        self.bytes(opcode);
        match i8::try_from(disp) {
            Ok(0) if b & 7 != 5 => self.bytes(&[(reg & 7) << 3 | b & 7]),
            Ok(d) => self.bytes(&[0x40 | (reg & 7) << 3 | b & 7, d as u8]),
            Err(_) => {
                self.bytes(&[0x80 | (reg & 7) << 3 | b & 7]);
                self.imm32(disp);
            }
        }
    }

    /// `mov [base + disp], r64`
    pub fn store(&mut self, base: Gpr, disp: i32, r: Gpr) {
        self.mem(&[0x89], r as u8, base, disp);
    }
    /// `mov r64, [base + disp]`
    pub fn load(&mut self, r: Gpr, base: Gpr, disp: i32) {
        self.mem(&[0x8b], r as u8, base, disp);
    }
    /// `mov qword [base + disp], imm32` (sign-extended)
    pub fn store_imm32(&mut self, base: Gpr, disp: i32, imm: i32) {
        self.mem(&[0xc7], 0, base, disp);
        self.imm32(imm);
    }
    /// `lea r64, [base + disp]`
    pub fn lea(&mut self, r: Gpr, base: Gpr, disp: i32) {
        self.mem(&[0x8d], r as u8, base, disp);
    }
    /// `lea r64, [base + index]`
    pub fn lea_sum(&mut self, r: Gpr, base: Gpr, index: Gpr) {
        let (r, b, i) = (r as u8, base as u8, index as u8);
        debug_assert!(b & 7 != 5 && i != 4);
        self.bytes(&[
            0x48 | (r >> 3) << 2 | (i >> 3) << 1 | b >> 3,
            0x8d,
            (r & 7) << 3 | 4,
            (i & 7) << 3 | b & 7,
        ]);
    }
    /// `lea rsp, [rsp + disp8]`
    pub fn lea_rsp(&mut self, disp: i8) {
        self.bytes(&[0x48, 0x8d, 0x64, 0x24, disp as u8]);
    }
    /// `lea r32, [base + disp32]` (upper half cleared), `base` neither `rsp` nor `r12`.
    pub fn lea32(&mut self, r: Gpr, base: Gpr, disp: i32) {
        let (r, b) = (r as u8, base as u8);
        debug_assert!(b & 7 != 4);
        let rex = 0x40 | (r >> 3) << 2 | b >> 3;
        if rex != 0x40 {
            self.bytes(&[rex]);
        }
        self.bytes(&[0x8d, 0x80 | (r & 7) << 3 | b & 7]);
        self.imm32(disp);
    }
    /// `movzx r32, r16` of one register.
    pub fn movzx_low16(&mut self, r: Gpr) {
        let r = r as u8;
        if r >= 8 {
            self.bytes(&[0x45]);
        }
        self.bytes(&[0x0f, 0xb7, 0xc0 | (r & 7) << 3 | r & 7]);
    }
    /// `cmp r64, [base + disp]`
    pub fn cmp_load(&mut self, r: Gpr, base: Gpr, disp: i32) {
        self.mem(&[0x3b], r as u8, base, disp);
    }
    /// `cmp byte [base + disp32], imm8`, `base` one of `r8` to `r15` but `r12`.
    pub fn cmp_byte_imm(&mut self, base: Gpr, disp: i32, imm: u8) {
        let b = base as u8;
        debug_assert!(b >= 8 && b & 7 != 4);
        self.bytes(&[0x41, 0x80, 0xb8 | b & 7]);
        self.imm32(disp);
        self.bytes(&[imm]);
    }
    /// `cmp dword [base + disp32], imm32`, `base` as for [`Asm::cmp_byte_imm`].
    pub fn cmp_dword_imm(&mut self, base: Gpr, disp: i32, imm: u32) {
        let b = base as u8;
        debug_assert!(b >= 8 && b & 7 != 4);
        self.bytes(&[0x41, 0x81, 0xb8 | b & 7]);
        self.imm32(disp);
        self.imm32(imm as i32);
    }
    /// `sub r64, [base + disp]`
    pub fn sub_load(&mut self, r: Gpr, base: Gpr, disp: i32) {
        self.mem(&[0x2b], r as u8, base, disp);
    }
    /// `sub r64, r64`
    pub fn sub(&mut self, r: Gpr, from: Gpr) {
        let (r, f) = (r as u8, from as u8);
        self.bytes(&[0x48 | (f >> 3) << 2 | r >> 3, 0x29, 0xc0 | (f & 7) << 3 | r & 7]);
    }
    /// `mov r64, r64`
    pub fn mov(&mut self, r: Gpr, from: Gpr) {
        let (r, f) = (r as u8, from as u8);
        self.bytes(&[0x48 | (f >> 3) << 2 | r >> 3, 0x89, 0xc0 | (f & 7) << 3 | r & 7]);
    }
    /// `jmp [base + disp]`
    pub fn jmp_mem(&mut self, base: Gpr, disp: i32) {
        self.mem(&[0xff], 4, base, disp);
    }
    /// `jmp [index * 8 + table]`, `table` below 2 GiB.
    pub fn jmp_table8(&mut self, index: Gpr, table: i32) {
        debug_assert!(index != Gpr::Rsp);
        let i = index as u8;
        if i >= 8 {
            self.bytes(&[0x42]);
        }
        self.bytes(&[0xff, 0x24, 0xc5 | (i & 7) << 3]);
        self.imm32(table);
    }
    /// `cmp qword [rsp], imm32` (sign-extended)
    pub fn cmp_top_imm32(&mut self, imm: i32) {
        self.bytes(&[0x48, 0x81, 0x3c, 0x24]);
        self.imm32(imm);
    }
    /// `cmp r64, imm32` (sign-extended)
    pub fn cmp_imm32(&mut self, r: Gpr, imm: i32) {
        let r = r as u8;
        self.bytes(&[0x48 | r >> 3, 0x81, 0xf8 | r & 7]);
        self.imm32(imm);
    }
    /// `cmp a, b`
    pub fn cmp(&mut self, a: Gpr, b: Gpr) {
        let (a, b) = (a as u8, b as u8);
        self.bytes(&[0x48 | (b >> 3) << 2 | a >> 3, 0x39, 0xc0 | (b & 7) << 3 | a & 7]);
    }
    /// `cmp dword [rsp + disp8], imm32`
    pub fn cmp_top32(&mut self, disp: i8, imm: u32) {
        self.bytes(&[0x81, 0x7c, 0x24, disp as u8]);
        self.imm32(imm as i32);
    }
    /// `cmp [rsp], r64`
    pub fn cmp_top(&mut self, r: Gpr) {
        let r = r as u8;
        self.bytes(&[0x48 | (r >> 3) << 2, 0x39, (r & 7) << 3 | 4, 0x24]);
    }
    /// `push imm32` (sign-extended)
    pub fn push_imm32(&mut self, imm: i32) {
        self.bytes(&[0x68]);
        self.imm32(imm);
    }
    /// `mov dword [rsp + 4], imm32`
    pub fn store_top_high(&mut self, imm: u32) {
        self.bytes(&[0xc7, 0x44, 0x24, 0x04]);
        self.imm32(imm as i32);
    }
    /// `mov r64, imm64`
    pub fn mov_imm64(&mut self, r: Gpr, imm: u64) {
        let r = r as u8;
        self.bytes(&[0x48 | r >> 3, 0xb8 | r & 7]);
        self.bytes(&imm.to_le_bytes());
    }
    /// `mov r32, imm32` (upper half cleared)
    pub fn mov_imm32(&mut self, r: Gpr, imm: u32) {
        let r = r as u8;
        if r >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0xb8 | r & 7]);
        self.imm32(imm as i32);
    }
    /// `lahf`, then `seto al`: SF, ZF, AF, PF and CF in `ah`, OF in `al`.
    pub fn save_flags_rax(&mut self) {
        self.bytes(&[0x9f, 0x0f, 0x90, 0xc0]);
    }
    /// Undoes [`Asm::save_flags_rax`]: `add al, 0x7f`, then `sahf`.
    pub fn restore_flags_rax(&mut self) {
        self.bytes(&[0x04, 0x7f, 0x9e]);
    }
    /// `dec dword [disp32]`, absolute.
    pub fn dec_abs32(&mut self, disp: i32) {
        self.bytes(&[0xff, 0x0c, 0x25]);
        self.imm32(disp);
    }
    /// `jmp rel32` to `target`; returns the offset of the rel32 field. The field can be patched
    /// atomically.
    pub fn jmp(&mut self, target: u64) -> usize {
        self.align_field(1);
        self.bytes(&[0xe9]);
        self.rel32(target)
    }
    /// `jcc rel32` to `target`; returns the offset of the rel32 field, which can be patched
    /// atomically.
    pub fn jcc(&mut self, cc: u8, target: u64) -> usize {
        self.align_field(2);
        self.bytes(&[0x0f, 0x80 | cc]);
        self.rel32(target)
    }
    fn rel32(&mut self, target: u64) -> usize {
        let field = self.at;
        let rel = target.wrapping_sub(self.pc() + 4) as i64;
        debug_assert!(i32::try_from(rel).is_ok(), "branch out of reach");
        self.imm32(rel as i32);
        field
    }
    /// `jrcxz rel8` forward; bind with [`Asm::bind8`].
    pub fn jrcxz8(&mut self) -> usize {
        self.bytes(&[0xe3, 0]);
        self.at.saturating_sub(1)
    }
    /// `jcc rel8` forward; bind with [`Asm::bind8`].
    pub fn jcc8(&mut self, cc: u8) -> usize {
        self.bytes(&[0x70 | cc, 0]);
        self.at.saturating_sub(1)
    }
    /// `jmp rel8` forward; bind with [`Asm::bind8`].
    pub fn jmp8(&mut self) -> usize {
        self.bytes(&[0xeb, 0]);
        self.at.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Gpr::*;
    use super::*;

    fn emit(f: impl FnOnce(&mut Asm)) -> Vec<u8> {
        let mut buf = [0u8; 64];
        let mut a = Asm::new(&mut buf, 0x1000);
        f(&mut a);
        let n = a.len();
        buf[..n].to_vec()
    }

    #[test]
    fn each_form_has_its_encoding() {
        // Checked against an independent disassembler.
        assert_eq!(emit(|a| a.store_gs(0x10, Rcx)), [0x65, 0x48, 0x89, 0x0c, 0x25, 0x10, 0, 0, 0]);
        assert_eq!(emit(|a| a.load_gs(R9, 0x10)), [0x65, 0x4c, 0x8b, 0x0c, 0x25, 0x10, 0, 0, 0]);
        assert_eq!(emit(|a| a.inc_gs(8)), [0x65, 0x48, 0xff, 0x04, 0x25, 8, 0, 0, 0]);
        assert_eq!(emit(|a| a.add_gs_imm(8, 5)), [0x65, 0x48, 0x83, 0x04, 0x25, 8, 0, 0, 0, 5]);
        assert_eq!(
            emit(|a| a.cmp_gs_imm32(8, -1)),
            [0x65, 0x48, 0x81, 0x3c, 0x25, 8, 0, 0, 0, 255, 255, 255, 255]
        );
        assert_eq!(emit(|a| a.store(Rcx, 8, Rsp)), [0x48, 0x89, 0x61, 0x08]);
        assert_eq!(emit(|a| a.lea_sum(Rdx, Rdx, Rcx)), [0x48, 0x8d, 0x14, 0x0a]);
        assert_eq!(emit(|a| a.jmp_mem(Rcx, 16)), [0x48, 0xff, 0x61, 0x10]);
        assert_eq!(emit(|a| a.jmp_table8(Rcx, 0x100)), [0xff, 0x24, 0xcd, 0, 1, 0, 0]);
        assert_eq!(emit(|a| a.lea32(Rcx, Rcx, 7)), [0x8d, 0x89, 7, 0, 0, 0]);
        assert_eq!(emit(|a| a.lea32(R11, R11, 7)), [0x45, 0x8d, 0x9b, 7, 0, 0, 0]);
        assert_eq!(emit(|a| a.movzx_low16(R11)), [0x45, 0x0f, 0xb7, 0xdb]);
        assert_eq!(emit(|a| a.jmp_table8(R11, 0x100)), [0x42, 0xff, 0x24, 0xdd, 0, 1, 0, 0]);
        assert_eq!(emit(|a| a.jmp_mem(R11, 16)), [0x49, 0xff, 0x63, 0x10]);
        assert_eq!(emit(|a| a.cmp_top(Rdx)), [0x48, 0x39, 0x14, 0x24]);
        assert_eq!(emit(|a| a.sub(Rdx, Rcx)), [0x48, 0x29, 0xca]);
    }

    #[test]
    fn branch_fields_never_cross_eight_bytes() {
        for lead in 1..9 {
            let mut buf = [0u8; 64];
            let mut a = Asm::new(&mut buf, 0x1000);
            a.nop(lead);
            let field = a.jcc(cc::NE, 0x1000);
            assert!((0x1000 + field) % 8 <= 4);
            let rel = i32::from_le_bytes(buf[field..field + 4].try_into().unwrap());
            assert_eq!(0x1000 + field as i64 + 4 + rel as i64, 0x1000);
        }
    }

    #[test]
    fn writing_past_the_end_is_noticed() {
        let mut buf = [0u8; 4];
        let mut a = Asm::new(&mut buf, 0);
        a.bytes(&[1, 2, 3]);
        assert!(!a.overflow);
        a.bytes(&[4, 5]);
        assert!(a.overflow);
    }
}
