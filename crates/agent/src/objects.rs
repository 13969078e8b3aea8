//! Mapped objects: sections and function boundaries, as far as decisions at run time need them.
//!
//! Symbol tables are read from the object's file when code of it is first translated. Names are
//! kept as they are; the host demangles. Files, lines and inlined functions are the host's alone.

use crate::index::Index;
use alloc::vec::Vec;
use tallygraph_engine::maps::Region;
use tallygraph_sys::{abi, fd, mem};
use tallygraph_wire::spool::Section;

/// A symbol that covers code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// First address, svma.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset of the name in [`Object::names`].
    name: u32,
}

/// An object at one bias.
pub struct Object {
    /// Number in the spool.
    pub id: u32,
    /// avma − svma.
    pub bias: u64,
    /// Path as mapped.
    pub path: Vec<u8>,
    /// Build-id, or empty.
    pub build_id: Vec<u8>,
    /// Calls into it are skipped.
    pub skipped: bool,
    /// Source files and lines of some of its code are known.
    pub has_lines: bool,
    /// Identity of the file.
    inode: u64,
    device: u64,
    sections: Vec<(u64, u64, Section)>,
    symbols: Vec<Symbol>,
    /// Starts of the symbols and of the sections.
    symbol_index: Index,
    section_index: Index,
    names: Vec<u8>,
}

/// File contents, mapped for as long as the value lives.
struct Bytes {
    at: u64,
    len: usize,
    mapped: bool,
}

impl Bytes {
    fn open(path: &[u8]) -> Option<Bytes> {
        let mut with_nul = path.to_vec();
        with_nul.push(0);
        let file = fd::open(&with_nul, abi::O_RDONLY, 0).ok()?;
        let len = fd::size(file).ok()? as usize;
        // SAFETY: a fresh private mapping.
        let at = unsafe {
            mem::map(mem::own_place(len as u64), len as u64, abi::PROT_READ, abi::MAP_PRIVATE, file, 0)
        };
        fd::close(file);
        Some(Bytes { at: at.ok()?, len, mapped: true })
    }

    fn get(&self) -> &[u8] {
        // SAFETY: mapped, or the vdso's pages, for the life of the value. A file truncated while
        // mapped would fault; programs do not shrink objects they execute.
        unsafe { core::slice::from_raw_parts(self.at as *const u8, self.len) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: made by `open`, nobody keeps a reference.
            let _ = unsafe { mem::unmap(self.at, self.len as u64) };
        }
    }
}

fn word<const N: usize>(b: &[u8], at: u64) -> Option<[u8; N]> {
    let at = usize::try_from(at).ok()?;
    b.get(at..at.checked_add(N)?)?.try_into().ok()
}
fn u16_at(b: &[u8], at: u64) -> Option<u64> {
    Some(u16::from_le_bytes(word(b, at)?) as u64)
}
fn u32_at(b: &[u8], at: u64) -> Option<u64> {
    Some(u32::from_le_bytes(word(b, at)?) as u64)
}
fn u64_at(b: &[u8], at: u64) -> Option<u64> {
    Some(u64::from_le_bytes(word(b, at)?))
}
fn c_str(b: &[u8], at: u64) -> &[u8] {
    let rest = b.get(at as usize..).unwrap_or(&[]);
    let n = rest.iter().position(|&c| c == 0).unwrap_or(0);
    &rest[..n]
}

struct SectionHeader {
    name: u64,
    kind: u64,
    flags: u64,
    addr: u64,
    offset: u64,
    size: u64,
    link: u64,
    entsize: u64,
}

fn section_headers(b: &[u8]) -> Option<(Vec<SectionHeader>, u64)> {
    let (shoff, shentsize, shnum, shstrndx) =
        (u64_at(b, 40)?, u16_at(b, 58)?, u16_at(b, 60)?, u16_at(b, 62)?);
    let mut all = Vec::new();
    for i in 0..shnum {
        let at = shoff.checked_add(i * shentsize)?;
        all.push(SectionHeader {
            name: u32_at(b, at)?,
            kind: u32_at(b, at + 4)?,
            flags: u64_at(b, at + 8)?,
            addr: u64_at(b, at + 16)?,
            offset: u64_at(b, at + 24)?,
            size: u64_at(b, at + 32)?,
            link: u32_at(b, at + 40)?,
            entsize: u64_at(b, at + 56)?,
        });
    }
    let strings = all.get(shstrndx as usize).map_or(u64::MAX, |s| s.offset);
    Some((all, strings))
}

