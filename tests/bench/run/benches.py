#!/usr/bin/env python3
"""Runs the benchmarks, by name or all of them, on this machine.

    benches.py --bin FOLDER --preload FILE [--only pair,larson] [--links static,shared] [--rounds N] [--tiny]
               [--ms N] [--library-path FOLDER] [--trace FILE] [--device TEXT] [--out FILE]

FOLDER holds alloc-LINK, calls-LINK, context-LINK, startup-LINK and bench-companion, and libpeer-rmm.so if RMM's wheels
were available. A bench that the machine cannot run prints a line that says why.
"""
import argparse
import os
import pathlib
import sys
import tempfile
import time

import rounds
import turns
from rounds import Variant

PEERS = pathlib.Path(__file__).resolve().parent / "peers.py"
MODES = ("exact", "relaxed")
# The name of a peer in the tables, and its allocator in alloc.c.
POOLS = {"cudaMallocAsync": "async", "cudaMallocAsync, kept": "async-kept"}
RMM = {"RMM pool": "rmm-pool", "RMM arena": "rmm-arena", "RMM async": "rmm-async"}
RANDOM = ("random/1000x4G", "random/10000x64M", "random/100000x1M")
PACK = ("pack/1000x1100000", "pack/1000x2200000")


class Place:
    """Paths of the programs, the preload and a recorded trace, and how much to run."""

    def __init__(self, folder, preload, links=("static", "shared"), time_ms=20, is_tiny=False, trace=None):
        self.folder, self.preload = pathlib.Path(folder), preload
        self.links, self.time_ms, self.is_tiny, self.trace = links, time_ms, is_tiny, trace
        self.python = None  # an interpreter with the peers' packages
        self.thrust = None
        self.steady = None
        self.torch = None  # a program
        self.record = None  # (library, where the trace goes)
        self.before = None  # an earlier preload, to run beside this one in place of the peers
        self.companion_env = {}

    def program(self, name, link=None):
        link = link or ("shared" if "shared" in self.links else self.links[0])
        return self.folder / f"{name}-{link}"

    def cushim(self, mode, **more):
        return {"LD_PRELOAD": self.preload, "CUSHIM_FREE": mode, **more}

    def modes(self, command, **more):
        """cushim in both modes, and an earlier build if there is one."""
        found = [Variant(f"cushim {mode}", command, self.cushim(mode, **more)) for mode in MODES]
        if self.before:
            found += [Variant(f"before {mode}", command, {**self.cushim(mode, **more), "LD_PRELOAD": self.before}) for mode in MODES]
        return found

    def alloc(self, work, allocator="malloc", link=None, time_ms=None, more=()):
        return [self.program("alloc", link), "--work", work, "--allocator", allocator, "--ms", time_ms or self.time_ms,
                *(["--tiny"] if self.is_tiny else []), *more]

    def variants(self, work, entries=False, pools=True, rmm=True, allocator="malloc", time_ms=None, more=()):
        """Native, cushim in both modes (with entries: by both entry points), and the peers that alloc.c can call."""
        def command(allocator, link=None):
            return self.alloc(work, allocator, link, time_ms, more)

        found = [Variant("native", command(allocator)), *self.modes(command(allocator))]
        for mode in MODES:
            if entries and "static" in self.links:
                found.append(Variant(f"cushim {mode}, driver entry", command(allocator, "static"), self.cushim(mode)))
            elif entries:
                found.append(Variant(f"cushim {mode}, driver entry", command(allocator),
                                     self.cushim(mode, CUSHIM_RUNTIME="0")))
        if pools and not self.before:
            found += [Variant(name, command(kind)) for name, kind in POOLS.items()]
        library = self.folder / "libpeer-rmm.so"
        if rmm and not self.before:
            at = ["--peer", library] if library.exists() else []
            found += [Variant(name, command(kind) + at) for name, kind in RMM.items()]
        return found


# ---- the benchmarks: each is a function of the bench and the place ----

def side_by_side(bench, place, title, variants, suffix="", n_generations=3, n_turns=10, **more):
    """Runs programs that take turns."""
    variants = [Variant(each.name, [*each.command, "--turns"], each.env) for each in variants]
    n_generations, n_turns = (1, 2) if place.is_tiny else (n_generations, n_turns)
    turns.take(bench, title, variants, suffix, n_generations, n_turns, **more)


def pair(bench, place):
    side_by_side(bench, place, "pair", place.variants("pair", entries=True))


def threads(bench, place):
    more = ("--threads", "2" if place.is_tiny else "4,16", "--sizes", "64K,1M")
    side_by_side(bench, place, "pair", place.variants("pair", entries=True, more=more), n_processors=16)


def seen(bench, place):
    """What observation costs a pair: counters in a file, and a recording without and with stacks."""
    with tempfile.TemporaryDirectory() as folder:
        ways = {"": {}, ", live page": {"CUSHIM_LIVE": "1", "CUSHIM_LIVE_DIR": folder},
                ", recorded without stacks": {"CUSHIM_TRACE": folder, "CUSHIM_STACKS": "none"},
                ", recorded": {"CUSHIM_TRACE": folder}}
        command = place.alloc("pair", more=("--sizes", "4K,1M"))
        variants = [Variant(f"cushim {mode}{way}", command, place.cushim(mode, **settings))
                    for way, settings in ways.items() for mode in MODES]
        side_by_side(bench, place, "seen", [Variant("native", command), *variants], suffix="/seen")


