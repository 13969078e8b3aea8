//! Programs that people run: output and exit status under tallygraph equal those of a native run, with
//! all children profiled too. Nothing is measured; what a machine does not have is skipped, visibly.

use std::path::{Path, PathBuf};
use tallygraph_testkit::callgrind::Profile;
use tallygraph_testkit::run::Command;
use tallygraph_testkit::tools::under_tallygraph;
use tallygraph_testkit::{scratch, skipped};

/// Where a program is installed.
fn find(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"]
        .iter()
        .map(|d| Path::new(d).join(program))
        .find(|p| p.exists())
}

/// Runs a program both ways, each in a directory of its own. `files` are written there before, and files
/// named in `made` must be equal afterwards.
fn behaves_as_natively(test: &str, words: &[&str], files: &[(&str, &str)], made: &[&str]) {
    let Some(program) = find(words[0]) else {
        return skipped(test, &format!("{} is not installed", words[0]));
    };
    let prepared = |which: &str| {
        let dir = scratch(&format!("programs/{test}/{which}"));
        for (name, text) in files {
            std::fs::write(dir.join(name), text).expect("a file is written");
        }
        dir
    };
    let native = Command::new(&program, &prepared("native")).args(&words[1..]).run();
    let dir = prepared("tallygraph");
    let words: Vec<String> =
        [program.display().to_string()].into_iter().chain(words[1..].iter().map(|w| w.to_string())).collect();
    let run = under_tallygraph(&dir, &["--trace-children=yes", "--callgrind-out-file=profile.%p"], &words);
    let ours = &run.outcome;
    assert_eq!(ours.end(), native.end(), "{test}: another end\n{ours}\nnatively:\n{native}");
    assert!(ours.stdout == native.stdout, "{test}: another output\n{ours}\nnatively:\n{native}");
    assert!(ours.stderr == native.stderr, "{test}: other messages\n{ours}\nnatively:\n{native}");
    for name in made {
        let read = |dir: &Path| std::fs::read(dir.join(name)).expect("the file was made");
        assert!(read(ours.dir()) == read(native.dir()), "{test}: another {name}");
    }
    let mut profiles = 0;
    for entry in std::fs::read_dir(ours.dir()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("profile.")) {
            let profile = Profile::read(&path).unwrap_or_else(|e| panic!("{test}: {e}\n{ours}"));
            profiles += usize::from(profile.total() > 0);
        }
    }
    assert!(profiles > 0, "{test}: no profile\n{ours}");
}

fn stress_ng(test: &str, words: &[&str]) {
    let words: Vec<&str> = ["stress-ng", "-q"].iter().chain(words).copied().collect();
    behaves_as_natively(test, &words, &[], &[]);
}

#[test]
fn stress_cpu() {
    stress_ng("stress_cpu", &["--cpu", "4", "--cpu-ops", "8"]);
}

#[test]
fn stress_pthread() {
    stress_ng("stress_pthread", &["--pthread", "2", "--pthread-ops", "200"]);
}

#[test]
fn stress_fork() {
    stress_ng("stress_fork", &["--fork", "2", "--fork-ops", "50"]);
}

#[test]
fn stress_signal() {
    stress_ng("stress_signal", &["--signal", "1", "--signal-ops", "2000"]);
}

#[test]
fn stress_mmap() {
    stress_ng("stress_mmap", &["--mmap", "1", "--mmap-ops", "10", "--mmap-bytes", "8m"]);
}

#[test]
fn stress_switch() {
    stress_ng("stress_switch", &["--switch", "1", "--switch-ops", "2000"]);
}

#[test]
fn stress_futex() {
    stress_ng("stress_futex", &["--futex", "1", "--futex-ops", "2000"]);
}

#[test]
fn node_compiles_at_run_time() {
    let program = "let a = 0; function f(x) { return x % 7; }
        for (let i = 0; i < 2e6; i++) a += f(i);
        const m = new Map(); for (let i = 0; i < 2e4; i++) m.set('k' + i, i);
        new Promise(r => setTimeout(r, 5)).then(() => console.log(a, m.size, /k(\\d+)/.exec('xk12')[1]));";
    behaves_as_natively("node", &["node", "-e", program], &[], &[]);
}