/// The build-id among an object's notes.
fn build_id_note(mut notes: &[u8]) -> Option<&[u8]> {
    while let (Some(namesz), Some(descsz), Some(kind)) =
        (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8))
    {
        let name_end = 12 + ((namesz + 3) & !3) as usize;
        let desc_end = name_end + ((descsz + 3) & !3) as usize;
        let desc = notes.get(name_end..name_end + descsz as usize)?;
        if kind == 3 && notes.get(12..16) == Some(b"GNU\0") {
            return Some(desc);
        }
        notes = notes.get(desc_end..)?;
    }
    None
}

impl Object {
    /// An object that stands for a region of code in no file: nothing is known of it.
    pub fn without_file(id: u32, region: &Region) -> Object {
        Object {
            id,
            bias: 0,
            path: region.path.clone(),
            build_id: Vec::new(),
            skipped: false,
            has_lines: false,
            inode: region.inode,
            device: region.device,
            sections: Vec::new(),
            symbols: Vec::new(),
            symbol_index: Index::default(),
            section_index: Index::default(),
            names: Vec::new(),
        }
    }

    /// Reads what is known of the object mapped in `region`. Something is always returned: an
    /// object whose file can't be read has neither sections nor symbols.
    /// `debug_roots` are directories below which separate debug files are installed.
    pub fn open(id: u32, region: &Region, debug_roots: &[Vec<u8>]) -> Object {
        let mut object = Object::without_file(id, region);
        object.bias = region.start.wrapping_sub(region.offset);
        let file = if region.path == b"[vdso]" {
            Some(Bytes { at: region.start, len: (region.end - region.start) as usize, mapped: false })
        } else if region.inode != 0 {
            Bytes::open(&region.path)
        } else {
            None
        };
        if let Some(file) = file {
            let _ = object.read(file.get(), region);
            object.read_separate_debug_file(file.get(), debug_roots);
            object.settle();
        }
        object
    }

    fn read(&mut self, b: &[u8], region: &Region) -> Option<()> {
        if b.get(..4)? != b"\x7fELF" || *b.get(4)? != 2 {
            return None;
        }
        let (phoff, phentsize, phnum) = (u64_at(b, 32)?, u16_at(b, 54)?, u16_at(b, 56)?);
        for i in 0..phnum {
            let p = phoff.checked_add(i * phentsize)?;
            let (kind, offset, vaddr, filesz) =
                (u32_at(b, p)?, u64_at(b, p + 8)?, u64_at(b, p + 16)?, u64_at(b, p + 32)?);
            if kind == 1 && (mem::page_down(offset)..offset.saturating_add(filesz)).contains(&region.offset) {
                self.bias = region.start.wrapping_sub(vaddr.wrapping_sub(offset).wrapping_add(region.offset));
            }
            if kind == 4 {
                let notes = b.get(offset as usize..(offset.checked_add(filesz)?) as usize)?;
                if let Some(id) = build_id_note(notes) {
                    self.build_id = id.to_vec();
                }
            }
        }
        self.read_sections(b);
        self.read_symbols(b);
        Some(())
    }

    fn read_sections(&mut self, b: &[u8]) {
        let Some((headers, strings)) = section_headers(b) else { return };
        for s in &headers {
            const ALLOC: u64 = 2;
            const EXEC: u64 = 4;
            let name = c_str(b, strings.saturating_add(s.name));
            self.has_lines |= matches!(name, b".debug_line" | b".zdebug_line");
            if s.flags & ALLOC == 0 || s.size == 0 {
                continue;
            }
            let kind = if name.starts_with(b".plt") {
                Section::Plt
            } else if name.starts_with(b".got") {
                Section::Got
            } else if s.flags & EXEC != 0 {
                Section::Text
            } else if s.kind == 8 {
                Section::Bss
            } else {
                Section::Data
            };
            self.sections.push((s.addr, s.addr.saturating_add(s.size), kind));
        }
        self.sections.sort_unstable_by_key(|s| s.0);
    }

    fn read_symbols(&mut self, b: &[u8]) {
        let Some((headers, _)) = section_headers(b) else { return };
        for s in headers.iter().filter(|s| matches!(s.kind, 2 | 11) && s.entsize >= 24) {
            let Some(strings) = headers.get(s.link as usize) else { continue };
            for i in 0..s.size / s.entsize {
                let _ = self.read_symbol(b, s.offset.saturating_add(i * s.entsize), strings.offset, &headers);
            }
        }
    }

