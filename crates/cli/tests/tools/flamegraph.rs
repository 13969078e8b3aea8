//! `flamegraph`.

use super::{file, out, run, scratch};
use std::fs;

/// Two threads whose stacks a call graph would mix up: `leaf` costs all it costs under `a`.
const CONTEXTS: &str = "# tallygraph contexts 1\ncmd: ./program\nevents: Ir Dr\n\
    frame prog\tm.c\tmain\nframe prog\tm.c\ta\nframe prog\tm.c\tb\nframe prog\tm.c\tleaf\n\
    part: 1\nthread: 1\ncontext - 0 1 10\ncontext 0 1 1 5\ncontext 1 3 1 100 7\ncontext 0 2 1 5\ncontext 3 3 1\n\
    thread: 2\ncontext - 3 1 50\n";

#[test]
fn estimates_say_that_they_are() {
    let picture = out(&["flamegraph", "valid/plain.out"]);
    assert!(picture.starts_with("<?xml") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("stacks estimated from a call graph"));
    assert!(picture.contains("<title>squares (97 Ir, 16.55%)</title>"), "{picture}");
    let folded = run(&["flamegraph", "valid/plain.out", "--folded"]).with_status(0);
    assert!(folded.err.contains("estimated"), "{}", folded.err);
    let total: i64 = folded.out.lines().map(|l| l.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum();
    assert_eq!(total, 586);
}

#[test]
fn recorded_contexts_give_the_true_stacks() {
    let folder = scratch("contexts");
    let contexts = file(&folder, "p.contexts", CONTEXTS);
    let folded = run(&["flamegraph", &contexts, "--folded"]).with_status(0);
    assert_eq!(folded.err, "");
    assert_eq!(folded.out, "leaf 50\nmain 10\nmain;a 5\nmain;a;leaf 100\nmain;b 5\n");
    assert!(!out(&["flamegraph", &contexts]).contains("estimated"));
    assert_eq!(out(&["flamegraph", &contexts, "--folded", "--thread=2"]), "leaf 50\n");
    assert_eq!(out(&["flamegraph", &contexts, "--folded", "--event=Dr"]), "main;a;leaf 7\n");
    run(&["flamegraph", &contexts, "--thread=9"]).with_status(1);
    let broken = file(&folder, "broken", "# tallygraph contexts 1\nevents: Ir\ncontext - 0 1 5\n");
    let said = run(&["flamegraph", &broken]).with_status(1);
    assert!(said.err.contains("broken:3: frame `0` is not defined before"), "{}", said.err);
}

#[test]
fn stacks_can_begin_at_a_function() {
    let folded = out(&["flamegraph", "valid/plain.out", "--folded", "--focus=even"]);
    assert!(folded.lines().all(|l| l.starts_with("even")), "{folded}");
    run(&["flamegraph", "valid/plain.out", "--focus=absent"]).with_status(1);
}

#[test]
fn two_profiles_give_a_differential_picture() {
    let folder = scratch("differential");
    let old = file(&folder, "old.out", "events: Ir\nfn=main\n1 5\ncfn=f\ncalls=1 1\n1 50\nfn=f\n1 50\n");
    let new = file(&folder, "new.out", "events: Ir\nfn=main\n1 5\ncfn=f\ncalls=1 1\n1 80\nfn=f\n1 80\n");
    assert_eq!(out(&["flamegraph", &new, "--diff", &old, "--folded"]), "main 5 5\nmain;f 50 80\n");
    let picture = out(&["flamegraph", &new, "--diff", &old]);
    assert!(
        picture.contains("Change of Ir") && picture.contains("<title>f (80 Ir, 94.12%; +35.29%)</title>"),
        "{picture}"
    );
}

#[test]
fn pictures_are_the_same_each_time_and_go_to_files() {
    let folder = scratch("picture");
    let path = folder.join("flame.svg");
    out(&["flamegraph", "valid/plain.out", "-o", path.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&path).unwrap(), out(&["flamegraph", "valid/plain.out"]));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
    assert_ne!(out(&["flamegraph", "valid/plain.out", "--reverse"]), out(&["flamegraph", "valid/plain.out"]));
    run(&["flamegraph", "valid/plain.out", "-o", "/nonexistent/x.svg"]).with_status(1);
}
