//! `diff`.

use super::{file, golden, run, scratch};

/// A parser that calls `clone` as often as asked; its symbol's hash and its lines change as well.
fn parser(calls: u64, hash: &str, line: u32) -> String {
    let cost = calls * 2100;
    format!(
        "version: 1\nevents: Ir\nob=app\nfl=src/parse.rs\nfn=parse::h{hash}\n{line} 1000\ncfn=clone\n\
         calls={calls} 90\n+1 {cost}\n\nfn=clone\n90 {cost}\n\ntotals: {}\n",
        1000 + cost
    )
}

#[test]
fn the_change_is_explained_in_all_formats() {
    let folder = scratch("diff");
    let old = file(&folder, "old.out", &parser(10, "0123456789abcdef", 5));
    let new = file(&folder, "new.out", &parser(1010, "fedcba9876543210", 70));
    let clean = |text: String| text.replace(folder.to_str().unwrap(), "");
    golden("diff.txt", &clean(run(&["diff", &old, &new]).with_status(0).out));
    golden("diff.md", &clean(run(&["diff", &old, &new, "--format=markdown"]).with_status(0).out));
    let said = run(&["diff", &old, &new, "--format=json"]).with_status(0);
    let document = said.json();
    assert_eq!(document["total"], serde_json::json!([22_000, 2_122_000]));
    assert_eq!(
        document["explanation"],
        "`parse::hfedcba9876543210` calls `clone` 1,000 times more; +2.1 M Ir."
    );
    assert_eq!(document["functions"][0]["calls"], serde_json::json!([10, 1010]));
    assert_eq!(document["regression"], false);
    assert_eq!(said.err, "");
}

#[test]
fn growth_above_the_limit_is_status_3() {
    let folder = scratch("diff-limit");
    let old = file(&folder, "old.out", &parser(100, "0123456789abcdef", 5));
    let new = file(&folder, "new.out", &parser(103, "0123456789abcdef", 5));
    // 211,000 to 217,300 is 2.99 %.
    run(&["diff", &old, &new, "--fail-above=3%"]).with_status(0);
    let said = run(&["diff", &old, &new, "--fail-above=2%"]).with_status(3);
    assert!(said.err.contains("Ir grew by +2.99%, more than 2%"), "{}", said.err);
    run(&["diff", &old, &new, "--fail-above=6,300"]).with_status(0);
    run(&["diff", &old, &new, "--fail-above=6299"]).with_status(3);
    run(&["diff", &new, &old, "--fail-above=0%"]).with_status(0);
    let document = run(&["diff", &old, &new, "--fail-above=2%", "--format=json"]).with_status(3).json();
    assert_eq!(document["regression"], true);
}

#[test]
fn equal_profiles_have_no_difference() {
    let said = run(&["diff", "valid/plain.out", "valid/uncompressed.out", "--fail-above=0"]).with_status(0);
    assert!(said.out.contains("Ir 586 → 586 (±0%)\nNothing changed.\n"), "{}", said.out);
    assert!(!said.out.contains("Functions"), "{}", said.out);
}

#[test]
fn sets_are_added_up() {
    let arguments =
        ["diff", "--old", "valid/plain.out", "--new", "valid/plain.out", "valid/plain.out", "--format=json"];
    assert_eq!(run(&arguments).with_status(0).json()["total"], serde_json::json!([586, 1172]));
}

#[test]
fn wrong_usage_is_status_2_and_missing_files_status_1() {
    run(&["diff"]).with_status(2);
    run(&["diff", "valid/plain.out"]).with_status(2);
    run(&["diff", "valid/plain.out", "valid/plain.out", "--fail-above=much"]).with_status(2);
    run(&["diff", "valid/plain.out", "valid/plain.out", "--event=Dr"]).with_status(2);
    run(&["diff", "valid/plain.out", "absent.out"]).with_status(1);
    let said = run(&["diff", "valid/plain.out", "valid/xdebug2.out"]).with_status(1);
    assert!(said.err.contains("no event in common: Ir and Time"), "{}", said.err);
}
