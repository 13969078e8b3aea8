//! A session: measuring all benchmarks of a plan, block by block, into the store.
//!
//! What is true after every run: it is in the store, whole. So a session that is interrupted
//! continues where it was when the same command is given again; runs already there are not
//! repeated, and the order of the rest is the one it would have had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tallygraph_compare::decide::{Observations, Policy, evidence, precise_enough};
use tallygraph_compare::model::{Measured, Setting};
use tallygraph_compare::report::stable_hash;
use tallygraph_compare::store::{Slot, Store};
use tallygraph_stats::Rng;
use tallygraph_stats::descriptive::median;

use super::config::{Case, Config, Layout, Places, Profile, Short};
use super::measure::{Job, Usage, find_program};
use super::progress::Progress;
use super::{Failure, counts, environment, measure, plan};

/// One side: a state of the code in a directory.
#[derive(Clone, Debug)]
pub struct Side {
    /// Id of its campaign.
    pub campaign: String,
    /// Its directory.
    pub directory: PathBuf,
}

/// A session under way.
pub struct Session<'a> {
    /// The benchmark file, with the command line's settings applied.
    pub config: &'a Config,
    /// The benchmarks of this shard.
    pub cases: Vec<Case>,
    /// Base and head, or the head alone.
    pub sides: Vec<Side>,
    /// Seed of all orders.
    pub seed: u64,
    /// Environment of the runs.
    pub environment: BTreeMap<String, String>,
    /// Where samples go.
    pub store: &'a mut Store,
    /// Directory of the store, under which profiles are kept.
    pub store_directory: PathBuf,
    /// Directory for scratch files.
    pub scratch: PathBuf,
    /// Path of this program.
    pub tallygraph: String,
    /// Whether to take times.
    pub times: bool,
    /// Where progress is shown.
    pub progress: &'a Progress,
}

/// State of one benchmark in a session.
struct Active {
    case: Case,
    /// Place in the shard's list; decides the order of its sides.
    place: usize,
    setting: Setting,
    /// Slots already filled: (side, block, position).
    done: BTreeSet<(usize, u32, u32)>,
    /// Whether more blocks are wanted.
    open: bool,
}

/// What a session did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Benchmarks that could not be measured, with the reason.
    pub problems: Vec<(String, String)>,
    /// Blocks taken, warm-up included.
    pub blocks: u32,
    /// Whether the budget ended the session before the precision was reached.
    pub out_of_budget: bool,
}

