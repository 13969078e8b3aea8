//! Builds the in-guest agent, a freestanding executable, and hands its path to the crate that embeds
//! it.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Code generation and linking of an executable without libc, at a fixed address below 2 GiB.
const FLAGS: &[&str] = &[
    "-Crelocation-model=static",
    "-Ctarget-feature=+crt-static",
    "-Clink-arg=-nostartfiles",
    "-Clink-arg=-nostdlib",
    "-Clink-arg=-static",
    "-Clink-arg=-no-pie",
    "-Clink-arg=-Wl,--image-base=0x70000000",
    "-Clink-arg=-Wl,--build-id=none",
    "-Cstrip=debuginfo",
];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let root = here.join("../..");
    for name in ["agent", "engine", "callgraph", "demangle", "cachesim", "x64", "sys", "wire"] {
        println!("cargo::rerun-if-changed={}", root.join("crates").join(name).display());
    }
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    let agent = build_agent(&root, &out.join("agent"));
    std::fs::copy(&agent, out.join("tallygraph-agent")).expect("the agent was built");
}

fn build_agent(root: &Path, target_dir: &Path) -> PathBuf {
    let cargo = std::env::var_os("CARGO").expect("set by cargo");
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["build", "--release", "--package", "tallygraph-agent", "--bin", "tallygraph-agent"])
        .args(["--features", "bin", "--target", TARGET, "--config", "profile.release.panic=\"abort\""])
        // Translation is the start-up time of a guest: the assembler's small functions are inlined.
        .args(["--config", "profile.release.lto=\"fat\"", "--config", "profile.release.codegen-units=1"])
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        .env_remove("RUSTFLAGS")
        // Wrappers are for the outer build (a linter's, for one).
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET_DIR");
    let status = command.status().expect("cargo can be started");
    assert!(status.success(), "the agent could not be built");
    target_dir.join(TARGET).join("release/tallygraph-agent")
}
