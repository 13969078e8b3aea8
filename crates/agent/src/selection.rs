//! Which functions and objects the options mean: patterns of names, paths of skipped objects.

use crate::objects::Object;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use tallygraph_callgraph::Rules;
use tallygraph_demangle::names::{BELOW_MAIN, SHOWN_BELOW_MAIN};
use tallygraph_demangle::{Demangler, Subject};
use tallygraph_sys::{abi, fd, syscall};
use tallygraph_wire::config::{Config, Number, Text};

/// What the options say of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// `--fn-skip`.
    pub skip: bool,
    /// `--dump-before`.
    pub dump_before: bool,
    /// `--zero-before`.
    pub zero_before: bool,
    /// `--dump-after`.
    pub dump_after: bool,
    /// How its calls are treated, none for the way of most.
    pub rules: Option<Rules>,
}

/// The options that name functions.
pub struct Functions {
    demangler: Demangler,
    below_main: bool,
    default: Rules,
    skip: Vec<Vec<u8>>,
    toggle: Vec<Vec<u8>>,
    dump_before: Vec<Vec<u8>>,
    zero_before: Vec<Vec<u8>>,
    dump_after: Vec<Vec<u8>>,
    recs: Vec<(u32, Vec<u8>)>,
    groups: Vec<(u32, Vec<u8>)>,
}

impl Functions {
    /// The options of a configuration.
    pub fn new(config: &Config) -> Functions {
        let list = |key| config.texts(key).map(<[u8]>::to_vec).collect();
        let numbered = |key| config.texts(key).filter_map(numbered).collect();
        Functions {
            demangler: Demangler::new(config.is(Number::Demangle)),
            below_main: !config.is(Number::ShowBelowMain),
            default: default_rules(config),
            skip: list(Text::FnSkip),
            toggle: list(Text::ToggleCollect),
            dump_before: list(Text::DumpBefore),
            zero_before: list(Text::ZeroBefore),
            dump_after: list(Text::DumpAfter),
            recs: numbered(Text::SeparateRecsFn),
            groups: numbered(Text::FnGroup),
        }
    }

    /// True when no option names any function.
    pub fn are_all_alike(&self) -> bool {
        let lists = [&self.skip, &self.toggle, &self.dump_before, &self.zero_before, &self.dump_after];
        lists.iter().all(|l| l.is_empty()) && self.recs.is_empty() && self.groups.is_empty()
    }

    /// What a function's name has in common with those of others that are the same function to a profile,
    /// when they lie in one object; none when there are no others. Where no source files are known, the
    /// name alone tells functions apart.
    pub fn identity<'a>(&self, raw: &'a [u8], has_lines: bool) -> Option<Cow<'a, [u8]>> {
        if self.below_main && BELOW_MAIN.contains(&raw) {
            return Some(Cow::Borrowed(SHOWN_BELOW_MAIN));
        }
        self.demangler.identity(raw).or_else(|| (!has_lines && !raw.is_empty()).then_some(Cow::Borrowed(raw)))
    }

    /// True when some functions are skipped.
    pub fn skip_some(&self) -> bool {
        !self.skip.is_empty()
    }

    /// The name of a raw symbol as it is shown.
    pub fn shown(&self, raw: &[u8]) -> Vec<u8> {
        Subject::new(raw, &self.demangler, self.below_main).shown().to_vec()
    }

    /// True when a function with this raw name is skipped.
    pub fn skips(&self, raw: &[u8]) -> bool {
        self.skip_some() && any(&self.skip, &Subject::new(raw, &self.demangler, self.below_main))
    }

    /// What the options say of the function with a raw name.
    pub fn select(&self, raw: &[u8]) -> Selected {
        if self.are_all_alike() {
            return Selected::default();
        }
        let subject = Subject::new(raw, &self.demangler, self.below_main);
        let mut selected = Selected {
            skip: any(&self.skip, &subject),
            dump_before: any(&self.dump_before, &subject),
            zero_before: any(&self.zero_before, &subject),
            dump_after: any(&self.dump_after, &subject),
            rules: None,
        };
        // Of several patterns that mean a function the last one counts.
        let last = |list: &[(u32, Vec<u8>)], default| {
            list.iter().rev().find(|(_, p)| subject.is(p)).map_or(default, |(n, _)| *n)
        };
        let rules = Rules {
            separate_recs: last(&self.recs, self.default.separate_recs),
            group: last(&self.groups, 0),
            toggles: any(&self.toggle, &subject),
            triggers: selected.dump_before || selected.zero_before || selected.dump_after,
        };
        selected.rules = (rules != self.default).then_some(rules);
        selected
    }
}

fn any(patterns: &[Vec<u8>], subject: &Subject) -> bool {
    patterns.iter().any(|p| subject.is(p))
}

/// `N=pattern`.
fn numbered(text: &[u8]) -> Option<(u32, Vec<u8>)> {
    let equals = text.iter().position(|&b| b == b'=')?;
    let number = core::str::from_utf8(&text[..equals]).ok()?.parse().ok()?;
    Some((number, text[equals + 1..].to_vec()))
}

/// Rules of functions that no option names.
pub fn default_rules(config: &Config) -> Rules {
    Rules { separate_recs: config.get(Number::SeparateRecs) as u32, ..Rules::default() }
}

/// Most callers that the contexts of any function are kept apart by.
pub fn most_callers(config: &Config) -> u32 {
    let some = config.texts(Text::SeparateCallersFn).filter_map(numbered).map(|(n, _)| n);
    some.fold(config.get(Number::SeparateCallers) as u32, u32::max)
}

