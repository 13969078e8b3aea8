//! Root-cause rules: conditions over facts, read from TOML.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Numbers known about a benchmark, by name. An unknown one is absent.
pub type Facts = BTreeMap<String, f64>;

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Its conditions hold, little else speaks for it.
    Possible,
    /// At least half of what would support it holds.
    Likely,
    /// All of it holds.
    Strong,
}

/// The rules in use.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Root causes.
    #[serde(rename = "cause")]
    causes: Vec<CauseRule>,
    /// What helps.
    #[serde(rename = "mitigation")]
    mitigations: Vec<Mitigation>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CauseRule {
    id: String,
    title: String,
    explanation: String,
    when: Vec<Condition>,
    #[serde(default)]
    support: Vec<Condition>,
    evidence: Vec<String>,
    mitigations: Vec<String>,
}

/// Something that helps, with the switch that applies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mitigation {
    /// Its key.
    pub id: String,
    /// What to do.
    pub title: String,
    /// High, Medium or Low.
    pub impact: String,
    /// Why.
    pub impact_why: String,
    /// High, Medium or Low.
    pub effort: String,
    /// The switch or setting.
    pub switch: String,
}

/// A root cause that applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Its key.
    pub id: String,
    /// Its name.
    pub title: String,
    /// How it comes about.
    pub explanation: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// The numbers that speak for it.
    pub evidence: Vec<String>,
    /// Keys of what helps.
    pub mitigations: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Condition {
    fact: String,
    comparison: Comparison,
    value: f64,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [fact, comparison, value] = words.as_slice() else {
            return Err(format!("`{text}` is not a condition like `spread > 2`"));
        };
        let comparison = match *comparison {
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            "=" => Comparison::Equal,
            ">=" => Comparison::GreaterOrEqual,
            ">" => Comparison::Greater,
            other => return Err(format!("`{other}` in `{text}` is none of < <= = >= >")),
        };
        let value = value.parse().map_err(|_| format!("`{value}` in `{text}` is not a number"))?;
        Ok(Condition { fact: fact.to_string(), comparison, value })
    }
}

impl Condition {
    /// Whether it holds; an unknown fact makes it false.
    fn holds(&self, facts: &Facts) -> bool {
        facts.get(&self.fact).is_some_and(|fact| match self.comparison {
            Comparison::Less => fact < &self.value,
            Comparison::LessOrEqual => fact <= &self.value,
            Comparison::Equal => fact == &self.value,
            Comparison::GreaterOrEqual => fact >= &self.value,
            Comparison::Greater => fact > &self.value,
        })
    }
}

impl Rules {
    /// The rules that come with the program.
    pub fn built_in() -> Rules {
        Rules::parse(include_str!("causes.toml")).expect("the built-in rules are tested")
    }

    /// Reads rules; the error is one line.
    pub fn parse(text: &str) -> Result<Rules, String> {
        let rules: Rules = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(0, |s| text[..s.start].matches('\n').count() + 1);
            format!("line {line}: {}", e.message().lines().collect::<Vec<_>>().join(" "))
        })?;
        for cause in &rules.causes {
            if cause.when.is_empty() {
                return Err(format!("cause `{}` has no condition", cause.id));
            }
            if let Some(id) =
                cause.mitigations.iter().find(|id| !rules.mitigations.iter().any(|m| m.id == **id))
            {
                return Err(format!("cause `{}` names an unknown mitigation `{id}`", cause.id));
            }
        }
        Ok(rules)
    }

    /// The causes that apply, the surest first.
    pub fn apply(&self, facts: &Facts) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self
            .causes
            .iter()
            .filter(|rule| rule.when.iter().all(|c| c.holds(facts)))
            .map(|rule| {
                let held = rule.support.iter().filter(|c| c.holds(facts)).count();
                let confidence = if held == rule.support.len() {
                    Confidence::Strong
                } else if 2 * held >= rule.support.len() {
                    Confidence::Likely
                } else {
                    Confidence::Possible
                };
                Cause {
                    id: rule.id.clone(),
                    title: rule.title.clone(),
                    explanation: rule.explanation.clone(),
                    confidence,
                    evidence: rule.evidence.iter().filter_map(|line| fill(line, facts)).collect(),
                    mitigations: rule.mitigations.clone(),
                }
            })
            .collect();
        // A stable sort keeps the file's order among equals.
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.confidence));
        causes
    }

    /// What helps against these causes, largest impact and least effort first.
    pub fn mitigations(&self, causes: &[Cause]) -> Vec<Mitigation> {
        let level = |word: &str| match word {
            "High" => 0,
            "Medium" => 1,
            _ => 2,
        };
        let mut found: Vec<Mitigation> = self
            .mitigations
            .iter()
            .filter(|m| causes.iter().any(|c| c.mitigations.contains(&m.id)))
            .cloned()
            .collect();
        found.sort_by_key(|m| (level(&m.impact), 2 - level(&m.effort)));
        found
    }
}

