//! Simulated events: stated counts per instruction, equality with Valgrind, the same under every stress option.

mod common;

use common::{STRESS, command, describe, scratch, tallygraph};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Caches of a fixed size, whatever the machine.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];
const ALL: [&str; 3] = ["--cache-sim=yes", "--branch-sim=yes", "--collect-bus=yes"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated")
}

type Costs = BTreeMap<String, i64>;

/// What a profile says, with all its events.
#[derive(Debug, Default, PartialEq)]
struct Events {
    totals: Costs,
    /// By object's base name and function.
    own: BTreeMap<(String, String), Costs>,
    /// Inclusive, by caller and callee.
    calls: BTreeMap<(String, String), Costs>,
}

fn read(path: &Path) -> Events {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut names: BTreeMap<(u8, String), String> = BTreeMap::new();
    let mut name = |space: u8, text: &str| -> String {
        let Some((id, rest)) = text.strip_prefix('(').and_then(|t| t.split_once(')')) else {
            return text.into();
        };
        match rest.strip_prefix(' ') {
            Some(full) => {
                names.insert((space, id.into()), full.into());
                full.into()
            }
            None => names[&(space, id.into())].clone(),
        }
    };
    let (mut object, mut function, mut callee, mut is_call) =
        (String::new(), String::new(), String::new(), false);
    let mut columns: Vec<String> = Vec::new();
    let mut found = Events::default();
    let mut sums = Costs::new();
    for line in text.lines() {
        let (key, value) = line.split_once('=').unwrap_or(("", ""));
        let add = |costs: &mut Costs, values: &str| {
            for (column, v) in columns.iter().zip(values.split_whitespace()) {
                *costs.entry(column.clone()).or_default() += v.parse::<i64>().expect("a cost");
            }
        };
        match key {
            "ob" => object = name(b'o', value).rsplit('/').next().unwrap_or("").to_string(),
            "cob" => drop(name(b'o', value)),
            "fn" => function = name(b'n', value),
            "cfn" => callee = name(b'n', value),
            "calls" => is_call = true,
            _ if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) => {
                let values = line.split_once(' ').map_or("", |l| l.1);
                if std::mem::take(&mut is_call) {
                    add(found.calls.entry((function.clone(), callee.clone())).or_default(), values);
                } else {
                    add(found.own.entry((object.clone(), function.clone())).or_default(), values);
                    add(&mut sums, values);
                }
            }
            _ => {
                if let Some(list) = line.strip_prefix("events: ") {
                    columns = list.split(' ').map(str::to_string).collect();
                } else if let Some(values) = line.strip_prefix("totals: ") {
                    add(&mut found.totals, values);
                }
            }
        }
    }
    for column in &columns {
        let of = |costs: &Costs| costs.get(column).copied().unwrap_or(0);
        assert_eq!(of(&sums), of(&found.totals), "{}: {column}: lines and totals differ", path.display());
    }
    found
}

fn of(costs: &Costs, event: &str) -> i64 {
    costs.get(event).copied().unwrap_or(0)
}

/// Runs a program under a profiler with events and options.
fn run(profiler: &str, dir: &Path, options: &[&str], words: &[&str]) -> Events {
    let out = dir.join(if profiler == "valgrind" { "theirs.out" } else { "ours.out" });
    let _ = std::fs::remove_file(&out);
    let output = command("setarch")
        .args(["x86_64", "-R", profiler, "-q", "--tool=callgrind"])
        .args(CACHES)
        .args(options)
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args(words)
        .env("LD_BIND_NOW", "1")
        .env("GLIBC_TUNABLES", TUNABLES)
        .output()
        .expect("the profiler starts");
    assert!(output.status.success(), "{}", describe(&format!("{profiler} {words:?}"), &output));
    read(&out)
}

/// As in `programs.rs`: what Valgrind hides of the CPU is hidden from the guest's libc.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ,-AVX2,-AVX,-FMA,-FMA4,\
-SSSE3,-SSE4_1,-SSE4_2,-BMI1,-BMI2,-LZCNT,-MOVBE,-POPCNT,-ERMS,-FSRM,-RTM,-XSAVEC,-XSAVE,-OSXSAVE,\
-AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy,-Fast_Unaligned_Load,-Fast_Copy_Backward,-Fast_Rep_String,\
-Slow_BSF,-Prefer_No_VZEROUPPER,-Prefer_ERMS,-Prefer_FSRM:glibc.cpu.x86_data_cache_size=32768:\
glibc.cpu.x86_shared_cache_size=1048576:glibc.cpu.x86_non_temporal_threshold=3145728:\
glibc.cpu.x86_rep_movsb_threshold=2048:glibc.cpu.x86_rep_stosb_threshold=2048";

