//! `tallygraph bench`: arguments, campaigns, and the summary of a session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use tallygraph_compare::date::timestamp;
use tallygraph_compare::decisions::matches;
use tallygraph_compare::format::{percent, quantity};
use tallygraph_compare::model::{Campaign, CampaignInfo, Purpose, Unit};
use tallygraph_compare::store::Store;
use tallygraph_stats::descriptive::minimum;
use tallygraph_stats::rng::SplitMix64;

use super::config::{Case, Config, Layout, Short, parse_duration};
use super::plan::{Shard, digest};
use super::progress::Progress;
use super::session::{Session, Side, readable};
use super::store::StoreArguments;
use super::{Failure, environment, git, print};

/// Arguments of `bench`; those that are also in the file override it.
#[derive(Args)]
pub struct Arguments {
    /// The benchmark file
    file: PathBuf,
    #[command(flatten)]
    store: StoreArguments,
    /// Directory of the base, measured interleaved with the head
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// Directory of the head
    #[arg(long, value_name = "DIR", default_value = ".")]
    head: PathBuf,
    /// Measure the head against itself, to know the noise
    #[arg(long, conflicts_with = "base")]
    noise_floor: bool,
    /// Only benchmarks with these ids; * stands for any text
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Only part I of N of the matrix
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Id of the campaign, the same for all shards
    #[arg(long, value_name = "ID")]
    campaign: Option<String>,
    /// Seed of the order of runs
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of each side in a block
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// Blocks before the precision is looked at
    #[arg(long, value_name = "N")]
    min_blocks: Option<u32>,
    /// Blocks at most
    #[arg(long, value_name = "N")]
    max_blocks: Option<u32>,
    /// Blocks that only warm up
    #[arg(long, value_name = "N")]
    warm_up: Option<u32>,
    /// Time for the session, as 10m
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    budget: Option<Duration>,
    /// Time for one run, as 60s
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    timeout: Option<Duration>,
    /// Change that matters, as 0.05
    #[arg(long, value_name = "SHARE")]
    threshold: Option<f64>,
    /// Runs shorter than this are treated as --short says
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    min_duration: Option<Duration>,
    /// What to do with benchmarks shorter than --min-duration
    #[arg(long)]
    short: Option<Short>,
    /// Address layout and environment size of the runs
    #[arg(long)]
    layout: Option<Layout>,
    /// Processors the runs are bound to, as 2,3
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Do not count instructions
    #[arg(long, conflicts_with = "counts_only")]
    no_counts: bool,
    /// Count instructions and take no times
    #[arg(long)]
    counts_only: bool,
    /// Begin anew even if an interrupted session could be continued
    #[arg(long)]
    fresh: bool,
    /// List the benchmarks and run nothing
    #[arg(long)]
    list: bool,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
pub fn main(arguments: Arguments) -> Result<u8, Failure> {
    let (mut config, text) = Config::read(&arguments.file)?;
    arguments.apply_to(&mut config)?;
    let cases = arguments.select(&config)?;
    if arguments.list {
        print(&cases.iter().map(|c| format!("{}\n", c.id)).collect::<String>());
        return Ok(0);
    }
    let head = absolute(&arguments.head)?;
    let base = match (&arguments.base, arguments.noise_floor) {
        (Some(base), _) => Some(absolute(base)?),
        (None, true) => Some(head.clone()),
        (None, false) => None,
    };
    let environment = run_environment(&config);
    let mut store = arguments.store.create()?;
    let (infos, resumed) = arguments.campaigns(&store, &text, &environment, base.as_deref(), &head)?;
    let progress = Progress::new(arguments.quiet);
    if resumed {
        progress.line(&format!("continuing session {}", infos[0].session));
    }
    let directories = base.into_iter().chain([head]);
    let sides: Vec<Side> = infos
        .iter()
        .zip(directories)
        .map(|(info, directory)| Side { campaign: info.id.clone(), directory })
        .collect();
    let scratch = std::env::temp_dir().join(format!("tallygraph-bench-{:08}", std::process::id()));
    // What a killed process of the same id left goes; a directory of somebody else is an error.
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir(&scratch).map_err(|e| Failure::operational(format!("{}: {e}", scratch.display())))?;
    let tallygraph =
        std::env::current_exe().map_or_else(|_| "tallygraph".into(), |p| p.display().to_string());
    let store_directory = absolute(&arguments.store.directory())?;
    let mut session = Session {
        config: &config,
        cases,
        sides: sides.clone(),
        seed: infos[0].seed,
        environment,
        store: &mut store,
        store_directory,
        scratch: scratch.clone(),
        tallygraph,
        times: !arguments.counts_only,
        progress: &progress,
    };
    let outcome = session.run();
    let _ = std::fs::remove_dir_all(&scratch);
    progress.finish();
    let outcome = outcome?;
    for side in &sides {
        print(&summary(&store.load(&side.campaign)?));
    }
    if outcome.out_of_budget {
        print(&format!(
            "The budget of {} ended the session after {} blocks; some intervals are wider than half the threshold.\n",
            config.run.budget.map(readable).unwrap_or_default(),
            outcome.blocks
        ));
    }
    for (id, problem) in &outcome.problems {
        print(&format!("not measured: {id}: {problem}\n"));
    }
    if let [base, head] = sides.as_slice() {
        print(&format!("Compare them with: tallygraph compare {} {}\n", base.campaign, head.campaign));
    }
    Ok(0)
}

impl Arguments {
    fn apply_to(&self, config: &mut Config) -> Result<(), Failure> {
        let run = &mut config.run;
        run.repeat = self.repeat.unwrap_or(run.repeat);
        run.min_blocks = self.min_blocks.unwrap_or(run.min_blocks);
        run.max_blocks = self.max_blocks.unwrap_or(run.max_blocks.max(run.min_blocks));
        run.warm_up = self.warm_up.unwrap_or(run.warm_up);
        run.budget = self.budget.or(run.budget);
        run.timeout = self.timeout.unwrap_or(run.timeout);
        run.threshold = self.threshold.or(run.threshold);
        run.min_duration = self.min_duration.or(run.min_duration);
        run.short = self.short.unwrap_or(run.short);
        run.layout = self.layout.unwrap_or(run.layout);
        run.cpus = self.cpus.clone().or(run.cpus.take());
        config.counts.enabled = (config.counts.enabled || self.counts_only) && !self.no_counts;
        if config.run.repeat == 0
            || config.run.min_blocks == 0
            || config.run.max_blocks < config.run.min_blocks
        {
            return Err(Failure::usage(
                "--repeat and --min-blocks are at least 1, --max-blocks at least --min-blocks",
            ));
        }
        if config.run.threshold.is_some_and(|t| !(0.0..1.0).contains(&t)) {
            return Err(Failure::usage("--threshold is a share like 0.05"));
        }
        Ok(())
    }

