//! One instruction, decoded.

use iced_x86::{
    Code, Decoder, DecoderError, DecoderOptions, EncodingKind, FlowControl, Instruction, Mnemonic, OpKind,
    RflagsBits,
};

/// Why bytes are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// More bytes could make one.
    Truncated,
    /// No instruction begins so.
    Invalid,
}

/// Form of an instruction's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Prefix bytes and REX.
    Legacy,
    /// VEX.
    Vex,
    /// EVEX.
    Evex,
    /// XOP.
    Xop,
}

/// What an instruction means for the flow of control and for the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None of the others.
    Plain,
    /// Direct jump.
    Jmp,
    /// Conditional jump.
    Jcc,
    /// `loop`, `loope`, `loopne`, `jrcxz`.
    Loop,
    /// Indirect near jump.
    JmpInd,
    /// Direct call.
    Call,
    /// Indirect near call.
    CallInd,
    /// Near return.
    Ret,
    /// Far jump, call or return, and others that leave the flat code segment.
    FarTransfer,
    /// `syscall`.
    Syscall,
    /// `int3`.
    Int3,
    /// Other software interrupts.
    Int,
    /// An instruction defined to fault.
    Ud,
    /// String instruction, with or without a repeat prefix.
    StringOp,
    /// `xbegin`.
    Xbegin,
}

/// A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// OF, SF, ZF, AF, CF and PF.
    pub const ALL_ARITH: Flags = Flags(
        RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF,
    );

    /// True when the sets have a flag in common.
    pub fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The flags that the other set does not have.
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// True for no flag.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The flags of both.
    pub fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The arithmetic flags alone.
    pub fn arith(self) -> Flags {
        Flags(self.0 & Self::ALL_ARITH.0)
    }
}

const OPSIZE: u8 = 1;
const ADDRSIZE: u8 = 2;
const REP: u8 = 4;
const REPNE: u8 = 8;
const LOCK: u8 = 16;
const FS: u8 = 32;
const GS: u8 = 64;

/// Legacy prefixes; of segment and of repeat prefixes the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(u8);

impl Prefixes {
    /// `66`
    pub fn opsize(self) -> bool {
        self.0 & OPSIZE != 0
    }
    /// `67`
    pub fn addrsize(self) -> bool {
        self.0 & ADDRSIZE != 0
    }
    /// `f3`
    pub fn rep(self) -> bool {
        self.0 & REP != 0
    }
    /// `f2`
    pub fn repne(self) -> bool {
        self.0 & REPNE != 0
    }
    /// `f0`
    pub fn lock(self) -> bool {
        self.0 & LOCK != 0
    }
    /// `64`
    pub fn seg_fs(self) -> bool {
        self.0 & FS != 0
    }
    /// `65`
    pub fn seg_gs(self) -> bool {
        self.0 & GS != 0
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct Insn {
    /// Length in bytes.
    pub len: u8,
    /// What it means.
    pub kind: Kind,
    /// Form of its prefix.
    pub enc: Encoding,
    /// Opcode byte of legacy instructions (the second one after `0f`); 0 in other forms.
    pub opcode: u8,
    /// Legacy prefixes.
    pub prefixes: Prefixes,
    /// REX byte, or 0; for other forms a byte whose bit 2 extends the reg field likewise.
    pub rex: u8,
    /// Register named by VEX.vvvv and the like, 0 where there is none.
    pub vvvv: u8,
    /// The ModRM byte, where the instruction has a `rip` operand or is an indirect branch.
    pub modrm: u8,
    /// Offset of that byte.
    pub modrm_off: u8,
    /// Offset of the opcode (after REX) or of the VEX, EVEX or XOP prefix.
    pub prefix_len: u8,
    /// Displacement of a `rip` operand.
    pub disp: i32,
    /// Offset of that displacement.
    pub disp_off: u8,
    /// Distance of a direct branch from the next instruction; bytes that a return pops besides.
    pub imm: i64,
    /// Flags read.
    pub flags_read: Flags,
    /// Flags that are always overwritten.
    pub flags_written: Flags,
    rip_operand: bool,
    memory_operand: bool,
}

impl Insn {
    /// It has an operand relative to the next instruction's address.
    pub fn is_rip_relative(&self) -> bool {
        self.rip_operand
    }
    /// It has a memory operand that a ModRM byte names.
    pub fn mem_operand_modrm(&self) -> bool {
        self.memory_operand
    }
    /// Target of a direct branch at `pc`.
    pub fn target(&self, pc: u64) -> u64 {
        pc.wrapping_add(self.len as u64).wrapping_add(self.imm as u64)
    }
    /// Condition code of a conditional jump.
    pub fn cc(&self) -> u8 {
        self.opcode & 15
    }
    /// Nothing after it belongs to the same block.
    pub fn ends_block(&self) -> bool {
        !matches!(self.kind, Kind::Plain | Kind::StringOp)
    }
}

fn legacy_prefixes(bytes: &[u8]) -> (Prefixes, usize) {
    let mut set = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            0x66 => set |= OPSIZE,
            0x67 => set |= ADDRSIZE,
            0xf3 => set = set & !REPNE | REP,
            0xf2 => set = set & !REP | REPNE,
            0xf0 => set |= LOCK,
            0x64 => set = set & !GS | FS,
            0x65 => set = set & !FS | GS,
            0x26 | 0x2e | 0x36 | 0x3e => {}
            _ => return (Prefixes(set), at),
        }
    }
    (Prefixes(set), bytes.len())
}