/// Objects that are skipped: paths, base names, or build-ids in hexadecimal digits.
#[derive(Default)]
pub struct Objects {
    wanted: Vec<Vec<u8>>,
}

impl Objects {
    /// Adds an object. A path is taken as it is and with its links resolved.
    pub fn add(&mut self, text: &[u8]) {
        self.wanted.push(text.to_vec());
        if text.contains(&b'/')
            && let Some(resolved) = resolve(text)
            && resolved != text
        {
            self.wanted.push(resolved);
        }
    }

    /// True when an object is one of these.
    pub fn include(&self, object: &Object) -> bool {
        self.wanted.iter().any(|w| means(w, &object.path, &object.build_id))
    }
}

/// Shortest build-id that is told from a base name.
const SHORTEST_BUILD_ID: usize = 8;

/// True when `wanted` stands for an object with this path and build-id.
fn means(wanted: &[u8], path: &[u8], build_id: &[u8]) -> bool {
    if wanted.contains(&b'/') {
        return wanted == path;
    }
    let base = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    !wanted.is_empty() && wanted == base || is_build_id(wanted, build_id)
}

fn is_build_id(text: &[u8], build_id: &[u8]) -> bool {
    let digits = text.strip_prefix(b"build-id:").unwrap_or(text);
    let digit = |b: u8| (b as char).to_digit(16);
    build_id.len() >= SHORTEST_BUILD_ID / 2
        && digits.len() == build_id.len() * 2
        && digits.chunks(2).zip(build_id).all(|(pair, &byte)| {
            digit(pair[0]) == Some(byte as u32 >> 4) && digit(pair[1]) == Some(byte as u32 & 15)
        })
}

/// The path of the file that a path leads to.
fn resolve(path: &[u8]) -> Option<Vec<u8>> {
    const O_PATH: u32 = 0o10000000;
    let mut name = path.to_vec();
    name.push(0);
    let file = fd::open(&name, O_PATH, 0).ok()?;
    let mut link = alloc::format!("/proc/self/fd/{file}").into_bytes();
    link.push(0);
    let mut target = alloc::vec![0u8; 4096];
    // SAFETY: the name is NUL-terminated, the buffer as large as is said.
    let n = unsafe { syscall!(abi::__NR_readlink, link.as_ptr(), target.as_mut_ptr(), target.len()) };
    fd::close(file);
    target.truncate(n.ok()? as usize);
    target.starts_with(b"/").then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(texts: &[(Text, &str)]) -> Config {
        let mut config = Config::new();
        config.set(Number::SeparateRecs, 2);
        config.set(Number::Demangle, 1);
        for (key, text) in texts {
            config.push(*key, text.as_bytes());
        }
        config
    }

    #[test]
    fn options_select_functions_by_readable_names() {
        let f = Functions::new(&config(&[
            (Text::FnSkip, "ns::*"),
            (Text::ToggleCollect, "ns::run(int)"),
            (Text::SeparateRecsFn, "5=rec*"),
            (Text::SeparateRecsFn, "3=rec2"),
            (Text::DumpBefore, "rec?"),
        ]));
        let run = f.select(b"_ZN2ns3runEi");
        assert!(run.skip && run.rules.unwrap().toggles && !run.dump_before);
        assert!(f.skips(b"_ZN2ns1xEv") && !f.skips(b"ns_x"));
        assert_eq!(f.select(b"rec1").rules.unwrap().separate_recs, 5);
        let two = f.select(b"rec2");
        assert!(two.dump_before && two.rules.unwrap().triggers);
        assert_eq!(two.rules.unwrap().separate_recs, 3);
        assert_eq!(f.select(b"main"), Selected::default());
        assert_eq!(f.shown(b"_ZN2ns3runEi"), b"ns::run(int)");
    }

    #[test]
    fn functions_of_one_name_are_one_where_files_do_not_tell_them_apart() {
        let f = Functions::new(&config(&[]));
        assert_eq!(f.identity(b"_start", true), f.identity(b"__libc_start_main", true));
        assert_eq!(f.identity(b"_ZN1AC1Ev", true), f.identity(b"_ZN1AC2Ev", true));
        assert_eq!(f.identity(b"init", true), None);
        assert_eq!(f.identity(b"init", false).as_deref(), Some(&b"init"[..]));
        assert_eq!(f.identity(b"", false), None);
    }

    #[test]
    fn callers_are_kept_for_whoever_wants_most() {
        assert_eq!(most_callers(&config(&[])), 0);
        assert_eq!(most_callers(&config(&[(Text::SeparateCallersFn, "3=f")])), 3);
    }

    #[test]
    fn objects_are_meant_by_path_base_name_or_build_id() {
        let (path, id) = (b"/usr/lib/libx.so.1", [0xde, 0xad, 0xbe, 0xef]);
        for (text, expected) in [
            ("/usr/lib/libx.so.1", true),
            ("/usr/lib/libx.so", false),
            ("libx.so.1", true),
            ("libx.so", false),
            ("deadbeef", true),
            ("build-id:DEADBEEF", true),
            ("deadbee", false),
            ("", false),
        ] {
            assert_eq!(means(text.as_bytes(), path, &id), expected, "{text}");
        }
        assert!(!means(b"", path, b""));
    }

    #[test]
    fn links_are_resolved() {
        let dir = std::env::temp_dir().join(format!("tallygraph-selection-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (file, link) = (dir.join("file"), dir.join("link"));
        std::fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let text = |p: &std::path::Path| p.to_str().unwrap().as_bytes().to_vec();
        assert_eq!(resolve(&text(&link)), Some(text(&file.canonicalize().unwrap())));
        assert_eq!(resolve(b"/no/such/file"), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
