//! The benchmark file: tools × commands × configurations, in TOML.
//!
//! Every text may hold `{name}` placeholders; what they stand for is listed at [`Places`]. Unknown
//! keys are errors, so that a typing mistake is not a silently ignored setting.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tallygraph_compare::decisions::matches;

use super::Failure;

/// A benchmark file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the suite, the first part of every id.
    pub name: String,
    /// Template of ids.
    #[serde(default = "default_id")]
    pub id: String,
    /// How to measure.
    #[serde(default)]
    pub run: RunOptions,
    /// How to count instructions.
    #[serde(default)]
    pub counts: Counts,
    /// A profiler that may watch measured processes.
    pub profiler: Option<Profiler>,
    /// Environment of every run: set variables; an empty file-wide `clear` starts from nothing.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether the caller's environment is passed on; if not, only `PATH` and `HOME` are.
    #[serde(default)]
    pub inherit_environment: bool,
    /// The tools; none means the commands themselves.
    #[serde(default, rename = "tool")]
    pub tools: Vec<Tool>,
    /// The commands.
    #[serde(rename = "command")]
    pub commands: Vec<Command>,
    /// The configurations; none means one without arguments.
    #[serde(default, rename = "config")]
    pub configs: Vec<Configuration>,
}

fn default_id() -> String {
    "{name}[{tool}, {command}, {config}]".to_string()
}

/// How to measure; each can be set on the command line too.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunOptions {
    /// Runs of each side in a block.
    pub repeat: u32,
    /// Blocks before the precision is looked at.
    pub min_blocks: u32,
    /// Blocks at most.
    pub max_blocks: u32,
    /// Blocks that only warm up.
    pub warm_up: u32,
    /// Time for the whole session; measuring stops after the block in which it runs out.
    #[serde(deserialize_with = "optional_duration")]
    pub budget: Option<Duration>,
    /// Time for one run.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// Change that matters.
    pub threshold: Option<f64>,
    /// Runs shorter than this are treated as `short` says.
    #[serde(deserialize_with = "optional_duration")]
    pub min_duration: Option<Duration>,
    /// What to do with runs shorter than `min_duration`.
    pub short: Short,
    /// Whether address layout and environment size are the same in every run.
    pub layout: Layout,
    /// Processors the runs are bound to, as `2` or `2,3`.
    pub cpus: Option<String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            repeat: 2,
            min_blocks: 5,
            max_blocks: 20,
            warm_up: 1,
            budget: None,
            timeout: Duration::from_secs(600),
            threshold: None,
            min_duration: None,
            short: Short::Lengthen,
            layout: Layout::System,
            cpus: None,
        }
    }
}

/// What to do with a benchmark that is too short for its noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Short {
    /// Measure it all the same.
    Keep,
    /// Leave it out.
    Drop,
    /// Run it several times a sample.
    Lengthen,
}

/// Address layout and environment size of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// As the system does it.
    System,
    /// The same in every run: no randomised addresses.
    Pin,
    /// Drawn anew for each block: randomised addresses and a variable of random length.
    Randomise,
}

/// How to count instructions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counts {
    /// Whether to.
    pub enabled: bool,
    /// The counting tool, writing a Callgrind file to `{out}`; the command follows it.
    pub command: Vec<String>,
    /// Counting runs a side; two prove that the count repeats.
    pub runs: u32,
    /// Ids to count, `*` for any text.
    pub only: Vec<String>,
}

impl Default for Counts {
    fn default() -> Self {
        let command = ["{tallygraph}", "run", "-q", "--callgrind-out-file={out}"];
        Counts {
            enabled: true,
            command: command.map(String::from).into(),
            runs: 1,
            only: vec!["*".to_string()],
        }
    }
}

/// A profiler put in front of measured processes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiler {
    /// Its command line; the measured one follows.
    pub command: Vec<String>,
}

/// When the profiler watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Never.
    #[default]
    No,
    /// In a run of its own, whose time is not used.
    Separate,
    /// During the timed runs; the results are marked, and noisier for it.
    Timed,
}

/// One tool of the matrix.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name in ids.
    pub name: String,
    /// What it puts before the command.
    #[serde(default)]
    pub command: Vec<String>,
    /// Whether it may be missing; its benchmarks are then skipped.
    #[serde(default)]
    pub optional: bool,
    /// Whether the counting tool can count it. A simulator is counted like any program, but slowly.
    pub counts: Option<bool>,
}

