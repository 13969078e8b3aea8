//! `annotate`.

use super::{file, golden, installed, out, run, run_with, scratch};
use std::collections::BTreeMap;
use std::process::Command;

#[test]
fn functions_callers_and_source_are_shown() {
    let text = out(&["annotate", "valid/plain.out", "-I", ".", "--tree=both", "--inclusive=yes"]);
    golden("annotate_tree.txt", &text);
    golden("annotate_plain.txt", &out(&["annotate", "valid/plain.out", "-I", "."]));
}

#[test]
fn instructions_caches_and_inlined_functions_are_shown() {
    let caches = ["annotate", "valid/instr_jumps_cache_branch.out", "--auto=no", "--show=Ir,Dr,D1mr"];
    golden("annotate_caches.txt", &out(&caches));
    let text =
        out(&["annotate", "valid/instr_without_lines.out", "--instructions", "--auto=no", "--threshold=20"]);
    golden("annotate_instructions.txt", &text);
    let text = out(&["annotate", "valid/fork_inline.out", "--auto=no"]);
    assert!(text.contains("9 (56.25%)  square inlined into squares"), "{text}");
}

#[test]
fn no_inclusive_cost_is_above_the_total() {
    for name in ["plain", "separate_callers", "combined_dumps", "instr_jumps_cache_branch"] {
        for merge in [&["--merge-recursion"][..], &[]] {
            let path = format!("valid/{name}.out");
            let arguments = [&["annotate", &path, "--format=json", "--threshold=100"], merge].concat();
            let document = run(&arguments).with_status(0).json();
            let total: Vec<i64> = serde_json::from_value(document["total"].clone()).unwrap();
            let functions = document["functions"].as_array().unwrap();
            assert!(functions.len() > 4, "{name}");
            for f in functions {
                let neighbours = ["callers", "callees"].iter().flat_map(|k| f[k].as_array().unwrap());
                for costs in neighbours.map(|n| &n["inclusive"]).chain([&f["inclusive"]]) {
                    let costs: Vec<i64> = serde_json::from_value(costs.clone()).unwrap();
                    assert!(costs.iter().zip(&total).all(|(c, t)| c <= t), "{name}: {f:#}");
                }
            }
            assert!(functions.iter().any(|f| f["recursive"] == true || !f["cycle"].is_null()), "{name}");
        }
    }
}

#[test]
fn json_mode_prints_json_only() {
    let said = run(&["annotate", "valid/plain.out", "--format=json"]).with_status(0);
    assert_eq!(said.err, "");
    let document = said.json();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["total"][0], 586);
    assert_eq!(document["functions"][0]["name"], "fib'2");
    let sum: i64 = document["lines"].as_array().unwrap().iter().map(|l| l["self"][0].as_i64().unwrap()).sum();
    assert_eq!(sum, 586);
}

#[test]
fn options_of_callgrind_annotate_are_accepted() {
    let spellings = [
        "--show=Ir",
        "--threshold=50",
        "--sort=Ir",
        "--sort=Ir:30",
        "--show-percs=no",
        "--auto=no",
        "--context=2",
        "--inclusive=no",
        "--inclusive=yes",
        "--tree=none",
        "--tree=caller",
        "--tree=calling",
        "--tree=both",
        "-I.",
        "--include=.",
    ];
    for option in spellings {
        run(&["annotate", option, "valid/plain.out"]).with_status(0);
    }
    assert!(!out(&["annotate", "--show-percs=no", "--auto=no", "valid/plain.out"]).contains("69.45%"));
    let few = out(&["annotate", "--sort=Ir:60", "--auto=no", "valid/plain.out"]);
    assert!(few.contains("fib'2") && !few.contains(":squares"), "{few}");
}

#[test]
fn files_are_added_up_and_sources_may_be_named() {
    let twice =
        run(&["annotate", "valid/plain.out", "valid/plain.out", "--format=json"]).with_status(0).json();
    assert_eq!(twice["total"][0], 2 * 586);
    let text = out(&["annotate", "valid/plain.out", "tiny.c", "--auto=no", "--context=0"]);
    assert!(text.contains("-- User-annotated source: /guests/tiny.c"), "{text}");
    assert!(text.contains("return fib(n - 1) + fib(n - 2);"), "{text}");
    let parts =
        run(&["annotate", "valid/combined_dumps.out", "--part=2", "--format=json"]).with_status(0).json();
    assert_eq!(parts["total"][0], 156);
}

