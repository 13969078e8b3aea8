//! What people decided about benchmarks: acknowledged, ignored, archived.
//!
//! The decisions are a TOML file in the repository, reviewed like code. Each has an author and a
//! reason, and may expire:
//!
//! ```toml
//! [[acknowledge]]
//! benchmark = "test_valgrind[valgrind-3.25.1, *]"
//! author = "ada"
//! reason = "the new parser checks its input"
//! until = "2027-03-31"
//! at_worst = -0.12
//! ```
//!
//! In `benchmark` a `*` stands for any text; everything else, brackets included, is literal.

use serde::{Deserialize, Serialize};

/// What a decision does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regression is accepted; it no longer fails the report.
    Acknowledge,
    /// The benchmark is measured but not judged.
    Ignore,
    /// The benchmark no longer exists; its absence is no news.
    Archive,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Which benchmarks, `*` for any text.
    pub benchmark: String,
    /// Which metric; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Who decided.
    pub author: String,
    /// Why.
    pub reason: String,
    /// Last day it holds, as 2027-03-31; forever if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// For an acknowledgement, the worst efficiency it covers (−0.12); any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_worst: Option<f64>,
}

/// All decisions of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decisions {
    /// Accepted regressions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acknowledge: Vec<Decision>,
    /// Benchmarks not judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<Decision>,
    /// Benchmarks that no longer exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archive: Vec<Decision>,
}

/// What is wrong with a file of decisions.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// Not the expected TOML.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A decision lacks something or has something impossible.
    #[error("decision on `{benchmark}`: {problem}")]
    Invalid {
        /// The decision's pattern.
        benchmark: String,
        /// What is wrong.
        problem: &'static str,
    },
}

impl Decisions {
    /// Reads and checks a file's text.
    pub fn parse(text: &str) -> Result<Self, DecisionError> {
        let decisions: Decisions = toml::from_str(text)?;
        for decision in decisions.acknowledge.iter().chain(&decisions.ignore).chain(&decisions.archive) {
            decision.check()?;
        }
        Ok(decisions)
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("decisions are plain tables");
        format!(
            "# Decisions about benchmarks; `tallygraph acknowledge`, `ignore` and `archive` add to this file.\n\n{body}"
        )
    }

    /// Adds a decision, replacing an earlier one of its kind on the same benchmark and metric.
    pub fn add(&mut self, kind: Kind, decision: Decision) -> Result<(), DecisionError> {
        decision.check()?;
        let list = self.list_mut(kind);
        list.retain(|d| d.benchmark != decision.benchmark || d.metric != decision.metric);
        list.push(decision);
        Ok(())
    }

    /// Removes the decisions of a kind on exactly this pattern; how many there were.
    pub fn remove(&mut self, kind: Kind, benchmark: &str) -> usize {
        let list = self.list_mut(kind);
        let before = list.len();
        list.retain(|d| d.benchmark != benchmark);
        before - list.len()
    }

    /// The decision of a kind that holds for a benchmark and metric on the day `today`.
    pub fn find(&self, kind: Kind, benchmark: &str, metric: &str, today: &str) -> Option<&Decision> {
        let list = match kind {
            Kind::Acknowledge => &self.acknowledge,
            Kind::Ignore => &self.ignore,
            Kind::Archive => &self.archive,
        };
        list.iter().find(|d| {
            matches(&d.benchmark, benchmark)
                && d.metric.as_deref().is_none_or(|m| m == metric)
                && d.until.as_deref().is_none_or(|until| today <= until)
        })
    }

    fn list_mut(&mut self, kind: Kind) -> &mut Vec<Decision> {
        match kind {
            Kind::Acknowledge => &mut self.acknowledge,
            Kind::Ignore => &mut self.ignore,
            Kind::Archive => &mut self.archive,
        }
    }
}