/// One command of the matrix.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Its name in ids.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Run once before a session.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Run once after a session.
    #[serde(default)]
    pub teardown: Vec<String>,
    /// Directory to run in.
    pub directory: Option<String>,
    /// Additional environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Time for one run.
    #[serde(default, deserialize_with = "optional_duration")]
    pub timeout: Option<Duration>,
    /// Exit status of a good run.
    #[serde(default)]
    pub expect_status: i32,
    /// Text that standard output holds in a good run.
    pub expect_output: Option<String>,
    /// Change that matters for this command.
    pub threshold: Option<f64>,
    /// Whether the program may be missing.
    #[serde(default)]
    pub optional: bool,
}

/// One configuration of the matrix.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Its name in ids.
    pub name: String,
    /// Arguments between tool and command.
    #[serde(default)]
    pub args: Vec<String>,
    /// Tools it applies to, `*` for any text.
    #[serde(default = "any")]
    pub tools: Vec<String>,
    /// Whether the tool simulates caches here.
    #[serde(default)]
    pub cache_simulation: bool,
    /// When the profiler watches.
    #[serde(default)]
    pub profile: Profile,
}

fn any() -> Vec<String> {
    vec!["*".to_string()]
}

/// What placeholders stand for.
#[derive(Clone, Debug, Default)]
pub struct Places<'a> {
    /// `{dir}`: directory of the side, `.` without sides.
    pub dir: &'a str,
    /// `{scratch}`: a directory of its own for each run.
    pub scratch: &'a str,
    /// `{out}`: the counting tool's output.
    pub out: &'a str,
    /// `{tallygraph}`: this program.
    pub tallygraph: &'a str,
}

impl Places<'_> {
    /// A text with its placeholders filled in; other braces stay.
    pub fn fill(&self, text: &str) -> String {
        text.replace("{dir}", self.dir)
            .replace("{scratch}", self.scratch)
            .replace("{out}", self.out)
            .replace("{tallygraph}", self.tallygraph)
    }
}

/// One cell of the matrix.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: Tool,
    /// The command.
    pub command: Command,
    /// The configuration.
    pub config: Configuration,
}

impl Case {
    /// Tool, configuration and command as one argument list, placeholders still in.
    pub fn argv(&self) -> Vec<String> {
        self.tool.command.iter().chain(&self.config.args).chain(&self.command.argv).cloned().collect()
    }
}

impl Config {
    /// Reads a benchmark file.
    pub fn read(path: &Path) -> Result<(Config, String), Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::operational(format!("{}: {e}", path.display())))?;
        let config = Config::parse(&text).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        Ok((config, text))
    }

    /// Parses and checks a benchmark file's text; the error is one line.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(0, |s| text[..s.start].matches('\n').count() + 1);
            format!("line {line}: {}", e.message().lines().collect::<Vec<_>>().join(" "))
        })?;
        if config.commands.is_empty() {
            return Err("no [[command]]".to_string());
        }
        if let Some(command) = config.commands.iter().find(|c| c.argv.is_empty()) {
            return Err(format!("command `{}` has an empty argv", command.name));
        }
        let run = &config.run;
        if run.repeat == 0 || run.min_blocks == 0 || run.max_blocks < run.min_blocks {
            return Err(
                "run: repeat and min_blocks are at least 1, max_blocks at least min_blocks".to_string()
            );
        }
        if config.configs.iter().any(|c| c.profile != Profile::No) && config.profiler.is_none() {
            return Err("a config asks for a profile, but there is no [profiler]".to_string());
        }
        let cases = config.cases();
        if cases.is_empty() {
            return Err("the matrix is empty: no config applies to any tool".to_string());
        }
        let mut ids = std::collections::BTreeSet::new();
        if let Some(case) = cases.iter().find(|c| !ids.insert(&c.id)) {
            return Err(format!("two benchmarks have the id `{}`", case.id));
        }
        Ok(config)
    }

    /// All cells of the matrix, in the file's order.
    pub fn cases(&self) -> Vec<Case> {
        let plain_tool = Tool { name: "native".into(), command: Vec::new(), optional: false, counts: None };
        let plain_config = Configuration {
            name: "default".into(),
            args: Vec::new(),
            tools: any(),
            cache_simulation: false,
            profile: Profile::No,
        };
        let tools = if self.tools.is_empty() { vec![plain_tool] } else { self.tools.clone() };
        let configs = if self.configs.is_empty() { vec![plain_config] } else { self.configs.clone() };
        let mut cases = Vec::new();
        for tool in &tools {
            for command in &self.commands {
                for config in configs.iter().filter(|c| c.tools.iter().any(|t| matches(t, &tool.name))) {
                    let id = self
                        .id
                        .replace("{name}", &self.name)
                        .replace("{tool}", &tool.name)
                        .replace("{command}", &command.name)
                        .replace("{config}", &config.name);
                    cases.push(Case {
                        id,
                        tool: tool.clone(),
                        command: command.clone(),
                        config: config.clone(),
                    });
                }
            }
        }
        cases
    }
}

