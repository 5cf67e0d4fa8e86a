#!/usr/bin/env python3
"""Render the lines of kernels.py as Markdown for kernels/results/kernels.md, or as plots.

    table.py FILE.. [--only PATTERN]           one row per measurement, by kernel
    table.py FILE.. --by-kernel                one row per kernel: its worst
    table.py FILE.. --beside PEER              one row per measurement that PEER has too, such as ggml
    table.py FILE.. --plots FOLDER             one SVG per family: GB/s by bytes (needs matplotlib)

The best of the peers counts; a yardstick (of lower accuracy) stands in brackets and is never won or lost.  Within
2 % it is a tie.  Cases in which ours gave no number or a wrong result are listed below the tables.
"""
import argparse
import json
import math
import pathlib
import re
import sys

TIE = 0.02
MOST_FLOPS = 5  # per byte; above it arithmetic is the limit
HEADERS = pathlib.Path(__file__).resolve().parents[1] / "include" / "cushim" / "kernels"


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


def is_bound_by_memory(line):
    return line["tflops"] is None or line["tflops"] * 1e3 <= MOST_FLOPS * line["gbps"]


def print_by_kernel(found):
    """The least part of the ceiling over two ranges of size, the most above an empty node if the L2 holds all, and every peer."""
    print("| kernel | from 256 MB, of its ceiling | 32 to 256 MB | below 1 MB, us above an empty node | to the best peer | slower | NMSE |\n|---|---:|---:|---:|---:|---:|---:|")
    for kernel in dict.fromkeys(key[0] for key, of_case in found.items() if "ours" in of_case):
        of_kernel = [of_case for key, of_case in found.items() if key[0] == kernel and "ours" in of_case]
        ours = [of_case["ours"] for of_case in of_kernel]
        large, middle = (min((line["pct"] for line in ours if low <= line["bytes"] < high and is_bound_by_memory(line)), default=None)
                         for low, high in ((256e6, math.inf), (32e6, 256e6)))
        above = max((line["us_above_empty"] for line in ours if line["bytes"] < 1e6 and line["mode"] == "hot"), default=None)
        ratios = [min(line["us"] for line in peers) / of_case["ours"]["us"] for of_case in of_kernel
                  if (peers := [line for name, line in of_case.items() if name != "ours" and not line["is_yardstick"]])]
        nmse = max((line["nmse"] for line in ours if line["nmse"] is not None), default=None)
        print("| " + " | ".join([
            kernel, *("-" if value is None else f"{value:.0f} %" for value in (large, middle)), "-" if above is None else f"{above:.2f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}x" if ratios else "-",
            f"{sum(ratio < 1 - TIE for ratio in ratios)} of {len(ratios)}" if ratios else "-",
            "-" if nmse is None else f"{nmse:.0e}"]) + " |")


def print_beside(found, peer):
    print(f"| kernel | columns | cushim, us | {peer}, us | by {peer} | NMSE | NMSE of {peer} |\n|---|---:|---:|---:|---:|---:|---:|")
    for (kernel, shape, mode), of_case in found.items():
        if "ours" in of_case and peer in of_case:
            ours, theirs = of_case["ours"], of_case[peer]
            of_product = re.fullmatch(r"(.*-\d+x\d+)x(\d+)", shape)
            ratio = ours["us"] / theirs["us"]
            print("| " + " | ".join([
                f"{kernel} {of_product[1] if of_product else shape}, {mode}", of_product[2] if of_product else "-", f"{ours['us']:.2f}",
                f"{theirs['us']:.2f}", f"**{ratio:.2f}**" if ratio > 1 + TIE else f"{ratio:.2f}",
                *("-" if line["nmse"] is None else f"{line['nmse']:.0e}" for line in (ours, theirs))]) + " |")


def print_faults(faults):
    if faults:
        print("\n**Failed**\n")
    for (kernel, shape), fault in faults.items():
        print(f"- {kernel}/{shape}: {' '.join(fault.split())}")


def families():
    """The family of each function, by the headers."""
    return {name: header.stem for header in sorted(HEADERS.glob("*.h"))
            for name in re.findall(r"\bcushim_(\w+)\(", header.read_text())}


def bandwidths(found, kernel):
    """(bytes, GB/s) of ours, and of the best peer, by size; without cases for which arithmetic is the limit."""
    ours, peers = {}, {}
    for (name, _, mode), of_case in found.items():
        if name != kernel or mode != "cold" or "ours" not in of_case or not is_bound_by_memory(of_case["ours"]):
            continue
        size = of_case["ours"]["bytes"]
        ours[size] = max(ours.get(size, 0), of_case["ours"]["gbps"])
        best = max((line["gbps"] for impl, line in of_case.items() if impl != "ours" and not line["is_yardstick"]), default=None)
        if best:
            peers[size] = max(peers.get(size, 0), best)
    return sorted(ours.items()), sorted(peers.items())


def plot(found, folder):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "cushim", "svg.fonttype": "none"})  # the same lines give the same file
    from matplotlib import pyplot
    folder.mkdir(parents=True, exist_ok=True)
    family_of = families()
    kernels = dict.fromkeys(key[0] for key in found)
    for family in dict.fromkeys(family_of[kernel] for kernel in kernels):
        figure, axes = pyplot.subplots(figsize=(8, 5))
        ceilings, gpu = {}, ""
        for kernel in (kernel for kernel in kernels if family_of[kernel] == family):
            ours, peers = bandwidths(found, kernel)
            if len(ours) < 2:
                continue
            line, = axes.plot(*zip(*ours), marker="o", markersize=3, label=kernel)
            if peers:
                axes.plot(*zip(*peers), linestyle="--", linewidth=0.8, color=line.get_color())
            last = next(of_case["ours"] for key, of_case in found.items() if key[0] == kernel and "ours" in of_case)
            gpu = last["gpu"]
            ceilings[last["ceiling"]] = 100 * last["gbps"] / last["pct"]
        for name, gbps in ceilings.items():
            axes.axhline(gbps, linestyle=":", color="grey")
            axes.annotate(f"ceiling: {name}", (0.01, gbps), xycoords=("axes fraction", "data"), fontsize=7, va="bottom")
        if ceilings:
            axes.set(xscale="log", xlabel="bytes", ylabel="GB/s", ylim=(0, None), title=f"{family}, {gpu} (dashed: the best peer)")
            axes.legend(fontsize=7, ncols=2)
            figure.savefig(folder / f"{family}.svg", metadata={"Date": None})
        pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--by-kernel", action="store_true")
    parser.add_argument("--beside", metavar="PEER")
    parser.add_argument("--plots", type=pathlib.Path)
    arguments = parser.parse_args()
    found, faults = read(arguments.files, arguments.only)
    if not found and not faults:
        sys.exit("table.py: no measurement of that name")
    if arguments.plots:
        plot(found, arguments.plots)
    elif arguments.beside:
        print_beside(found, arguments.beside)
    else:
        (print_by_kernel if arguments.by_kernel else print_tables)(found)
        print_faults(faults)


main()