fn has_valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok();
    assert!(
        found || std::env::var_os("REQUIRE_VALGRIND").is_none(),
        "valgrind is required and not installed"
    );
    if !found {
        eprintln!("skipped in part: valgrind is not installed");
    }
    found
}

/// A static program that runs each sequence in a function of its own, 50 times.
fn build_sequences(dir: &Path, sequences: &[String]) -> PathBuf {
    let mut text = String::from(".text\n.globl _start\n_start:\n  and $-64,%rsp\n  sub $1024,%rsp\n");
    text += "  lea (%rsp),%rsi\n  mov $158,%eax\n  mov $0x1002,%edi\n  syscall\n";
    for n in 0..sequences.len() {
        text += &format!(
            "  mov $50,%r15d\n9:\n  xor %eax,%eax\n  xor %ebx,%ebx\n  call sequence{n}\n  dec %r15d\n  jnz 9b\n"
        );
    }
    text += "  mov $60,%eax\n  xor %edi,%edi\n  syscall\n";
    for (n, sequence) in sequences.iter().enumerate() {
        let body = sequence.replace("there", &format!("there{n}")).replace(';', "\n");
        text += &format!(
            "  .type sequence{n},@function\nsequence{n}:\n  {body}\n  jmp return{n}\n  .size sequence{n},.-sequence{n}\n\
             .type return{n},@function\nreturn{n}:\n  ret\n  .size return{n},.-return{n}\n"
        );
    }
    text += ".data\n.balign 64\nbuf: .fill 8192,1,0\nhundred: .long 100\nnone: .long 0\n";
    let source = dir.join("sequences.S");
    std::fs::write(&source, text).expect("a source file");
    let program = dir.join("sequences");
    let output = Command::new("gcc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&program, &source])
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn every_instruction_class_counts_what_is_stated_and_what_valgrind_counts() {
    const COLUMNS: [&str; 6] = ["Ir", "Dr", "Dw", "Bc", "Bi", "Ge"];
    let text = std::fs::read_to_string(sources().join("instructions.txt")).expect("the table");
    let mut stated = Vec::new();
    let mut sequences = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
        let (numbers, sequence) = line.split_once("  ").expect("numbers and a sequence");
        let differs = numbers.starts_with('~');
        let numbers: Vec<i64> =
            numbers.trim_start_matches('~').split(' ').map(|n| n.parse().expect("a number")).collect();
        assert_eq!(numbers.len(), 6, "{line}");
        stated.push((differs, numbers));
        sequences.push(sequence.to_string());
    }
    assert!(sequences.len() > 70, "lines are missing");
    let dir = scratch("instructions");
    let program = build_sequences(&dir, &sequences);
    let program = program.to_str().expect("a plain path");
    let ours = run(tallygraph(), &dir, &ALL, &[program]);
    let theirs = has_valgrind().then(|| run("valgrind", &dir, &ALL, &[program]));
    for (n, (sequence, (differs, numbers))) in sequences.iter().zip(&stated).enumerate() {
        let per_run = |e: &Events, column: &str| {
            // What is called inside a sequence is its second level.
            let names = [format!("sequence{n}"), format!("sequence{n}'2")];
            let parts = e.own.iter().filter(|(k, _)| names.contains(&k.1));
            let all: i64 = parts.map(|(_, costs)| of(costs, column)).sum();
            assert_eq!(all % 50, 0, "{sequence}: {column}: not the same each time");
            // The jump to the return.
            all / 50 - i64::from(column == "Ir")
        };
        for (column, number) in COLUMNS.iter().zip(numbers) {
            assert_eq!(per_run(&ours, column), *number, "{sequence}: {column}");
            if let Some(theirs) = &theirs
                && !differs
            {
                assert_eq!(per_run(theirs, column), *number, "{sequence}: {column}, Valgrind's");
            }
        }
    }
}

fn build_fixed_addresses(dir: &Path) -> String {
    let program = dir.join("fixed_addresses");
    let output = Command::new("gcc")
        .args([
            "-O2",
            "-fno-stack-protector",
            "-fcf-protection=none",
            "-nostdlib",
            "-static",
            "-fno-pie",
            "-no-pie",
        ])
        .arg("-o")
        .args([&program, &sources().join("fixed_addresses.c")])
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program.into_os_string().into_string().expect("a plain path")
}

#[test]
fn where_addresses_are_equal_every_event_is() {
    if !has_valgrind() {
        return;
    }
    let dir = scratch("fixed_addresses");
    let program = build_fixed_addresses(&dir);
    let small = ["--D1=1024,2,64", "--I1=256,1,64", "--LL=65536,4,64"];
    let large_lines = ["--D1=65536,2,128", "--I1=16384,4,32", "--LL=1048576,8,128"];
    let configurations: [&[&str]; 5] = [
        &["--cache-sim=yes"],
        &["--cache-sim=yes", "--simulate-hwpref=yes"],
        &["--cache-sim=yes", "--simulate-wb=yes"],
        &["--cache-sim=yes", small[0], small[1], small[2]],
        &["--cache-sim=yes", "--branch-sim=yes", large_lines[0], large_lines[1], large_lines[2]],
    ];
    for options in configurations {
        let ours = run(tallygraph(), &dir, options, &[&program]);
        let theirs = run("valgrind", &dir, options, &[&program]);
        let mut compared = 0;
        for (key, costs) in &theirs.own {
            for (event, &n) in costs {
                // The last block is not counted there; tests of a count known to be zero neither, and the history
                // that predictions depend on is another one then.
                if key.1 == "body" && event == "Ir" || ["Bc", "Bcm"].contains(&event.as_str()) {
                    continue;
                }
                assert_eq!(of(&ours.own[key], event), n, "{options:?}: {key:?}: {event}");
                compared += 1;
            }
        }
        for (key, costs) in theirs.calls.iter().filter(|(k, _)| k.0 == "body") {
            for (event, &n) in costs.iter().filter(|(e, _)| !["Bc", "Bcm"].contains(&e.as_str())) {
                assert_eq!(of(&ours.calls[key], event), n, "{options:?}: inclusive {key:?}: {event}");
                compared += 1;
            }
        }
        assert!(compared > 40, "{options:?}: only {compared} numbers were compared");
        let misses = of(&theirs.totals, "D1mr");
        assert!(misses > 1000, "{options:?}: the program is to miss, {misses}");
    }
}

#[test]
fn what_the_engine_does_changes_no_event_and_runs_are_equal() {
    let dir = scratch("simulation_stress");
    let program = build_fixed_addresses(&dir);
    let expected = run(tallygraph(), &dir, &ALL, &[&program]);
    assert!(of(&expected.totals, "DLmr") > 0 && of(&expected.totals, "Bim") > 0);
    for stress in std::iter::once("no-links").chain(STRESS.iter().copied()) {
        // Two runs with one option are two runs.
        let option = format!("--stress={stress}");
        let options = [ALL[0], ALL[1], ALL[2], &option];
        let found = run(tallygraph(), &dir, &options, &[&program]);
        assert_eq!(found.totals, expected.totals, "{option}");
        assert_eq!(found, expected, "{option}");
    }
}

#[test]
fn the_call_graph_holds_inclusive_events() {
    let dir = scratch("simulation_inclusive");
    let program = build_fixed_addresses(&dir);
    let p = run(tallygraph(), &dir, &ALL, &[&program]);
    let own = |f: &str| p.own.iter().find(|(k, _)| k.1 == f).map(|(_, c)| c).expect("a cost");
    for event in ["Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw", "Bc", "Bcm", "Bi", "Bim"]
    {
        let body: i64 = of(own("body"), event)
            + p.calls.iter().filter(|(k, _)| k.0 == "body").map(|(_, c)| of(c, event)).sum::<i64>();
        let start = p.calls.iter().find(|(k, _)| k.1 == "body").map(|(_, c)| c).expect("an edge");
        assert_eq!(of(start, event), body, "{event}");
    }
}

#[test]
fn certain_events_of_programs_equal_valgrinds() {
    if !has_valgrind() {
        return;
    }
    let dir = scratch("simulation_programs");
    let text = "/usr/share/common-licenses/GPL-3";
    for words in [vec!["/bin/gzip", "-c", text], vec!["/usr/bin/xz", "-0", "-c", text]] {
        if !Path::new(words[0]).exists() {
            assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "{} is not installed", words[0]);
            eprintln!("skipped: {} is not installed", words[0]);
            continue;
        }
        let ours = run(tallygraph(), &dir, &ALL, &words);
        let theirs = run("valgrind", &dir, &ALL, &words);
        let mut compared = 0;
        for (key, costs) in &theirs.own {
            let (object, function) = (key.0.as_str(), key.1.as_str());
            // The functions that do the work: those of start-up and of the end differ for the reasons in
            // docs/counting.md.
            if object.starts_with("ld-")
                || object == "???"
                || of(costs, "Ir") < 20_000
                || function.contains("memcpy")
            {
                continue;
            }
            let Some(own) = ours.own.get(key) else { panic!("{words:?}: {key:?} is missing") };
            // Functions without a symbol are cut at other places.
            if function.starts_with("0x") && of(own, "Ir") != of(costs, "Ir") {
                continue;
            }
            for event in ["Ir", "Dr", "Dw", "Bi", "Ge"] {
                assert_eq!(of(own, event), of(costs, event), "{words:?}: {key:?}: {event}");
            }
            // Tests that Valgrind knows the outcome of are not counted there.
            let branches = of(own, "Bc") - of(costs, "Bc");
            assert!((0..=of(costs, "Bc") / 1000).contains(&branches), "{words:?}: {key:?}: Bc {branches}");
            compared += 1;
        }
        assert!(compared >= 5, "{words:?}: only {compared} functions were compared");
    }
}

