//! `printf` for client requests: the format and arguments are the guest's, in memory that may not be
//! what it should.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use tallygraph_engine::own_pid;
use tallygraph_sys::mem::read_guest;

/// A NUL-terminated string of the guest, without the NUL, of bounded length.
pub fn guest_text(addr: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chunk = [0u8; 128];
    while out.len() < 1 << 16 {
        let n = read_guest(own_pid(), addr.wrapping_add(out.len() as u64), &mut chunk);
        let part = &chunk[..n];
        match part.iter().position(|&b| b == 0) {
            Some(end) => {
                out.extend_from_slice(&part[..end]);
                return out;
            }
            None => out.extend_from_slice(part),
        }
        if n < chunk.len() {
            return out;
        }
    }
    out
}

/// A `va_list` of the System V ABI, read from the guest.
pub struct Arguments {
    gp_offset: u32,
    fp_offset: u32,
    overflow: u64,
    saved: u64,
}

impl Arguments {
    /// Reads the list at an address; none when it can't be read.
    pub fn read(at: u64) -> Option<Arguments> {
        let mut b = [0u8; 24];
        if read_guest(own_pid(), at, &mut b) != 24 {
            return None;
        }
        let u32_at = |i: usize| u32::from_le_bytes(b[i..i + 4].try_into().expect("four bytes"));
        let u64_at = |i: usize| u64::from_le_bytes(b[i..i + 8].try_into().expect("eight bytes"));
        Some(Arguments { gp_offset: u32_at(0), fp_offset: u32_at(4), overflow: u64_at(8), saved: u64_at(16) })
    }

    fn load(at: u64) -> u64 {
        let mut b = [0u8; 8];
        read_guest(own_pid(), at, &mut b);
        u64::from_le_bytes(b)
    }

    fn overflow(&mut self, size: u64) -> u64 {
        let at = self.overflow;
        self.overflow = self.overflow.wrapping_add(size);
        at
    }

    fn integer(&mut self) -> u64 {
        if self.gp_offset < 48 {
            self.gp_offset += 8;
            Self::load(self.saved.wrapping_add(self.gp_offset as u64 - 8))
        } else {
            let at = self.overflow(8);
            Self::load(at)
        }
    }

    fn float(&mut self) -> f64 {
        f64::from_bits(if self.fp_offset < 176 {
            self.fp_offset += 16;
            Self::load(self.saved.wrapping_add(self.fp_offset as u64 - 16))
        } else {
            let at = self.overflow(8);
            Self::load(at)
        })
    }

    /// A `long double`, by its nearest `f64`.
    fn long_float(&mut self) -> f64 {
        self.overflow = self.overflow.wrapping_add(15) & !15;
        let at = self.overflow(16);
        let mut b = [0u8; 16];
        read_guest(own_pid(), at, &mut b);
        let mantissa = u64::from_le_bytes(b[..8].try_into().expect("eight bytes"));
        let head = u16::from_le_bytes([b[8], b[9]]);
        extended(mantissa, head)
    }
}

/// The value of an x87 number: 64 bits of mantissa with its leading one, sign and exponent.
fn extended(mantissa: u64, head: u16) -> f64 {
    let sign = if head & 0x8000 != 0 { -1.0 } else { 1.0 };
    let exponent = (head & 0x7fff) as i32;
    if exponent == 0x7fff {
        return if mantissa << 1 == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    let mut value = mantissa as f64;
    let mut by = exponent - 16383 - 63;
    while by != 0 && value != 0.0 && value.is_finite() {
        let step = by.clamp(-1000, 1000);
        value *= f64::from_bits(((1023 + step) as u64) << 52);
        by -= step;
    }
    sign * value
}

/// What stands between `%` and the conversion's letter.
#[derive(Default)]
struct Spec {
    left: bool,
    zero: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    grouped: bool,
    width: usize,
    precision: Option<usize>,
    /// Bytes of an integer argument.
    size: usize,
    long_double: bool,
}

/// Widths and precisions beyond this are taken for mistakes.
const WIDEST: usize = 1024;

/// Formats as C's `printf` does. Letters that C does not know print nothing.
pub fn format(format: &[u8], arguments: &mut Arguments) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = format;
    while let Some((&c, tail)) = rest.split_first() {
        rest = tail;
        if c == b'%' {
            rest = conversion(rest, arguments, &mut out);
        } else {
            out.push(c);
        }
    }
    out
}

