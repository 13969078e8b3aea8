//! The option syntax of `valgrind`: `--name=value` words before the program.
//!
//! Rules, as users of Valgrind know them: a value is always attached with `=`; parsing stops at the
//! first word without a dash or after `--`; the last of a repeated option wins, except for lists,
//! which grow. Options also come from `~/.valgrindrc`, `$VALGRIND_OPTS` and `./.valgrindrc`, in this
//! order before the command line; `--callgrind:name=value` is for one tool only.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use tallygraph_cachesim::Geometry;
use tallygraph_cachesim::geometry::ParseError;
use tallygraph_cachesim::model::{MODELS, Model};
use tallygraph_wire::config::{Config, Number, Text, Tool};

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Run a program.
    Run(Box<Options>),
    /// Print the version.
    Version,
    /// Print the help text.
    Help,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// An open descriptor.
    Fd(i32),
    /// A file, by pattern.
    File(Vec<u8>),
}

/// Everything that follows from the command line.
#[derive(Debug)]
pub struct Options {
    /// What the agent and the writer are told.
    pub config: Config,
    /// Where log lines go.
    pub log: LogTarget,
    /// Exit status of errors found by the tool; kept for compatibility, nothing reports errors.
    pub quiet: bool,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The option words, for traced children.
    pub words: Vec<Vec<u8>>,
}

/// A wrong command line: the lines to print.
#[derive(Debug, PartialEq, Eq)]
pub struct Usage(pub Vec<String>);

fn manual() -> String {
    "valgrind: Use --help for more information or consult the user manual.".into()
}

/// The system's words for an error, without the number.
pub fn os_text(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

/// The lines about an option whose value is wrong.
pub fn bad(option: &[u8], why: &str) -> Usage {
    let mut lines = vec![format!("valgrind: Bad option: {}", String::from_utf8_lossy(option))];
    if !why.is_empty() {
        lines.push(format!("valgrind: {why}"));
    }
    lines.push(manual());
    Usage(lines)
}

/// The lines about a cache that can't be simulated.
fn bad_cache(option: &[u8], value: &str, error: &ParseError) -> Usage {
    match error {
        ParseError::Overflow => bad(option, "One of the cache parameters was too large and overflowed."),
        ParseError::Syntax => bad(option, &format!("Bad argument '{value}'")),
        ParseError::Geometry(e) => {
            let mut usage = bad(option, &format!("Bad argument '{value}'"));
            usage.0.insert(0, format!("valgrind: {e}"));
            usage
        }
    }
}

/// How a value is read and where it goes.
#[derive(Clone, Copy)]
enum Kind {
    /// `yes` or `no`.
    Flag(Number),
    /// One of these words; its position is stored.
    Choice(Number, &'static [&'static str]),
    /// A decimal number within bounds.
    Count(Number, u64, u64),
    /// A string; the last one wins.
    One(Text),
    /// A string; all are kept.
    List(Text),
    /// Comma-separated strings; all are kept.
    Commas(Text),
    /// `yes` or `no`, a bit of [`Number::SimVariant`].
    Variant(u64),
    /// A cache: `size,assoc,line`.
    Cache(Text),
    /// A machine by name: its three caches.
    Machine,
    /// Accepted, checked by the rule, and without effect here.
    Accepted(Check),
}

/// What an accepted option's value must look like.
#[derive(Clone, Copy)]
enum Check {
    Any,
    YesNo,
    Integer,
    OneOf(&'static [&'static str]),
}

use Check::*;
use Kind::*;