    /// The benchmarks of this call: those selected, of this shard.
    fn select(&self, config: &Config) -> Result<Vec<Case>, Failure> {
        let mut cases = config.cases();
        cases.retain(|c| self.only.is_empty() || self.only.iter().any(|p| matches(p, &c.id)));
        if cases.is_empty() {
            return Err(Failure::usage(format!("no benchmark matches {}", self.only.join(", "))));
        }
        let mut place = 0;
        cases.retain(|_| {
            place += 1;
            self.shard.is_none_or(|s| s.contains(place - 1))
        });
        Ok(cases)
    }

    /// The campaigns of this session: those of an interrupted one, or new ones.
    fn campaigns(
        &self,
        store: &Store,
        config_text: &str,
        environment: &BTreeMap<String, String>,
        base: Option<&std::path::Path>,
        head: &std::path::Path,
    ) -> Result<(Vec<CampaignInfo>, bool), Failure> {
        let head_state = git::state(head);
        let base_state = base.map(git::state);
        let plan = digest(&[
            config_text,
            &head.to_string_lossy(),
            &head_state.commit,
            &base.map(|b| b.to_string_lossy().into_owned()).unwrap_or_default(),
            &base_state.as_ref().map(|s| s.commit.clone()).unwrap_or_default(),
            &self.only.join("\n"),
            &format!("{:?} {:?} {:?} {}", self.shard, self.campaign, self.repeat, self.counts_only),
        ]);
        if !self.fresh {
            let unfinished = store.unfinished(&plan)?;
            // The seed decides the order; another one asks for another session.
            if unfinished.len() == base.map_or(1, |_| 2) && self.seed.is_none_or(|s| s == unfinished[0].seed)
            {
                return Ok((unfinished, true));
            }
        }
        let now = SystemTime::now();
        let started = timestamp(now);
        let entropy =
            now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64) ^ u64::from(std::process::id());
        // 32 bits are plenty for orders and stay readable in a report.
        let seed = self.seed.unwrap_or_else(|| SplitMix64::new(entropy).next_u64() >> 32);
        let stem = self.campaign.clone().unwrap_or_else(|| {
            let compact: String = started.chars().filter(|c| c.is_ascii_digit()).collect();
            let commit: String = head_state.commit.chars().take(7).collect();
            format!(
                "{compact}-{}",
                if commit.is_empty() { format!("{:07x}", seed & 0xfff_ffff) } else { commit }
            )
        });
        let purpose = if self.noise_floor { Purpose::NoiseFloor } else { Purpose::Measure };
        let measured_with = concat!("tallygraph ", env!("CARGO_PKG_VERSION"));
        let info = |id: String, state: &git::GitState, directory: &std::path::Path| CampaignInfo {
            id,
            session: if base.is_some() { format!("{stem}-session") } else { stem.clone() },
            reference: if state.reference.is_empty() {
                directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
            } else {
                state.reference.clone()
            },
            commit: state.commit.clone(),
            dirty: state.dirty,
            started: started.clone(),
            seed,
            purpose,
            measured_with: measured_with.to_string(),
        };
        let mut infos = Vec::new();
        if let (Some(directory), Some(state)) = (base, &base_state) {
            infos.push(info(format!("{stem}-base"), state, directory));
        }
        infos.push(info(stem.clone(), &head_state, head));
        let machine = environment::collect(environment, measured_with);
        for info in &infos {
            if !store.begin(info, &machine, &plan)? {
                return Err(Failure::operational(format!(
                    "campaign {} is in the store already and was another plan; choose another --campaign",
                    info.id
                )));
            }
        }
        Ok((infos, false))
    }
}

