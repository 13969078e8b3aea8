//! What a guest's opening comment says: how to build and run it, and what is expected of it.
//!
//! The comment runs from the first line to the first line that is neither a comment nor empty. Lines
//! in it that begin with one of these words, one space after the comment sign, are read; the
//! rest is for people.
//!
//! | line | meaning |
//! |---|---|
//! | `flags: WORDS` | for the compiler; `{dir}` is the directory of the built files |
//! | `library: NAME WORDS` | the same source is first built as shared library NAME with these flags |
//! | `args: WORDS` | for the guest |
//! | `options: WORDS` | for tallygraph |
//! | `cpu: FLAGS` | skipped, visibly, on a CPU without these (names as in `/proc/cpuinfo`) |
//! | `status: N` | expected exit status, 0 if absent |
//! | `signal: N` | expected terminating signal |
//! | `Ir: N = SUM` | the executed instructions, counted by hand; `self` and `call` lines must then be complete |
//! | `Ir: any` | no exact count: the guest prints `EXIT-SUCCESS` when it finds everything in order |
//! | `self FUNCTION N` | self cost |
//! | `call CALLER CALLEE COUNT [INCLUSIVE]` | a call edge |
//! | `never CALLER CALLEE` | an edge that must not be there |
//! | `absent FUNCTION` | a function that must not be there |
//! | `uneven: REASON` | counts depend on time or on the order of threads: only behaviour is compared under stress |
//! | `golden: full`, `golden: calls` | the profile of the guest's own object equals the golden file, or its functions and calls do |
//! | `limit: WHAT` | tallygraph cannot do this yet: the test says so and fails as soon as it can |
//! | `unstressed: OPTION, REASON` | the same for one stress option: not run under it, visibly |
//! | `valgrind: no, REASON` | counts are not compared with Valgrind's |
//!
//! In guests without an exact count `call`, `never` and `absent` take a function's recursion levels together.
//! `_start` stands for what Callgrind shows as `(below main)`.

use crate::tools::STRESS;
use std::path::Path;

/// How much of a profile a golden file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Golden {
    /// Self cost, calls and inclusive cost.
    Full,
    /// Functions and call counts.
    Calls,
}

/// How a guest is expected to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exits with this status.
    Status(i32),
    /// A signal terminates it.
    Signal(i32),
}

/// An expected call edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Function that calls.
    pub caller: String,
    /// Function that is called.
    pub callee: String,
    /// Number of calls.
    pub count: u64,
    /// Inclusive cost of the calls, where stated.
    pub inclusive: Option<u64>,
}

/// An opening comment, read.
#[derive(Clone, Debug)]
pub struct Header {
    /// Words for the compiler.
    pub flags: Vec<String>,
    /// Shared libraries to build first: name and flags.
    pub libraries: Vec<(String, Vec<String>)>,
    /// Words for the guest.
    pub args: Vec<String>,
    /// Words for tallygraph.
    pub options: Vec<String>,
    /// CPU features the guest needs.
    pub cpu: Vec<String>,
    /// How it ends.
    pub end: End,
    /// Executed instructions, if counted by hand.
    pub ir: Option<u64>,
    /// Self cost by function.
    pub own: Vec<(String, u64)>,
    /// Call edges.
    pub calls: Vec<Call>,
    /// Edges that must not exist.
    pub never: Vec<(String, String)>,
    /// Functions that must not appear.
    pub absent: Vec<String>,
    /// Why counts differ from run to run, if they do.
    pub uneven: Option<String>,
    /// Whether there is a golden file.
    pub golden: Option<Golden>,
    /// What tallygraph cannot do yet that this guest needs.
    pub limit: Option<String>,
    /// Stress options that are left out, with the reason.
    pub unstressed: Vec<(String, String)>,
    /// Why counts are not compared with Valgrind's, if they are not.
    pub no_valgrind: Option<String>,
}

