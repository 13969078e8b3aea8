//! The profiler's front, end to end: what the guest sees, what is written, what is refused.
//!
//! Guests are C programs built here. Each is run natively and profiled; what it prints of itself must
//! be the same.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TALLYGRAPH: &str = env!("CARGO_BIN_EXE_tallygraph");

/// Prints everything a program can know of how it was started.
const SHOW: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>
extern char **environ;
static void bytes(const char *what, const char *s) {
    printf("%s ", what);
    for (; *s; s++)
        printf("%02x", (unsigned char)*s);
    printf("\n");
}
int main(int argc, char **argv) {
    printf("argc %d\n", argc);
    for (char **a = argv; *a; a++) bytes("argv", *a);
    for (char **e = environ; *e; e++) bytes("env", *e);
    bytes("execfn", (const char *)getauxval(AT_EXECFN));
    printf("secure %lu entry %d\n", getauxval(AT_SECURE), getauxval(AT_ENTRY) != 0);
    char exe[4096] = {0};
    if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0) return 90;
    bytes("exe", exe);
    for (int fd = 0; fd < 900; fd++)
        if (fcntl(fd, F_GETFD) >= 0) printf("fd %d flags %d\n", fd, fcntl(fd, F_GETFD));
    for (int s = 1; s < 65; s++) {
        struct sigaction a;
        if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL) printf("signal %d %d\n", s, a.sa_handler == SIG_IGN);
    }
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int s = 1; s < 65; s++)
        if (sigismember(&mask, s) == 1) printf("blocked %d\n", s);
    struct rlimit l;
    getrlimit(RLIMIT_NOFILE, &l);
    printf("files %lu %lu\n", (unsigned long)l.rlim_cur, (unsigned long)l.rlim_max);
    return 41;
}
"#;

/// A directory of its own, removed at the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("tallygraph-run-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Place(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn build(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.path(&format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let built =
            Command::new("cc").args(["-O1", "-g", "-o"]).arg(self.path(name)).arg(file).args(flags).status();
        assert!(built.unwrap().success(), "{name} must build");
        self.path(name)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The profiler with this directory as the current one and an environment of two variables.
    fn profiler(&self) -> Command {
        let mut command = Command::new(TALLYGRAPH);
        command.current_dir(&self.0).env_clear().env("A", "1").env("HOME", self.path("home"));
        command
    }

    fn native(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0).env_clear().env("A", "1").env("HOME", self.path("home"));
        command
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Fails with everything that helps.
fn assert_status(output: &Output, status: i32) {
    assert_eq!(
        output.status.code(),
        Some(status),
        "{:?}\nstdout: {}\nstderr: {}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

fn assert_same(native: &Output, profiled: &Output) {
    assert_eq!(text(&profiled.stdout), text(&native.stdout), "stderr: {}", text(&profiled.stderr));
    assert_eq!(profiled.status.code(), native.status.code());
}

/// Self costs of a profile: their sum, and what its header and its end claim.
fn sums(profile: &Path) -> (u64, u64, u64) {
    let text = fs::read_to_string(profile).unwrap();
    let claim = |key: &str| {
        let line =
            text.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_else(|| panic!("{key} in {text}"));
        line.trim().parse::<u64>().unwrap()
    };
    let mut sum = 0;
    let mut after_calls = false;
    for line in text.lines() {
        let first = line.as_bytes().first().copied().unwrap_or(0);
        if line.starts_with("calls=") {
            after_calls = true;
        } else if (first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'*'))
            && !std::mem::take(&mut after_calls)
        {
            sum += line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
        }
    }
    (sum, claim("summary:"), claim("totals:"))
}

/// Where a guest keeps its counters.
fn spool_of(pid: &str) -> PathBuf {
    let uid = text(&Command::new("id").arg("-u").output().unwrap().stdout);
    let places =
        ["/dev/shm", "/tmp"].map(|p| PathBuf::from(format!("{p}/tallygraph-{}/{pid}.spool", uid.trim())));
    places.into_iter().find(|p| p.exists()).expect("the guest has a spool")
}

/// How often a function was called, over all call lines of a profile with compressed names.
fn calls_of(profile: &str, function: &str) -> u64 {
    let mut names = std::collections::HashMap::new();
    let mut called = "";
    let mut sum = 0;
    for line in profile.lines() {
        if let Some((key @ ("fn" | "cfn"), value)) = line.split_once('=') {
            let (id, name) = value.split_once(' ').unwrap_or((value, ""));
            if !name.is_empty() {
                names.insert(id, name);
            }
            if key == "cfn" {
                called = names[id];
            }
        } else if let Some(calls) = line.strip_prefix("calls=")
            && called == function
        {
            sum += calls.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    sum
}

#[test]
fn the_guest_finds_what_it_would_find_natively() {
    let place = Place::new("show");
    let show = place.build("show", SHOW, &[]);
    let odd: Vec<&OsStr> = [&b""[..], b"a b", b"\xff\xfe\n", b"--option=x"].map(OsStr::from_bytes).to_vec();
    let native = place.native(&show).args(&odd).output().unwrap();
    assert_status(&native, 41);
    let profiled =
        place.profiler().args(["run", "-q", "--callgrind-out-file=out"]).arg(&show).args(&odd).output();
    assert_same(&native, &profiled.unwrap());
    let native = place.native("./show").env_clear().output().unwrap();
    let mut profiler = place.profiler();
    profiler.env_clear().args(["--tool=callgrind", "-q", "--callgrind-out-file=out", "--", "./show"]);
    assert_same(&native, &profiler.output().unwrap());
}

#[test]
fn closed_descriptors_and_ignored_signals_stay_so() {
    let place = Place::new("closed");
    let show = place.build("show", SHOW, &[]);
    let prepare = |command: &mut Command| {
        // SAFETY: async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::close(0);
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                libc::signal(libc::SIGUSR1, libc::SIG_IGN);
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&mut mask, libc::SIGHUP);
                libc::sigprocmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut());
                Ok(())
            });
        }
    };
    let mut native = place.native(&show);
    prepare(&mut native);
    let mut profiler = place.profiler();
    profiler.args(["run", "-q", "--callgrind-out-file=out"]).arg(&show);
    prepare(&mut profiler);
    let (native, profiled) = (native.output().unwrap(), profiler.output().unwrap());
    assert!(text(&native.stdout).contains("signal 13 1") && text(&native.stdout).contains("blocked 1\n"));
    assert_same(&native, &profiled);
}

