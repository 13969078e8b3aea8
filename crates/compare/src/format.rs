//! Numbers as people read them: times, sizes, counts, percentages.

use crate::model::Unit;

/// `value` with `decimals` digits, thousands grouped by commas, and no trailing `.0`.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.*}", decimals, value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    if value < 0.0 && out.chars().any(|c| c.is_ascii_digit() && c != '0') {
        out.insert(0, '-');
    }
    out
}

/// A scale of a unit: how large one step is, its suffix, and digits after the point.
type Scale = (f64, &'static str, usize);

const TIME: [Scale; 4] = [(1.0, " s", 1), (1e-3, " ms", 1), (1e-6, " µs", 1), (1e-9, " ns", 1)];
const MEMORY: [Scale; 4] =
    [(1_073_741_824.0, " GiB", 2), (1_048_576.0, " MiB", 1), (1024.0, " KiB", 1), (1.0, " B", 0)];
const COUNT: [Scale; 1] = [(1.0, "", 0)];

/// The scale in which the smallest of `values` is at least 1, so that a row reads in one unit.
fn scale(values: &[f64], unit: Unit) -> Scale {
    let scales: &[Scale] = match unit {
        Unit::Seconds => &TIME,
        Unit::Bytes => &MEMORY,
        Unit::Count => &COUNT,
    };
    let smallest = values.iter().map(|v| v.abs()).filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    *scales
        .iter()
        .find(|s| smallest >= s.0)
        .unwrap_or(&scales[if smallest.is_finite() { scales.len() - 1 } else { 0 }])
}

/// The values of one row, all in the same unit: that of the smallest.
pub fn together(values: &[f64], unit: Unit) -> Vec<String> {
    let (step, suffix, decimals) = scale(values, unit);
    values.iter().map(|v| format!("{}{suffix}", grouped(v / step, decimals))).collect()
}

/// One value in its natural unit.
pub fn quantity(value: f64, unit: Unit) -> String {
    together(&[value], unit).remove(0)
}

/// A relative change with its sign and two decimals, as `-98.59%` for −0.9859.
pub fn signed_percent(change: f64) -> String {
    let text = format!("{:+}", Fixed(change * 100.0, 2));
    format!("{text}%")
}

/// A share without sign, as `73.05%`.
pub fn percent(share: f64) -> String {
    format!("{:.2}%", (share * 100.0).abs())
}

/// A number formatted with a fixed number of digits and grouping, honouring `+`.
struct Fixed(f64, usize);

impl std::fmt::Display for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0.is_sign_negative() && format!("{:.*}", self.1, self.0.abs()).parse() != Ok(0.0) {
            "-"
        } else if f.sign_plus() {
            "+"
        } else {
            ""
        };
        write!(f, "{sign}{:.*}", self.1, self.0.abs())
    }
}

/// A p-value, without pretending to digits that mean nothing.
pub fn p_value(p: f64) -> String {
    match p {
        _ if p < 0.0001 => "<0.0001".to_string(),
        _ if p < 0.01 => format!("{p:.4}"),
        _ => format!("{p:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_in_the_unit_of_its_smaller_value() {
        assert_eq!(together(&[0.7336, 51.9376], Unit::Seconds), ["733.6 ms", "51,937.6 ms"]);
        assert_eq!(together(&[8.7257, 6.98], Unit::Seconds), ["8.7 s", "7 s"]);
        assert_eq!(together(&[0.0, 0.0], Unit::Seconds), ["0 s", "0 s"]);
        assert_eq!(quantity(2_500_000.0, Unit::Count), "2,500,000");
        assert_eq!(quantity(3e-10, Unit::Seconds), "0.3 ns");
        assert_eq!(quantity(5_242_880.0, Unit::Bytes), "5 MiB");
    }

    #[test]
    fn changes_carry_their_sign() {
        assert_eq!(signed_percent(-0.985875), "-98.59%");
        assert_eq!(signed_percent(0.2501), "+25.01%");
        assert_eq!(signed_percent(-0.000001), "+0.00%");
        assert_eq!(percent(-0.7305), "73.05%");
    }

    #[test]
    fn grouping_leaves_small_and_negative_numbers_readable() {
        assert_eq!(grouped(999.0, 0), "999");
        assert_eq!(grouped(-1234567.25, 1), "-1,234,567.2");
        assert_eq!(grouped(-0.01, 1), "0");
    }
}
