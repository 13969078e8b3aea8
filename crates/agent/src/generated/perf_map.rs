//! Lines of `/tmp/perf-PID.map`: `START SIZE NAME`, numbers in hexadecimal.

use super::names::Names;

/// Reads whole lines; gives how many bytes they were. Lines that make no sense are passed over.
pub fn read(text: &[u8], names: &mut Names) -> usize {
    let Some(last) = text.iter().rposition(|&b| b == b'\n') else { return 0 };
    for line in text[..last].split(|&b| b == b'\n') {
        let mut words = line.trim_ascii_end().splitn(3, |&b| b == b' ');
        if let (Some(start), Some(size), Some(name)) = (words.next(), words.next(), words.next())
            && let (Some(start), Some(size)) = (number(start), number(size))
        {
            names.add(start, size, name);
        }
    }
    last + 1
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_read() {
        let mut n = Names::default();
        let text = b"7f00 10 py::f:/a b.py\nnonsense\n0x8000 8 g\n9000 0 empty\n9000 4 unfini";
        assert_eq!(read(text, &mut n), text.len() - 13);
        let name = |a| n.lookup(a).map(|e| n.text(e));
        assert_eq!(name(0x7f0f), Some(&b"py::f:/a b.py"[..]));
        assert_eq!(name(0x8007), Some(&b"g"[..]));
        assert_eq!(name(0x9000), None);
    }
}