const TABLE: &[(&str, Kind)] = &[
    // Callgrind.
    ("callgrind-out-file", One(Text::OutFile)),
    ("dump-line", Flag(Number::DumpLine)),
    ("dump-instr", Flag(Number::DumpInstr)),
    ("compress-strings", Flag(Number::CompressStrings)),
    ("compress-pos", Flag(Number::CompressPos)),
    ("combine-dumps", Flag(Number::CombineDumps)),
    ("dump-every-bb", Count(Number::DumpEveryBb, 0, i64::MAX as u64)),
    ("dump-before", List(Text::DumpBefore)),
    ("zero-before", List(Text::ZeroBefore)),
    ("dump-after", List(Text::DumpAfter)),
    ("instr-atstart", Choice(Number::InstrAtStart, &["no", "yes", "inherit"])),
    ("collect-atstart", Flag(Number::CollectAtStart)),
    ("toggle-collect", List(Text::ToggleCollect)),
    ("collect-jumps", Flag(Number::CollectJumps)),
    ("trace-jump", Flag(Number::CollectJumps)),
    ("collect-bus", Flag(Number::CollectBus)),
    ("collect-systime", Choice(Number::CollectSystime, &["no", "msec", "usec", "nsec", "yes"])),
    ("separate-threads", Flag(Number::SeparateThreads)),
    ("skip-plt", Flag(Number::SkipPlt)),
    ("skip-direct-rec", Flag(Number::SkipDirectRec)),
    ("fn-skip", List(Text::FnSkip)),
    ("obj-skip", List(Text::ObjSkip)),
    ("cache-sim", Flag(Number::CacheSim)),
    ("simulate-cache", Flag(Number::CacheSim)),
    ("branch-sim", Flag(Number::BranchSim)),
    ("simulate-wb", Variant(1)),
    ("simulate-hwpref", Variant(2)),
    ("cacheuse", Variant(4)),
    ("cycle-estimation", Accepted(YesNo)),
    ("I1", Cache(Text::CacheI1)),
    ("D1", Cache(Text::CacheD1)),
    ("LL", Cache(Text::CacheLl)),
    ("L2", Cache(Text::CacheLl)),
    // Ours.
    ("cache-model", Machine),
    ("callgrind-compat", Choice(Number::CompatStrict, &["right", "strict"])),
    ("vdso", Choice(Number::HideVdso, &["keep", "hide"])),
    ("calling-contexts", Flag(Number::CallingContexts)),
    ("dump-inline", Flag(Number::DumpInline)),
    // Core.
    ("trace-children", Flag(Number::TraceChildren)),
    ("trace-children-skip", Commas(Text::TraceChildrenSkip)),
    ("trace-children-skip-by-arg", Commas(Text::TraceChildrenSkipByArg)),
    ("child-silent-after-fork", Flag(Number::ChildSilentAfterFork)),
    ("read-inline-info", Flag(Number::ReadInlineInfo)),
    ("demangle", Flag(Number::Demangle)),
    ("extra-debuginfo-path", List(Text::ExtraDebuginfoPath)),
    ("fullpath-after", List(Text::FullpathAfter)),
    ("debuginfo-command", One(Text::DebuginfoCommand)),
    ("run-libc-freeres", Accepted(YesNo)),
    ("run-cxx-freeres", Accepted(YesNo)),
    ("time-stamp", Flag(Number::TimeStamp)),
    ("error-exitcode", Accepted(Integer)),
    ("exit-on-first-error", Accepted(YesNo)),
    ("error-markers", Accepted(Any)),
    ("vgdb", Accepted(OneOf(&["no", "yes", "full"]))),
    ("vgdb-error", Accepted(Integer)),
    ("vgdb-stop-at", Accepted(Any)),
    ("vgdb-poll", Accepted(Integer)),
    ("vgdb-shadow-registers", Accepted(YesNo)),
    ("vgdb-prefix", Accepted(Any)),
    ("smc-check", Accepted(OneOf(&["none", "stack", "all", "all-non-file"]))),
    ("fair-sched", Accepted(OneOf(&["no", "yes", "try"]))),
    ("main-stacksize", Accepted(Integer)),
    ("max-stackframe", Accepted(Integer)),
    ("valgrind-stacksize", Accepted(Integer)),
    ("max-threads", Accepted(Integer)),
    ("num-callers", Count(Number::NumCallers, 1, 500)),
    ("num-transtab-sectors", Accepted(Integer)),
    ("avg-transtab-entry-size", Accepted(Integer)),
    ("aspace-minaddr", Accepted(Any)),
    ("sim-hints", Accepted(Any)),
    ("kernel-variant", Accepted(Any)),
    ("scheduling-quantum", Accepted(Integer)),
    ("suppressions", Accepted(Any)),
    ("default-suppressions", Accepted(YesNo)),
    ("gen-suppressions", Accepted(OneOf(&["no", "yes", "all"]))),
    ("error-limit", Accepted(YesNo)),
    ("show-error-list", Accepted(OneOf(&["no", "yes", "all"]))),
    ("show-below-main", Flag(Number::ShowBelowMain)),
    ("merge-recursive-frames", Accepted(Integer)),
    ("track-fds", Accepted(OneOf(&["no", "yes", "all"]))),
    ("keep-debuginfo", Accepted(YesNo)),
    ("allow-mismatched-debuginfo", Accepted(YesNo)),
    ("debuginfo-server", Accepted(Any)),
    ("enable-debuginfod", Accepted(YesNo)),
    ("soname-synonyms", Accepted(Any)),
    ("require-text-symbol", Accepted(Any)),
    ("sigill-diagnostics", Accepted(YesNo)),
    ("show-emwarns", Accepted(YesNo)),
    ("xml", Accepted(YesNo)),
    ("xml-fd", Accepted(Integer)),
    ("xml-file", Accepted(Any)),
    ("xml-socket", Accepted(Any)),
    ("xml-user-comment", Accepted(Any)),
    ("input-fd", Accepted(Integer)),
    ("dsymutil", Accepted(YesNo)),
    ("wait-for-gdb", Accepted(YesNo)),
    ("sanity-level", Accepted(Integer)),
    ("command-line-only", Accepted(YesNo)),
    ("progress-interval", Accepted(Integer)),
    ("sym-offsets", Accepted(YesNo)),
    ("profile-heap", Accepted(YesNo)),
    ("trace-syscalls", Accepted(YesNo)),
    ("trace-signals", Accepted(YesNo)),
    ("trace-symtab", Accepted(YesNo)),
    ("trace-sched", Accepted(YesNo)),
    ("trace-redir", Accepted(YesNo)),
    ("unw-stack-scan-thresh", Accepted(Integer)),
    ("unw-stack-scan-frames", Accepted(Integer)),
    ("resync-filter", Accepted(OneOf(&["no", "yes", "verbose"]))),
    ("read-var-info", Accepted(YesNo)),
    ("stats", Flag(Number::Stats)),
    ("px-default", Accepted(Any)),
    ("px-file-backed", Accepted(Any)),
];

