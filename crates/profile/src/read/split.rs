//! Where parts begin, and where a body can be cut for reading in parallel.

use super::header::{may_follow_events, may_precede_events};
use memchr::memmem;
use std::ops::Range;

/// The bytes of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRange {
    pub header: Range<usize>,
    pub body: Range<usize>,
}

/// The parts of a text; empty when no line begins with `events:`.
///
/// A part is found by its `events:` line. Its header reaches up from there over header lines,
/// blank lines and comments, and down to the first line of the body.
pub fn parts(text: &[u8]) -> Vec<PartRange> {
    let mut found: Vec<PartRange> = Vec::new();
    let finder = memmem::Finder::new("events:");
    let mut from = 0;
    while let Some(hit) = finder.find(&text[from..]).map(|n| n + from) {
        from = hit + 1;
        if hit > 0 && text[hit - 1] != b'\n' {
            continue;
        }
        let floor = found.last().map_or(0, |p| p.header.end);
        let start = if found.is_empty() { 0 } else { header_start(text, hit, floor) };
        let end = header_end(text, hit);
        if let Some(before) = found.last_mut() {
            before.body.end = start;
        }
        found.push(PartRange { header: start..end, body: end..text.len() });
        from = end.max(from);
    }
    found
}

fn header_start(text: &[u8], events: usize, floor: usize) -> usize {
    let mut start = events;
    while start > floor {
        let line_start = memchr::memrchr(b'\n', &text[floor..start - 1]).map_or(floor, |n| floor + n + 1);
        if !may_precede_events(&text[line_start..start - 1]) {
            break;
        }
        start = line_start;
    }
    // Blank lines at the top end the part before.
    while start < events && (text[start] == b'\n' || text[start] == b'\r') {
        start += 1;
    }
    start
}

fn header_end(text: &[u8], events: usize) -> usize {
    let line_end = |at: usize| memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
    let mut end = (line_end(events) + 1).min(text.len());
    let mut alone = false;
    while end < text.len() {
        let stop = line_end(end);
        if !may_follow_events(&text[end..stop]) {
            break;
        }
        // `events:` again is the next part; so is a header above it, which has `version:` or `part:`.
        let line = &text[end..stop];
        if ["events:", "version:", "creator:", "pid:", "cmd:", "part:", "thread:", "positions:"]
            .iter()
            .any(|key| line.starts_with(key.as_bytes()))
        {
            // Such a field may still be of this header, unless another `events:` follows.
            alone = alone || !another_header(text, end);
            if !alone {
                break;
            }
        }
        end = (stop + 1).min(text.len());
    }
    end
}

/// Whether the header lines from `at` on lead to another `events:` line.
fn another_header(text: &[u8], mut at: usize) -> bool {
    while at < text.len() {
        let stop = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
        let line = &text[at..stop];
        if line.starts_with(b"events:") {
            return true;
        }
        if !may_precede_events(line) {
            return false;
        }
        at = stop + 1;
    }
    false
}

/// Cuts a body before `fn=` lines into pieces of about `size` bytes.
pub fn pieces(text: &[u8], body: Range<usize>, size: usize) -> Vec<Range<usize>> {
    let finder = memmem::Finder::new("\nfn=");
    let mut cuts = Vec::new();
    let mut start = body.start;
    while start < body.end {
        let aim = start.saturating_add(size.max(1));
        let cut = match aim < body.end {
            true => finder.find(&text[aim..body.end]).map_or(body.end, |n| aim + n + 1),
            false => body.end,
        };
        cuts.push(start..cut);
        start = cut;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_header_ends_the_part_before_it() {
        let text = b"version: 1\nevents: Ir\nsummary: 3\n\nfn=a\n1 3\n\ntotals: 3\n\npart: 2\n\nevents: Ir\n\nfn=b\n";
        let found = parts(text);
        assert_eq!(found.len(), 2);
        assert_eq!(&text[found[0].body.clone()], b"fn=a\n1 3\n\ntotals: 3\n\n");
        assert_eq!(&text[found[1].header.clone()], b"part: 2\n\nevents: Ir\n\n");
        assert_eq!(&text[found[1].body.clone()], b"fn=b\n");
    }

    #[test]
    fn parts_without_costs_are_parts() {
        let found = parts(b"events: A\n\npart: 2\nevents: B\nfn=a\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].body.len(), 0);
    }

    #[test]
    fn pieces_begin_at_functions_and_cover_the_body() {
        let text = b"fl=x\nfn=a\n1 1\nfn=b\n1 1\nfn=c\n1 1\n";
        let cut = pieces(text, 0..text.len(), 6);
        assert_eq!(cut.first().unwrap().start, 0);
        assert_eq!(cut.last().unwrap().end, text.len());
        for pair in cut.windows(2) {
            assert_eq!(pair[0].end, pair[1].start);
            assert!(text[pair[1].start..].starts_with(b"fn="));
        }
        assert!(cut.len() >= 2);
    }
}
