"""The numbers of docs/measurements.md: pairs, calls, start-up, whole programs; native and cushim by turns."""
import pathlib
import sys

import build

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import rounds  # noqa: E402

NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def whole_programs(host, bench):
    program = build.output(host, "thrust", "static")
    if program.exists():
        bench.by_turns([program, "--time"], ["native", "cushim"], n_rounds=3, timeout_s=30)
    preloaded = {"LD_PRELOAD": host.preload}
    torch = build.ROOT / "tests" / "gpu" / "python" / "torch_train.py"
    if host.run([sys.executable, "-c", "import torch"], 60).rc == 0:
        bench.by_turns([sys.executable, torch, "--time", "--steps", "35"],
                       ["native", "cushim", "native, PyTorch's own cache", "cushim, PyTorch's own cache"], n_rounds=2,
                       timeout_s=60,
                       environments={"native": NO_CACHE, "cushim": {**NO_CACHE, **preloaded},
                                     "native, PyTorch's own cache": {}, "cushim, PyTorch's own cache": preloaded})


def run(host):
    parts = []
    facts = {name: host.facts.get(name) for name in ("device", "driver", "clocks", "commit", "date")}
    with open(host.out / "bench.jsonl", "w") as out:
        bench = rounds.Bench(lambda command, timeout_s, **env: host.run(command, timeout_s, **env), host.bin,
                             host.preload, facts, out, host.links)
        works = [("pair", bench.pair), ("startup", bench.startup), ("calls", bench.calls)]
        if host.sim:
            bench.n_rounds, bench.time_ms, bench.sizes, bench.has_kernels = 2, 5, "512,64K,1M", False
            works[1] = ("startup", lambda: bench.startup(30, 5))
        else:
            works.append(("whole", lambda: whole_programs(host, bench)))
        for name, work in works:
            n_lines, n_faults = len(bench.rows), len(bench.faults)
            work()
            faults = sorted(set(bench.faults[n_faults:]))
            host.log(*faults)
            parts.append({"name": name, "status": "fail" if faults or len(bench.rows) == n_lines else "pass",
                          "faults": faults, "n_lines": len(bench.rows) - n_lines})
    host.bench_rows = bench.rows
    return parts