def larson(bench, place):
    more = ("--threads", "1,2") if place.is_tiny else ()
    bench.by_turns("larson", place.variants("larson", entries=True, time_ms=2 * place.time_ms, more=more))


def deep(bench, place):
    bench.by_turns("deep", place.variants("deep", rmm=False, time_ms=8 * place.time_ms))


def pinned(bench, place):
    bench.by_turns("pinned", place.variants("pair", pools=False, rmm=False, allocator="pinned"))


def traces(*names):
    """Each case has its own processes, so that none inherits state of another."""
    def run(bench, place):
        for name in names:
            bench.by_turns(name, place.variants(name), n_rounds=2, timeout_s=120, is_counted=True)
    return run


def trace(bench, place):
    if place.trace and os.path.exists(place.trace):
        bench.by_turns("trace", place.variants("trace", more=("--trace", place.trace)), n_rounds=2, is_counted=True)
    else:
        bench.emit({"case": "trace/torch-step", "variant": "all", "rounds": 0, "skipped": "no trace was recorded"})


def peers(bench, place):
    """Allocators of Python packages on the same workloads; the traces are written to files for them."""
    with tempfile.TemporaryDirectory() as folder:
        works = ["random/10000x64M", "random/1000x4G", "power/20000", "growth/200", *PACK]
        files = [row["file"] for row in bench.lines(place.alloc(",".join(works)) + ["--dump", folder], 60) if "file" in row]
        if place.trace and os.path.exists(place.trace):
            files.append(place.trace)
        command = [place.python or sys.executable, PEERS, "--ms", place.time_ms, "--traces", ",".join(map(str, files))]
        expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        variants = [Variant("Python, no allocator", [*command, "--allocator", "noop"])]
        if not place.is_tiny:
            variants += [Variant("PyTorch", [*command, "--allocator", "torch"]),
                         Variant("PyTorch, expandable", [*command, "--allocator", "torch"], expandable),
                         Variant("CuPy", [*command, "--allocator", "cupy"])]
        bench.by_turns("peers", variants, n_rounds=2, timeout_s=90)


def copies(bench, place):
    """Pageable and pinned copies without cushim, staged pageable copies; one thread and many."""
    command = [place.program("copies"), "--ms", place.time_ms, *(["--tiny"] if place.is_tiny else [])]
    staged = place.cushim("exact", CUSHIM_COPY_STAGE="on", CUSHIM_COPY_STAGE_MIN="64K")
    variants = [Variant("native", command), Variant("cushim staged", [*command, "--memory", "pageable"], staged)]
    bench.by_turns("copies", variants, n_rounds=2, timeout_s=200)


def calls(bench, place):
    for link in place.links:
        command = [place.program("calls", link), "--ms", place.time_ms, *(["--no-kernels"] if place.is_tiny else [])]
        side_by_side(bench, place, "calls", [Variant("native", command), *place.modes(command)], f"/{link}",
                     n_generations=8, n_turns=4)


def startup(bench, place):
    """The C program alternates itself, so that the numbers contain less of the harness."""
    n_short, n_long = (30, 5) if place.is_tiny else (300, 15)
    link = place.links[0]
    cases = [("true", n_short, ["/bin/true"])]
    for depth, n_runs in (("loaded", 2 * n_long), ("init", n_long), ("context", n_long)):
        cases += [(f"{depth}/{kind}", n_runs, [place.program("context", kind), depth]) for kind in place.links
                  if depth != "init" or kind == link]
    for name, n_runs, command in cases:
        native = None
        for row in bench.lines([place.program("startup", link), "--preload", place.preload, "--runs", n_runs,
                                "--name", name, "--", *command], 90):
            line = bench.emit({"rounds": 1, **row}, native)
            native = line if row["variant"] == "native" else native


def thrust(bench, place):
    if not place.thrust:
        bench.emit({"case": "thrust", "variant": "all", "rounds": 0, "skipped": "not built"})
        return
    command = [place.thrust, "--time"]
    bench.by_turns("thrust", [Variant("native", command), *place.modes(command)], timeout_s=40)


def record(bench, place):
    """Writes the trace that `trace` and `peers` play; it prints no line."""
    script = PEERS.parent / "record_torch.py"
    done = bench.run([place.python or sys.executable, script, "--library", place.record[0], "--out", place.record[1]], 90)
    if done.rc == 0:
        place.trace = place.record[1]
    else:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        bench.emit({"case": "record", "variant": "all", "rounds": 0, "skipped": why[-1][:200] if why else "no trace"})
        if done.rc != 77:
            bench.faults.append(f"record_torch.py: exit status {done.rc}{': ' + why[-1][:200] if why else ''}")