/// One conversion, after its percent sign; gives what follows it.
fn conversion<'f>(mut rest: &'f [u8], arguments: &mut Arguments, out: &mut Vec<u8>) -> &'f [u8] {
    let mut s = Spec { size: 4, ..Spec::default() };
    while let Some((&c, tail)) = rest.split_first() {
        match c {
            b'-' => s.left = true,
            b'0' => s.zero = true,
            b'+' => s.plus = true,
            b' ' => s.blank = true,
            b'#' => s.alternate = true,
            b'\'' => s.grouped = true,
            _ => break,
        }
        rest = tail;
    }
    let (width, tail) = number(rest, arguments);
    rest = tail;
    s.left |= width < 0;
    s.width = width.unsigned_abs().min(WIDEST);
    if let Some(tail) = rest.strip_prefix(b".") {
        let (precision, tail) = number(tail, arguments);
        rest = tail;
        s.precision = usize::try_from(precision).ok().map(|p| p.min(WIDEST));
    }
    while let Some((&c, tail)) = rest.split_first() {
        match c {
            b'h' => s.size = if s.size == 2 { 1 } else { 2 },
            b'l' | b'q' | b'j' | b'z' | b't' => s.size = 8,
            b'L' => (s.long_double, s.size) = (true, 8),
            _ => break,
        }
        rest = tail;
    }
    let Some((&letter, tail)) = rest.split_first() else { return rest };
    match letter {
        b'%' => out.push(b'%'),
        b'c' => pad(out, &s, &[arguments.integer() as u8]),
        b's' => {
            let at = arguments.integer();
            let mut text = if at == 0 { b"(null)".to_vec() } else { guest_text(at) };
            text.truncate(s.precision.unwrap_or(usize::MAX));
            pad(out, &s, &text);
        }
        b'd' | b'i' => {
            let v = signed(arguments.integer(), s.size);
            let sign = match (v < 0, s.plus, s.blank) {
                (true, ..) => "-",
                (_, true, _) => "+",
                (_, _, true) => " ",
                _ => "",
            };
            integer(out, &s, sign, alloc::format!("{}", v.unsigned_abs()));
        }
        b'u' => integer(out, &s, "", alloc::format!("{}", unsigned(arguments.integer(), s.size))),
        b'x' | b'X' | b'o' => {
            let v = unsigned(arguments.integer(), s.size);
            let (sign, digits) = match letter {
                b'x' => ("0x", alloc::format!("{v:x}")),
                b'X' => ("0X", alloc::format!("{v:X}")),
                _ => ("0", alloc::format!("{v:o}")),
            };
            integer(out, &s, if s.alternate && v != 0 { sign } else { "" }, digits);
        }
        b'p' => {
            let v = arguments.integer();
            integer(out, &s, "0x", alloc::format!("{v:x}"));
        }
        b'f' | b'F' | b'e' | b'E' | b'g' | b'G' => {
            let v = if s.long_double { arguments.long_float() } else { arguments.float() };
            float(out, &s, letter, v);
        }
        _ => {}
    }
    tail
}

/// Digits, or `*` for the next argument; 0 when there are none.
fn number<'f>(text: &'f [u8], arguments: &mut Arguments) -> (isize, &'f [u8]) {
    if let Some(tail) = text.strip_prefix(b"*") {
        return (arguments.integer() as i32 as isize, tail);
    }
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let value = text[..digits].iter().fold(0, |n: isize, c| (n * 10 + (c - b'0') as isize).min(1 << 20));
    (value, &text[digits..])
}

