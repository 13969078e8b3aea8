//! Instruction counts: running the counting tool and reading its totals.
//!
//! Any tool that writes Callgrind's format will do; only the header and the totals are read here.

use std::path::Path;

/// Event names and totals of a Callgrind file.
///
/// Takes `totals:` (at the end) where present, else the sum of the `summary:` lines.
pub fn totals(text: &str) -> Result<Vec<(String, f64)>, String> {
    let mut events: Vec<&str> = Vec::new();
    let mut summary: Vec<f64> = Vec::new();
    let mut total: Option<Vec<f64>> = None;
    let numbers = |line: &str| -> Result<Vec<f64>, String> {
        line.split_whitespace()
            .map(|n| n.parse::<f64>().map_err(|_| format!("`{n}` is not a count")))
            .collect()
    };
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("events:") {
            events = rest.split_whitespace().collect();
        } else if let Some(rest) = line.strip_prefix("summary:") {
            let part = numbers(rest)?;
            summary.resize(summary.len().max(part.len()), 0.0);
            summary.iter_mut().zip(part).for_each(|(s, p)| *s += p);
        } else if let Some(rest) = line.strip_prefix("totals:") {
            let part = numbers(rest)?;
            match &mut total {
                None => total = Some(part),
                Some(t) => t.iter_mut().zip(part).for_each(|(t, p)| *t += p),
            }
        }
    }
    if events.is_empty() {
        return Err("no `events:` line".to_string());
    }
    let values = total.unwrap_or(summary);
    if values.is_empty() {
        return Err("neither `totals:` nor `summary:`".to_string());
    }
    if values[0] == 0.0 {
        return Err("the total is 0: nothing was counted".to_string());
    }
    // Trailing zeros may be left out of a line of costs.
    let padded = values.into_iter().chain(std::iter::repeat(0.0));
    Ok(events.into_iter().map(String::from).zip(padded).collect())
}

/// The totals of the file a counting run wrote.
pub fn read(path: &Path) -> Result<Vec<(String, f64)>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    totals(&String::from_utf8_lossy(&bytes)).map_err(|problem| format!("{}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_win_over_summaries_and_missing_zeros_are_filled() {
        let text = "version: 1\nevents: Ir Dr Dw\nsummary: 5 1 1\n\nfn=main\n1 5 1 1\ntotals: 107218 20\n";
        let expected = [("Ir", 107_218.0), ("Dr", 20.0), ("Dw", 0.0)].map(|(n, v)| (n.to_string(), v));
        assert_eq!(totals(text).unwrap(), expected);
    }

    #[test]
    fn parts_add_up() {
        assert_eq!(totals("events: Ir\nsummary: 5\nsummary: 7\n").unwrap()[0].1, 12.0);
        assert_eq!(totals("events: Ir\ntotals: 5\nevents: Ir\ntotals: 7\n").unwrap()[0].1, 12.0);
    }

    #[test]
    fn a_file_that_counted_nothing_is_an_error() {
        assert_eq!(totals("").unwrap_err(), "no `events:` line");
        assert_eq!(totals("events: Ir\n").unwrap_err(), "neither `totals:` nor `summary:`");
        assert!(totals("events: Ir\ntotals: 0\n").unwrap_err().contains("nothing was counted"));
        assert!(totals("events: Ir\ntotals: many\n").unwrap_err().contains("`many`"));
    }
}
