//! What the two sides of tallygraph say to each other.
//!
//! The host side (the command line, the writer of profiles) and the guest side (the agent inside
//! the profiled process) share no memory layout but the one defined here:
//!
//! - [`config`]: what the host tells the agent at start, a table of numbers and byte strings;
//! - [`events`]: the event types that a configuration collects, and their order;
//! - [`spool`]: the file in which the agent keeps counters and an append-only log of records, so
//!   that a profile can be written at any time, even after the guest was killed.
//!
//! Both carry [`VERSION`]. It changes whenever a field changes its meaning, size or place; adding
//! a config key or a record kind that readers skip does not need a new version.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod config;
pub mod events;
pub mod spool;

/// Version of every structure in this crate.
pub const VERSION: u32 = 2;

/// Why bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes do not start with the expected magic number.
    BadMagic,
    /// Written by another version of tallygraph; carries the version found.
    Version(u32),
    /// A length or count points outside the bytes at hand; carries the offset of the field.
    Truncated(usize),
    /// A record kind, enum value or key is unknown; carries the value.
    Unknown(u32),
}

impl core::fmt::Display for WireError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            WireError::BadMagic => write!(f, "not a tallygraph spool (wrong magic number)"),
            WireError::Version(v) => write!(f, "written by wire version {v}, this is version {VERSION}"),
            WireError::Truncated(at) => write!(f, "truncated: a field at offset {at} points past the end"),
            WireError::Unknown(v) => write!(f, "unknown value {v:#x}"),
        }
    }
}

impl core::error::Error for WireError {}

/// A cursor over bytes that reads little-endian fields and never panics.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let end = self.at.checked_add(n).ok_or(WireError::Truncated(self.at))?;
        let part = self.bytes.get(self.at..end).ok_or(WireError::Truncated(self.at))?;
        self.at = end;
        Ok(part)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.bytes(2)?.try_into().expect("two bytes")))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.bytes(8)?.try_into().expect("eight bytes")))
    }

    pub(crate) fn blob(&mut self) -> Result<&'a [u8], WireError> {
        let n = self.u32()? as usize;
        self.bytes(n)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }
}