/// The parser's state.
struct Parser {
    config: Config,
    log: LogTarget,
    tool: Tool,
    request: Option<Request>,
    words: Vec<Vec<u8>>,
}

impl Parser {
    fn new() -> Self {
        let mut config = Config::new();
        for (key, value) in [
            (Number::Tool, Tool::Callgrind as u64),
            (Number::InstrAtStart, 1),
            (Number::CollectAtStart, 1),
            (Number::SeparateRecs, 2),
            (Number::SkipPlt, 1),
            (Number::DumpLine, 1),
            (Number::CompressStrings, 1),
            (Number::CompressPos, 1),
            (Number::Demangle, 1),
            (Number::HideVdso, 1),
        ] {
            config.set(key, value);
        }
        Parser { config, log: LogTarget::Fd(2), tool: Tool::Callgrind, request: None, words: Vec::new() }
    }

    fn option(&mut self, word: &[u8]) -> Result<(), Usage> {
        let original = word;
        let text = String::from_utf8_lossy(word).into_owned();
        match text.as_str() {
            "-q" | "--quiet" => {
                self.config.set(Number::Quiet, 1);
                return Ok(());
            }
            "-v" | "--verbose" => {
                let v = self.config.get(Number::Verbose);
                self.config.set(Number::Verbose, v + 1);
                return Ok(());
            }
            "-d" | "-s" => return Ok(()),
            "-h" | "--help" | "--help-debug" | "--help-dyn-options" => {
                self.request = Some(Request::Help);
                return Ok(());
            }
            "--version" => {
                self.request = Some(Request::Version);
                return Ok(());
            }
            _ => {}
        }
        let unknown = || {
            Usage(vec![format!("valgrind: Unknown option: {}", String::from_utf8_lossy(original)), manual()])
        };
        let body = word.strip_prefix(b"--").ok_or_else(unknown)?;
        // `--tool-name:option=value` is for that tool alone.
        let colon = body.iter().position(|&b| b == b':');
        let equals = body.iter().position(|&b| b == b'=');
        let body = match colon {
            Some(c) if equals.is_none_or(|e| c < e) => {
                if &body[..c] != b"callgrind" {
                    return Ok(());
                }
                &body[c + 1..]
            }
            _ => body,
        };
        let Some(equals) = body.iter().position(|&b| b == b'=') else { return Err(unknown()) };
        let (name, value) = (&body[..equals], &body[equals + 1..]);
        let name = std::str::from_utf8(name).map_err(|_| unknown())?;
        let value_text = String::from_utf8_lossy(value).into_owned();
        match name {
            "tool" => {
                self.tool = match value_text.as_str() {
                    "callgrind" => Tool::Callgrind,
                    "none" => Tool::None,
                    other => {
                        return Err(Usage(vec![format!(
                            "valgrind: failed to start tool '{other}' for platform 'amd64-linux': only callgrind and none exist here"
                        )]));
                    }
                };
                return Ok(());
            }
            "log-fd" => {
                let invalid = |_| bad(original, &format!("Invalid integer value '{value_text}'"));
                let fd = value_text.parse().map_err(invalid)?;
                self.log = LogTarget::Fd(fd);
                return Ok(());
            }
            "log-file" => {
                self.log = LogTarget::File(value.to_vec());
                return Ok(());
            }
            "log-socket" => {
                return Err(bad(original, "logging to a socket is not supported; use --log-file"));
            }
            "stress" => return self.stress(original, &value_text),
            _ => {}
        }
        if let Some(n) = name.strip_prefix("separate-callers") {
            return self.numbered(original, n, value, Number::SeparateCallers, Text::SeparateCallersFn);
        }
        if let Some(n) = name.strip_prefix("separate-recs") {
            return self.numbered(original, n, value, Number::SeparateRecs, Text::SeparateRecsFn);
        }
        if let Some(n) = name.strip_prefix("fn-group") {
            n.parse::<std::num::NonZeroU32>().map_err(|_| unknown())?;
            let mut text = format!("{n}=").into_bytes();
            text.extend_from_slice(value);
            self.config.push(Text::FnGroup, &text);
            return Ok(());
        }
        let kind = TABLE.iter().find(|(n, _)| *n == name).map(|(_, k)| *k).ok_or_else(unknown)?;
        self.store(original, kind, value, &value_text)
    }

