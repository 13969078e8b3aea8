//! The lines printed when the guest has ended: totals, and miss rates when caches or branches were
//! simulated.

use crate::events::Events;

/// The lines, without the prefix of log lines. The first is empty.
pub fn lines(events: &Events, totals: &[u64]) -> Vec<String> {
    let value = |name: &str| events.column(name).map(|c| totals[c]);
    let collected: Vec<String> = totals.iter().map(u64::to_string).collect();
    let mut out = vec![
        String::new(),
        format!("Events    : {}", events.line()),
        format!("Collected : {}", collected.join(" ")),
        String::new(),
    ];
    let width = |names: &[&str]| names.iter().filter_map(|n| value(n)).map(|v| grouped(v).len()).max();
    let columns = Columns {
        all: width(&["Ir"]).unwrap_or(0),
        first: width(&["Dr", "Bc"]).unwrap_or(0),
        second: width(&["Dw", "Bi"]).unwrap_or(0),
    };
    let ir = totals[0];
    out.push(columns.one("I   refs:", ir));
    if let (Some(reads), Some(writes)) = (value("Dr"), value("Dw")) {
        let (i1, ll) = (value("I1mr").unwrap_or(0), value("ILmr").unwrap_or(0));
        out.push(columns.one("I1  misses:", i1));
        out.push(columns.one("LLi misses:", ll));
        out.push(columns.rate("I1  miss rate:", i1, ir));
        out.push(columns.rate("LLi miss rate:", ll, ir));
        out.push(String::new());
        let d1 = (value("D1mr").unwrap_or(0), value("D1mw").unwrap_or(0));
        let lld = (value("DLmr").unwrap_or(0), value("DLmw").unwrap_or(0));
        out.push(columns.two("D   refs:", (reads, writes), DATA));
        out.push(columns.two("D1  misses:", d1, DATA));
        out.push(columns.two("LLd misses:", lld, DATA));
        out.push(columns.rates("D1  miss rate:", d1, (reads, writes), DATA));
        out.push(columns.rates("LLd miss rate:", lld, (reads, writes), DATA));
        out.push(String::new());
        let llm = (lld.0 + ll, lld.1);
        out.push(columns.two("LL refs:", (d1.0 + i1, d1.1), DATA));
        out.push(columns.two("LL misses:", llm, DATA));
        out.push(columns.rates("LL miss rate:", llm, (ir + reads, writes), DATA));
    }
    if let (Some(conditional), Some(indirect)) = (value("Bc"), value("Bi")) {
        let missed = (value("Bcm").unwrap_or(0), value("Bim").unwrap_or(0));
        out.push(String::new());
        out.push(columns.two("Branches:", (conditional, indirect), BRANCHES));
        out.push(columns.two("Mispredicts:", missed, BRANCHES));
        out.push(columns.rates("Mispred rate:", missed, (conditional, indirect), BRANCHES));
    }
    out
}

/// Names of the two numbers in parentheses.
const DATA: [&str; 2] = ["rd", "wr"];
const BRANCHES: [&str; 2] = ["cond", "ind"];

/// Widths of the three number columns.
struct Columns {
    all: usize,
    first: usize,
    second: usize,
}

impl Columns {
    fn one(&self, label: &str, n: u64) -> String {
        format!("{label:<15}{:>w$}", grouped(n), w = self.all)
    }

    fn rate(&self, label: &str, n: u64, of: u64) -> String {
        format!("{label:<15}{:>w$.2}%", percent(n, of), w = self.all)
    }

    fn two(&self, label: &str, (a, b): (u64, u64), names: [&str; 2]) -> String {
        format!(
            "{}  ({:>first$} {} + {:>second$} {})",
            self.one(label, a + b),
            grouped(a),
            names[0],
            grouped(b),
            names[1],
            first = self.first,
            second = self.second,
        )
    }

    fn rates(&self, label: &str, (a, b): (u64, u64), of: (u64, u64), names: [&str; 2]) -> String {
        let blank = |name: &str| " ".repeat(name.len());
        format!(
            "{label:<15}{:>all$.1}% ({:>first$.1}%{} + {:>second$.1}%{})",
            percent(a + b, of.0 + of.1),
            percent(a, of.0),
            blank(names[0]),
            percent(b, of.1),
            blank(names[1]),
            all = self.all,
            first = self.first,
            second = self.second,
        )
    }
}

fn percent(n: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { n as f64 * 100.0 / of as f64 }
}

/// A number with commas between groups of three digits.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallygraph_wire::config::{Config, Number};

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn without_simulation_there_is_one_number() {
        let events = Events::of(&Config::new());
        let expected = ["", "Events    : Ir", "Collected : 128180", "", "I   refs:      128,180"];
        assert_eq!(lines(&events, &[128180]), expected);
    }

    #[test]
    fn tables_are_laid_out_as_callgrinds() {
        let mut config = Config::new();
        config.set(Number::CacheSim, 1);
        config.set(Number::BranchSim, 1);
        let events = Events::of(&config);
        let totals = [128540, 28183, 12469, 1278, 989, 634, 1252, 768, 603, 25809, 3206, 303, 157];
        // As Valgrind 3.19 printed them.
        let expected = "
Events    : Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw Bc Bcm Bi Bim
Collected : 128540 28183 12469 1278 989 634 1252 768 603 25809 3206 303 157

I   refs:      128,540
I1  misses:      1,278
LLi misses:      1,252
I1  miss rate:    0.99%
LLi miss rate:    0.97%

D   refs:       40,652  (28,183 rd + 12,469 wr)
D1  misses:      1,623  (   989 rd +    634 wr)
LLd misses:      1,371  (   768 rd +    603 wr)
D1  miss rate:     4.0% (   3.5%   +    5.1%  )
LLd miss rate:     3.4% (   2.7%   +    4.8%  )

LL refs:         2,901  ( 2,267 rd +    634 wr)
LL misses:       2,623  ( 2,020 rd +    603 wr)
LL miss rate:      1.6% (   1.3%   +    4.8%  )

Branches:       26,112  (25,809 cond +    303 ind)
Mispredicts:     3,363  ( 3,206 cond +    157 ind)
Mispred rate:     12.9% (  12.4%     +   51.8%   )";
        assert_eq!(lines(&events, &totals).join("\n"), expected);
        let mut config = Config::new();
        config.set(Number::BranchSim, 1);
        let all = lines(&Events::of(&config), &[128540, 25809, 3206, 303, 157]);
        assert_eq!(all[all.len() - 3], "Branches:       26,112  (25,809 cond + 303 ind)");
        assert_eq!(all[all.len() - 1], "Mispred rate:     12.9% (  12.4%     + 51.8%   )");
    }
}
