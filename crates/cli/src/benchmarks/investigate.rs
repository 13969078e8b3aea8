//! `tallygraph investigate`: why results flicker, from the campaigns in the store.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use tallygraph_compare::cause::{FunctionCosts, ProfileSource};
use tallygraph_compare::date::timestamp;
use tallygraph_compare::decide::Policy;
use tallygraph_compare::decisions::matches;
use tallygraph_compare::history::History;
use tallygraph_compare::investigate::rules::Rules;
use tallygraph_compare::investigate::{Subject, investigate, json, markdown, normal_and_outlier};
use tallygraph_compare::model::Campaign;
use tallygraph_compare::report::{Inputs, NoiseFloor, Status, build};

use super::profiles::StoredProfiles;
use super::store::{StoreArguments, load_all};
use super::{Failure, decide, print};

/// Arguments of `investigate`.
#[derive(Args)]
pub struct Arguments {
    /// Benchmarks, * for any text; without, those a comparison of --base and --head flags
    benchmarks: Vec<String>,
    #[command(flatten)]
    store: StoreArguments,
    /// Campaign of the base
    #[arg(long, value_name = "CAMPAIGN")]
    base: Option<String>,
    /// Campaign of the head
    #[arg(long, value_name = "CAMPAIGN", default_value = "latest")]
    head: String,
    /// Metric
    #[arg(long, default_value = "wall")]
    metric: String,
    /// Change that matters
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    threshold: f64,
    /// Rules that replace the built-in ones
    #[arg(long, value_name = "FILE")]
    causes: Option<PathBuf>,
    /// The file of decisions
    #[arg(long, value_name = "FILE", default_value = decide::DEFAULT_FILE)]
    decisions: PathBuf,
    /// As JSON, one object a benchmark
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(arguments: Arguments) -> Result<u8, Failure> {
    let store = arguments.store.open()?;
    let campaigns = load_all(&store)?;
    let head = store.find(&arguments.head)?.id;
    let base = match &arguments.base {
        Some(text) => Some(store.find(text)?.id),
        // The other side of the head's session, if it was measured with a base.
        None => {
            let session = campaigns.iter().find(|c| c.info.id == head).map(|c| c.info.session.clone());
            campaigns
                .iter()
                .find(|c| Some(&c.info.session) == session.as_ref() && c.info.id != head)
                .map(|c| c.info.id.clone())
        }
    };
    let rules = match &arguments.causes {
        Some(path) => read_rules(path)?,
        None => Rules::built_in(),
    };
    let history = History::from_campaigns(&campaigns);
    let selected = arguments.select(&campaigns, &history, base.as_deref(), &head)?;
    if selected.is_empty() {
        print("No flagged benchmark: nothing to investigate. Name one to look at it all the same.\n");
        return Ok(0);
    }
    let all: Vec<&Campaign> = campaigns.iter().collect();
    let source = StoredProfiles { directory: arguments.store.directory() };
    for id in &selected {
        let profiles = profiles_of(&campaigns, &history, id, &arguments.metric, &source);
        let found = investigate(
            &Subject {
                benchmark: id,
                metric: &arguments.metric,
                campaigns: &all,
                base: base.as_deref(),
                head: Some(&head),
                threshold: arguments.threshold,
                profiles: profiles.as_ref().map(|(a, b)| (a, b)),
            },
            &rules,
        );
        print(&if arguments.json { json(&found) } else { markdown(&found) });
    }
    Ok(0)
}

impl Arguments {
    /// The benchmarks named, or those that the comparison calls anything but untouched.
    fn select(
        &self,
        campaigns: &[Campaign],
        history: &History,
        base: Option<&str>,
        head: &str,
    ) -> Result<Vec<String>, Failure> {
        if !self.benchmarks.is_empty() {
            let found: Vec<String> = history
                .benchmarks()
                .filter(|id| self.benchmarks.iter().any(|p| matches(p, id)))
                .filter(|id| !history.series(id, &self.metric).is_empty())
                .map(String::from)
                .collect();
            if found.is_empty() {
                return Err(Failure::operational(format!(
                    "no benchmark matching {} has values of `{}`",
                    self.benchmarks.join(", "),
                    self.metric
                )));
            }
            return Ok(found);
        }
        let by_id = |id: &str| campaigns.iter().find(|c| c.info.id == id);
        let (Some(base), Some(head)) = (base.and_then(by_id), by_id(head)) else {
            return Err(Failure::usage(
                "name a benchmark, or give --base to investigate what a comparison flags",
            ));
        };
        let today = timestamp(SystemTime::now());
        let report = build(&Inputs {
            base,
            head,
            metric: &self.metric,
            policy: &Policy { threshold: self.threshold, ..Policy::default() },
            decisions: &decide::read(&self.decisions)?,
            history,
            noise: &NoiseFloor::default(),
            profiles: &tallygraph_compare::cause::NoProfiles,
            today: today.get(..10).unwrap_or(&today),
        });
        let flagged = [Status::Regressed, Status::Improved, Status::Unknown, Status::Acknowledged];
        Ok(report.rows.iter().filter(|r| flagged.contains(&r.status)).map(|r| r.benchmark.clone()).collect())
    }
}

/// Costs by function of the most typical campaign and of the slowest, where both kept a profile.
fn profiles_of(
    campaigns: &[Campaign],
    history: &History,
    id: &str,
    metric: &str,
    source: &StoredProfiles,
) -> Option<(FunctionCosts, FunctionCosts)> {
    let (normal, outlier) = normal_and_outlier(history.series(id, metric))?;
    let costs = |campaign: &str| {
        let measured = campaigns.iter().find(|c| c.info.id == campaign)?.benchmarks.get(id)?;
        source.functions(measured.profile.as_deref()?).ok()
    };
    Some((costs(normal)?, costs(outlier)?))
}

fn read_rules(path: &Path) -> Result<Rules, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::operational(format!("{}: {e}", path.display())))?;
    Rules::parse(&text).map_err(|problem| Failure::operational(format!("{}: {problem}", path.display())))
}