    fn read_symbol(&mut self, b: &[u8], at: u64, strings: u64, headers: &[SectionHeader]) -> Option<()> {
        let info = *b.get(at as usize + 4)?;
        let (name, shndx) = (u32_at(b, at)?, u16_at(b, at + 6)?);
        let (value, size) = (u64_at(b, at + 8)?, u64_at(b, at + 16)?);
        let kind = info & 15;
        // FUNC, IFUNC; NOTYPE labels of assembly code.
        if !matches!(kind, 0 | 2 | 10) || name == 0 || shndx == 0 {
            return None;
        }
        let section = headers.get(shndx as usize)?;
        if section.flags & 4 == 0 {
            return None;
        }
        let text = c_str(b, strings.checked_add(name)?);
        if text.is_empty() {
            return None;
        }
        let start = self.names.len() as u32;
        self.names.extend_from_slice(text);
        self.names.push(0);
        // Size zero: up to the next symbol or the end of the section; settled when all are known.
        let end = if size == 0 { 0 } else { value.saturating_add(size) };
        self.symbols.push(Symbol { start: value, end, name: start });
        Some(())
    }

    /// Adds the symbol table of the object's separate debug file, when one is installed: by build-id
    /// below the roots, or where `.gnu_debuglink` says. `b` is the object.
    fn read_separate_debug_file(&mut self, b: &[u8], roots: &[Vec<u8>]) {
        let found = separate::by_build_id(&self.build_id, roots)
            .or_else(|| separate::by_link(b, &self.path, &self.build_id, roots));
        if let Some(file) = found {
            self.read_symbols(file.get());
            let named = section_headers(file.get());
            self.has_lines |= named.is_some_and(|(headers, strings)| {
                let name = |s: &SectionHeader| c_str(file.get(), strings.saturating_add(s.name));
                headers.iter().any(|s| matches!(name(s), b".debug_line" | b".zdebug_line"))
            });
        }
    }

    /// Sorts symbols, gives each address one name, and bounds symbols without a size.
    fn settle(&mut self) {
        let Object { names, symbols, .. } = self;
        let name_of = |s: &Symbol| c_str(names, s.name as u64);
        symbols.sort_unstable_by(|a, b| a.start.cmp(&b.start).then_with(|| prefer(name_of(a), name_of(b))));
        let mut kept: Vec<Symbol> = Vec::with_capacity(symbols.len());
        for s in symbols.iter() {
            match kept.last_mut() {
                Some(last) if last.start == s.start => last.end = last.end.max(s.end),
                _ => kept.push(*s),
            }
        }
        for i in 0..kept.len() {
            let next = kept.get(i + 1).map_or(u64::MAX, |n| n.start);
            let s = kept[i];
            let end = if s.end == 0 {
                let section = self.sections.iter().find(|x| (x.0..x.1).contains(&s.start));
                section.map_or(s.start + 1, |x| x.1).min(next)
            } else {
                s.end.min(next)
            };
            kept[i].end = end;
        }
        self.symbol_index = Index::new(kept.iter().map(|s| s.start).collect());
        self.section_index = Index::new(self.sections.iter().map(|s| s.0).collect());
        self.symbols = kept;
    }

    /// True when `region` is a mapping of this object at this bias.
    pub fn is_mapped_in(&self, region: &Region) -> bool {
        self.inode == region.inode && self.device == region.device && self.path == region.path
    }

    /// The symbol that covers an svma.
    pub fn symbol_at(&self, svma: u64) -> Option<&Symbol> {
        let s = self.symbols.get(self.symbol_index.upto(svma).checked_sub(1)?)?;
        (svma < s.end).then_some(s)
    }

    /// The first svma behind this one at which a symbol or a section begins.
    pub fn next_border(&self, svma: u64) -> u64 {
        let symbol = self.symbol_index.next(svma).unwrap_or(u64::MAX);
        symbol.min(self.section_index.next(svma).unwrap_or(u64::MAX))
    }

    /// Raw name of a symbol.
    pub fn name(&self, symbol: &Symbol) -> &[u8] {
        c_str(&self.names, symbol.name as u64)
    }

    /// Kind of section at an svma.
    pub fn section_at(&self, svma: u64) -> Section {
        match self.section_index.upto(svma).checked_sub(1).map(|i| self.sections[i]) {
            Some((_, end, kind)) if svma < end => kind,
            _ => Section::Unknown,
        }
    }
}

/// Separate debug files.
mod separate {
    use super::*;

