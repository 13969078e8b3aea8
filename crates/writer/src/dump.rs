//! Writing one part: which files it has, and their replacement at one stroke.

use crate::events::Events;
use crate::graph::Graph;
use crate::header::{self, Part};
use crate::output;
use crate::places::Places;
use crate::spool_file::SpoolFile;
use crate::tables::Tables;
use crate::text::{self, Names, Style};
use crate::{Error, output::PatternError};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tallygraph_wire::config::{Config, Number, Text};
use tallygraph_wire::spool::{Block, block_flags};

/// What is to be written.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Number of a part dumped before the end, from 1; none for the last part.
    pub part: Option<u32>,
    /// What caused the dump.
    pub trigger: &'a str,
    /// Arena slot of the only thread that is written, where threads are written apart.
    pub slot: Option<u32>,
}

impl Request<'_> {
    /// The part at the end of the guest.
    pub const LAST: Request<'static> = Request { part: None, trigger: "Program termination", slot: None };
}

/// What was written.
#[derive(Debug)]
pub struct Report {
    /// The files, in order of threads.
    pub files: Vec<PathBuf>,
    /// Columns of `totals`.
    pub events: Events,
    /// Costs of this part and those before it, over all threads.
    pub totals: Vec<u64>,
    /// The guest's configuration.
    pub config: Config,
}

/// Writes a part of the profile in `spool`.
pub fn write(spool: &SpoolFile, request: &Request) -> Result<Report, Error> {
    let log = spool.log()?;
    let senseless = |source| Error::Spool { path: spool.path().to_path_buf(), source };
    let tables = Tables::read(&log).map_err(senseless)?;
    let events = Events::of(&tables.config);
    let base = base_name(&tables.config, spool.pid()).map_err(Error::Name)?;
    let combine = tables.config.is(Number::CombineDumps);
    let suffix = if combine { None } else { request.part };
    let mut places = Places::new(&tables.config, spool.pid());
    let mut report = Report {
        files: Vec::new(),
        totals: spool.earlier_totals(events.len())?,
        events: events.clone(),
        config: Config::new(),
    };
    let blocks = (spool.blocks_before(), executed_blocks(spool, &tables)?);
    for (thread, counts) in counts_to_write(spool, &tables, request.slot)? {
        let graph = Graph::new(&tables, &counts, events.len(), &mut places);
        let number = request.part.unwrap_or(spool.parts() + 1);
        let part = Part {
            pid: spool.pid(),
            number,
            thread,
            blocks,
            trigger: request.trigger,
            totals: &graph.totals,
        };
        let path = output::file_of(&base, suffix, thread.filter(|_| !combine));
        let append = combine && (number > 1 || !report.files.is_empty());
        let mut names = Names::default();
        if append && tables.config.is(Number::CompressStrings) {
            names = Names::after(&fs::read(&path).unwrap_or_default());
        }
        let mut bytes = Vec::new();
        if append {
            bytes.push(b'\n');
        } else {
            header::file_head(&mut bytes, &tables, spool.pid());
        }
        header::part_head(&mut bytes, &tables, &events, &part, !append);
        text::body(&mut bytes, &graph, &mut places, &mut names, Style::of(&tables.config));
        let _ = writeln!(bytes, "totals: {}", header::costs(&graph.totals));
        let stored = if append { append_to(&path, &bytes) } else { replace(&path, &bytes) };
        stored.map_err(|source| Error::File { path: path.clone(), source })?;
        for (sum, n) in report.totals.iter_mut().zip(&graph.totals) {
            *sum = sum.wrapping_add(*n);
        }
        if report.files.last() != Some(&path) {
            report.files.push(path);
        }
    }
    if let Some(number) = request.part {
        spool.note_part(number, &report.totals, blocks.1)?;
    }
    report.config = tables.config;
    Ok(report)
}

/// Number of a thread, none for all threads together, and the value of each counter.
type ThreadCounts = (Option<u32>, Vec<u64>);

/// Basic blocks executed since the start, in all threads.
fn executed_blocks(spool: &SpoolFile, tables: &Tables) -> Result<u64, Error> {
    let mut sums = spool.no_counts();
    for slot in 0..spool.arenas() {
        spool.add_everything(slot, &mut sums)?;
    }
    let counted = tables.blocks.iter().flatten().filter(|b| b.flags & block_flags::PREFIX == 0);
    let executed = |b: &Block| sums.get(b.counter as usize).map_or(0, |n| n.wrapping_mul(b.basic_blocks()));
    Ok(counted.filter(|b| b.counter != 0).map(executed).fold(0, u64::wrapping_add))
}

