//! Two sets of runs, and the differences between them with their uncertainty.
//!
//! Everything is a function over data: [`model`] says what was measured, [`decide`] turns samples
//! into a verdict, [`report`] compares a base with a head, [`history`] looks at a series over
//! time. Text comes from [`render`]. Running programs
//! and reading the machine's state are the command's business (`tallygraph-cli`).
//!
//!
//! Not here: estimators and tests (`tallygraph-stats`), reading profiles (`tallygraph-profile`,
//! joined through [`cause::ProfileSource`]).

pub mod cause;
pub mod date;
pub mod decide;
pub mod decisions;
pub mod export;
pub mod fingerprint;
pub mod format;
pub mod history;
pub mod import;
pub mod investigate;
pub mod model;
pub mod render;
pub mod report;
pub mod rivals;
pub mod simulate;
pub mod store;
pub mod truth;
