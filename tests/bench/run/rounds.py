"""Runs variants of a program alternately, and merges their output into one line per case and variant.

In each round the program runs once without and once with cushim, so that drift of the machine affects both. A line
holds the medians over the rounds, the spread of the rounds, and native's time divided by this one's (above 1: this is
faster).
"""
import argparse
import collections
import glob
import json
import math
import os
import re
import statistics
import subprocess
import time

# command: a list; env: the variables that this variant adds.
Variant = collections.namedtuple("Variant", "name command env", defaults=({},))

# How rounds are merged: the field of the merged line, the field of the rounds' lines, and the function.
MERGED = (("p0_ns", min), ("p50_ns", statistics.median), ("p99_ns", statistics.median), ("max_ns", max),
          ("mean_ns", statistics.median), ("clock_ns", statistics.median), ("cold_mean_ns", statistics.median),
          ("python_ns", statistics.median), ("added_ns", statistics.median), ("added_low_ns", statistics.median),
          ("added_high_ns", statistics.median), ("passes", max), ("peak_live_bytes", max), ("peak_held_bytes", max),
          ("time_by_native", statistics.median), ("exposed_by_shorter", statistics.median), ("held_by_live", max), ("driver_calls_per_pair", statistics.median), ("no_call_per_pair", statistics.median),
          ("gb_per_s", statistics.median), ("cpu_ns", statistics.median), ("membarrier", min), ("locked_add_ns", statistics.median), ("current_context_ns", statistics.median))
KINDS = ("device", "managed", "pinned")


