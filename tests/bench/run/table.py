#!/usr/bin/env python3
"""Renders the lines of the benchmarks (bench.jsonl) as Markdown tables.

    table.py FILE ... [--case PREFIX] [--kind all|modes|peers|memory|companion]

  all      each case and variant: median, mean, P99, maximum, against native, between rounds
  modes    a row a case: native, exact and relaxed by both entries, how often native fits in each, and the targets
  peers    a row a case: each peer, and what it takes of exact | of relaxed (above 1: cushim is faster)
  companion  a row a case: the companion library, what it adds to the driver or shares with it, the targets, and
           each other way with what it takes of the library's (above 1: the library is faster)
  memory   a row a case: memory held over memory live at the peak, and the driver's calls for each pair
"""
import argparse
import json
import re
import sys

from rounds import figure
from targets import target_of

OURS = ("cushim exact", "cushim exact, driver entry", "cushim relaxed", "cushim relaxed, driver entry")


def scaled(ns):
    """A number with three digits and a unit."""
    if ns is None:
        return "-"
    for unit, factor in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        value = ns / factor
        if abs(value) < 999.5 or unit == "s":
            digits = 0 if unit == "ns" or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
            return f"{value:.{digits}f} {unit}"


def size_key(case):
    """A sort key that puts sizes in order."""
    units = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3}
    return [(0, int(part[1]) << 10 * units[part[2]], "") if part else (1, 0, word)
            for word in case.split("/") for part in [re.fullmatch(r"(\d+)([kKMG]?)(?:-thread)?", word)]]


def ratio(of, by):
    """`of` divided by `by`."""
    if not of or not by:
        return "-"
    times = of / by
    return f"{times:.2f}x" if times < 10 else f"{times:.0f}x"


def judged(text, value, case, variant, field):
    """The text with its goal, if there is one, and whether it is met."""
    goal = target_of(case, variant, field)
    if goal is None or value is None:
        return text
    shown = f"{goal:.2f}" if "_by_" in field else scaled(goal)
    return f"{text} [{shown}{': met' if value <= goal else ''}]"


def table(head, rows):
    rows = list(rows)
    if rows:
        yield "| " + " | ".join(head) + " |"
        yield "|---|" + "---:|" * (len(head) - 1)
        for row in rows:
            yield "| " + " | ".join(row) + " |"


def names_of(cases, wanted=None):
    """The variants in order of their first line, or the existing ones of `wanted`."""
    seen = list(dict.fromkeys(name for of_case in cases.values() for name in of_case))
    return [name for name in wanted if name in seen] if wanted else seen


def render_all(cases):
    yield "| case | variant | median | mean | p99 | max | native / this | between rounds |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for case, of_case in cases.items():
        for name, line in of_case.items():
            if "skipped" in line:
                yield f"| {case} | {name} | skipped: {line['skipped']} | | | | | |"
                continue
            compared = ratio(figure(of_case.get("native", {})), figure(line)) if name != "native" else "-"
            if "added_ns" in line:
                compared = (f"adds {scaled(line['added_ns'])} "
                            f"({scaled(line['added_low_ns'])} .. {scaled(line['added_high_ns'])})")
            spread = f"{line['p50_spread_pct']:.0f} %" if "p50_spread_pct" in line else "-"
            yield (f"| {case} | {name} | {scaled(line.get('p50_ns'))} | {scaled(line.get('mean_ns'))} | "
                   f"{scaled(line.get('p99_ns'))} | {scaled(line.get('max_ns'))} | {compared} | {spread} |")


def mode_cell(case, name, line, native):
    if not figure(line):
        return "-"
    if "added_ns" in line:
        return judged(f"adds {scaled(line['added_ns'])}", line["added_ns"], case, name, "added_ns")
    text = scaled(figure(line)) + (f" ({ratio(native, figure(line))})" if native else "")
    return judged(text, figure(line), case, name, "ns")


def render_modes(cases):
    names = names_of(cases, OURS)

    def rows():
        for case, of_case in cases.items():
            if any(figure(of_case.get(name, {})) for name in names):
                native = figure(of_case.get("native", {}))
                yield [case, scaled(native), *(mode_cell(case, name, of_case.get(name, {}), native) for name in names)]
    return table(["case", "native", *(name.removeprefix("cushim ") for name in names)], rows())


def best(of_case, mode):
    """The better of both entry points."""
    return min((figure(line) for name, line in of_case.items() if name.startswith(f"cushim {mode}") and figure(line)),
               default=None)


