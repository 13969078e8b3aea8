//! Nanoseconds per instruction of the code of a program, with this crate and with iced-x86 (and its
//! information on flags, as far as the engine needs it).
//!
//! ```text
//! cargo run --release -p tallygraph-x64 --example decode_speed [FILE]
//! ```

use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::hint::black_box;
use std::time::Instant;

/// Bytes of the executable sections of a 64-bit little-endian ELF file.
fn code(file: &[u8]) -> Vec<u8> {
    let u16_at = |at: usize| u16::from_le_bytes([file[at], file[at + 1]]) as usize;
    let u64_at = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&file[at..at + 8]);
        u64::from_le_bytes(bytes) as usize
    };
    let (table, size, count) = (u64_at(0x28), u16_at(0x3a), u16_at(0x3c));
    let headers = (0..count).map(|n| table + n * size).filter(|at| u64_at(at + 8) & 4 != 0);
    headers.flat_map(|at| file[u64_at(at + 24)..][..u64_at(at + 32)].to_vec()).collect()
}

fn ours(code: &[u8]) -> (usize, u64) {
    let (mut at, mut count, mut sum) = (0, 0, 0u64);
    while at + 15 <= code.len() {
        match tallygraph_x64::decode(&code[at..at + 15]) {
            Ok(insn) => {
                sum += insn.flags_read.is_empty() as u64 + insn.flags_written.is_empty() as u64;
                sum += insn.is_rip_relative() as u64 + insn.ends_block() as u64;
                at += insn.len as usize;
            }
            Err(_) => at += 1,
        }
        count += 1;
    }
    (count, sum)
}

fn theirs(code: &[u8]) -> (usize, u64) {
    let (mut at, mut count, mut sum) = (0, 0, 0u64);
    let mut i = Instruction::default();
    while at + 15 <= code.len() {
        let mut decoder = Decoder::with_ip(64, &code[at..at + 15], 0, DecoderOptions::NONE);
        decoder.decode_out(&mut i);
        if i.is_invalid() {
            at += 1;
        } else {
            sum += i.rflags_read() as u64 + i.rflags_modified() as u64;
            sum += i.is_ip_rel_memory_operand() as u64 + i.flow_control() as u64;
            at += i.len();
        }
        count += 1;
    }
    (count, sum)
}

fn main() {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/lib/x86_64-linux-gnu/libc.so.6".to_string());
    let file = match std::fs::read(&path) {
        Ok(file) => file,
        Err(error) => return eprintln!("{path}: {error}"),
    };
    let code = code(&file);
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    for _ in 0..11 {
        for (decode, times) in [(ours as fn(&[u8]) -> (usize, u64), &mut fast), (theirs, &mut slow)] {
            let start = Instant::now();
            let (count, sum) = decode(&code);
            black_box(sum);
            times.push(start.elapsed().as_nanos() as f64 / count as f64);
        }
    }
    for (name, times) in [("tallygraph-x64", &mut fast), ("iced-x86", &mut slow)] {
        times.sort_by(f64::total_cmp);
        println!("{name}: {:.2} ns per instruction (median of {})", times[times.len() / 2], times.len());
    }
}
