//! The store: campaigns with all their samples in one SQLite file.
//!
//! A sample is written in the transaction that ends its run, so an interrupted session loses
//! nothing that was measured. The tables are plain (`campaign`, `benchmark`, `sample`) and meant
//! to be read with any SQLite client; profiles are files beside the store, referenced by path.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use crate::fingerprint::Fingerprint;
use crate::model::{Campaign, CampaignInfo, Measured, Purpose, Sample, Setting};

/// Version of the tables; stored in `user_version`.
const SCHEMA_VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE campaign (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    reference TEXT NOT NULL,
    commit_hash TEXT NOT NULL,
    started TEXT NOT NULL,
    finished INTEGER NOT NULL DEFAULT 0,
    plan TEXT NOT NULL DEFAULT '',
    info TEXT NOT NULL,
    environment TEXT NOT NULL
);
CREATE TABLE benchmark (
    key INTEGER PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaign(key) ON DELETE CASCADE,
    name TEXT NOT NULL,
    setting TEXT NOT NULL,
    profile TEXT,
    problem TEXT,
    UNIQUE (campaign, name)
);
CREATE TABLE sample (
    benchmark INTEGER NOT NULL REFERENCES benchmark(key) ON DELETE CASCADE,
    metric TEXT NOT NULL,
    block INTEGER NOT NULL,
    position INTEGER NOT NULL,
    warm_up INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (benchmark, metric, block, position)
) WITHOUT ROWID;
CREATE INDEX campaign_by_time ON campaign (started);
";

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite's own complaint.
    #[error("store {path}: {source}")]
    Sqlite {
        /// The store's file.
        path: String,
        /// The complaint.
        source: rusqlite::Error,
    },
    /// A file of another program or a later version.
    #[error("store {path}: {problem}")]
    Format {
        /// The store's file.
        path: String,
        /// What is unexpected.
        problem: String,
    },
    /// No campaign fits.
    #[error("no campaign matches `{0}`")]
    NoCampaign(String),
    /// More than one campaign fits an abbreviation.
    #[error("`{0}` is ambiguous: {1}")]
    Ambiguous(String, String),
    /// Shards from machines that can't be one campaign.
    #[error(
        "campaign {campaign}: shards ran on machines that differ in {facts}; measure base and head in one session, or use one kind of machine"
    )]
    ShardsDiffer {
        /// The campaign in both stores.
        campaign: String,
        /// The facts that differ.
        facts: String,
    },
}

/// A store opened for reading and writing.
pub struct Store {
    connection: Connection,
    path: String,
}

/// Where a sample belongs.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// Campaign id.
    pub campaign: &'a str,
    /// Benchmark id.
    pub benchmark: &'a str,
    /// Block.
    pub block: u32,
    /// Place within the block.
    pub position: u32,
    /// Whether the run only warms up.
    pub warm_up: bool,
}

