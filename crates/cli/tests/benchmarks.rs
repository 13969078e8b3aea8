//! The benchmark commands from outside: files, exit statuses, and what survives an interruption.
//!
//! Times differ from run to run, so what is asserted hangs on counts: a counting tool made of a
//! shell script reads its result from a file in the measured directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of its own for one test, removed when the test passed.
struct Place {
    root: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let root = std::env::temp_dir().join(format!("tallygraph-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        Place { root }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallygraph"));
        command.args(args).current_dir(&self.root);
        for name in ["GITHUB_STEP_SUMMARY", "TALLYGRAPH_STORE", "CLICOLOR_FORCE", "FORCE_COLOR"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must end with `status`; its standard output.
    fn expect(&self, status: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(
            output.status.code(),
            Some(status),
            "tallygraph {}\nin {}\nstdout:\n{out}\nstderr:\n{err}",
            args.join(" "),
            self.root.display()
        );
        if status == 0 || status == 3 { out.into_owned() } else { err.into_owned() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// A benchmark file whose counting tool gives the number in `{dir}/count`.
const COUNTED: &str = r#"
name = "counted"
[run]
repeat = 1
min_blocks = 2
max_blocks = 2
[counts]
command = ["sh", "-c", 'printf "events: Ir\nfn=work\n1 %s\ntotals: %s\n" "$(cat {dir}/count)" "$(cat {dir}/count)" > "$1"', "count", "{out}"]
[[command]]
name = "work"
argv = ["true"]
[[command]]
name = "rest"
argv = ["sh", "-c", "exit 0"]
"#;

fn sides(name: &str, base: u64, head: u64) -> Place {
    let place = Place::new(name);
    place.write("bench.toml", COUNTED);
    place.write("base/count", &base.to_string());
    place.write("head/count", &head.to_string());
    place
}

fn bench_counts(place: &Place, campaign: &str) {
    place.expect(
        0,
        &[
            "bench",
            "bench.toml",
            "--base",
            "base",
            "--head",
            "head",
            "--counts-only",
            "-q",
            "--campaign",
            campaign,
        ],
    );
}

#[test]
fn a_regression_fails_the_comparison_until_it_is_acknowledged() {
    let place = sides("acknowledge", 1_000_000, 1_100_000);
    bench_counts(&place, "c1");
    let compare = ["compare", "c1-base", "c1", "--metric", "Ir"];
    let text = place.expect(3, &compare);
    assert!(text.contains("degrade performance by 9.09%"), "{text}");
    assert!(text.contains("1,000,000") && text.contains("1,100,000") && text.contains("-9.09%"), "{text}");
    assert!(text.contains("work: self cost 1,000,000 → 1,100,000 (+10.00% of the total)"), "{text}");
    place.expect(
        0,
        &["acknowledge", "counted[*", "-m", "checks its input", "--author", "ada", "--metric", "Ir"],
    );
    let decisions = place.read("benchmarks.decisions.toml");
    assert!(decisions.contains("author = \"ada\"") && decisions.contains("checks its input"), "{decisions}");
    let text = place.expect(0, &compare);
    assert!(text.contains("2 acknowledged benchmarks") && text.contains("ada: checks its input"), "{text}");
    place.expect(0, &["acknowledge", "counted[*", "--remove"]);
    place.expect(3, &compare);
}

#[test]
fn the_report_comes_in_every_format_and_in_a_jobs_summary() {
    let place = sides("formats", 1_000_000, 900_000);
    bench_counts(&place, "c1");
    let base = ["compare", "c1-base", "c1", "--metric", "Ir"];
    let with = |more: &[&str]| place.expect(0, &[&base[..], more].concat());
    let json: serde_json::Value = serde_json::from_str(&with(&["--format", "json"])).unwrap();
    assert_eq!(json["rows"][0]["status"], "improved");
    assert_eq!(json["schema"], 1);
    assert!(
        with(&["--format", "markdown"]).starts_with("## Merging this PR will improve performance by 11.11%")
    );
    with(&["--format", "html", "-o", "report.html"]);
    assert!(place.read("report.html").contains("<table>"));
    place.write("mine.md", "{{ rows | length }} rows\n");
    assert_eq!(with(&["--format", "markdown", "--template", "mine.md"]), "2 rows\n");
    let mut command = place.command(&base);
    let output = command.env("GITHUB_STEP_SUMMARY", place.root.join("summary.md")).output().unwrap();
    assert!(output.status.success());
    assert!(place.read("summary.md").contains("| ⚡ |"));
}

#[test]
fn an_interrupted_session_continues_without_losing_or_repeating_a_sample() {
    let place = Place::new("resume");
    // Every run leaves a line; the seventh one kills the measuring process.
    place.write(
        "bench.toml",
        r#"
name = "resumed"
[run]
repeat = 2
warm_up = 1
min_blocks = 3
max_blocks = 3
[counts]
enabled = false
[[command]]
name = "one"
argv = ["sh", "-c", 'echo run >> {dir}/log; if [ "$(wc -l < {dir}/log)" = 7 ]; then kill -9 $PPID; fi']
[[command]]
name = "two"
argv = ["sh", "-c", 'echo run >> {dir}/log; if [ "$(wc -l < {dir}/log)" = 7 ]; then kill -9 $PPID; fi']
"#,
    );
    let first = place.run(&["bench", "bench.toml", "-q", "--campaign", "c1", "--seed", "5"]);
    assert_eq!(first.status.code(), None, "killed by the seventh run");
    let text = place.expect(0, &["bench", "bench.toml", "--campaign", "c1", "--seed", "5"]);
    assert!(text.contains("6 runs"), "{text}");
    // 2 benchmarks x 4 blocks x 2 runs, and the one that did the killing.
    assert_eq!(place.read("log").lines().count(), 17);
    let csv = place.expect(0, &["history", "export", "--format", "csv"]);
    let wall: Vec<&str> = csv.lines().filter(|l| l.contains(",wall,")).collect();
    assert_eq!(wall.len(), 16, "{csv}");
    let slots: std::collections::BTreeSet<&str> =
        wall.iter().map(|l| l.rsplit_once(',').unwrap().0).collect();
    assert_eq!(slots.len(), 16, "every slot once");
    assert_eq!(
        wall.iter().filter(|l| l.contains(",0,0,1,") || l.contains(",0,1,1,")).count(),
        4,
        "warm-up kept"
    );
}

#[test]
fn shards_measured_apart_merge_into_one_campaign() {
    let place = sides("shards", 1_000_000, 1_000_000);
    for shard in ["1/2", "2/2"] {
        let store = format!("{}.sqlite", shard.replace('/', "-"));
        let bench = ["bench", "bench.toml", "--head", "head", "--counts-only", "-q", "--campaign", "night"];
        place.expect(0, &[&bench[..], &["--shard", shard, "--store", &store]].concat());
    }
    place.expect(0, &["history", "--store", "all.sqlite", "merge", "1-2.sqlite", "2-2.sqlite"]);
    let text = place.expect(0, &["history", "--store", "all.sqlite", "show", "--metric", "Ir"]);
    assert!(
        text.contains("counted[native, work, default]") && text.contains("counted[native, rest, default]")
    );
    assert_eq!(place.expect(0, &["history", "--store", "all.sqlite", "list"]).lines().count(), 1);
}

#[test]
fn times_of_two_sides_are_measured_in_common_blocks() {
    let place = sides("blocks", 1, 1);
    let args =
        ["bench", "bench.toml", "--base", "base", "--head", "head", "--no-counts", "-q", "--campaign", "c1"];
    place.expect(0, &args);
    let text = place.expect(0, &["history", "export", "c1", "c1-base"]);
    for metric in ["wall", "user", "system", "max_rss", "minor_faults", "voluntary_switches", "steal"] {
        assert!(text.contains(&format!("\"metric\":\"{metric}\"")), "{metric} is missing");
    }
    let compared = place.expect(0, &["compare", "c1-base", "c1", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(json["rows"][0]["blocks"], 2, "blocks in common: {compared}");
    assert_eq!(json["rows"][0]["status"], "unknown", "two blocks decide nothing");
}

#[test]
fn the_noise_floor_is_part_of_later_reports() {
    let place = sides("noise", 1, 1);
    let blocks = ["--min-blocks", "5", "--max-blocks", "5", "--repeat", "2", "--no-counts", "-q"];
    let bench = |more: &[&str]| place.expect(0, &[&["bench", "bench.toml"], &blocks[..], more].concat());
    bench(&["--noise-floor", "--campaign", "floor"]);
    bench(&["--base", "base", "--head", "head", "--campaign", "c1"]);
    bench(&["--head", "head", "--noise-floor", "--campaign", "floor2"]);
    let output = place.run(&["compare", "c1-base", "latest", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["head"]["id"], "c1", "the newest result, not the newer noise floor");
    assert_eq!(json["noise"]["benchmarks"], 2);
    assert!(json["rows"][0]["noise_floor"].as_f64().unwrap() > 0.0);
}

#[test]
fn runs_that_fail_are_named_and_leave_the_others_alone() {
    let place = Place::new("failing");
    place.write(
        "bench.toml",
        r#"
name = "failing"
[run]
min_blocks = 1
max_blocks = 1
[counts]
enabled = false
[[command]]
name = "good"
argv = ["echo", "fine"]
expect_output = "fine"
[[command]]
name = "wrong output"
argv = ["echo", "other"]
expect_output = "fine"
[[command]]
name = "wrong status"
argv = ["sh", "-c", "echo it broke >&2; exit 4"]
[[command]]
name = "endless"
argv = ["sleep", "1000"]
timeout = "300ms"
[[command]]
name = "absent"
argv = ["no-such-program"]
optional = true
"#,
    );
    let text = place.expect(0, &["bench", "bench.toml", "-q"]);
    for part in [
        "failing[native, wrong output, default]: echo: the output does not hold `fine`",
        "failing[native, wrong status, default]: sh: exit status 4 instead of exit status 0: it broke",
        "failing[native, endless, default]: sleep: not done after 300ms",
        "failing[native, absent, default]: no-such-program is not installed",
    ] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    let good = text.lines().find(|l| l.contains("[native, good, default]")).unwrap();
    assert!(good.contains("2 runs"), "{text}");
}

#[test]
fn results_of_hyperfine_are_compared_and_imported() {
    let place = Place::new("hyperfine");
    let file = |times: &str| format!(r#"{{"results":[{{"command":"sleep 1","times":[{times}]}}]}}"#);
    place.write("a.json", &file("1.00,1.01,1.02,1.00,1.01,1.02,1.00"));
    place.write("b.json", &file("1.20,1.21,1.22,1.20,1.21,1.22,1.20"));
    let unsure = place.expect(0, &["compare", "a.json", "b.json"]);
    assert!(unsure.contains("1 unknown") && unsure.contains("measured one after the other"), "{unsure}");
    place.expect(3, &["compare", "a.json", "b.json", "--trust-sequential"]);
    place.expect(3, &["compare", "a.json", "b.json", "--rule", "fixed"]);
    place.expect(0, &["history", "import", "a.json", "--campaign", "a", "--commit", "1234567"]);
    place.expect(0, &["history", "import", "b.json", "--campaign", "b", "--started", "2030-01-01T00:00:00Z"]);
    place.expect(3, &["compare", "1234567", "b", "--trust-sequential"]);
    let text = place.expect(0, &["history", "show"]);
    assert!(text.contains("1 s") && text.contains("1.2 s"), "{text}");
}

#[test]
fn an_investigation_reads_the_store() {
    let place = Place::new("investigate");
    for (i, value) in ["0.7336", "0.7489", "71.6", "29.8", "0.714"].iter().enumerate() {
        let name = format!("r{i}.json");
        place.write(&name, &format!(r#"{{"results":[{{"command":"echo","times":[{value}]}}]}}"#));
        let started = format!("2026-06-0{}T00:00:00Z", i + 1);
        let campaign = format!("run{i}");
        place.expect(0, &["history", "import", &name, "--campaign", &campaign, "--started", &started]);
    }
    let text = place.expect(0, &["investigate", "echo", "--base", "run0", "--head", "run3"]);
    for part in
        ["Walltime noise", "Single shot without warm-up", "| run2 (2026-06-03)", "Possible mitigations"]
    {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    let json = place.expect(0, &["investigate", "echo", "--head", "run3", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["verdict"], "noise");
}

#[test]
fn bad_input_is_one_line_with_the_right_status() {
    let place = Place::new("errors");
    let line = |status: i32, args: &[&str], part: &str| {
        let text = place.expect(status, args);
        assert!(text.contains(part), "`{part}` is missing: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    line(1, &["bench", "none.toml"], "none.toml: No such file");
    place.write("bad.toml", "name = 'x'\n[[command]]\nname = 'c'\nargs = ['a']");
    line(2, &["bench", "bad.toml"], "bad.toml: line 4: unknown field `args`");
    line(1, &["compare", "a", "b"], "no such store");
    line(1, &["history", "list"], "no such store");
    line(1, &["history", "import", "bad.toml"], "bad.toml: not a result of");
    line(1, &["ignore", "x", "--remove"], "no such decision on `x`");
    line(2, &["archive", "x", "-m", "gone", "--author", "a", "--until", "soon"], "not a date");
    place.write("a.json", r#"{"results":[{"command":"x","times":[1.0]}]}"#);
    line(1, &["compare", "a.json", "a.json", "--metric", "Ir"], "has values of the metric `Ir`");
    line(2, &["compare", "a.json", "a.json", "--threshold", "5"], "--threshold");
    place.expect(0, &["history", "import", "a.json", "--campaign", "one"]);
    line(1, &["compare", "two", "one"], "no campaign matches `two`");
    line(2, &["compare", "one", "one"], "the same campaign");
    line(2, &["investigate"], "name a benchmark");
    place.write("benchmarks.decisions.toml", "[[ignore]]\nbenchmark = 'x'\nauthor = 'a'\nreason = ''");
    line(1, &["compare", "a.json", "a.json"], "the reason is empty");
    place.expect(2, &["bench"]);
    place.expect(2, &["compare", "a", "b", "--format", "pdf"]);
    place.expect(0, &["bench", "--help"]);
    assert!(Path::new(&place.root).join(".tallygraph/benchmarks.sqlite").is_file());
}
