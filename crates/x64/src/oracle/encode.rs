//! Encodings to ask the oracle about.

/// Forms of prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    Legacy,
    Vex,
    Evex,
    Xop,
}

/// The fields of an encoding. What a form does not have is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    pub space: Space,
    pub map: u8,
    pub opcode: u8,
    /// Mandatory prefix of a vector form.
    pub pp: u8,
    pub has_modrm: bool,
    pub opsize: bool,
    /// 0 none, 1 F3, 2 F2.
    pub repeat: u8,
    pub narrow: bool,
    pub lock: bool,
    pub wide: bool,
    pub length: u8,
    pub broadcast: bool,
    pub mode: u8,
    pub reg: u8,
    pub rm: u8,
    pub sib: u8,
    /// Bits 3 of reg, index, and base or rm.
    pub r: bool,
    pub x: bool,
    pub b: bool,
    /// Bit 4 of reg.
    pub r_high: bool,
    /// Five bits in EVEX.
    pub vvvv: u8,
    pub mask: u8,
    pub zeroing: bool,
    /// First byte of the immediate; zeros follow.
    pub imm: u8,
}

impl Fields {
    /// The plainest encoding of an opcode.
    pub fn new(space: Space, map: u8, opcode: u8) -> Fields {
        Fields {
            space,
            map,
            opcode,
            pp: 0,
            has_modrm: has_modrm(space, map, opcode),
            opsize: false,
            repeat: 0,
            narrow: false,
            lock: false,
            wide: false,
            length: 0,
            broadcast: false,
            mode: 3,
            reg: 0,
            rm: 0,
            sib: 0,
            r: false,
            x: false,
            b: false,
            r_high: false,
            vvvv: 0,
            mask: 0,
            zeroing: false,
            imm: 0x0d,
        }
    }

    pub fn is_memory(&self) -> bool {
        self.has_modrm && self.mode != 3
    }

    pub fn has_sib(&self) -> bool {
        self.is_memory() && self.rm == 4
    }

    pub fn is_rip(&self) -> bool {
        self.is_memory() && self.mode == 0 && self.rm == 5
    }

    /// Number in ModRM.reg.
    pub fn reg_number(&self) -> u8 {
        let high = self.space == Space::Evex && self.r_high;
        self.reg | (self.r as u8) << 3 | (high as u8) << 4
    }

    /// Number of the vector register in ModRM.rm.
    pub fn rm_number(&self) -> u8 {
        let high = self.space == Space::Evex && self.x;
        self.rm | (self.b as u8) << 3 | (high as u8) << 4
    }

    /// Number of the vector register in SIB.index.
    pub fn index_number(&self) -> u8 {
        self.sib >> 3 & 7 | (self.x as u8) << 3 | self.vvvv & 0x10
    }

    /// The bytes, filled up to fifteen, and where ModRM ends.
    pub fn bytes(&self) -> ([u8; 15], usize) {
        let mut out = Vec::with_capacity(24);
        if self.narrow {
            out.push(0x67);
        }
        if self.lock {
            out.push(0xf0);
        }
        let (w, r, x, b) = (self.wide as u8, self.r as u8, self.x as u8, self.b as u8);
        match self.space {
            Space::Legacy => {
                if self.opsize {
                    out.push(0x66);
                }
                match self.repeat {
                    1 => out.push(0xf3),
                    2 => out.push(0xf2),
                    _ => {}
                }
                if w | r | x | b != 0 {
                    out.push(0x40 | w << 3 | r << 2 | x << 1 | b);
                }
                match self.map {
                    0 => {}
                    1 => out.push(0x0f),
                    2 => out.extend([0x0f, 0x38]),
                    _ => out.extend([0x0f, 0x3a]),
                }
            }
            Space::Vex | Space::Xop => {
                out.push(if self.space == Space::Vex { 0xc4 } else { 0x8f });
                out.push((!(r << 2 | x << 1 | b) & 7) << 5 | self.map);
                out.push(w << 7 | (!self.vvvv & 15) << 3 | (self.length & 1) << 2 | self.pp);
            }
            Space::Evex => {
                let r_high = self.r_high as u8;
                out.push(0x62);
                out.push((!(r << 2 | x << 1 | b) & 7) << 5 | (1 - r_high) << 4 | self.map);
                out.push(w << 7 | (!self.vvvv & 15) << 3 | 4 | self.pp);
                let flags = (self.zeroing as u8) << 7 | self.length << 5 | (self.broadcast as u8) << 4;
                out.push(flags | (!self.vvvv & 0x10) >> 1 | self.mask);
            }
        }
        out.push(self.opcode);
        if self.has_modrm {
            out.push(self.mode << 6 | self.reg << 3 | self.rm);
        }
        let end = out.len();
        if self.has_sib() {
            out.push(self.sib);
        }
        let displacement = match self.mode {
            _ if !self.is_memory() => 0,
            1 => 1,
            2 => 4,
            0 if self.is_rip() || self.has_sib() && self.sib & 7 == 5 => 4,
            _ => 0,
        };
        if displacement > 0 {
            out.push(1);
            out.resize(out.len() + displacement - 1, 0);
        }
        out.push(self.imm);
        out.resize(15, 0);
        (out.try_into().unwrap(), end)
    }

    /// Bytes of SIB and displacement.
    pub fn address_len(&self) -> usize {
        let displacement = match self.mode {
            1 => 1,
            2 => 4,
            0 if self.is_rip() || self.has_sib() && self.sib & 7 == 5 => 4,
            _ => 0,
        };
        if self.is_memory() { self.has_sib() as usize + displacement } else { 0 }
    }
}

/// ModRM follows the opcode: from the opcode maps of the processor manuals.
pub fn has_modrm(space: Space, map: u8, opcode: u8) -> bool {
    match (space, map) {
        (Space::Vex, 1) => opcode != 0x77,
        (Space::Legacy, 0) => match opcode {
            0x00..=0x3f => opcode & 7 < 4,
            0x62 | 0x63 | 0x69 | 0x6b | 0x80..=0x8f | 0xc0 | 0xc1 | 0xc4..=0xc7 => true,
            0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => true,
            _ => false,
        },
        (Space::Legacy, 1) => !matches!(
            opcode,
            0x04..=0x0c | 0x0e | 0x30..=0x3f | 0x77 | 0x80..=0x8f | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf
        ),
        _ => true,
    }
}
