//! Real programs, counted by Valgrind and by tallygraph: self cost of every function, calls and inclusive cost
//! of every edge, equal to the instruction outside the loader.
//!
//! Both sides run the same code: no address randomisation, the same environment in the same order, Valgrind's
//! preloaded library on both sides, CPU features hidden from the C library by the same tunables, symbols bound at
//! start. What is left out, and why, is in [`excused`]; Callgrind's nameless stubs are folded into their
//! callers ([`without_stubs`]).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use tallygraph_testkit::callgrind::{Function, Profile};
use tallygraph_testkit::compile::Guest;
use tallygraph_testkit::differences::{Rules, differences, shortened};
use tallygraph_testkit::tools::{
    TUNABLES, in_environment, made_once, tallygraph, valgrind_for, valgrind_preload,
};
use tallygraph_testkit::{scratch, skipped_unless_required};

/// Functions whose counts differ between the two for a reason that is no error of either.
///
/// | what | reason |
/// |---|---|
/// | objects `ld-*` | the loader reads what the kernel tells of the process, which differs |
/// | objects `vgpreload*` | are Valgrind's |
/// | object `???`, names that are addresses | Valgrind knows no name there, we do |
/// | `_init`, `_fini`, `frame_dummy` and the like | symbols without a size, nameless in Valgrind |
/// | `__str*_sse2*`, `__memcmp_sse2` | count by the alignment of strings, and the stack's top is elsewhere |
/// | `__cpu_indicator_init`, `getauxval`, `sysconf` and what static programs have of the loader | look at the CPU or at what the kernel tells |
/// | `__memcpy_chk*`, `memcpy@*` | the first runs into the second: a call here, one block in Callgrind |
/// | `_exit`, `_Exit` | the last block is not in Callgrind's lines |
fn excused(f: &Function) -> bool {
    let name = f.name.split('\'').next().unwrap_or(&f.name);
    f.object.starts_with("ld-")
        || f.object.starts_with("vgpreload")
        || f.object == "???"
        || name.starts_with("0x")
        || (name.contains("_sse2") && (name.starts_with("__str") || name.starts_with("__memcmp")))
        || matches!(name, "_init" | "_fini" | "frame_dummy" | "register_tm_clones" | "deregister_tm_clones")
        || matches!(name, "__do_global_dtors_aux" | "_exit" | "_Exit")
        || name.starts_with("__memcpy_chk")
        || name.starts_with("memcpy@")
        || matches!(name, "__cpu_indicator_init" | "getauxval" | "sysconf" | "(below main)" | "handle_amd")
        || ["get_common_", "handle_intel", "intel_check_word", "update_active", "_dl_tunable_set_hwcaps"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Functions that choose an implementation when the loader relocates: they look at the CPU, which
/// Valgrind invents.
fn resolvers(profile: &Profile) -> BTreeSet<Function> {
    // Static programs relocate themselves in what calls main.
    let relocates = |f: &Function| f.name == "_dl_relocate_object" || f.name.starts_with("(below main)");
    let called = profile.edges.keys().filter(|(from, _)| relocates(from)).map(|(_, to)| to.clone());
    called.filter(|f| f.name != "main").collect()
}

/// A profile in which the nameless functions that do nothing but jump on are part of their callers: stubs
/// of the sections that Callgrind does not take for procedure linkage tables (`.plt.got`, `.iplt`).
fn without_stubs(mut profile: Profile) -> Profile {
    let nameless = |f: &Function| f.object == "???" && f.name.starts_with("0x");
    let stubs: Vec<Function> = profile.own.keys().filter(|f| nameless(f)).cloned().collect();
    for stub in stubs {
        let callers: Vec<_> = profile.edges.keys().filter(|(_, to)| *to == stub).cloned().collect();
        let callees: Vec<_> = profile.edges.keys().filter(|(from, _)| *from == stub).cloned().collect();
        let calls: u64 = callers.iter().map(|e| profile.edges[e].count).sum();
        let [callee] = &callees[..] else { continue };
        let own = profile.own[&stub][0];
        if calls == 0 || !own.is_multiple_of(calls) || own / calls > 2 || profile.edges[callee].count != calls
        {
            continue;
        }
        for edge in &callers {
            let removed = profile.edges.remove(edge).expect("it was listed");
            let jumps = removed.count * (own / calls);
            profile.own.entry(edge.0.clone()).or_insert_with(|| vec![0])[0] += jumps;
            let direct = profile.edges.entry((edge.0.clone(), callee.1.clone())).or_default();
            direct.count += removed.count;
            direct.cost.resize(1, 0);
            direct.cost[0] += removed.inclusive() - jumps;
        }
        profile.edges.remove(callee);
        profile.own.remove(&stub);
    }
    profile
}

/// How equal two profiles must be.
#[derive(Clone, Copy)]
enum Demand {
    /// To the instruction.
    Equal,
    /// Differences in self cost add up to at most this many thousandths of all cost, for programs whose
    /// work depends on addresses (by hashing them).
    Nearly(u64),
}

/// What a program's run under both profilers must have in common.
fn compare(name: &str, demand: Demand, environment: &[(&str, &str)], options: &[&str], words: &[OsString]) {
    let Some(valgrind) = valgrind_for(name) else { return };
    let preload = valgrind_preload(&valgrind);
    let mut variables = vec![
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("LC_ALL", "C"),
        ("GLIBC_TUNABLES", TUNABLES),
        ("LD_BIND_NOW", "1"),
    ];
    variables.extend_from_slice(environment);
    // Directories of one length, since the working directory may be on the guest's stack.
    let dir = scratch(&format!("differential/{name}/valgrind"));
    let theirs = in_environment(&valgrind, &dir, &variables, options, words);
    assert!(theirs.outcome.success(), "{name}: under Valgrind\n{}", theirs.outcome);
    variables.push(("LD_PRELOAD", preload));
    let dir = scratch(&format!("differential/{name}/tallygrp"));
    let ours = in_environment(&tallygraph(), &dir, &variables, options, words);
    assert!(ours.outcome.success(), "{name}: under tallygraph\n{}", ours.outcome);
    assert_eq!(
        ours.outcome.stdout, theirs.outcome.stdout,
        "{name}: output differs\n{}\n{}",
        ours.outcome, theirs.outcome
    );
    let (expected, found) = (without_stubs(theirs.profile()), ours.profile());
    let mut chosen = resolvers(&expected);
    chosen.extend(resolvers(&found));
    let ignore = |f: &Function| excused(f) || chosen.contains(f);
    let compared = compared(&expected, &ignore);
    assert!(compared.0 >= 10, "{name}: only {} functions take part\n{}", compared.0, ours.outcome);
    if let Demand::Nearly(thousandths) = demand {
        let own = |p: &Profile, f: &Function| p.own.get(f).map_or(0, |c| c[0]);
        let functions: BTreeSet<&Function> =
            expected.own.keys().chain(found.own.keys()).filter(|f| !ignore(f)).collect();
        let off: u64 = functions.iter().map(|f| own(&expected, f).abs_diff(own(&found, f))).sum();
        let total: u64 = functions.iter().map(|f| own(&expected, f)).sum();
        assert!(off * 1000 <= total * thousandths, "{name}: {off} of {total} differ\n{}", ours.outcome);
        return;
    }
    let rules = Rules { ignore: &ignore, inclusive: false };
    let mut wrong = differences(&rules, ("Valgrind", &expected), ("tallygraph", &found));
    wrong.extend(inclusive_differences(&expected, &found, &ignore));
    assert!(
        wrong.is_empty(),
        "{name}: {} differences in {} functions and {} edges\n{}\n{}\n{}",
        wrong.len(),
        compared.0,
        compared.1,
        shortened(&wrong),
        ours.outcome,
        theirs.outcome
    );
}

/// How many functions and edges a comparison covers.
fn compared(profile: &Profile, ignore: &dyn Fn(&Function) -> bool) -> (usize, usize) {
    (
        profile.own.keys().filter(|f| !ignore(f)).count(),
        profile.edges.keys().filter(|(a, b)| !ignore(a) && !ignore(b)).count(),
    )
}

/// Differences in inclusive costs of edges below which no ignored function cost something else.
fn inclusive_differences(
    expected: &Profile,
    found: &Profile,
    ignore: &dyn Fn(&Function) -> bool,
) -> Vec<String> {
    let own = |p: &Profile, f: &Function| p.own.get(f).map_or(0, |c| c[0]);
    let everybody = expected.own.keys().chain(found.own.keys());
    let mut uneven: BTreeSet<&Function> =
        everybody.filter(|f| ignore(f) && own(expected, f) != own(found, f)).collect();
    loop {
        let before = uneven.len();
        for (caller, callee) in expected.edges.keys().chain(found.edges.keys()) {
            if uneven.contains(callee) {
                uneven.insert(caller);
            }
        }
        if uneven.len() == before {
            break;
        }
    }
    let mut wrong = Vec::new();
    for (edge, cost) in &expected.edges {
        let (caller, callee) = edge;
        if ignore(caller) || ignore(callee) || uneven.contains(callee) {
            continue;
        }
        let ours = found.edges.get(edge).map_or(0, |e| e.inclusive());
        if ours != cost.inclusive() {
            let theirs = cost.inclusive();
            wrong.push(format!(
                "inclusive cost of {caller} -> {callee}: Valgrind {theirs}, tallygraph {ours}"
            ));
        }
    }
    wrong
}

/// Compares an installed program; says that it is skipped where it is absent.
fn installed(name: &str, demand: Demand, environment: &[(&str, &str)], words: &[&str]) {
    if !std::path::Path::new(words[0]).exists() {
        skipped_unless_required(name, &format!("{} is not installed", words[0]));
        return;
    }
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    compare(name, demand, environment, &[], &words);
}

/// Compares a guest.
fn guest(file: &str, options: &[&str]) {
    let guest = Guest::build(file);
    compare(guest.stem(), Demand::Equal, &[], options, &[guest.program.clone().into_os_string()]);
}

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
    guest("programs_virtual.cpp", &[]);
}

#[test]
fn rust_release_binary() {
    // Names as they are in the symbol table: the two print Rust's names differently.
    guest("programs_rust.rs", &["--demangle=no"]);
}

#[test]
fn static_binary() {
    guest("programs_static.c", &[]);
}

#[test]
fn position_dependent_binary() {
    guest("programs_no_pie.c", &[]);
}
