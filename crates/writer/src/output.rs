//! Names of output files: patterns with `%p`, `%n`, `%q{VAR}` and `%%`, and the suffixes of parts and
//! threads.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// The pattern is empty.
    Empty,
    /// An environment variable is not set.
    Unset(String),
    /// `%q` without `{NAME}`.
    MalformedVariable,
    /// Some other character after `%`.
    UnknownSpecifier,
}

impl std::fmt::Display for PatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PatternError::Empty => write!(f, "No filename given"),
            PatternError::Unset(name) => write!(f, "Environment variable '{name}' is not set"),
            PatternError::MalformedVariable => write!(f, "Expected '{{NAME}}' after '%q'"),
            PatternError::UnknownSpecifier => write!(f, "Expected 'p', 'n', 'q' or '%' after '%'"),
        }
    }
}

/// Replaces `%q{VAR}` alone, by `lookup`; what it gives is taken literally by [`expand`].
pub fn expand_variables(
    pattern: &[u8],
    lookup: impl Fn(&[u8]) -> Option<OsString>,
) -> Result<Vec<u8>, PatternError> {
    if pattern.is_empty() {
        return Err(PatternError::Empty);
    }
    let mut out = Vec::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            out.push(first);
            continue;
        }
        match rest.first() {
            Some(&c @ (b'p' | b'n' | b'%')) => {
                out.extend_from_slice(&[b'%', c]);
                rest = &rest[1..];
            }
            Some(b'q') => {
                let inner = rest[1..].strip_prefix(b"{").ok_or(PatternError::MalformedVariable)?;
                let end = inner.iter().position(|&c| c == b'}').ok_or(PatternError::MalformedVariable)?;
                let name = &inner[..end];
                let value = lookup(name)
                    .ok_or_else(|| PatternError::Unset(String::from_utf8_lossy(name).into_owned()))?;
                for &byte in value.as_bytes() {
                    if byte == b'%' {
                        out.push(b'%');
                    }
                    out.push(byte);
                }
                rest = &inner[end + 1..];
            }
            _ => return Err(PatternError::UnknownSpecifier),
        }
    }
    Ok(out)
}

/// The path a pattern without variables stands for. Relative ones start at `directory`.
pub fn expand(pattern: &[u8], pid: u32, directory: &Path) -> Result<PathBuf, PatternError> {
    let mut name = Vec::with_capacity(pattern.len() + 8);
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'%' => match bytes.next() {
                Some(b'p') => name.extend_from_slice(pid.to_string().as_bytes()),
                Some(b'n') => name.push(b'0'),
                Some(b'%') => name.push(b'%'),
                _ => return Err(PatternError::UnknownSpecifier),
            },
            other => name.push(other),
        }
    }
    if name.is_empty() {
        return Err(PatternError::Empty);
    }
    Ok(directory.join(OsString::from_vec(name)))
}

/// The file of a part and a thread: `base[.part][-thread]`.
pub fn file_of(base: &Path, part: Option<u32>, thread: Option<u32>) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    if let Some(part) = part {
        name.push(format!(".{part}"));
    }
    if let Some(thread) = thread {
        name.push(format!("-{thread:02}"));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pattern: &str) -> Result<PathBuf, PatternError> {
        let lookup = |name: &[u8]| (name == b"V").then(|| "v%pv".into());
        expand(&expand_variables(pattern.as_bytes(), lookup)?, 42, Path::new("/start"))
    }

    #[test]
    fn patterns_are_expanded() {
        assert_eq!(whole("callgrind.out.%p"), Ok("/start/callgrind.out.42".into()));
        assert_eq!(whole("/abs/%%p.%q{V}"), Ok("/abs/%p.v%pv".into()));
        assert_eq!(whole("x%n"), Ok("/start/x0".into()));
        assert_eq!(whole("%q{W}"), Err(PatternError::Unset("W".into())));
        assert_eq!(whole("%qV"), Err(PatternError::MalformedVariable));
        assert_eq!(whole("%q{V"), Err(PatternError::MalformedVariable));
        assert_eq!(whole("%z"), Err(PatternError::UnknownSpecifier));
        assert_eq!(whole("%"), Err(PatternError::UnknownSpecifier));
        assert_eq!(whole(""), Err(PatternError::Empty));
    }

    #[test]
    fn parts_come_before_threads() {
        let name = |part, thread| file_of(Path::new("/d/o"), part, thread);
        assert_eq!(name(None, None), Path::new("/d/o"));
        assert_eq!(name(Some(3), Some(2)), Path::new("/d/o.3-02"));
        assert_eq!(name(None, Some(12)), Path::new("/d/o-12"));
    }
}
