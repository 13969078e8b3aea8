//! Readable names: C++ and Rust symbols demangled as Valgrind prints them.
//!
//! Rust names lose their hash, as there. A name that no scheme accepts, or that is too long or too
//! deeply nested to be honest, is shown as it is.

use crate::cpp;
use alloc::borrow::Cow;
use alloc::string::String;

/// Start routines that Valgrind shows under one name.
pub const BELOW_MAIN: &[&[u8]] = &[
    b"_start",
    b"__start",
    b"__libc_start_main",
    b"__libc_start_main_impl",
    b"__libc_start_call_main",
    b"generic_start_main",
    b"start_according_to_config",
];
/// See [`BELOW_MAIN`].
pub const SHOWN_BELOW_MAIN: &[u8] = b"(below main)";

/// Longest raw name that is given to a demangler.
const LONGEST_RAW: usize = 64 * 1024;
/// Longest readable name; substitutions can make hostile names grow without bound.
const LONGEST_READABLE: usize = 256 * 1024;

/// Demangles, or leaves names alone when switched off.
#[derive(Clone, Copy, Debug)]
pub struct Demangler {
    enabled: bool,
}

impl Demangler {
    /// A demangler; with `enabled` false every name stays as it is.
    pub fn new(enabled: bool) -> Self {
        Demangler { enabled }
    }

    /// The name as it is shown.
    pub fn demangle<'a>(&self, raw: &'a str) -> Cow<'a, str> {
        if !self.enabled || raw.len() > LONGEST_RAW {
            return Cow::Borrowed(raw);
        }
        let readable = if raw.starts_with("_R") {
            rust(raw)
        } else if raw.starts_with("_Z") {
            if is_legacy_rust(raw) { rust(raw) } else { cpp::demangle(raw) }
        } else {
            None
        };
        readable.map_or(Cow::Borrowed(raw), Cow::Owned)
    }
}

impl Demangler {
    /// What a mangled name has in common with the others that are shown alike, without demangling where that
    /// is not needed; none for names that no other is shown as.
    pub fn identity<'a>(&self, raw: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let text = core::str::from_utf8(raw).ok().filter(|_| self.enabled)?;
        if text.starts_with("_Z") && is_legacy_rust(text) {
            let name = text.split_once(".llvm.").map_or(text, |(n, _)| n);
            return Some(Cow::Borrowed(&raw[..name.len() - "17h0123456789abcdefE".len()]));
        }
        // Complete and base constructors; destructors; copies made in several crates.
        let variants = || raw.windows(2).any(|w| matches!(w, b"C1" | b"C2" | b"C3" | b"D0" | b"D1" | b"D2"));
        if text.starts_with("_R") || text.starts_with("_Z") && variants() {
            return match self.demangle(text) {
                Cow::Owned(name) => Some(Cow::Owned(name.into_bytes())),
                Cow::Borrowed(_) => None,
            };
        }
        None
    }
}

/// True for `_ZN…17h<16 hex digits>E`, the older Rust scheme.
fn is_legacy_rust(raw: &str) -> bool {
    let name = raw.split_once(".llvm.").map_or(raw, |(n, _)| n).as_bytes();
    name.len() > 20
        && name.ends_with(b"E")
        && name[..name.len() - 17].ends_with(b"17h")
        && name[name.len() - 17..name.len() - 1].iter().all(u8::is_ascii_hexdigit)
}

/// Text with an upper limit, so that a hostile name can't fill memory.
struct Limited(String);

impl core::fmt::Write for Limited {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        if self.0.len() + s.len() > LONGEST_READABLE {
            return Err(core::fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

fn rust(raw: &str) -> Option<String> {
    use core::fmt::Write;
    let name = rustc_demangle::try_demangle(raw).ok()?;
    let mut out = Limited(String::with_capacity(raw.len() * 2));
    // Without hashes, as Valgrind shows them: monomorphic copies of one function are added up.
    write!(out, "{name:#}").ok()?;
    Some(out.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(raw: &str) -> String {
        Demangler::new(true).demangle(raw).into_owned()
    }

    #[test]
    fn cpp_names_are_readable() {
        assert_eq!(show("_ZN4ns1a3fooEiPKc"), "ns1a::foo(int, char const*)");
        assert_eq!(show("_Z3addii"), "add(int, int)");
        assert_eq!(
            show("_ZNKSt6vectorIiSaIiEE4sizeEv"),
            "std::vector<int, std::allocator<int> >::size() const"
        );
    }

    #[test]
    fn rust_names_are_readable() {
        assert_eq!(show("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(show("_RNvNtCs8xPYlGZmQBQ_4core3fmt5write"), "core::fmt::write");
        assert_eq!(show("_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn names_that_are_shown_alike_have_one_identity() {
        let demangler = Demangler::new(true);
        let identity = |raw: &'static str| demangler.identity(raw.as_bytes()).map(Cow::into_owned);
        for (a, b) in [
            ("_ZN4core3fmt5write17h0123456789abcdefE", "_ZN4core3fmt5write17hfedcba9876543210E"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "_ZN4core3fmt5write17hfedcba9876543210E.llvm.12"),
            ("_ZN1AC1Ev", "_ZN1AC2Ev"),
            ("_ZN1AD0Ev", "_ZN1AD2Ev"),
            ("_RNvNtCs8xPYlGZmQBQ_4core3fmt5write", "_RNvNtCs1234_4core3fmt5write"),
        ] {
            assert!(identity(a).is_some() && identity(a) == identity(b), "{a} {b}");
        }
        assert_ne!(identity("_ZN1AC1Ev"), identity("_ZN1AC1Ei"));
        assert_eq!(identity("_ZN4ns1a3fooEiPKc"), None);
        assert_eq!(identity("main"), None);
        assert_eq!(Demangler::new(false).identity(b"_ZN1AC1Ev"), None);
    }

    #[test]
    fn other_names_stay() {
        for raw in ["main", "_Z", "_ZN", "_R", "_Znonsense", ""] {
            assert_eq!(show(raw), raw);
        }
        assert_eq!(Demangler::new(false).demangle("_Z3addii"), "_Z3addii");
    }

    #[test]
    fn a_small_stack_is_enough_for_the_deepest_names() {
        let mut names = vec![format!("_Z{}i", "P".repeat(60_000))];
        for depth in [50, 150, 199, 400] {
            names.push(format!("_Z1f{}i{}", "1aIP".repeat(depth), "E".repeat(depth)));
            names.push(format!("_Z1f{}i", "PFvP".repeat(depth)));
            names.push(format!("_Z{}1fvE1gv", "ZN1aI1bE".repeat(depth)));
            names.push(format!("_Z1fIXsr{}1aE1bEEvv", "N1aI".repeat(depth)));
        }
        // The agent's stack of a thread has 1 MiB.
        let all = move || names.iter().map(|n| show(n).len()).sum::<usize>();
        let thread = std::thread::Builder::new().stack_size(768 * 1024).spawn(all).unwrap();
        assert!(thread.join().unwrap() > 0);
    }

    #[test]
    fn hostile_names_come_back_unchanged() {
        let deep = format!("_Z{}i", "P".repeat(60_000));
        assert_eq!(show(&deep), deep);
        // Each template argument list doubles the one before it.
        let mut doubling = String::from("_Z1fI1aIiiEE");
        for i in 0..36 {
            let s = char::from_digit(i % 36, 36).unwrap().to_ascii_uppercase();
            doubling.push_str(&format!("1bIS{s}_S{s}_E"));
        }
        assert!(show(&doubling).len() <= LONGEST_READABLE);
    }
}
