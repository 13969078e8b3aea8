//! Real programs, counted by Valgrind and by tallygraph: equal to the instruction outside the loader.

use std::path::PathBuf;
use tallygraph_testkit::against::{Demand, guest, installed};
use tallygraph_testkit::tools::made_once;

/// Text that compresses neither too well nor too badly, the same each time.
fn text() -> PathBuf {
    made_once("text", |path| {
        let mut state = 1u64;
        let mut text = String::new();
        while text.len() < 300_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let word = ["counter", "edge", "call", "graph", "fragment", "cache", "trace", "guest"];
            text.push_str(word[(state >> 60) as usize % 8]);
            text.push(if state >> 59 & 1 == 1 { ' ' } else { '\n' });
            if state >> 40 & 7 == 0 {
                text.push_str(&(state >> 33).to_string());
            }
        }
        std::fs::write(path, text).expect("a file for the text");
    })
}

/// Recursion, exceptions, dictionaries, strings and a class, in Python.
const PYTHON: &str = "
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
class Odd(Exception): pass
def odd(n):
    if n % 2: raise Odd(str(n))
    return n
total = 0
for i in range(300):
    try: total += odd(i)
    except Odd as e: total -= len(e.args[0])
d = {str(i): [i] * (i % 5) for i in range(500)}
print(fib(14), total, sum(len(v) for v in d.values()), '-'.join(sorted(d))[:40])
";

#[test]
fn r#true() {
    installed("true", Demand::Equal, &[], &["/bin/true"]);
}

#[test]
fn echo() {
    installed("echo", Demand::Equal, &[], &["/bin/echo", "Hello,", "World!"]);
}

#[test]
fn ls() {
    installed("ls", Demand::Equal, &[], &["/bin/ls", "-l", "/usr/lib/x86_64-linux-gnu/gconv"]);
}

#[test]
fn gzip() {
    installed("gzip", Demand::Equal, &[], &["/bin/gzip", "-nc", text().to_str().expect("a plain path")]);
}

#[test]
fn xz() {
    installed(
        "xz",
        Demand::Equal,
        &[],
        &["/usr/bin/xz", "-0", "-T1", "-c", text().to_str().expect("a plain path")],
    );
}

#[test]
fn sha256sum() {
    installed(
        "sha256sum",
        Demand::Equal,
        &[],
        &["/usr/bin/sha256sum", text().to_str().expect("a plain path")],
    );
}

#[test]
fn sqlite3() {
    let script = "create table t(a integer primary key, b text); \
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 300) \
        insert into t select x, 'row ' || x from n; \
        create index i on t(b); \
        select count(*), sum(length(b)), max(b) from t where b like '%1%' group by a % 3;";
    installed("sqlite3", Demand::Equal, &[], &["/usr/bin/sqlite3", ":memory:", script]);
}

#[test]
fn perl() {
    let script = "my %h; $h{$_ % 97} .= chr(65 + $_ % 26) for 1 .. 3000; \
        print join(',', map { length } @h{sort { $a <=> $b } keys %h}), \"\\n\"; \
        my $n = () = 'abcabcabc' x 50 =~ /(b)(c)/g; print \"$n\\n\"; \
        sub f { my $n = shift; $n < 2 ? $n : f($n - 1) + f($n - 2) } print f(12), \"\\n\"; \
        for (1 .. 20) { eval { die { code => $_ } }; print $@->{code} }";
    let fixed = [("PERL_HASH_SEED", "0"), ("PERL_PERTURB_KEYS", "0")];
    installed("perl", Demand::Equal, &fixed, &["/usr/bin/perl", "-e", script]);
}

#[test]
fn python3() {
    let fixed = [("PYTHONHASHSEED", "0"), ("PYTHONDONTWRITEBYTECODE", "1")];
    installed("python3", Demand::Nearly(10), &fixed, &["/usr/bin/python3", "-I", "-S", "-c", PYTHON]);
}

#[test]
fn virtual_calls_and_exceptions_in_cpp() {
    guest("programs_virtual", "programs_virtual.cpp", &[]);
}

#[test]
fn rust_release_binary() {
    // Names as they are in the symbol table: the two print Rust's names differently.
    guest("programs_rust", "programs_rust.rs", &["--demangle=no"]);
}

#[test]
fn static_binary() {
    guest("programs_static", "programs_static.c", &[]);
}

#[test]
fn position_dependent_binary() {
    guest("programs_no_pie", "programs_no_pie.c", &[]);
}
