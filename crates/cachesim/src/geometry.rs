//! Size, associativity and line size of one cache, with Callgrind's syntax, checks and wording.
//!
//! A cache has `size / (ways * line)` sets; the simulator needs that number and the line size to
//! be powers of two. A command line that asks for anything else is refused; a *detected* LL cache
//! is [adjusted](Geometry::adjusted) instead, because real machines have such caches.

use core::fmt;

/// The shape of one cache. Always valid: see [`Geometry::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    size: u32,
    ways: u32,
    line: u32,
}

/// Why three numbers do not describe a cache that can be simulated. The text is Callgrind's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// `size` is not a multiple of `ways * line`, or the quotient is not a power of two.
    SetCount,
    /// The line size is not a power of two.
    LineSize,
    /// The line size is below [`Geometry::MIN_LINE`].
    LineTooSmall,
    /// There is not more than one line.
    SizeNotAboveLine,
    /// More ways than lines.
    TooManyWays,
}

/// Why an option's value is not a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Not three decimal numbers with commas between.
    Syntax,
    /// A number does not fit 32 bits, signed.
    Overflow,
    /// Three numbers that are no cache.
    Geometry(GeometryError),
}

impl Geometry {
    /// Smallest line size, in bytes: with less, one instruction could lie on three lines.
    pub const MIN_LINE: u32 = 16;

    /// A cache of `size` bytes with `ways` lines per set and `line` bytes per line.
    ///
    /// The checks are made in Callgrind's order, so the first failure is the one it reports.
    pub fn new(size: u32, ways: u32, line: u32) -> Result<Self, GeometryError> {
        let set_bytes = u64::from(ways) * u64::from(line);
        if set_bytes == 0 || u64::from(size) % set_bytes != 0 || size / line / ways == 0 {
            return Err(GeometryError::SetCount);
        }
        if !(size / line / ways).is_power_of_two() {
            return Err(GeometryError::SetCount);
        }
        if !line.is_power_of_two() {
            return Err(GeometryError::LineSize);
        }
        if line < Self::MIN_LINE {
            return Err(GeometryError::LineTooSmall);
        }
        if size <= line {
            return Err(GeometryError::SizeNotAboveLine);
        }
        if ways > size / line {
            return Err(GeometryError::TooManyWays);
        }
        Ok(Self { size, ways, line })
    }

    /// Parses the value of `--I1`, `--D1` or `--LL`: `size,associativity,line size`, in bytes.
    pub fn parse(value: &str) -> Result<Self, ParseError> {
        let mut numbers = [0u32; 3];
        let mut parts = value.split(',');
        let mut overflow = false;
        let mut negative = false;
        for number in &mut numbers {
            let part = parts.next().ok_or(ParseError::Syntax)?;
            let (minus, digits) = part.strip_prefix('-').map_or((false, part), |rest| (true, rest));
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(ParseError::Syntax);
            }
            match digits.parse::<u32>() {
                Ok(parsed) if parsed <= i32::MAX as u32 => *number = parsed,
                _ => overflow = true,
            }
            negative |= minus;
        }
        if parts.next().is_some() {
            return Err(ParseError::Syntax);
        }
        if overflow {
            return Err(ParseError::Overflow);
        }
        if negative {
            return Err(ParseError::Geometry(GeometryError::SetCount));
        }
        Self::new(numbers[0], numbers[1], numbers[2]).map_err(ParseError::Geometry)
    }

    /// The nearest cache that can be simulated, and whether it differs from the one described.
    ///
    /// The number of sets is rounded down to a power of two and the associativity raised by the
    /// same factor (rounded to nearest), which keeps the capacity; that is Callgrind's rule for
    /// the LL cache. `None` when the result is no cache either.
    pub fn adjusted(size: u32, ways: u32, line: u32) -> Option<(Self, bool)> {
        let sets = size.checked_div(ways.checked_mul(line)?)?;
        if sets == 0 {
            return None;
        }
        let new_sets = 1u32 << sets.ilog2();
        // round(ways * sets / new_sets), in integers.
        let new_ways = (u64::from(ways) * u64::from(sets) + u64::from(new_sets) / 2) / u64::from(new_sets);
        let new_size = u32::try_from(u64::from(line) * new_ways * u64::from(new_sets)).ok()?;
        let geometry = Self::new(new_size, new_ways as u32, line).ok()?;
        Some((geometry, (new_size, new_ways as u32) != (size, ways)))
    }

    /// Capacity, in bytes.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Lines per set.
    pub const fn ways(&self) -> u32 {
        self.ways
    }

    /// Bytes per line; a power of two.
    pub const fn line(&self) -> u32 {
        self.line
    }

    /// Number of sets; a power of two.
    pub const fn sets(&self) -> u32 {
        self.size / self.line / self.ways
    }

    /// Binary logarithm of the line size.
    pub const fn line_shift(&self) -> u32 {
        self.line.trailing_zeros()
    }

    /// The line `address` lies on, as the address of its first byte.
    pub const fn line_of(&self, address: u64) -> u64 {
        address & !(self.line as u64 - 1)
    }

    /// The set `address` belongs to.
    pub const fn set_of(&self, address: u64) -> usize {
        ((address >> self.line_shift()) & (self.sets() as u64 - 1)) as usize
    }
}

