#!/bin/sh
# The instruction counts of tallygraph's host side: this work tree against an earlier commit.
#
#     bench/report.sh [BASE]          BASE is a commit, HEAD~1 if absent
#
# Writes the report to standard output and, in a GitHub job, to its summary page. The exit status is
# that of `compare`: 3 for regressions nobody acknowledged. Needs git and cargo.
set -eu
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
base=$(git -C "$root" rev-parse --verify "${1:-HEAD~1}^{commit}")
work=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$work/base" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
git -C "$root" worktree add --quiet --detach "$work/base" "$base"
# One target directory serves both, so that dependencies are built once; host.toml expects the
# program below each side.
for side in "$work/base" "$root"; do
    (cd "$side" && CARGO_TARGET_DIR="$root/target" cargo build --release --quiet -p tallygraph-cli)
    if [ "$side" != "$root" ]; then
        mkdir -p "$side/target/release"
        cp "$root/target/release/tallygraph" "$side/target/release/"
    fi
done
tallygraph=$root/target/release/tallygraph
cd "$root"
"$tallygraph" bench bench/host.toml --base "$work/base" --head "$root" --counts-only --quiet \
    --store "$work/store.sqlite" --campaign report >&2
"$tallygraph" compare report-base report --store "$work/store.sqlite" --metric Ir --format markdown