fn absolute(path: &std::path::Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path).map_err(|e| Failure::operational(format!("{}: {e}", path.display())))
}

/// The environment of the runs: what the file sets, on top of little or everything of ours.
fn run_environment(config: &Config) -> BTreeMap<String, String> {
    let mut environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .filter(|(name, _)| config.inherit_environment || name == "PATH" || name == "HOME")
        .collect();
    environment.extend(config.environment.clone());
    environment
}

/// One line a benchmark: median, spread, blocks, counts.
fn summary(campaign: &Campaign) -> String {
    let mut out = format!("Campaign {} of {}\n", campaign.info.id, campaign.info.label());
    let width = campaign.benchmarks.keys().map(|id| id.chars().count()).max().unwrap_or(0);
    for (id, measured) in &campaign.benchmarks {
        let values = measured.values("wall");
        let time = match (measured.median("wall"), minimum(&values)) {
            (Some(median), Some(least)) => {
                let spread = tallygraph_stats::descriptive::median_absolute_deviation(&values).unwrap_or(0.0);
                format!(
                    "{:>11} ± {:<7} least {:>11}, {} runs",
                    quantity(median, Unit::Seconds),
                    percent(1.4826 * spread / median),
                    quantity(least, Unit::Seconds),
                    values.len()
                )
            }
            _ => String::new(),
        };
        let counts =
            measured.median("Ir").map(|ir| format!("  Ir {}", quantity(ir, Unit::Count))).unwrap_or_default();
        let problem = measured.problem.as_deref().map(|p| format!("  {p}")).unwrap_or_default();
        out.push_str(format!("  {id:width$}  {time}{counts}{problem}").trim_end());
        out.push('\n');
    }
    out
}
