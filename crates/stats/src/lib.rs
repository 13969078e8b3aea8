//! The statistics of benchmark comparison: estimators, intervals, tests, change points.
//!
//! Everything here is a pure function of its arguments. Wherever chance is involved the caller
//! passes a seed, and a stored seed replays the same result on every machine and in every later
//! version, because the generator ([`rng`]) is part of this crate.
//!
//! What a caller owes:
//!
//! - values are finite; a NaN would make an order statistic meaningless and is a caller's bug
//!   (functions that sort use [`f64::total_cmp`], so they do not panic);
//! - ratios are analysed on the log scale, where a doubling and a halving weigh the same;
//! - one value per *process run*, not per loop iteration: iterations within a process are not
//!   independent, and no test here knows that.
//!
//! Where an exact null distribution is cheap it is used ([`rank`], [`ks`], [`permutation`],
//! [`trend`]); approximations say so in the result's method. Numbers are checked against SciPy's
//! in `tests/against_scipy.rs`.
//!
//! Not here: which metric matters, thresholds and verdicts (`tallygraph-compare`).

pub mod bootstrap;
pub mod change;
pub mod descriptive;
pub mod ks;
pub mod location;
pub mod modes;
pub mod multiple;
pub mod outliers;
pub mod permutation;
pub mod rank;
pub mod rng;
pub mod special;
pub mod t_test;
pub mod trend;

pub use bootstrap::{Bootstrap, Interval};
pub use rng::Rng;
