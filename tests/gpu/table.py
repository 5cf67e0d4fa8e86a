#!/usr/bin/env python3
"""The gauntlet's results as rows of Markdown, for docs/reference/compatibility.md.

    table.py OUT        the folder that tests/gpu/run was given
"""
import json
import pathlib
import sys


def of(part, *path):
    for name in path:
        part = (part or {}).get(name)
    return part


def row(part):
    report = part.get("report") or {}
    requests = sum(of(report, kind, "requests") or 0 for kind in ("device", "managed", "pinned", "async"))
    output = "identical"
    if part.get("differs_because"):
        output = "differs by design: " + part["differs_because"]
    if part["status"] != "pass":
        output = part["status"] + ": " + str(part.get("why") or "; ".join(part.get("faults", [])))
    without_call, asked = of(report, "device", "no_call") or 0, of(report, "device", "requests") or 0
    share = f"{100 * without_call / asked:.1f} %" if asked else "-"
    name, _, link = part["name"].rpartition("-")
    if link not in ("static", "shared"):
        name, link = part["name"], "its own"
    return f"| {name} | {link} | {output} | {requests:,} | {share} | {report.get('bypassed', '-')} |"


def main(out):
    host = None
    rows = []
    for suite in ("compat", "python", "hazards"):
        file = pathlib.Path(out) / f"{suite}.json"
        if not file.exists():
            continue
        results = json.loads(file.read_text())
        host = results["host"]
        rows += [row(part) for part in results["parts"]]
    if not host:
        sys.exit(f"{out} holds no results")
    print(f"{host['device']}, driver {host['driver']}, nvcc {host['nvcc']}, {host['libc']}, "
          f"commit {host['commit']}, {host['date']}\n")
    print("| program | CUDA runtime | output | allocations | of device memory, without a driver call | bypassed |")
    print("|---|---|---|---:|---:|---:|")
    print("\n".join(rows))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