/// A duration written as `90s`, `1.5s`, `200ms`, `10m` or `2h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` is not a duration like 90s, 200ms, 10m or 2h")),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value * factor < 1e9 => Ok(Duration::from_secs_f64(value * factor)),
        _ => Err(format!("`{text}` is not a duration like 90s, 200ms, 10m or 2h")),
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATRIX: &str = r#"
        name = "test_valgrind"
        [run]
        budget = "10m"
        min_duration = "200ms"
        [[tool]]
        name = "valgrind-3.25.1"
        command = ["valgrind", "--tool=callgrind"]
        [[tool]]
        name = "native"
        [[command]]
        name = "echo Hello, World!"
        argv = ["echo", "Hello, World!"]
        [[config]]
        name = "full-with-inline"
        args = ["--cache-sim=yes"]
        tools = ["valgrind*"]
        [[config]]
        name = "none"
        tools = ["native"]
    "#;

    #[test]
    fn the_matrix_has_templated_ids_and_argument_lists() {
        let config = Config::parse(MATRIX).unwrap();
        let cases = config.cases();
        let ids: Vec<&str> = cases.iter().map(|c| c.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "test_valgrind[valgrind-3.25.1, echo Hello, World!, full-with-inline]",
                "test_valgrind[native, echo Hello, World!, none]"
            ]
        );
        assert_eq!(
            cases[0].argv(),
            ["valgrind", "--tool=callgrind", "--cache-sim=yes", "echo", "Hello, World!"]
        );
        assert_eq!(config.run.budget, Some(Duration::from_secs(600)));
        assert_eq!(config.run.repeat, 2);
    }

    #[test]
    fn each_defect_is_named_in_one_line() {
        let error = |text: &str| Config::parse(text).unwrap_err();
        assert!(error("name = \"x\"\ncommands = 3").starts_with("line 2: unknown field `commands`"));
        assert_eq!(error("name='x'\n[[command]]\nname='c'\nargv=[]"), "command `c` has an empty argv");
        let two = "name='x'\nid='same'\n[[command]]\nname='a'\nargv=['a']\n[[command]]\nname='b'\nargv=['b']";
        assert_eq!(error(two), "two benchmarks have the id `same`");
        let command = "[[command]]\nname='a'\nargv=['a']";
        assert!(error(&format!("name='x'\n[run]\ntimeout='soon'\n{command}")).contains("not a duration"));
        assert!(error(&format!("name='x'\n[run]\nrepeat=0\n{command}")).contains("repeat"));
        assert!(
            error(&format!("name='x'\n{command}\n[[config]]\nname='c'\nprofile='timed'"))
                .contains("[profiler]")
        );
        assert!(
            error(&format!("name='x'\n{command}\n[[config]]\nname='c'\ntools=['other']"))
                .contains("matrix is empty")
        );
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("200ms").unwrap(), Duration::from_millis(200));
        assert_eq!(parse_duration("1.5 h").unwrap(), Duration::from_secs(5400));
        assert!(
            parse_duration("10").is_err() && parse_duration("-1s").is_err() && parse_duration("1d").is_err()
        );
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_stay() {
        let places = Places { dir: "/base", scratch: "/tmp/s", out: "o", tallygraph: "tg" };
        assert_eq!(places.fill("{dir}/x {scratch} {other} {tallygraph}"), "/base/x /tmp/s {other} tg");
    }
}
