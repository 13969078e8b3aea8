//! The line information of one object, from the cache or from its debug information.

use crate::cache::{Cache, Origin};
use crate::find::{Finder, Wanted};
use crate::lines::{self, LineTable, Location};
use crate::sections;
use gimli::SectionId;
use object::Object;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Tables of fewer rows are made again faster than they are found.
const WORTH_STORING: usize = 2048;

/// Size of a file whose lines may take a while.
const LARGE: u64 = 32 << 20;

/// Sections that line programs refer to.
const LINE_SECTIONS: &[SectionId] = &[
    SectionId::DebugAbbrev,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugAddr,
];

/// Lines of an object, ready for lookup.
pub struct ObjectSymbols {
    table: LineTable,
}

impl ObjectSymbols {
    /// An object nothing is known of.
    pub fn unknown() -> Self {
        ObjectSymbols { table: LineTable::empty() }
    }

    /// Finds and reads the lines of the object at `path`.
    pub fn open(path: &Path, build_id: &[u8], finder: &Finder, cache: Option<&Cache>) -> Self {
        ObjectSymbols::open_telling(path, build_id, finder, cache, |_| {})
    }

    /// As [`ObjectSymbols::open`]; `tell` is called with the object or its debug file before work
    /// begins that may take its time.
    pub fn open_telling(
        path: &Path,
        build_id: &[u8],
        finder: &Finder,
        cache: Option<&Cache>,
        tell: impl FnMut(&Path),
    ) -> Self {
        let table = open(path, build_id, finder, cache, tell);
        ObjectSymbols { table: table.unwrap_or_else(LineTable::empty) }
    }

    /// Source position of the code at `svma`.
    pub fn lookup(&self, svma: u64) -> Option<Location> {
        self.table.lookup(svma)
    }

    /// Source position of the code at `svma`, see [`LineTable::lookup_near`].
    pub fn lookup_near(&self, svma: u64, hint: &mut usize) -> Option<Location> {
        self.table.lookup_near(svma, hint)
    }

    /// Path of a source file.
    pub fn file(&self, file: u32) -> &str {
        self.table.file(file)
    }

    /// All lines.
    pub fn table(&self) -> &LineTable {
        &self.table
    }
}

fn open(
    path: &Path,
    build_id: &[u8],
    finder: &Finder,
    cache: Option<&Cache>,
    mut tell: impl FnMut(&Path),
) -> Option<LineTable> {
    if let Some(cache) = cache
        && let Some(table) = cache.load(path, build_id)
    {
        return Some(table);
    }
    if finder.has_hook() {
        tell(path);
    }
    let file = debug_file_of(path, build_id, finder)?;
    let origin = Origin::of(path, build_id, &file)?;
    if origin.size() > LARGE {
        tell(&file);
    }
    let table = read_file(&file, finder)?;
    if let Some(cache) = cache
        && table.len() >= WORTH_STORING
    {
        cache.store(path, build_id, &origin, &table);
    }
    Some(table)
}

/// The file that holds an object's DWARF: the object itself or a separate debug file.
pub fn debug_file_of<'a>(path: &'a Path, build_id: &[u8], finder: &Finder) -> Option<Cow<'a, Path>> {
    let map = sections::map_file(path)?;
    let elf = sections::parse(&map)?;
    if !sections::is_object(&elf, build_id) {
        return None;
    }
    if sections::has_lines(&elf) {
        return Some(Cow::Borrowed(path));
    }
    let own_id = elf.build_id().ok().flatten().unwrap_or(&[]);
    let link = elf.gnu_debuglink().ok().flatten();
    let file: Option<PathBuf> = finder.debug_file(&Wanted { path, build_id: own_id, link });
    file.map(Cow::Owned)
}

fn read_file(path: &Path, finder: &Finder) -> Option<LineTable> {
    let map = sections::map_file(path)?;
    let elf = sections::parse(&map)?;
    let sections = sections::load(&elf, LINE_SECTIONS);
    let mut dwarf = sections::dwarf(&sections);
    // What `dwz` found in several objects lies in a file that they share.
    let shared = sections::shared_link(&elf);
    let shared = shared.and_then(|(name, build_id)| finder.shared_file(path, name, build_id));
    let shared_map = shared.and_then(|p| sections::map_file(&p));
    let shared_elf = shared_map.as_deref().and_then(sections::parse);
    let shared_sections = shared_elf.map(|elf| sections::load(&elf, &[SectionId::DebugStr]));
    if let Some(sections) = &shared_sections {
        dwarf.set_sup(sections::dwarf(sections));
    }
    Some(lines::read(&dwarf, &sections::code_ranges(&elf)))
}
