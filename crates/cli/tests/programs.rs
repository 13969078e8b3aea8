//! Real programs: behaviour against native, counts against the system's Valgrind.

mod common;

use common::{build, command, describe, profile, read, scratch, tallygraph};
use std::path::Path;

/// Programs that every Debian system has, with arguments, and whose counts are the same each time.
const PROGRAMS: &[&[&str]] = &[
    &["/bin/true"],
    &["/bin/echo", "Hello, World!"],
    &["/bin/ls", "-l", "/usr/lib"],
    &["/bin/gzip", "-c", "/usr/share/common-licenses/GPL-3"],
    &["/bin/bash", "-c", "for i in 1 2 3; do echo $((i * i)); done; echo $(echo sub) | cat; (exit 7)"],
    &["/usr/bin/perl", "-e", "my %h; $h{$_ % 97} .= chr(65 + $_ % 26) for 1 .. 3000; print length $h{5}"],
];

#[test]
fn programs_behave_as_natively() {
    let dir = scratch("natively");
    for words in PROGRAMS {
        let native = command(words[0]).args(&words[1..]).output().expect("the program starts");
        let (output, out) = profile(&dir, &[], words);
        assert_eq!(output.status.code(), native.status.code(), "{}", describe(words[0], &output));
        assert_eq!(output.stdout, native.stdout, "{}", describe(words[0], &output));
        assert!(read(&out).total > 1000);
    }
}

/// CPU features that Valgrind hides are hidden from the guest's libc too.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ,-AVX2,-AVX,-FMA,-FMA4,\
-SSSE3,-SSE4_1,-SSE4_2,-BMI1,-BMI2,-LZCNT,-MOVBE,-POPCNT,-ERMS,-FSRM,-RTM,-XSAVEC,-XSAVE,-OSXSAVE,\
-AVX_Fast_Unaligned_Load,-Fast_Unaligned_Copy,-Fast_Unaligned_Load,-Fast_Copy_Backward,-Fast_Rep_String,\
-Slow_BSF,-Prefer_No_VZEROUPPER,-Prefer_ERMS,-Prefer_FSRM:glibc.cpu.x86_data_cache_size=32768:\
glibc.cpu.x86_shared_cache_size=1048576:glibc.cpu.x86_non_temporal_threshold=3145728:\
glibc.cpu.x86_rep_movsb_threshold=2048:glibc.cpu.x86_rep_stosb_threshold=2048";

/// Functions whose counts differ for a known reason (docs/counting.md, "Differences").
fn excused(object: &str, function: &str) -> bool {
    object.starts_with("ld-")
        || object.starts_with("vgpreload")
        || object == "???"
        || function.starts_with("0x")
        // String functions: their cost depends on the alignment of strings on the stack, which the
        // environment that Valgrind adds to moves.
        || function.ends_with("_sse2")
        || function.ends_with("_sse2_unaligned")
        // Run once more for Valgrind's preloaded library, or walk the list of libraries.
        || matches!(
            function,
            "_start" | "__libc_start_main@@GLIBC_2.34" | "__cxa_finalize" | "__unregister_atfork" | "getenv"
                | "_dl_find_object" | "_IO_file_doallocate" | "exit" | "_Exit" | "_exit" | "fclose" | "main" | "__cpu_indicator_init"
                | "_init" | "_fini" | "strrchr" | "strchr" | "setlocale" | "__run_exit_handlers"
        )
}

#[test]
fn counts_equal_valgrinds() {
    if std::process::Command::new("valgrind").arg("--version").output().is_err() {
        assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "valgrind is required and not installed");
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let dir = scratch("valgrind");
    let exceptions = build("unwind_exceptions.cpp", &dir);
    let exceptions = exceptions.to_str().expect("a plain path");
    let text = "/usr/share/common-licenses/GPL-3";
    for words in [vec![exceptions], vec!["/bin/gzip", "-c", text], vec!["/usr/bin/xz", "-0", "-c", text]] {
        if !Path::new(words[0]).exists() {
            assert!(std::env::var_os("REQUIRE_VALGRIND").is_none(), "{} is not installed", words[0]);
            eprintln!("skipped: {} is not installed", words[0]);
            continue;
        }
        let theirs = dir.join("theirs.out");
        let run = |program: &str, out: &Path, first: &[&str]| {
            let output = command("setarch")
                .args(["x86_64", "-R", program])
                .args(first)
                .arg(format!("--callgrind-out-file={}", out.display()))
                .args(&words)
                .env("GLIBC_TUNABLES", TUNABLES)
                .env("LD_BIND_NOW", "1")
                .output()
                .expect("the profiler starts");
            assert!(output.status.success(), "{}", describe(&words.join(" "), &output));
            read(out)
        };
        let valgrind = run("valgrind", &theirs, &["-q", "--tool=callgrind"]);
        let ours = run(tallygraph(), &dir.join("ours.out"), &["-q", "--tool=callgrind"]);
        let mut compared = 0;
        for ((object, function), cost) in &valgrind.own {
            // Small costs in libc are its start-up: Valgrind's preloaded library adds to them (resolvers
            // of indirect functions run once more, lists are longer).
            if excused(object, function) || object == "libc.so.6" && *cost < 2000 {
                continue;
            }
            let key = (object.clone(), function.clone());
            let ours = ours.own.get(&key).copied().unwrap_or(0);
            assert_eq!(ours, *cost, "{words:?}: self cost of {object}:{function}");
            compared += 1;
        }
        // Stripped programs have addresses for names, cut differently: their objects are compared. The
        // last block before the end is lost by Callgrind, and libgcc asks the CPU, which Valgrind imitates.
        let by_object = |p: &common::Profile| {
            let mut sums = std::collections::BTreeMap::<String, u64>::new();
            for ((object, _), cost) in &p.own {
                *sums.entry(object.clone()).or_default() += cost;
            }
            sums
        };
        let (theirs, mine) = (by_object(&valgrind), by_object(&ours));
        for (object, cost) in &theirs {
            if object.starts_with("ld-")
                || object.starts_with("vgpreload")
                || object == "???"
                || object == "libc.so.6"
            {
                continue;
            }
            let mine = mine.get(object).copied().unwrap_or(0);
            assert!(mine.abs_diff(*cost) <= 500, "{words:?}: {object}: {mine} here, {cost} there");
            compared += 1;
        }
        assert!(compared >= 1, "{words:?}: nothing was compared");
    }
}

