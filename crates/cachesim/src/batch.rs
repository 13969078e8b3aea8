//! References that arrive in a buffer, each describing itself in 16 bytes.
//!
//! ```text
//! byte  0..8    address
//! byte  8..12   site: a number of the caller's choice, handed back with misses
//! byte 12..14   size in bytes, 1 to 65535
//! byte 14       kind: 0 fetch, 1 read, 2 write
//! byte 15       not looked at
//! ```
//!
//! All little-endian, so bytes 8..16 are one word, constant per site, that generated code stores
//! as an immediate. A producer that knows what a block references needs only the addresses:
//! see [`crate::script`].

use crate::{Hierarchy, Kind, Level};

/// One reference in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// Address of the first byte.
    pub address: u64,
    /// Site, size and kind: see the module's table.
    pub descriptor: u64,
}

impl Event {
    /// A reference of `size` bytes at `address`, made at `site`.
    pub const fn new(kind: Kind, address: u64, size: u16, site: u32) -> Self {
        Self { address, descriptor: Self::descriptor(kind, size, site) }
    }

    /// The second word, which is the same each time a site executes.
    pub const fn descriptor(kind: Kind, size: u16, site: u32) -> u64 {
        site as u64 | (size as u64) << 32 | (kind as u64) << 48
    }

    /// The number of the site.
    pub const fn site(&self) -> u32 {
        self.descriptor as u32
    }

    /// The number of bytes.
    pub const fn size(&self) -> u16 {
        (self.descriptor >> 32) as u16
    }

    /// What the reference is for.
    pub const fn kind(&self) -> Kind {
        Kind::from_index((self.descriptor >> 48) as u8)
    }
}

/// Receives the misses of a batch. Hits are not reported: how often a site executes is known.
pub trait Sink {
    /// A reference made at `site` was served by `level`, which is not [`Level::L1`].
    fn miss(&mut self, site: u32, kind: Kind, level: Level);
}

impl<F: FnMut(u32, Kind, Level)> Sink for F {
    fn miss(&mut self, site: u32, kind: Kind, level: Level) {
        self(site, kind, level);
    }
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Hierarchy<S> {
    /// References everything in `events`, in order. An event of size 0 counts as one byte.
    pub fn consume(&mut self, events: &[Event], sink: &mut impl Sink) {
        for event in events {
            let (kind, size) = (event.kind(), u32::from(event.size()).max(1));
            let level = self.reference(kind, event.address, size);
            if level != Level::L1 {
                sink.miss(event.site(), kind, level);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;
    use crate::{Geometry, Options};

    #[test]
    fn an_event_is_two_words() {
        assert_eq!(
            (size_of::<Event>(), offset_of!(Event, address), offset_of!(Event, descriptor)),
            (16, 0, 8)
        );
        let event = Event::new(Kind::Write, 0x7ff0_1234, 512, 0xdead_beef);
        assert_eq!(event.descriptor, 0x0002_0200_dead_beef);
        assert_eq!((event.kind(), event.size(), event.site()), (Kind::Write, 512, 0xdead_beef));
    }

    #[test]
    fn a_batch_reports_misses_with_their_site() {
        let geometry = Geometry::new(256, 2, 64).unwrap();
        let mut caches = Hierarchy::new(geometry, geometry, geometry, Options::default());
        let mut misses = Vec::new();
        let events = [
            Event::new(Kind::Fetch, 0x1000, 4, 7),
            Event::new(Kind::Read, 0x1000, 8, 8),
            Event::new(Kind::Read, 0x1008, 8, 9),
        ];
        caches.consume(&events, &mut |site, kind, level| misses.push((site, kind, level)));
        assert_eq!(misses, [(7, Kind::Fetch, Level::Memory), (8, Kind::Read, Level::LastLevel)]);
    }
}