/// The counts of each file: all threads together, or one thread each by number.
fn counts_to_write(
    spool: &SpoolFile,
    tables: &Tables,
    only: Option<u32>,
) -> Result<Vec<ThreadCounts>, Error> {
    let slots = 0..spool.arenas();
    if !tables.config.is(Number::SeparateThreads) {
        let mut sums = spool.no_counts();
        for slot in slots {
            spool.add_counts(slot, &mut sums)?;
        }
        return Ok(vec![(None, sums)]);
    }
    let mut all: Vec<ThreadCounts> = Vec::new();
    for slot in slots.filter(|s| only.is_none_or(|o| o == *s)) {
        let number = tables.threads.iter().rev().find(|t| t.0 == slot).map_or(1, |t| t.1);
        let at = match all.iter().position(|(n, _)| *n == Some(number)) {
            Some(at) => at,
            None => {
                all.push((Some(number), spool.no_counts()));
                all.len() - 1
            }
        };
        spool.add_counts(slot, &mut all[at].1)?;
    }
    all.sort_by_key(|t| t.0);
    Ok(all)
}

/// The profile's file without suffixes.
pub fn base_name(config: &Config, pid: u32) -> Result<PathBuf, PatternError> {
    let pattern = config.text(Text::OutFile).unwrap_or(b"callgrind.out.%p");
    let directory = config.text(Text::StartDir).unwrap_or(b"/");
    output::expand(pattern, pid, Path::new(OsStr::from_bytes(directory)))
}

