//! Running one process and measuring it: time, memory, faults, switches.
//!
//! The wall time spans from just before the process is created to the moment it is reaped.
//! Everything else comes from `wait4`, so it covers the process and the children it waited for. A
//! run that exceeds its time is killed with its whole process group.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::config::Layout;

/// A process to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Its directory.
    pub directory: PathBuf,
    /// Time it may take.
    pub timeout: Duration,
    /// Exit status of a good run.
    pub expect_status: i32,
    /// Text its standard output must hold.
    pub expect_output: Option<String>,
    /// Address layout.
    pub layout: Layout,
    /// Processors it is bound to.
    pub cpus: Vec<usize>,
}

/// What a run took; times in seconds, memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Wall time.
    pub wall: f64,
    /// User time.
    pub user: f64,
    /// System time.
    pub system: f64,
    /// Peak resident memory.
    pub max_rss: f64,
    /// Page faults served from memory.
    pub minor_faults: f64,
    /// Page faults that read from a disk.
    pub major_faults: f64,
    /// Times it waited.
    pub voluntary_switches: f64,
    /// Times it was pushed off its processor.
    pub involuntary_switches: f64,
    /// Time the hypervisor took from all processors meanwhile.
    pub steal: f64,
}

impl Usage {
    /// The numbers with their metric names.
    pub fn metrics(&self) -> [(&'static str, f64); 9] {
        [
            ("wall", self.wall),
            ("user", self.user),
            ("system", self.system),
            ("max_rss", self.max_rss),
            ("minor_faults", self.minor_faults),
            ("major_faults", self.major_faults),
            ("voluntary_switches", self.voluntary_switches),
            ("involuntary_switches", self.involuntary_switches),
            ("steal", self.steal),
        ]
    }

    /// The mean of several runs that make one sample; memory is the largest.
    pub fn mean(runs: &[Usage]) -> Usage {
        let n = runs.len().max(1) as f64;
        let average = |f: fn(&Usage) -> f64| runs.iter().map(f).sum::<f64>() / n;
        Usage {
            wall: average(|u| u.wall),
            user: average(|u| u.user),
            system: average(|u| u.system),
            max_rss: runs.iter().map(|u| u.max_rss).fold(0.0, f64::max),
            minor_faults: average(|u| u.minor_faults),
            major_faults: average(|u| u.major_faults),
            voluntary_switches: average(|u| u.voluntary_switches),
            involuntary_switches: average(|u| u.involuntary_switches),
            steal: average(|u| u.steal),
        }
    }
}

/// Runs a job to its end. The error says in one line why the run is no good.
pub fn run(job: &Job) -> Result<Usage, String> {
    let (program, args) = job.argv.split_first().ok_or("the command line is empty")?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(&job.environment)
        .current_dir(&job.directory)
        .stdin(Stdio::null())
        .stdout(if job.expect_output.is_some() { Stdio::piped() } else { Stdio::null() })
        .stderr(Stdio::piped())
        .process_group(0);
    let (pin_layout, cpus) = (job.layout == Layout::Pin, job.cpus.clone());
    // SAFETY: between fork and exec only async-signal-safe calls are made: `prctl`, `personality`
    // and `sched_setaffinity`, on values computed before.
    unsafe {
        command.pre_exec(move || {
            // A run in its own process group does not see Ctrl-C; it ends with us all the same.
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) < 0 {
                return Err(io::Error::last_os_error());
            }
            if pin_layout && libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
                return Err(io::Error::last_os_error());
            }
            if !cpus.is_empty() {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                for &cpu in &cpus {
                    libc::CPU_SET(cpu, &mut set);
                }
                if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let stolen_before = steal_ticks();
    let start = Instant::now();
    let mut child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
    let pid = child.id() as libc::pid_t;
    // Streams are read by threads, so that a full pipe never stops the process. Of standard error
    // only the beginning is kept, for the message when a run fails.
    let output = child.stdout.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        })
    });
    let errors = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            let mut chunk = [0; 4096];
            while let Ok(n) = pipe.read(&mut chunk) {
                if n == 0 {
                    break;
                }
                let room = 2000usize.saturating_sub(kept.len());
                kept.extend_from_slice(&chunk[..n.min(room)]);
            }
            kept
        })
    });
    let (status, usage, timed_out) = wait(pid, start, job.timeout).map_err(|e| format!("{program}: {e}"))?;
    let steal = (steal_ticks() - stolen_before).max(0.0);
    let text = |handle: Option<std::thread::JoinHandle<Vec<u8>>>| {
        handle
            .and_then(|h| h.join().ok())
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default()
    };
    let (output, errors) = (text(output), text(errors));
    if timed_out {
        return Err(format!("{program}: not done after {:?}", job.timeout));
    }
    check(job, program, status, &output, &errors)?;
    Ok(Usage { steal, ..usage })
}

fn check(job: &Job, program: &str, status: ExitStatus, output: &str, errors: &str) -> Result<(), String> {
    if status.code() != Some(job.expect_status) {
        let what = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            _ => "ended in an unknown way".to_string(),
        };
        let last =
            errors.lines().rfind(|l| !l.trim().is_empty()).map(|l| format!(": {l}")).unwrap_or_default();
        return Err(format!("{program}: {what} instead of exit status {}{last}", job.expect_status));
    }
    match &job.expect_output {
        Some(expected) if !output.contains(expected.as_str()) => {
            let start: String = output.chars().take(80).collect();
            Err(format!(
                "{program}: the output does not hold `{expected}`; it begins `{}`",
                start.escape_debug()
            ))
        }
        _ => Ok(()),
    }
}

