//! Where the engine lives in the guest's address space.
//!
//! Code cache and lookup table lie below 2 GiB, so that an absolute address fits a sign-extended
//! 32-bit immediate or displacement. Guest objects are placed below them where the guest leaves
//! the choice, so that copied instructions reach their operands relative to `rip`; what lies
//! elsewhere (JIT code, the vdso) is reached through a scratch register.
//!
//! ```text
//! 0x0040_0000  position-dependent guests
//! 0x1000_0000  main program (PIE) and dynamic linker, then its libraries upwards
//! 0x4000_0000  the kernel's range for MAP_32BIT (free)
//! 0x5e00_0000  indirect-branch lookup table
//! 0x5e80_0000  countdowns to the second translation
//! 0x6000_0000  code cache: fragments upwards, stubs downwards from its end
//! 0x7000_0000  the agent's own image
//! 0x7fff_8000  (AddressSanitizer's shadow starts here: free)
//! ```
//!
//! Everything else of the engine (thread blocks, shadow stacks, its heap) lies wherever the kernel
//! puts it, out of the low range.

/// Lowest address for guest objects that may be placed freely.
pub const OBJECTS_START: u64 = 0x1000_0000;
/// End of the range for guest objects.
pub const OBJECTS_END: u64 = 0x4000_0000;
/// The indirect-branch lookup table.
pub const IBL_TABLE: u64 = 0x5e00_0000;
/// Slots in the table, indexed by 16 bits.
pub const IBL_SLOTS: usize = 1 << 16;
/// Countdowns of fragments that have not run often, `u32` each.
pub const HEAT: u64 = 0x5e80_0000;
/// Number of countdowns.
pub const HEAT_SLOTS: u64 = 1 << 22;
/// Start of the code cache.
pub const CACHE_START: u64 = 0x6000_0000;
/// Size of the code cache.
pub const CACHE_SIZE: u64 = 0x1000_0000;
/// Start of the emulated heap (`brk`).
pub const BRK_START: u64 = 0x5555_6000_0000;
/// Room for the emulated heap.
pub const BRK_ROOM: u64 = 0x0100_0000_0000;

/// Offset from the thread block (`gs`) to the active counts, `u32` per function.
pub const ACTIVE_OFFSET: i32 = 0x1_0000;
/// Offset from the thread block to the counters, `u64` each.
pub const COUNTERS_OFFSET: i32 = 0x80_0000;
/// Largest function number with an active count.
pub const MAX_FUNCTIONS: u32 = ((COUNTERS_OFFSET - ACTIVE_OFFSET) / 4) as u32;
/// Index of the counter that holds the running total.
pub const TOTAL_COUNTER: u32 = 1;
/// `gs` displacement of the running total.
pub const TOTAL: i32 = counter_disp(TOTAL_COUNTER);
/// First counter that may be handed out: before it lie the running totals.
pub const FIRST_COUNTER: u32 = TOTAL_COUNTER + 1 + crate::events::CERTAIN as u32;
/// Bytes of counters in a thread block.
pub const COUNTERS_ROOM: i32 = 0x2000_0000;
/// Offset from the thread block to the rows of its simulated data cache.
pub const DATA_ROWS_OFFSET: i32 = COUNTERS_OFFSET + COUNTERS_ROOM;
/// Offset from the thread block to the records of lines of code (see [`crate::events::Lines`]).
pub const FETCH_ROWS_OFFSET: i32 = DATA_ROWS_OFFSET + ROWS_ROOM;
/// Most bytes of rows of one cache.
pub const ROWS_ROOM: i32 = 0x400_0000;

/// `gs` displacement of a counter.
pub const fn counter_disp(index: u32) -> i32 {
    COUNTERS_OFFSET + index as i32 * 8
}

/// `gs` displacement of a function's active count.
pub const fn active_disp(function: u32) -> i32 {
    ACTIVE_OFFSET + function as i32 * 4
}