def render_peers(cases):
    names = [name for name in names_of(cases) if name not in OURS]

    def cell(of_case, name):
        ns = figure(of_case.get(name, {}))
        return f"{scaled(ns)} ({ratio(ns, best(of_case, 'exact'))} \\| {ratio(ns, best(of_case, 'relaxed'))})" if ns else "-"

    def rows():
        for case, of_case in cases.items():
            if best(of_case, "exact") or best(of_case, "relaxed"):
                yield [case, scaled(best(of_case, "exact")), scaled(best(of_case, "relaxed")),
                       *(cell(of_case, name) for name in names)]
    return table(["case", "exact", "relaxed", *names], rows())


def render_memory(cases):
    cases = {case: of_case for case, of_case in cases.items() if any("held_by_live" in line for line in of_case.values())}
    names = names_of(cases)

    def cell(case, name, line):
        if "held_by_live" not in line:
            return "-"
        calls = line.get("driver_calls_per_pair")
        text = f"{line['held_by_live']:.2f}" + (f" ({calls:.3f} calls)" if calls is not None else "")
        return judged(text, line["held_by_live"], case, name, "held_by_live")

    def rows():
        for case, of_case in cases.items():
            live = [line["peak_live_bytes"] for line in of_case.values() if "peak_live_bytes" in line]
            if live:
                yield [case, f"{live[0] / 1e6:,.0f} MB", *(cell(case, name, of_case.get(name, {})) for name in names)]
    return table(["case", "live", *names], rows())


def host_facts(line):
    """The properties of the host that the library's numbers depend on, as text."""
    pin = "granted: a pin is a store and a load" if line["membarrier"] else "refused: a pin is a locked exchange"
    return f"membarrier {pin}; a locked add {line['locked_add_ns']} ns, cuCtxGetCurrent {line['current_context_ns']} ns"


def render_companion(cases):
    cases = {case: of_case for case, of_case in cases.items() if figure(of_case.get("companion", {}))}
    names = [name for name in names_of(cases) if name != "companion"]
    ratios = {"time_by_native": "of native", "exposed_by_shorter": "exposed"}

    def cell(case, line):
        texts = [judged(scaled(figure(line)), figure(line), case, "companion", "ns")]
        if "added_ns" in line:
            texts.append(judged(f"adds {scaled(line['added_ns'])}", line["added_ns"], case, "companion", "added_ns"))
        texts += [judged(f"{line[field]:.3f} {of}", line[field], case, "companion", field)
                  for field, of in ratios.items() if field in line]
        return ", ".join(texts)

    def rows():
        for case, of_case in cases.items():
            if case == "host":
                yield [case, host_facts(of_case["companion"]), *("-" for _ in names)]
                continue
            ours = figure(of_case["companion"])
            others = (figure(of_case.get(name, {})) for name in names)
            yield [case, cell(case, of_case["companion"]),
                   *(f"{scaled(ns)} ({ratio(ns, ours)})" if ns else "-" for ns in others)]
    return table(["case", "companion", *names], rows())


KINDS = {"all": render_all, "modes": render_modes, "peers": render_peers, "memory": render_memory,
         "companion": render_companion}


def heading(line):
    clocks = line.get("clocks") or {}
    parts = [line.get("device"), f"driver {line['driver']}" if line.get("driver") else "",
             f"SM {clocks['sm_mhz']} of {clocks['max_sm_mhz']} MHz at the start" if "max_sm_mhz" in clocks else "",
             f"commit {line['commit']}" if line.get("commit") else "", line.get("date")]
    return ", ".join(part for part in parts if part)


def main():
    parser = argparse.ArgumentParser(description="the lines of the benchmarks as Markdown tables")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--case", default="", help="only cases that begin with this")
    parser.add_argument("--kind", default="all", choices=KINDS)
    arguments = parser.parse_args()
    lines = []
    for name in arguments.files:
        with open(name) as file:
            lines += [json.loads(line) for line in file if line.startswith("{")]
    lines = [line for line in lines if line["case"].startswith(arguments.case)]
    if not lines:
        print("no such case", file=sys.stderr)
        return 1
    cases = {}
    for line in sorted(lines, key=lambda line: size_key(line["case"])):
        cases.setdefault(line["case"], {})[line["variant"]] = line
    print(heading(lines[0]), end="\n\n")
    print(*KINDS[arguments.kind](cases), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
