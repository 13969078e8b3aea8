//! Where code comes from: source files and lines of addresses, names of functions.
//!
//! Line tables are opened when the first address of their object is asked for.

use crate::tables::{Function, Tables, get};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tallygraph_demangle::Subject;
use tallygraph_demangle::names::{BELOW_MAIN, SHOWN_BELOW_MAIN};
use tallygraph_symbols::cache::Cache;
use tallygraph_symbols::{Demangler, Finder, ObjectSymbols, PerfMap};
use tallygraph_wire::config::{Config, Number, Text};
use tallygraph_wire::spool::Section;

/// What is written where nothing is known.
pub const UNKNOWN: &[u8] = b"???";

/// Distinct byte strings, numbered from 0 in order of appearance.
#[derive(Default)]
pub struct Strings {
    all: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, u32>,
}

impl Strings {
    /// The number of `text`.
    pub fn number(&mut self, text: &[u8]) -> u32 {
        if let Some(&n) = self.numbers.get(text) {
            return n;
        }
        let n = self.all.len() as u32;
        self.all.push(text.to_vec());
        self.numbers.insert(text.to_vec(), n);
        n
    }

    /// The string of a number.
    pub fn get(&self, number: u32) -> &[u8] {
        &self.all[number as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// A source position: number of the file, and line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number in [`Places::files`].
    pub file: u32,
    /// Line, 0 when unknown.
    pub line: u32,
}

/// An object as paths tell objects apart.
struct Lines {
    build_id: Vec<u8>,
    symbols: Option<ObjectSymbols>,
    /// Number of each of the object's files in [`Places::files`].
    files: Vec<u32>,
    /// Where the last lookup ended.
    hint: usize,
}

/// Resolves addresses and functions.
pub struct Places {
    /// Paths of objects. Number 0 is `???`.
    pub objects: Strings,
    /// Source files. Number 0 is `???`.
    pub files: Strings,
    lines: Vec<Lines>,
    finder: Finder,
    cache: Option<Cache>,
    demangler: Demangler,
    /// `--separate-callers`, and patterns of the functions with a number of their own.
    callers: (u64, Vec<(u64, Vec<u8>)>),
    strip: Vec<Vec<u8>>,
    full_paths: bool,
    below_main: bool,
    /// Where names of generated code may be, and what was found there.
    generated: (PathBuf, OnceCell<PerfMap>),
}

const NOT_YET: u32 = u32::MAX;

impl Places {
    /// A resolver for a process that follows the options in `config`.
    pub fn new(config: &Config, pid: u32) -> Places {
        let path = |text: &[u8]| PathBuf::from(OsStr::from_bytes(text));
        let extra: Vec<PathBuf> = config.texts(Text::ExtraDebuginfoPath).map(path).collect();
        let strip: Vec<Vec<u8>> =
            config.texts(Text::FullpathAfter).filter(|t| !t.is_empty()).map(<[u8]>::to_vec).collect();
        let mut places = Places {
            objects: Strings::default(),
            files: Strings::default(),
            lines: Vec::new(),
            finder: Finder::new(&extra),
            cache: config.text(Text::CacheDir).map(|d| Cache::new(&path(d))),
            demangler: Demangler::new(config.is(Number::Demangle)),
            callers: (
                config.get(Number::SeparateCallers),
                config.texts(Text::SeparateCallersFn).filter_map(numbered).collect(),
            ),
            full_paths: strip.is_empty(),
            strip,
            below_main: !config.is(Number::ShowBelowMain),
            generated: (format!("/tmp/perf-{pid}.map").into(), OnceCell::new()),
        };
        places.files.number(UNKNOWN);
        places.object_of_path(UNKNOWN, b"");
        places
    }

    fn object_of_path(&mut self, path: &[u8], build_id: &[u8]) -> u32 {
        let n = self.objects.number(path);
        if n as usize == self.lines.len() {
            self.lines.push(Lines { build_id: build_id.to_vec(), symbols: None, files: Vec::new(), hint: 0 });
        }
        n
    }

    /// Number of the path of a recorded object; 0 for anonymous code.
    pub fn object(&mut self, tables: &Tables, id: u32) -> u32 {
        match get(&tables.objects, id) {
            Some(o) if !o.path.is_empty() => self.object_of_path(o.path, o.build_id),
            _ => 0,
        }
    }

    /// Source position of the code at `svma` in an object.
    pub fn place(&mut self, object: u32, svma: u64) -> Place {
        const NOWHERE: Place = Place { file: 0, line: 0 };
        let path = self.objects.get(object);
        if object == 0 || path.first() != Some(&b'/') {
            return NOWHERE;
        }
        let Places { lines, finder, cache, .. } = self;
        let entry = &mut lines[object as usize];
        let symbols = entry.symbols.get_or_insert_with(|| {
            ObjectSymbols::open(Path::new(OsStr::from_bytes(path)), &entry.build_id, finder, cache.as_ref())
        });
        let Some(found) = symbols.lookup_near(svma, &mut entry.hint) else { return NOWHERE };
        let local = found.file as usize;
        if local >= entry.files.len() {
            entry.files.resize(local + 1, NOT_YET);
        }
        if entry.files[local] == NOT_YET {
            let name = symbols.file(found.file).as_bytes();
            let name = if self.full_paths { name } else { after_prefix(&self.strip, name) };
            entry.files[local] = self.files.number(name);
        }
        Place { file: entry.files[local], line: found.line }
    }

    /// How many callers are part of a function's name; contexts may hold more.
    pub fn callers_shown(&self, f: &Function) -> u64 {
        let (usual, some) = &self.callers;
        if some.is_empty() {
            return *usual;
        }
        let subject = Subject::new(f.name, &self.demangler, self.below_main);
        some.iter().rev().find(|(_, pattern)| subject.is(pattern)).map_or(*usual, |(n, _)| *n)
    }

    /// Readable name of a function.
    pub fn function_name(&self, f: &Function) -> Vec<u8> {
        if f.name.is_empty() {
            if f.object == 0
                && let Some((_, name)) =
                    self.generated.1.get_or_init(|| PerfMap::open(&self.generated.0)).lookup(f.start)
            {
                return one_line(name.as_bytes());
            }
            let suffix = match f.section {
                Section::Plt => " [PLT]",
                Section::Got => " [GOT]",
                Section::Data => " [Data]",
                Section::Bss => " [BSS]",
                Section::Text | Section::Unknown => "",
            };
            return format!("0x{:016x}{suffix}", f.start).into_bytes();
        }
        if self.below_main && BELOW_MAIN.contains(&f.name) {
            return SHOWN_BELOW_MAIN.to_vec();
        }
        match std::str::from_utf8(f.name) {
            Ok(name) => one_line(self.demangler.demangle(name).as_bytes()),
            Err(_) => one_line(f.name),
        }
    }
}

/// `N=pattern`.
fn numbered(text: &[u8]) -> Option<(u64, Vec<u8>)> {
    let equals = text.iter().position(|&b| b == b'=')?;
    let number = std::str::from_utf8(&text[..equals]).ok()?.parse().ok()?;
    Some((number, text[equals + 1..].to_vec()))
}

/// A name without characters that would end its line.
fn one_line(name: &[u8]) -> Vec<u8> {
    name.iter().map(|&b| if b < b' ' { b'?' } else { b }).collect()
}

/// What follows the first of `prefixes` found in `path`, as `--fullpath-after` asks.
fn after_prefix<'p>(prefixes: &[Vec<u8>], path: &'p [u8]) -> &'p [u8] {
    for prefix in prefixes {
        if let Some(at) = path.windows(prefix.len()).position(|w| w == prefix) {
            return &path[at + prefix.len()..];
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &[u8], section: Section) -> Vec<u8> {
        let mut config = Config::new();
        config.set(Number::Demangle, 1);
        places(&config).function_name(&Function { object: 1, start: 0x1234, section, name })
    }

    fn places(config: &Config) -> Places {
        Places::new(config, 0)
    }

    #[test]
    fn generated_code_has_the_name_its_compiler_gave_it() {
        let mut p = places(&Config::new());
        let file = std::env::temp_dir().join(format!("tallygraph-places-{}.map", std::process::id()));
        std::fs::write(&file, "7000 100 py::fib:/x.py\n").unwrap();
        p.generated.0 = file.clone();
        let name = |object, start| {
            p.function_name(&Function { object, start, section: Section::Unknown, name: b"" })
        };
        assert_eq!(name(0, 0x7010), b"py::fib:/x.py");
        assert_eq!(name(0, 0x7100), b"0x0000000000007100");
        assert_eq!(name(1, 0x7010), b"0x0000000000007010");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn functions_without_symbol_are_named_by_address() {
        assert_eq!(function(b"", Section::Text), b"0x0000000000001234");
        assert_eq!(function(b"", Section::Plt), b"0x0000000000001234 [PLT]");
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(function(b"_start", Section::Text), b"(below main)");
        assert_eq!(function(b"_Z3addii", Section::Text), b"add(int, int)");
        assert_eq!(function(b"a\nb", Section::Text), b"a?b");
    }

    #[test]
    fn prefixes_are_cut_off() {
        let prefixes = vec![b"/home/".to_vec(), b"/src/".to_vec()];
        assert_eq!(after_prefix(&prefixes, b"/x/src/a.c"), b"a.c");
        assert_eq!(after_prefix(&prefixes, b"/y/a.c"), b"/y/a.c");
    }
}
