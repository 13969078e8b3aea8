//! What is demanded of every guest, natively, under tallygraph and under Valgrind.

use crate::callgrind::Profile;
use crate::compile::Guest;
use crate::differences::{EVERYTHING, differences, shortened};
use crate::header::End;
use crate::run::{Command, Outcome};
use crate::tools::{STRESS, under_callgrind, under_tallygraph, valgrind_for};
use crate::{golden, guests_dir, scratch, skipped};
use std::ffi::OsString;

/// Builds a guest; `None`, with a message, where the CPU lacks what it needs.
fn ready(name: &str) -> Option<Guest> {
    let guest = Guest::build(name);
    let missing = guest.missing_cpu_features();
    if !missing.is_empty() {
        skipped(name, &format!("this CPU lacks {}", missing.join(", ")));
        return None;
    }
    Some(guest)
}

/// The guest's command line.
fn words(guest: &Guest) -> Vec<OsString> {
    let mut words = vec![OsString::from(&guest.program)];
    words.extend(guest.header.args.iter().map(OsString::from));
    words
}

/// Panics unless a run ended as the guest's comment says.
fn assert_end(guest: &Guest, what: &str, outcome: &Outcome) {
    let expected = match guest.header.end {
        End::Status(n) => n,
        End::Signal(n) => -n,
    };
    assert_eq!(outcome.end(), expected, "{} {what}: another end than expected\n{outcome}", guest.name);
    if guest.header.ir.is_none() && guest.header.end == End::Status(0) {
        let text = String::from_utf8_lossy(&outcome.stdout);
        assert!(text.contains("EXIT-SUCCESS"), "{} {what}: no EXIT-SUCCESS\n{outcome}", guest.name);
    }
}

fn run_natively(guest: &Guest, test: &str) -> Outcome {
    let dir = scratch(&format!("{test}/{}/native", guest.stem()));
    let outcome = Command::new(&guest.program, &dir).args(&guest.header.args).run();
    assert_end(guest, "natively", &outcome);
    outcome
}

/// The guest passes natively.
pub fn passes_natively(name: &str) {
    if let Some(guest) = ready(name) {
        run_natively(&guest, "native");
    }
}

/// Runs a guest under tallygraph in a directory of the given name; it must behave as natively.
fn profile_like(guest: &Guest, native: &Outcome, dir: &str, extra: &[String]) -> (Outcome, Profile) {
    let dir = scratch(dir);
    let options: Vec<&String> = guest.header.options.iter().chain(extra).collect();
    let what =
        format!("under tallygraph {}", options.iter().map(|o| o.as_str()).collect::<Vec<_>>().join(" "));
    let run = under_tallygraph(&dir, &options, &words(guest));
    assert_end(guest, &what, &run.outcome);
    let same = run.outcome.stdout == native.stdout;
    assert!(same, "{} {what}: standard output differs\n{}\nnatively:\n{native}", guest.name, run.outcome);
    let same = run.outcome.stderr == native.stderr;
    assert!(same, "{} {what}: standard error differs\n{}\nnatively:\n{native}", guest.name, run.outcome);
    let profile = run.profile();
    (run.outcome, profile)
}

/// Under tallygraph the guest behaves as natively, and what its comment and its golden file state about
/// the profile holds.
pub fn is_profiled_as_stated(name: &str) {
    let Some(guest) = ready(name) else { return };
    let native = run_natively(&guest, "stated");
    let Some(limit) = &guest.header.limit else { return profiled_as_stated(&guest, &native) };
    let attempt = std::panic::AssertUnwindSafe(|| profiled_as_stated(&guest, &native));
    assert!(
        std::panic::catch_unwind(attempt).is_err(),
        "{name} passes: remove its line 'limit: {limit}', and what the documentation says of it"
    );
    skipped(name, &format!("known limit: {limit}"));
}

fn profiled_as_stated(guest: &Guest, native: &Outcome) {
    let name = &guest.name;
    let (outcome, profile) = profile_like(guest, native, &format!("stated/{}/tallygraph", guest.stem()), &[]);
    let wrong = contradictions(guest, &profile);
    assert!(wrong.is_empty(), "{name}: not as stated\n{}\n{outcome}", shortened(&wrong));
    if let Some(kind) = guest.header.golden {
        let path = guests_dir().join(format!("{}.golden", guest.stem()));
        let text = golden::text(kind, &profile, guest.stem());
        golden::compare(&path, &text).unwrap_or_else(|e| panic!("{name}: {e}\n{outcome}"));
    }
}

