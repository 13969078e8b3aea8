//! Every instruction of some programs of the system.

use crate::compare::compare;
use iced_x86::InstructionInfoFactory;

/// Executable sections of a 64-bit little-endian ELF file.
fn code(file: &[u8]) -> Vec<&[u8]> {
    let u16_at = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap()) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (table, size, count) = (u64_at(0x28), u16_at(0x3a), u16_at(0x3c));
    let headers = (0..count).map(|n| table + n * size);
    let executable = headers.filter(|at| u64_at(at + 8) & 4 != 0);
    executable.map(|at| &file[u64_at(at + 24)..][..u64_at(at + 32)]).collect()
}

#[test]
fn programs_decode_alike() {
    let mut factory = InstructionInfoFactory::new();
    let mut seen = std::collections::BTreeMap::<String, (usize, String)>::new();
    let mut total = 0;
    for path in
        ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/bin/python3"]
    {
        let Ok(file) = std::fs::read(path) else {
            eprintln!("skipped: no {path}");
            continue;
        };
        for section in code(&file) {
            let mut at = 0;
            while at < section.len() {
                let bytes = &section[at..section.len().min(at + 15)];
                total += 1;
                at += match compare(&mut factory, bytes) {
                    Ok(len) => len,
                    Err(what) => {
                        let key = what.split(": ").next().unwrap().to_string()
                            + what.split(' ').nth_back(1).unwrap_or("")
                            + what.rsplit_once(": ").unwrap().1.split(' ').nth(1).unwrap_or("");
                        let e = seen.entry(key).or_insert((0, what));
                        e.0 += 1;
                        crate::facts::decode(bytes).map_or(1, |i| i.len())
                    }
                };
            }
        }
    }
    for (n, what) in seen.values() {
        eprintln!("{n:8} {what}");
    }
    eprintln!("{total} instructions");
    assert!(seen.is_empty());
}