    /// `--separate-callers=N`, `=auto`, or `--separate-callersN=function`.
    fn numbered(
        &mut self,
        original: &[u8],
        n: &str,
        value: &[u8],
        all: Number,
        some: Text,
    ) -> Result<(), Usage> {
        if n.is_empty() {
            if value == b"auto" && all == Number::SeparateCallers {
                self.config.set(all, 0);
                return Ok(());
            }
            let text = String::from_utf8_lossy(value);
            let invalid = |_| bad(original, &format!("Invalid integer value '{text}'"));
            let count: u64 = text.parse().map_err(invalid)?;
            self.config.set(all, count.min(1000));
            return Ok(());
        }
        n.parse::<std::num::NonZeroU32>().map_err(|_| {
            Usage(vec![format!("valgrind: Unknown option: {}", String::from_utf8_lossy(original)), manual()])
        })?;
        let mut text = format!("{n}=").into_bytes();
        text.extend_from_slice(value);
        self.config.push(some, &text);
        Ok(())
    }

    fn stress(&mut self, original: &[u8], value: &str) -> Result<(), Usage> {
        for part in value.split(',') {
            let (key, number) = match part.split_once('=') {
                Some((k, v)) => (k, v.parse::<u64>().map_err(|_| bad(original, "a number is expected"))?),
                None => (part, 1),
            };
            let key = match key {
                "no-links" => Number::StressNoLinks,
                "no-traces" => Number::StressNoTraces,
                "block" => Number::StressBlockLimit,
                "cache" => Number::StressCacheSize,
                "flush" => Number::StressFlush,
                "no-ibl" => Number::StressNoIbl,
                _ => {
                    return Err(bad(
                        original,
                        "known: no-links, no-traces, block=N, cache=BYTES, flush, no-ibl",
                    ));
                }
            };
            self.config.set(key, number);
        }
        Ok(())
    }