fn signed(v: u64, size: usize) -> i64 {
    match size {
        1 => v as i8 as i64,
        2 => v as i16 as i64,
        4 => v as i32 as i64,
        _ => v as i64,
    }
}

fn unsigned(v: u64, size: usize) -> u64 {
    match size {
        1 => v as u8 as u64,
        2 => v as u16 as u64,
        4 => v as u32 as u64,
        _ => v,
    }
}

/// Text in its width, filled up with blanks.
fn pad(out: &mut Vec<u8>, s: &Spec, text: &[u8]) {
    let fill = s.width.saturating_sub(text.len());
    let (before, after) = if s.left { (0, fill) } else { (fill, 0) };
    out.resize(out.len() + before, b' ');
    out.extend_from_slice(text);
    out.resize(out.len() + after, b' ');
}

/// An integer from sign or prefix and digits.
fn integer(out: &mut Vec<u8>, s: &Spec, sign: &str, digits: String) {
    let mut text = String::from(sign);
    let mut fill = s.precision.map_or(0, |p| p.saturating_sub(digits.len()));
    if s.zero && !s.left && s.precision.is_none() {
        fill = s.width.saturating_sub(sign.len() + digits.len());
    }
    text.extend(core::iter::repeat_n('0', fill));
    if s.precision != Some(0) || digits != "0" {
        for (i, c) in digits.chars().enumerate() {
            if s.grouped && i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(c);
        }
    }
    pad(out, s, text.as_bytes());
}

fn float(out: &mut Vec<u8>, s: &Spec, letter: u8, v: f64) {
    let precision = s.precision.unwrap_or(6);
    let sign = match (v.is_sign_negative(), s.plus, s.blank) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    let v = f64::from_bits(v.to_bits() & !(1 << 63));
    let mut digits = if v.is_nan() {
        "nan".into()
    } else if v.is_infinite() {
        "inf".into()
    } else {
        match letter | 0x20 {
            b'f' => alloc::format!("{v:.precision$}"),
            b'e' => scientific(v, precision),
            _ => shortest(v, precision.max(1), s.alternate),
        }
    };
    if letter.is_ascii_uppercase() {
        digits.make_ascii_uppercase();
    }
    let mut text = String::from(sign);
    if s.zero && !s.left && v.is_finite() {
        let fill = s.width.saturating_sub(sign.len() + digits.len());
        text.extend(core::iter::repeat_n('0', fill));
    }
    text.push_str(&digits);
    pad(out, s, text.as_bytes());
}

