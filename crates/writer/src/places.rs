//! Where code comes from: source files and lines of addresses, names of functions.
//!
//! Line tables are opened when the first address of their object is asked for.

use crate::progress::Progress;
use crate::tables::{Function, Tables, get};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tallygraph_demangle::Subject;
use tallygraph_demangle::names::{BELOW_MAIN, SHOWN_BELOW_MAIN};
use tallygraph_symbols::cache::Cache;
use tallygraph_symbols::{Demangler, Finder, Hook, InlineFrames, MoreNames, ObjectSymbols, PerfMap};
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
#[derive(Default)]
struct Lines {
    build_id: Vec<u8>,
    symbols: Option<ObjectSymbols>,
    /// Inlined functions, once one was asked for; none without debug information.
    inline: Option<Option<InlineFrames>>,
    /// Names the agent did not have.
    names: Option<MoreNames>,
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
    /// Readable names of inlined functions. Number 0 is "not inlined".
    pub inlined: Strings,
    progress: Progress,
    /// Where names of generated code may be, and what was found there.
    generated: (PathBuf, OnceCell<PerfMap>),
    /// Regions of generated code without names, by the ids of the objects that stand for them.
    regions: Vec<u32>,
}

const NOT_YET: u32 = u32::MAX;

impl Places {
    /// A resolver for a process that follows the options in `config`.
    pub fn new(config: &Config, pid: u32) -> Places {
        let path = |text: &[u8]| PathBuf::from(OsStr::from_bytes(text));
        let strip: Vec<Vec<u8>> =
            config.texts(Text::FullpathAfter).filter(|t| !t.is_empty()).map(<[u8]>::to_vec).collect();
        let mut places = Places {
            objects: Strings::default(),
            files: Strings::default(),
            lines: Vec::new(),
            finder: finder(config),
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
            regions: Vec::new(),
            inlined: Strings::default(),
            progress: Progress::default(),
        };
        places.files.number(UNKNOWN);
        places.inlined.number(UNKNOWN);
        places.object_of_path(UNKNOWN, b"");
        places
    }

    fn object_of_path(&mut self, path: &[u8], build_id: &[u8]) -> u32 {
        let n = self.objects.number(path);
        if n as usize == self.lines.len() {
            self.lines.push(Lines { build_id: build_id.to_vec(), ..Lines::default() });
        }
        n
    }

    /// Number of the path of a recorded object; 0 for anonymous code.
    pub fn object(&mut self, tables: &Tables, id: u32) -> u32 {
        match get(&tables.objects, id) {
            Some(o) if !o.path.is_empty() => self.object_of_path(o.path, o.build_id),
            Some(_) => {
                if !self.regions.contains(&id) {
                    self.regions.push(id);
                }
                0
            }
            None => 0,
        }
    }