fn kind_of(i: &Instruction) -> Kind {
    match i.flow_control() {
        FlowControl::Next if i.is_string_instruction() => Kind::StringOp,
        FlowControl::Next => Kind::Plain,
        FlowControl::UnconditionalBranch if i.is_jmp_short_or_near() => Kind::Jmp,
        FlowControl::IndirectBranch if i.is_jmp_near_indirect() => Kind::JmpInd,
        FlowControl::ConditionalBranch if i.is_jcc_short_or_near() => Kind::Jcc,
        FlowControl::ConditionalBranch => Kind::Loop,
        FlowControl::Return if i.mnemonic() == Mnemonic::Ret => Kind::Ret,
        FlowControl::Call if i.is_call_near() => Kind::Call,
        FlowControl::Call if i.code() == Code::Syscall => Kind::Syscall,
        FlowControl::IndirectCall if i.is_call_near_indirect() => Kind::CallInd,
        FlowControl::Interrupt if i.code() == Code::Int3 => Kind::Int3,
        FlowControl::Interrupt => Kind::Int,
        FlowControl::XbeginXabortXend if i.mnemonic() == Mnemonic::Xbegin => Kind::Xbegin,
        FlowControl::XbeginXabortXend => Kind::Plain,
        FlowControl::Exception => Kind::Ud,
        _ => Kind::FarTransfer,
    }
}

/// Flags that are overwritten whatever the operands hold: a shift by a count of zero leaves them alone, and
/// so does a repeated instruction without iterations.
fn always_written(i: &Instruction) -> u32 {
    let shift = matches!(
        i.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    );
    let count = i.op_count().wrapping_sub(1);
    if shift && (i.op_kind(count) == OpKind::Register || i.immediate(count) & 0x1f == 0) {
        return 0;
    }
    if i.has_rep_prefix() || i.has_repne_prefix() {
        return 0;
    }
    i.rflags_modified()
}

