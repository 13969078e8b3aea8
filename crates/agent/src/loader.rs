//! Loads the guest's program and its interpreter as the kernel would, and corrects the auxiliary
//! vector on the kernel's own stack.

use crate::auxv::{Auxv, at};
use alloc::vec::Vec;
use tallygraph_engine::layout::{OBJECTS_END, OBJECTS_START};
use tallygraph_sys::abi;
use tallygraph_sys::mem::{self, page_down, page_up};
use tallygraph_sys::{Errno, fd};

/// A program or interpreter in memory.
pub struct Image {
    /// Address of the first instruction.
    pub entry: u64,
    /// avma − svma.
    pub bias: u64,
    /// avma of the program headers.
    pub phdr: u64,
    /// Number of program headers.
    pub phnum: u64,
    /// Path of the interpreter, NUL-terminated, if the program asks for one.
    pub interpreter: Option<Vec<u8>>,
    /// The program asks for an executable stack.
    pub executable_stack: bool,
}

/// Why a file can't be loaded. The host checks files before it starts the guest, so these are
/// seen only when a file changes in between or memory is short.
#[derive(Clone, Copy, Debug)]
pub enum LoadError {
    /// A system call failed.
    System(Errno),
    /// Not an ELF file of this machine.
    Format,
}

impl From<Errno> for LoadError {
    fn from(e: Errno) -> Self {
        LoadError::System(e)
    }
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(b[at..at + 2].try_into().expect("two bytes"))
}
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_GNU_STACK: u32 = 0x6474_e551;

struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    filesz: u64,
    memsz: u64,
    align: u64,
}

/// Where the next freely placed object goes.
static NEXT_OBJECT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(OBJECTS_START);

/// A place for `len` bytes in the range of guest objects, aligned; none when the range is used up.
pub fn object_place(len: u64, align: u64) -> Option<u64> {
    use core::sync::atomic::Ordering::Relaxed;
    let align = align.max(mem::PAGE);
    loop {
        let next = NEXT_OBJECT.load(Relaxed);
        let start = (next + align - 1) & !(align - 1);
        let end = start.checked_add(page_up(len))?;
        if end > OBJECTS_END {
            return None;
        }
        // A page stays free between objects, as a guard.
        if NEXT_OBJECT.compare_exchange(next, end + mem::PAGE, Relaxed, Relaxed).is_ok() {
            return Some(start);
        }
    }
}

/// Loads one file. `path` ends in NUL.
pub fn load(path: &[u8]) -> Result<Image, LoadError> {
    let file = fd::make_private(fd::open(path, abi::O_RDONLY, 0)?)?;
    let result = load_file(file);
    fd::close(file);
    result
}

fn load_file(file: i32) -> Result<Image, LoadError> {
    let mut head = [0u8; 64];
    if fd::pread(file, &mut head, 0)? < 64 || head[..4] != *b"\x7fELF" || head[4] != 2 {
        return Err(LoadError::Format);
    }
    let (kind, machine) = (u16_at(&head, 16), u16_at(&head, 18));
    let (phoff, phentsize, phnum) =
        (u64_at(&head, 32), u16_at(&head, 54) as usize, u16_at(&head, 56) as usize);
    if machine != 62 || phentsize < 56 || !(kind == 2 || kind == 3) {
        return Err(LoadError::Format);
    }
    let mut table = alloc::vec![0u8; phentsize * phnum];
    if fd::pread(file, &mut table, phoff)? < table.len() {
        return Err(LoadError::Format);
    }
    let segments: Vec<Segment> = table
        .chunks_exact(phentsize)
        .map(|p| Segment {
            kind: u32_at(p, 0),
            flags: u32_at(p, 4),
            offset: u64_at(p, 8),
            vaddr: u64_at(p, 16),
            filesz: u64_at(p, 32),
            memsz: u64_at(p, 40),
            align: u64_at(p, 48),
        })
        .collect();
    let loads = || segments.iter().filter(|s| s.kind == PT_LOAD && s.memsz > 0);
    let low = loads().map(|s| page_down(s.vaddr)).min().ok_or(LoadError::Format)?;
    let high = loads().map(|s| page_up(s.vaddr.wrapping_add(s.memsz))).max().ok_or(LoadError::Format)?;
    if high < low {
        return Err(LoadError::Format);
    }
    let align = loads().map(|s| s.align).filter(|a| a.is_power_of_two()).max().unwrap_or(mem::PAGE);
    let base = reserve(kind == 3, low, high - low, align)?;
    let bias = base.wrapping_sub(low);
    let mut phdr = 0;
    for s in loads() {
        map_segment(file, s, bias)?;
        if (s.offset..s.offset + s.filesz).contains(&phoff) {
            phdr = bias + s.vaddr + (phoff - s.offset);
        }
    }
    let interpreter = match segments.iter().find(|s| s.kind == PT_INTERP) {
        Some(s) if s.filesz > 0 && s.filesz < 4096 => {
            let mut path = alloc::vec![0u8; s.filesz as usize];
            fd::pread(file, &mut path, s.offset)?;
            if path.last() != Some(&0) {
                path.push(0);
            }
            Some(path)
        }
        _ => None,
    };
    Ok(Image {
        entry: bias.wrapping_add(u64_at(&head, 24)),
        bias,
        phdr,
        phnum: phnum as u64,
        interpreter,
        // A program without the header is an old one, and gets what it always got.
        executable_stack: segments.iter().find(|s| s.kind == PT_GNU_STACK).is_none_or(|s| s.flags & 1 != 0),
    })
}