#[test]
fn java_has_threads_and_a_compiler() {
    behaves_as_natively("java", &["java", "-version"], &[], &[]);
}

#[test]
fn luajit() {
    let program = "local t = 0 for i = 1, 1e6 do t = t + i % 7 end print(t, string.rep('ab', 3))";
    behaves_as_natively("luajit", &["luajit", "-e", program], &[], &[]);
}

#[test]
fn perl_runs_children() {
    let program = "my %h; $h{$_ % 97} .= chr 65 + $_ % 26 for 1 .. 20000; print length $h{5}, qx(echo sub);
        if (my $p = fork) { waitpid $p, 0; print $? >> 8, qq(\\n) } else { exit 9 }
        $SIG{ALRM} = sub { print qq(alarm\\n) }; kill ALRM => $$; exit 4";
    behaves_as_natively("perl", &["perl", "-e", program], &[], &[]);
}

#[test]
fn sqlite() {
    let program = "create table t(a integer primary key, b text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
          insert into t select i, 'x' || (i * 7919 % 5000) from n;
        create index i on t(b); select count(*), sum(a), max(b) from t where b like 'x1%';";
    behaves_as_natively("sqlite", &["sqlite3", "-batch", ":memory:", program], &[], &[]);
}

#[test]
fn gcc_runs_its_passes() {
    let source = "#include <stdio.h>\nint sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * i; return s; }\n\
        int main(void) { printf(\"%d\\n\", sum(10)); return 0; }\n";
    behaves_as_natively("gcc", &["gcc", "-O2", "-c", "a.c", "-o", "a.o"], &[("a.c", source)], &["a.o"]);
}

#[test]
fn make_runs_jobs() {
    let makefile = "all: a.o b.o c.o d.o\n\t@cat $^ | sort | tr a-z A-Z\n%.o:\n\t@echo $* > $@\n";
    behaves_as_natively("make", &["make", "-s", "-j3"], &[("Makefile", makefile)], &["a.o", "d.o"]);
}

#[test]
fn tar_and_gzip() {
    let words = ["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-czf", "x.tar.gz", "a", "b"];
    behaves_as_natively("tar", &words, &[("a", "one\n"), ("b", "two\n")], &["x.tar.gz"]);
}

#[test]
fn git() {
    let script =
        "export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000'
        git init -q -b main r && cd r && git config user.name n && git config user.email e
        for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -qm \"step $i\"; done
        git checkout -q -b other HEAD~1; echo x > g; git add g; git commit -qm g; git merge -q -m join main
        git log --oneline --graph; git diff HEAD~1 --stat; git gc -q; git fsck; cd ..; rm -rf r";
    if find("git").is_none() {
        return skipped("git", "git is not installed");
    }
    behaves_as_natively("git", &["bash", "-c", script], &[], &[]);
}

#[test]
fn a_script_as_configure_makes_them() {
    let script = "set -e
        for f in stdio.h unistd.h nonexistent.h; do
            echo \"#include <$f>
int main(void) { return 0; }\" > conftest.c
            if gcc -c conftest.c -o conftest.o 2>conf.err; then r=yes; else r=no; fi
            echo \"checking for $f... $r\"
        done
        printf '%s\\n' '#define X 1' | sed -e s/X/Y/ | tr a-z A-Z; expr 1 + 2; (exit 3) || echo \"sub $?\"
        sort <<< $'b\\na' | awk '{ print NR, $0 }'; trap 'echo bye' EXIT; exit 5";
    behaves_as_natively("configure", &["bash", "-c", script], &[], &[]);
}

#[test]
fn redis_serves_requests() {
    let script = "redis-server --port 0 --unixsocket $PWD/s --save '' --logfile $PWD/log & p=$!
        until [ -S s ]; do sleep 0.05; done
        redis-cli -s $PWD/s set a 1; redis-cli -s $PWD/s incr a
        redis-benchmark -s $PWD/s -n 500 -c 3 -t set,get,lpush -q > bench; echo bench $?
        redis-cli -s $PWD/s shutdown nosave; wait $p; echo end $?; rm -f s";
    if find("redis-server").is_none() || find("redis-benchmark").is_none() {
        return skipped("redis", "redis is not installed");
    }
    behaves_as_natively("redis", &["bash", "-c", script], &[], &[]);
}