def torch(bench, place):
    """A training step: caching off, and PyTorch's own caches, in the same rounds."""
    command = [place.python or sys.executable, place.torch, "--time", "--steps", "35"]
    off = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    variants = [Variant("native", command, off)]
    variants += place.modes(command, **off)
    variants += [Variant("PyTorch", command), Variant("PyTorch, expandable", command, expandable)]
    variants += [Variant(f"PyTorch under cushim {mode}", command, place.cushim(mode)) for mode in MODES]
    bench.by_turns("torch-step", variants, n_rounds=2, timeout_s=60)


def own_cache(bench, place):
    """Programs that hardly allocate, which cushim must not slow down."""
    if not place.torch:
        bench.emit({"case": "own-cache", "variant": "all", "rounds": 0, "skipped": "no PyTorch"})
        return
    command = [place.python or sys.executable, place.torch.parent / "own_cache.py"]
    for suffix, more in (("", {}), ("/expandable", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})):
        asked = [*command, *(["--only", "torch"] if suffix else [])]
        variants = [Variant("native", asked, more), *place.modes(asked, **more)]
        turns.take(bench, "own-cache", variants, suffix, n_generations=3, n_turns=8, timeout_s=120)


def steady(bench, place):
    """The same for C++ programs: libraries, graphs, launches, managed memory."""
    if not place.steady:
        bench.emit({"case": "steady", "variant": "all", "rounds": 0, "skipped": "not built"})
        return
    side_by_side(bench, place, "steady", [Variant("native", [place.steady]), *place.modes([place.steady])],
                 n_generations=12, n_turns=4)


def companion(work):
    """The library and the driver alternate inside the program, which names the variants."""
    def run(bench, place):
        program = place.folder / "bench-companion"
        if not program.exists():
            bench.emit({"case": work, "variant": "all", "rounds": 0, "skipped": "not built"})
            return
        command = [program, "--work", work, "--ms", place.time_ms, *(["--tiny"] if place.is_tiny else [])]
        bench.by_turns(work, [Variant("companion", command, place.companion_env)])
    return run


# name: (function, seconds after which it begins no further round). The order: `record` before the benches that play the
# trace, and cheap and important benches before expensive ones.
BENCHES = {
    "record": (record, 30),
    "pair": (pair, 60),
    "threads": (threads, 40),
    "seen": (seen, 40),
    "larson": (larson, 40),
    "deep": (deep, 20),
    "pinned": (pinned, 20),
    "pack": (traces(*PACK), 30),
    "random": (traces(*RANDOM), 50),
    "power": (traces("power/20000"), 20),
    "growth": (traces("growth/200"), 15),
    "trace": (trace, 20),
    "thrust": (thrust, 25),
    "torch": (torch, 80),
    "own-cache": (own_cache, 300),
    "steady": (steady, 200),
    "calls": (calls, 150),
    "copies": (copies, 200),
    "startup": (startup, 30),
    "peers": (peers, 50),
    **{f"companion-{work}": (companion(work), 8) for work in ("pool", "arena", "graph", "launch", "mapped", "copy")},
}
ON_GPU = ("record", "thrust", "torch", "own-cache", "steady")  # the other benches are host C, which the software device runs too


def run_one(bench, place, name, left_s=float("inf")):
    """Returns what went wrong, and the number of lines. left_s: the time limit for this bench."""
    function, budget_s = BENCHES[name]
    n_lines, n_faults = len(bench.rows), len(bench.faults)
    bench.until = time.monotonic() + min(budget_s, left_s / 2)
    try:
        function(bench, place)
    except Exception as error:  # a failed bench does not stop the others
        bench.faults.append(f"{name}: {error!r}")
    return sorted(set(bench.faults[n_faults:])), len(bench.rows) - n_lines


def main():
    parser = argparse.ArgumentParser(description="the benchmarks, alternately without and with cushim")
    parser.add_argument("--bin", required=True)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--only", default=",".join(name for name in BENCHES if name not in ON_GPU))
    parser.add_argument("--links", default="static,shared")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ms", type=int, default=20)
    parser.add_argument("--tiny", action="store_true", help="a trial run, whose counts and sizes measure nothing")
    parser.add_argument("--trace", help="a recorded trace")
    parser.add_argument("--library-path")
    parser.add_argument("--device", default="")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    environment = rounds.environment_here(arguments.library_path)
    run = rounds.run_here(environment)
    place = Place(arguments.bin, os.path.abspath(arguments.preload), arguments.links.split(","), arguments.ms,
                  arguments.tiny, arguments.trace)
    names = arguments.only.split(",")
    if not all(name.startswith("companion-") for name in names) and run([place.program("context")], 60).rc != 0:
        print("no CUDA device", file=sys.stderr)
        return 77  # meson counts a skip
    with tempfile.TemporaryDirectory() as scratch, \
            open(arguments.out, "w") if arguments.out else os.fdopen(os.dup(1), "w") as out:
        bench = rounds.Bench(run, environment, {"device": arguments.device}, out, scratch, arguments.rounds)
        for name in names:
            run_one(bench, place, name)
    for fault in bench.faults:
        print(fault, file=sys.stderr)
    return 1 if bench.faults or not bench.rows else 0


if __name__ == "__main__":
    sys.exit(main())