/// Reaps `pid`, killing its process group when its time is over.
fn wait(pid: libc::pid_t, start: Instant, timeout: Duration) -> io::Result<(ExitStatus, Usage, bool)> {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    // The watchdog sleeps until it is told that the process ended, or kills.
    let watchdog = std::thread::spawn(move || {
        if stopped.recv_timeout(timeout) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // SAFETY: a signal to the group of our own child, which is reaped only after this
            // thread was joined.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
            true
        } else {
            false
        }
    });
    // First wait without reaping: as long as the process is not reaped its id can't belong to
    // another, so the watchdog never kills a stranger.
    // SAFETY: `siginfo_t` is plain numbers, for which zeros are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let ended = retried(|| {
        // SAFETY: waits for our own child and writes to a local.
        unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, libc::WEXITED | libc::WNOWAIT) }
    });
    let wall = start.elapsed().as_secs_f64();
    let _ = stop.send(());
    let timed_out = watchdog.join().unwrap_or(false);
    ended?;
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: reaps our own child, which has ended, and writes to two locals.
    retried(|| unsafe { libc::wait4(pid, &mut status, 0, &mut usage) })?;
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    let measured = Usage {
        wall,
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
        max_rss: usage.ru_maxrss as f64 * 1024.0,
        minor_faults: usage.ru_minflt as f64,
        major_faults: usage.ru_majflt as f64,
        voluntary_switches: usage.ru_nvcsw as f64,
        involuntary_switches: usage.ru_nivcsw as f64,
        steal: 0.0,
    };
    Ok((ExitStatus::from_raw(status), measured, timed_out))
}

/// Repeats a system call while signals interrupt it.
fn retried(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    while call() < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Seconds stolen by the hypervisor so far, over all processors; 0 where the system does not say.
fn steal_ticks() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks =
        text.lines().next().and_then(|l| l.split_whitespace().nth(8)).and_then(|f| f.parse::<f64>().ok());
    // SAFETY: reads a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks.unwrap_or(0.0) / if per_second > 0 { per_second as f64 } else { 100.0 }
}

/// The file a program name stands for, searched as the shell does.
pub fn find_program(name: &str, path: Option<&str>, directory: &Path) -> Option<PathBuf> {
    let executable = |file: &Path| {
        let text = CString::new(file.as_os_str().as_encoded_bytes()).ok();
        // SAFETY: `access` only reads the zero-terminated text.
        file.is_file() && text.is_some_and(|t| unsafe { libc::access(t.as_ptr(), libc::X_OK) } == 0)
    };
    if name.contains('/') {
        let file = directory.join(name);
        return executable(&file).then_some(file);
    }
    path.unwrap_or("/usr/local/bin:/usr/bin:/bin")
        .split(':')
        .map(|d| Path::new(d).join(name))
        .find(|file| executable(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(script: &str) -> Job {
        Job {
            argv: vec!["/bin/sh".into(), "-c".into(), script.into()],
            environment: BTreeMap::from([
                ("PATH".into(), "/usr/bin:/bin".into()),
                ("GREETING".into(), "hi".into()),
            ]),
            directory: std::env::temp_dir(),
            timeout: Duration::from_secs(60),
            expect_status: 0,
            expect_output: None,
            layout: Layout::System,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn a_run_is_measured() {
        let usage = run(&job("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")).unwrap();
        assert!(usage.wall > 0.0 && usage.user > 0.0 && usage.user <= usage.wall * 4.0, "{usage:?}");
        assert!(usage.max_rss > 100_000.0 && usage.minor_faults > 10.0, "{usage:?}");
    }

    #[test]
    fn only_the_given_environment_is_passed_on() {
        let expecting =
            |script: &str, output: &str| Job { expect_output: Some(output.into()), ..job(script) };
        run(&expecting("echo $GREETING-$HOME-", "hi--\n")).unwrap();
        let error = run(&expecting("echo other", "hi")).unwrap_err();
        assert_eq!(error, "/bin/sh: the output does not hold `hi`; it begins `other\\n`");
    }

    #[test]
    fn a_wrong_status_is_named_with_the_last_line_of_stderr() {
        assert_eq!(
            run(&job("echo first >&2; echo broken >&2; exit 3")).unwrap_err(),
            "/bin/sh: exit status 3 instead of exit status 0: broken"
        );
        assert!(run(&Job { expect_status: 3, ..job("exit 3") }).is_ok());
        assert!(run(&job("kill -9 $$")).unwrap_err().contains("killed by signal 9"));
        let missing = Job { argv: vec!["/no/such/program".into()], ..job("") };
        assert!(run(&missing).unwrap_err().starts_with("/no/such/program: "));
    }

    #[test]
    fn a_run_over_its_time_is_killed_with_its_children() {
        let late = Job { timeout: Duration::from_millis(200), ..job("sleep 600 & wait") };
        assert_eq!(run(&late).unwrap_err(), "/bin/sh: not done after 200ms");
    }

    #[test]
    fn much_output_does_not_block_a_run() {
        let loud = Job {
            expect_output: Some("y\n".into()),
            ..job("yes | head -c 1000000; yes | head -c 1000000 >&2")
        };
        run(&loud).unwrap();
    }

    #[test]
    fn a_pinned_layout_gives_the_same_addresses() {
        let addresses = "grep -m1 stack /proc/self/maps";
        let pinned = Job { layout: Layout::Pin, ..job(addresses) };
        let read = |job: &Job| {
            let probe = Job { expect_output: Some("\u{0}".into()), ..job.clone() };
            run(&probe).unwrap_err()
        };
        assert_eq!(read(&pinned), read(&pinned));
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find_program("sh", Some("/nowhere:/bin:/usr/bin"), Path::new(".")).is_some());
        assert!(find_program("no-such-program", Some("/bin"), Path::new(".")).is_none());
        assert!(find_program("./passwd", None, Path::new("/etc")).is_none(), "not executable");
    }
}
