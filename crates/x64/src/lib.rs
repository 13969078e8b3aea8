//! Temporary decoder over iced.
#![cfg_attr(not(test), no_std)]
pub mod asm;
use iced_x86::{
    Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpKind, Register, RflagsBits,
};
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    Truncated,
    TooLong,
    Invalid,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Legacy,
    Vex,
    Evex,
    Xop,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Jmp,
    Jcc,
    Loop,
    JmpInd,
    Call,
    CallInd,
    Ret,
    FarTransfer,
    Syscall,
    Sysenter,
    Int3,
    Int,
    Ud,
    Privileged,
    StringOp,
    Xbegin,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);
impl Flags {
    pub const ALL_ARITH: Flags = Flags(
        RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF,
    );
    pub fn intersects(self, o: Flags) -> bool {
        self.0 & o.0 != 0
    }
    pub fn without(self, o: Flags) -> Flags {
        Flags(self.0 & !o.0)
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn union(self, o: Flags) -> Flags {
        Flags(self.0 | o.0)
    }
    pub fn arith(self) -> Flags {
        Flags(self.0 & Self::ALL_ARITH.0)
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes(pub u8);
impl Prefixes {
    pub fn opsize(self) -> bool {
        self.0 & 1 != 0
    }
    pub fn addrsize(self) -> bool {
        self.0 & 2 != 0
    }
    pub fn rep(self) -> bool {
        self.0 & 4 != 0
    }
    pub fn repne(self) -> bool {
        self.0 & 8 != 0
    }
    pub fn lock(self) -> bool {
        self.0 & 16 != 0
    }
    pub fn seg_fs(self) -> bool {
        self.0 & 32 != 0
    }
    pub fn seg_gs(self) -> bool {
        self.0 & 64 != 0
    }
}
#[derive(Clone, Copy, Debug)]
pub struct Insn {
    pub len: u8,
    pub kind: Kind,
    pub enc: Encoding,
    pub map: u8,
    pub opcode: u8,
    pub prefixes: Prefixes,
    pub rex: u8,
    pub vvvv: u8,
    pub has_modrm: bool,
    pub modrm: u8,
    pub modrm_off: u8,
    pub prefix_len: u8,
    pub disp: i32,
    pub disp_off: u8,
    pub imm: i64,
    pub flags_read: Flags,
    pub flags_written: Flags,
    rip: bool,
    mem: bool,
    ends: bool,
}
impl Insn {
    pub fn is_rip_relative(&self) -> bool {
        self.rip
    }
    pub fn mem_operand_modrm(&self) -> bool {
        self.mem
    }
    pub fn target(&self, pc: u64) -> u64 {
        pc.wrapping_add(self.len as u64).wrapping_add(self.imm as u64)
    }
    pub fn cc(&self) -> u8 {
        self.opcode & 15
    }
    pub fn ends_block(&self) -> bool {
        self.ends
    }
}
pub fn decode(bytes: &[u8]) -> Result<Insn, DecodeError> {
    let mut d = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut i = Instruction::default();
    d.decode_out(&mut i);
    if i.is_invalid() {
        return Err(match d.last_error() {
            iced_x86::DecoderError::NoMoreBytes => DecodeError::Truncated,
            _ => DecodeError::Invalid,
        });
    }
    let co = d.get_constant_offsets(&i);
    let len = i.len();
    let mut p = 0;
    let mut pre = 0u8;
    let mut rex = 0u8;
    loop {
        let b = bytes[p];
        match b {
            0x66 => pre |= 1,
            0x67 => pre |= 2,
            0xf3 => {
                pre |= 4;
                pre &= !8
            }
            0xf2 => {
                pre |= 8;
                pre &= !4
            }
            0xf0 => pre |= 16,
            0x64 => {
                pre |= 32;
                pre &= !64
            }
            0x65 => {
                pre |= 64;
                pre &= !32
            }
            0x2e | 0x36 | 0x3e | 0x26 => {}
            _ => break,
        }
        p += 1;
    }
    let enc = match i.encoding() {
        EncodingKind::VEX => Encoding::Vex,
        EncodingKind::EVEX => Encoding::Evex,
        EncodingKind::XOP => Encoding::Xop,
        _ => Encoding::Legacy,
    };
    let mut map = 0;
    let mut opcode = 0;
    let mut vvvv = 0;
    if enc == Encoding::Legacy {
        if bytes[p] & 0xf0 == 0x40 {
            rex = bytes[p];
            p += 1;
        }
        if bytes[p] == 0x0f {
            map = 1;
            opcode = *bytes.get(p + 1).unwrap_or(&0);
        } else {
            opcode = bytes[p];
        }
    } else if enc == Encoding::Vex {
        if bytes[p] == 0xc4 {
            vvvv = (!bytes[p + 2] >> 3) & 15;
            rex = 0x40 | ((!bytes[p + 1] >> 7) & 1) << 2;
            opcode = bytes[p + 3]
        } else {
            vvvv = (!bytes[p + 1] >> 3) & 15;
            rex = 0x40 | ((!bytes[p + 1] >> 7) & 1) << 2;
            opcode = bytes[p + 2]
        }
    } else {
        vvvv = (!bytes[p + 2] >> 3) & 15;
        rex = 0x40 | ((!bytes[p + 1] >> 7) & 1) << 2;
    }
    let rip = i.is_ip_rel_memory_operand();
    let mem = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    // position of modrm: opcode based for call/jmp ind; for rip: disp offset-1
    let modrm_off = if rip { co.displacement_offset() - 1 } else { p + 1 };
    let mut f = InstructionInfoFactory::new();
    let _ = f.info(&i);
    let fr = i.rflags_read();
    let mut fw = i.rflags_modified();
    if matches!(
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
    ) {
        let n = i.op_count() - 1;
        if i.op_kind(n) == OpKind::Register || i.immediate(n) & 0x1f == 0 {
            fw = 0;
        }
    }
    if i.has_rep_prefix() || i.has_repne_prefix() {
        fw = 0;
    }
    let kind = match i.flow_control() {
        FlowControl::UnconditionalBranch => {
            if i.is_jmp_short_or_near() {
                Kind::Jmp
            } else {
                Kind::FarTransfer
            }
        }
        FlowControl::IndirectBranch => {
            if i.is_jmp_near_indirect() {
                Kind::JmpInd
            } else {
                Kind::FarTransfer
            }
        }
        FlowControl::ConditionalBranch => {
            if i.is_jcc_short_or_near() {
                Kind::Jcc
            } else {
                Kind::Loop
            }
        }
        FlowControl::Return => {
            if matches!(i.mnemonic(), Mnemonic::Ret) {
                Kind::Ret
            } else {
                Kind::FarTransfer
            }
        }
        FlowControl::Call => {
            if i.is_call_near() {
                Kind::Call
            } else if matches!(i.code(), Code::Syscall) {
                Kind::Syscall
            } else {
                Kind::FarTransfer
            }
        }
        FlowControl::IndirectCall => {
            if i.is_call_near_indirect() {
                Kind::CallInd
            } else {
                Kind::FarTransfer
            }
        }
        FlowControl::Interrupt => {
            if matches!(i.code(), Code::Int3) {
                Kind::Int3
            } else {
                Kind::Int
            }
        }
        FlowControl::XbeginXabortXend => {
            if i.mnemonic() == Mnemonic::Xbegin {
                Kind::Xbegin
            } else {
                Kind::Plain
            }
        }
        FlowControl::Exception => Kind::Ud,
        FlowControl::Next => {
            if i.is_string_instruction() {
                Kind::StringOp
            } else {
                Kind::Plain
            }
        }
    };
    let mut imm = 0;
    if matches!(kind, Kind::Jmp | Kind::Jcc | Kind::Loop | Kind::Call | Kind::Xbegin) {
        imm = i.near_branch_target().wrapping_sub(len as u64) as i64
    } else if kind == Kind::Ret && i.op_count() > 0 {
        imm = i.immediate16() as i64
    }
    if kind == Kind::Xbegin {
        imm = bytes[len - 4..len].iter().rev().fold(0i64, |a, &b| a << 8 | b as i64) as i32 as i64
    }
    let disp = if rip {
        i32::from_le_bytes(bytes[co.displacement_offset()..co.displacement_offset() + 4].try_into().unwrap())
    } else {
        0
    };
    let _ = Register::None;
    Ok(Insn {
        len: len as u8,
        kind,
        enc,
        map,
        opcode,
        prefixes: Prefixes(pre),
        rex,
        vvvv,
        has_modrm: true,
        modrm: *bytes.get(modrm_off).unwrap_or(&0),
        modrm_off: modrm_off as u8,
        prefix_len: p as u8,
        disp,
        disp_off: co.displacement_offset() as u8,
        imm,
        flags_read: Flags(fr),
        flags_written: Flags(fw),
        rip,
        mem,
        ends: !matches!(kind, Kind::Plain | Kind::StringOp),
    })
}