/// What in a profile contradicts the guest's comment.
fn contradictions(guest: &Guest, profile: &Profile) -> Vec<String> {
    let header = &guest.header;
    let merged;
    let profile = if header.ir.is_some() {
        profile
    } else {
        merged = profile.without_levels();
        &merged
    };
    let mut wrong = Vec::new();
    let mut expect = |what: String, expected: u64, found: u64| {
        if expected != found {
            wrong.push(format!("{what}: stated {expected}, found {found}"));
        }
    };
    if let Some(ir) = header.ir {
        expect("Ir".into(), ir, profile.total());
        expect("summary".into(), ir, profile.summary[0]);
    }
    for (function, cost) in &header.own {
        expect(format!("self cost of {function}"), *cost, profile.own_of(function));
    }
    for call in &header.calls {
        let (count, inclusive) = profile.edge(&call.caller, &call.callee);
        expect(format!("calls {} -> {}", call.caller, call.callee), call.count, count);
        if let Some(cost) = call.inclusive {
            expect(format!("inclusive cost of {} -> {}", call.caller, call.callee), cost, inclusive);
        }
    }
    for (caller, callee) in &header.never {
        expect(format!("calls {caller} -> {callee}"), 0, profile.edge(caller, callee).0);
    }
    for function in &header.absent {
        expect(format!("appearances of {function}"), 0, u64::from(profile.has(function)));
    }
    if header.ir.is_some() {
        // An exact guest states everything: nothing else may be there.
        for function in profile.own.keys() {
            if !header.own.iter().any(|(f, _)| *f == function.name) {
                wrong.push(format!("{function} has a cost that is not stated"));
            }
        }
        for (caller, callee) in profile.edges.keys() {
            let stated = |c: &crate::header::Call| c.caller == caller.name && c.callee == callee.name;
            if !header.calls.iter().any(stated) {
                wrong.push(format!("the call {caller} -> {callee} is not stated"));
            }
        }
    }
    wrong
}

/// Every stress option leaves behaviour and profile as they are.
pub fn is_the_same_under_stress(name: &str) {
    let Some(guest) = ready(name) else { return };
    if let Some(limit) = &guest.header.limit {
        return skipped(name, &format!("known limit: {limit}"));
    }
    let native = run_natively(&guest, "stress");
    let (_, expected) = profile_like(&guest, &native, &format!("stress/{}/none", guest.stem()), &[]);
    for stress in STRESS {
        let option = format!("--stress={stress}");
        if let Some((_, reason)) = guest.header.unstressed.iter().find(|(o, _)| o == stress) {
            skipped(&format!("{name} {option}"), &format!("known limit: {reason}"));
            continue;
        }
        let dir = format!("stress/{}/{}", guest.stem(), stress.replace('=', "-"));
        let (outcome, found) = profile_like(&guest, &native, &dir, std::slice::from_ref(&option));
        if guest.header.uneven.is_some() {
            continue;
        }
        let wrong = differences(&EVERYTHING, ("normally", &expected), ("stressed", &found));
        assert!(wrong.is_empty(), "{name} {option}: another profile\n{}\n{outcome}", shortened(&wrong));
    }
}

/// Where a guest's counts are stated, Valgrind counts the same.
///
/// Callgrind leaves the last block out of its lines, yet not out of the summary when it simulates caches;
/// the difference is missing in the self cost of the function that exits, and in nothing
/// else, because exact guests exit from `_start`.
pub fn is_counted_alike_by_valgrind(name: &str) {
    let Some(guest) = ready(name) else { return };
    let Some(ir) = guest.header.ir else { return };
    if let Some(reason) = &guest.header.no_valgrind {
        skipped(name, &format!("not compared with Valgrind: {reason}"));
        return;
    }
    let Some(valgrind) = valgrind_for(name) else { return };
    let dir = scratch(&format!("valgrind/{}", guest.stem()));
    let mut options = vec!["--cache-sim=yes".to_string()];
    options.extend(guest.header.options.iter().cloned());
    let run = under_callgrind(&valgrind, &dir, &options, &words(&guest));
    assert_end(&guest, "under Valgrind", &run.outcome);
    let mut profile = run.profile();
    assert_eq!(profile.summary[0], ir, "{name}: Valgrind's count\n{}", run.outcome);
    let lost = ir - profile.total();
    if lost != 0 {
        let start = profile.own.iter_mut().find(|(f, _)| f.name == "(below main)").expect("a start routine");
        start.1[0] += lost;
    }
    let wrong = contradictions(&guest, &profile);
    assert!(wrong.is_empty(), "{name}: Valgrind counts otherwise\n{}\n{}", shortened(&wrong), run.outcome);
}
