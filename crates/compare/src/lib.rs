//! Two sets of runs, and the differences between them with their uncertainty.
//!
//! Everything but the store is a function over data: [`model`] says what was measured, [`decide`]
//! turns samples into a verdict, [`report`] compares a base with a head, [`history`] looks at a
//! series over time, [`investigate`](mod@investigate) explains why results flicker. Text comes from
//! [`render`]; [`store`], [`export`] and [`import`] keep and exchange campaigns. Running programs
//! and reading the machine's state are the command's business (`tallygraph-cli`).
//!
//! [`simulate`], [`rivals`] and [`truth`] measure how often the rule is wrong, on campaigns whose
//! truth is known, next to the rules other tools use.
//!
//! ```
//! use tallygraph_compare::{cause, decide, decisions, history, render, report, simulate};
//!
//! // A benchmark that became 9 % slower, measured in ten blocks at 2 % noise.
//! let slower = simulate::Scenario { shift: 0.09, ..simulate::Scenario::QUIET };
//! let (base, head) = simulate::campaigns(&[slower], 1);
//! let found = report::build(&report::Inputs {
//!     base: &base,
//!     head: &head,
//!     metric: "wall",
//!     policy: &decide::Policy::default(),
//!     decisions: &decisions::Decisions::default(),
//!     history: &history::History::default(),
//!     noise: &report::NoiseFloor::default(),
//!     profiles: &cause::NoProfiles,
//!     today: "2026-01-02",
//! });
//! assert_eq!(found.rows[0].status, report::Status::Regressed);
//! assert!(found.fails(false));
//! println!("{}", render::terminal::terminal(&found, false, false));
//! ```
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