#[test]
fn programs_are_found_by_path_and_through_scripts() {
    let place = Place::new("scripts");
    let show = place.build("show", SHOW, &[]);
    place.script("inner", &format!("#! {} one  argument \nrest\n", show.display()));
    place.script("outer", &format!("#!{}\n", place.path("inner").display()));
    for program in ["./inner", "./outer"] {
        let native = place.native(program).args(["x", ""]).output().unwrap();
        assert_status(&native, 41);
        let profiled = place
            .profiler()
            .args(["run", "-q", "--callgrind-out-file=out", program, "x", ""])
            .output()
            .unwrap();
        assert_same(&native, &profiled);
    }
    // By PATH, as a shell passes the path on.
    let with_path =
        |mut command: Command| command.env("PATH", format!("/nowhere:{}", place.0.display())).output();
    let native = place.native("/bin/sh");
    let native = with_path({
        let mut shell = native;
        shell.args(["-c", "exec show a"]);
        shell
    });
    let profiled = with_path({
        let mut profiler = place.profiler();
        profiler.args(["run", "-q", "--callgrind-out-file=out", "show", "a"]);
        profiler
    });
    // The shell adds PWD and its kin to the environment.
    let strip = |output: Output| {
        let kept: Vec<String> =
            text(&output.stdout).lines().filter(|l| !l.starts_with("env ")).map(str::to_string).collect();
        (kept, output.status.code())
    };
    assert_eq!(strip(native.unwrap()), strip(profiled.unwrap()));
}

#[test]
fn the_end_of_the_guest_is_passed_on() {
    let place = Place::new("end");
    let ends = |script: &str| {
        let args = ["run", "-q", "--callgrind-out-file=out", "/bin/sh", "-c", script];
        place.profiler().args(args).output().unwrap().status
    };
    assert_eq!(ends("exit 7").code(), Some(7));
    assert_eq!(ends("kill -TERM $$").signal(), Some(15));
    assert_eq!(sums(&place.path("out")).0, sums(&place.path("out")).1, "a killed guest leaves a profile");
    assert_eq!(ends("kill -SEGV $$").signal(), Some(11));
}

#[test]
fn the_profile_adds_up_and_the_log_tells_the_same() {
    let place = Place::new("profile");
    let source = "static int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n\
                  int main(void) { return f(12) & 0x3f; }\n";
    place.build("fib", source, &["-fno-inline", "-O0"]);
    let mut profiler = place.profiler();
    let output =
        profiler.args(["run", "--callgrind-out-file=o.%p.%q{A}.%%", "./fib", "a b\n"]).output().unwrap();
    assert_status(&output, 144 & 0x3f);
    let log = text(&output.stderr);
    let pid = log.strip_prefix("==").and_then(|l| l.split("==").next()).unwrap();
    assert!(log.lines().all(|l| l.starts_with(&format!("=={pid}== "))), "{log}");
    assert!(log.contains("Command: ./fib a\\ b_\n"), "{log}");
    let profile = place.path(&format!("o.{pid}.1.%"));
    assert_eq!(fs::metadata(&profile).unwrap().permissions().mode() & 0o777, 0o600);
    let (sum, summary, totals) = sums(&profile);
    assert!(sum == summary && sum == totals && sum > 2000, "{sum} {summary} {totals}");
    assert!(log.contains(&format!("== Collected : {sum}\n")), "{log}");
    let written = fs::read_to_string(&profile).unwrap();
    assert!(written.starts_with("# callgrind format\nversion: 1\ncreator: callgrind-"), "{written}");
    assert!(written.contains("\ncmd:  ./fib a b\\n\n"));
    // f(n) takes 2 F(n+1) - 1 calls: 465, one of them from main, two of the others from level 1.
    assert_eq!(calls_of(&written, "f"), 1);
    assert_eq!(calls_of(&written, "f'2"), 464);
    assert!(written.contains(" f'2\n"), "recursion has a level of its own");
}

