//! Events: their definitions and the formulas of derived ones.

use std::fmt;

/// An `event:` line: a name, perhaps a formula, perhaps a long name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDefinition {
    /// Short name, as in `events:`.
    pub name: String,
    /// How it is computed from other events, if derived.
    pub formula: Option<Formula>,
    /// Name for people.
    pub long_name: Option<String>,
}

/// A sum of events with factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formula(pub Vec<Term>);

/// One summand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// What the event is multiplied by.
    pub factor: i64,
    /// The event.
    pub event: String,
}

impl EventDefinition {
    /// Reads `NAME [= FORMULA] [: LONG NAME]`.
    pub fn parse(text: &str) -> Result<EventDefinition, String> {
        let (left, long_name) = match text.split_once(':') {
            Some((left, long)) => (left, Some(long.trim().to_string())),
            None => (text, None),
        };
        let (name, formula) = match left.split_once('=') {
            Some((name, formula)) => (name, Some(Formula::parse(formula)?)),
            None => (left, None),
        };
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(format!("`{name}` is not an event name"));
        }
        Ok(EventDefinition { name: name.to_string(), formula, long_name })
    }
}

impl Formula {
    /// Reads a sum such as `Ir + 10 Bm - 2*L1m`.
    pub fn parse(text: &str) -> Result<Formula, String> {
        let mut terms = Vec::new();
        let mut sign = 1;
        let mut factor: Option<i64> = None;
        let mut complete = false;
        let mut start = true;
        let spaced = text.replace('+', " + ").replace('*', " * ");
        for word in spaced.split_whitespace() {
            let first = std::mem::replace(&mut start, false);
            if word == "+" || word == "-" {
                if !complete && !first {
                    return Err(format!("`{word}` where an event is expected in formula `{}`", text.trim()));
                }
                sign = if word == "-" { -1 } else { 1 };
                complete = false;
            } else if word == "*" {
                if factor.is_none() {
                    return Err(format!("`*` without a factor in formula `{}`", text.trim()));
                }
            } else if let Ok(number) = word.parse::<i64>() {
                if complete || factor.is_some() {
                    return Err(format!("unexpected number {number} in formula `{}`", text.trim()));
                }
                factor = Some(number);
            } else {
                // A factor may be glued to its event, as in `10Bm`.
                let digits = word.bytes().take_while(u8::is_ascii_digit).count();
                let (glued, event) = word.split_at(digits);
                if complete || (digits > 0 && factor.is_some()) {
                    return Err(format!("`{word}` where `+` is expected in formula `{}`", text.trim()));
                }
                if digits > 0 {
                    factor = Some(glued.parse().map_err(|_| format!("factor {glued} is too large"))?);
                }
                terms.push(Term { factor: sign * factor.take().unwrap_or(1), event: event.to_string() });
                sign = 1;
                complete = true;
            }
        }
        if !complete {
            return Err(format!("formula `{}` ends without an event", text.trim()));
        }
        Ok(Formula(terms))
    }

    /// The value, given the value of each event; `None` when an event is unknown.
    pub fn value(&self, cost: impl Fn(&str) -> Option<i64>) -> Option<i64> {
        self.0
            .iter()
            .try_fold(0i64, |sum, term| Some(sum.wrapping_add(term.factor.wrapping_mul(cost(&term.event)?))))
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.0.iter().enumerate() {
            let magnitude = term.factor.unsigned_abs();
            match (i, term.factor < 0) {
                (0, false) => {}
                (0, true) => write!(f, "- ")?,
                (_, false) => write!(f, " + ")?,
                (_, true) => write!(f, " - ")?,
            }
            if magnitude != 1 {
                write!(f, "{magnitude} ")?;
            }
            write!(f, "{}", term.event)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_a_sum_with_factors() {
        let parsed = EventDefinition::parse("Cy = Ir + 10 Bm + 5*L1m - 2Ge : Cycles").unwrap();
        assert_eq!(parsed.long_name.as_deref(), Some("Cycles"));
        let formula = parsed.formula.unwrap();
        assert_eq!(formula.to_string(), "Ir + 10 Bm + 5 L1m - 2 Ge");
        assert_eq!(formula.value(|_| Some(1)), Some(14));
        assert_eq!(formula.value(|e| (e == "Ir").then_some(1)), None);
    }

    #[test]
    fn malformed_formulas_are_refused() {
        for text in ["", "Ir +", "+ + Ir", "10", "Ir Dr", "3 4 Ir", "* Ir"] {
            assert!(Formula::parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
