#!/usr/bin/env python3
"""Prints the results of tests/gpu/run as Markdown.

    table.py OUT        the folder that tests/gpu/run was given

One row per program, if the files exist; the memory that the device grants (frag); and for benches with many rounds
(own-cache) the ratio of native and cushim with its interval.
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
    output = ""
    if part.get("differs_because"):
        output = ", differs by design: " + part["differs_because"]
    if part["status"] != "pass":
        output = f", {part['status']}: " + str(part.get("why") or "; ".join(part.get("faults", [])))
    without_call, asked = of(report, "device", "no_call") or 0, of(report, "device", "requests") or 0
    share = f"{100 * without_call / asked:.1f} %" if asked else "-"
    name, _, link = part["name"].rpartition("-")
    if link not in ("static", "shared"):
        name, link = part["name"], "its own"
    if report.get("bypassed"):
        output += f"; {report['bypassed']} bypassed"
    return name, link, f"{output} | {requests:,} | {share} |"


def joined(rows):
    """One row for both links of a program if nothing else differs."""
    links = {}
    for name, link, rest in rows:
        links.setdefault((name, rest), []).append(link)
    return [f"| {name}{', ' + of_name[0] if of_name in (['static'], ['shared']) else ''}{rest}" for (name, rest), of_name in links.items()]


def head(facts):
    return f"{facts['device']}, driver {facts['driver']}, commit {facts['commit']}, {facts['date']}\n"


def print_gauntlet(out):
    files = [out / f"{suite}.json" for suite in ("compat", "python", "hazards") if (out / f"{suite}.json").exists()]
    results = [json.loads(file.read_text()) for file in files]
    if results:
        print(head(results[0]["host"]))
        print("| program | allocations | of device memory, without a driver call |")
        print("|---|---:|---:|")
        print("\n".join(joined(row(part) for result in results for part in result["parts"])), end="\n\n")
    return bool(results)


def print_frag(out):
    if not (out / "frag.json").exists():
        return False
    results = json.loads((out / "frag.json").read_text())
    print(head(results["host"]))
    print("| blocks, mode | live | free, native | free, cushim | largest granted, native | largest granted, cushim |")
    print("|---|---:|---:|---:|---:|---:|")
    for part in results["parts"]:
        native, ours = part.get("native") or {}, part.get("cushim") or {}
        values = [native.get("live_mib"), native.get("free_unstaged_mib"), ours.get("free_unstaged_mib"),
                  native.get("largest_mib"), ours.get("largest_mib")]
        print(f"| {part['name'].removeprefix('frag ')} | " + " | ".join("-" if v is None else f"{v:,}" for v in values) + " |")
    print()
    return True


def print_intervals(out):
    file = out / "bench.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    rows = [row for row in rows if "time_by_native_low" in row]
    if rows:
        print(head(rows[0]))
        print("| case | variant | rounds | time by native: median | least | interval of the median |")
        print("|---|---|---:|---:|---:|---|")
        least = {row["case"]: row["p0_ns"] for row in map(json.loads, file.read_text().splitlines()) if row["variant"] == "native"}
        for row in rows:
            print(f"| {row['case']} | {row['variant']} | {row['rounds']} | {row['time_by_native']:.3f} | "
                  f"{row['p0_ns'] / least[row['case']]:.3f} | {row['time_by_native_low']:.3f} to {row['time_by_native_high']:.3f} |")
    return bool(rows)


def main(out):
    if not any([print_gauntlet(out), print_frag(out), print_intervals(out)]):
        sys.exit(f"{out} holds no results")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
