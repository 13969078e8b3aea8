//! `tallygraph history`: the series of a benchmark, and what goes into and out of the store.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tallygraph_compare::date::timestamp;
use tallygraph_compare::decisions::matches;
use tallygraph_compare::format::{quantity, signed_percent};
use tallygraph_compare::history::{Analysis, History, Mover, Point, Settings, analyse};
use tallygraph_compare::import::{self, Format};
use tallygraph_compare::model::{Campaign, CampaignInfo, is_exact, unit_of};
use tallygraph_compare::{export, model};

use super::store::{StoreArguments, load_all, open_existing};
use super::{Failure, git, print};

/// Arguments of `history`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// The campaigns of the store
    List,
    /// The series of benchmarks with change points, outliers and drift
    Show {
        /// Ids; * stands for any text
        #[arg(default_value = "*")]
        benchmarks: Vec<String>,
        /// Metric
        #[arg(long, default_value = "wall")]
        metric: String,
        /// A value this many times its history's median is an outlier
        #[arg(long, default_value_t = 5.0)]
        outlier_factor: f64,
        /// Smallest change worth reporting
        #[arg(long, default_value_t = 0.02)]
        threshold: f64,
        /// Fewest campaigns between two change points
        #[arg(long, default_value_t = 5)]
        min_segment: usize,
        /// Seed of the change-point test
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write campaigns as text
    Export {
        /// Campaigns; all without
        campaigns: Vec<String>,
        /// Format
        #[arg(long, value_enum, default_value = "jsonl")]
        format: ExportFormat,
        /// Write here instead of standard output
        #[arg(long, short)]
        output: Option<PathBuf>,
    },
    /// Read results of hyperfine, criterion, gungraun, CodSpeed walltime, or our own JSON lines
    Import {
        /// Files, or directories of criterion and gungraun
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Id of the campaign [default: from the time]
        #[arg(long)]
        campaign: Option<String>,
        /// Branch or tag
        #[arg(long)]
        reference: Option<String>,
        /// Commit
        #[arg(long)]
        commit: Option<String>,
        /// Time of measurement, as 2026-05-29T10:00:00Z
        #[arg(long)]
        started: Option<String>,
        /// criterion's baseline
        #[arg(long, default_value = "new")]
        baseline: String,
    },
    /// Take over everything of other stores, as shards of a matrix leave them
    Merge {
        /// The other stores
        #[arg(required = true)]
        stores: Vec<PathBuf>,
    },
    /// Remove a campaign and its samples
    Remove {
        /// Its id
        campaign: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Jsonl,
    Csv,
}

/// Runs the command.
pub fn main(arguments: Arguments) -> Result<u8, Failure> {
    let store = &arguments.store;
    match arguments.action {
        Action::List => {
            for info in store.open()?.list()? {
                print(&format!(
                    "{}  {}  {} {}{}\n",
                    info.started,
                    info.id,
                    info.reference,
                    info.short_commit(),
                    match info.purpose {
                        model::Purpose::Measure => "",
                        model::Purpose::NoiseFloor => "  noise floor",
                        model::Purpose::Imported => "  imported",
                    }
                ));
            }
        }
        Action::Show { benchmarks, metric, outlier_factor, threshold, min_segment, seed, json } => {
            let settings = Settings { outlier_factor, threshold, min_segment, seed, ..Settings::default() };
            show(&load_all(&store.open()?)?, &benchmarks, &metric, &settings, json)?;
        }
        Action::Export { campaigns, format, output } => {
            let store = store.open()?;
            let loaded = if campaigns.is_empty() {
                load_all(&store)?
            } else {
                campaigns
                    .iter()
                    .map(|text| Ok(store.load(&store.find(text)?.id)?))
                    .collect::<Result<Vec<_>, Failure>>()?
            };
            let text = match format {
                ExportFormat::Jsonl => export::json_lines(&loaded),
                ExportFormat::Csv => export::csv(&loaded),
            };
            match output {
                Some(path) => std::fs::write(&path, text)
                    .map_err(|e| Failure::operational(format!("{}: {e}", path.display())))?,
                None => print(&text),
            }
        }
        Action::Import { files, campaign, reference, commit, started, baseline } => {
            let now = timestamp(SystemTime::now());
            let state = git::state(Path::new("."));
            let id = campaign.unwrap_or_else(|| {
                format!("import-{}", now.chars().filter(char::is_ascii_digit).collect::<String>())
            });
            let info = CampaignInfo {
                session: id.clone(),
                id,
                reference: reference.unwrap_or(state.reference),
                commit: commit.unwrap_or(state.commit),
                started: started.unwrap_or(now),
                ..CampaignInfo::default()
            };
            let mut store = store.create()?;
            let mut joined: Option<Campaign> = None;
            for file in &files {
                for campaign in import_path(file, &baseline, info.clone())? {
                    if campaign.info.id != info.id {
                        print(&format!("{}: {} benchmarks\n", campaign.info.id, campaign.benchmarks.len()));
                        store.insert(&campaign)?;
                    } else if let Some(joined) = &mut joined {
                        joined.benchmarks.extend(campaign.benchmarks);
                    } else {
                        joined = Some(campaign);
                    }
                }
            }
            if let Some(campaign) = joined {
                store.insert(&campaign)?;
                print(&format!("{}: {} benchmarks\n", campaign.info.id, campaign.benchmarks.len()));
            }
        }
        Action::Merge { stores } => {
            let mut target = store.create()?;
            for path in &stores {
                let merged = target.merge(&open_existing(path)?)?;
                print(&format!("{}: {merged} campaigns\n", path.display()));
            }
        }
        Action::Remove { campaign } => {
            let store = store.open()?;
            store.remove(&campaign)?;
        }
    }
    Ok(0)
}

/// Reads one file or directory of results; our own JSON lines may hold several campaigns.
pub fn import_path(path: &Path, baseline: &str, info: CampaignInfo) -> Result<Vec<Campaign>, Failure> {
    let named = |problem: String| {
        let place = path.display().to_string();
        Failure::operational(if problem.starts_with(&place) {
            problem
        } else {
            format!("{place}: {problem}")
        })
    };
    if path.is_dir() {
        let benchmarks = match gungraun_directory(path)? {
            Some(benchmarks) => benchmarks,
            None => import::criterion::read(path, baseline).map_err(named)?,
        };
        return Ok(vec![import::campaign(info, benchmarks)]);
    }
    let text = std::fs::read_to_string(path).map_err(|e| named(e.to_string()))?;
    let benchmarks = match import::detect(&text) {
        Some(Format::JsonLines) => return export::from_json_lines(&text).map_err(named),
        Some(Format::Hyperfine) => import::hyperfine::read(&text),
        Some(Format::Gungraun) => import::gungraun::read(&text),
        Some(Format::Codspeed) => import::codspeed::read(&text),
        Some(Format::Criterion) | None => Err(
            "not a result of hyperfine, gungraun, CodSpeed walltime or of our own export (criterion: give its directory)"
                .to_string(),
        ),
    };
    Ok(vec![import::campaign(info, benchmarks.map_err(named)?)])
}

/// All `summary.json` below a directory, if there are any.
fn gungraun_directory(path: &Path) -> Result<Option<import::Benchmarks>, Failure> {
    let mut pending = vec![path.to_path_buf()];
    let mut found = import::Benchmarks::new();
    while let Some(directory) = pending.pop() {
        let entries = std::fs::read_dir(&directory)
            .map_err(|e| Failure::operational(format!("{}: {e}", directory.display())))?;
        for entry in entries.filter_map(|e| e.ok()).map(|e| e.path()) {
            if entry.is_dir() {
                pending.push(entry);
            } else if entry.file_name().is_some_and(|n| n == "summary.json") {
                let text = std::fs::read_to_string(&entry)
                    .map_err(|e| Failure::operational(format!("{}: {e}", entry.display())))?;
                let benchmarks = import::gungraun::read(&text)
                    .map_err(|problem| Failure::operational(format!("{}: {problem}", entry.display())))?;
                found.extend(benchmarks);
            }
        }
    }
    Ok((!found.is_empty()).then_some(found))
}

fn show(
    campaigns: &[Campaign],
    patterns: &[String],
    metric: &str,
    settings: &Settings,
    as_json: bool,
) -> Result<(), Failure> {
    let history = History::from_campaigns(campaigns);
    let selected: Vec<&str> =
        history.benchmarks().filter(|id| patterns.iter().any(|p| matches(p, id))).collect();
    let selected: Vec<&str> =
        selected.into_iter().filter(|id| !history.series(id, metric).is_empty()).collect();
    if selected.is_empty() {
        return Err(Failure::operational(format!(
            "no benchmark matching {} has values of `{metric}`",
            patterns.join(", ")
        )));
    }
    for id in selected {
        // Points of the newest machine class only: others are another series.
        let all = history.series(id, metric);
        let newest = all.last().map(|p| p.environment.clone()).unwrap_or_default();
        let series: Vec<Point> = all.iter().filter(|p| p.environment == newest).cloned().collect();
        let analysis = analyse(&series, metric, settings);
        if as_json {
            let line = json!({
                "schema": 1, "benchmark": id, "metric": metric, "points": series, "analysis": analysis,
                "other_machines": all.len() - series.len(),
            });
            print(&format!("{line}\n"));
        } else {
            print(&text(id, metric, &series, &analysis, all.len() - series.len()));
        }
    }
    Ok(())
}

/// The series as lines, with what stands out beside the point it concerns.
fn text(id: &str, metric: &str, series: &[Point], analysis: &Analysis, elsewhere: usize) -> String {
    let unit = unit_of(metric);
    let mut out = format!("{id} ({metric})\n");
    for (i, point) in series.iter().enumerate() {
        let mut note = String::new();
        if let Some(change) = analysis.changes.iter().find(|c| c.index == i) {
            let mover = match change.mover {
                Mover::Code => "the work moved too: code",
                Mover::Environment => "the work stayed: environment",
                Mover::Unclear => "cause unknown: no counts",
            };
            note = format!(
                "  change {} from {} ({mover}{})",
                signed_percent(change.after / change.before - 1.0),
                quantity(change.before, unit),
                if is_exact(metric) { String::new() } else { format!(", p {:.3}", change.p) }
            );
        }
        if let Some(outlier) = analysis.outliers.iter().find(|o| o.index == i) {
            note.push_str(&format!(
                "  outlier: {:.2} times its neighbours ({})",
                outlier.ratio,
                outlier.rules.join(", ")
            ));
        }
        out.push_str(&format!(
            "  {}  {:7}  {:>12}  {} runs  {}{note}\n",
            point.time.get(..10).unwrap_or(&point.time),
            point.commit.get(..7).unwrap_or(&point.commit),
            quantity(point.value, unit),
            point.runs,
            point.campaign
        ));
    }
    if let Some(drift) = &analysis.drift {
        out.push_str(&format!(
            "  drift: {} a campaign, {} in all (τ {:.2}, p {:.4})\n",
            signed_percent(drift.per_campaign),
            signed_percent(drift.total),
            drift.tau,
            drift.p
        ));
    }
    if elsewhere > 0 {
        out.push_str(&format!("  {elsewhere} campaigns on other machines are not part of this series\n"));
    }
    out
}