impl Header {
    /// Reads the opening comment of a guest's source.
    pub fn parse(source: &str) -> Result<Header, String> {
        let mut header = Header {
            flags: Vec::new(),
            libraries: Vec::new(),
            args: Vec::new(),
            options: Vec::new(),
            cpu: Vec::new(),
            end: End::Status(0),
            ir: None,
            own: Vec::new(),
            calls: Vec::new(),
            never: Vec::new(),
            absent: Vec::new(),
            uneven: None,
            golden: None,
            limit: None,
            unstressed: Vec::new(),
            no_valgrind: None,
        };
        let mut has_ir = false;
        for line in comment_lines(source) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let owned = || words[1..].iter().map(|w| w.to_string()).collect::<Vec<_>>();
            let wrong = |what: &str| format!("'{line}': {what}");
            let number = |word: &str| word.parse::<u64>().map_err(|_| wrong("a number is expected"));
            match words[..] {
                ["flags:", ..] => header.flags.extend(owned()),
                ["library:", name, ..] => {
                    header.libraries.push((name.into(), owned().split_off(1)));
                }
                ["args:", ..] => header.args.extend(owned()),
                ["options:", ..] => header.options.extend(owned()),
                ["cpu:", ..] => header.cpu.extend(owned()),
                ["status:", n] => header.end = End::Status(number(n)? as i32),
                ["signal:", n] => header.end = End::Signal(number(n)? as i32),
                ["Ir:", "any"] => has_ir = true,
                ["Ir:", n, ..] => {
                    header.ir = Some(number(n)?);
                    has_ir = true;
                }
                ["self", function, n] => header.own.push((shown(function), number(n)?)),
                ["call", caller, callee, count] => header.calls.push(Call {
                    caller: shown(caller),
                    callee: shown(callee),
                    count: number(count)?,
                    inclusive: None,
                }),
                ["call", caller, callee, count, inclusive] => header.calls.push(Call {
                    caller: shown(caller),
                    callee: shown(callee),
                    count: number(count)?,
                    inclusive: Some(number(inclusive)?),
                }),
                ["never", caller, callee] => header.never.push((shown(caller), shown(callee))),
                ["absent", function] => header.absent.push(shown(function)),
                ["uneven:", _, ..] => header.uneven = Some(words[1..].join(" ")),
                ["golden:", "full"] => header.golden = Some(Golden::Full),
                ["golden:", "calls"] => header.golden = Some(Golden::Calls),
                ["limit:", _, ..] => header.limit = Some(words[1..].join(" ")),
                ["unstressed:", option, _, ..] => {
                    let option = option.trim_end_matches(',').to_string();
                    if !STRESS.contains(&option.as_str()) {
                        return Err(wrong("no such stress option"));
                    }
                    header.unstressed.push((option, words[2..].join(" ")));
                }
                ["valgrind:", "no,", _, ..] => header.no_valgrind = Some(words[2..].join(" ")),
                [word, ..] if is_key(word) => {
                    return Err(wrong("not a line that a guest's comment may have"));
                }
                _ => {}
            }
        }
        if !has_ir {
            return Err("no 'Ir:' line: what is expected of this guest?".into());
        }
        if let Some(ir) = header.ir {
            let sum: u64 = header.own.iter().map(|(_, n)| n).sum();
            if sum != ir {
                return Err(format!("the 'self' lines add up to {sum}, but 'Ir:' says {ir}"));
            }
            if header.calls.iter().any(|c| c.inclusive.is_none()) {
                return Err("a 'call' line without its inclusive cost beside an exact 'Ir:'".into());
            }
            if header.uneven.is_some() {
                return Err("'uneven:' and an exact 'Ir:' exclude each other".into());
            }
        }
        Ok(header)
    }

    /// Reads the header of a file.
    pub fn of_file(path: &Path) -> Result<Header, String> {
        let source = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Header::parse(&source).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// One lower-case word and a colon, at the start of a line.
fn is_key(word: &str) -> bool {
    word.strip_suffix(':').is_some_and(|k| !k.is_empty() && k.chars().all(|c| c.is_ascii_lowercase()))
        || ["self", "call", "never", "absent"].contains(&word)
}

/// The name a profile shows for a function.
fn shown(function: &str) -> String {
    match function.strip_prefix("_start") {
        Some(rest) if rest.is_empty() || rest.starts_with('\'') => format!("(below main){rest}"),
        _ => function.to_string(),
    }
}

/// Lines of the opening comment without their comment signs. Lines indented further than one space
/// are prose and left out.
fn comment_lines(source: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        let text = if inside {
            let end = line.split_once("*/");
            inside = end.is_none();
            let line = end.map_or(line, |(before, _)| before);
            line.trim_start().strip_prefix("* ").or_else(|| line.strip_prefix("   ")).unwrap_or(line.trim())
        } else if let Some(rest) = line.strip_prefix("/*") {
            inside = !rest.contains("*/");
            rest.strip_prefix(' ').unwrap_or(rest).trim_end_matches("*/")
        } else if let Some(rest) = line.strip_prefix("//!").or_else(|| line.strip_prefix("//")) {
            rest.strip_prefix(' ').unwrap_or(rest)
        } else if line.starts_with("#include") || line.starts_with("#define") {
            break;
        } else if let Some(rest) = line.strip_prefix('#') {
            rest.strip_prefix(' ').unwrap_or(rest)
        } else if line.trim().is_empty() {
            continue;
        } else {
            break;
        };
        if !text.starts_with(' ') {
            lines.push(text);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_count_needs_every_self_line() {
        let error = Header::parse("# Ir: 5 = 2 + 3\n# self _start 2\n").unwrap_err();
        assert!(error.contains("add up to 2"), "{error}");
        let header =
            Header::parse("# Ir: 5 = 2 + 3\n# self _start 2\n# self f 3\n# call _start f 1 3\n").unwrap();
        assert_eq!(header.own[0].0, "(below main)");
        assert_eq!(header.calls[0].inclusive, Some(3));
    }

    #[test]
    fn a_guest_without_expectations_is_an_error() {
        assert!(Header::parse("# Does something.\n").unwrap_err().contains("what is expected"));
    }

    #[test]
    fn unknown_keys_are_errors() {
        assert!(Header::parse("// flag: -O2\n// Ir: any\n").unwrap_err().contains("may have"));
        assert!(Header::parse("# Ir: any\n# call a\n").unwrap_err().contains("may have"));
    }

    #[test]
    fn every_comment_sign_is_understood() {
        for source in [
            "# flags: -O1\n# Ir: any\n",
            "// flags: -O1\n// Ir: any\nint x;",
            "/* flags: -O1\n   Ir: any */\n",
        ] {
            assert_eq!(Header::parse(source).unwrap().flags, ["-O1"], "{source}");
        }
    }

    #[test]
    fn lines_after_the_comment_are_not_read() {
        assert!(Header::parse("# Ir: any\nnop\n# flags: -O2\n").unwrap().flags.is_empty());
    }
}
