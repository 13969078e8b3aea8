//! Line tables: for every code address of an object its source file and line.
//!
//! The DWARF line programs of all units are run once and become one sorted array of rows. A row
//! holds from its address up to the next one. Rows that start no statement count too, as in Valgrind.
//!
//! The table is one run of bytes in the machine's own order, so that a stored table is used where it
//! was mapped (see [`crate::cache`]):
//!
//! ```text
//! rows: u64  files: u64  text: u64 | rows × (address u64, file u32, line u32) |
//! files × (offset u32, length u32) | text
//! ```

use crate::sections::Slice;
use gimli::{Dwarf, Section as _};
use memmap2::Mmap;
use rayon::prelude::*;
use std::collections::HashMap;
use std::ops::Range;

/// Size of `.debug_line` from which several threads share the work; below, starting them costs more
/// than it saves.
const PARALLEL_FROM: usize = 4 << 20;

/// A source position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index for [`LineTable::file`].
    pub file: u32,
    /// Line, 0 where the compiler names none.
    pub line: u32,
}

/// File index of a row at which known lines end.
const NOTHING: u32 = u32::MAX;
const ROW: usize = 16;
const HEAD: usize = 24;

enum Bytes {
    Owned(Vec<u8>),
    Mapped(Mmap, usize),
}

/// All lines of one object.
pub struct LineTable {
    bytes: Bytes,
    rows: usize,
    files: usize,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl LineTable {
    /// A table without rows.
    pub fn empty() -> LineTable {
        encode(&[], &[])
    }

    /// The table stored in `map` from `offset` on; none when its parts do not add up.
    pub fn from_map(map: Mmap, offset: usize) -> Option<LineTable> {
        let table = LineTable { bytes: Bytes::Mapped(map, offset), rows: 0, files: 0 };
        table.checked()
    }

    fn checked(mut self) -> Option<LineTable> {
        let bytes = self.as_bytes();
        if bytes.len() < HEAD {
            return None;
        }
        let (rows, files, text) = (u64_at(bytes, 0), u64_at(bytes, 8), u64_at(bytes, 16));
        let size = rows.checked_mul(ROW as u64)?.checked_add(files.checked_mul(8)?)?.checked_add(text)?;
        if size.checked_add(HEAD as u64)? != bytes.len() as u64 {
            return None;
        }
        self.rows = rows as usize;
        self.files = files as usize;
        Some(self)
    }

    /// The table as bytes, for storing.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped(map, offset) => &map[*offset..],
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True when nothing is known.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn address(&self, bytes: &[u8], row: usize) -> u64 {
        u64_at(bytes, HEAD + row * ROW)
    }

    /// The position of the code at `svma`.
    pub fn lookup(&self, svma: u64) -> Option<Location> {
        self.lookup_near(svma, &mut 0)
    }

    /// The position of the code at `svma`, quickly when it lies at or shortly after the code that was
    /// asked for before with the same `hint`.
    pub fn lookup_near(&self, svma: u64, hint: &mut usize) -> Option<Location> {
        let bytes = self.as_bytes();
        let after = |row: usize| row >= self.rows || self.address(bytes, row) > svma;
        let row = match *hint {
            row if row < self.rows && self.address(bytes, row) <= svma => {
                (row..row + 4).find(|&r| after(r + 1)).or_else(|| self.search(bytes, svma))?
            }
            _ => self.search(bytes, svma)?,
        };
        *hint = row;
        let at = HEAD + row * ROW;
        let file = u32_at(bytes, at + 8);
        (file != NOTHING).then(|| Location { file, line: u32_at(bytes, at + 12) })
    }

    /// The last row at or before `svma`.
    fn search(&self, bytes: &[u8], svma: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low.midpoint(high);
            if self.address(bytes, middle) <= svma {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    /// Path of a file, as joined from the compilation directory, the directory and the name.
    pub fn file(&self, file: u32) -> &str {
        let bytes = self.as_bytes();
        let index = HEAD + self.rows * ROW;
        let text = index + self.files * 8;
        if file as usize >= self.files {
            return "???";
        }
        let entry = index + file as usize * 8;
        let start = text + u32_at(bytes, entry) as usize;
        let part = bytes.get(start..start + u32_at(bytes, entry + 4) as usize);
        part.and_then(|p| std::str::from_utf8(p).ok()).unwrap_or("???")
    }
}

/// A row before encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    address: u64,
    file: u32,
    line: u32,
}

fn encode(rows: &[Row], files: &[String]) -> LineTable {
    let text: usize = files.iter().map(String::len).sum();
    let mut bytes = Vec::with_capacity(HEAD + rows.len() * ROW + files.len() * 8 + text);
    for n in [rows.len(), files.len(), text] {
        bytes.extend_from_slice(&(n as u64).to_le_bytes());
    }
    for row in rows {
        bytes.extend_from_slice(&row.address.to_le_bytes());
        bytes.extend_from_slice(&row.file.to_le_bytes());
        bytes.extend_from_slice(&row.line.to_le_bytes());
    }
    let mut offset = 0u32;
    for file in files {
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&(file.len() as u32).to_le_bytes());
        offset += file.len() as u32;
    }
    for file in files {
        bytes.extend_from_slice(file.as_bytes());
    }
    LineTable { bytes: Bytes::Owned(bytes), rows: rows.len(), files: files.len() }
}

/// What one unit's line program says.
#[derive(Default)]
struct UnitLines {
    rows: Vec<Row>,
    /// Start address and rows of each sequence.
    sequences: Vec<(u64, Range<usize>)>,
    files: Vec<String>,
}

/// Reads all line programs. Sequences that start outside `code` (functions the linker dropped) are
/// left out.
pub fn read(dwarf: &Dwarf<Slice<'_>>, code: &[Range<u64>]) -> LineTable {
    let mut headers = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        headers.push(header);
    }
    let unit_lines = |header| read_unit(dwarf, header, code).unwrap_or_default();
    let units: Vec<UnitLines> = if dwarf.debug_line.reader().len() >= PARALLEL_FROM {
        headers.into_par_iter().map(unit_lines).collect()
    } else {
        headers.into_iter().map(unit_lines).collect()
    };
    join(units)
}