/// A line with its `{fact}`s filled in, or none if one is unknown.
fn fill(line: &str, facts: &Facts) -> Option<String> {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}')?;
        out.push_str(before);
        out.push_str(&number(*facts.get(name)?));
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// Three significant digits, whole numbers as they are.
fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value}");
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(list: &[(&str, f64)]) -> Facts {
        list.iter().map(|&(name, value)| (name.to_string(), value)).collect()
    }

    fn found(list: &[(&str, f64)]) -> Vec<(String, Confidence)> {
        Rules::built_in().apply(&facts(list)).into_iter().map(|c| (c.id, c.confidence)).collect()
    }

    /// A synthetic fixture for every rule: facts under which it applies strongly, and a fact that,
    /// changed, makes it go away.
    #[test]
    fn every_rule_applies_to_its_fixture_and_not_to_its_opposite() {
        type Fixture = (&'static str, &'static [(&'static str, f64)], (&'static str, f64));
        let fixtures: &[Fixture] = &[
            (
                "profiler-on-profiler",
                &[("profiled", 1.0), ("spread", 2.0), ("calls_equal", 1.0)],
                ("profiled", 0.0),
            ),
            ("single-shot", &[("runs", 1.0), ("warm_up", 0.0), ("spread", 2.0)], ("runs", 10.0)),
            (
                "simulation-amplifies",
                &[("cache_simulation", 1.0), ("spread", 3.0), ("amplification", 2.0)],
                ("cache_simulation", 0.0),
            ),
            ("too-short", &[("typical_seconds", 0.7), ("spread", 3.0)], ("typical_seconds", 30.0)),
            (
                "transient-interference",
                &[("outlying_campaigns", 1.0), ("spread", 4.0), ("work_same", 1.0)],
                ("outlying_campaigns", 0.0),
            ),
            ("spikes", &[("spikes", 2.0), ("runs", 10.0)], ("spikes", 0.0)),
            ("steal", &[("steal_share_percent", 8.0)], ("steal_share_percent", 0.2)),
            ("drift", &[("drift_p", 0.001), ("drift_percent", 5.0)], ("drift_p", 0.4)),
            ("two-modes", &[("dip_p", 0.001), ("mode_separation", 8.0), ("work_same", 1.0)], ("dip_p", 0.6)),
            (
                "layout",
                &[
                    ("work_same", 1.0),
                    ("time_moved", 1.0),
                    ("spread", 1.1),
                    ("runs", 10.0),
                    ("within_percent", 0.5),
                    ("identity_same", 0.0),
                ],
                ("work_same", 0.0),
            ),
            ("host-difference", &[("machines", 2.0), ("hosts_disagree", 1.0)], ("machines", 1.0)),
            ("first-run", &[("first_run_ratio", 2.0), ("warm_up", 0.0)], ("first_run_ratio", 1.0)),
            ("autocorrelation", &[("autocorrelation", 0.8), ("samples", 40.0)], ("autocorrelation", 0.0)),
        ];
        assert_eq!(fixtures.len(), Rules::built_in().causes.len(), "a rule has no fixture");
        for (id, list, opposite) in fixtures {
            let applied = found(list);
            assert!(applied.contains(&(id.to_string(), Confidence::Strong)), "{id}: {applied:?}");
            let mut changed = facts(list);
            changed.insert(opposite.0.to_string(), opposite.1);
            assert!(
                !Rules::built_in().apply(&changed).iter().any(|c| c.id == *id),
                "{id} despite {opposite:?}"
            );
        }
    }

    #[test]
    fn unknown_facts_support_nothing_and_print_nothing() {
        let causes = Rules::built_in().apply(&facts(&[("runs", 1.0)]));
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].confidence, Confidence::Possible);
        assert_eq!(causes[0].evidence, ["1 timed runs a campaign"]);
    }

    #[test]
    fn defects_of_a_rule_file_are_named() {
        let head =
            "[[mitigation]]\nid='m'\ntitle='t'\nimpact='Low'\nimpact_why='w'\neffort='Low'\nswitch='s'\n";
        let cause = |when: &str, mitigation: &str| {
            format!(
                "{head}[[cause]]\nid='c'\ntitle='t'\nexplanation='e'\nwhen={when}\nevidence=[]\nmitigations=['{mitigation}']"
            )
        };
        assert!(Rules::parse(&cause("['x > 1']", "m")).is_ok());
        assert!(Rules::parse(&cause("['x is 1']", "m")).unwrap_err().contains("none of < <="));
        assert!(Rules::parse(&cause("['x']", "m")).unwrap_err().contains("not a condition"));
        assert!(Rules::parse(&cause("[]", "m")).unwrap_err().contains("no condition"));
        assert!(
            Rules::parse(&cause("['x > 1']", "other")).unwrap_err().contains("unknown mitigation `other`")
        );
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            (number(97.6543), number(0.012345), number(5.0)),
            ("97.7".into(), "0.0123".into(), "5".into())
        );
    }
}
