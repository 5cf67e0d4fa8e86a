#!/usr/bin/env python3
"""Measure the kernels beside PyTorch's, in one process and one run: a line per case, and JSON lines in a file.

Ceilings and the latency of an empty kernel are measured first.  A measurement is a captured graph of many calls over sets
of tensors that together are five times the L2; ours and the peers' graphs take turns.  kernels/docs/kernels.md says how
to read the columns.
"""
import argparse
import contextlib
import ctypes
import json
import math
import os
import pathlib
import statistics
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

ROTATED_BYTES = 320 << 20
MOST_SETS = 4096  # of the smallest: with 16 KB per set they exceed the L2 too
GRAPH_US = 2000
AHEAD_CYCLES = 400_000  # keeps the device busy while a replay or a few calls are queued, because idle time would be measured
CLOCK_CYCLES = 400_000  # of the multiprocessors, timed behind a replay because their clock falls under load
TINY_DIVISOR = 64


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, required=True, metavar="FILE", help="libcushim-kernels.so.0")
    parser.add_argument("--companion", type=pathlib.Path, metavar="FILE", help="libcushim.so.0, if the loader does not find it")
    parser.add_argument("--only", default="", metavar="PATTERN,..", help="cases with a PATTERN in KERNEL/SHAPE")
    parser.add_argument("--peers", choices=("none", "eager", "all"), default="eager",
                        help="PyTorch's; all has compiled ones too, which takes seconds per case (default: eager)")
    parser.add_argument("--ggml", type=pathlib.Path, metavar="FOLDER", help="with ggml's libraries, or its source, which is built there")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="replays of each graph, of which the median counts (default: 5)")
    parser.add_argument("--seconds", type=float, default=400, metavar="N", help="begin no case after this time (default: 400)")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="append the measurements, a JSON line each")
    parser.add_argument("--references", action="store_true", help="compare the references with PyTorch on small tensors of the host instead")
    return parser.parse_args()


ARGUMENTS = read_arguments()
if ARGUMENTS.references:
    os.environ["CUSHIM_KERNEL_ARCH"] = "cpu"

import ggml  # noqa: E402

BACKEND = "cpu" if ARGUMENTS.references else "cuda"
GGML_LIBRARIES = ggml.find(ARGUMENTS.ggml, BACKEND) if ARGUMENTS.ggml else None

import torch  # noqa: E402

import case as cases_of  # noqa: E402
import matrix_shapes  # noqa: E402
import row_shapes  # noqa: E402
import stream_shapes  # noqa: E402
from library import Library, Refused  # noqa: E402


def chosen(divisor):
    patterns = [pattern for pattern in ARGUMENTS.only.split(",") if pattern]
    for module in (stream_shapes, row_shapes, matrix_shapes):
        for case in module.cases(divisor):
            if not patterns or any(pattern in case.name for pattern in patterns):
                yield case


# ---- timing ----

class Sets:
    """Enough sets of tensors to exceed the L2 together, or one set."""

    def __init__(self, case, is_cold):
        new = cases_of.New("cuda")
        self.all = [case.make(new)]
        n_bytes = sum(t.numel() * t.element_size() for name, t in self.all[0].items() if name not in case.hot)
        while is_cold and len(self.all) < MOST_SETS and len(self.all) * n_bytes < ROTATED_BYTES:
            one = case.make(new)
            one.update({name: self.all[0][name] for name in case.hot})
            self.all.append(one)


def joined(call):
    """A context for a row of calls; a peer with a stream of its own has one that joins it to the current stream."""
    return getattr(call, "joined", contextlib.nullcontext)()


class Graph:
    """A graph of calls over the sets, and the time of one call in it."""

    def __init__(self, call, sets):
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            with joined(call):
                for t in sets:
                    call(t)  # loads, compiles, and prepares what a peer needs in each set, outside of the graph
            self.stream.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(AHEAD_CYCLES)
            begin.record()
            with joined(call):
                for t in sets[:4]:
                    call(t)
            end.record()
            end.synchronize()
            about_us = max(1.0, begin.elapsed_time(end) * 1e3 / min(4, len(sets)))
            n_rounds = max(1, min(200, math.ceil(GRAPH_US / about_us / len(sets))))
            self.n_calls = n_rounds * len(sets)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream), joined(call):
                for _ in range(n_rounds):
                    for t in sets:
                        call(t)
        torch.cuda.synchronize()
        self.samples, self.clocks = [], []

    def run(self, is_counted=True):
        begin, end, behind = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        torch.cuda._sleep(AHEAD_CYCLES)
        begin.record()
        self.graph.replay()
        end.record()
        torch.cuda._sleep(CLOCK_CYCLES)
        behind.record()
        behind.synchronize()
        if is_counted:
            self.samples.append(begin.elapsed_time(end) * 1e3 / self.n_calls)
            self.clocks.append(CLOCK_CYCLES / end.elapsed_time(behind) / 1e3)