class Bench:
    """run(command, timeout_s, **env) -> an object with rc, stdout, stderr; environment(**env) -> the environment of
    such a run; facts go into every line."""

    def __init__(self, run, environment, facts, out, scratch, n_rounds=3):
        self.run, self.environment, self.facts, self.out, self.scratch = run, environment, facts, out, scratch
        self.n_rounds = n_rounds
        self.until = float("inf")  # on the monotonic clock: no round begins later, but each bench gets one round
        self.rows = []
        self.faults = []

    def is_over(self):
        return time.monotonic() > self.until

    def lines(self, command, timeout_s, **env):
        """The program's output. Exit status 77 is no fault: the program says why on stderr."""
        done = self.run(command, timeout_s, **env)
        found = []
        for line in done.stdout.decode(errors="replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and "case" in row:
                found.append(row)
        said = done.stderr.decode(errors="replace").strip().splitlines()
        self.faults += [line[:200] for line in said if re.match(r"cushim\[\d+\] error", line)]
        if done.rc == 77:
            return [{"case": None, "skipped": said[-1][:200] if said else "it says so"}]
        if done.rc != 0 or not found:
            self.faults.append(f"{' '.join(short(part) for part in command)[:160]}: "
                               f"exit status {done.rc}{': ' + said[-1][:200] if said else ''}")
        return found

    def with_report(self, variant, timeout_s):
        """The program's lines, with cushim's counters if a process has a single case."""
        stem = os.path.join(self.scratch, "bench-report")
        asked = {**variant.env, "CUSHIM_STATS": stem + "-%p.json"} if "LD_PRELOAD" in variant.env else variant.env
        rows = self.lines(variant.command, timeout_s, **asked)
        reports = []
        for path in glob.glob(glob.escape(stem) + "-*.json"):
            with open(path) as file:
                reports.append(json.load(file))
            os.unlink(path)
        for row in rows:
            n_pairs = row.get("pairs")
            if n_pairs and len(rows) == 1 and reports:
                row["driver_calls_per_pair"] = (total(reports, "native_allocs") + total(reports, "native_frees")) / n_pairs
                row["no_call_per_pair"] = total(reports, "no_call") / n_pairs
            elif n_pairs and variant.name == "native":
                row["driver_calls_per_pair"] = 2.0
        return rows

    def by_turns(self, title, variants, suffix="", n_rounds=None, timeout_s=60, is_counted=False):
        """Runs each variant once per round, then makes one line per case and variant. title: the case for a program
        that prints none. A program that alternates several variants itself names them in its lines."""
        seen, gone = {}, set()
        for i in range(n_rounds or self.n_rounds):
            if i and self.is_over():
                break
            for variant in variants if i % 2 == 0 else reversed(variants):
                if variant.name in gone:
                    continue
                rows = (self.with_report(variant, timeout_s) if is_counted else
                        self.lines(variant.command, timeout_s, **variant.env))
                if not rows or rows[0]["case"] is None:
                    gone.add(variant.name)
                for row in rows:
                    case = (row["case"] or title) + suffix
                    seen.setdefault(case, {}).setdefault(row.get("variant", variant.name), []).append(row)
        emit_by_case(self, seen)

    def emit(self, line, native=None):
        if native and figure(line) and figure(native):
            line["native_by"] = round(figure(native) / figure(line), 3)
        line.update(self.facts)
        self.rows.append(line)
        print(json.dumps(line), file=self.out, flush=True)
        return line


def emit_by_case(bench, seen):
    """seen: {case: {variant: the rows of its rounds}}"""
    for case, of_case in seen.items():
        native = None
        for name, rows in sorted(of_case.items(), key=lambda item: item[0] != "native"):
            line = merge(case, name, rows)
            if native:
                line.update(interval(of_case["native"], rows))
            line = bench.emit(line, native)
            native = line if name == "native" else native


def interval(native, rows):
    """The 95 % interval of the median of the rounds' time ratios to native, by order statistics, for six or more
    rounds."""
    ratios = sorted(figure(row) / figure(of_native) for row, of_native in zip(rows, native) if figure(row) and figure(of_native))
    n = len(ratios)
    outside, k = 2 * 0.5 ** n, 0  # the probability that the median lies outside [ratios[k], ratios[n - 1 - k]]
    if outside > 0.05:
        return {}
    while outside + 2 * math.comb(n, k + 1) * 0.5 ** n <= 0.05:
        k += 1
        outside += 2 * math.comb(n, k) * 0.5 ** n
    return {"time_by_native": round(statistics.median(ratios), 4), "time_by_native_low": round(ratios[k], 4),
            "time_by_native_high": round(ratios[n - 1 - k], 4)}


def short(part):
    part = str(part)
    return os.path.basename(part) if os.path.isabs(part) else part


def total(reports, field):
    return sum(device.get("kinds", {}).get(kind, {}).get(field) or 0
               for report in reports for device in report.get("devices", []) for kind in KINDS)


def merge(case, variant, rows):
    """Medians over the rounds."""
    line = {"case": case, "variant": variant, "rounds": len(rows)}
    if "skipped" in rows[0]:
        return {**line, "skipped": rows[0]["skipped"]}
    line["n"] = sum(row["n"] for row in rows)
    for field, of_rounds in MERGED:
        values = [row[field] for row in rows if field in row]
        if values:
            line[field] = round(of_rounds(values), 4 if "_per_" in field or "_by_" in field else 1)
    middles = [row["p50_ns"] for row in rows]
    line["p50_spread_pct"] = round(100 * (max(middles) - min(middles)) / max(1, statistics.median(middles)), 1)
    return line


def figure(line):
    """The nanoseconds of a line: the mean of all pairs for a whole trace, otherwise the median."""
    return line.get("mean_ns") if "passes" in line else line.get("p50_ns")


def environment_here(library_path):
    """A clean environment, without a preload and without cushim options of the caller."""
    def environment(**env):
        base = {name: value for name, value in os.environ.items()
                if name != "LD_PRELOAD" and (not name.startswith("CUSHIM") or name.startswith("CUSHIM_SIM_"))}
        if library_path:
            base["LD_LIBRARY_PATH"] = library_path
        return {**base, **{name: str(value) for name, value in env.items()}}
    return environment


def run_here(environment):
    def run(command, timeout_s, **env):
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, env=environment(**env), timeout=timeout_s)
        except subprocess.TimeoutExpired as late:
            return argparse.Namespace(rc=None, stdout=late.stdout or b"", stderr=b"no end in time")
        return argparse.Namespace(rc=done.returncode, stdout=done.stdout, stderr=done.stderr)
    return run
