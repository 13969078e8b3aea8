//! Patterns of functions, as options name them: `*` stands for any text, `?` for one character.
//!
//! A pattern means the whole name as it is shown. Whoever writes a mangled name means the symbol: a
//! pattern that begins like one is compared with the raw name too.

use crate::names::{BELOW_MAIN, Demangler, SHOWN_BELOW_MAIN};
use alloc::borrow::Cow;

/// True when `pattern` stands for all of `text`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the latest star is, and the text that it was last tried against.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                Some((at, tried)) => {
                    *tried += 1;
                    (p, t) = (*at + 1, *tried);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// A function that patterns are compared with.
pub struct Subject<'a> {
    raw: &'a [u8],
    shown: Cow<'a, [u8]>,
}

impl<'a> Subject<'a> {
    /// The function of a raw symbol. `below_main` says that start routines are shown as such.
    pub fn new(raw: &'a [u8], demangler: &Demangler, below_main: bool) -> Subject<'a> {
        let shown = if below_main && BELOW_MAIN.contains(&raw) {
            Cow::Borrowed(SHOWN_BELOW_MAIN)
        } else {
            match core::str::from_utf8(raw).map(|n| demangler.demangle(n)) {
                Ok(Cow::Owned(name)) => Cow::Owned(name.into_bytes()),
                _ => Cow::Borrowed(raw),
            }
        };
        Subject { raw, shown }
    }

    /// The name as it is shown.
    pub fn shown(&self) -> &[u8] {
        &self.shown
    }

    /// True when the pattern means this function.
    pub fn is(&self, pattern: &[u8]) -> bool {
        let mangled = pattern.starts_with(b"_Z") || pattern.starts_with(b"_R");
        matches(pattern, &self.shown) || mangled && matches(pattern, self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_the_whole_name() {
        for (pattern, text, expected) in [
            ("main", "main", true),
            ("main", "main2", false),
            ("ma?n", "main", true),
            ("ma?n", "man", false),
            ("*", "", true),
            ("?", "", false),
            ("", "", true),
            ("", "a", false),
            ("*in", "main", true),
            ("*a*n", "main", true),
            ("a*b*c", "aXbXbYc", true),
            ("a*b*c", "aXbXbYd", false),
            ("**x?", "aaxb", true),
            ("*::run(*)", "ns::A::run(int, char)", true),
            ("f(int)", "f(int)", true),
            ("f", "f(int)", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_take_long() {
        let text = [b'a'; 4000];
        assert!(!matches(b"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", &text));
    }

    fn is(pattern: &str, raw: &str) -> bool {
        Subject::new(raw.as_bytes(), &Demangler::new(true), true).is(pattern.as_bytes())
    }

    #[test]
    fn names_are_those_that_are_shown() {
        assert!(is("ns1a::foo(*", "_ZN4ns1a3fooEiPKc"));
        assert!(is("*::write", "_ZN4core3fmt5write17h0123456789abcdefE"));
        assert!(is("(below main)", "_start") && !is("_start", "_start"));
        assert!(!is("*fooEi*", "_ZN4ns1a3fooEiPKc"));
    }

    #[test]
    fn a_pattern_that_looks_mangled_means_the_symbol() {
        assert!(is("_ZN4ns1a3fooEiPKc", "_ZN4ns1a3fooEiPKc"));
        assert!(is("_ZN4ns1a*", "_ZN4ns1a3fooEiPKc"));
        assert!(!is("_ZN4ns1b*", "_ZN4ns1a3fooEiPKc"));
    }
}
