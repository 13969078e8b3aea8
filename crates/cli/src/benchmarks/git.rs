//! What is checked out in a directory, asked of `git`.

use std::path::Path;
use std::process::{Command, Stdio};

/// State of a work tree; empty texts where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitState {
    /// Branch, tag or the name CI gives.
    pub reference: String,
    /// Full commit hash.
    pub commit: String,
    /// Whether tracked files were changed.
    pub dirty: bool,
}

/// The state of the work tree around `directory`.
pub fn state(directory: &Path) -> GitState {
    let commit = ask(directory, &["rev-parse", "HEAD"]).unwrap_or_default();
    if commit.is_empty() {
        return GitState::default();
    }
    let branch = ask(directory, &["rev-parse", "--abbrev-ref", "HEAD"]).filter(|b| b != "HEAD");
    // CI checks out a bare commit and names the branch in the environment.
    let from_ci = ["GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BUILDKITE_BRANCH"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let reference = branch.or(from_ci).unwrap_or_else(|| commit.chars().take(7).collect());
    let changes = ask(directory, &["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    GitState { reference, commit, dirty: !changes.is_empty() }
}

/// The author name commits would have, for decisions.
pub fn author(directory: &Path) -> Option<String> {
    ask(directory, &["config", "user.name"]).filter(|name| !name.is_empty())
}

/// The newest common ancestor of two commits, if both are known here.
pub fn merge_base(directory: &Path, a: &str, b: &str) -> Option<String> {
    ask(directory, &["merge-base", a, b]).filter(|c| !c.is_empty())
}

fn ask(directory: &Path, args: &[&str]) -> Option<String> {
    let output =
        Command::new("git").arg("-C").arg(directory).args(args).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
