//! The layout of a cache's rows, for generated code that filters references in line.
//!
//! A reference to the most recently used line of its set changes nothing, so it needs no
//! simulation and a filter that recognises it is exact, not an approximation. The filter is one
//! subtraction and one comparison, because a row's first word *is* the line's address:
//!
//! ```text
//! offset  = ((address >> line_shift) & (sets - 1)) << stride_shift      bytes from the first row
//! no-op   = address - [rows + offset] <= line - size                    unsigned, wrapping
//! ```
//!
//! The comparison also sends accesses that cross the line's end to the slow path. With 64-byte
//! lines and five to eight ways the stride equals the line size, so the shifts cancel and
//! the offset is `address & ((sets - 1) << 6)`. On x86-64, with the address in `rsi` (clobbers
//! `rdx` and the flags):
//!
//! ```text
//! mov  edx, esi
//! and  edx, (sets - 1) << 6
//! ...  rdx = rsi - [rows + rdx]       mov rdx, [rows + rdx] / sub rdx, rsi / neg rdx, or a third register
//! cmp  rdx, 64 - size
//! ja   slow                           slow(address, size): one call of the hierarchy
//! ```
//!
//! When it may be used:
//!
//! - D1, for reads always; for writes unless `--simulate-wb=yes`, where each write reaches LL.
//! - I1, once per line an instruction sequence enters, at the first instruction that touches it:
//!   later instructions on that line are no-ops by the same argument, as a block's lines follow
//!   one another and lie in different sets. An instruction over two lines goes to the slow path
//!   with its whole size.
//! - Not with `--cacheuse=yes`, which counts every access to a line.
//!
//! Hits need no counting at run time: a block's references are known when it is translated.
//! The simulator that owns the rows keeps no other copy of them, so both may run by turns.

use crate::Geometry;

/// Where the words of a cache's rows are, and how to find the one for an address.
///
/// Row `s` starts `s << stride_shift` bytes after the first; its first word is the address of the
/// set's most recently used line, or zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RowLayout {
    /// All ones but for the offset bits of a line.
    pub line_mask: u64,
    /// Number of sets less one.
    pub set_mask: u64,
    /// Binary logarithm of the line size.
    pub line_shift: u32,
    /// Binary logarithm of the distance of two rows in bytes.
    pub stride_shift: u32,
    /// Words of a row that are in use.
    pub ways: u32,
    /// Binary logarithm of the distance of two rows in words.
    pub word_shift: u32,
}

impl RowLayout {
    /// The layout for a geometry: rows are padded to a power of two words.
    pub const fn of(geometry: Geometry) -> Self {
        let word_shift = geometry.ways().next_power_of_two().trailing_zeros();
        Self {
            line_mask: !(geometry.line() as u64 - 1),
            set_mask: geometry.sets() as u64 - 1,
            line_shift: geometry.line_shift(),
            stride_shift: word_shift + 3,
            ways: geometry.ways(),
            word_shift,
        }
    }

    /// Words all rows take together.
    pub const fn words(&self) -> usize {
        (self.set_mask as usize + 1) << self.word_shift
    }

    /// Words of a row that are in use.
    pub const fn ways(&self) -> usize {
        self.ways as usize
    }

    /// The line `address` lies on, as the address of its first byte.
    #[inline]
    pub const fn line_of(&self, address: u64) -> u64 {
        address & self.line_mask
    }

    /// Index of the first word of the row for `address`.
    #[inline]
    pub const fn row_of(&self, address: u64) -> usize {
        (((address >> self.line_shift) & self.set_mask) << self.word_shift) as usize
    }

    /// The mask that turns an address into a byte offset of its row without shifting, when there
    /// is one: when rows are as long as lines.
    pub const fn direct_mask(&self) -> Option<u64> {
        if self.line_shift == self.stride_shift { Some(self.set_mask << self.line_shift) } else { None }
    }

    /// The largest distance from a line's first byte at which `size` bytes still fit the line:
    /// the constant the filter compares with. `size` is from 1 to the line size.
    pub const fn limit(&self, size: u32) -> u64 {
        (!self.line_mask).wrapping_add(1).wrapping_sub(size as u64)
    }

    /// What the in-line filter computes: true when referencing `size` bytes at `address` would
    /// be a hit that leaves `rows` as they are.
    #[inline]
    pub fn is_no_op(&self, rows: &[u64], address: u64, size: u32) -> bool {
        address.wrapping_sub(rows[self.row_of(address)]) <= self.limit(size)
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;
    use crate::Cache;

    #[test]
    fn generated_code_finds_the_fields_where_it_expects_them() {
        assert_eq!(offset_of!(RowLayout, line_mask), 0);
        assert_eq!(offset_of!(RowLayout, set_mask), 8);
        assert_eq!(offset_of!(RowLayout, line_shift), 16);
        assert_eq!(offset_of!(RowLayout, stride_shift), 20);
        assert_eq!(offset_of!(RowLayout, ways), 24);
        assert_eq!(offset_of!(RowLayout, word_shift), 28);
        assert_eq!(size_of::<RowLayout>(), 32);
    }

    #[test]
    fn rows_of_the_usual_first_level_need_no_shift() {
        let layout = RowLayout::of(Geometry::new(32768, 8, 64).unwrap());
        assert_eq!(layout.direct_mask(), Some(0xfc0));
        assert_eq!(layout.words(), 512);
        let layout = RowLayout::of(Geometry::new(49152, 12, 64).unwrap());
        assert_eq!(layout.direct_mask(), None);
        assert_eq!((layout.stride_shift, layout.words()), (7, 1024));
    }

    #[test]
    fn only_the_most_recent_line_of_a_set_passes_the_filter() {
        let mut cache = Cache::new(Geometry::new(256, 2, 64).unwrap());
        let no_op = |cache: &Cache, address, size| cache.layout().is_no_op(cache.rows(), address, size);
        cache.reference(0x1000, 8);
        assert!(no_op(&cache, 0x1000, 64) && no_op(&cache, 0x103f, 1) && no_op(&cache, 0x1038, 8));
        assert!(!no_op(&cache, 0x1039, 8), "crosses the line");
        assert!(!no_op(&cache, 0x0fff, 1) && !no_op(&cache, 0x1040, 1));
        cache.reference(0x1080, 8);
        assert!(no_op(&cache, 0x1080, 8) && !no_op(&cache, 0x1000, 8));
    }
}
