"""Every function of the driver as (symbol, version, flags) names it, read from the toolkit's cudaTypedefs.h.

A symbol has revisions, each with the version from which it means that function; the exports are named
symbol, symbol_v2, symbol_v3 in that order, and so are the variants for per-thread default streams.

    revisions.py INCLUDE_FOLDER      prints the rows that fake_cuda.c is made of; HAND: has a body there
"""
import collections
import pathlib
import re
import sys

Revision = collections.namedtuple("Revision", "abi symbol since per_thread")

PER_THREAD = 2

# Declared in cudaProfiler.h, which has no typedefs; and a revision that no toolkit has yet.
EXTRA = [Revision("cuProfilerInitialize", "cuProfilerInitialize", 4000, False),
         Revision("cuProfilerStart", "cuProfilerStart", 4000, False),
         Revision("cuProfilerStop", "cuProfilerStop", 4000, False),
         Revision("cuMemAlloc_v9", "cuMemAlloc", 99000, False)]


def read(include):
    text = (pathlib.Path(include) / "cudaTypedefs.h").read_text()
    since = collections.defaultdict(set)
    for symbol, version, per_thread in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)", text):
        since[symbol, bool(per_thread)].add((int(version), per_thread))
    rows = []
    for (symbol, per_thread), revisions in since.items():
        for number, (version, suffix) in enumerate(sorted(revisions), 1):
            abi = symbol + (f"_v{number}" if number > 1 else "") + suffix
            rows.append(Revision(abi, symbol, version, per_thread))
    return name_variants(rows) + EXTRA


def name_variants(rows):
    """Variants that came with version 7000 are those of the newest revision of that time, and named after it."""
    named = []
    for row in rows:
        if row.per_thread and row.since == 7000:
            older = [r for r in rows if r.symbol == row.symbol and not r.per_thread and r.since <= 7000]
            base = max(older, key=lambda r: r.since).abi
            row = row._replace(abi=base + row.abi[-5:])
        named.append(row)
    return named


def answer(rows, symbol, version, flags):
    """The answer of a driver: the newest revision up to the version, a per-thread variant if flag 2 asks for one."""
    for per_thread in ([True, False] if flags == PER_THREAD else [False]):
        fitting = [r for r in rows if r.symbol == symbol and r.per_thread == per_thread and r.since <= version]
        if fitting:
            return max(fitting, key=lambda r: r.since).abi
    return None


if __name__ == "__main__":
    by_hand = ("cuGetProcAddress", "cuGetProcAddress_v2", "cuGetExportTable")
    for row in read(sys.argv[1]):
        macro = "HAND" if row.abi in by_hand else "ROW"
        print(f'{macro}({row.abi}, "{row.symbol}", {row.since}, {int(row.per_thread)})')