/// Puts a new file in the place of an old one, so that nobody sees half a profile.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A device or a pipe is written as it is.
    if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    // A link stays a link; what it points to is replaced.
    let known = fs::symlink_metadata(path);
    let path = match &known {
        Ok(m) if m.is_symlink() => fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
        _ => path.to_path_buf(),
    };
    // Nothing is lost with an empty file, and some file systems take their time to replace one.
    let empty = known.is_ok_and(|m| m.is_file() && m.len() == 0);
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let write = || -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        if empty {
            let _ = fs::remove_file(&path);
        }
        fs::rename(&beside, &path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

fn append_to(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SpoolBuilder, two_functions};
    use std::os::unix::fs::{FileExt, PermissionsExt};
    use tallygraph_wire::spool::{HEADER_SIZE, Record};

    fn dump(b: &SpoolBuilder, request: &Request) -> Report {
        write(&SpoolFile::open(&b.write()).unwrap(), request).unwrap()
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_profile_is_written_whole() {
        let mut b = two_functions("whole");
        b.counter(0, 10, 2).counter(0, 11, 3).counter(0, 12, 3).counter(0, 13, 12);
        let report = dump(&b, &Request::LAST);
        assert_eq!(report.files, [b.directory().join("out.77")]);
        assert_eq!(report.totals, [2 * 3 + 3 * 4]);
        assert_eq!(fs::metadata(&report.files[0]).unwrap().permissions().mode() & 0o777, 0o600);
        let expected = "\
# callgrind format
version: 1
creator: callgrind-3.26.0
pid: 77
cmd:  ./prog a b
part: 1


desc: I1 cache: 
desc: D1 cache: 
desc: LL cache: 

desc: Timerange: Basic block 0 - 5
desc: Trigger: Program termination

positions: line
events: Ir
summary: 18


ob=(1) /no/such/prog
fl=(1) ???
fn=(1) leaf
0 12

fn=(2) main
0 6
cfn=(1)
calls=3 * 
* 12

totals: 18
";
        assert_eq!(read(&report.files[0]), expected);
        let left: Vec<_> = fs::read_dir(b.directory()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 2, "no temporary file is left: {left:?}");
    }

    #[test]
    fn instructions_are_told_apart_when_asked_for() {
        let mut b = two_functions("instr");
        b.set(Number::DumpInstr, 1).set(Number::CompressStrings, 0);
        b.counter(0, 10, 2).counter(0, 11, 3).counter(0, 12, 3).counter(0, 13, 12);
        let text = read(&dump(&b, &Request::LAST).files[0]);
        let body = text.split("\n\n\n").nth(2).unwrap();
        let expected = "\
ob=/no/such/prog
fl=???
fn=leaf
0x200 0 3
+1 * 3
+1 * 3
+1 * 3

fn=main
0x100 0 2
+2 * 2
+3 * 2
cfn=leaf
calls=3 0x200 * 
* * 12

totals: 18
";
        assert!(text.contains("positions: instr line\n"));
        assert_eq!(body, expected);
    }

    #[test]
    fn parts_have_files_of_their_own_or_share_one() {
        let mut b = two_functions("parts");
        b.counter(0, 10, 1);
        let request = Request { part: Some(2), trigger: "Client Request: x", slot: None };
        let report = dump(&b, &request);
        assert_eq!(report.files, [b.directory().join("out.77.2")]);
        let text = read(&report.files[0]);
        assert!(text.contains("\npart: 2\n") && text.contains("desc: Trigger: Client Request: x\n"));

        b.set(Number::CombineDumps, 1);
        let spool = b.write();
        let part = |number, trigger| {
            write(&SpoolFile::open(&spool).unwrap(), &Request { part: number, trigger, slot: None }).unwrap()
        };
        assert_eq!(part(Some(1), "a").totals, [3]);
        // The last part goes on counting; the costs it reports are those of all parts.
        let report = part(None, "b");
        assert_eq!(report.totals, [6]);
        assert_eq!(report.files, [b.directory().join("out.77")]);
        let text = read(&report.files[0]);
        assert_eq!(text.matches("creator:").count(), 1);
        assert_eq!(text.matches("events: Ir").count(), 2);
        assert!(text.contains("totals: 3\n\npart: 2\n\ndesc: Timerange"));
        // A number is defined once in a file.
        assert_eq!(text.matches("fn=(1) ").count(), 1);
        assert_eq!(text.matches("fn=(2) main").count(), 1, "{text}");
    }

    #[test]
    fn threads_are_written_apart_when_asked_for() {
        let mut b = two_functions("threads");
        b.set(Number::SeparateThreads, 1).thread(0, 1).thread(1, 2);
        b.counter(0, 10, 5).counter(1, 11, 7);
        let report = dump(&b, &Request::LAST);
        let name = |n: &str| b.directory().join(n);
        assert_eq!(report.files, [name("out.77-01"), name("out.77-02")]);
        assert_eq!(report.totals, [5 * 3 + 7 * 4]);
        let second = read(&report.files[1]);
        assert!(second.contains("part: 1\nthread: 2\n") && second.contains("totals: 28\n"));
    }

    #[test]
    fn a_part_that_is_no_file_is_written_as_it_is() {
        let mut b = two_functions("device");
        b.out_file("/dev/null").counter(0, 10, 1);
        assert_eq!(dump(&b, &Request::LAST).files, [Path::new("/dev/null")]);
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn an_output_that_cannot_be_written_is_named() {
        let mut b = two_functions("unwritable");
        b.out_file("/no/such/directory/out");
        let error = write(&SpoolFile::open(&b.write()).unwrap(), &Request::LAST).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/directory/out: "), "{error}");
    }

    #[test]
    fn a_damaged_spool_is_an_error_or_a_profile() {
        let mut b = two_functions("damaged");
        b.set(Number::BranchSim, 1);
        let block = crate::testing::plain_block(3, 2, 0x240, 20, &[1, 0x81, 2]);
        b.record(Record::Block(Block {
            runs: &[0, 0x13, 0, 0, 0, 0, 0, 0],
            extra: &[1, 0, 0, 0, 19, 0, 0, 0],
            charges: &[1, 0, 2, 1, 21, 0, 0, 0, 1, 0, 77, 3, 22, 0, 0, 0],
            ..block
        }));
        b.thread(0, 1)
            .counter(0, 10, 2)
            .counter(0, 12, 3)
            .counter(0, 13, 12)
            .counter(0, 20, 5)
            .counter(0, 40, 1);
        let path = b.write();
        let log = SpoolFile::open(&path).unwrap().log().unwrap();
        // The configuration names the output: damage there would write anywhere.
        let config = u32::from_le_bytes(log[4..8].try_into().unwrap()) as u64;
        let log = log.len() as u64 - config;
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        // A fixed sequence, so that a failure repeats.
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut good, mut bad) = (0, 0);
        for round in 0..1500 {
            // A number of counters that is merely large is read, and takes its time.
            let counters = std::mem::offset_of!(tallygraph_wire::spool::Header, counters_used) as u64 + 2;
            let at = if round % 8 == 0 { random(counters) } else { HEADER_SIZE + config + random(log) };
            let mut old = [0];
            file.read_exact_at(&mut old, at).unwrap();
            let new = if round % 3 == 0 { 0xff } else { random(256) as u8 };
            file.write_all_at(&[new], at).unwrap();
            match SpoolFile::open(&path).and_then(|s| write(&s, &Request::LAST)) {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
            file.write_all_at(&old, at).unwrap();
        }
        assert!(good > 100 && bad > 100, "{good} {bad}");
    }
}
