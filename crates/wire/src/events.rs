//! The event types of a profile and the order of their columns, as the options choose them.
//!
//! Both sides derive the columns from the configuration by [`collected`]: the agent hands out one
//! counter for each of them where a cost is kept per edge, and numbers them in [`Charge`]s.
//!
//! [`Charge`]: crate::spool::Charge

use crate::config::{Config, Number};
use alloc::vec::Vec;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// An event type, named as in profiles.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(non_camel_case_types)]
        pub enum Event {
            $($(#[$doc])* $name,)*
        }

        impl Event {
            /// The name in a profile's `events:` line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Event::$name => stringify!($name),)*
                }
            }
        }
    };
}

events! {
    /// Instructions executed.
    Ir,
    /// Data reads.
    Dr,
    /// Data writes, and reads with writes of the same place.
    Dw,
    /// Instruction fetches that missed I1.
    I1mr,
    /// Reads that missed D1.
    D1mr,
    /// Writes that missed D1.
    D1mw,
    /// Instruction fetches that missed LL.
    ILmr,
    /// Reads that missed LL.
    DLmr,
    /// Writes that missed LL.
    DLmw,
    /// Fetches that missed LL and pushed out a modified line.
    ILdmr,
    /// Reads that did so.
    DLdmr,
    /// Writes that did so.
    DLdmw,
    /// Conditional branches.
    Bc,
    /// Of these, mispredicted.
    Bcm,
    /// Indirect jumps and calls.
    Bi,
    /// Of these, mispredicted.
    Bim,
    /// Temporal use of lines loaded into L1.
    AcCost1,
    /// Spatial loss of lines loaded into L1.
    SpLoss1,
    /// Temporal use of lines loaded into LL.
    AcCost2,
    /// Spatial loss of lines loaded into LL.
    SpLoss2,
    /// Global bus events: locked instructions.
    Ge,
    /// System calls.
    sysCount,
    /// Time elapsed in them.
    sysTime,
    /// CPU time of the kernel in them.
    sysCpuTime,
}

/// Write-back simulation, a bit of [`Number::SimVariant`].
pub const WRITE_BACK: u64 = 1;
/// Hardware prefetch, see [`WRITE_BACK`].
pub const PREFETCH: u64 = 2;
/// Cache use, see [`WRITE_BACK`].
pub const CACHE_USE: u64 = 4;

/// The events that a configuration collects, in the order of their columns. Cache use is not measured yet, and a column
/// of zeros would claim that it was.
pub fn collected(config: &Config) -> Vec<Event> {
    use Event::*;
    let mut events = Vec::from([Ir]);
    let variant = config.get(Number::SimVariant);
    if config.is(Number::CacheSim) || variant != 0 {
        events.extend([Dr, Dw, I1mr, D1mr, D1mw, ILmr, DLmr, DLmw]);
        if variant & WRITE_BACK != 0 {
            events.extend([ILdmr, DLdmr, DLdmw]);
        }
    }
    if config.is(Number::BranchSim) {
        events.extend([Bc, Bcm, Bi, Bim]);
    }
    if config.is(Number::CollectBus) {
        events.push(Ge);
    }
    let systime = config.get(Number::CollectSystime);
    if systime != 0 {
        events.extend([sysCount, sysTime]);
        if systime == 3 {
            events.push(sysCpuTime);
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_callgrinds_order() {
        let names =
            |config: &Config| collected(config).iter().map(|e| e.name()).collect::<Vec<_>>().join(" ");
        let mut config = Config::new();
        assert_eq!(names(&config), "Ir");
        config.set(Number::CacheSim, 1);
        config.set(Number::CollectSystime, 1);
        assert_eq!(names(&config), "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw sysCount sysTime");
        config.set(Number::SimVariant, WRITE_BACK);
        config.set(Number::CollectSystime, 3);
        config.set(Number::CollectBus, 1);
        assert_eq!(
            names(&config),
            "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw ILdmr DLdmr DLdmw Ge sysCount sysTime sysCpuTime"
        );
    }
}