/// Reserves the address range of an image, so that its parts can be mapped over it.
fn reserve(movable: bool, low: u64, len: u64, align: u64) -> Result<u64, LoadError> {
    if !movable {
        return Ok(mem::map_at(low, len, abi::PROT_NONE)?);
    }
    while let Some(at) = object_place(len, align) {
        match mem::map_at(at, len, abi::PROT_NONE) {
            Ok(at) => return Ok(at),
            Err(Errno(mem::abi_errno::EEXIST)) => continue,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(mem::map_anywhere(len, abi::PROT_NONE)?)
}

fn map_segment(file: i32, s: &Segment, bias: u64) -> Result<(), LoadError> {
    let mut prot = 0;
    for (flag, bit) in [(4, abi::PROT_READ), (2, abi::PROT_WRITE), (1, abi::PROT_EXEC)] {
        if s.flags & flag != 0 {
            prot |= bit;
        }
    }
    let start = page_down(bias.wrapping_add(s.vaddr));
    let skew = s.vaddr & (mem::PAGE - 1);
    let file_end = bias.wrapping_add(s.vaddr).wrapping_add(s.filesz);
    let mem_end = bias.wrapping_add(s.vaddr).wrapping_add(s.memsz);
    if s.filesz > 0 {
        let flags = abi::MAP_PRIVATE | abi::MAP_FIXED;
        // SAFETY: inside the range that `reserve` mapped for this image.
        unsafe { mem::map(start, file_end - start, prot, flags, file, s.offset - skew) }?;
    }
    let zero_from = if s.filesz > 0 { page_up(file_end) } else { start };
    if s.filesz > 0 && s.memsz > s.filesz && prot & abi::PROT_WRITE != 0 {
        // To the end of the page, as the kernel does: the dynamic linker allocates from there.
        let gap = page_up(file_end) - file_end;
        // SAFETY: the rest of the last file page, writable, belongs to the image's zeroed data.
        unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, gap as usize) };
    }
    if page_up(mem_end) > zero_from {
        let flags = abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_FIXED;
        // SAFETY: inside the reserved range.
        unsafe { mem::map(zero_from, page_up(mem_end) - zero_from, prot, flags, -1, 0) }?;
    }
    Ok(())
}

/// What the guest starts with.
pub struct Start {
    /// First instruction.
    pub entry: u64,
}

/// Loads program and interpreter and makes the auxiliary vector say what it would natively.
pub fn load_guest(path: &[u8], auxv: &mut Auxv, exec_fn: u64, hide_vdso: bool) -> Result<Start, LoadError> {
    let program = load(path)?;
    if program.executable_stack {
        const GROWS_DOWN: u32 = 0x0100_0000;
        let here = page_down(auxv.address());
        // SAFETY: adds a permission to the guest's own stack.
        let _ = unsafe { mem::protect(here, mem::PAGE, mem::RWX | GROWS_DOWN) };
    }
    let mut entry = program.entry;
    let mut base = 0;
    if let Some(interpreter) = &program.interpreter {
        let image = load(interpreter)?;
        entry = image.entry;
        base = image.bias;
    }
    auxv.set(at::AT_PHDR, program.phdr);
    auxv.set(at::AT_PHNUM, program.phnum);
    auxv.set(at::AT_ENTRY, program.entry);
    auxv.set(at::AT_BASE, base);
    auxv.set(at::AT_EXECFN, exec_fn);
    if hide_vdso {
        auxv.hide(at::AT_SYSINFO_EHDR);
    }
    Ok(Start { entry })
}
