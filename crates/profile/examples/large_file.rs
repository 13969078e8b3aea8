//! Writes a large profile, or reads one and says how long it took and how much memory it needed.
//!
//! ```text
//! large_file write lines PATH BYTES    short lines: one event, relative line numbers
//! large_file write instr PATH BYTES    addresses, jumps, nine events
//! large_file write full  PATH BYTES    names in full, absolute positions
//! large_file read PATH
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;
use tallygraph_profile::graph::CallGraph;
use tallygraph_profile::read;

/// Functions are written again and again in new parts of a program, so names are fewer than blocks.
const FUNCTIONS: u64 = 60_000;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["write", kind, path, bytes] => {
            let mut out = Counted { out: BufWriter::with_capacity(1 << 20, File::create(path)?), bytes: 0 };
            write_profile(&mut out, kind, bytes.parse().expect("a number of bytes"))?;
            out.out.flush()
        }
        ["read", path] => read_profile(Path::new(path)),
        _ => {
            eprintln!("usage: large_file write lines|instr|full PATH BYTES | large_file read PATH");
            std::process::exit(2);
        }
    }
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let n = self.out.write(text)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A small generator of numbers, the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn write_profile(out: &mut Counted<impl Write>, kind: &str, size: u64) -> io::Result<()> {
    let (instr, full) = (kind == "instr", kind == "full");
    writeln!(
        out,
        "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 1\ncmd:  ./large\npart: 1\n\n"
    )?;
    writeln!(out, "positions: {}", if instr { "instr line" } else { "line" })?;
    writeln!(out, "events: {}\n", if instr { "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw" } else { "Ir" })?;
    let mut random = Random(1);
    let mut defined = vec![false; FUNCTIONS as usize];
    let mut name = |out: &mut Counted<_>, word: &str, f: u64| {
        let text = format!("project::module_{}::Type<Argument>::function_{f}", f % 97);
        if full {
            writeln!(out, "{word}{text}")
        } else if std::mem::replace(&mut defined[f as usize], true) {
            writeln!(out, "{word}({f})")
        } else {
            writeln!(out, "{word}({f}) {text}")
        }
    };
    writeln!(out, "ob=/usr/lib/large.so")?;
    let mut block = 0;
    while out.bytes < size {
        let f = block % FUNCTIONS;
        block += 1;
        writeln!(out, "fl=src/module_{}.rs", f % 97)?;
        name(out, "fn=", f)?;
        let mut line = 10 + random.below(2000);
        let mut address = 0x400000 + f * 512;
        let mut first = true;
        for _ in 0..20 + random.below(60) {
            let (step, bytes) = (random.below(4), 1 + random.below(7));
            line += step;
            address += bytes;
            let range = if random.below(4) == 0 { 1_000_000 } else { 300 };
            let cost = 1 + random.below(range);
            match (instr, full || first) {
                (true, true) => write!(out, "{address:#x} {line} ")?,
                (true, false) => {
                    write!(out, "+{bytes} {} ", if step == 0 { "*".into() } else { format!("+{step}") })?
                }
                (false, true) => write!(out, "{line} ")?,
                (false, false) => write!(out, "+{step} ")?,
            }
            first = false;
            match instr && random.below(3) == 0 {
                true => writeln!(out, "{cost} {} 0 {} 0 0 1", cost / 2, cost / 7)?,
                false => writeln!(out, "{cost}")?,
            }
            if random.below(12) == 0 {
                let callee = random.below(FUNCTIONS);
                writeln!(out, "cfi=src/module_{}.rs", callee % 97)?;
                name(out, "cfn=", callee)?;
                let at = if instr { format!("{:#x} ", 0x400000 + callee * 512) } else { String::new() };
                writeln!(out, "calls={} {at}{} ", 1 + random.below(100), 10 + random.below(2000))?;
                let here = if full {
                    line.to_string()
                } else if instr {
                    "* *".into()
                } else {
                    "*".into()
                };
                writeln!(out, "{here} {}", cost * 20)?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn status(field: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// User and system time of this process so far, from clock ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks =
        |n: usize| after_name.split_whitespace().nth(n).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn read_profile(path: &Path) -> io::Result<()> {
    let size = path.metadata()?.len() as f64 / 1048576.0;
    let start = Instant::now();
    let profile = match read::file(path, read::Options::default()) {
        Ok(profile) => profile,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let peak = status("VmHWM:");
    println!("file      {size:9.0} MiB, {} threads", rayon::current_num_threads());
    println!(
        "read      {seconds:9.2} s, {:.0} MiB/s; {:.2} s of processor time",
        size / seconds,
        cpu_seconds()
    );
    println!("peak      {peak:9.0} MiB, {:.2} of the file", peak / size);
    println!("kept      {:9.0} MiB resident", status("VmRSS:"));
    let start = Instant::now();
    let graph = CallGraph::of(&profile);
    println!(
        "graph     {:9.2} s, {} functions, {} edges",
        start.elapsed().as_secs_f64(),
        graph.functions.len(),
        graph.edges.len()
    );
    Ok(())
}
