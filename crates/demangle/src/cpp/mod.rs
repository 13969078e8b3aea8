//! C++ names of the Itanium ABI, printed as Valgrind prints them.
//!
//! A mangled name is parsed into a tree, which is printed. The text is that
//! of GNU's demangler without its verbose forms (`std::ostream`, `7u`, `{lambda(int)#1}`,
//! `f(int) [clone .cold]`), because that is what users of Valgrind have in their scripts.
//!
//! Names come from files that nobody checked: nesting, work and the length of the text are bounded,
//! and whatever goes beyond, or is malformed, is no name.
//!
//! Grammar: "Itanium C++ ABI", section 5.1, External Names.

mod expressions;
mod operators;
mod parse;
mod print;
mod print_expressions;
mod tree;
mod types;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The readable form of a name that starts with `_Z`; none when it is malformed or beyond the limits.
pub fn demangle(mangled: &str) -> Option<String> {
    let (name, suffix) = split_clone_suffix(mangled);
    let tree = parse::parse(name)?;
    let mut text = print::print(&tree)?;
    for part in suffix {
        text.push_str(&format!(" [clone {part}]"));
    }
    Some(text)
}

/// Splits `.part.0`, `.cold` and their kind from a name: each suffix is a dot and a word, with the
/// number that may follow.
fn split_clone_suffix(mangled: &str) -> (&str, Vec<&str>) {
    let Some(dot) = mangled.find('.') else { return (mangled, Vec::new()) };
    let (name, mut rest) = mangled.split_at(dot);
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let word = 1 + rest[1..].find('.').unwrap_or(rest.len() - 1);
        let mut end = word;
        while let Some(digits) = rest[end..].strip_prefix('.')
            && digits.starts_with(|c: char| c.is_ascii_digit())
        {
            end += 1 + digits.find('.').unwrap_or(digits.len());
        }
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    (name, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(mangled: &str) -> String {
        demangle(mangled).unwrap_or_else(|| "-".into())
    }

    #[test]
    fn names_read_as_gnu_has_them() {
        for (mangled, text) in [
            ("_Z1fv", "f()"),
            ("_ZN2ns1CC2EOS0_", "ns::C::C(ns::C&&)"),
            (
                "_ZNSsC1Ev",
                "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string()",
            ),
            (
                "_ZStlsISt11char_traitsIcEERSoS2_PKc",
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
            ),
            ("_Z1fILj7ELb1ELc65ELin3EEvv", "void f<7u, true, (char)65, -3>()"),
            ("_ZN1AIJEE1fEv", "A<>::f()"),
            ("_ZN1AI1BIiEJEE1fEv", "A<B<int>>::f()"),
            ("_Z1fIJifEEvDpRKT_", "void f<int, float>(int const&, float const&)"),
            ("_Z1fPFvPFivEE", "f(void (*)(int (*)()))"),
            ("_Z1fRA51_KcM1AFvvE", "f(char const (&) [51], void (A::*)())"),
            ("_ZZ1fiENKUlPKcE0_clES0_", "f(int)::{lambda(char const*)#2}::operator()(char const*) const"),
            ("_ZN12_GLOBAL__N_11xE", "(anonymous namespace)::x"),
            ("_ZThn16_N1A1fEv", "non-virtual thunk to A::f()"),
            ("_ZTV1AIiE", "vtable for A<int>"),
            ("_ZN1fB5cxx11Ev", "f[abi:cxx11]()"),
            ("_ZGVZ1fvE1x", "guard variable for f()::x"),
        ] {
            assert_eq!(show(mangled), text, "{mangled}");
        }
    }

    #[test]
    fn what_is_no_name_has_no_text() {
        for text in
            ["_Z", "_ZN", "_ZN1aE3", "_Z1fS_", "_Z1fT_", "_Z5ab", "_ZN1AC", "_ZZ", "_Z1fA_", "_Znonsense"]
        {
            assert_eq!(show(text), "-", "{text}");
        }
    }

    #[test]
    fn suffixes_of_clones_are_told() {
        assert_eq!(show("_Z1fi.part.0"), "f(int) [clone .part.0]");
        assert_eq!(show("_Z1fi.constprop.0.cold"), "f(int) [clone .constprop.0] [clone .cold]");
        assert_eq!(show("_Z1fi.isra.0.part.12"), "f(int) [clone .isra.0] [clone .part.12]");
    }
}