impl Session<'_> {
    /// Measures everything.
    pub fn run(&mut self) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let mut outcome = Outcome::default();
        let mut active = self.prepare(&mut outcome)?;
        self.setup(&mut active, &mut outcome)?;
        if self.times {
            self.timed_blocks(&mut active, &mut outcome, start)?;
        }
        self.profiled_runs(&active, &mut outcome)?;
        self.count(&active, &mut outcome)?;
        self.teardown(&active, &mut outcome);
        for side in &self.sides {
            self.store.finish(&side.campaign)?;
        }
        Ok(outcome)
    }

    /// Checks which benchmarks can run and what earlier, interrupted runs left.
    fn prepare(&mut self, outcome: &mut Outcome) -> Result<Vec<Active>, Failure> {
        let mut active = Vec::new();
        let mut stored = Vec::new();
        for side in &self.sides {
            stored.push(self.store.load(&side.campaign)?);
        }
        for (place, case) in self.cases.clone().into_iter().enumerate() {
            let mut setting = self.setting(&case);
            if let Some(problem) = self.missing(&case) {
                if !(case.tool.optional || case.command.optional) {
                    return Err(Failure::operational(format!("{}: {problem}", case.id)));
                }
                self.note_problem(&case.id, &setting, &problem, outcome)?;
                continue;
            }
            let mut done = BTreeSet::new();
            for (side, campaign) in stored.iter().enumerate() {
                if let Some(measured) = campaign.benchmarks.get(&case.id) {
                    let slots = measured.metrics.get("wall").into_iter().flatten();
                    done.extend(slots.map(|s| (side, s.block, s.position)));
                    setting.runs_per_sample = setting.runs_per_sample.max(measured.setting.runs_per_sample);
                }
            }
            for side in self.sides.clone() {
                setting.identity = Some(self.identity(&case, &side));
                self.store.describe(&side.campaign, &case.id, &setting, None, None)?;
            }
            active.push(Active { case, place, setting, done, open: true });
        }
        Ok(active)
    }

    fn setting(&self, case: &Case) -> Setting {
        Setting {
            command: case.argv().join(" "),
            tool: case.tool.name.clone(),
            config: case.config.name.clone(),
            profiled: case.config.profile == Profile::Timed,
            cache_simulation: case.config.cache_simulation,
            threshold: case.command.threshold.or(self.config.run.threshold),
            identity: None,
            runs_per_sample: 1,
        }
    }

    /// Why a benchmark can't run on this machine, if it can't.
    fn missing(&self, case: &Case) -> Option<String> {
        let path = self.environment.get("PATH").map(String::as_str);
        for side in &self.sides {
            let directory = self.directory(case, side);
            for program in [case.tool.command.first(), case.command.argv.first()].into_iter().flatten() {
                let name = self.places(side, "", "", |p| p.fill(program));
                if find_program(&name, path, &directory).is_none() {
                    return Some(format!("{name} is not installed"));
                }
            }
        }
        None
    }

    /// A digest of the command line and of the files it names.
    fn identity(&self, case: &Case, side: &Side) -> String {
        let path = self.environment.get("PATH").map(String::as_str);
        let directory = self.directory(case, side);
        let mut parts = Vec::new();
        for word in case.argv() {
            let filled = self.places(side, "", "", |p| p.fill(&word));
            let file = find_program(&filled, path, &directory)
                .or_else(|| Some(directory.join(&filled)).filter(|f| f.is_file()));
            let content =
                file.and_then(|f| std::fs::read(f).ok()).map(|bytes| environment::hash_bytes(&bytes));
            parts.push(format!("{word}={:x}", content.unwrap_or(0)));
        }
        format!("{:016x}", stable_hash(&parts.join("\u{1f}")))
    }

    fn timed_blocks(
        &mut self,
        active: &mut [Active],
        outcome: &mut Outcome,
        start: Instant,
    ) -> Result<(), Failure> {
        let run = &self.config.run;
        let last = run.warm_up + run.max_blocks;
        for number in 0..last {
            let warm_up = number < run.warm_up;
            let open = active.iter().filter(|a| a.open).count();
            if open == 0 {
                break;
            }
            self.progress.block(number, last, open, warm_up);
            let order = plan::block(self.seed, number, self.cases.len(), self.sides.len(), run.repeat);
            for step in order {
                let Some(entry) = active.iter_mut().find(|a| a.place == step.benchmark && a.open) else {
                    continue;
                };
                if entry.done.contains(&(step.side, number, step.position)) {
                    continue;
                }
                let side = self.sides[step.side].clone();
                self.progress.run(&entry.case.id);
                let slot = Slot {
                    campaign: &side.campaign,
                    benchmark: &entry.case.id,
                    block: number,
                    position: step.position,
                    warm_up,
                };
                match self.sample(&entry.case, &side, number, entry.setting.runs_per_sample) {
                    Ok(usage) => {
                        self.store.add_run(slot, &usage.metrics())?;
                        entry.done.insert((step.side, number, step.position));
                    }
                    Err(problem) => {
                        entry.open = false;
                        let (id, setting) = (entry.case.id.clone(), entry.setting.clone());
                        self.note_problem(&id, &setting, &problem, outcome)?;
                    }
                }
            }
            outcome.blocks = number + 1;
            if number + 1 == run.warm_up {
                self.treat_short(active, outcome)?;
            }
            if !warm_up && number + 1 >= run.warm_up + run.min_blocks {
                self.close_precise(active)?;
            }
            if run.budget.is_some_and(|budget| start.elapsed() >= budget) && number + 1 < last {
                outcome.out_of_budget = active.iter().any(|a| a.open);
                break;
            }
        }
        Ok(())
    }

    /// One sample: the mean over as many runs as the benchmark needs.
    fn sample(&self, case: &Case, side: &Side, block: u32, runs: u32) -> Result<Usage, String> {
        let mut usages = Vec::new();
        for _ in 0..runs.max(1) {
            usages.push(self.once(case, side, block)?);
        }
        Ok(Usage::mean(&usages))
    }

    fn once(&self, case: &Case, side: &Side, block: u32) -> Result<Usage, String> {
        let mut argv = case.argv();
        if case.config.profile == Profile::Timed {
            argv.splice(0..0, self.profiler());
        }
        let scratch = Scratch::new(&self.scratch)?;
        let mut job = self.job(case, side, argv, &scratch.path, "");
        if self.config.run.layout == Layout::Randomise {
            let mut rng = Rng::stream(self.seed, !u64::from(block));
            job.environment.insert("TALLYGRAPH_PADDING".to_string(), "x".repeat(rng.below(4096)));
        }
        measure::run(&job)
    }

    fn profiler(&self) -> Vec<String> {
        self.config.profiler.as_ref().map(|p| p.command.clone()).unwrap_or_default()
    }

    fn job(&self, case: &Case, side: &Side, argv: Vec<String>, scratch: &Path, out: &str) -> Job {
        let scratch = scratch.to_string_lossy().into_owned();
        let fill = |text: &str| self.places(side, &scratch, out, |p| p.fill(text));
        let mut environment = self.environment.clone();
        for (name, value) in &case.command.environment {
            environment.insert(name.clone(), fill(value));
        }
        Job {
            argv: argv.iter().map(|word| fill(word)).collect(),
            environment,
            directory: self.directory(case, side),
            timeout: case.command.timeout.unwrap_or(self.config.run.timeout),
            expect_status: case.command.expect_status,
            expect_output: case.command.expect_output.clone(),
            layout: self.config.run.layout,
            cpus: cpu_list(self.config.run.cpus.as_deref()),
        }
    }

    fn directory(&self, case: &Case, side: &Side) -> PathBuf {
        match &case.command.directory {
            Some(directory) => side.directory.join(self.places(side, "", "", |p| p.fill(directory))),
            None => side.directory.clone(),
        }
    }

    fn places<T>(&self, side: &Side, scratch: &str, out: &str, f: impl FnOnce(&Places) -> T) -> T {
        let dir = side.directory.to_string_lossy();
        f(&Places { dir: &dir, scratch, out, tallygraph: &self.tallygraph })
    }

    /// Drops or lengthens what ran shorter than asked for, judged by its shortest warm-up run.
    fn treat_short(&mut self, active: &mut [Active], outcome: &mut Outcome) -> Result<(), Failure> {
        let Some(least) = self.config.run.min_duration.map(|d| d.as_secs_f64()) else { return Ok(()) };
        let head = self.sides[self.sides.len() - 1].campaign.clone();
        let campaign = self.store.load(&head)?;
        for entry in active.iter_mut().filter(|a| a.open) {
            let samples = campaign.benchmarks.get(&entry.case.id).and_then(|m| m.metrics.get("wall"));
            let shortest = samples.into_iter().flatten().map(|s| s.value).fold(f64::INFINITY, f64::min);
            if shortest >= least || entry.setting.runs_per_sample > 1 {
                continue;
            }
            match self.config.run.short {
                Short::Keep => {}
                Short::Drop => {
                    entry.open = false;
                    let problem = format!("runs for {shortest:.4} s, shorter than {least} s");
                    let (id, setting) = (entry.case.id.clone(), entry.setting.clone());
                    self.note_problem(&id, &setting, &problem, outcome)?;
                }
                Short::Lengthen => {
                    entry.setting.runs_per_sample = (least / shortest).ceil().min(1000.0) as u32;
                    for side in &self.sides {
                        self.store.describe(&side.campaign, &entry.case.id, &entry.setting, None, None)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stops the benchmarks whose interval is narrow enough.
    fn close_precise(&mut self, active: &mut [Active]) -> Result<(), Failure> {
        let policy = Policy { resamples: 2000, ..Policy::default() };
        let mut campaigns = Vec::new();
        for side in &self.sides {
            campaigns.push(self.store.load(&side.campaign)?);
        }
        let empty = Measured::default();
        for entry in active.iter_mut().filter(|a| a.open) {
            let of = |side: usize| campaigns[side].benchmarks.get(&entry.case.id).unwrap_or(&empty);
            let threshold = entry.setting.threshold.unwrap_or(policy.threshold);
            let narrow = if self.sides.len() == 2 {
                let observations = Observations::of(of(0), of(1), "wall", true);
                evidence(&observations, &policy, stable_hash(&entry.case.id))
                    .is_ok_and(|e| precise_enough(&e, threshold))
            } else {
                single_side_narrow(&block_means(of(0)), threshold, &policy)
            };
            entry.open = !narrow;
        }
        Ok(())
    }

    /// Runs with the profiler that is to watch apart from the timed runs.
    fn profiled_runs(&mut self, active: &[Active], outcome: &mut Outcome) -> Result<(), Failure> {
        for entry in active.iter().filter(|a| a.case.config.profile == Profile::Separate) {
            for side in self.sides.clone() {
                self.progress.run(&format!("{} (profiler)", entry.case.id));
                let out = self.profile_path(&side.campaign, &entry.case.id, "profiler")?;
                let mut argv = self.profiler();
                argv.extend(entry.case.argv());
                let scratch = Scratch::new(&self.scratch)?;
                let job = self.job(&entry.case, &side, argv, &scratch.path, &out.to_string_lossy());
                if let Err(problem) = measure::run(&job) {
                    outcome.problems.push((entry.case.id.clone(), format!("profiler: {problem}")));
                }
            }
        }
        Ok(())
    }

    /// Counts instructions of the benchmarks that are to be counted.
    fn count(&mut self, active: &[Active], outcome: &mut Outcome) -> Result<(), Failure> {
        let counting = self.config.counts.clone();
        if !counting.enabled {
            return Ok(());
        }
        for entry in active {
            let case = &entry.case;
            let wanted = case.tool.counts.unwrap_or(case.tool.command.is_empty());
            let selected = counting.only.iter().any(|p| tallygraph_compare::decisions::matches(p, &case.id));
            if !wanted || !selected || outcome.problems.iter().any(|(id, _)| *id == case.id) {
                continue;
            }
            for side in self.sides.clone() {
                for number in 1..=counting.runs.max(1) {
                    self.progress.run(&format!("{} (counting)", case.id));
                    let kept = self.profile_path(&side.campaign, &case.id, "callgrind.out")?;
                    let argv = counting.command.iter().cloned().chain(case.argv()).collect();
                    let scratch = Scratch::new(&self.scratch)?;
                    // The same path on both sides: a longer one could move a count.
                    let out = scratch.path.join("callgrind.out");
                    let job = Job {
                        layout: Layout::Pin,
                        ..self.job(case, &side, argv, &scratch.path, &out.to_string_lossy())
                    };
                    let counted = measure::run(&job).and_then(|_| counts::read(&out));
                    match counted {
                        Ok(totals) => {
                            let slot = Slot {
                                campaign: &side.campaign,
                                benchmark: &case.id,
                                block: number,
                                position: 0,
                                warm_up: false,
                            };
                            let metrics: Vec<(&str, f64)> =
                                totals.iter().map(|(n, v)| (n.as_str(), *v)).collect();
                            self.store.add_run(slot, &metrics)?;
                            std::fs::copy(&out, &kept).map_err(|e| format!("{}: {e}", kept.display()))?;
                            let reference = kept.strip_prefix(&self.store_directory).unwrap_or(&kept);
                            let reference = reference.to_string_lossy().into_owned();
                            let setting = Setting {
                                identity: Some(self.identity(case, &side)),
                                ..entry.setting.clone()
                            };
                            self.store.describe(
                                &side.campaign,
                                &case.id,
                                &setting,
                                Some(&reference),
                                None,
                            )?;
                        }
                        Err(problem) => {
                            outcome.problems.push((case.id.clone(), format!("counting: {problem}")));
                            break;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Where a profile of a benchmark is kept.
    fn profile_path(&self, campaign: &str, id: &str, suffix: &str) -> Result<PathBuf, Failure> {
        let directory = self.store_directory.join("profiles").join(campaign);
        std::fs::create_dir_all(&directory)
            .map_err(|e| Failure::operational(format!("{}: {e}", directory.display())))?;
        Ok(directory.join(format!("{:016x}.{suffix}", stable_hash(id))))
    }

    fn note_problem(
        &mut self,
        id: &str,
        setting: &Setting,
        problem: &str,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        for side in &self.sides {
            self.store.describe(&side.campaign, id, setting, None, Some(problem))?;
        }
        self.progress.line(&format!("{id}: {problem}"));
        outcome.problems.push((id.to_string(), problem.to_string()));
        Ok(())
    }

    fn setup(&mut self, active: &mut [Active], outcome: &mut Outcome) -> Result<(), Failure> {
        for entry in active.iter_mut().filter(|a| !a.case.command.setup.is_empty()) {
            if let Err(problem) = self.helper(&entry.case, &entry.case.command.setup) {
                entry.open = false;
                let (id, setting) = (entry.case.id.clone(), entry.setting.clone());
                self.note_problem(&id, &setting, &format!("setup: {problem}"), outcome)?;
            }
        }
        Ok(())
    }

    fn teardown(&self, active: &[Active], outcome: &mut Outcome) {
        for entry in active.iter().filter(|a| !a.case.command.teardown.is_empty()) {
            if let Err(problem) = self.helper(&entry.case, &entry.case.command.teardown) {
                outcome.problems.push((entry.case.id.clone(), format!("teardown: {problem}")));
            }
        }
    }

    /// Runs a setup or teardown command on each side.
    fn helper(&self, case: &Case, argv: &[String]) -> Result<(), String> {
        for side in &self.sides {
            let scratch = Scratch::new(&self.scratch)?;
            let job = self.job(case, side, argv.to_vec(), &scratch.path, "");
            measure::run(&Job { expect_status: 0, expect_output: None, ..job })?;
        }
        Ok(())
    }
}

/// Means of the blocks of one side: what its precision is judged by.
fn block_means(measured: &Measured) -> Vec<f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in measured.samples("wall") {
        blocks.entry(sample.block).or_default().push(sample.value.max(f64::MIN_POSITIVE).ln());
    }
    blocks.values().filter_map(|values| median(values)).collect()
}

fn single_side_narrow(logs: &[f64], threshold: f64, policy: &Policy) -> bool {
    let options = tallygraph_stats::Bootstrap {
        resamples: policy.resamples,
        seed: policy.seed,
        level: policy.level,
        expand: true,
    };
    tallygraph_stats::bootstrap::hodges_lehmann_interval(logs, options)
        .is_some_and(|i| i.half_width() <= 0.5 * threshold.ln_1p())
}

/// Processor numbers of a list like `2,3` or `0-3`.
fn cpu_list(text: Option<&str>) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.unwrap_or("").split(',').filter(|p| !p.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<usize>()) {
            cpus.extend(first..=last);
        }
    }
    cpus.retain(|&cpu| cpu < 1024);
    cpus
}

/// A directory of its own for one run, removed afterwards.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(parent: &Path) -> Result<Scratch, String> {
        // One name suffices: runs follow one another. A constant length keeps the argument and
        // environment size, which counts depend on, the same in every run.
        let path = parent.join("run");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A default for the time a session may take in a report of what is left.
pub fn readable(duration: Duration) -> String {
    match duration.as_secs() {
        s if s >= 3600 => format!("{} h {} min", s / 3600, s / 60 % 60),
        s if s >= 60 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists_know_ranges() {
        assert_eq!(cpu_list(Some("0-2,5")), [0, 1, 2, 5]);
        assert_eq!(cpu_list(None), Vec::<usize>::new());
    }

    #[test]
    fn durations_read_in_their_unit() {
        assert_eq!(readable(Duration::from_millis(1500)), "1.5 s");
        assert_eq!(readable(Duration::from_secs(3720)), "1 h 2 min");
    }
}