/// Decodes the instruction at the start of `bytes` (up to 15 of them), in 64-bit mode.
pub fn decode(bytes: &[u8]) -> Result<Insn, DecodeError> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut i = Instruction::default();
    decoder.decode_out(&mut i);
    if i.is_invalid() {
        return Err(match decoder.last_error() {
            DecoderError::NoMoreBytes => DecodeError::Truncated,
            _ => DecodeError::Invalid,
        });
    }
    let len = i.len();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let (prefixes, mut at) = legacy_prefixes(bytes);
    let enc = match i.encoding() {
        EncodingKind::VEX => Encoding::Vex,
        EncodingKind::EVEX => Encoding::Evex,
        EncodingKind::XOP => Encoding::Xop,
        _ => Encoding::Legacy,
    };
    let (mut rex, mut opcode, mut vvvv) = (0, 0, 0);
    if enc == Encoding::Legacy {
        if byte(at) & 0xf0 == 0x40 {
            rex = byte(at);
            at += 1;
        }
        opcode = if byte(at) == 0x0f { byte(at + 1) } else { byte(at) };
    } else {
        // R and vvvv are stored inverted; the two-byte VEX form has both in its second byte.
        let short = enc == Encoding::Vex && byte(at) == 0xc5;
        rex = 0x40 | (!byte(at + 1) >> 7) << 2;
        vvvv = (!byte(at + if short { 1 } else { 2 }) >> 3) & 15;
    }
    let rip_operand = i.is_ip_rel_memory_operand();
    let disp_off = if rip_operand { decoder.get_constant_offsets(&i).displacement_offset() } else { 0 };
    let modrm_off = if rip_operand { disp_off - 1 } else { at + 1 };
    let kind = kind_of(&i);
    let imm = match kind {
        Kind::Jmp | Kind::Jcc | Kind::Loop | Kind::Call => {
            i.near_branch_target().wrapping_sub(len as u64) as i64
        }
        Kind::Xbegin if prefixes.opsize() => i16::from_le_bytes([byte(len - 2), byte(len - 1)]) as i64,
        Kind::Xbegin => {
            i32::from_le_bytes([byte(len - 4), byte(len - 3), byte(len - 2), byte(len - 1)]) as i64
        }
        Kind::Ret if i.op_count() > 0 => i.immediate16() as i64,
        _ => 0,
    };
    let disp = if rip_operand {
        i32::from_le_bytes([byte(disp_off), byte(disp_off + 1), byte(disp_off + 2), byte(disp_off + 3)])
    } else {
        0
    };
    Ok(Insn {
        len: len as u8,
        kind,
        enc,
        opcode,
        prefixes,
        rex,
        vvvv,
        modrm: byte(modrm_off),
        modrm_off: modrm_off as u8,
        prefix_len: at as u8,
        disp,
        disp_off: disp_off as u8,
        imm,
        flags_read: Flags(i.rflags_read()),
        flags_written: Flags(always_written(&i)),
        rip_operand,
        memory_operand: (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Insn {
        decode(bytes).unwrap_or_else(|e| panic!("{bytes:02x?}: {e:?}"))
    }

    #[test]
    fn branches_know_their_targets() {
        for (bytes, kind, target) in [
            (&[0xeb, 0xfe][..], Kind::Jmp, 0x1000),
            (&[0xe8, 1, 0, 0, 0], Kind::Call, 0x1006),
            (&[0x0f, 0x85, 0xfa, 0xff, 0xff, 0xff], Kind::Jcc, 0x1000),
            (&[0x74, 0x02], Kind::Jcc, 0x1004),
            (&[0xe3, 0x00], Kind::Loop, 0x1002),
            (&[0xc7, 0xf8, 2, 0, 0, 0], Kind::Xbegin, 0x1008),
        ] {
            let i = one(bytes);
            assert_eq!(
                (i.kind, i.target(0x1000), i.len as usize),
                (kind, target, bytes.len()),
                "{bytes:02x?}"
            );
        }
        assert_eq!(one(&[0x75, 0]).cc(), 5);
        assert_eq!(one(&[0x0f, 0x82, 0, 0, 0, 0]).cc(), 2);
        assert_eq!(one(&[0xc2, 0x10, 0x00]).imm, 16);
    }

    #[test]
    fn what_ends_a_block_is_told_from_what_does_not() {
        for bytes in
            [&[0xc3][..], &[0xff, 0xe0], &[0xff, 0x15, 0, 0, 0, 0], &[0x0f, 0x05], &[0xcc], &[0x0f, 0x0b]]
        {
            assert!(one(bytes).ends_block(), "{bytes:02x?}");
        }
        for bytes in [&[0x90][..], &[0xf3, 0xa4], &[0x0f, 0xa2], &[0x0f, 0x31], &[0xf3, 0x0f, 0x1e, 0xfa]] {
            assert!(!one(bytes).ends_block(), "{bytes:02x?}");
        }
    }

    #[test]
    fn rip_operands_are_found() {
        // mov rax, [rip + 0x11]; cmp dword [rip + 0x22], 7; vmovups ymm9, [rip + 0x33]
        for (bytes, disp, off, modrm) in [
            (&[0x48, 0x8b, 0x05, 0x11, 0, 0, 0][..], 0x11, 3, 2),
            (&[0x83, 0x3d, 0x22, 0, 0, 0, 7], 0x22, 2, 1),
            (&[0xc5, 0x7c, 0x10, 0x0d, 0x33, 0, 0, 0], 0x33, 4, 3),
        ] {
            let i = one(bytes);
            assert!(i.is_rip_relative() && i.mem_operand_modrm());
            assert_eq!((i.disp, i.disp_off, i.modrm_off), (disp, off, modrm), "{bytes:02x?}");
        }
        assert!(!one(&[0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]).is_rip_relative());
    }

    #[test]
    fn flags_are_killed_only_when_they_are_always_written() {
        let kills = |bytes: &[u8]| Flags::ALL_ARITH.without(one(bytes).flags_written).is_empty();
        assert!(kills(&[0x01, 0xd8])); // add
        assert!(kills(&[0x31, 0xc0])); // xor
        assert!(!kills(&[0xff, 0xc0])); // inc leaves CF
        assert!(!kills(&[0xd3, 0xe0])); // shl by cl may leave all
        assert!(!kills(&[0xc1, 0xe0, 0x00])); // by zero
        assert!(!kills(&[0xf3, 0xa6])); // repe cmpsb may run no iteration
        assert!(!kills(&[0x89, 0xc3])); // mov
        assert!(one(&[0x83, 0xd0, 0x00]).flags_read.intersects(Flags::ALL_ARITH)); // adc
    }

    #[test]
    fn too_few_bytes_are_told_from_nonsense() {
        assert_eq!(decode(&[0x48]).err(), Some(DecodeError::Truncated));
        assert_eq!(decode(&[0xe8, 1, 2]).err(), Some(DecodeError::Truncated));
        assert_eq!(decode(&[0x06; 15]).err(), Some(DecodeError::Invalid));
    }
}
