//! Names of functions that an object's own symbol tables leave out: from its separate debug file, or
//! from its mini debug information, the section `.gnu_debugdata`.
//!
//! That section is an ELF file of nothing but a symbol table, packed with `xz`.

use crate::find::Finder;
use crate::object::debug_file_of;
use crate::sections::{self, Elf};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

/// Largest unpacked section that is read.
const LARGEST: usize = 256 << 20;

/// A function: first address, address after the last, place of its name in the text.
#[derive(Clone, Copy, Debug)]
struct Function {
    start: u64,
    end: u64,
    name: (u32, u32),
}

/// Functions by address.
#[derive(Debug, Default)]
pub struct MoreNames {
    /// Sorted by start.
    functions: Vec<Function>,
    text: String,
}

impl MoreNames {
    /// What is known of the object at `path` beyond its own tables.
    pub fn open(path: &Path, build_id: &[u8], finder: &Finder) -> MoreNames {
        let mut names = MoreNames::default();
        if let Some(map) = sections::map_file(path)
            && let Some(elf) = sections::parse(&map)
            && sections::is_object(&elf, build_id)
            && let Some(unpacked) = unpack_section(&elf)
            && let Some(mini) = sections::parse(&unpacked)
        {
            names.read(&mini);
        }
        if let Some(Cow::Owned(file)) = debug_file_of(path, build_id, finder)
            && let Some(map) = sections::map_file(&file)
            && let Some(elf) = sections::parse(&map)
        {
            names.read(&elf);
        }
        names.functions.sort_by_key(|f| (f.start, f.end));
        names
    }

    fn read(&mut self, elf: &Elf<'_>) {
        for symbol in elf.symbols() {
            let Ok(name) = symbol.name() else { continue };
            if symbol.kind() != SymbolKind::Text || symbol.is_undefined() || name.is_empty() {
                continue;
            }
            let place = (self.text.len() as u32, name.len() as u32);
            if self.text.len() + name.len() > u32::MAX as usize {
                return;
            }
            self.text.push_str(name);
            let start = symbol.address();
            let end = start.saturating_add(symbol.size().max(1));
            self.functions.push(Function { start, end, name: place });
        }
    }

    /// Raw name of the function that covers `svma`.
    pub fn lookup(&self, svma: u64) -> Option<&str> {
        let after = self.functions.partition_point(|f| f.start <= svma);
        let function = self.functions[..after].last().filter(|f| svma < f.end)?;
        let start = function.name.0 as usize;
        self.text.get(start..start + function.name.1 as usize)
    }
}

/// Bytes up to a limit: packed data may claim to be of any size.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST {
            return Err(io::Error::other("too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn unpack_section(elf: &Elf<'_>) -> Option<Vec<u8>> {
    let packed = elf.section_by_name(".gnu_debugdata")?.data().ok()?;
    unpack(packed)
}

/// Unpacks `xz` data; none when it is damaged.
fn unpack(mut packed: &[u8]) -> Option<Vec<u8>> {
    let mut out = Limited(Vec::new());
    // The decoder checks its input, but was written by others: damage may cost names, not the profile.
    let unpacked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lzma_rs::xz_decompress(&mut packed, &mut out).is_ok()
    }));
    unpacked.is_ok_and(|whole| whole).then_some(out.0)
}
