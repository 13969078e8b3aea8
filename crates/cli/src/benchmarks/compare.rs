//! `tallygraph compare`: two campaigns, or two files of results, as a report.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use tallygraph_compare::date::{days_between, timestamp};
use tallygraph_compare::decide::{Policy, Rule};
use tallygraph_compare::history::History;
use tallygraph_compare::model::{Campaign, CampaignInfo};
use tallygraph_compare::render;
use tallygraph_compare::report::{Inputs, NoiseFloor, Report, build, noise_floor};

use super::history::import_path;
use super::profiles::StoredProfiles;
use super::store::{StoreArguments, load_all, noise_session};
use super::{Failure, decide, git, print};

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Terminal,
    Markdown,
    Html,
    Json,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

/// Decision rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RuleName {
    Statistical,
    Fixed,
}

/// Arguments of `compare`.
#[derive(Args)]
pub struct Arguments {
    /// Base: id, branch, commit, `latest`, or a file of results
    base: String,
    /// Head: the same
    #[arg(default_value = "latest")]
    head: String,
    #[command(flatten)]
    store: StoreArguments,
    /// Metric to compare, as wall, Ir, max_rss
    #[arg(long, default_value = "wall")]
    metric: String,
    /// Output format
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
    /// Write here instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Template that replaces the built-in one of Markdown or HTML
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Change that matters [default: 0.02, counts 0.01]
    #[arg(long, value_name = "SHARE")]
    threshold: Option<f64>,
    /// How verdicts are reached
    #[arg(long, value_enum, default_value = "statistical")]
    rule: RuleName,
    /// Accepted rate of false alarms
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    false_discovery_rate: f64,
    /// Level of the intervals
    #[arg(long, value_name = "SHARE", default_value_t = 0.90)]
    level: f64,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = Policy::default().seed)]
    seed: u64,
    /// Judge campaigns measured one after the other even without knowing how far two lie apart
    #[arg(long)]
    trust_sequential: bool,
    /// Also fail on undecided and incomparable rows
    #[arg(long)]
    strict: bool,
    /// List all rows, also those in which nothing happened
    #[arg(long)]
    all: bool,
    /// Colour
    #[arg(long, value_enum, default_value = "auto")]
    color: Colour,
    /// The file of decisions
    #[arg(long, value_name = "FILE", default_value = decide::DEFAULT_FILE)]
    decisions: PathBuf,
}

/// Runs the command; 3 if there are regressions nobody acknowledged.
pub fn main(arguments: Arguments) -> Result<u8, Failure> {
    for (name, value, upper) in [
        ("--threshold", arguments.threshold.unwrap_or(0.02), 1.0),
        ("--false-discovery-rate", arguments.false_discovery_rate, 1.0),
        ("--level", arguments.level, 0.9999),
    ] {
        if !(0.0..=upper).contains(&value) {
            return Err(Failure::usage(format!("{name} is a share between 0 and 1")));
        }
    }
    let report = arguments.report()?;
    let text = arguments.render(&report)?;
    match &arguments.output {
        Some(path) => std::fs::write(path, text)
            .map_err(|e| Failure::operational(format!("{}: {e}", path.display())))?,
        None => print(&text),
    }
    arguments.step_summary(&report)?;
    Ok(if report.fails(arguments.strict) { 3 } else { 0 })
}

impl Arguments {
    fn report(&self) -> Result<Report, Failure> {
        let (base, head) = (Path::new(&self.base), Path::new(&self.head));
        let from_files = base.exists() && (base.is_file() || base.is_dir()) && head.exists();
        let mut noise = NoiseFloor::default();
        let policy = self.policy();
        let (base, head, history) = if from_files {
            (self.imported(base)?, self.imported(head)?, History::default())
        } else {
            let store = self.store.open()?;
            let (base, head) = (store.find(&self.base)?, store.find(&self.head)?);
            if base.id == head.id {
                return Err(Failure::usage(format!("base and head are the same campaign {}", base.id)));
            }
            let (base, head) = (store.load(&base.id)?, store.load(&head.id)?);
            if let Some((a, b)) = noise_session(&store, &head)? {
                noise = noise_floor(&a, &b, &self.metric, &policy);
            }
            (base, head, History::from_campaigns(&load_all(&store)?))
        };
        if ![&base, &head].iter().any(|c| c.benchmarks.values().any(|m| m.median(&self.metric).is_some())) {
            return Err(Failure::operational(format!(
                "neither campaign has values of the metric `{}`",
                self.metric
            )));
        }
        let today = timestamp(SystemTime::now());
        let mut report = build(&Inputs {
            base: &base,
            head: &head,
            metric: &self.metric,
            policy: &policy,
            decisions: &decide::read(&self.decisions)?,
            history: &history,
            noise: &noise,
            profiles: &StoredProfiles { directory: self.store.directory() },
            today: today.get(..10).unwrap_or(&today),
        });
        self.warn_about_base(&base.info, &head.info, &mut report);
        Ok(report)
    }

