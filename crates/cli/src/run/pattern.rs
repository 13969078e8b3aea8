//! File name patterns: `%p`, `%n`, `%q{VAR}`, `%%`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Expands a pattern for a process; a relative result is taken from `dir`.
pub fn expand(pattern: &[u8], pid: u32, dir: &Path) -> Result<PathBuf, String> {
    let mut out = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.iter().position(|&b| b == b'%') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.first() {
            Some(b'%') => out.push(b'%'),
            Some(b'p') => out.extend_from_slice(pid.to_string().as_bytes()),
            // One file for each process: the counter does not move.
            Some(b'n') => out.push(b'1'),
            Some(b'q') => {
                let inner = rest.get(1..).and_then(|r| r.strip_prefix(b"{"));
                let end = inner.and_then(|r| r.iter().position(|&b| b == b'}'));
                let (Some(inner), Some(end)) = (inner, end) else {
                    return Err("expected {VARIABLE} after %q".into());
                };
                let name = OsString::from_vec(inner[..end].to_vec());
                let value = std::env::var_os(&name)
                    .ok_or_else(|| format!("environment variable {} is not set", name.to_string_lossy()))?;
                out.extend_from_slice(value.as_bytes());
                rest = &inner[end..];
            }
            _ => return Err("expected 'p', 'n', 'q' or '%' after '%'".into()),
        }
        rest = &rest[1..];
    }
    out.extend_from_slice(rest);
    if out.is_empty() {
        return Err("the file name is empty".into());
    }
    Ok(dir.join(OsString::from_vec(out)))
}

/// Replaces `%q{VAR}` alone, so that the rest can be expanded without the environment.
pub fn expand_environment(pattern: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = pattern;
    while let Some(at) = rest.iter().position(|&b| b == b'%') {
        let end = match rest.get(at + 1) {
            Some(b'q') => rest[at..].iter().position(|&b| b == b'}').map_or(rest.len(), |e| at + e + 1),
            Some(_) => at + 2,
            None => rest.len(),
        };
        out.extend_from_slice(&rest[..at]);
        if rest.get(at + 1) == Some(&b'q') {
            let value = expand(&rest[at..end], 0, Path::new(""))?;
            for &b in value.as_os_str().as_bytes() {
                out.push(b);
                if b == b'%' {
                    out.push(b);
                }
            }
        } else {
            out.extend_from_slice(&rest[at..end]);
        }
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_replaced() {
        let dir = Path::new("/d");
        assert_eq!(expand(b"a.%p%%", 7, dir), Ok("/d/a.7%".into()));
        assert_eq!(expand(b"/x/%n", 7, dir), Ok("/x/1".into()));
        let path = std::env::var("PATH").unwrap();
        assert_eq!(expand(b"%q{PATH}", 7, Path::new("")), Ok(path.into()));
    }

    #[test]
    fn the_environment_can_be_replaced_first() {
        let path = std::env::var("PATH").unwrap().replace('%', "%%");
        assert_eq!(expand_environment(b"a%p.%q{PATH}.%%"), Ok(format!("a%p.{path}.%%").into_bytes()));
    }

    #[test]
    fn mistakes_are_named() {
        let dir = Path::new("/d");
        assert!(expand(b"%q{NO_SUCH_VARIABLE_HERE}", 1, dir).unwrap_err().contains("NO_SUCH_VARIABLE_HERE"));
        assert!(expand(b"%q{X", 1, dir).is_err());
        assert!(expand(b"%z", 1, dir).is_err());
        assert!(expand(b"100%", 1, dir).is_err());
        assert!(expand(b"", 1, dir).is_err());
    }
}
