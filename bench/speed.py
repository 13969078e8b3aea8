#!/usr/bin/env python3
"""How much slower programs run under tallygraph and under Valgrind, and how much memory they take.

    bench/speed.py                       all workloads, every tool that is there, 3 rounds
    bench/speed.py -n 7 -w echo,fib      more rounds of some
    bench/speed.py -t native,tallygraph --tallygraph target/release/tallygraph

Each round runs every workload once under every tool, in an order that moves on by one from round to
round, so that all tools see the same machine. Figures are medians of user CPU seconds and of peak memory of
the largest process; a ratio is a median of the ratios of the rounds, and the spread beside it the
smallest and the largest of them. Workloads marked "wall" are compared by elapsed time. Needs gcc and g++;
programs that are not installed are named and left out.

Output: a table in Markdown, and with --json FILE all raw figures.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"

# name: (command, measure, options for profilers). {b} is the directory of built programs.
WORKLOADS = {
    "echo": (["/bin/echo", "Hello, World!"], "wall", []),
    "python": (["/usr/bin/python3", "-I", str(PROGRAMS / "fib.py"), "22"], "user", []),
    "fib": (["{b}/fib", "36"], "user", []),
    "virtual": (["{b}/virtual", "3000000"], "user", []),
    "gzip": (["/bin/gzip", "-nc", "{b}/text"], "user", []),
    "sha256sum": (["/usr/bin/sha256sum", "{b}/zeros"], "user", []),
    "loop": (["{b}/loop", "200000000"], "user", []),
    "startstop": (["{b}/startstop", "200000000"], "user", ["--instr-atstart=no"]),
    "threads1": (["{b}/threads", "1", "300000000"], "wall", []),
    "threads4": (["{b}/threads", "4", "300000000"], "wall", []),
    "fork": (["{b}/fork", "100"], "wall", []),
}
TOOLS = ["native", "none", "callgrind", "tallygraph"]


def build(target):
    """Compiles the programs and makes the input files."""
    for source in sorted(PROGRAMS.iterdir()):
        if source.suffix in (".c", ".cpp"):
            compiler = "gcc" if source.suffix == ".c" else "g++"
            out = target / source.stem
            subprocess.run([compiler, "-O2", "-g", "-pthread", "-o", out, source], check=True)
    (target / "zeros").write_bytes(bytes(100_000_000))
    state, words = 1, []
    while len(words) < 700_000:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(("count", "call", "edge", "graph", "cache", "trace", "guest", str(state >> 44))[state >> 61])
    (target / "text").write_text(" ".join(words)[:4_000_000])


def measured(launch, command, env):
    """One run: user, system and wall seconds, peak kilobytes."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as results:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$@" 3>&{theirs}', "sh", launch, *command],
            env=env, pass_fds=[theirs], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        os.close(theirs)
        errors = process.communicate()[1]
        text = results.read().split()
    if len(text) != 5 or text[4] != "0":
        sys.exit(f"{' '.join(command)}: status {text[4:] or process.returncode}\n{errors.decode(errors='replace')[-2000:]}")
    user, system, wall, peak = map(float, text[:4])
    return {"user": user, "system": system, "wall": wall, "peak": peak}


def machine():
    """Processor, number of processors, kernel."""
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    return f"{model}, {os.cpu_count()} processors, Linux {os.uname().release.split('-')[0]}"


def table(results, tools, names):
    """The Markdown table."""
    lines = ["| workload | measure | native | " + " | ".join(f"{t} (ratio, spread)" for t in tools[1:]) + " | peak MB: "
             + ", ".join(tools) + " |"]
    lines.append("|---" * (3 + len(tools)) + "|")
    for name in names:
        measure = WORKLOADS[name][1]
        base = [run[measure] for run in results[name]["native"]]
        cells = [name, measure, f"{statistics.median(base):.3f} s"]
        for tool in tools[1:]:
            runs = [run[measure] for run in results[name][tool]]
            ratios = [a / max(b, 0.0005) for a, b in zip(runs, base)]
            cells.append(f"{statistics.median(runs):.3f} s ({statistics.median(ratios):.1f}, {min(ratios):.1f}–{max(ratios):.1f})")
        peaks = [statistics.median(run["peak"] for run in results[name][tool]) / 1024 for tool in tools]
        cells.append(", ".join(f"{p:.0f}" for p in peaks))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--rounds", type=int, default=3)
    parser.add_argument("-w", "--workloads", default=",".join(WORKLOADS))
    parser.add_argument("-t", "--tools", default=",".join(TOOLS))
    parser.add_argument("--tallygraph", default=str(HERE.parent / "target/release/tallygraph"))
    parser.add_argument("--valgrind", default="valgrind")
    parser.add_argument("--options", default="", help="further options for callgrind and tallygraph")
    parser.add_argument("--json")
    args = parser.parse_args()
    names, tools = args.workloads.split(","), args.tools.split(",")
    for word, known in [(n, WORKLOADS) for n in names] + [(t, TOOLS) for t in tools]:
        if word not in known:
            parser.error(f"{word} is not one of {', '.join(known)}")
    if tools[0] != "native":
        tools = ["native"] + [t for t in tools if t != "native"]
    valgrind, tallygraph = shutil.which(args.valgrind), shutil.which(args.tallygraph)
    for tool, path in (("none", valgrind), ("callgrind", valgrind), ("tallygraph", tallygraph)):
        if tool in tools and path is None:
            print(f"left out: {tool} is not installed", file=sys.stderr)
            tools.remove(tool)
    with tempfile.TemporaryDirectory(prefix="speed.") as scratch:
        scratch = pathlib.Path(scratch)
        build(scratch)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "PYTHONHASHSEED": "0"}
        # tallygraph keeps line tables between runs; the first round fills the cache.
        env["XDG_CACHE_HOME"] = str(scratch / "cache")
        out, extra = f"--callgrind-out-file={scratch}/out.%p", args.options.split()
        prefixes = {
            "native": [],
            "none": [valgrind, "-q", "--tool=none"],
            "callgrind": [valgrind, "-q", "--tool=callgrind", out, *extra],
            "tallygraph": [tallygraph, "-q", "--tool=callgrind", out, *extra],
        }
        for name in list(names):
            if not os.path.exists(WORKLOADS[name][0][0].format(b=scratch)):
                print(f"left out: {WORKLOADS[name][0][0]} is not installed", file=sys.stderr)
                names.remove(name)
        results = {name: {tool: [] for tool in tools} for name in names}
        for turn in range(args.rounds):
            for name in names:
                command, _, options = WORKLOADS[name]
                command = [word.format(b=scratch) for word in command]
                for i in range(len(tools)):
                    tool = tools[(i + turn) % len(tools)]
                    options_here = options if tool in ("callgrind", "tallygraph") else []
                    run = measured(scratch / "launch", prefixes[tool] + options_here + command, env)
                    results[name][tool].append(run)
                    print(f"round {turn + 1} {name} {tool}: user {run['user']:.3f} wall {run['wall']:.3f}", file=sys.stderr)
                    for left in scratch.glob("out.*"):
                        left.unlink()
    print(f"{machine()}; medians of {args.rounds} rounds\n")
    print(table(results, tools, names))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"machine": machine(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