    fn store(&mut self, original: &[u8], kind: Kind, value: &[u8], text: &str) -> Result<(), Usage> {
        let yes_no = |text: &str| match text {
            "yes" => Ok(1),
            "no" => Ok(0),
            _ => Err(bad(original, &format!("Invalid boolean value '{text}' (should be 'yes' or 'no')"))),
        };
        let integer = |text: &str| {
            let parsed = text.parse::<i64>();
            parsed.map_err(|_| bad(original, &format!("Invalid integer value '{text}'")))
        };
        match kind {
            Flag(key) => self.config.set(key, yes_no(text)?),
            Variant(bit) => {
                let others = self.config.get(Number::SimVariant) & !bit;
                self.config.set(Number::SimVariant, others | (bit * yes_no(text)?));
            }
            Choice(key, words) => {
                let at = words.iter().position(|w| *w == text);
                let at =
                    at.ok_or_else(|| bad(original, &format!("should be one of: {}", words.join(", "))))?;
                // `yes` for the system time means milliseconds.
                let at = if words[at] == "yes" && words.len() == 5 { 1 } else { at };
                self.config.set(key, at as u64);
            }
            Count(key, low, high) => {
                let n = u64::try_from(integer(text)?).unwrap_or(0);
                if !(low..=high).contains(&n) {
                    let range = format!("Value '{text}' is out of range ({low} to {high})");
                    return Err(bad(original, &range));
                }
                self.config.set(key, n);
            }
            One(key) => {
                self.config.clear(key);
                self.config.push(key, value);
            }
            List(key) => {
                self.config.push(key, value);
                if key == Text::ToggleCollect {
                    self.config.set(Number::CollectAtStart, 0);
                }
            }
            Commas(key) => {
                for part in value.split(|&b| b == b',') {
                    self.config.push(key, part);
                }
            }
            Cache(key) => {
                if let Err(e) = Geometry::parse(text) {
                    return Err(bad_cache(original, text, &e));
                }
                self.config.clear(key);
                self.config.push(key, value);
                self.config.set(Number::CacheSim, 1);
            }
            Machine => {
                let Some(model) = Model::named(text) else {
                    let names: Vec<&str> = MODELS.iter().map(|m| m.name).collect();
                    return Err(bad(original, &format!("known machines are {}", names.join(", "))));
                };
                let [i1, d1, ll] = model.caches();
                for (key, cache) in [(Text::CacheI1, i1), (Text::CacheD1, d1), (Text::CacheLl, ll)] {
                    let value = format!("{},{},{}", cache.size(), cache.ways(), cache.line());
                    self.config.clear(key);
                    self.config.push(key, value.as_bytes());
                }
                self.config.set(Number::CacheSim, 1);
            }
            Accepted(check) => match check {
                Any => {}
                YesNo => {
                    yes_no(text)?;
                }
                Integer => {
                    integer(text)?;
                }
                OneOf(words) => {
                    if !words.contains(&text) {
                        return Err(bad(original, &format!("should be one of: {}", words.join(", "))));
                    }
                }
            },
        }
        Ok(())
    }