fn read_unit<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    header: gimli::UnitHeader<Slice<'a>>,
    code: &[Range<u64>],
) -> Option<UnitLines> {
    let unit = dwarf.unit(header).ok()?;
    let program = unit.line_program.clone()?;
    let mut lines = UnitLines { files: file_names(dwarf, &unit, program.header()), ..Default::default() };
    let mut rows = program.rows();
    let mut start = 0;
    while let Ok(Some((header, row))) = rows.next_row() {
        let address = row.address();
        if row.end_sequence() {
            lines.rows.push(Row { address, file: NOTHING, line: 0 });
            let first = lines.rows[start].address;
            if address > first && inside(code, first) {
                lines.sequences.push((first, start..lines.rows.len()));
            } else {
                lines.rows.truncate(start);
            }
            start = lines.rows.len();
        } else {
            // DWARF 5 counts files from 0, earlier versions from 1.
            let first = if header.version() >= 5 { 0 } else { 1 };
            let file = (row.file_index().saturating_sub(first)).min(NOTHING as u64 - 1) as u32;
            let line = row.line().map_or(0, |l| l.get() as u32);
            lines.rows.push(Row { address, file, line });
        }
    }
    lines.rows.truncate(start);
    Some(lines)
}

fn inside(code: &[Range<u64>], address: u64) -> bool {
    let after = code.partition_point(|r| r.start <= address);
    after > 0 && address < code[after - 1].end
}

/// Paths of a line program's files, joined as Valgrind does: a relative directory is appended to the
/// compilation directory.
fn file_names<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &gimli::Unit<Slice<'a>>,
    header: &gimli::LineProgramHeader<Slice<'a>>,
) -> Vec<String> {
    let text = |value| dwarf.attr_string(unit, value).ok().map(|s| s.to_string_lossy().into_owned());
    let base = unit.comp_dir.map_or(String::new(), |d| d.to_string_lossy().into_owned());
    let mut names = Vec::with_capacity(header.file_names().len());
    for entry in header.file_names() {
        let name = text(entry.path_name()).unwrap_or_default();
        // Directory 0 is the compilation directory; DWARF 5 spells it out, and when it is relative
        // Valgrind shows it twice.
        let directory = if entry.directory_index() == 0 && header.version() < 5 {
            String::new()
        } else {
            entry.directory(header).and_then(text).unwrap_or_default()
        };
        names.push(join_path(&base, &directory, &name));
    }
    names
}

fn join_path(base: &str, directory: &str, name: &str) -> String {
    let mut path = String::with_capacity(base.len() + directory.len() + name.len() + 2);
    for part in [base, directory, name] {
        if part.starts_with('/') {
            path.clear();
        }
        if !path.is_empty() && !part.is_empty() {
            path.push('/');
        }
        path.push_str(part);
    }
    path
}

