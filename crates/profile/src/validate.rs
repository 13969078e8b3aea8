//! Which consumers of the format refuse a file, or misread it, and why.
//!
//! The file has been read by [`read`](mod@crate::read), so it is well-formed; what remains is what
//! each consumer makes of it. The rules come from the consumers' own sources and behaviour:
//! KCachegrind 23.08, callgrind_annotate 3.19, gprof2dot 2025.4.14, speedscope 1.25 and
//! gungraun-runner 0.20.

use crate::Profile;
use crate::model::{FileTag, HeaderLine, Record, RemarkKind};
use std::fmt;

/// A program that reads Callgrind files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    /// The viewer.
    KCachegrind,
    /// Valgrind's script.
    CallgrindAnnotate,
    /// The graph drawer.
    Gprof2dot,
    /// The flame graph viewer.
    Speedscope,
    /// The benchmark runner.
    Gungraun,
}

impl Consumer {
    /// All of them.
    pub const ALL: [Consumer; 5] = [
        Consumer::KCachegrind,
        Consumer::CallgrindAnnotate,
        Consumer::Gprof2dot,
        Consumer::Speedscope,
        Consumer::Gungraun,
    ];
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Consumer::KCachegrind => "KCachegrind",
            Consumer::CallgrindAnnotate => "callgrind_annotate",
            Consumer::Gprof2dot => "gprof2dot",
            Consumer::Speedscope => "speedscope",
            Consumer::Gungraun => "gungraun",
        })
    }
}

/// What happens in a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It gives up.
    Refuses,
    /// It goes on with wrong or missing numbers.
    Misreads,
    /// It complains, and what it shows is right.
    Complains,
}

impl Effect {
    /// The verb in messages.
    pub fn verb(self) -> &'static str {
        match self {
            Effect::Refuses => "refuses",
            Effect::Misreads => "misreads",
            Effect::Complains => "complains about",
        }
    }
}

/// One thing a consumer stumbles over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The consumer.
    pub consumer: Consumer,
    /// What it does.
    pub effect: Effect,
    /// The first line concerned, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

/// Events that gungraun-runner knows.
const GUNGRAUN_EVENTS: [&str; 24] = [
    "Ir",
    "Dr",
    "Dw",
    "I1mr",
    "D1mr",
    "D1mw",
    "ILmr",
    "DLmr",
    "DLmw",
    "Ge",
    "Bc",
    "Bcm",
    "Bi",
    "Bim",
    "sysCount",
    "sysTime",
    "sysCpuTime",
    "ILdmr",
    "DLdmr",
    "DLdmw",
    "AcCost1",
    "AcCost2",
    "SpLoss1",
    "SpLoss2",
];

/// All findings, one for each consumer and reason, sorted.
pub fn findings(profile: &Profile) -> Vec<Finding> {
    let mut list = Findings::default();
    from_remarks(profile, &mut list);
    from_lines(profile, &mut list);
    list.0.sort();
    list.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding unless the consumer has one with this reason already.
    fn add(&mut self, consumer: Consumer, effect: Effect, line: u64, reason: &str) {
        if !self.0.iter().any(|f| f.consumer == consumer && f.reason == reason) {
            self.0.push(Finding { consumer, effect, line, reason: reason.to_string() });
        }
    }
}

fn from_remarks(profile: &Profile, list: &mut Findings) {
    use Consumer::*;
    use Effect::*;
    for remark in &profile.remarks {
        let mut add = |consumer, effect, reason| list.add(consumer, effect, remark.line, reason);
        match remark.kind {
            RemarkKind::NameDefinedTwice => {
                add(Speedscope, Refuses, "a compressed name is defined twice");
            }
            RemarkKind::NameRedefined => {
                add(KCachegrind, Complains, "a compressed name gets another text");
                add(Speedscope, Refuses, "a compressed name is defined twice");
            }
            RemarkKind::NameOfEarlierPart => {
                add(KCachegrind, Misreads, "a compressed name is defined in an earlier part only");
            }
            RemarkKind::InlineRecord => {
                let reason = "`cfni=` lines are unknown";
                add(KCachegrind, Complains, reason);
                add(CallgrindAnnotate, Complains, reason);
                add(Gprof2dot, Refuses, reason);
                add(Speedscope, Complains, reason);
                add(Gungraun, Refuses, reason);
            }
            RemarkKind::CallPositions => {}
            RemarkKind::CostOutsideFunction => {
                let reason = "costs before the first `fn=`";
                add(KCachegrind, Complains, reason);
                add(Gprof2dot, Refuses, reason);
            }
            RemarkKind::NegativeCost => {
                let reason = "a negative cost";
                add(KCachegrind, Misreads, reason);
                add(Gungraun, Refuses, reason);
            }
            RemarkKind::HexadecimalNumber => {
                let reason = "a line number or cost in hexadecimal";
                add(CallgrindAnnotate, Misreads, reason);
                add(Gprof2dot, Refuses, reason);
                add(Speedscope, Misreads, reason);
            }
            RemarkKind::HeaderInBody => {
                let reason = "a header line between costs";
                add(CallgrindAnnotate, Complains, reason);
                add(Gprof2dot, Refuses, reason);
                add(Gungraun, Refuses, reason);
            }
            RemarkKind::RecursiveCalls => {
                let reason = "`rcalls=` lines are unknown";
                add(CallgrindAnnotate, Misreads, reason);
                add(Gprof2dot, Refuses, reason);
                add(Gungraun, Refuses, reason);
            }
        }
    }
}

