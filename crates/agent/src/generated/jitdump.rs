//! Records of `jit-PID.dump`, as described in `tools/perf/Documentation/jitdump-specification.txt` of
//! Linux: a header, then records of a kind (`u32`), a size (`u32`) and a time (`u64`) each.

use super::names::Names;

const MAGIC: u32 = 0x4a69_5444;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
/// Bytes of a record before its contents.
const PREFIX: usize = 16;

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(b.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(b.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Reads whole records, after the header when `first`; gives how many bytes they were. A file that
/// makes no sense is passed over whole.
pub fn read(bytes: &[u8], first: bool, names: &mut Names) -> usize {
    let mut at = 0;
    if first {
        let (Some(magic), Some(size)) = (u32_at(bytes, 0), u32_at(bytes, 8)) else { return 0 };
        if magic != MAGIC || size < 40 {
            return bytes.len();
        }
        at = size as usize;
        if at > bytes.len() {
            return 0;
        }
    }
    while let (Some(kind), Some(size)) = (u32_at(bytes, at), u32_at(bytes, at + 4)) {
        if (size as usize) < PREFIX {
            return bytes.len();
        }
        let Some(record) = bytes.get(at + PREFIX..at + size as usize) else { break };
        match kind {
            CODE_LOAD => load(record, names),
            CODE_MOVE => moved(record, names),
            _ => None,
        };
        at += size as usize;
    }
    at
}

/// pid, tid, address for unwinding, address, size, index, name, code.
fn load(record: &[u8], names: &mut Names) -> Option<()> {
    let (start, size) = (u64_at(record, 16)?, u64_at(record, 24)?);
    let name = record.get(40..)?;
    let end = name.iter().position(|&b| b == 0)?;
    names.add(start, size, &name[..end]);
    Some(())
}

/// pid, tid, address for unwinding, old address, new address, size, index.
fn moved(record: &[u8], names: &mut Names) -> Option<()> {
    let (old, new, size) = (u64_at(record, 16)?, u64_at(record, 24)?, u64_at(record, 32)?);
    let entry = *names.lookup(old)?;
    let name = names.text(&entry).to_vec();
    names.add(new, size, &name);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn header() -> Vec<u8> {
        let mut b = Vec::new();
        for word in [MAGIC, 1, 40, 62, 0, 77, 0, 0, 0, 0] {
            b.extend_from_slice(&word.to_le_bytes());
        }
        b
    }

    fn record(kind: u32, words: &[u64], name: &[u8]) -> Vec<u8> {
        let size = (PREFIX + 8 + words.len() * 8 + name.len()) as u32;
        let mut b = Vec::new();
        for word in [kind, size, 0, 0, 77, 77] {
            b.extend_from_slice(&word.to_le_bytes());
        }
        words.iter().for_each(|w| b.extend_from_slice(&w.to_le_bytes()));
        b.extend_from_slice(name);
        b
    }

    fn sample() -> Vec<u8> {
        let mut b = header();
        b.extend(record(CODE_LOAD, &[0, 0x1000, 0x20, 1], b"first\0\x90\x90"));
        b.extend(record(2, &[0x1000, 0], b""));
        b.extend(record(CODE_MOVE, &[0, 0x1000, 0x3000, 0x20, 1], b""));
        b.extend(record(CODE_LOAD, &[0, 0x1000, 0x10, 2], b"second\0"));
        b
    }

    #[test]
    fn code_is_loaded_moved_and_replaced() {
        let bytes = sample();
        // However the file is cut, the same comes out.
        for cut in 0..bytes.len() {
            let mut n = Names::default();
            let done = read(&bytes[..cut], true, &mut n);
            assert!(done <= cut);
            assert_eq!(done + read(&bytes[done..], done == 0, &mut n), bytes.len());
            let name = |a| n.lookup(a).map(|e| n.text(e));
            assert_eq!(name(0x3010), Some(&b"first"[..]));
            assert_eq!(name(0x1008), Some(&b"second"[..]));
            assert_eq!(name(0x1018), Some(&b"first"[..]));
            assert_ne!(n.lookup(0x3010).unwrap().serial, n.lookup(0x1018).unwrap().serial);
        }
    }

    #[test]
    fn damage_costs_names_and_nothing_else() {
        let good = sample();
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for _ in 0..5000 {
            let mut bytes = good.clone();
            for _ in 0..1 + random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            bytes.truncate(random(good.len()) + 1);
            let mut n = Names::default();
            assert!(read(&bytes, true, &mut n) <= bytes.len());
        }
    }
}