#[test]
fn derived_events_are_columns_like_others() {
    let text =
        out(&["annotate", "valid/formulas.out", "--auto=no", "--show=Ir,CEst", "--derive", "Two=2*Ir"]);
    // CEst = Ir + 10 (I1mr + D1mr): 1600 + 10 * 6.
    assert!(text.contains("1,600 (100.0%) 1,660 (100.0%)  PROGRAM TOTALS"), "{text}");
    run(&["annotate", "valid/plain.out", "--derive", "X=Nope"]).with_status(2);
    run(&["annotate", "valid/plain.out", "--show=Nope"]).with_status(2);
}

#[test]
fn colour_follows_the_usual_rules() {
    let coloured = |arguments: &[&str], variables: &[(&str, &str)]| {
        let all = [&["annotate", "valid/plain.out", "--auto=no"], arguments].concat();
        run_with(&all, variables).with_status(0).out.contains('\x1b')
    };
    assert!(!coloured(&[], &[]), "standard output is no terminal");
    assert!(coloured(&["--color=always"], &[]));
    assert!(coloured(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[], &[("NO_COLOR", "1")]));
    assert!(!coloured(&["--color=never"], &[("CLICOLOR_FORCE", "1")]));
}

#[test]
fn narrow_output_shortens_names() {
    let text = out(&["annotate", "valid/plain.out", "--auto=no", "--width=40"]);
    let rows: Vec<&str> = text.lines().filter(|l| l.contains("%)  /guests")).collect();
    assert!(rows.len() >= 8 && rows.iter().all(|r| r.chars().count() <= 40), "{rows:#?}");
    assert!(rows.iter().any(|r| r.ends_with('…')));
}

#[test]
fn the_newest_profile_is_taken_without_a_name() {
    let folder = scratch("newest");
    file(&folder, "callgrind.out.1", "events: Ir\nfn=only_here\n1 7\n");
    let output =
        Command::new(env!("CARGO_BIN_EXE_tallygraph")).arg("annotate").current_dir(&folder).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("only_here"));
}

/// Self costs by file and function, as callgrind_annotate prints them.
fn rows_of_callgrind_annotate(text: &str) -> BTreeMap<String, i64> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let Some((numbers, name)) = line.trim_start().split_once("  ") else { continue };
        let Ok(cost) = numbers.trim().replace(',', "").parse::<i64>() else { continue };
        let name = name.trim().split(" [").next().unwrap().to_string();
        *rows.entry(name).or_default() += cost;
    }
    rows
}

#[test]
fn numbers_are_those_of_callgrind_annotate() {
    if !installed("callgrind_annotate", "REQUIRE_VALGRIND") {
        return;
    }
    for name in ["plain", "uncompressed", "separate_callers", "separate_threads", "cachegrind"] {
        let path = super::fixtures().join(format!("valid/{name}.out"));
        let output = Command::new("callgrind_annotate")
            .args(["--auto=no", "--threshold=100", "--show=Ir", "--show-percs=no"])
            .arg(&path)
            .output()
            .unwrap();
        let theirs = rows_of_callgrind_annotate(&String::from_utf8_lossy(&output.stdout));
        let path = path.to_str().unwrap().to_string();
        let ours = run(&["annotate", &path, "--format=json", "--threshold=100"]).with_status(0).json();
        // Theirs are by the file of the line, so ours are added up that way.
        let mut rows: BTreeMap<String, i64> = BTreeMap::new();
        for line in ours["lines"].as_array().unwrap() {
            let key = format!("{}:{}", line["file"].as_str().unwrap(), line["function"].as_str().unwrap());
            *rows.entry(key).or_default() += line["self"][0].as_i64().unwrap();
        }
        rows.insert("PROGRAM TOTALS".to_string(), ours["total"][0].as_i64().unwrap());
        rows.retain(|_, cost| *cost != 0);
        assert!(rows.len() > 2, "{name}");
        assert_eq!(theirs, rows, "{name}");
    }
}
