//! Sections of an object file, decompressed, as `gimli` wants them.

use gimli::{EndianSlice, LittleEndian};
use memmap2::{Mmap, MmapOptions};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// Bytes of one section as `gimli` reads them.
pub type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Maps a file for reading; none when it can't be opened or is empty.
pub fn map_file(path: &Path) -> Option<Mmap> {
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    // SAFETY: object files are replaced, not changed in place, while programs run from them; a file
    // that shrinks under us could fault, which debuggers accept too.
    unsafe { Mmap::map(&file) }.ok()
}

/// Maps a small file with all its pages at once, or a large one as [`map_file`] does.
pub fn map_whole_file(path: &Path) -> Option<Mmap> {
    const SMALL: u64 = 8 << 20;
    let file = File::open(path).ok()?;
    let size = file.metadata().ok().filter(|m| m.is_file())?.len();
    let mut options = MmapOptions::new();
    if size <= SMALL {
        options.populate();
    }
    // SAFETY: as for `map_file`.
    unsafe { options.map(&file) }.ok()
}

/// An ELF file of this machine's class.
pub type Elf<'a> = ElfFile64<'a, object::LittleEndian>;

/// Parses an ELF file of this machine's class; none for anything else.
pub fn parse(bytes: &[u8]) -> Option<Elf<'_>> {
    ElfFile64::parse(bytes).ok()
}

/// The DWARF sections of an object.
pub type Sections<'a> = gimli::DwarfSections<Cow<'a, [u8]>>;

/// Loads the sections that line and inline information needs; compressed ones are decompressed.
pub fn load<'a>(elf: &Elf<'a>, wanted: &[gimli::SectionId]) -> Sections<'a> {
    let section = |id: gimli::SectionId| -> Result<Cow<'a, [u8]>, std::convert::Infallible> {
        if !wanted.contains(&id) {
            return Ok(Cow::Borrowed(&[]));
        }
        let found = elf.section_by_name(id.name());
        Ok(found.and_then(|s| s.uncompressed_data().ok()).unwrap_or(Cow::Borrowed(&[])))
    };
    match gimli::DwarfSections::load(section) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}

/// The sections as a `Dwarf` that borrows from them.
pub fn dwarf<'a>(sections: &'a Sections<'_>) -> gimli::Dwarf<Slice<'a>> {
    sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian))
}

/// True when the file is the object of that build-id. It may have been replaced since it was mapped:
/// then it is another one.
pub fn is_object(elf: &Elf<'_>, build_id: &[u8]) -> bool {
    build_id.is_empty() || elf.build_id().ok().flatten().unwrap_or(&[]) == build_id
}

/// Name and build-id of the file that holds what several objects share: `.gnu_debugaltlink` as `dwz`
/// makes it, or `.debug_sup` of DWARF 5 (section 7.3.6).
pub fn shared_link<'a>(elf: &Elf<'a>) -> Option<(&'a [u8], &'a [u8])> {
    if let Ok(Some(link)) = elf.gnu_debugaltlink() {
        return Some(link);
    }
    // Version, a flag that says which of the two files this is, name, length of the id, id.
    let data = elf.section_by_name(".debug_sup")?.data().ok()?;
    let (head, rest) = data.split_at_checked(3)?;
    if head != [5, 0, 0] {
        return None;
    }
    let end = rest.iter().position(|&b| b == 0)?;
    let mut id = EndianSlice::new(&rest[end + 1..], LittleEndian);
    let length = gimli::Reader::read_uleb128(&mut id).ok()?;
    Some((&rest[..end], id.slice().get(..usize::try_from(length).ok()?)?))
}

/// True when the object has line information of its own.
pub fn has_lines(elf: &Elf<'_>) -> bool {
    elf.section_by_name(".debug_line").is_some_and(|s| s.size() > 0)
}

/// Address ranges of executable sections, sorted. In a separate debug file these sections have no
/// contents but keep their addresses.
pub fn code_ranges(elf: &Elf<'_>) -> Vec<Range<u64>> {
    const ALLOC_EXEC: u64 = 2 | 4;
    let mut ranges: Vec<Range<u64>> = elf
        .sections()
        .filter(|s| match s.flags() {
            object::SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & ALLOC_EXEC == ALLOC_EXEC,
            _ => false,
        })
        .map(|s| s.address()..s.address().saturating_add(s.size()))
        .collect();
    ranges.sort_by_key(|r| r.start);
    ranges
}