#[test]
fn the_log_goes_where_it_is_sent() {
    let place = Place::new("log");
    let run = |options: &[&str]| {
        let mut profiler = place.profiler();
        profiler.args(["run", "--callgrind-out-file=out"]).args(options).arg("/bin/true");
        let output = profiler.output().unwrap();
        assert_status(&output, 0);
        text(&output.stderr) + &text(&output.stdout)
    };
    assert_eq!(run(&["-q"]), "");
    assert_eq!(run(&["--log-file=log"]), "");
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("== Parent PID: ") && log.contains("== Collected : "), "{log}");
    assert!(run(&["--log-fd=1"]).contains("== Collected : "));
    let output = place.profiler().args(["--tool=none", "/bin/true"]).output().unwrap();
    assert!(!text(&output.stderr).contains("Collected"), "nothing was counted");
}

#[test]
fn a_profile_that_cannot_be_written_at_the_end_is_not_lost() {
    let place = Place::new("lost");
    fs::create_dir(place.path("gone")).unwrap();
    let script = "rm -r gone; exec 2>&-; exit 5";
    let mut profiler = place.profiler();
    profiler.args(["run", "--callgrind-out-file=gone/out", "/bin/sh", "-c", script]);
    let output = profiler.output().unwrap();
    assert_status(&output, 5);
    let log = text(&output.stderr);
    assert!(log.contains("tallygraph: ") && log.contains("gone/out: No such file or directory"), "{log}");
    let pid = log.strip_prefix("==").and_then(|l| l.split("==").next()).unwrap();
    fs::create_dir(place.path("gone")).unwrap();
    let recovered = Command::new(TALLYGRAPH).arg("recover").arg(spool_of(pid)).output().unwrap();
    assert_status(&recovered, 0);
    assert!(sums(&place.path("gone/out")).0 > 1000);
}

#[test]
fn mistakes_are_told_in_lines_before_anything_runs() {
    let place = Place::new("mistakes");
    let elf = fs::read("/bin/true").unwrap();
    let mut small = elf.clone();
    small[4] = 1;
    let mut arm = elf.clone();
    arm[18] = 183;
    for (name, bytes) in [("i386", &small[..]), ("arm", &arm), ("cut", &elf[..100]), ("noise", b"hello\n")] {
        let path = place.path(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(place.path("plain"), &elf).unwrap();
    place.script("lost", "#!/no/such/interpreter\n");
    place.script("circle", &format!("#!{}\n", place.path("circle").display()));
    for (args, status, line) in [
        (&[][..], 1, "valgrind: no program specified"),
        (&["--bogus=yes", "/bin/true"], 1, "valgrind: Unknown option: --bogus=yes"),
        (&["--cache-sim", "yes", "/bin/true"], 1, "valgrind: Unknown option: --cache-sim"),
        (&["--cache-sim=on", "/bin/true"], 1, "valgrind: Bad option: --cache-sim=on"),
        (&["--tool=memcheck", "/bin/true"], 1, "valgrind: failed to start tool 'memcheck'"),
        (
            &["--callgrind-out-file=%q{UNSET}", "/bin/true"],
            1,
            "valgrind: Bad option: --callgrind-out-file=%q{UNSET}",
        ),
        (
            &["--log-file=/no/such/dir/log", "/bin/true"],
            1,
            "valgrind: Cannot create log file '/no/such/dir/log'",
        ),
        (&["no-such-program-anywhere"], 127, "valgrind: no-such-program-anywhere: command not found"),
        (&["./missing"], 127, "valgrind: ./missing: No such file or directory"),
        (&["."], 127, "valgrind: .: command not found"),
        (&["./"], 126, "valgrind: ./: is a directory"),
        (&["./plain"], 126, "valgrind: ./plain: Permission denied"),
        (&["./i386"], 126, "valgrind: ./i386: 32-bit program"),
        (&["./arm"], 126, "valgrind: ./arm: program for AArch64"),
        (&["./cut"], 126, "valgrind: ./cut: truncated ELF file"),
        (&["./noise"], 126, "valgrind: ./noise: cannot execute binary file"),
        (&["./lost"], 126, "valgrind: ./lost: bad interpreter: /no/such/interpreter"),
        (&["./circle"], 126, "valgrind: ./circle: too many levels of interpreters"),
    ] {
        let output = place.profiler().arg("run").args(args).output().unwrap();
        assert_status(&output, status);
        let stderr = text(&output.stderr);
        assert!(stderr.lines().next().unwrap_or("").starts_with(line), "{args:?}: {stderr}");
    }
    let left: Vec<_> = fs::read_dir(&place.0).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().starts_with("callgrind.out")), "{left:?}");
    let output =
        place.profiler().args(["run", "--callgrind-out-file=/no/such/dir/o", "/bin/true"]).output().unwrap();
    assert_status(&output, 1);
    assert!(
        text(&output.stderr).contains("Error: can not open cache simulation output file `/no/such/dir/o'")
    );
}