#[test]
fn system_calls_are_counted_where_they_are_made() {
    let dir = scratch("simulation_system");
    let source = dir.join("calls.S");
    let text = "
        .globl _start
        .text
        .type ask,@function
        ask: mov $39,%eax
             syscall
             ret
        .size ask,.-ask
        .type _start,@function
        _start: mov $10,%ebx
        1:   call ask
             dec %ebx
             jnz 1b
             mov $60,%eax
             xor %edi,%edi
             syscall
        .size _start,.-_start
    ";
    std::fs::write(&source, text).expect("a source file");
    let program = dir.join("calls");
    let status = Command::new("gcc")
        .args(["-nostdlib", "-static", "-o"])
        .args([&program, &source])
        .status()
        .expect("gcc");
    assert!(status.success());
    let program = program.to_str().expect("a plain path");
    for (unit, columns) in [("msec", 2), ("usec", 2), ("nsec", 3), ("yes", 2)] {
        let option = format!("--collect-systime={unit}");
        let p = run(tallygraph(), &dir, &[&option], &[program]);
        let ask = p.own.iter().find(|(k, _)| k.1 == "ask").map(|(_, c)| c).expect("a cost");
        // The call that ends the process does not return.
        assert_eq!((of(ask, "sysCount"), of(&p.totals, "sysCount")), (10, 10), "{unit}");
        let edge = p.calls.iter().find(|(k, _)| k.1 == "ask").map(|(_, c)| c).expect("an edge");
        assert_eq!(of(edge, "sysCount"), 10, "{unit}: inclusive");
        assert_eq!(p.totals.contains_key("sysCpuTime"), columns == 3, "{unit}");
        if unit == "nsec" {
            assert!(of(&p.totals, "sysTime") > 0 && of(edge, "sysTime") == of(&p.totals, "sysTime"));
        }
    }
}

