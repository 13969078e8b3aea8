//! Programs counted by Valgrind and by tallygraph: self cost of every function, calls and inclusive cost
//! of every edge, in every part.
//!
//! Both sides run the same code: no address randomisation, the same environment in the same order, Valgrind's
//! preloaded library on both sides, CPU features hidden from the C library by the same tunables, symbols bound at
//! start. What is left out, and why, is in [`excused`]; Callgrind's nameless stubs are folded into their
//! callers ([`without_stubs`]).

use crate::callgrind::{Function, Profile};
use crate::compile::Guest;
use crate::differences::{Rules, differences, shortened};
use crate::tools::{Profiled, TUNABLES, in_environment, tallygraph, valgrind_for, valgrind_preload};
use crate::{scratch, skipped_unless_required};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

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
pub fn excused(f: &Function) -> bool {
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
pub fn without_stubs(mut profile: Profile) -> Profile {
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
pub enum Demand {
    /// To the instruction.
    Equal,
    /// To the instruction, for the functions of one object.
    Own(&'static str),
    /// Calls and inclusive costs, for the functions of one object: after zeroing Callgrind still has what
    /// skipped stubs cost before.
    OwnEdges(&'static str),
    /// Differences in self cost add up to at most this many thousandths of all cost, for programs whose
    /// work depends on addresses (by hashing them).
    Nearly(u64),
}

/// The files of a run's parts, in order: those dumped on the way, then the last.
fn parts(run: &Profiled) -> Vec<PathBuf> {
    let part = |n: u32| run.out.with_extension(format!("out.{n}"));
    let mut all: Vec<PathBuf> = (1..).map(part).take_while(|p| p.exists()).collect();
    all.push(run.out.clone());
    all
}

/// What a program's run under both profilers must have in common.
pub fn compare(
    name: &str,
    demand: Demand,
    environment: &[(&str, &str)],
    options: &[&str],
    words: &[OsString],
) {
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
    let (expected, found) = (parts(&theirs), parts(&ours));
    assert_eq!(found.len(), expected.len(), "{name}: number of parts\n{}\n{}", ours.outcome, theirs.outcome);
    let mut wrong = Vec::new();
    let mut covered = (0, 0);
    for (theirs, ours) in expected.iter().zip(&found) {
        let read = |path| Profile::read(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (expected, found) = (without_stubs(read(theirs)), read(ours));
        let trigger = |p: &Profile| {
            let desc = p.header.get("desc").cloned().unwrap_or_default();
            desc.lines().find(|l| l.starts_with("Trigger")).map(str::to_string)
        };
        assert_eq!(trigger(&found), trigger(&expected), "{name}: {}", ours.display());
        let (functions, edges) = compare_profiles(name, demand, &expected, &found, &mut wrong);
        covered = (covered.0 + functions, covered.1 + edges);
    }
    assert!(covered.0 > 1, "{name}: only {} functions take part\n{}", covered.0, ours.outcome);
    assert!(
        wrong.is_empty(),
        "{name}: {} differences in {} functions and {} edges\n{}\n{}\n{}",
        wrong.len(),
        covered.0,
        covered.1,
        shortened(&wrong),
        ours.outcome,
        theirs.outcome
    );
}

/// Compares one part; gives the number of functions and edges that took part.
fn compare_profiles(
    name: &str,
    demand: Demand,
    expected: &Profile,
    found: &Profile,
    wrong: &mut Vec<String>,
) -> (usize, usize) {
    let mut chosen = resolvers(expected);
    chosen.extend(resolvers(found));
    let own = match demand {
        Demand::Own(object) | Demand::OwnEdges(object) => Some(object),
        _ => None,
    };
    let foreign = |f: &Function| own.is_some_and(|o| f.object != o);
    let ignore = |f: &Function| excused(f) || chosen.contains(f) || foreign(f);
    let covered = compared(expected, &ignore);
    if let Demand::Nearly(thousandths) = demand {
        let own = |p: &Profile, f: &Function| p.own.get(f).map_or(0, |c| c[0]);
        let functions: BTreeSet<&Function> =
            expected.own.keys().chain(found.own.keys()).filter(|f| !ignore(f)).collect();
        let off: u64 = functions.iter().map(|f| own(expected, f).abs_diff(own(found, f))).sum();
        let total: u64 = functions.iter().map(|f| own(expected, f)).sum();
        assert!(off * 1000 <= total * thousandths, "{name}: {off} of {total} differ");
        return covered;
    }
    let rules = Rules { ignore: &ignore, inclusive: false };
    let differ = differences(&rules, ("Valgrind", expected), ("tallygraph", found));
    let edges_only = matches!(demand, Demand::OwnEdges(_));
    wrong.extend(differ.into_iter().filter(|d| !(edges_only && d.starts_with("self"))));
    wrong.extend(inclusive_differences(expected, found, &ignore));
    covered
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
pub fn installed(name: &str, demand: Demand, environment: &[(&str, &str)], words: &[&str]) {
    installed_with(name, demand, environment, &[], words);
}

/// As [`installed`], with options for both.
pub fn installed_with(
    name: &str,
    demand: Demand,
    environment: &[(&str, &str)],
    options: &[&str],
    words: &[&str],
) {
    if !std::path::Path::new(words[0]).exists() {
        skipped_unless_required(name, &format!("{} is not installed", words[0]));
        return;
    }
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    compare(name, demand, environment, options, &words);
}

/// Compares a guest.
pub fn guest(name: &str, file: &str, options: &[&str]) {
    guest_with(name, Demand::Equal, file, options);
}

/// As [`guest`], with another demand.
pub fn guest_with(name: &str, demand: Demand, file: &str, options: &[&str]) {
    let guest = Guest::build(file);
    compare(name, demand, &[], options, &[guest.program.clone().into_os_string()]);
}