#[test]
fn options_come_from_files_and_the_environment_too() {
    let place = Place::new("sources");
    fs::create_dir(place.path("home")).unwrap();
    fs::write(place.path("home/.valgrindrc"), "--callgrind-out-file=personal\n# -q\n").unwrap();
    let run = |place: &Place, vars: &[(&str, &str)], args: &[&str]| {
        let mut profiler = place.profiler();
        profiler.envs(vars.iter().copied()).arg("--tool=callgrind").args(args).args(["-q", "/bin/true"]);
        assert_status(&profiler.output().unwrap(), 0);
    };
    let exists = |name: &str| fs::metadata(place.path(name)).is_ok_and(|m| m.len() > 0);
    run(&place, &[], &[]);
    assert!(exists("personal"));
    run(&place, &[("VALGRIND_OPTS", "--callgrind:callgrind-out-file=variable --memcheck:x=y")], &[]);
    assert!(exists("variable"));
    fs::write(place.path(".valgrindrc"), "--callgrind-out-file=local").unwrap();
    run(&place, &[("VALGRIND_OPTS", "--callgrind-out-file=unused")], &[]);
    assert!(exists("local") && !exists("unused"));
    run(&place, &[], &["--callgrind-out-file=line"]);
    assert!(exists("line"));
    // A file that others can write is not trusted.
    fs::set_permissions(place.path(".valgrindrc"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::remove_file(place.path("local")).unwrap();
    run(&place, &[], &[]);
    assert!(!exists("local"));
}

#[test]
fn versions_are_told_in_the_callers_terms() {
    let place = Place::new("version");
    let link = place.path("valgrind");
    std::os::unix::fs::symlink(TALLYGRAPH, &link).unwrap();
    let say = |mut command: Command| text(&command.arg("--version").output().unwrap().stdout);
    assert!(say(place.native(&link)).starts_with("valgrind-3."));
    assert!(say(place.profiler()).starts_with("tallygraph "));
    let mut other = place.native(&link);
    other.env("TALLYGRAPH_VERSION", "valgrind-3.26.0.codspeed7");
    assert_eq!(say(other), "valgrind-3.26.0.codspeed7\n");
    let mut profiler = place.native(&link);
    profiler.env("TALLYGRAPH_VERSION", "valgrind-3.26.0.codspeed7");
    profiler.args(["--tool=callgrind", "-q", "--callgrind-out-file=out", "/bin/true"]);
    assert_status(&profiler.output().unwrap(), 0);
    let written = fs::read_to_string(place.path("out")).unwrap();
    assert!(written.contains("\ncreator: callgrind-3.26.0.codspeed7\n"));
}

#[test]
fn a_guest_that_was_killed_can_be_recovered() {
    let place = Place::new("killed");
    let source = "#include <unistd.h>\nint main(void) { write(1, \"x\", 1); pause(); return 0; }\n";
    place.build("sleeper", source, &[]);
    let mut profiler = place.profiler();
    profiler.args(["run", "-q", "--callgrind-out-file=out.%p", "./sleeper"]).stdout(Stdio::piped());
    let mut child = profiler.spawn().unwrap();
    let pid = child.id();
    let mut byte = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
    let spool = spool_of(&pid.to_string());
    let recover = || Command::new(TALLYGRAPH).arg("recover").arg(&spool).output().unwrap();
    let early = recover();
    assert!(text(&early.stdout).contains("is still running") && spool.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let done = recover();
    assert_status(&done, 0);
    assert!(!spool.exists(), "{}", text(&done.stdout));
    let (sum, summary, totals) = sums(&place.path(&format!("out.{pid}")));
    assert!(sum == summary && sum == totals && sum > 1000);
    assert_status(&recover(), 1);
}