impl Decision {
    fn check(&self) -> Result<(), DecisionError> {
        let invalid = |problem| Err(DecisionError::Invalid { benchmark: self.benchmark.clone(), problem });
        if self.benchmark.is_empty() {
            return invalid("the benchmark is empty");
        }
        if self.author.trim().is_empty() {
            return invalid("the author is empty");
        }
        if self.reason.trim().is_empty() {
            return invalid("the reason is empty");
        }
        if self.until.as_deref().is_some_and(|day| crate::date::days_since_epoch(day).is_none()) {
            return invalid("`until` is not a date like 2027-03-31");
        }
        if self.at_worst.is_some_and(|e| !(-1.0..=0.0).contains(&e)) {
            return invalid("`at_worst` is an efficiency between -1 and 0");
        }
        Ok(())
    }
}

/// Whether `pattern`, in which `*` stands for any text, describes all of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[acknowledge]]
        benchmark = "test_valgrind[valgrind-3.25.1, *]"
        metric = "wall"
        author = "ada"
        reason = "checks its input now"
        until = "2027-03-31"

        [[archive]]
        benchmark = "old_*"
        author = "ada"
        reason = "gone"
    "#;

    #[test]
    fn a_decision_holds_for_its_pattern_metric_and_time() {
        let decisions = Decisions::parse(FILE).unwrap();
        let id = "test_valgrind[valgrind-3.25.1, echo Hello, World!, inline]";
        let find = |id, metric, day| decisions.find(Kind::Acknowledge, id, metric, day).is_some();
        assert!(find(id, "wall", "2027-03-31"));
        assert!(!find(id, "wall", "2027-04-01"), "expired");
        assert!(!find(id, "Ir", "2027-01-01"), "another metric");
        assert!(!find("test_valgrind[valgrind-3.26.0, echo]", "wall", "2027-01-01"), "another benchmark");
        assert!(decisions.find(Kind::Archive, "old_one", "Ir", "2030-01-01").is_some());
    }

    #[test]
    fn writing_and_reading_give_the_same_decisions() {
        let mut decisions = Decisions::parse(FILE).unwrap();
        let ignore = Decision {
            benchmark: "noisy".into(),
            metric: None,
            author: "bo".into(),
            reason: "under repair \"now\"".into(),
            until: None,
            at_worst: None,
        };
        decisions.add(Kind::Ignore, ignore.clone()).unwrap();
        decisions.add(Kind::Ignore, Decision { reason: "later".into(), ..ignore }).unwrap();
        assert_eq!(decisions.ignore.len(), 1, "the later decision replaces the earlier");
        assert_eq!(Decisions::parse(&decisions.to_toml()).unwrap(), decisions);
        assert_eq!(decisions.remove(Kind::Ignore, "noisy"), 1);
    }

    #[test]
    fn each_defect_is_named() {
        let parse = |body: &str| Decisions::parse(body).unwrap_err().to_string();
        assert!(parse("[[ignore]]\nbenchmark='x'\nauthor=''\nreason='r'").contains("author is empty"));
        assert!(
            parse("[[ignore]]\nbenchmark='x'\nauthor='a'\nreason='r'\nuntil='soon'").contains("not a date")
        );
        assert!(parse("[[ignore]]\nbenchmark='x'\nauthor='a'").contains("reason"));
        assert!(parse("[[forgive]]\nbenchmark='x'").contains("forgive"));
        assert!(
            parse("[[acknowledge]]\nbenchmark='x'\nauthor='a'\nreason='r'\nat_worst=2.0")
                .contains("at_worst")
        );
    }

    #[test]
    fn patterns_match_all_of_a_name() {
        assert!(matches("a*c", "abbc") && matches("*", "") && matches("abc", "abc") && matches("*b*", "abc"));
        assert!(!matches("a*c", "abcd") && !matches("abc", "abcd") && !matches("a*b*c", "acb"));
        assert!(matches("*[x]", "y[x]"), "brackets are literal");
        assert!(!matches("ab*ba", "aba"), "parts do not overlap");
    }
}
