//! The machine's fingerprint, read from `/proc`, `/sys` and the processor.

use std::collections::BTreeMap;
use std::fs;

use tallygraph_compare::fingerprint::Fingerprint;
use tallygraph_compare::report::stable_hash;

/// Collects what is known of this machine; `environment` is that of the runs.
pub fn collect(environment: &BTreeMap<String, String>, measured_with: &str) -> Fingerprint {
    let mut facts = BTreeMap::new();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            facts.insert(name.to_string(), value);
        }
    };
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    let cpu_field = |name: &str| {
        cpu.lines()
            .filter_map(|l| l.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_string())
    };
    set("cpu.model", cpu_field("model name"));
    set("cpu.microcode", cpu_field("microcode"));
    let flags = cpu_field("flags").unwrap_or_default();
    let mut sorted: Vec<&str> = flags.split_whitespace().collect();
    sorted.sort_unstable();
    set("cpu.hypervisor", Some(if sorted.contains(&"hypervisor") { "yes" } else { "no" }.to_string()));
    set("cpu.flags", Some(format!("{:016x}", stable_hash(&sorted.join(" ")))));
    set("cpu.cores", read("/sys/devices/system/cpu/online"));
    set("cpu.smt", read("/sys/devices/system/cpu/smt/active"));
    set("cpu.governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    let no_turbo = read("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|v| format!("no_turbo={v}"));
    set(
        "cpu.turbo",
        no_turbo.or_else(|| read("/sys/devices/system/cpu/cpufreq/boost").map(|v| format!("boost={v}"))),
    );
    let status = read("/proc/self/status").unwrap_or_default();
    set(
        "cpu.affinity",
        status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).map(|v| v.trim().to_string()),
    );
    set("numa.nodes", read("/sys/devices/system/node/online"));
    set("kernel", read("/proc/sys/kernel/osrelease"));
    set("aslr", read("/proc/sys/kernel/randomize_va_space"));
    set("memory.thp", read("/sys/kernel/mm/transparent_hugepage/enabled"));
    set("cgroup.cpu", read("/sys/fs/cgroup/cpu.max"));
    set("cgroup.memory", read("/sys/fs/cgroup/memory.max"));
    // SAFETY: reads a constant of the system.
    set("page.size", Some(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.to_string()));
    set("stack.limit", stack_limit());
    set("libc", libc_version());
    set("locale", Some(locale(environment)));
    set("env.size", Some(environment.iter().map(|(k, v)| k.len() + v.len() + 2).sum::<usize>().to_string()));
    set("hostname", read("/proc/sys/kernel/hostname"));
    set("measured_with", Some(measured_with.to_string()));
    Fingerprint { facts }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// The soft limit of the stack, which decides where mappings begin.
fn stack_limit() -> Option<String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to a local.
    let ok = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    ok.then(|| {
        if limit.rlim_cur == libc::RLIM_INFINITY { "unlimited".into() } else { limit.rlim_cur.to_string() }
    })
}

/// The C library a program on this machine would load: its version and a digest of its file.
fn libc_version() -> Option<String> {
    ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6", "/lib/ld-musl-x86_64.so.1"]
        .iter()
        .find_map(|path| {
            let bytes = fs::read(path).ok()?;
            let version =
                find_text(&bytes, b"stable release version ").or_else(|| find_text(&bytes, b"musl libc"));
            Some(format!("{} {:016x}", version.unwrap_or_default(), hash_bytes(&bytes)))
        })
}

/// The printable text that follows a marker, up to the first character that ends a version.
fn find_text(bytes: &[u8], marker: &[u8]) -> Option<String> {
    let at = bytes.windows(marker.len()).position(|w| w == marker)? + marker.len();
    let text: Vec<u8> =
        bytes[at..].iter().copied().take_while(|b| b.is_ascii_digit() || *b == b'.').take(20).collect();
    String::from_utf8(text).ok().map(|t| t.trim_end_matches('.').to_string())
}

/// A digest of a file's content, eight bytes at a time (FNV-1a over words).
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
    })
}

/// The locale the runs see: the first of the variables that decide it.
fn locale(environment: &BTreeMap<String, String>) -> String {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| environment.get(*name).filter(|v| !v.is_empty()))
        .cloned()
        .unwrap_or_else(|| "C".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_the_facts_that_must_match() {
        let environment = BTreeMap::from([("LANG".to_string(), "C.UTF-8".to_string())]);
        let facts = collect(&environment, "test").facts;
        for name in ["cpu.flags", "cpu.model", "kernel", "page.size", "stack.limit", "env.size", "locale"] {
            assert!(facts.contains_key(name), "{name} is missing: {facts:?}");
        }
        assert_eq!((facts["env.size"].as_str(), facts["locale"].as_str()), ("13", "C.UTF-8"));
    }

    #[test]
    fn the_digest_sees_every_byte() {
        let a = vec![7u8; 100];
        let mut b = a.clone();
        b[99] = 8;
        assert_ne!(hash_bytes(&a), hash_bytes(&b));
        assert_ne!(hash_bytes(&a[..8]), hash_bytes(&a[..16]));
    }
}
