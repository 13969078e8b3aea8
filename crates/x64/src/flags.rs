//! Which arithmetic flags an instruction reads and writes.
//!
//! Flags live at their `rflags` positions, so a [`Flags`] is also a mask for a saved `rflags`. Every
//! opcode names a [`Rule`]; most rules are three constant sets, a few depend on the condition code,
//! on a shift count or on a repeat prefix.

use crate::insn::Prefixes;

/// A set of flags, at their positions in `rflags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(u16);

impl Flags {
    /// No flag.
    pub const EMPTY: Flags = Flags(0);
    /// Carry.
    pub const CF: Flags = Flags(1 << 0);
    /// Parity.
    pub const PF: Flags = Flags(1 << 2);
    /// Auxiliary carry.
    pub const AF: Flags = Flags(1 << 4);
    /// Zero.
    pub const ZF: Flags = Flags(1 << 6);
    /// Sign.
    pub const SF: Flags = Flags(1 << 7);
    /// Direction of string instructions.
    pub const DF: Flags = Flags(1 << 10);
    /// Overflow.
    pub const OF: Flags = Flags(1 << 11);
    /// The six flags arithmetic sets: all but [`Flags::DF`].
    pub const ALL_ARITH: Flags = Flags(0b1000_1101_0101);

    /// The set whose `rflags` mask is `bits`; other bits than the seven flags are dropped.
    pub const fn from_bits(bits: u16) -> Flags {
        Flags(bits & (Self::ALL_ARITH.0 | Self::DF.0))
    }

    /// The mask in `rflags`.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// True when no flag is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Flags in either set.
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Flags in both sets.
    pub const fn intersection(self, other: Flags) -> Flags {
        Flags(self.0 & other.0)
    }

    /// Flags in this set and not in `other`.
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// True when every flag of `other` is in this set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when the sets share a flag.
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The arithmetic flags of the set: without [`Flags::DF`].
    pub const fn arith(self) -> Flags {
        self.intersection(Self::ALL_ARITH)
    }
}

impl core::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        self.union(other)
    }
}

/// What one instruction does to the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Looked at.
    pub read: Flags,
    /// Overwritten whatever the operands are.
    pub written: Flags,
    /// Overwritten for some operands.
    pub may_write: Flags,
}

/// How an opcode treats the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rule {
    /// Not at all.
    None,
    /// Sets all six: add, and, cmp, comiss, mul, popcnt ...
    All,
    /// Sets all six and needs the carry: adc, sbb.
    AllWithCarry,
    /// inc, dec: all but the carry.
    AllButCarry,
    /// bt and its kin: all but the zero flag.
    AllButZero,
    /// Sets the carry and leaves the overflow flag undefined: rotations by one.
    Rotate,
    /// The same through the carry: rcl, rcr by one.
    RotateCarry,
    /// Sets the zero flag alone: cmpxchg8b, lar, verr ...
    Zero,
    /// Sets zero, parity and carry, and clears the others as far as the manual can be trusted: fcomi.
    ZeroParityCarry,
    /// clc, stc.
    Carry,
    /// cmc, adcx.
    CarryToCarry,
    /// adox.
    OverflowToOverflow,
    /// cld, std.
    Direction,
    /// String instructions that compare nothing.
    ReadDirection,
    /// lahf.
    ReadLow,
    /// sahf.
    WriteLow,
    /// pushf, and whatever hands the flags to someone else: syscall, int.
    ReadAll,
    /// popf, iret.
    WriteAll,
    /// Unknown: everything may be read and written.
    Anything,
    /// loope, loopne, fcmove.
    ReadZero,
    /// fcmovb.
    ReadCarry,
    /// fcmovbe.
    ReadCarryZero,
    /// fcmovu.
    ReadParity,
    /// jcc, setcc, cmovcc: by the low four bits of the opcode. The first rule that isn't constant.
    Condition,
    /// cmps, scas: nothing is compared when a repeat prefix meets a zero count.
    Compare,
    /// Shift by an immediate that may be zero.
    ShiftImm,
    /// rol, ror by an immediate.
    RotateImm,
    /// rcl, rcr by an immediate.
    RotateCarryImm,
    /// Shift by `cl`.
    ShiftCl,
    /// rol, ror by `cl`.
    RotateCl,
    /// rcl, rcr by `cl`.
    RotateCarryCl,
}

const fn effect(read: Flags, written: Flags) -> Effect {
    Effect { read, written, may_write: written }
}

