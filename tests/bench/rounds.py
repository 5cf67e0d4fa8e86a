#!/usr/bin/env python3
"""Runs the benchmarks natively and under cushim by turns, and prints one JSON line a case and variant.

    rounds.py --bin FOLDER --preload FILE [--only pair,calls,startup] [--links static,shared] [--rounds N]
              [--ms N] [--sizes 4K,1M] [--library-path FOLDER] [--no-kernels] [--device TEXT] [--out FILE]

FOLDER holds pair-LINK, calls-LINK, context-LINK and startup-LINK.  Native and cushim are two processes,
one after the other, round after round: what drifts on the machine meets both.  A line holds the medians
over the rounds, how far the rounds were apart, and how native compares (above 1: cushim is faster).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

VARIANTS = {"native": {}, "cushim": {}, "cushim, driver door": {"CUSHIM_RUNTIME": "0"}}
THREADED_SIZES = "64K,1M"


class Bench:
    """run(command, timeout_s, **env) -> an object with rc, stdout, stderr; facts go into every line."""

    def __init__(self, run, folder, preload, facts, out, links=("static", "shared"), n_rounds=5, time_ms=30,
                 sizes=None):
        self.run, self.folder, self.preload = run, pathlib.Path(folder), preload
        self.facts, self.out = facts, out
        self.links, self.n_rounds, self.time_ms, self.sizes = links, n_rounds, time_ms, sizes
        self.has_kernels = True
        self.rows = []
        self.faults = []

    def has(self, name):
        return (self.folder / name).exists()

    def lines(self, command, timeout_s, **env):
        done = self.run(command, timeout_s, **env)
        found = []
        for line in done.stdout.decode(errors="replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and "case" in row:
                found.append(row)
        if done.rc != 0 or not found:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            self.faults.append(f"{os.path.basename(str(command[0]))} {' '.join(map(str, command[1:4]))}: "
                               f"exit status {done.rc}{': ' + said[-1][:200] if said else ''}")
        return found

    def environment(self, variant):
        return {"LD_PRELOAD": self.preload, **VARIANTS.get(variant, {})} if variant.startswith("cushim") else {}

    def by_turns(self, command, variants, suffix="", n_rounds=None, timeout_s=60, environments=None):
        """Each variant once a round; then one line a case and variant."""
        seen = {}
        for i in range(n_rounds or self.n_rounds):
            for variant in variants if i % 2 == 0 else reversed(variants):
                env = environments[variant] if environments else self.environment(variant)
                for row in self.lines(command, timeout_s, **env):
                    seen.setdefault(row["case"] + suffix, {}).setdefault(variant, []).append(row)
        for case, of_case in seen.items():
            native = None
            for variant in variants:
                if variant in of_case:
                    line = self.emit(merge(case, variant, of_case[variant]), native)
                    native = line if variant == "native" else native

    def emit(self, line, native=None):
        if native and "p50_ns" in line:
            for field in ("p50_ns", "mean_ns"):
                if line.get(field) and native.get(field):
                    line[f"native_by_{field[:-3]}"] = round(native[field] / line[field], 3)
        line.update(self.facts)
        self.rows.append(line)
        print(json.dumps(line), file=self.out, flush=True)
        return line

    # ---- the benchmarks ----

    def pair(self):
        for link in self.links:
            program = self.folder / f"pair-{link}"
            if not self.has(program.name):
                continue
            options = ["--ms", self.time_ms] + (["--sizes", self.sizes] if self.sizes else [])
            # a static runtime has no runtime door
            variants = ["native", "cushim"] + (["cushim, driver door"] if link == "shared" else [])
            self.by_turns([program, *options], variants, f"/{link}")
            for n_threads in (4, 16) if link == "static" or len(self.links) == 1 else ():
                self.by_turns([program, "--ms", self.time_ms, "--threads", n_threads, "--sizes", THREADED_SIZES],
                              variants[:2], f"/{link}", n_rounds=min(3, self.n_rounds))
        if self.has(f"pair-{self.links[-1]}"):
            options = ["--api", "driver", "--ms", self.time_ms] + (["--sizes", self.sizes] if self.sizes else [])
            self.by_turns([self.folder / f"pair-{self.links[-1]}", *options], ["native", "cushim"])

    def calls(self):
        for link in self.links:
            if self.has(f"calls-{link}"):
                options = ["--ms", self.time_ms] + ([] if self.has_kernels else ["--no-kernels"])
                self.by_turns([self.folder / f"calls-{link}", *options], ["native", "cushim"], f"/{link}")

    def startup(self, n_short=300, n_long=15):
        """The C program takes the turns itself: less of the harness is in the numbers."""
        link = self.links[0]
        if not self.has(f"startup-{link}"):
            return
        cases = [("true", n_short, ["/bin/true"])]
        for depth, n_runs in (("loaded", 2 * n_long), ("init", n_long), ("context", n_long)):
            cases += [(f"{depth}/{kind}", n_runs, [self.folder / f"context-{kind}", depth]) for kind in self.links
                      if self.has(f"context-{kind}") and (depth != "init" or kind == self.links[0])]
        for name, n_runs, command in cases:
            native = None
            for row in self.lines([self.folder / f"startup-{link}", "--preload", self.preload, "--runs", n_runs,
                                   "--name", name, "--", *command], 90):
                line = self.emit({"rounds": 1, **row}, native)
                native = line if row["variant"] == "native" else native


def merge(case, variant, rows):
    """Medians over the rounds."""
    line = {"case": case, "variant": variant, "rounds": len(rows)}
    if "skipped" in rows[0]:
        return {**line, "skipped": rows[0]["skipped"]}
    line["n"] = sum(row["n"] for row in rows)
    for field, of_rounds in (("p0_ns", min), ("p50_ns", statistics.median), ("p99_ns", statistics.median),
                             ("max_ns", max), ("mean_ns", statistics.median), ("clock_ns", statistics.median)):
        values = [row[field] for row in rows if field in row]
        if values:
            line[field] = round(of_rounds(values), 1)
    middles = [row["p50_ns"] for row in rows]
    line["p50_spread_pct"] = round(100 * (max(middles) - min(middles)) / max(1, statistics.median(middles)), 1)
    return line


def run_here(library_path):
    def run(command, timeout_s, **env):
        base = {name: value for name, value in os.environ.items()
                if name != "LD_PRELOAD" and (not name.startswith("CUSHIM") or name.startswith("CUSHIM_SIM_"))}
        if library_path:
            base["LD_LIBRARY_PATH"] = library_path
        base.update({name: str(value) for name, value in env.items()})
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, env=base, timeout=timeout_s)
        except subprocess.TimeoutExpired as late:
            return argparse.Namespace(rc=None, stdout=late.stdout or b"", stderr=b"no end in time")
        return argparse.Namespace(rc=done.returncode, stdout=done.stdout, stderr=done.stderr)
    return run


def main():
    parser = argparse.ArgumentParser(description="the benchmarks, natively and under cushim by turns")
    parser.add_argument("--bin", required=True)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--only", default="pair,calls,startup")
    parser.add_argument("--links", default="static,shared")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ms", type=int, default=30)
    parser.add_argument("--sizes")
    parser.add_argument("--library-path")
    parser.add_argument("--no-kernels", action="store_true", help="for the software device")
    parser.add_argument("--device", default="")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    run = run_here(arguments.library_path)
    first = [os.path.join(arguments.bin, f"context-{link}") for link in arguments.links.split(",")]
    if not any(os.path.exists(path) and run([path], 60).rc == 0 for path in first):
        print("no CUDA device", file=sys.stderr)
        return 77  # meson counts a skip
    with open(arguments.out, "w") if arguments.out else os.fdopen(os.dup(1), "w") as out:
        bench = Bench(run, arguments.bin, os.path.abspath(arguments.preload),
                      {"device": arguments.device}, out, arguments.links.split(","), arguments.rounds, arguments.ms,
                      arguments.sizes)
        bench.has_kernels = not arguments.no_kernels
        for name in arguments.only.split(","):
            getattr(bench, name)()
    for fault in bench.faults:
        print(fault, file=sys.stderr)
    return 1 if bench.faults or not bench.rows else 0


if __name__ == "__main__":
    sys.exit(main())
