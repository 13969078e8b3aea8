//! Measurement that starts somewhere gives what measuring from the start of the process would give after
//! forgetting, at the same point, all that ran before: same self costs, same calls, same inclusive
//! costs, and no call that was not made.

use tallygraph_testkit::callgrind::{Function, Profile};
use tallygraph_testkit::compile::Guest;
use tallygraph_testkit::differences::{Rules, differences, shortened};
use tallygraph_testkit::run::{Command, Outcome};
use tallygraph_testkit::scratch;
use tallygraph_testkit::tools::tallygraph;

/// The guest's profile with measurement begun by START (`start`) or by ZERO (`zero`).
fn measured(guest: &Guest, by: &str) -> (Profile, Outcome) {
    let dir = scratch(&format!("anywhere/{}/{by}", guest.stem()));
    let out = dir.join("profile.out");
    let at_start = if by == "zero" { "yes" } else { "no" };
    let outcome = Command::new(tallygraph(), &dir)
        // One length on both sides: the environment is on the guest's stack.
        .env("MEASURE_BY", if by == "zero" { "zero " } else { "start" })
        .args(["run", "-q", &format!("--instr-atstart={at_start}")])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&guest.program)
        .run();
    assert!(outcome.success(), "{} measured by {by}\n{outcome}", guest.name);
    let profile = Profile::read(&out).unwrap_or_else(|e| panic!("{e}\n{outcome}"));
    assert!(profile.total() > 0, "{} measured by {by}: nothing was counted\n{outcome}", guest.name);
    (profile, outcome)
}

fn starts_as_if_measured_from_the_start(name: &str) {
    let guest = Guest::build(name);
    let (expected, _) = measured(&guest, "zero");
    let (found, outcome) = measured(&guest, "start");
    let nobody = |_: &Function| false;
    let rules = Rules { ignore: &nobody, inclusive: true };
    let wrong = differences(&rules, ("by ZERO", &expected), ("by START", &found));
    assert!(
        wrong.is_empty(),
        "{name}: START is not as if measured from the start\n{}\n{outcome}",
        shortened(&wrong)
    );
}

#[test]
fn deep_in_the_stack() {
    starts_as_if_measured_from_the_start("requests_start_deep.c");
}

#[test]
fn at_the_end_of_a_long_recursion() {
    starts_as_if_measured_from_the_start("requests_start_recursive.c");
}

#[test]
fn in_a_signal_handler() {
    starts_as_if_measured_from_the_start("requests_start_handler.c");
}

#[test]
fn in_a_callback_of_a_library() {
    starts_as_if_measured_from_the_start("requests_start_callback.c");
}

#[test]
fn before_a_longjmp_over_all_frames() {
    starts_as_if_measured_from_the_start("requests_start_longjmp.c");
}