#[test]
fn guests_behave_as_natively_while_events_are_simulated() {
    let dir = scratch("simulation_guests");
    let mut programs = Vec::new();
    for name in common::all_guests() {
        programs.push(common::build(&name, &dir));
    }
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    for prefix in [
        "flags_",
        "instructions_",
        "values_",
        "strings_",
        "stacks_",
        "threads_ends",
        "unwind_longjmp",
        "memory_",
    ] {
        for entry in std::fs::read_dir(&shared).expect("the shared guests") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|n| n.to_str()).expect("a plain name").to_string();
            let flags: &[&str] = match name.rsplit('.').next() {
                Some("S") => &["-nostdlib", "-static"],
                Some("c") => &["-O2", "-g", "-w", "-pthread"],
                _ => continue,
            };
            if !name.starts_with(prefix) {
                continue;
            }
            let program = dir.join(name.replace('.', "_"));
            let output =
                Command::new("gcc").args(flags).arg("-o").args([&program, &path]).output().expect("gcc");
            if output.status.success() {
                programs.push(program);
            }
        }
    }
    assert!(programs.len() >= 20, "guests are missing: {}", programs.len());
    for program in &programs {
        let native = command(program).output().expect("the guest starts");
        for options in [&ALL[..], &ALL[..1]] {
            let output = command("setarch")
                .args(["x86_64", "-R", tallygraph(), "run", "-q", "--collect-systime=nsec"])
                .args(CACHES)
                .args(options)
                .arg(format!("--callgrind-out-file={}", dir.join("out").display()))
                .arg(program)
                .output()
                .expect("tallygraph starts");
            let what = format!("{} with {options:?}", program.display());
            assert_eq!(output.status, native.status, "{}", describe(&what, &output));
            assert_eq!(output.stdout, native.stdout, "{}", describe(&what, &output));
            read(&dir.join("out"));
        }
    }
}