/// `d.ddde±dd`.
fn scientific(v: f64, precision: usize) -> String {
    let plain = alloc::format!("{v:.precision$e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    let mut text = String::new();
    let _ = write!(text, "{mantissa}e{sign}{digits:0>2}");
    text
}

/// `%g`: so many digits, in the shorter of both forms, without trailing zeros.
fn shortest(v: f64, digits: usize, keep_zeros: bool) -> String {
    let long = scientific(v, digits - 1);
    let exponent: i32 = long.rsplit_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let trim = |text: &str| match (text.contains('.'), keep_zeros) {
        (true, false) => String::from(text.trim_end_matches('0').trim_end_matches('.')),
        _ => String::from(text),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let (mantissa, rest) = long.split_once('e').unwrap_or((&long, "+00"));
        return trim(mantissa) + "e" + rest;
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trim(&alloc::format!("{v:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats with integers from the overflow area and floats from the saved registers.
    fn shown(text: &str, integers: &[u64], floats: &[f64]) -> String {
        // The tests read their own memory.
        tallygraph_engine::set_own_pid(std::process::id() as i32);
        let mut saved = [0u8; 176];
        for (i, f) in floats.iter().enumerate() {
            saved[48 + i * 16..][..8].copy_from_slice(&f.to_le_bytes());
        }
        let mut a = Arguments {
            gp_offset: 48,
            fp_offset: 48,
            overflow: integers.as_ptr() as u64,
            saved: saved.as_ptr() as u64,
        };
        String::from_utf8(format(text.as_bytes(), &mut a)).unwrap()
    }

    #[test]
    fn integers_are_shown_as_in_c() {
        let n = |text, value: i64| shown(text, &[value as u64], &[]);
        assert_eq!(n("[%5d]", 42), "[   42]");
        assert_eq!(n("[%-5d]", 42), "[42   ]");
        assert_eq!(n("[%05d]", -42), "[-0042]");
        assert_eq!(n("[%+d]", 7), "[+7]");
        assert_eq!(n("[%.3d]", 7), "[007]");
        assert_eq!(n("[%#x]", 255), "[0xff]");
        assert_eq!(n("[%08X]", 0xabcd), "[0000ABCD]");
        assert_eq!(n("[%'d]", 1234567), "[1,234,567]");
        assert_eq!(n("[%d]", 1 << 32 | 5), "[5]");
        assert_eq!(n("[%ld]", 1 << 32), "[4294967296]");
        assert_eq!(n("[%hhd]", 0x1ff), "[-1]");
        assert_eq!(n("[%p]", 0x1234), "[0x1234]");
        assert_eq!(n("[%o]", 8), "[10]");
        assert_eq!(n("100%%", 0), "100%");
        assert_eq!(shown("%*d|", &[6, 42], &[]), "    42|");
        assert_eq!(shown("%-*d|", &[-6i64 as u64, 42], &[]), "42    |");
    }

    #[test]
    fn strings_are_cut_and_filled() {
        let at = c"truncate".as_ptr() as u64;
        assert_eq!(shown("%.3s|", &[at], &[]), "tru|");
        assert_eq!(shown("%10s|", &[at], &[]), "  truncate|");
        assert_eq!(shown("%.*s|", &[2, at], &[]), "tr|");
        assert_eq!(shown("%s", &[0], &[]), "(null)");
        assert_eq!(shown("%c", &[120], &[]), "x");
        // Not readable.
        assert_eq!(shown("<%s>", &[16], &[]), "<>");
    }

    #[test]
    fn floats_are_shown_as_in_c() {
        let f = |text, value| shown(text, &[], &[value]);
        assert_eq!(f("%f", 3.5), "3.500000");
        assert_eq!(f("[%7.2f]", -2.25), "[  -2.25]");
        assert_eq!(f("%e", 12345.678), "1.234568e+04");
        assert_eq!(f("%.0e", 0.00012), "1e-04");
        assert_eq!(f("%g", 100000.0), "100000");
        assert_eq!(f("%g", 1000000.0), "1e+06");
        assert_eq!(f("%g", 0.0001), "0.0001");
        assert_eq!(f("%G", 1e-10), "1E-10");
        assert_eq!(f("%06.1f", -1.5), "-001.5");
        assert_eq!(f("%f", f64::INFINITY), "inf");
    }

    #[test]
    fn an_x87_number_is_the_nearest_double() {
        assert_eq!(extended(1 << 63, 16383), 1.0);
        assert_eq!(extended(0xc000_0000_0000_0000, 0x8000 | 16384), -3.0);
        assert_eq!(extended(0, 0), 0.0);
        assert_eq!(extended(1 << 63, 0x7fff), f64::INFINITY);
        assert_eq!(extended(1 << 63, 16383 - 1000), f64::from_bits((1023 - 1000) << 52));
    }

    #[test]
    fn unknown_letters_print_nothing_and_a_lone_percent_ends_the_text() {
        assert_eq!(shown("a%yb", &[], &[]), "ab");
        assert_eq!(shown("a%", &[], &[]), "a");
    }
}