    fn policy(&self) -> Policy {
        let defaults = Policy::default();
        Policy {
            rule: match self.rule {
                RuleName::Statistical => Rule::Statistical,
                RuleName::Fixed => Rule::Fixed,
            },
            threshold: self.threshold.unwrap_or(match self.rule {
                RuleName::Statistical => defaults.threshold,
                RuleName::Fixed => 0.10,
            }),
            exact_threshold: self.threshold.unwrap_or(defaults.exact_threshold),
            false_discovery_rate: self.false_discovery_rate,
            level: self.level,
            seed: self.seed,
            trust_sequential: self.trust_sequential,
            ..defaults
        }
    }

    /// A campaign read from a file of results, without a store.
    fn imported(&self, path: &Path) -> Result<Campaign, Failure> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let info = CampaignInfo {
            id: path.display().to_string(),
            session: path.display().to_string(),
            reference: name,
            started: timestamp(SystemTime::now()),
            ..CampaignInfo::default()
        };
        let mut campaigns = import_path(path, "new", info)?;
        match campaigns.len() {
            1 => Ok(campaigns.remove(0)),
            n => Err(Failure::operational(format!("{}: {n} campaigns, one is needed", path.display()))),
        }
    }

    /// Says when the base is not what the head branched off, or is old.
    fn warn_about_base(&self, base: &CampaignInfo, head: &CampaignInfo, report: &mut Report) {
        if !base.commit.is_empty() && !head.commit.is_empty() && base.commit != head.commit {
            let common = git::merge_base(Path::new("."), &base.commit, &head.commit);
            if common.is_some_and(|c| c != base.commit) {
                report.warnings.push(format!(
                    "The base {} is not the commit the head branched off; changes of the base's branch are part of the difference.",
                    base.short_commit()
                ));
            }
        }
        if let Some(days) = days_between(&base.started, &head.started).filter(|d| d.abs() > 14) {
            report.warnings.push(format!("Base and head were measured {} days apart.", days.abs()));
        }
    }

    fn render(&self, report: &Report) -> Result<String, Failure> {
        let template = match &self.template {
            Some(path) => Some(
                std::fs::read_to_string(path)
                    .map_err(|e| Failure::operational(format!("{}: {e}", path.display())))?,
            ),
            None => None,
        };
        let failed = |e: render::TemplateError| Failure::operational(e.to_string());
        match self.format {
            Format::Terminal => Ok(render::terminal::terminal(report, self.coloured(), self.all)),
            Format::Markdown => render::markdown(report, template.as_deref()).map_err(failed),
            Format::Html => render::html(report, template.as_deref()).map_err(failed),
            Format::Json => Ok(render::json(report)),
        }
    }

    fn coloured(&self) -> bool {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        match self.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto if set("NO_COLOR") => false,
            Colour::Auto if set("CLICOLOR_FORCE") || set("FORCE_COLOR") => true,
            Colour::Auto => self.output.is_none() && std::io::stdout().is_terminal(),
        }
    }

    /// Appends the Markdown report to the summary page of a GitHub job, if there is one.
    fn step_summary(&self, report: &Report) -> Result<(), Failure> {
        let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|p| !p.is_empty()) else {
            return Ok(());
        };
        let text = render::markdown(report, None).map_err(|e| Failure::operational(e.to_string()))?;
        let failed = |e: std::io::Error| Failure::operational(format!("GITHUB_STEP_SUMMARY: {e}"));
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)
    }
}
