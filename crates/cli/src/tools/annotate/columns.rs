//! Columns of costs and the names after them.

use tallygraph_profile::diff::grouped;

/// Bold, for headings and the function in the middle.
pub const STRONG: &str = "\x1b[1m";
/// Faint, for object names and context.
pub const FAINT: &str = "\x1b[2m";
/// Red, for what costs most.
pub const HOT: &str = "\x1b[31m";
/// Back to normal.
pub const PLAIN: &str = "\x1b[0m";

/// `1,234 (12.34%)`, or `.` for nothing.
pub fn cell(cost: i64, total: i64, percentages: bool) -> String {
    if cost == 0 {
        return format!(".{}", if percentages { " ".repeat(9) } else { String::new() });
    }
    let number = grouped(cost.into());
    match percentages {
        true => format!("{number} ({}%)", percent(cost, total)),
        false => number,
    }
}

/// A percentage in five characters.
pub fn percent(cost: i64, total: i64) -> String {
    if total == 0 {
        return "  n/a".to_string();
    }
    let text = format!("{:5.2}", cost as f64 * 100.0 / total as f64);
    text.chars().take(5).collect()
}

/// Rows whose cost columns are aligned.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

enum Row {
    Cells { cells: Vec<String>, hot: bool, text: String },
    Blank,
    Line(String),
}

impl Table {
    /// Appends a row of costs and a text.
    pub fn row(&mut self, cells: Vec<String>, hot: bool, text: String) {
        self.rows.push(Row::Cells { cells, hot, text });
    }

    /// Appends an empty row.
    pub fn blank(&mut self) {
        self.rows.push(Row::Blank);
    }

    /// Appends a row of text alone.
    pub fn line(&mut self, text: String) {
        self.rows.push(Row::Line(text));
    }

    /// Appends the table to `out`, under the names of its columns.
    pub fn finish(self, out: &mut String, names: &[String], heading: &str, width: Option<usize>) {
        let mut widths: Vec<usize> = names.iter().map(String::len).collect();
        for row in &self.rows {
            if let Row::Cells { cells, .. } = row {
                for (width, cell) in widths.iter_mut().zip(cells) {
                    *width = (*width).max(cell.len());
                }
            }
        }
        let before: usize = widths.iter().map(|w| w + 1).sum::<usize>() + 1;
        for (name, width) in names.iter().zip(&widths) {
            out.push_str(&format!("{STRONG}{name:<width$}{PLAIN} "));
        }
        out.push_str(&format!(" {STRONG}{heading}{PLAIN}\n"));
        out.push_str(&rule());
        for row in self.rows {
            match row {
                Row::Blank => out.push('\n'),
                Row::Line(text) => {
                    out.push_str(&text);
                    out.push('\n');
                }
                Row::Cells { cells, hot, text } => {
                    for (cell, width) in cells.iter().zip(&widths) {
                        let (on, off) = if hot { (HOT, PLAIN) } else { ("", "") };
                        out.push_str(&format!("{on}{cell:>width$}{off} "));
                    }
                    let room = width.map(|w| w.saturating_sub(before).max(20));
                    out.push(' ');
                    out.push_str(&fit(&text, room));
                    while out.ends_with(' ') {
                        out.pop();
                    }
                    out.push('\n');
                }
            }
        }
    }
}

/// Shortens a text to a number of visible characters; colours do not count.
pub fn fit(text: &str, room: Option<usize>) -> String {
    let Some(room) = room else { return text.to_string() };
    let mut seen = 0;
    let mut escape = false;
    let mut short = String::new();
    let mut cut = false;
    for c in text.chars() {
        escape |= c == '\x1b';
        if !escape {
            seen += 1;
            if seen == room && text.chars().count() > short.chars().count() + 1 && !cut {
                cut = visible(text) > room;
                if cut {
                    short.push('…');
                }
            }
        }
        if escape || !cut {
            short.push(c);
        }
        if escape && c == 'm' {
            escape = false;
        }
    }
    short
}

/// Number of visible characters.
fn visible(text: &str) -> usize {
    let mut escape = false;
    let mut count = 0;
    for c in text.chars() {
        escape |= c == '\x1b';
        count += usize::from(!escape);
        if escape && c == 'm' {
            escape = false;
        }
    }
    count
}

/// A line across.
pub fn rule() -> String {
    format!("{FAINT}{}{PLAIN}\n", "-".repeat(80))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_spelled_as_callgrind_annotate_does() {
        assert_eq!(cell(407, 586, true), "407 (69.45%)");
        assert_eq!(cell(586, 586, true), "586 (100.0%)");
        assert_eq!(cell(1_234_567, 0, false), "1,234,567");
        assert_eq!(cell(8, 586, true), "8 ( 1.37%)");
        assert_eq!(cell(1, 0, true), "1 (  n/a%)");
    }

    #[test]
    fn long_names_end_in_an_ellipsis_and_keep_their_colours() {
        assert_eq!(fit("abcdef", Some(6)), "abcdef");
        assert_eq!(fit("abcdef", Some(4)), "abc…");
        assert_eq!(fit("ab\x1b[2mcdef\x1b[0m", Some(4)), "ab\x1b[2mc…\x1b[0m");
        assert_eq!(fit("abcdef", None), "abcdef");
    }
}