fn join(units: Vec<UnitLines>) -> LineTable {
    let mut files: Vec<String> = Vec::new();
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut sequences: Vec<(u64, usize, Range<usize>)> = Vec::new();
    let mut numbers: Vec<Vec<u32>> = Vec::with_capacity(units.len());
    let mut all_rows: Vec<Vec<Row>> = Vec::with_capacity(units.len());
    for (u, unit) in units.into_iter().enumerate() {
        sequences.extend(unit.sequences.into_iter().map(|(start, rows)| (start, u, rows)));
        let number = |name: String| match known.get(&name) {
            Some(&n) => n,
            None => {
                let n = files.len() as u32;
                files.push(name.clone());
                known.insert(name, n);
                n
            }
        };
        // Units without code would only fill the table with names.
        numbers.push(if unit.rows.is_empty() {
            Vec::new()
        } else {
            unit.files.into_iter().map(number).collect()
        });
        all_rows.push(unit.rows);
    }
    sequences.sort_by_key(|s| s.0);
    let mut rows: Vec<Row> = Vec::with_capacity(sequences.iter().map(|s| s.2.len()).sum());
    for (_, u, range) in sequences {
        for row in &all_rows[u][range] {
            let file = if row.file == NOTHING {
                NOTHING
            } else {
                numbers[u].get(row.file as usize).copied().unwrap_or(NOTHING)
            };
            push(&mut rows, Row { file, ..*row });
        }
    }
    encode(&rows, &files)
}

/// Appends a row that holds from its address on: of rows at one address the last one counts, and a
/// row that repeats the one before adds nothing.
fn push(rows: &mut Vec<Row>, row: Row) {
    while rows.last().is_some_and(|last| last.address >= row.address) {
        rows.pop();
    }
    if rows.last().is_none_or(|last| (last.file, last.line) != (row.file, row.line)) {
        rows.push(row);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A table with rows of address, file and line.
    pub fn table(rows: &[(u64, &str, u32)]) -> LineTable {
        let mut unit = UnitLines { sequences: vec![(rows[0].0, 0..rows.len())], ..Default::default() };
        for &(address, file, line) in rows {
            let known = unit.files.iter().position(|f| f == file);
            let file = known.unwrap_or_else(|| {
                unit.files.push(file.to_string());
                unit.files.len() - 1
            });
            unit.rows.push(Row { address, file: file as u32, line });
        }
        join(vec![unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(address: u64, file: u32, line: u32) -> Row {
        Row { address, file, line }
    }

    #[test]
    fn paths_are_joined_as_valgrind_does() {
        assert_eq!(join_path("/src", "", "a.c"), "/src/a.c");
        assert_eq!(join_path("/src", "inc", "a.h"), "/src/inc/a.h");
        assert_eq!(join_path("/src", "/usr/include", "a.h"), "/usr/include/a.h");
        assert_eq!(join_path("./csu", "../csu", "start.c"), "./csu/../csu/start.c");
        assert_eq!(join_path("/src", "inc", "/abs.c"), "/abs.c");
        assert_eq!(join_path("", "", "a.c"), "a.c");
    }

    #[test]
    fn a_row_holds_up_to_the_next() {
        let unit = UnitLines {
            rows: vec![row(0x20, 0, 7), row(0x24, 1, 3), row(0x24, 0, 8), row(0x30, NOTHING, 0)],
            sequences: vec![(0x20, 0..4)],
            files: vec!["a.c".into(), "b.h".into()],
        };
        let second = UnitLines {
            rows: vec![row(0x10, 0, 1), row(0x20, NOTHING, 0)],
            sequences: vec![(0x10, 0..2)],
            files: vec!["b.h".into()],
        };
        let table = join(vec![unit, second]);
        let at = |svma| table.lookup(svma).map(|l| (table.file(l.file), l.line));
        assert_eq!(at(0xf), None);
        assert_eq!(at(0x10), Some(("b.h", 1)));
        assert_eq!(at(0x1f), Some(("b.h", 1)));
        assert_eq!(at(0x20), Some(("a.c", 7)));
        assert_eq!(at(0x23), Some(("a.c", 7)));
        assert_eq!(at(0x24), Some(("a.c", 8)));
        assert_eq!(at(0x2f), Some(("a.c", 8)));
        assert_eq!(at(0x30), None);
        // From any hint, even a senseless one, the answer is the same.
        for hint in 0..9 {
            for svma in 0..0x40 {
                assert_eq!(
                    table.lookup_near(svma, &mut hint.clone()),
                    table.lookup(svma),
                    "{hint} {svma:#x}"
                );
            }
        }
    }

    #[test]
    fn a_table_whose_parts_do_not_add_up_is_refused() {
        let good = encode(&[row(1, 0, 1)], &["a".to_string()]);
        for n in 0..good.as_bytes().len() {
            let cut = LineTable { bytes: Bytes::Owned(good.as_bytes()[..n].to_vec()), rows: 0, files: 0 };
            assert!(cut.checked().is_none(), "{n} bytes");
        }
        let whole = LineTable { bytes: Bytes::Owned(good.as_bytes().to_vec()), rows: 0, files: 0 };
        assert_eq!(whole.checked().unwrap().lookup(5), Some(Location { file: 0, line: 1 }));
    }
}
