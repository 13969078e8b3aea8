//! The hardware prefetcher of `--simulate-hwpref=yes`.
//!
//! Eight streams, one per page number modulo eight, watch the references that reach LL. A stream
//! that steps from one line to the next, twice in a row in one direction, asks for the line
//! five ahead at that step and at each further one. Another reference to the same line is no
//! step; any other line ends the run.

/// Streams watched at a time.
const STREAMS: usize = 8;
/// Binary logarithm of the page size that selects the stream.
const PAGE_SHIFT: u32 = 12;
/// How far ahead is fetched, in lines.
const DISTANCE: u64 = 5;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Number of the line seen last, cut to 32 bits as Callgrind does.
    last: u32,
    /// Steps of the current run; negative downwards.
    run: i32,
}

/// State of the prefetcher, and how often it fetched.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    line_shift: u32,
    streams: [Stream; STREAMS],
    /// Lines fetched ahead of a rising stream.
    pub up: u64,
    /// Lines fetched ahead of a falling stream.
    pub down: u64,
}

impl Prefetcher {
    /// A prefetcher for an LL cache with lines of `1 << line_shift` bytes.
    pub fn new(line_shift: u32) -> Self {
        Self { line_shift, streams: [Stream::default(); STREAMS], up: 0, down: 0 }
    }

    /// Sees a reference to `address`; returns the address to fetch, if any.
    #[inline]
    pub fn observe(&mut self, address: u64) -> Option<u64> {
        let stream = &mut self.streams[(address >> PAGE_SHIFT) as usize % STREAMS];
        let block = (address >> self.line_shift) as u32;
        let before = core::mem::replace(&mut stream.last, block);
        let up = before.wrapping_add(1) == block;
        let down = before.wrapping_sub(1) == block;
        stream.run = match stream.run {
            _ if before == block => return None,
            run if run >= 0 && up => run.saturating_add(1),
            run if run <= 0 && down => run.saturating_sub(1),
            _ => 0,
        };
        let distance = DISTANCE << self.line_shift;
        if stream.run >= 2 {
            self.up += 1;
            Some(address.wrapping_add(distance))
        } else if stream.run <= -2 {
            self.down += 1;
            Some(address.wrapping_sub(distance))
        } else {
            None
        }
    }

    /// Forgets all streams; the counters stay.
    pub fn clear(&mut self) {
        self.streams = [Stream::default(); STREAMS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(addresses: &[u64]) -> Vec<Option<u64>> {
        let mut prefetcher = Prefetcher::new(6);
        addresses.iter().map(|address| prefetcher.observe(*address)).collect()
    }

    #[test]
    fn two_steps_in_one_direction_start_fetching() {
        assert_eq!(
            fetched(&[0x8000, 0x8040, 0x8044, 0x8080, 0x80c0]),
            [None, None, None, Some(0x8080 + 320), Some(0x80c0 + 320)]
        );
        assert_eq!(fetched(&[0x8200, 0x81c0, 0x8180]), [None, None, Some(0x8180 - 320)]);
    }

    #[test]
    fn a_step_elsewhere_ends_the_run() {
        assert_eq!(
            fetched(&[0x8000, 0x8040, 0x8080, 0x8100, 0x8140, 0x8180])[3..],
            [None, None, Some(0x82c0)]
        );
        // Turning round ends it too, and is no step of the new direction.
        assert_eq!(fetched(&[0x8000, 0x8040, 0x8000, 0x8040, 0x8080])[2..], [None, None, Some(0x81c0)]);
    }

    #[test]
    fn pages_apart_are_streams_of_their_own() {
        assert_eq!(
            fetched(&[0x8000, 0x9000, 0x8040, 0x9040, 0x8080, 0x9080])[4..],
            [Some(0x81c0), Some(0x91c0)]
        );
    }
}
