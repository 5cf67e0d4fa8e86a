#!/usr/bin/env python3
"""Renders the lines of kernels.py as Markdown for docs/measurements.md, or as plots.

    table.py FILE.. [--only PATTERN]           a row a measurement, by kernel
    table.py FILE.. --plots FOLDER             one SVG a kernel that has three sizes: GB/s by bytes (needs matplotlib)

The best of the peers counts; a yardstick (of lower accuracy) stands in brackets and is never won or lost.  Within
2 % it is a tie.  What gave no number of ours, or a wrong result, is listed below the tables.
"""
import argparse
import json
import pathlib
import sys

TIE = 0.02


def read(paths, pattern):
    """Measurements by (kernel, shape, mode): implementation to line; a later file replaces an earlier one's lines.

    And by (kernel, shape) what is wrong with ours.
    """
    found, faults = {}, {}
    for path in paths:
        seen, of_file = set(), {}
        for text in pathlib.Path(path).read_text().splitlines():
            line = json.loads(text)
            case = line["kernel"], line["shape"]
            if pattern not in "/".join(case):
                continue
            if "us" in line:
                found.setdefault((*case, line["mode"]), {})[line["impl"]] = line
            if line["impl"] == "ours":
                seen.add(case)
                if "error" in line:
                    of_file[case] = line["error"]
                elif line.get("is_wrong"):
                    of_file[case] = f"a wrong result, {line['mode']}, NMSE {line['nmse']}"
        faults = {case: fault for case, fault in faults.items() if case not in seen} | of_file
    for key, of_case in found.items():
        if "ours" not in of_case:
            faults.setdefault(key[:2], "peers alone were measured")
    return found, faults


def verdict(ours_us, peer_us):
    ratio = peer_us / ours_us
    return "tie" if abs(ratio - 1) <= TIE else "faster" if ratio > 1 else "**slower**"


def row(key, of_case):
    kernel, shape, mode = key
    ours = of_case["ours"]
    peers = {name: line for name, line in of_case.items() if name != "ours" and not line["is_yardstick"]}
    cells = [f"{shape}, {mode}", f"{ours['us']:.2f} ({ours['us_min']:.2f}..{ours['us_max']:.2f})",
             f"{ours['gbps']:.0f}", f"{ours['pct']:.0f} % of {ours['ceiling']}", f"{ours['us_above_empty']:.2f}"]
    if peers:
        best = min(peers.values(), key=lambda line: line["us"])
        cells.append(f"{best['impl']} {best['us']:.2f}: {best['us'] / ours['us']:.2f}x, {verdict(ours['us'], best['us'])}")
    else:
        cells.append("-")
    cells.append(", ".join(f"({line['impl']} {line['us']:.2f})" for line in of_case.values() if line["is_yardstick"]) or "-")
    cells.append("-" if ours["nmse"] is None else f"{ours['nmse']:.0e}")
    return "| " + " | ".join(cells) + " |"


def print_tables(found):
    head = "| shape | us (min..max) | GB/s | of its ceiling | us above an empty node | best peer | yardsticks | NMSE |"
    for kernel in dict.fromkeys(key[0] for key, of_case in found.items() if "ours" in of_case):
        print(f"\n**{kernel}**\n\n{head}\n|---|---:|---:|---:|---:|---|---|---:|")
        for key, of_case in found.items():
            if key[0] == kernel and "ours" in of_case:
                print(row(key, of_case))


def print_faults(faults):
    if faults:
        print("\n**Failed**\n")
    for (kernel, shape), fault in faults.items():
        print(f"- {kernel}/{shape}: {' '.join(fault.split())}")


def plot(found, folder):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "cushim", "svg.fonttype": "none"})  # the same lines give the same file
    from matplotlib import pyplot
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in dict.fromkeys(key[0] for key in found):
        of_kernel = {key: of_case for key, of_case in found.items() if key[0] == kernel and key[2] == "cold" and "ours" in of_case}
        if len(of_kernel) < 3:
            continue
        figure, axes = pyplot.subplots(figsize=(7, 4))
        for name in dict.fromkeys(name for of_case in of_kernel.values() for name in of_case):
            points = sorted((of_case[name]["bytes"], of_case[name]["gbps"]) for of_case in of_kernel.values() if name in of_case)
            axes.plot(*zip(*points), marker="o", label="cushim" if name == "ours" else name)
        last = next(iter(of_kernel.values()))["ours"]
        axes.axhline(100 * last["gbps"] / last["pct"], linestyle=":", color="grey", label=f"measured ceiling ({last['ceiling']})")
        axes.set(xscale="log", xlabel="bytes", ylabel="GB/s", ylim=(0, None), title=f"{kernel}, {last['gpu']}")
        axes.legend()
        figure.savefig(folder / f"{kernel}.svg", metadata={"Date": None})
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--plots", type=pathlib.Path)
    arguments = parser.parse_args()
    found, faults = read(arguments.files, arguments.only)
    if not found and not faults:
        sys.exit("table.py: no measurement of that name")
    if arguments.plots:
        plot(found, arguments.plots)
    else:
        print_tables(found)
        print_faults(faults)


main()
