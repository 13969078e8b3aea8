//! Exports read by the programs they are for, where those are installed.
//!
//! `dot` and `gprof2dot` are looked for on the path, pprof-format in `TALLYGRAPH_NODE_MODULES`,
//! a `node_modules` folder, DuckDB in python3. `REQUIRE_CONSUMERS=1` makes a missing one a failure.

use super::{fixtures, installed, out, run, scratch};
use std::path::PathBuf;
use std::process::Command;

#[test]
fn graphviz_lays_out_the_call_graph() {
    if !installed("dot", "REQUIRE_CONSUMERS") {
        return;
    }
    let path = scratch("dot").join("g.dot");
    out(&["export", "valid/plain.out", "-f", "dot", "-o", path.to_str().unwrap()]);
    let output = Command::new("dot").arg("-Tplain").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plain = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(plain.lines().filter(|l| l.starts_with("node ")).count(), 8, "{plain}");
    assert_eq!(plain.lines().filter(|l| l.starts_with("edge ")).count(), 9, "{plain}");
}

/// gprof2dot stops at the first line it does not know; `validate` says at which files.
#[test]
fn gprof2dot_refuses_what_we_say_it_does() {
    if !installed("gprof2dot", "REQUIRE_CONSUMERS") {
        return;
    }
    let mut refused = 0;
    for entry in std::fs::read_dir(fixtures().join("valid")).unwrap() {
        let path = entry.unwrap().path();
        let output = Command::new("gprof2dot").args(["-f", "callgrind"]).arg(&path).output().unwrap();
        let said = run(&["validate", path.to_str().unwrap(), "--format=json"]).with_status(0).json();
        let findings = said["files"][0]["findings"].as_array().unwrap();
        let ours = findings.iter().any(|f| f["consumer"] == "gprof2dot");
        let theirs = !output.stderr.is_empty();
        assert_eq!(ours, theirs, "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        refused += usize::from(theirs);
    }
    assert!(refused >= 4, "only {refused} files were refused");
}

#[test]
fn pprof_format_decodes_the_profile() {
    let modules = std::env::var_os("TALLYGRAPH_NODE_MODULES").map(PathBuf::from);
    let Some(modules) = modules.filter(|m| m.join("pprof-format").is_dir()) else {
        assert!(std::env::var_os("REQUIRE_CONSUMERS").is_none(), "pprof-format is required");
        eprintln!("skipped: TALLYGRAPH_NODE_MODULES has no pprof-format");
        return;
    };
    let path = scratch("pprof-format").join("p.pb.gz");
    out(&["export", "valid/plain.out", "-f", "pprof", "-o", path.to_str().unwrap()]);
    let script = "const {Profile} = require(process.argv[1] + '/pprof-format');\
        const bytes = require('zlib').gunzipSync(require('fs').readFileSync(process.argv[2]));\
        const p = Profile.decode(bytes);\
        const text = (i) => p.stringTable.strings[i];\
        console.log(text(p.sampleType[0].type), String(p.sample.reduce((a, s) => a + BigInt(s.value[0]), 0n)),\
            p.function.map((f) => text(f.name)).includes('squares'));";
    let output = Command::new("node").args(["-e", script]).arg(modules).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "Ir 586 true", "{}", String::from_utf8_lossy(&output.stderr));
}

/// DuckDB adds up the tables, by its Python module.
#[test]
fn duckdb_adds_up_the_tables() {
    let present =
        Command::new("python3").args(["-c", "import duckdb"]).output().is_ok_and(|o| o.status.success());
    if !present {
        assert!(std::env::var_os("REQUIRE_CONSUMERS").is_none(), "duckdb is required");
        eprintln!("skipped: python3 has no module duckdb");
        return;
    }
    let folder = scratch("duckdb");
    let formats: &[&str] = if cfg!(feature = "parquet") { &["csv", "parquet"] } else { &["csv"] };
    for format in formats {
        let path = folder.join(format!("functions.{format}"));
        out(&["export", "valid/plain.out", "-f", format, "-o", path.to_str().unwrap()]);
        let script = "import duckdb, sys; print(duckdb.sql(f\"select sum(self_Ir), count(*), count(cycle), \
            max(inclusive_Ir) from '{sys.argv[1]}'\").fetchall())";
        let output = Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            said.trim(),
            "[(586, 8, 2, 586)]",
            "{format}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
