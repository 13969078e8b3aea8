//! Reading Callgrind files of every dialect.
//!
//! The text is mapped, cut into pieces at `fn=` lines, and the pieces are read in parallel
//! (in `piece`); a sequential pass over the pieces then joins their names and states.
//! Whatever the number of threads and the size of the pieces, the result is the same.
//!
//! Nothing is skipped: a line that is not understood makes the whole file unreadable, and the
//! error names every such line. Lines that are understood but would trouble another consumer of
//! the format become [`Remark`](crate::model::Remark)s.

mod error;
mod header;
mod join;
mod number;
mod piece;
mod split;

pub use error::{Defect, ReadError, Reason};

use crate::model::{Header, Profile};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

/// How to read.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Called with the number of bytes done since the last call, from any thread.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
    /// Bytes of text that one task reads.
    pub piece_bytes: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { progress: None, piece_bytes: 4 << 20 }
    }
}

/// Reads a file; `-` is standard input.
pub fn file(path: &Path, options: Options) -> Result<Profile, ReadError> {
    let io = |source| ReadError::Io { path: path.to_path_buf(), source };
    let origin = path.display().to_string();
    if origin == "-" {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map_err(io)?;
        return read("standard input", &text, options, &|_| {});
    }
    let mut file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(io)?;
        return read(&origin, &text, options, &|_| {});
    }
    if metadata.len() == 0 {
        return Err(ReadError::Empty { origin });
    }
    // SAFETY: the mapping is only read. Writers of profiles write a new file and rename it; one
    // that truncates a file while it is being read ends this process with SIGBUS, as for every
    // program that maps its input.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
    let done = |range: std::ops::Range<usize>| {
        // Pages already read are given back, so that the text and its records are never both in
        // memory. Only whole pages inside the range may go.
        const PAGE: usize = 4096;
        let start = range.start.next_multiple_of(PAGE);
        let end = range.end / PAGE * PAGE;
        if start < end {
            // SAFETY: a private read-only mapping of a file: dropped pages are read again on access.
            let _ =
                unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
        }
    };
    read(&origin, &map, options, &done)
}

/// Reads a text; `origin` is its name in messages.
pub fn bytes(origin: &str, text: &[u8]) -> Result<Profile, ReadError> {
    read(origin, text, Options::default(), &|_| {})
}

/// Reads a text with options.
pub fn bytes_with(origin: &str, text: &[u8], options: Options) -> Result<Profile, ReadError> {
    read(origin, text, options, &|_| {})
}

fn read(
    origin: &str,
    text: &[u8],
    options: Options,
    done: &(dyn Fn(std::ops::Range<usize>) + Sync),
) -> Result<Profile, ReadError> {
    if text.is_empty() {
        return Err(ReadError::Empty { origin: origin.to_string() });
    }
    let parts = split::parts(text);
    if parts.is_empty() {
        return Err(ReadError::NoEvents { origin: origin.to_string() });
    }
    let mut joined = join::Joiner::new(origin);
    // Headers are read first, with line numbers from 0; the joiner knows where they stand.
    let headers: Vec<(Header, u64, Vec<Defect>)> = parts
        .iter()
        .map(|part| {
            let mut defects = Vec::new();
            let (header, lines) = header::parse(&text[part.header.clone()], 0, &mut defects);
            (header, lines, defects)
        })
        .collect();
    let mut tasks = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        for (i, range) in split::pieces(text, part.body.clone(), options.piece_bytes).into_iter().enumerate()
        {
            tasks.push((index, i == 0, range));
        }
    }
    let columns: Vec<_> = headers.iter().map(|(h, ..)| (h.columns, h.events.len())).collect();
    let mut headers = headers.into_iter();
    let mut current = None;
    let read_piece = |(part, first, range): &Task| {
        let (columns, events) = columns[*part];
        let piece = piece::read(&text[range.clone()], columns, events, *first);
        if let Some(progress) = options.progress {
            progress(range.len() as u64);
        }
        piece
    };
    in_order(&tasks, read_piece, |(part, _, range), piece| {
        while current != Some(*part) {
            let (header, lines, defects) = headers.next().expect("a header for each part");
            joined.begin_part(header, lines, defects);
            current = Some(current.map_or(0, |n: usize| n + 1));
        }
        joined.add(piece);
        done(range.clone());
    });
    for (header, lines, defects) in headers {
        joined.begin_part(header, lines, defects);
    }
    joined.finish()
}

/// A piece to read: its part, whether it is the part's first, and where it is.
type Task = (usize, bool, std::ops::Range<usize>);

/// Does `work` on all tasks in parallel and hands the results to `take` in the order of the tasks,
/// while later ones are still worked on.
fn in_order<R: Send>(tasks: &[Task], work: impl Fn(&Task) -> R + Sync, mut take: impl FnMut(&Task, R)) {
    // Within a thread of the pool, waiting for the pool could be waiting for oneself.
    if tasks.len() < 2 || rayon::current_thread_index().is_some() {
        let results: Vec<R> = tasks.par_iter().map(&work).collect();
        tasks.iter().zip(results).for_each(|(task, result)| take(task, result));
        return;
    }
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    rayon::in_place_scope(|scope| {
        for _ in 0..rayon::current_num_threads() {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move |_| {
                // Taken one by one, so that results come nearly in order and few wait.
                while let Some((i, task)) =
                    Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, tasks.get(i)?)))
                {
                    if sender.send((i, work(task))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut wanted = 0;
        for (i, result) in receiver {
            waiting.insert(i, result);
            while let Some(result) = waiting.remove(&wanted) {
                take(&tasks[wanted], result);
                wanted += 1;
            }
        }
    });
}
