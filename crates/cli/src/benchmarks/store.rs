//! Which store a command uses, and loading campaigns from it.

use std::path::{Path, PathBuf};

use clap::Args;
use tallygraph_compare::model::{Campaign, Purpose};
use tallygraph_compare::store::Store;

use super::Failure;

/// The store's place.
#[derive(Args, Clone)]
pub struct StoreArguments {
    /// The store's file
    #[arg(
        long,
        value_name = "FILE",
        env = "TALLYGRAPH_STORE",
        default_value = ".tallygraph/benchmarks.sqlite"
    )]
    pub store: PathBuf,
}

impl StoreArguments {
    /// Opens the store, creating it and its directory.
    pub fn create(&self) -> Result<Store, Failure> {
        let directory = self.directory();
        std::fs::create_dir_all(&directory)
            .map_err(|e| Failure::operational(format!("{}: {e}", directory.display())))?;
        Ok(Store::open(&self.store)?)
    }

    /// Opens a store that must exist.
    pub fn open(&self) -> Result<Store, Failure> {
        open_existing(&self.store)
    }

    /// The directory of the store, under which profiles are kept.
    pub fn directory(&self) -> PathBuf {
        match self.store.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        }
    }
}

/// Opens a store that must exist.
pub fn open_existing(path: &Path) -> Result<Store, Failure> {
    if !path.is_file() {
        return Err(Failure::operational(format!("{}: no such store", path.display())));
    }
    Ok(Store::open(path)?)
}

/// All campaigns of a store, oldest first.
pub fn load_all(store: &Store) -> Result<Vec<Campaign>, Failure> {
    store.list()?.iter().map(|info| store.load(&info.id).map_err(Failure::from)).collect()
}

/// The two sides of the newest session that measured the noise floor on machines like `campaign`'s.
pub fn noise_session(store: &Store, campaign: &Campaign) -> Result<Option<(Campaign, Campaign)>, Failure> {
    let infos = store.list()?;
    for head in infos.iter().rev().filter(|i| i.purpose == Purpose::NoiseFloor) {
        let Some(base) = infos.iter().find(|i| i.session == head.session && i.id != head.id) else {
            continue;
        };
        let (base, head) = (store.load(&base.id)?, store.load(&head.id)?);
        if head.environment.prevents(&campaign.environment, false).is_empty() {
            return Ok(Some((base, head)));
        }
    }
    Ok(None)
}