impl Store {
    /// Opens the store at `path`, creating it if it does not exist.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let connection =
            Connection::open(path).map_err(|source| StoreError::Sqlite { path: name.clone(), source })?;
        Store { connection, path: name }.prepared()
    }

    /// A store that lives in memory, for tests and one-off comparisons.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = "in memory".to_string();
        let connection = Connection::open_in_memory()
            .map_err(|source| StoreError::Sqlite { path: path.clone(), source })?;
        Store { connection, path }.prepared()
    }

    fn prepared(self) -> Result<Self, StoreError> {
        self.run(|c| {
            c.busy_timeout(std::time::Duration::from_secs(10))?;
            c.pragma_update(None, "foreign_keys", true)?;
            // One writer and readers beside it; an in-memory store ignores this.
            c.pragma_update(None, "journal_mode", "wal")
        })?;
        let version: i64 = self.run(|c| c.pragma_query_value(None, "user_version", |r| r.get(0)))?;
        let tables: i64 =
            self.run(|c| c.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0)))?;
        let format = |problem: String| StoreError::Format { path: self.path.clone(), problem };
        match (version, tables) {
            (SCHEMA_VERSION, _) => Ok(self),
            (0, 0) => {
                self.run(|c| c.execute_batch(SCHEMA))?;
                self.run(|c| c.pragma_update(None, "user_version", SCHEMA_VERSION))?;
                Ok(self)
            }
            (0, _) => Err(format("an SQLite file of another program".to_string())),
            (other, _) => Err(format(format!("schema version {other}, this program knows {SCHEMA_VERSION}"))),
        }
    }

    fn run<T>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        f(&self.connection).map_err(|source| StoreError::Sqlite { path: self.path.clone(), source })
    }

    /// Adds an empty campaign, or returns false if its id exists already.
    ///
    /// `plan` is a digest of what is to be measured; see [`Store::unfinished`].
    pub fn begin(
        &self,
        info: &CampaignInfo,
        environment: &Fingerprint,
        plan: &str,
    ) -> Result<bool, StoreError> {
        let added = self.run(|c| {
            c.execute(
                "INSERT OR IGNORE INTO campaign (id, session, reference, commit_hash, started, plan, info, environment)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    info.id,
                    info.session,
                    info.reference,
                    info.commit,
                    info.started,
                    plan,
                    to_json(info),
                    to_json(environment)
                ],
            )
        })?;
        Ok(added == 1)
    }

    /// Campaigns of the newest session with this plan that was not finished, base before head.
    pub fn unfinished(&self, plan: &str) -> Result<Vec<CampaignInfo>, StoreError> {
        let infos: Vec<String> = self.run(|c| {
            c.prepare(
                "SELECT info FROM campaign WHERE session = (
                     SELECT session FROM campaign WHERE plan = ?1 AND finished = 0 ORDER BY started DESC, key DESC LIMIT 1
                 ) ORDER BY key",
            )?
            .query_map([plan], |r| r.get(0))?
            .collect()
        })?;
        infos.iter().map(|text| self.decode(text)).collect()
    }

    /// Marks a campaign as complete.
    pub fn finish(&self, campaign: &str) -> Result<(), StoreError> {
        self.run(|c| c.execute("UPDATE campaign SET finished = 1 WHERE id = ?1", [campaign]))?;
        Ok(())
    }

    /// Sets how a benchmark was run, what went wrong and where its profile is; absent ones stay.
    pub fn describe(
        &self,
        campaign: &str,
        benchmark: &str,
        setting: &Setting,
        profile: Option<&str>,
        problem: Option<&str>,
    ) -> Result<(), StoreError> {
        self.run(|c| {
            c.execute(
                "INSERT INTO benchmark (campaign, name, setting, profile, problem)
                 VALUES ((SELECT key FROM campaign WHERE id = ?1), ?2, ?3, ?4, ?5)
                 ON CONFLICT (campaign, name) DO UPDATE SET
                     setting = ?3, profile = coalesce(?4, profile), problem = ?5",
                params![campaign, benchmark, to_json(setting), profile, problem],
            )
        })?;
        Ok(())
    }

    /// Stores the metrics of one run, all or none; a slot already filled keeps its values.
    pub fn add_run(&mut self, slot: Slot, metrics: &[(&str, f64)]) -> Result<(), StoreError> {
        let path = self.path.clone();
        let result = (|| {
            let transaction = self.connection.transaction()?;
            {
                let key: i64 = transaction.query_row(
                    "SELECT b.key FROM benchmark b JOIN campaign c ON c.key = b.campaign WHERE c.id = ?1 AND b.name = ?2",
                    [slot.campaign, slot.benchmark],
                    |r| r.get(0),
                )?;
                let mut insert = transaction
                    .prepare_cached("INSERT OR IGNORE INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
                for (metric, value) in metrics {
                    insert.execute(params![key, metric, slot.block, slot.position, slot.warm_up, value])?;
                }
            }
            transaction.commit()
        })();
        result.map_err(|source| StoreError::Sqlite { path, source })
    }

    /// Stores a whole campaign, as an import or a merge does.
    pub fn insert(&mut self, campaign: &Campaign) -> Result<(), StoreError> {
        self.begin(&campaign.info, &campaign.environment, "")?;
        for (name, measured) in &campaign.benchmarks {
            self.describe(
                &campaign.info.id,
                name,
                &measured.setting,
                measured.profile.as_deref(),
                measured.problem.as_deref(),
            )?;
            let path = self.path.clone();
            let result = (|| {
                let transaction = self.connection.transaction()?;
                {
                    let key: i64 = transaction.query_row(
                        "SELECT b.key FROM benchmark b JOIN campaign c ON c.key = b.campaign WHERE c.id = ?1 AND b.name = ?2",
                        [&campaign.info.id, name],
                        |r| r.get(0),
                    )?;
                    let mut add = transaction
                        .prepare_cached("INSERT OR IGNORE INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
                    for (metric, samples) in &measured.metrics {
                        for s in samples {
                            add.execute(params![key, metric, s.block, s.position, s.warm_up, s.value])?;
                        }
                    }
                }
                transaction.commit()
            })();
            result.map_err(|source| StoreError::Sqlite { path, source })?;
        }
        self.finish(&campaign.info.id)
    }

    /// All campaigns, oldest first, without their samples.
    pub fn list(&self) -> Result<Vec<CampaignInfo>, StoreError> {
        let infos: Vec<String> = self.run(|c| {
            c.prepare("SELECT info FROM campaign ORDER BY started, key")?
                .query_map([], |r| r.get(0))?
                .collect()
        })?;
        infos.iter().map(|text| self.decode(text)).collect()
    }

    /// A campaign with everything in it.
    pub fn load(&self, id: &str) -> Result<Campaign, StoreError> {
        let found: Option<(i64, String, String)> = self.run(|c| {
            c.query_row("SELECT key, info, environment FROM campaign WHERE id = ?1", [id], |r| {
                Ok((r.get(0)?, r.get(1)?, r.get(2)?))
            })
            .optional()
        })?;
        let (key, info, environment) = found.ok_or_else(|| StoreError::NoCampaign(id.to_string()))?;
        let mut benchmarks = BTreeMap::new();
        type Described = (i64, String, String, Option<String>, Option<String>);
        let described: Vec<Described> = self.run(|c| {
            c.prepare("SELECT key, name, setting, profile, problem FROM benchmark WHERE campaign = ?1")?
                .query_map([key], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?)))?
                .collect()
        })?;
        for (key, name, setting, profile, problem) in described {
            let rows: Vec<(String, Sample)> = self.run(|c| {
                c.prepare_cached(
                    "SELECT metric, block, position, warm_up, value FROM sample WHERE benchmark = ?1
                     ORDER BY metric, block, position",
                )?
                .query_map([key], |r| {
                    let sample = Sample {
                        block: r.get(1)?,
                        position: r.get(2)?,
                        warm_up: r.get(3)?,
                        value: r.get(4)?,
                    };
                    Ok((r.get(0)?, sample))
                })?
                .collect()
            })?;
            let mut metrics: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
            for (metric, sample) in rows {
                metrics.entry(metric).or_default().push(sample);
            }
            benchmarks.insert(name, Measured { setting: self.decode(&setting)?, metrics, profile, problem });
        }
        Ok(Campaign { info: self.decode(&info)?, environment: self.decode(&environment)?, benchmarks })
    }

    /// The campaign meant by a text: an id, `latest`, a branch (its newest campaign), or the
    /// beginning of an id or a commit.
    ///
    /// Campaigns that measured the noise floor are only meant by their id.
    pub fn find(&self, text: &str) -> Result<CampaignInfo, StoreError> {
        let all = self.list()?;
        let newest = |found: Vec<&CampaignInfo>| found.last().map(|info| (*info).clone());
        let exact = all.iter().find(|i| i.id == text).cloned();
        let all: Vec<&CampaignInfo> = all.iter().filter(|i| i.purpose != Purpose::NoiseFloor).collect();
        let latest = || if text == "latest" { all.last().map(|i| (*i).clone()) } else { None };
        let of_branch = || newest(all.iter().copied().filter(|i| i.reference == text).collect());
        if let Some(info) = exact.or_else(latest).or_else(of_branch) {
            return Ok(info);
        }
        if text.len() < 4 {
            return Err(StoreError::NoCampaign(text.to_string()));
        }
        let by_id: Vec<&CampaignInfo> = all.iter().copied().filter(|i| i.id.starts_with(text)).collect();
        let found = if by_id.is_empty() {
            let of_commit: Vec<&CampaignInfo> =
                all.iter().copied().filter(|i| i.commit.starts_with(text)).collect();
            let same_commit = of_commit.windows(2).all(|w| w[0].commit == w[1].commit);
            // One commit measured several times means its newest campaign.
            if same_commit { of_commit.into_iter().next_back().into_iter().collect() } else { of_commit }
        } else {
            by_id
        };
        match found.as_slice() {
            [] => Err(StoreError::NoCampaign(text.to_string())),
            [one] => Ok((*one).clone()),
            many => {
                let ids: Vec<&str> = many.iter().map(|i| i.id.as_str()).collect();
                Err(StoreError::Ambiguous(text.to_string(), ids.join(", ")))
            }
        }
    }

    /// Takes over everything of another store: other campaigns, and shards of the same ones.
    ///
    /// Shards of a campaign may come from several machines as long as base and head of each
    /// benchmark ran on the same one (a session of two); the facts in which they differ are then
    /// dropped from the environment. Otherwise machines that differ in what moves time are refused.
    pub fn merge(&mut self, other: &Store) -> Result<usize, StoreError> {
        let mut merged = 0;
        for info in other.list()? {
            let theirs = other.load(&info.id)?;
            if let Ok(ours) = self.load(&info.id) {
                let differing = ours.environment.prevents(&theirs.environment, false);
                let facts: Vec<&str> = differing.iter().map(|m| m.fact.as_str()).collect();
                if !facts.is_empty() && info.session == info.id {
                    return Err(StoreError::ShardsDiffer { campaign: info.id, facts: facts.join(", ") });
                }
                let mut common = ours.environment.clone();
                common.facts.retain(|name, _| !facts.contains(&name.as_str()));
                self.run(|c| {
                    c.execute(
                        "UPDATE campaign SET environment = ?2 WHERE id = ?1",
                        params![info.id, to_json(&common)],
                    )
                })?;
            }
            self.insert(&theirs)?;
            merged += 1;
        }
        Ok(merged)
    }

    /// Removes a campaign and its samples.
    pub fn remove(&self, id: &str) -> Result<(), StoreError> {
        let removed = self.run(|c| c.execute("DELETE FROM campaign WHERE id = ?1", [id]))?;
        if removed == 0 { Err(StoreError::NoCampaign(id.to_string())) } else { Ok(()) }
    }

    fn decode<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|e| StoreError::Format {
            path: self.path.clone(),
            problem: format!("unreadable row: {e}"),
        })
    }
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data serialises")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Scenario, campaigns};

    fn filled() -> (Store, Campaign, Campaign) {
        let (base, head) = campaigns(&[Scenario::QUIET, Scenario::QUIET], 5);
        let mut store = Store::in_memory().unwrap();
        store.insert(&base).unwrap();
        store.insert(&head).unwrap();
        (store, base, head)
    }

    #[test]
    fn a_campaign_comes_back_as_it_was_stored() {
        let (store, base, head) = filled();
        assert_eq!(store.load("base").unwrap(), base);
        assert_eq!(store.load("head").unwrap(), head);
        assert_eq!(store.list().unwrap().len(), 2);
    }

    #[test]
    fn campaigns_are_found_by_id_branch_commit_and_age() {
        let (mut store, base, _) = filled();
        let mut again = base.clone();
        again.info.id = "20260102-again".into();
        again.info.started = "2026-01-02T00:00:00Z".into();
        store.insert(&again).unwrap();
        assert_eq!(store.find("base").unwrap().id, "base", "an exact id before a branch name");
        assert_eq!(store.find("latest").unwrap().id, "20260102-again");
        assert_eq!(store.find("202601").unwrap().id, "20260102-again");
        assert_eq!(store.find("000000").unwrap().id, "20260102-again", "the newest of the commit");
        assert_eq!(store.find("1111111").unwrap().id, "head");
        let mut noise = base.clone();
        noise.info = CampaignInfo { id: "noise".into(), purpose: Purpose::NoiseFloor, ..again.info.clone() };
        noise.info.started = "2026-01-03T00:00:00Z".into();
        store.insert(&noise).unwrap();
        assert_eq!(store.find("latest").unwrap().id, "20260102-again", "a noise floor is no result");
        assert_eq!(store.find("noise").unwrap().id, "noise");
        assert_eq!(store.find("nothing").unwrap_err().to_string(), "no campaign matches `nothing`");
    }

    #[test]
    fn a_slot_is_filled_once_and_runs_are_whole() {
        let (mut store, ..) = filled();
        let slot = Slot { campaign: "base", benchmark: "b000", block: 99, position: 0, warm_up: false };
        store.add_run(slot, &[("wall", 1.0), ("user", 0.5)]).unwrap();
        store.add_run(slot, &[("wall", 2.0)]).unwrap();
        let campaign = store.load("base").unwrap();
        let last = campaign.benchmarks["b000"].metrics["wall"].last().unwrap();
        assert_eq!((last.block, last.value), (99, 1.0));
        let nowhere = Slot { benchmark: "none", ..slot };
        assert!(store.add_run(nowhere, &[("wall", 1.0)]).is_err());
    }

    #[test]
    fn shards_become_one_campaign() {
        let (base, _) = campaigns(&[Scenario::QUIET, Scenario::QUIET], 5);
        let shard = |keep: &str| {
            let mut part = base.clone();
            part.benchmarks.retain(|id, _| id == keep);
            let mut store = Store::in_memory().unwrap();
            store.insert(&part).unwrap();
            store
        };
        let (mut one, two) = (shard("b000"), shard("b001"));
        assert_eq!(one.merge(&two).unwrap(), 1);
        assert_eq!(one.load("base").unwrap(), base);
        one.merge(&two).unwrap();
        assert_eq!(one.load("base").unwrap(), base, "merging twice changes nothing");
    }

    #[test]
    fn shards_of_different_machines_are_refused_unless_base_and_head_ran_together() {
        let on = |kernel: &str, session: &str| {
            let (mut base, _) = campaigns(&[Scenario::QUIET], 5);
            base.info.session = session.into();
            base.environment.facts.insert("kernel".into(), kernel.into());
            let mut store = Store::in_memory().unwrap();
            store.insert(&base).unwrap();
            store
        };
        let error = on("6.1", "base").merge(&on("6.2", "base")).unwrap_err();
        assert!(error.to_string().contains("differ in kernel"), "{error}");
        let mut together = on("6.1", "session");
        together.merge(&on("6.2", "session")).unwrap();
        assert!(together.load("base").unwrap().environment.facts.is_empty());
    }

    #[test]
    fn an_interrupted_session_is_found_by_its_plan() {
        let store = Store::in_memory().unwrap();
        let info = CampaignInfo { id: "a".into(), session: "a".into(), ..CampaignInfo::default() };
        assert!(store.begin(&info, &Fingerprint::default(), "plan").unwrap());
        assert!(!store.begin(&info, &Fingerprint::default(), "plan").unwrap(), "the id exists");
        assert_eq!(store.unfinished("plan").unwrap(), [info]);
        assert!(store.unfinished("other plan").unwrap().is_empty());
        store.finish("a").unwrap();
        assert!(store.unfinished("plan").unwrap().is_empty());
    }

    #[test]
    fn a_file_of_another_program_is_refused() {
        let path = std::env::temp_dir().join(format!("tallygraph-store-{}.sqlite", std::process::id()));
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
        let error = Store::open(&path).err().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("another program"), "{error}");
    }
}
