#!/usr/bin/env python3
"""Renders the lines of rounds.py, or of the GPU runner's bench.jsonl, as a Markdown table.

    table.py FILE ... [--case PREFIX]
"""
import argparse
import json
import re
import sys


def scaled(ns):
    """Three figures and a unit."""
    if ns is None:
        return "-"
    for unit, factor in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        value = ns / factor
        if abs(value) < 999.5 or unit == "s":
            digits = 0 if unit == "ns" or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
            return f"{value:.{digits}f} {unit}"


def size_key(case):
    """Sizes in order of size."""
    units = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3}
    return [(0, int(part[1]) << 10 * units[part[2]], "") if part else (1, 0, word)
            for word in case.split("/") for part in [re.fullmatch(r"(\d+)([kKMG]?)(?:-thread)?", word)]]


def times(line):
    """How native compares; by the mean where a reading of the clock is much of the median."""
    by_mean = line.get("clock_ns") and line["p50_ns"] < 20 * line["clock_ns"] and "native_by_mean" in line
    ratio = line.get("native_by_mean" if by_mean else "native_by_p50")
    if ratio is None:
        return "-"
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.0f}x"


def render(lines):
    cases = {}
    for line in lines:
        cases.setdefault(line["case"], []).append(line)
    yield "| case | variant | median | mean | p99 | max | native / this | between rounds |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for case in sorted(cases, key=size_key):
        for line in cases[case]:
            if "skipped" in line:
                yield f"| {case} | {line['variant']} | skipped: {line['skipped']} | | | | | |"
                continue
            compared = times(line)
            if "added_ns" in line:
                compared = (f"adds {scaled(line['added_ns'])} "
                            f"({scaled(line['added_low_ns'])} .. {scaled(line['added_high_ns'])})")
            spread = f"{line['p50_spread_pct']:.0f} %" if "p50_spread_pct" in line else "-"
            yield (f"| {case} | {line['variant']} | {scaled(line.get('p50_ns'))} | {scaled(line.get('mean_ns'))} | "
                   f"{scaled(line.get('p99_ns'))} | {scaled(line.get('max_ns'))} | {compared} | {spread} |")


def heading(line):
    clocks = line.get("clocks") or {}
    parts = [line.get("device"), f"driver {line['driver']}" if line.get("driver") else "",
             f"SM {clocks['sm_mhz']} of {clocks['max_sm_mhz']} MHz at the start" if "max_sm_mhz" in clocks else "",
             f"commit {line['commit']}" if line.get("commit") else "", line.get("date")]
    return ", ".join(part for part in parts if part)


def main():
    parser = argparse.ArgumentParser(description="the lines of the benchmarks as a Markdown table")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--case", default="", help="only cases that begin so")
    arguments = parser.parse_args()
    lines = []
    for name in arguments.files:
        with open(name) as file:
            lines += [json.loads(line) for line in file if line.startswith("{")]
    lines = [line for line in lines if line["case"].startswith(arguments.case)]
    if not lines:
        print("no such case", file=sys.stderr)
        return 1
    print(heading(lines[0]), end="\n\n")
    print(*render(lines), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
