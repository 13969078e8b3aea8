//! Inline frames: the functions that an instruction belongs to, innermost first.
//!
//! Lines alone need the line tables only (see [`crate::lines`]); this reads the tree of functions too,
//! unit by unit as addresses are asked for. Units that were split into `.dwo` files or a `.dwp`
//! package are looked for where the compiler put them and beside the object.

use crate::find::Finder;
use crate::object::debug_file_of;
use crate::sections::{self, Elf, map_file, parse};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{DwarfPackage, EndianArcSlice, LittleEndian, Reader as _, SectionId};
use object::{Object, ObjectSection};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Slice = EndianArcSlice<LittleEndian>;
type Dwarf = gimli::Dwarf<Slice>;

/// A function at an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Linkage name, or the name in the source; see [`crate::Demangler`].
    pub function: Option<String>,
    /// Source file; of outer frames, that of the call.
    pub file: Option<String>,
    /// Line, 0 when unknown.
    pub line: u32,
}

/// The functions of one object.
pub struct InlineFrames {
    context: Context<Slice>,
    package: Option<DwarfPackage<Slice>>,
    directory: PathBuf,
}

fn section(elf: &Elf<'_>, name: &str) -> Slice {
    let data = elf.section_by_name(name).and_then(|s| s.uncompressed_data().ok());
    EndianArcSlice::new(Arc::from(data.as_deref().unwrap_or(&[])), LittleEndian)
}

/// Loads a file's sections, under the names `name` gives them.
fn load(path: &Path, name: impl Fn(SectionId) -> Option<&'static str>) -> Option<(Dwarf, memmap2::Mmap)> {
    let map = map_file(path)?;
    let elf = parse(&map)?;
    let load = |id| Ok::<_, std::convert::Infallible>(section(&elf, name(id).unwrap_or("")));
    let Ok(dwarf) = gimli::Dwarf::load(load);
    Some((dwarf, map))
}

impl InlineFrames {
    /// Reads the object at `path`; none when there is no debug information.
    pub fn open(path: &Path, build_id: &[u8], finder: &Finder) -> Option<InlineFrames> {
        let file = debug_file_of(path, build_id, finder)?;
        let (mut dwarf, map) = load(&file, |id| Some(id.name()))?;
        let elf = parse(&map)?;
        let shared = sections::shared_link(&elf);
        if let Some(shared) = shared.and_then(|(name, id)| finder.shared_file(&file, name, id))
            && let Some((shared, _)) = load(&shared, |id| Some(id.name()))
        {
            dwarf.set_sup(shared);
        }
        let mut package = file.as_os_str().to_owned();
        package.push(".dwp");
        Some(InlineFrames {
            context: Context::from_dwarf(dwarf).ok()?,
            package: open_package(Path::new(&package)),
            directory: file.parent()?.to_path_buf(),
        })
    }

    /// The frames at `svma`, innermost first; empty when nothing is known.
    pub fn frames(&self, svma: u64) -> Vec<Frame> {
        let mut lookup = self.context.find_frames(svma);
        let found = loop {
            match lookup {
                LookupResult::Output(found) => break found,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.split_unit(&load));
                }
            }
        };
        let mut frames = Vec::new();
        let Ok(mut found) = found else { return frames };
        while let Ok(Some(frame)) = found.next() {
            frames.push(Frame {
                function: frame.function.and_then(|f| Some(f.raw_name().ok()?.into_owned())),
                file: frame.location.as_ref().and_then(|l| l.file).map(str::to_string),
                line: frame.location.and_then(|l| l.line).unwrap_or(0),
            });
        }
        frames
    }

    /// The part of a unit that was split off.
    fn split_unit(&self, load: &SplitDwarfLoad<Slice>) -> Option<Arc<Dwarf>> {
        if let Some(package) = &self.package
            && let Ok(Some(dwarf)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(dwarf));
        }
        let text =
            |part: &Option<Slice>| part.as_ref().and_then(|p| p.to_slice().ok().map(|b| b.into_owned()));
        let named = PathBuf::from(OsStr::from_bytes(&text(&load.path)?));
        let compiled = text(&load.comp_dir).map(|d| Path::new(OsStr::from_bytes(&d)).join(&named));
        let beside = self.directory.join(named.file_name()?);
        let places = [compiled, Some(self.directory.join(&named)), Some(beside)];
        places.into_iter().flatten().find_map(|path| self.dwo(&path, load))
    }

    /// The `.dwo` file at `path`, if it is the one that is meant.
    fn dwo(&self, path: &Path, load: &SplitDwarfLoad<Slice>) -> Option<Arc<Dwarf>> {
        let (mut dwarf, _) = self::load(path, |id| id.dwo_name())?;
        dwarf.make_dwo(&load.parent);
        let header = dwarf.units().next().ok()??;
        let unit = dwarf.unit(header).ok()?;
        (unit.dwo_id == Some(load.dwo_id)).then(|| Arc::new(dwarf))
    }
}

fn open_package(path: &Path) -> Option<DwarfPackage<Slice>> {
    let map = map_file(path)?;
    let elf = parse(&map)?;
    let load = |id: SectionId| Ok::<_, gimli::Error>(section(&elf, id.dwo_name().unwrap_or("")));
    DwarfPackage::load(load, EndianArcSlice::new(Arc::from([]), LittleEndian)).ok()
}
