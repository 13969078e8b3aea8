//! Numbers and words of a line.

use super::error::Reason;
use crate::model::{Form, Positions};

/// A place in the text; every method stops at the end of the line.
#[derive(Debug, Clone, Copy)]
pub struct Scanner<'t> {
    pub text: &'t [u8],
    pub at: usize,
    /// Whether a number was written as `0x…` since this was last cleared.
    pub hexadecimal: bool,
}

#[inline]
fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t' || byte == b'\r'
}

impl<'t> Scanner<'t> {
    /// At the start of a text.
    pub fn new(text: &'t [u8]) -> Self {
        Scanner { text, at: 0, hexadecimal: false }
    }

    /// The byte here; a line feed at the end of the text.
    #[inline]
    pub fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b'\n')
    }

    /// Passes spaces, tabs and carriage returns.
    #[inline]
    pub fn spaces(&mut self) {
        while is_space(self.peek()) {
            self.at += 1;
        }
    }

    /// The rest of the line, without its end.
    pub fn rest(&self) -> &'t [u8] {
        let tail = &self.text[self.at.min(self.text.len())..];
        let line = &tail[..memchr::memchr(b'\n', tail).unwrap_or(tail.len())];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Goes to the start of the next line.
    #[inline]
    pub fn next_line(&mut self) {
        let tail = &self.text[self.at.min(self.text.len())..];
        self.at = self.text.len() - tail.len() + memchr::memchr(b'\n', tail).map_or(tail.len(), |n| n + 1);
    }

    /// A decimal or `0x` number.
    #[inline(always)]
    pub fn unsigned(&mut self, what: &'static str) -> Result<u64, Reason> {
        let start = self.at;
        let mut n = 0u64;
        for &byte in &self.text[start.min(self.text.len())..] {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            n = n.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        let digits = self.at - start;
        // Up to 19 digits cannot overflow; a single 0 may be the start of `0x`.
        if digits.wrapping_sub(1) < 19 && (n != 0 || digits > 1 || self.peek() | 0x20 != b'x') {
            return Ok(n);
        }
        self.unusual_number(what, start)
    }

    /// The number at `start`, whose digits have been passed: none, more than 19, or hexadecimal.
    #[cold]
    #[inline(never)]
    fn unusual_number(&mut self, what: &'static str, start: usize) -> Result<u64, Reason> {
        match self.at - start {
            0 => Err(Reason::ExpectedNumber { what, found: self.word() }),
            1 => {
                self.at += 1;
                self.hexadecimal(what)
            }
            _ => {
                let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or("");
                text.parse().map_err(|_| Reason::TooLarge(what))
            }
        }
    }

    fn hexadecimal(&mut self, what: &'static str) -> Result<u64, Reason> {
        let mut n = 0u64;
        let start = self.at;
        self.hexadecimal = true;
        while let Some(digit) = (self.peek() as char).to_digit(16) {
            if n >> 60 != 0 {
                return Err(Reason::TooLarge(what));
            }
            n = n << 4 | u64::from(digit);
            self.at += 1;
        }
        if self.at == start {
            return Err(Reason::ExpectedNumber { what, found: self.word() });
        }
        Ok(n)
    }

    /// A cost: a number, perhaps negative.
    #[inline(always)]
    pub fn cost(&mut self) -> Result<i64, Reason> {
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let n = i64::try_from(self.unsigned("cost")?).map_err(|_| Reason::TooLarge("cost"))?;
        Ok(if negative { -n } else { n })
    }

    /// Appends one position to `positions`.
    #[inline(always)]
    pub fn position(&mut self, what: &'static str, positions: &mut Positions) -> Result<(), Reason> {
        let form = match self.peek() {
            b'+' => Form::Plus,
            b'-' => Form::Minus,
            b'*' => Form::Same,
            b'\n' => return Err(Reason::MissingPosition(what)),
            _ => Form::Absolute,
        };
        self.at += usize::from(form != Form::Absolute);
        let value = if form == Form::Same { 0 } else { self.unsigned(what)? };
        match self.peek() {
            b'\n' => {}
            byte if is_space(byte) => self.spaces(),
            b'+' | b'-' | b':' => return Err(Reason::PositionRange),
            _ => return Err(Reason::ExpectedNumber { what, found: self.word() }),
        }
        positions.push(form, value);
        Ok(())
    }

    /// The word here, for messages.
    pub fn word(&self) -> String {
        let rest = self.rest();
        let end = rest.iter().position(|&b| is_space(b)).unwrap_or(rest.len());
        shown(&rest[..end])
    }
}

/// Text for a message, shortened.
pub fn shown(bytes: &[u8]) -> String {
    let text: String =
        String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().count() <= 60 {
        return text;
    }
    text.chars().take(57).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> Scanner<'_> {
        Scanner::new(text.as_bytes())
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal_up_to_64_bits() {
        assert_eq!(scan("18446744073709551615").unsigned("cost"), Ok(u64::MAX));
        assert_eq!(scan("18446744073709551616").unsigned("cost"), Err(Reason::TooLarge("cost")));
        assert_eq!(scan("0xffffffffffffffff ").unsigned("cost"), Ok(u64::MAX));
        assert_eq!(scan("0x10000000000000000").unsigned("cost"), Err(Reason::TooLarge("cost")));
        assert_eq!(scan("0").unsigned("cost"), Ok(0));
        assert_eq!(scan("-9223372036854775807").cost(), Ok(-i64::MAX));
        assert!(scan("0x").unsigned("cost").is_err());
        assert!(scan("").unsigned("cost").is_err());
    }

    #[test]
    fn a_word_in_a_message_is_short_and_printable() {
        assert_eq!(shown(b"a\x07b\xff"), "a?b\u{fffd}");
        assert_eq!(shown(&[b'x'; 100]).len(), 60);
    }
}
