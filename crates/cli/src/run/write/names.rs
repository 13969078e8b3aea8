//! The functions of a profile as readers see them: object, file, name.
//!
//! Functions are distinct by object, file and name, recursion level and callers kept apart; symbols
//! that agree in all of these are one function.

use super::spool::{Context, Spool};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tallygraph_symbols::cache::Cache;
use tallygraph_symbols::{Demangler, Finder, ObjectSymbols};
use tallygraph_wire::config::{Number, Text};
use tallygraph_wire::spool::Section;

/// Start routines that Valgrind shows under one name.
const BELOW_MAIN: &[&str] =
    &["_start", "__libc_start_main", "__libc_start_call_main", "generic_start_main", "__start"];

/// Strings with small numbers, in order of appearance.
#[derive(Default)]
pub struct Interner {
    ids: HashMap<String, u32>,
    texts: Vec<String>,
}

impl Interner {
    /// Number of a string.
    pub fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.texts.len() as u32;
        self.texts.push(text.to_string());
        self.ids.insert(text.to_string(), id);
        id
    }

    /// The string of a number.
    pub fn text(&self, id: u32) -> &str {
        &self.texts[id as usize]
    }
}

/// A function of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionKey {
    /// Object, by [`Names::objects`].
    pub object: u32,
    /// File, by [`Names::files`].
    pub file: u32,
    /// Name with callers and level, by [`Names::functions`].
    pub name: u32,
}

/// A source position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// File, by [`Names::files`].
    pub file: u32,
    /// Line, 0 when unknown.
    pub line: u32,
}

/// Names of a spool's objects, files and functions, found when asked for.
pub struct Names<'s> {
    spool: &'s Spool,
    /// Object paths.
    pub objects: Interner,
    /// File names.
    pub files: Interner,
    /// Function names.
    pub functions: Interner,
    symbols: Vec<Option<ObjectSymbols>>,
    file_ids: HashMap<(u32, u32), u32>,
    by_context: HashMap<u32, FunctionKey>,
    demangler: Demangler,
    finder: Finder,
    cache: Option<Cache>,
    fullpath_after: Vec<Vec<u8>>,
}

impl<'s> Names<'s> {
    /// Names of what is in `spool`.
    pub fn new(spool: &'s Spool) -> Self {
        let extra: Vec<PathBuf> =
            spool.config.texts(Text::ExtraDebuginfoPath).map(|p| OsStr::from_bytes(p).into()).collect();
        Names {
            spool,
            objects: Interner::default(),
            files: Interner::default(),
            functions: Interner::default(),
            symbols: spool.objects.iter().map(|_| None).collect(),
            file_ids: HashMap::new(),
            by_context: HashMap::new(),
            demangler: Demangler::new(spool.config.is(Number::Demangle)),
            finder: Finder::new(&extra),
            cache: spool.config.text(Text::CacheDir).map(|d| Cache::new(Path::new(OsStr::from_bytes(d)))),
            fullpath_after: spool.config.texts(Text::FullpathAfter).map(<[u8]>::to_vec).collect(),
        }
    }

    /// Source position of code at `avma` in an object.
    pub fn position(&mut self, object: u32, avma: u64) -> Position {
        let Some(o) = self.spool.objects.get(object as usize).filter(|_| object != 0) else {
            return Position { file: self.files.id("???"), line: 0 };
        };
        let symbols = self.symbols[object as usize].get_or_insert_with(|| {
            ObjectSymbols::open(
                Path::new(OsStr::from_bytes(&o.path)),
                &o.build_id,
                &self.finder,
                self.cache.as_ref(),
            )
        });
        match symbols.lookup(avma.wrapping_sub(o.bias)) {
            Some(at) => {
                let file = match self.file_ids.get(&(object, at.file)) {
                    Some(&id) => id,
                    None => {
                        let path = shorten(symbols.file(at.file), &self.fullpath_after);
                        let id = self.files.id(path);
                        self.file_ids.insert((object, at.file), id);
                        id
                    }
                };
                Position { file, line: at.line }
            }
            None => Position { file: self.files.id("???"), line: 0 },
        }
    }

    /// Object of the profile for an object of the spool.
    pub fn object(&mut self, object: u32) -> u32 {
        match self.spool.objects.get(object as usize) {
            Some(o) if object != 0 && !o.path.is_empty() => {
                self.objects.id(&String::from_utf8_lossy(&o.path))
            }
            _ => self.objects.id("???"),
        }
    }

    /// The function a context's costs are shown under.
    pub fn function(&mut self, context: u32) -> FunctionKey {
        if let Some(&key) = self.by_context.get(&context) {
            return key;
        }
        let c = self.spool.context(context);
        let mut name = self.plain_name(&c);
        let mut up = c.caller;
        while up != 0 {
            let caller = self.spool.context(up);
            name.push('\'');
            name.push_str(&self.plain_name(&caller));
            up = caller.caller;
        }
        if c.level > 1 {
            name.push_str(&format!("'{}", c.level));
        }
        let (object, start) = match self.spool.functions.get(c.function as usize) {
            Some(f) if c.function != 0 => {
                let bias = self.spool.objects.get(f.object as usize).map_or(0, |o| o.bias);
                (f.object, f.start.wrapping_add(bias))
            }
            _ => (0, 0),
        };
        let key = FunctionKey {
            object: self.object(object),
            file: self.position(object, start).file,
            name: self.functions.id(&name),
        };
        self.by_context.insert(context, key);
        key
    }

    fn plain_name(&self, c: &Context) -> String {
        let Some(f) = self.spool.functions.get(c.function as usize).filter(|_| c.function != 0) else {
            return "???".into();
        };
        if f.name.is_empty() {
            let section = match f.section {
                Section::Plt => " [PLT]",
                Section::Got => " [GOT]",
                Section::Data => " [Data]",
                Section::Bss => " [BSS]",
                Section::Text | Section::Unknown => "",
            };
            return format!("{:#018x}{section}", f.start);
        }
        let raw = String::from_utf8_lossy(&f.name);
        if BELOW_MAIN.contains(&raw.as_ref()) {
            return "(below main)".into();
        }
        self.demangler.demangle(&raw).into_owned()
    }
}

/// The part of a path after the first prefix that occurs in it.
fn shorten<'p>(path: &'p str, after: &[Vec<u8>]) -> &'p str {
    for prefix in after {
        let Ok(prefix) = std::str::from_utf8(prefix) else { continue };
        if let Some((_, rest)) = path.split_once(prefix).filter(|_| !prefix.is_empty()) {
            return rest;
        }
    }
    path
}

/// Where line tables are kept between runs.
pub fn cache_directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|d| !d.is_empty()).map(PathBuf::from);
    let base = base.or_else(|| {
        std::env::var_os("HOME").filter(|d| !d.is_empty()).map(|h| PathBuf::from(h).join(".cache"))
    });
    Some(base?.join("tallygraph"))
}
