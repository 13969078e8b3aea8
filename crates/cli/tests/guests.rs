//! Every guest behaves as it does natively and gives the same profile under every stress option;
//! guests that state their counts have exactly these.

mod common;

use common::{STRESS, all_guests, build, command, describe, profile, read, scratch, source};

/// Guests whose work depends on the clock or on who runs first: behaviour is compared, not counts.
const UNEVEN: &[&str] = &["threads_processes.c", "signals_basic.c"];

#[test]
fn guests_behave_as_natively_and_count_the_same_under_stress() {
    let dir = scratch("stress");
    let names = all_guests();
    assert!(names.len() >= 7, "guests are missing: {names:?}");
    for name in &names {
        let program = build(name, &dir);
        let program = program.to_str().expect("a plain path");
        let native = command(program).output().expect("the guest starts");
        let mut expected = None;
        for stress in std::iter::once(None).chain(STRESS.iter().map(Some)) {
            let option = stress.map(|s| format!("--stress={s}"));
            let options: Vec<&str> = option.iter().map(String::as_str).collect();
            let (output, out) = profile(&dir, &options, &[program]);
            let what = format!("{name} with {options:?}");
            assert_eq!(output.status, native.status, "{}", describe(&what, &output));
            assert_eq!(output.stdout, native.stdout, "{}", describe(&what, &output));
            let p = read(&out);
            assert!(p.total > 0, "{what}: the profile is empty");
            if UNEVEN.contains(&name.as_str()) {
                continue;
            }
            match &expected {
                None => expected = Some(p),
                Some(e) => {
                    let differences = p.differences(e);
                    assert!(differences.is_empty(), "{what}: another profile:\n{}", differences.join("\n"));
                }
            }
        }
    }
}

#[test]
fn stated_counts_are_exact() {
    let dir = scratch("counts");
    let mut stated = 0;
    for name in all_guests() {
        let text = source(&name);
        let facts: Vec<Vec<&str>> = text
            .lines()
            .filter_map(|l| l.strip_prefix("# "))
            .map(|l| l.split_whitespace().collect::<Vec<_>>())
            .filter(|w| w.first().is_some_and(|f| ["Ir:", "self", "call"].contains(f)))
            .collect();
        if facts.is_empty() {
            continue;
        }
        let program = build(&name, &dir);
        let (output, out) = profile(&dir, &[], &[program.to_str().expect("a plain path")]);
        assert!(output.status.success(), "{}", describe(&name, &output));
        let p = read(&out);
        let number = |w: &str| w.parse::<u64>().unwrap_or_else(|_| panic!("{name}: {w} is no number"));
        for fact in facts {
            match fact[..] {
                ["Ir:", "any"] => {}
                ["Ir:", n] => assert_eq!(p.total, number(n), "{name}: Ir"),
                ["self", f, n] => assert_eq!(p.own_of(f), number(n), "{name}: self cost of {f}"),
                ["call", a, b, n, i] => {
                    assert_eq!(p.edge(a, b), (number(n), number(i)), "{name}: {a} -> {b}");
                }
                _ => panic!("{name}: not understood: {fact:?}"),
            }
            stated += 1;
        }
    }
    assert!(stated >= 10, "too few counts are stated: {stated}");
}

#[test]
fn measurement_may_start_deep_in_the_stack() {
    let dir = scratch("start");
    let program = build("requests_start.c", &dir);
    let program = program.to_str().expect("a plain path");
    let (output, out) = profile(&dir, &["--instr-atstart=no"], &[program]);
    assert!(output.status.success(), "{}", describe("requests_start", &output));
    let p = read(&out);
    assert!(p.total > 0 && p.total < 10_000, "{}", p.total);
    // The function that called START returns, and the next call is its caller's.
    assert_eq!(p.edge("inner", "leaf").0, 1);
    assert_eq!(p.edge("mid", "leaf").0, 1);
    assert_eq!(p.edge("main", "leaf").0, 1);
    // No edge leads from a callee to its caller, and frames from before START were not called.
    for (callee, caller) in [("inner", "mid"), ("mid", "outer"), ("outer", "main"), ("leaf", "inner")] {
        assert_eq!(p.edge(callee, caller), (0, 0), "{callee} -> {caller}");
        assert_eq!(p.edge(caller, callee).0, u64::from(caller == "inner"), "{caller} -> {callee}");
    }
    // Inclusive costs hold what ran under the frames after START.
    let inner = p.own_of("inner") + p.edge("inner", "leaf").1;
    assert_eq!(p.edge("mid", "inner").1, inner);
    assert_eq!(p.edge("outer", "mid").1, inner + p.own_of("mid") + p.edge("mid", "leaf").1);
    // Everything is somewhere below main but what ran after it.
    let main = p.own_of("main") + p.edge("main", "outer").1 + p.edge("main", "leaf").1;
    assert!(main <= p.total);
}
