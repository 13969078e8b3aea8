//! The event types of a profile, as the options choose them.

use tallygraph_wire::config::{Config, Number};
use tallygraph_wire::events::collected;

/// Names of the events in the order of their columns, Ir first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    names: Vec<&'static str>,
    /// Long names for `event:` lines.
    long: Vec<(&'static str, &'static str)>,
}

impl Events {
    /// The events that a configuration collects.
    pub fn of(config: &Config) -> Events {
        let names: Vec<&'static str> = collected(config).iter().map(|e| e.name()).collect();
        let mut long = Vec::new();
        let systime = config.get(Number::CollectSystime);
        if systime != 0 {
            long.push(match systime {
                // `yes` is msec.
                1 | 4 => ("sysTime", "sysTime (elapsed ms)"),
                2 => ("sysTime", "sysTime (elapsed us)"),
                _ => ("sysTime", "sysTime (elapsed ns)"),
            });
            if systime == 3 {
                long.push(("sysCpuTime", "sysCpuTime (system cpu ns)"));
            }
        }
        Events { names, long }
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never true: Ir is always counted.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names, blank-separated.
    pub fn line(&self) -> String {
        self.names.join(" ")
    }

    /// Short and long name of each event that has a long one.
    pub fn long_names(&self) -> &[(&'static str, &'static str)] {
        &self.long
    }

    /// Column of an event.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| *n == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_callgrinds_order() {
        let mut config = Config::new();
        assert_eq!(Events::of(&config).line(), "Ir");
        for (key, value) in [
            (Number::SimVariant, 4),
            (Number::BranchSim, 1),
            (Number::CollectBus, 1),
            (Number::CollectSystime, 3),
        ] {
            config.set(key, value);
        }
        let events = Events::of(&config);
        let expected = "Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim Ge \
                        sysCount sysTime sysCpuTime";
        assert_eq!(events.line(), expected);
        assert_eq!(events.column("Bc"), Some(9));
        config.set(Number::SimVariant, 1);
        assert!(Events::of(&config).line().contains("DLmw ILdmr DLdmr DLdmw Bc"));
    }
}