fn from_lines(profile: &Profile, list: &mut Findings) {
    use Consumer::*;
    use Effect::*;
    let mut line = 1;
    let mut bytes_before_events = 0usize;
    let mut in_function = false;
    let mut command: Option<String> = None;
    for (index, part) in profile.parts.iter().enumerate() {
        let mut events_seen = false;
        for header_line in &part.header.lines {
            if index == 0 && !events_seen {
                bytes_before_events += match header_line {
                    HeaderLine::Blank => 1,
                    HeaderLine::Comment(text) => text.len() + 1,
                    HeaderLine::Field { key, value } => key.len() + value.len() + 2,
                };
            }
            if let HeaderLine::Field { key, value } = header_line {
                header_field(key, value, index, events_seen, line, &mut command, list);
                events_seen |= key == "events";
                if key == "events" && index == 0 {
                    let length = bytes_before_events - (key.len() + value.len() + 2);
                    if length == 0 || length > 2047 - "events:".len() {
                        let reason =
                            "`events:` must stand within the first 2047 bytes, and not at the very start";
                        list.add(KCachegrind, Refuses, line, reason);
                    }
                }
            }
            line += 1;
        }
        if index == 0 {
            if part.header.field("version").is_none() {
                list.add(Gungraun, Refuses, 1, "the header has no `version:`");
            }
            if part.header.declared_total().is_none() {
                list.add(Gungraun, Refuses, 1, "neither `totals:` nor `summary:`");
            }
        }
        for record in part.body.records() {
            match record {
                Record::File(FileTag::Included | FileTag::Back, _) if !in_function => {
                    list.add(CallgrindAnnotate, Refuses, line, "`fi=` or `fe=` before the first `fn=`");
                }
                Record::Function(_) => in_function = true,
                Record::JumpFunction(_) => {
                    list.add(Gprof2dot, Refuses, line, "`jfn=` lines with compressed names");
                }
                Record::Summary(_) => {
                    list.add(Gungraun, Refuses, line, "`summary:` among the costs");
                }
                _ => {}
            }
            line += 1;
        }
    }
}

fn header_field(
    key: &str,
    value: &[u8],
    part: usize,
    events_seen: bool,
    line: u64,
    command: &mut Option<String>,
    list: &mut Findings,
) {
    use Consumer::*;
    use Effect::*;
    match key {
        "events" => {
            if part == 1 {
                let reason = "several parts in one file";
                list.add(CallgrindAnnotate, Misreads, line, reason);
                list.add(Speedscope, Refuses, line, "`events:` appears twice");
            }
            let text = String::from_utf8_lossy(value);
            if let Some(unknown) = text.split_whitespace().find(|e| !GUNGRAUN_EVENTS.contains(e)) {
                list.add(Gungraun, Refuses, line, &format!("event `{unknown}` is unknown"));
            }
        }
        "positions" if String::from_utf8_lossy(value).contains("instr") => {
            list.add(Speedscope, Misreads, line, "it takes `positions: instr line` for one column");
        }
        "cmd" => {
            let text = String::from_utf8_lossy(value).trim().to_string();
            if command.as_ref().is_some_and(|c| *c != text) {
                list.add(KCachegrind, Complains, line, "`cmd:` differs between parts");
            }
            *command = Some(text);
        }
        "arch" | "timeframe (BB)" => {
            list.add(Gprof2dot, Refuses, line, &format!("`{key}:` is unknown"));
            if events_seen {
                list.add(CallgrindAnnotate, Complains, line, &format!("`{key}:` after `events:`"));
            }
        }
        "version" | "creator" if part > 0 => {
            list.add(Gprof2dot, Refuses, line, &format!("`{key}:` in a later part"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn found(text: &str) -> Vec<(Consumer, Effect, u64)> {
        let profile = read::bytes("test", text.as_bytes()).unwrap();
        findings(&profile).into_iter().map(|f| (f.consumer, f.effect, f.line)).collect()
    }

    const PLAIN: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\nevents: Ir\nsummary: 1\n\n\nfl=a.c\nfn=f\n1 1\n";

    #[test]
    fn a_plain_profile_suits_everyone() {
        assert_eq!(found(PLAIN), []);
    }

    #[test]
    fn inline_records_stop_strict_readers() {
        let list = found(&format!("{PLAIN}cfni=g\n2\n"));
        assert!(list.contains(&(Consumer::Gungraun, Effect::Refuses, 11)), "{list:?}");
        assert!(list.contains(&(Consumer::Gprof2dot, Effect::Refuses, 11)), "{list:?}");
        assert!(list.contains(&(Consumer::KCachegrind, Effect::Complains, 11)), "{list:?}");
    }

    #[test]
    fn several_parts_and_unknown_events_are_found() {
        let list = found(&format!("{PLAIN}\npart: 2\nevents: Cycles\nsummary: 1\n\nfn=f\n1 1\n"));
        assert!(list.contains(&(Consumer::CallgrindAnnotate, Effect::Misreads, 13)), "{list:?}");
        assert!(list.contains(&(Consumer::Speedscope, Effect::Refuses, 13)), "{list:?}");
        assert!(list.contains(&(Consumer::Gungraun, Effect::Refuses, 13)), "{list:?}");
    }

    #[test]
    fn an_events_line_at_the_start_or_far_down_is_not_recognised() {
        let refused = (Consumer::KCachegrind, Effect::Refuses);
        let hit = |text: &str| found(text).iter().any(|f| (f.0, f.1) == refused);
        assert!(hit("events: Ir\nfn=f\n1 1\n"));
        assert!(hit(&format!("# {}\nevents: Ir\nfn=f\n1 1\n", "x".repeat(2100))));
        assert!(!hit(PLAIN));
    }
}