def by_turns(graphs):
    for graph in graphs.values():
        graph.run(is_counted=False)
    for _ in range(ARGUMENTS.rounds):
        for graph in graphs.values():
            graph.run()


def ours_of(library, case):
    def call(t):
        library.stream = torch.cuda.current_stream().cuda_stream
        case.ours(library, t)
    return call


def ceilings():
    """GB/s of four mixes over 4 GB per tensor, and the time of an almost empty node."""
    a, b, c = (torch.empty(1 << 30, device="cuda").fill_(1.5) for _ in range(3))
    # no copy_(), because in a graph it is a node of the driver's, far slower than a kernel
    mixes = {"read": (lambda t: a.sum(), 4 << 30), "write": (lambda t: a.fill_(1.5), 4 << 30),
             "copy": (lambda t: torch.neg(a, out=b), 8 << 30), "add": (lambda t: torch.add(a, b, out=c), 12 << 30)}
    one = torch.zeros(1, device="cuda")
    graphs = {name: Graph(call, [{}]) for name, (call, _) in mixes.items()}
    graphs["empty"] = Graph(lambda t: one.fill_(0.0), [{}] * 64)
    by_turns(graphs)
    found = {name: n_bytes / statistics.median(graphs[name].samples) / 1e3 for name, (_, n_bytes) in mixes.items()}
    found["empty_us"] = statistics.median(graphs["empty"].samples)
    return found


# ---- one case ----

def accuracy(case, call, t):
    """NMSE of a result against the reference in double; None if there is no reference."""
    if case.reference is None:
        return None
    with joined(call):
        result = call(t)
    result = t[case.out] if result is None else result
    return cases_of.nmse(result.reshape(-1), case.reference(t).reshape(-1))


def is_wrong(case, found, t):
    """NaN is wrong too: the result then has a NaN."""
    return case.reference is not None and (found is None or found > cases_of.bound_of(t[case.out]))


def is_asked_for(name):
    if name == "ggml":
        return ARGUMENTS.ggml
    return ARGUMENTS.peers == "all" or ARGUMENTS.peers == "eager" and "compiled" not in name


def implementations(library, case):
    peers = {name: call for name, call in {**case.peers, **case.yardsticks}.items() if is_asked_for(name)}
    return {"ours": ours_of(library, case), **peers}


def measure(library, case, is_cold, ceiling):
    sets = Sets(case, is_cold)
    graphs, lines, errors = {}, [], {}
    for name, call in implementations(library, case).items():
        try:
            with torch.no_grad():
                errors[name] = accuracy(case, call, sets.all[0])
            graphs[name] = Graph(call, sets.all)
        except (RuntimeError, Refused, KeyError, AttributeError, TypeError) as error:
            torch.cuda.synchronize()
            lines.append({"kernel": case.kernel, "shape": case.shape, "impl": name, "error": str(error)[:300]})
    by_turns(graphs)
    for name, graph in graphs.items():
        us = statistics.median(graph.samples)
        gbps = case.n_bytes / us / 1e3
        lines.append({"kernel": case.kernel, "shape": case.shape, "mode": "cold" if is_cold else "hot", "impl": name,
                      "is_yardstick": name in case.yardsticks, "us": round(us, 3), "us_min": round(min(graph.samples), 3),
                      "us_max": round(max(graph.samples), 3), "mhz": round(statistics.median(graph.clocks)), "bytes": case.n_bytes, "gbps": round(gbps, 1),
                      "ceiling": case.ceiling, "pct": round(100 * gbps / ceiling[case.ceiling], 1),
                      "tflops": round(case.n_flops / us / 1e6, 2) if case.n_flops else None,
                      "us_above_empty": round(us - ceiling["empty_us"], 3), "nmse": errors[name], "sets": len(sets.all),
                      "is_wrong": name == "ours" and is_wrong(case, errors[name], sets.all[0])})
    return lines