    /// `ROOT/.build-id/xx/yyyy.debug` of the first root that has it.
    pub fn by_build_id(build_id: &[u8], roots: &[Vec<u8>]) -> Option<Bytes> {
        if build_id.len() < 2 {
            return None;
        }
        let mut name = b"/.build-id/".to_vec();
        for (i, byte) in build_id.iter().enumerate() {
            for digit in [byte >> 4, byte & 15] {
                name.push(b"0123456789abcdef"[digit as usize]);
            }
            if i == 0 {
                name.push(b'/');
            }
        }
        name.extend_from_slice(b".debug");
        let files = roots.iter().filter_map(|root| Bytes::open(&[root, &name[..]].concat()));
        files.into_iter().find(|file| is_elf(file.get()))
    }

    /// The file named by an object's `.gnu_debuglink`: beside it, in `.debug`, or below a root.
    pub fn by_link(object: &[u8], path: &[u8], build_id: &[u8], roots: &[Vec<u8>]) -> Option<Bytes> {
        let (headers, strings) = section_headers(object)?;
        let named = |s: &&SectionHeader| c_str(object, strings.saturating_add(s.name)) == b".gnu_debuglink";
        let section = headers.iter().find(named)?;
        let name = c_str(object, section.offset);
        let checksum = u32_at(object, section.offset.checked_add((name.len() as u64 + 4) & !3)?)? as u32;
        let directory = &path[..path.iter().rposition(|&c| c == b'/')?];
        if name.is_empty() {
            return None;
        }
        let mut places =
            alloc::vec![[directory, b"/", name].concat(), [directory, b"/.debug/", name].concat(),];
        for root in roots {
            places.push([root, directory, b"/", name].concat());
            places.push([&root[..], b"/", name].concat());
        }
        let other = places.iter().filter(|p| &p[..] != path);
        other.filter_map(|p| Bytes::open(p)).find(|file| {
            let b = file.get();
            match build_id_of(b) {
                Some(id) if !build_id.is_empty() => id == build_id,
                _ => is_elf(b) && crc32(b) == checksum,
            }
        })
    }

    fn is_elf(b: &[u8]) -> bool {
        b.get(..4) == Some(b"\x7fELF")
    }

    fn build_id_of(b: &[u8]) -> Option<&[u8]> {
        if !is_elf(b) {
            return None;
        }
        let (headers, _) = section_headers(b)?;
        let notes = headers.iter().filter(|s| s.kind == 7);
        notes.into_iter().find_map(|s| {
            let start = usize::try_from(s.offset).ok()?;
            build_id_note(b.get(start..start.checked_add(usize::try_from(s.size).ok()?)?)?)
        })
    }

    /// The checksum of `.gnu_debuglink` (CRC-32 as in zip files).
    pub fn crc32(bytes: &[u8]) -> u32 {
        let mut table = [0u32; 256];
        for (n, entry) in table.iter_mut().enumerate() {
            *entry = (0..8).fold(n as u32, |c, _| if c & 1 != 0 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 });
        }
        !bytes.iter().fold(!0, |c, &b| table[((c ^ b as u32) & 0xff) as usize] ^ (c >> 8))
    }
}

/// Which of two names of one address is shown, as Valgrind chooses: the one that is shorter up to its
/// version, then the one with a version, then the first in byte order.
fn prefer(a: &[u8], b: &[u8]) -> core::cmp::Ordering {
    let plain = |n: &[u8]| n.iter().position(|&c| c == b'@').unwrap_or(n.len());
    let (la, lb) = (plain(a), plain(b));
    la.cmp(&lb).then((lb < b.len()).cmp(&(la < a.len()))).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallygraph_engine::maps::Maps;

    #[test]
    fn this_test_finds_itself() {
        let mut maps = Maps::new();
        let here = this_test_finds_itself as *const () as u64;
        let region = maps.exec_region(here).unwrap().clone();
        let object = Object::open(1, &region, &[]);
        let svma = here - object.bias;
        let symbol = object.symbol_at(svma).expect("a symbol");
        let name = String::from_utf8_lossy(object.name(symbol)).into_owned();
        assert!(name.contains("this_test_finds_itself"), "{name}");
        assert_eq!(object.section_at(svma), Section::Text);
        assert!(object.is_mapped_in(&region));
    }

    #[test]
    fn the_checksum_is_that_of_zip_files() {
        assert_eq!(separate::crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn the_shortest_name_is_preferred_and_of_these_the_versioned_one() {
        let mut names = [&b"__libc_malloc"[..], b"malloc", b"malloc@@GLIBC_2.2.5", b"alloca"];
        names.sort_by(|a, b| prefer(a, b));
        assert_eq!(names[0], b"malloc@@GLIBC_2.2.5");
        assert_eq!(names[1], b"alloca");
    }
}