/// As in the `desc:` lines of a profile: `32768 B, 64 B, 8-way associative`.
impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B, {} B, ", self.size, self.line)?;
        match self.ways {
            1 => f.write_str("direct-mapped"),
            ways => write!(f, "{ways}-way associative"),
        }
    }
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SetCount => "Cache set count is not a power of two.",
            Self::LineSize => "Cache line size is not a power of two.",
            Self::LineTooSmall => "Cache line size is too small.",
            Self::SizeNotAboveLine => "Cache size <= line size.",
            Self::TooManyWays => "Cache associativity > (size / line size).",
        })
    }
}

impl core::error::Error for GeometryError {}

/// The explanation Valgrind prints; for [`ParseError::Syntax`] and [`ParseError::Geometry`] it
/// goes on with `Bad argument '<value>'`, which the caller adds as it knows the value.
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("expected <size>,<assoc>,<line_size>"),
            Self::Overflow => f.write_str("One of the cache parameters was too large and overflowed."),
            Self::Geometry(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_refused_for_the_reason_valgrind_gives() {
        // Checked against Valgrind 3.19, `--D1=<value>`.
        use GeometryError::*;
        for (value, expected) in [
            ("32768,8,64", None),
            ("128,2,64", None),
            ("1024,1,16", None),
            ("100,1,64", Some(ParseError::Geometry(SetCount))),
            ("65536,3,64", Some(ParseError::Geometry(SetCount))),
            ("0,1,64", Some(ParseError::Geometry(SetCount))),
            ("-1,1,1", Some(ParseError::Geometry(SetCount))),
            ("1024,32,64", Some(ParseError::Geometry(SetCount))),
            ("1024,2,48", Some(ParseError::Geometry(SetCount))),
            ("1536,2,48", Some(ParseError::Geometry(LineSize))),
            ("1024,1,8", Some(ParseError::Geometry(LineTooSmall))),
            ("64,1,64", Some(ParseError::Geometry(SizeNotAboveLine))),
            ("a,b,c", Some(ParseError::Syntax)),
            ("32768,8", Some(ParseError::Syntax)),
            ("32768,8,64,1", Some(ParseError::Syntax)),
            ("99999999999,1,64", Some(ParseError::Overflow)),
            // Valgrind divides by zero here.
            ("32768,0,64", Some(ParseError::Geometry(SetCount))),
            ("32768,8,0", Some(ParseError::Geometry(SetCount))),
        ] {
            assert_eq!(Geometry::parse(value).err(), expected, "{value}");
        }
    }

    #[test]
    fn a_set_count_that_is_no_power_of_two_becomes_associativity() {
        let adjusted = |size, ways, line| {
            let (g, changed) = Geometry::adjusted(size, ways, line).unwrap();
            (g.size(), g.ways(), g.line(), changed)
        };
        // Printed by Valgrind 3.19 on a machine that reports the left hand side.
        assert_eq!(adjusted(335_544_320, 1, 64), (268_435_456, 1, 64, true));
        // 12 MiB, 16 ways: 12288 sets become 8192, and 16 ways become 24.
        assert_eq!(adjusted(12 << 20, 16, 64), (12 << 20, 24, 64, true));
        assert_eq!(adjusted(8 << 20, 16, 64), (8 << 20, 16, 64, false));
        // 5 MiB in 48 ways do not divide: 1706 sets become 1024, 48 ways become 80.
        assert_eq!(adjusted(5 << 20, 48, 64), (5 << 20, 80, 64, true));
        assert_eq!(Geometry::adjusted(0, 0, 0), None);
    }

    #[test]
    fn description_is_the_one_of_profile_headers() {
        let text = |size, ways, line| alloc::format!("{}", Geometry::new(size, ways, line).unwrap());
        assert_eq!(text(32768, 8, 64), "32768 B, 64 B, 8-way associative");
        assert_eq!(text(4096, 1, 32), "4096 B, 32 B, direct-mapped");
    }
}