def shown(lines):
    ours = next((line for line in lines if line["impl"] == "ours"), None)
    if ours is None or "error" in ours:
        return f"{lines[0]['kernel']}/{lines[0]['shape']}: {ours and ours['error']}"
    text = "WRONG " if ours["is_wrong"] else ""
    text += f"{ours['kernel'] + '/' + ours['shape']:52} {ours['mode']:4} {ours['us']:9.2f} us {ours['pct']:5.1f} % of {ours['ceiling']} {ours['mhz']} MHz"
    text += f" {ours['tflops']:7.1f} TFLOP/s" if ours["tflops"] else ""
    text += f" nmse {ours['nmse']:.1e}" if ours["nmse"] is not None else ""
    for line in lines:
        if line["impl"] != "ours":
            text += f" | {line['impl']} " + (f"{line['us']:.2f} ({line['us'] / ours['us']:.2f}x)" if "us" in line else "failed")
    return text


def run_on_gpu(library):
    facts = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}
    if ARGUMENTS.ggml:
        facts["ggml"] = ggml.Ggml.loaded.version().decode()
    ceiling = ceilings()
    torch.cuda.empty_cache()  # otherwise the first case reuses the ceilings' memory, up to a seventh slower
    out = open(ARGUMENTS.out, "a") if ARGUMENTS.out else None
    print(json.dumps({**facts, **{name: round(value, 2) for name, value in ceiling.items()}}), flush=True)
    until, n_failed, n_left = time.monotonic() + ARGUMENTS.seconds, 0, 0
    for case in chosen(1):
        for is_cold in (True, False) if case.is_small else (True,):
            if time.monotonic() > until:
                n_left += 1
                continue
            try:
                lines = measure(library, case, is_cold, ceiling)
            except torch.cuda.OutOfMemoryError as error:
                lines = [{"kernel": case.kernel, "shape": case.shape, "impl": "ours", "error": str(error)[:200]}]
            except RuntimeError as error:  # a fault of the device: no later result would be valid
                print(f"{case.name}: {str(error).splitlines()[0]}", file=sys.stderr)
                return 1
            n_failed += any(line["impl"] == "ours" and ("error" in line or line["is_wrong"]) for line in lines)
            print(shown(lines), flush=True)
            if out:
                out.writelines(json.dumps({**line, **facts}) + "\n" for line in lines)
                out.flush()
        torch.cuda.empty_cache()
        if ARGUMENTS.peers == "all":
            torch.compiler.reset()  # otherwise the ninth shape of an expression is not compiled
    if n_left:
        print(f"{n_left} measurements were not begun because time ran out")
    return 1 if n_failed else 0


# ---- the references against PyTorch, without a GPU ----

def run_references(library):
    """Check each case in small on the host: the library computes what the peers do, to the accuracy of float or half."""
    companion, context = library.companion, ctypes.c_void_p()
    assert companion.cushim_context_primary(0, ctypes.byref(context)) == 0 and companion.cushim_context_push(context) == 0
    n_wrong = 0
    for case in chosen(TINY_DIVISOR):
        t = case.make(cases_of.New("cpu"))
        if sum(x.numel() for x in t.values() if x.is_floating_point()) > 1 << 23 or case.n_flops > 1 << 32:
            continue
        peers = {name: call for name, call in case.peers.items() if name != "ggml" and "compiled" not in name}
        if not case.reference and not peers:
            continue
        before = {name: x.clone() for name, x in t.items()}
        try:
            case.ours(library, t)
            assert companion.cushim_stream_synchronize(None) == 0
        except (Refused, KeyError, AttributeError) as error:
            print(f"{case.name}: {error!r}")
            n_wrong += 1
            continue
        ours = t[case.out].clone()
        wanted = case.reference(before) if case.reference else next(iter(peers.values()))(before)
        wanted = before[case.out] if wanted is None else wanted
        difference = cases_of.nmse(ours, wanted.reshape(-1)[:ours.numel()])
        is_bad = difference is None and not torch.equal(ours.double().flatten(), wanted.double().flatten()) or \
            difference is not None and difference > cases_of.bound_of(ours)
        n_wrong += is_bad
        print(f"{'WRONG ' if is_bad else ''}{case.name}: nmse {difference}", flush=True)
        of_ggml = {**case.peers, **case.yardsticks}.get("ggml")
        if ARGUMENTS.ggml and of_ggml:
            difference = cases_of.nmse(of_ggml(before), wanted)
            is_bad = difference is None or difference > ggml.BOUND
            n_wrong += is_bad
            print(f"{'WRONG ' if is_bad else ''}{case.name} by ggml: nmse {difference}", flush=True)
    return 1 if n_wrong else 0


def main():
    library = Library(ARGUMENTS.library, ARGUMENTS.companion)
    if ARGUMENTS.ggml:
        ggml.Ggml.loaded = ggml.Ggml(GGML_LIBRARIES, BACKEND)
    return run_references(library) if ARGUMENTS.references else run_on_gpu(library)


sys.exit(main())