#[test]
fn a_killed_program_leaves_a_profile_too() {
    let dir = scratch("killed");
    let (output, out) = profile(&dir, &[], &["/bin/bash", "-c", "kill -TERM $$"]);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(15), "{}", describe("kill -TERM", &output));
    assert!(read(&out).total > 1000);
}

#[test]
fn executing_a_program_leaves_no_spool_and_a_failure_loses_none() {
    let dir = scratch("executing");
    let script = |name: &str, text: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("a file is written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("the mode is set");
        format!("exec {{'{}'}} 'x'; exit 3", path.display())
    };
    let failing = script("script", b"#!/no/such/interpreter\n");
    // An ELF file of this machine that has no segments: only the kernel finds that out.
    let mut elf = std::fs::read("/proc/self/exe").expect("an own program")[..64].to_vec();
    elf[54..58].fill(0);
    let _ = script("broken", &elf);
    let exec_broken = format!("exec {}", dir.join("broken").display());
    let cases: &[(&[&str], &[&str], i32)] = &[
        (&[], &["/bin/bash", "-c", "exec /bin/true"], 0),
        (&["--trace-children=yes"], &["/bin/bash", "-c", "exec /bin/false"], 1),
        (&["--tool=none"], &["/bin/bash", "-c", "exec /bin/true"], 0),
        // The program goes on, and its whole profile is written.
        (&[], &["/usr/bin/perl", "-e", &failing], 3),
        (&["--trace-children=yes"], &["/usr/bin/perl", "-e", &failing], 3),
        (&[], &["/bin/bash", "-c", &exec_broken], 126),
    ];
    for (options, words, status) in cases {
        let out = dir.join("out.%p");
        let child = command(tallygraph())
            .args(["run", "-q"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .args(*options)
            .args(*words)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("tallygraph starts");
        let pid = child.id();
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(*status), "{}", describe(&words.join(" "), &output));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("tallygraph:"), "{words:?}: {text}");
        if options != &["--tool=none"] {
            assert!(read(&dir.join(format!("out.{pid}"))).total > 1000, "{words:?}");
        }
        let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("own facts"));
        for place in ["/dev/shm", "/tmp"] {
            let spool = format!("{place}/tallygraph-{uid}/{pid}.spool");
            assert!(!Path::new(&spool).exists(), "{options:?} {words:?}: {spool} is left");
        }
    }
}

#[test]
fn mistakes_end_with_the_documented_status_before_anything_runs() {
    let dir = scratch("mistakes");
    let missing = dir.join("no/such/dir/out");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run", "no-such-program-anywhere"], 127, "no-such-program-anywhere"),
        (&["run", "/tmp"], 126, "directory"),
        (&["run", "--bogus=1", "true"], 1, "--bogus"),
        (&["--tool=callgrind"], 1, "no program specified"),
        (&["run", "--cache-sim=maybe", "true"], 1, "--cache-sim=maybe"),
        (&["run", "--callgrind-out-file=%q{NO_SUCH_VARIABLE}", "true"], 1, "NO_SUCH_VARIABLE"),
    ];
    for (words, status, part) in cases {
        let output =
            command(tallygraph()).current_dir(&dir).args(*words).output().expect("tallygraph starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(*status), "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: {text}");
    }
    let option = format!("--callgrind-out-file={}", missing.display());
    let output = command(tallygraph()).args(["run", &option, "true"]).output().expect("tallygraph starts");
    assert_eq!(output.status.code(), Some(1));
}