    /// Source position of the code at `svma` in an object.
    pub fn place(&mut self, object: u32, svma: u64) -> Place {
        const NOWHERE: Place = Place { file: 0, line: 0 };
        let path = self.objects.get(object);
        if object == 0 || path.first() != Some(&b'/') {
            return NOWHERE;
        }
        let Places { lines, finder, cache, progress, .. } = self;
        let entry = &mut lines[object as usize];
        let symbols = entry.symbols.get_or_insert_with(|| {
            let path = Path::new(OsStr::from_bytes(path));
            let tell = |file: &Path| progress.reading(file);
            ObjectSymbols::open_telling(path, &entry.build_id, finder, cache.as_ref(), tell)
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

    /// Number in [`Places::inlined`] of the innermost function that the code at `svma` was inlined
    /// from, 0 when it is the function's own.
    pub fn inlined_at(&mut self, object: u32, svma: u64) -> u32 {
        let path = Path::new(OsStr::from_bytes(self.objects.get(object)));
        if object == 0 || !path.is_absolute() {
            return 0;
        }
        let Lines { build_id, inline, .. } = &mut self.lines[object as usize];
        let inline = inline.get_or_insert_with(|| {
            self.progress.reading(path);
            InlineFrames::open(path, build_id, &self.finder)
        });
        let frames = inline.as_ref().map_or(Vec::new(), |i| i.frames(svma));
        match frames.as_slice() {
            [inner, _, ..] => match &inner.function {
                Some(name) => {
                    let name = self.readable(name.as_bytes());
                    self.inlined.number(&name)
                }
                None => 0,
            },
            _ => 0,
        }
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

    /// Readable name of a function in an object of [`Places::objects`].
    pub fn function_name(&mut self, object: u32, f: &Function) -> Vec<u8> {
        if f.name.is_empty() {
            if f.section == Section::Text
                && let Some(name) = self.name_elsewhere(object, f.start)
            {
                return self.readable(&name);
            }
            if object == 0 && f.object != 0 {
                return self.generated_name(f);
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
        self.readable(f.name)
    }

    /// Name of code that lies in no object and had no name when it was executed.
    fn generated_name(&mut self, f: &Function) -> Vec<u8> {
        // Some compilers write their names at the end only.
        let names = self.generated.1.get_or_init(|| PerfMap::open(&self.generated.0));
        if let Some((_, name)) = names.lookup(f.start) {
            return self.readable(name.as_bytes());
        }
        let number = self.regions.iter().position(|&o| o == f.object).unwrap_or(0) + 1;
        format!("(generated code {number})").into_bytes()
    }

    /// Raw name of a function that the object's own symbol tables do not name.
    fn name_elsewhere(&mut self, object: u32, start: u64) -> Option<Vec<u8>> {
        let path = Path::new(OsStr::from_bytes(self.objects.get(object)));
        let Lines { build_id, names, .. } = self.lines.get_mut(object as usize)?;
        if object == 0 || !path.is_absolute() {
            return None;
        }
        let names = names.get_or_insert_with(|| MoreNames::open(path, build_id, &self.finder));
        Some(names.lookup(start)?.as_bytes().to_vec())
    }

    fn readable(&self, name: &[u8]) -> Vec<u8> {
        if self.below_main && BELOW_MAIN.contains(&name) {
            return SHOWN_BELOW_MAIN.to_vec();
        }
        match std::str::from_utf8(name) {
            Ok(name) => one_line(self.demangler.demangle(name).as_bytes()),
            Err(_) => one_line(name),
        }
    }
}

/// `N=pattern`.
fn numbered(text: &[u8]) -> Option<(u64, Vec<u8>)> {
    let equals = text.iter().position(|&b| b == b'=')?;
    let number = std::str::from_utf8(&text[..equals]).ok()?.parse().ok()?;
    Some((number, text[equals + 1..].to_vec()))
}

/// Where debug information is looked for.
fn finder(config: &Config) -> Finder {
    let path = |text: &[u8]| PathBuf::from(OsStr::from_bytes(text));
    let extra: Vec<PathBuf> = config.texts(Text::ExtraDebuginfoPath).map(path).collect();
    let finder = Finder::new(&extra);
    let Some(command) = config.text(Text::DebuginfoCommand) else { return finder };
    let word = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    let words = command.split(|&b| b == b' ').filter(|w| !w.is_empty()).map(word).collect();
    let variable = |entry: &[u8]| {
        let equals = entry.iter().position(|&b| b == b'=')?;
        Some((word(&entry[..equals]), word(&entry[equals + 1..])))
    };
    let environment = config.texts(Text::DebuginfoEnvironment).filter_map(variable).collect();
    finder.with_hook(Hook::new(words, environment))
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
    use crate::tables::Object;

    fn function(name: &[u8], section: Section) -> Vec<u8> {
        let mut config = Config::new();
        config.set(Number::Demangle, 1);
        let mut places = places(&config);
        let object = places.object_of_path(b"/no/such/lib", b"");
        places.function_name(object, &Function { object: 1, start: 0x1234, section, name })
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
        let mut tables = Tables::default();
        for id in 0..5 {
            let path = if id < 3 { &b"/lib/x"[..] } else { b"" };
            tables.objects.push(Some(Object { bias: 0, path, build_id: b"" }));
            p.object(&tables, id);
        }
        let mut name = |at, object, start| {
            p.function_name(at, &Function { object, start, section: Section::Unknown, name: b"" })
        };
        assert_eq!(name(0, 3, 0x7010), b"py::fib:/x.py");
        assert_eq!(name(0, 3, 0x7100), b"(generated code 1)");
        assert_eq!(name(0, 4, 0x9000), b"(generated code 2)");
        assert_eq!(name(1, 1, 0x7010), b"0x0000000000007010");
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