const EMPTY: Flags = Flags::EMPTY;
const ALL: Flags = Flags::ALL_ARITH;
const CF: Flags = Flags::CF;
const ZF: Flags = Flags::ZF;
const PF: Flags = Flags::PF;
const OF: Flags = Flags::OF;
const DF: Flags = Flags::DF;
const CF_OF: Flags = CF.union(OF);
const LOW: Flags = ALL.without(OF);
const EVERY: Flags = ALL.union(DF);

/// Effects of the constant rules, by discriminant.
static CONSTANT: [Effect; Rule::Condition as usize] = [
    effect(EMPTY, EMPTY),
    effect(EMPTY, ALL),
    effect(CF, ALL),
    effect(EMPTY, ALL.without(CF)),
    effect(EMPTY, ALL.without(ZF)),
    effect(EMPTY, CF_OF),
    effect(CF, CF_OF),
    effect(EMPTY, ZF),
    Effect { read: EMPTY, written: ZF.union(PF).union(CF), may_write: ALL },
    effect(EMPTY, CF),
    effect(CF, CF),
    effect(OF, OF),
    effect(EMPTY, DF),
    effect(DF, EMPTY),
    effect(LOW, EMPTY),
    effect(EMPTY, LOW),
    effect(EVERY, EMPTY),
    effect(EMPTY, EVERY),
    Effect { read: EVERY, written: EMPTY, may_write: EVERY },
    effect(ZF, EMPTY),
    effect(CF, EMPTY),
    effect(CF.union(ZF), EMPTY),
    effect(PF, EMPTY),
];

/// Flags that condition code `cc` looks at.
pub(crate) const fn condition(cc: u8) -> Flags {
    match (cc >> 1) & 7 {
        0 => OF,
        1 => CF,
        2 => ZF,
        3 => CF.union(ZF),
        4 => Flags::SF,
        5 => PF,
        6 => Flags::SF.union(OF),
        _ => Flags::SF.union(OF).union(ZF),
    }
}

impl Rule {
    /// The effect for one instruction; `wide` when its operand has 64 bits.
    #[inline]
    pub(crate) fn effect(self, opcode: u8, imm: i64, wide: bool, prefixes: Prefixes) -> Effect {
        match CONSTANT.get(self as usize) {
            Some(effect) => *effect,
            None => self.varying(opcode, imm, wide, prefixes),
        }
    }

    fn varying(self, opcode: u8, imm: i64, wide: bool, prefixes: Prefixes) -> Effect {
        let (read, may_write) = match self {
            Rule::Condition => return effect(condition(opcode), EMPTY),
            Rule::Compare => (DF, ALL),
            Rule::RotateImm | Rule::RotateCl => (EMPTY, CF_OF),
            Rule::RotateCarryImm | Rule::RotateCarryCl => (CF, CF_OF),
            _ => (EMPTY, ALL),
        };
        let always = match self {
            Rule::Compare => !prefixes.rep() && !prefixes.repne(),
            Rule::ShiftImm | Rule::RotateImm | Rule::RotateCarryImm => {
                let mut count = imm & if wide { 63 } else { 31 };
                if self == Rule::RotateCarryImm && opcode == 0xc0 {
                    count %= 9;
                } else if self == Rule::RotateCarryImm && prefixes.opsize() && !wide {
                    count %= 17;
                }
                if count == 0 {
                    return effect(EMPTY, EMPTY);
                }
                true
            }
            _ => false,
        };
        Effect { read, written: if always { may_write } else { EMPTY }, may_write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_flags_are_the_six() {
        let six = CF | PF | Flags::AF | ZF | Flags::SF | OF;
        assert_eq!(Flags::ALL_ARITH, six);
        assert!(!Flags::ALL_ARITH.intersects(DF));
    }

    #[test]
    fn rule_order_matches_the_table_of_constant_effects() {
        let effect = |rule: Rule| rule.effect(0, 0, false, Prefixes::default());
        assert_eq!(effect(Rule::AllWithCarry).read, CF);
        assert_eq!(effect(Rule::AllButCarry).written, ALL.without(CF));
        assert_eq!(effect(Rule::AllButZero).written, ALL.without(ZF));
        assert_eq!(effect(Rule::ZeroParityCarry).written, ZF | PF | CF);
        assert_eq!(effect(Rule::CarryToCarry), Effect { read: CF, written: CF, may_write: CF });
        assert_eq!(effect(Rule::Direction).written, DF);
        assert_eq!(effect(Rule::WriteLow).written, LOW);
        assert_eq!(effect(Rule::WriteAll).written, EVERY);
        assert_eq!(effect(Rule::Anything).written, EMPTY);
        assert_eq!(effect(Rule::ReadParity).read, PF);
    }
}
