//! The header of a part.

use super::error::{Defect, Reason};
use super::number::{Scanner, shown};
use crate::model::{Columns, EventDefinition, Header, HeaderLine};

/// Header fields of every known generator.
const FIELDS: [&str; 14] = [
    "version",
    "creator",
    "pid",
    "cmd",
    "part",
    "thread",
    "desc",
    "positions",
    "event",
    "events",
    "summary",
    "totals",
    "arch",
    "timeframe (BB)",
];

/// Splits `key:value` when `key` is a header field.
pub fn field(line: &[u8]) -> Option<(&str, &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let key = std::str::from_utf8(&line[..colon]).ok()?;
    FIELDS.contains(&key).then(|| (key, &line[colon + 1..]))
}

/// Whether a line may belong to the header that precedes an `events:` line.
pub fn may_precede_events(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
        || line.starts_with(b"#")
        || field(line).is_some_and(|(key, _)| key != "totals" && key != "summary")
}

/// Whether a line may belong to the header after its `events:` line.
pub fn may_follow_events(line: &[u8]) -> bool {
    may_precede_events(line) || field(line).is_some_and(|(key, _)| key == "summary")
}

/// Reads a header; returns it with the number of lines.
pub fn parse(text: &[u8], first_line: u64, defects: &mut Vec<Defect>) -> (Header, u64) {
    let mut header = Header::default();
    let mut scanner = Scanner::new(text);
    let mut line = first_line;
    let mut positions_seen = false;
    while scanner.at < text.len() {
        let content = scanner.rest();
        if let Err(reason) = read_line(&mut header, content, &mut positions_seen) {
            defects.push(Defect { line, reason });
        }
        scanner.next_line();
        line += 1;
    }
    (header, line - first_line)
}

fn read_line(header: &mut Header, line: &[u8], positions_seen: &mut bool) -> Result<(), Reason> {
    if line.iter().all(u8::is_ascii_whitespace) {
        header.lines.push(HeaderLine::Blank);
        return Ok(());
    }
    if line.starts_with(b"#") {
        header.lines.push(HeaderLine::Comment(line.into()));
        return Ok(());
    }
    let Some((key, value)) = field(line) else {
        let key = line.split(|&b| b == b':').next().unwrap_or(line);
        return Err(if key.len() < line.len() && key.iter().all(u8::is_ascii_alphanumeric) {
            Reason::UnknownField(shown(key))
        } else {
            Reason::UnknownLine(shown(line))
        });
    };
    let text = String::from_utf8_lossy(value);
    let once = |taken: bool| if taken { Err(Reason::FieldTwice(key.to_string())) } else { Ok(()) };
    match key {
        "positions" => {
            once(std::mem::replace(positions_seen, true))?;
            header.columns = columns(text.trim())?;
        }
        "events" => {
            once(!header.events.is_empty())?;
            for event in text.split_whitespace() {
                if header.events.iter().any(|e| e == event) {
                    return Err(Reason::EventTwice(event.to_string()));
                }
                header.events.push(event.to_string());
            }
            if header.events.is_empty() {
                return Err(Reason::NoEventNames);
            }
        }
        "event" => {
            header.definitions.push(EventDefinition::parse(&text).map_err(Reason::EventDefinition)?);
        }
        "pid" => header.pid = Some(integer(&text, "process id")?),
        "part" => header.part = Some(integer(&text, "part number")?),
        "thread" => header.thread = Some(integer(&text, "thread number")?),
        "summary" => {
            once(header.summary.is_some())?;
            header.summary = Some(totals(value, header.events.len())?);
        }
        _ => {}
    }
    header.lines.push(HeaderLine::Field { key: key.to_string(), value: value.into() });
    Ok(())
}

fn columns(text: &str) -> Result<Columns, Reason> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        // Callgrind writes no word for --dump-line=no; one column of zeros follows all the same.
        [] | ["line"] => Ok(Columns { instr: false, line: true }),
        ["instr"] => Ok(Columns { instr: true, line: false }),
        ["instr", "line"] => Ok(Columns { instr: true, line: true }),
        _ => Err(Reason::Positions(text.to_string())),
    }
}

fn integer(text: &str, what: &'static str) -> Result<i64, Reason> {
    let found = text.trim();
    found.parse().map_err(|_| Reason::ExpectedNumber { what, found: shown(found.as_bytes()) })
}

/// The numbers of `summary:` and `totals:`.
pub fn totals(value: &[u8], events: usize) -> Result<Vec<i64>, Reason> {
    let mut scanner = Scanner::new(value);
    let mut costs = Vec::with_capacity(events);
    loop {
        scanner.spaces();
        if scanner.at >= value.len() {
            break;
        }
        costs.push(scanner.cost()?);
    }
    if costs.len() > events {
        return Err(Reason::TooManyCosts { found: costs.len(), events });
    }
    Ok(costs)
}