    fn words(&mut self, words: &[Vec<u8>]) -> Result<(), Usage> {
        for word in words {
            self.option(word)?;
            self.words.push(word.clone());
        }
        Ok(())
    }
}

/// Option words of a file or variable: separated by white space, `#` starts a comment line.
fn split_words(text: &[u8]) -> Vec<Vec<u8>> {
    text.split(|&b| b == b'\n')
        .filter(|line| !line.trim_ascii_start().starts_with(b"#"))
        .flat_map(|line| line.split(u8::is_ascii_whitespace))
        .filter(|w| !w.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

/// Option words of the user's files and of the environment.
fn ambient_words() -> Vec<Vec<u8>> {
    use std::os::unix::fs::MetadataExt;
    let mut words = Vec::new();
    if let Some(home) = std::env::var_os("HOME")
        && let Ok(text) = std::fs::read(std::path::Path::new(&home).join(".valgrindrc"))
    {
        words.extend(split_words(&text));
    }
    if let Some(text) = std::env::var_os("VALGRIND_OPTS") {
        words.extend(split_words(text.as_bytes()));
    }
    // A file of somebody else in the current directory is not trusted.
    let own = std::fs::metadata("./.valgrindrc").is_ok_and(|m| {
        let me = std::fs::metadata("/proc/self").map(|p| p.uid());
        me.is_ok_and(|uid| m.uid() == uid) && m.mode() & 0o002 == 0
    });
    if own && let Ok(text) = std::fs::read("./.valgrindrc") {
        words.extend(split_words(&text));
    }
    words
}

/// Reads a command line without its first word (the executable's name and, if given, `run`).
pub fn parse(args: &[OsString], ambient: bool) -> Result<Request, Usage> {
    let mut p = Parser::new();
    if ambient && !args.iter().any(|a| a == "--command-line-only=yes") {
        p.words(&ambient_words())?;
    }
    let mut rest = args;
    while let Some((first, others)) = rest.split_first() {
        let word = first.as_bytes();
        if word == b"--" {
            rest = others;
            break;
        }
        if !word.starts_with(b"-") || word == b"-" {
            break;
        }
        p.words(&[word.to_vec()])?;
        rest = others;
    }
    if let Some(request) = p.request {
        return Ok(request);
    }
    if rest.is_empty() {
        return Err(Usage(vec![
            "valgrind: no program specified".into(),
            "valgrind: Use --help for more information.".into(),
        ]));
    }
    p.config.set(Number::Tool, p.tool as u64);
    Ok(Request::Run(Box::new(Options {
        quiet: p.config.is(Number::Quiet),
        config: p.config,
        log: p.log,
        command: rest.iter().map(|w| OsString::from_vec(w.as_bytes().to_vec())).collect(),
        words: p.words,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(words: &[&str]) -> Result<Request, Usage> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        parse(&words, false)
    }

    fn options(words: &[&str]) -> Options {
        match parse_words(words) {
            Ok(Request::Run(o)) => *o,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parsing_stops_at_the_program() {
        let o = options(&["--dump-instr=yes", "prog", "--dump-instr=no", "-q"]);
        assert!(o.config.is(Number::DumpInstr) && !o.quiet);
        assert_eq!(o.command, ["prog", "--dump-instr=no", "-q"]);
        let o = options(&["-q", "--", "-odd"]);
        assert_eq!(o.command, ["-odd"]);
    }

    #[test]
    fn the_last_wins_but_lists_grow() {
        let o = options(&["--cache-sim=yes", "--cache-sim=no", "--fn-skip=a", "--fn-skip=b*", "x"]);
        assert!(!o.config.is(Number::CacheSim));
        assert_eq!(o.config.texts(Text::FnSkip).collect::<Vec<_>>(), [&b"a"[..], b"b*"]);
    }

    #[test]
    fn toggling_implies_that_collection_is_off() {
        assert!(options(&["x"]).config.is(Number::CollectAtStart));
        assert!(!options(&["--toggle-collect=f", "x"]).config.is(Number::CollectAtStart));
    }

    #[test]
    fn numbered_options_carry_a_number_in_their_name() {
        let o = options(&["--separate-callers=3", "--separate-callers2=f", "--separate-recs5=g", "x"]);
        assert_eq!(o.config.get(Number::SeparateCallers), 3);
        assert_eq!(o.config.text(Text::SeparateCallersFn), Some(&b"2=f"[..]));
        assert_eq!(o.config.text(Text::SeparateRecsFn), Some(&b"5=g"[..]));
        assert_eq!(o.config.get(Number::SeparateRecs), 2);
    }

    #[test]
    fn mistakes_are_named() {
        for (words, first) in [
            (&["--bogus", "x"][..], "valgrind: Unknown option: --bogus"),
            (&["--cache-sim", "yes", "x"], "valgrind: Unknown option: --cache-sim"),
            (&["--cache-model=z80", "x"], "valgrind: Bad option: --cache-model=z80"),
            (&["--cache-sim=maybe", "x"], "valgrind: Bad option: --cache-sim=maybe"),
            (&["--I1=1,2", "x"], "valgrind: Bad option: --I1=1,2"),
            (&["-x", "y"], "valgrind: Unknown option: -x"),
            (&["--I1=1000,3,32", "x"], "valgrind: Cache set count is not a power of two."),
            (&["--separate-callers=x", "y"], "valgrind: Bad option: --separate-callers=x"),
            (&[], "valgrind: no program specified"),
        ] {
            let Err(Usage(lines)) = parse_words(words) else { panic!("{words:?}") };
            assert_eq!(lines[0], first);
        }
    }

    #[test]
    fn cache_options_switch_the_simulation_on() {
        let o = options(&["--LL=8388608,16,64", "x"]);
        assert!(o.config.is(Number::CacheSim));
        let o = options(&["--cache-model=icelake", "--LL=1048576,16,64", "x"]);
        assert_eq!(o.config.text(Text::CacheD1), Some(&b"49152,12,64"[..]));
        assert_eq!(o.config.text(Text::CacheLl), Some(&b"1048576,16,64"[..]), "later options win");
        assert!(o.config.is(Number::CacheSim));
        let o = options(&["--cacheuse=yes", "--simulate-hwpref=yes", "--simulate-hwpref=no", "x"]);
        assert_eq!(o.config.get(Number::SimVariant), 4);
    }

    #[test]
    fn words_after_a_mistake_in_a_value_are_the_reason() {
        let Err(Usage(lines)) = parse_words(&["--dump-every-bb=many", "x"]) else { panic!("accepted") };
        assert_eq!(lines[1], "valgrind: Invalid integer value 'many'");
        let Err(Usage(lines)) = parse_words(&["--I1=8,x,1", "x"]) else { panic!("accepted") };
        assert_eq!(lines[1], "valgrind: Bad argument '8,x,1'");
    }

    #[test]
    fn options_of_other_tools_are_passed_over() {
        let o = options(&["--memcheck:leak-check=full", "--callgrind:dump-instr=yes", "x"]);
        assert!(o.config.is(Number::DumpInstr));
    }

    #[test]
    fn words_of_a_file_leave_comments_out() {
        assert_eq!(split_words(b"-q  --x=1\n# no\n\t-v\n"), [&b"-q"[..], b"--x=1", b"-v"]);
    }
}
