//! The environment a campaign ran in, and whether two of them may be compared.
//!
//! Counts depend on other things than time does: a memcpy chosen by processor flags changes the
//! instruction count, the clock governor only the time. So each fact has a class, and a mismatch
//! makes two campaigns incomparable only for the metrics it can move.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a fact can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Instruction counts, and so time as well.
    Counts,
    /// Time only.
    Time,
    /// Nothing by itself; shown to a reader who looks for a reason.
    Informative,
}

/// Class of each fact; names not listed are informative.
const CLASSES: &[(&str, Class)] = &[
    ("cpu.flags", Class::Counts),
    ("libc", Class::Counts),
    ("hwcaps", Class::Counts),
    ("env.size", Class::Counts),
    ("locale", Class::Counts),
    ("stack.limit", Class::Counts),
    ("page.size", Class::Counts),
    ("cpu.cores", Class::Counts),
    ("cpu.model", Class::Time),
    ("cpu.microcode", Class::Time),
    ("cpu.hypervisor", Class::Time),
    ("cpu.affinity", Class::Time),
    ("cpu.governor", Class::Time),
    ("cpu.turbo", Class::Time),
    ("cpu.smt", Class::Time),
    ("kernel", Class::Time),
    ("memory.thp", Class::Time),
    ("cgroup.cpu", Class::Time),
    ("cgroup.memory", Class::Time),
    ("aslr", Class::Time),
    ("numa.nodes", Class::Time),
];

/// The class of the fact called `name`.
pub fn class_of(name: &str) -> Class {
    CLASSES.iter().find(|(n, _)| *n == name).map_or(Class::Informative, |(_, c)| *c)
}

/// Facts about a machine by name, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint {
    /// The facts.
    pub facts: BTreeMap<String, String>,
}

/// A fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The fact's name.
    pub fact: String,
    /// What it can move.
    pub class: Class,
    /// Its text on the base side.
    pub base: String,
    /// Its text on the head side.
    pub head: String,
}

impl Fingerprint {
    /// Facts known on both sides that differ.
    ///
    /// A fact known on one side only is no mismatch: imported results know little, and an older
    /// version may not have recorded it.
    pub fn mismatches(&self, head: &Fingerprint) -> Vec<Mismatch> {
        self.facts
            .iter()
            .filter_map(|(name, base)| {
                let other = head.facts.get(name)?;
                (other != base).then(|| Mismatch {
                    fact: name.clone(),
                    class: class_of(name),
                    base: base.clone(),
                    head: other.clone(),
                })
            })
            .collect()
    }

    /// The mismatches that make a metric incomparable.
    pub fn prevents(&self, head: &Fingerprint, exact_metric: bool) -> Vec<Mismatch> {
        self.mismatches(head)
            .into_iter()
            .filter(|m| match m.class {
                Class::Counts => true,
                Class::Time => !exact_metric,
                Class::Informative => false,
            })
            .collect()
    }

    /// A short text equal for all machines whose results form one series for this kind of metric.
    pub fn class_key(&self, exact_metric: bool) -> String {
        let parts: Vec<String> = CLASSES
            .iter()
            .filter(|(_, class)| *class == Class::Counts || !exact_metric)
            .filter_map(|(name, _)| self.facts.get(*name).map(|value| format!("{name}={value}")))
            .collect();
        parts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(facts: &[(&str, &str)]) -> Fingerprint {
        Fingerprint { facts: facts.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect() }
    }

    #[test]
    fn another_processor_model_moves_time_but_not_counts() {
        let a = machine(&[("cpu.model", "EPYC 7763"), ("cpu.flags", "f00d")]);
        let b = machine(&[("cpu.model", "EPYC 9V74"), ("cpu.flags", "f00d")]);
        assert_eq!(a.prevents(&b, false).len(), 1);
        assert!(a.prevents(&b, true).is_empty());
        assert_ne!(a.class_key(false), b.class_key(false));
        assert_eq!(a.class_key(true), b.class_key(true));
    }

    #[test]
    fn other_processor_flags_move_both() {
        let a = machine(&[("cpu.flags", "f00d")]);
        let b = machine(&[("cpu.flags", "beef")]);
        assert_eq!(a.prevents(&b, true), a.prevents(&b, false));
        assert_eq!(a.prevents(&b, true)[0].fact, "cpu.flags");
    }

    #[test]
    fn unknown_facts_and_informative_ones_prevent_nothing() {
        let a = machine(&[("hostname", "one"), ("kernel", "6.1")]);
        let b = machine(&[("hostname", "two")]);
        assert!(a.prevents(&b, false).is_empty());
        assert_eq!(a.mismatches(&b).len(), 1);
    }
}
