"""Python programs through the gauntlet: frameworks that come with a cudart of their own, cache off.

torch_first_use is no part of it: natively, exact and relaxed at once, beside a program that fills the device, kernels are loaded
for the first time.  Errors may differ from time to time, but what is no want of memory is a fault unless it comes natively, too.
"""
import collections
import concurrent.futures
import functools
import json
import sys

import build
import compat

TIMEOUT_S = 100
OFF = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
PROGRAMS = {
    "torch_train": OFF,
    "triton_add": OFF,
    "cupy_pool_off": {},
    "numba_saxpy": {},
    "jax_small": {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


def path_of(name):
    return build.ROOT / "tests" / "gpu" / "python" / f"{name}.py"


def one(host, name):
    # what compiles at run time does so once, for the first run of the two, in a place of its own
    caches = {"CUPY_CACHE_DIR": host.scratch / "cupy", "TRITON_CACHE_DIR": host.scratch / "triton",
              "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONHASHSEED": "0"}
    return compat.gauntlet(host, name, [sys.executable, path_of(name)], TIMEOUT_S, **caches, **PROGRAMS[name])


FIRST_USE_S, IMPORT_S = 30, 40  # of children; at most, until PyTorch is there and the last child has ended
FIRST_USE_WAYS = {"native": None, "exact": {}, "relaxed": {"CUSHIM_FREE": "relaxed"}}


def run_first_uses(host, way, settings):
    """A row a child, and how the program ended."""
    lines = host.scratch / f"torch_first_use-{way}.lines"
    env = {} if settings is None else {"LD_PRELOAD": host.preload, **settings}
    done = host.run([sys.executable, "-B", path_of("torch_first_use"), lines, FIRST_USE_S], FIRST_USE_S + IMPORT_S, **env)
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else [], done


def find_faults(rows):
    """{what: how often}, but for want of memory."""
    return collections.Counter([row["errors"][0] if row["errors"] else "a wrong sum" for row in rows
                                if row["errors"] or row["is_right"] is False])


def judge_first_uses(way, rows, done, native_rows):
    faults, natively = find_faults(rows), find_faults(native_rows)
    part = {"name": f"torch_first_use-{way}", "status": "pass", "faults": [], "seconds": done.seconds, "children": len(rows),
            "out_of_memory": sum(row["n_out_of_memory"] > 0 for row in rows), "errors": faults,
            "native_children": len(native_rows), "native_errors": natively}
    if not rows or not native_rows:
        why = done.stderr.decode(errors="replace").strip().splitlines() or ["no child ended"]
        return part | {"status": "skip", "why": why[-1][-200:]}
    part["faults"] = [f"{n} of {len(rows)}: {what}" for what, n in faults.items() if what not in natively]
    if part["faults"]:
        part["status"] = "fail"
    elif faults:
        part.update(difference=list(faults), differs_because=f"{sum(faults.values())} of {len(rows)} children met what "
                                                             f"{sum(natively.values())} of {len(native_rows)} met natively")
    return part


def first_uses(host):
    stop = host.scratch / "stop"
    with concurrent.futures.ThreadPoolExecutor(len(FIRST_USE_WAYS) + 1) as pool:
        filler = pool.submit(host.run, [sys.executable, "-B", path_of("fill"), stop, FIRST_USE_S + IMPORT_S], FIRST_USE_S + IMPORT_S + 10)
        runs = dict(zip(FIRST_USE_WAYS, pool.map(lambda item: run_first_uses(host, *item), FIRST_USE_WAYS.items())))
        stop.touch()
        host.log(f"== torch_first_use: {filler.result().stdout.decode(errors='replace').strip()}")
    return [judge_first_uses(way, *runs[way], runs["native"][0]) for way, settings in FIRST_USE_WAYS.items() if settings is not None]


def run(host):
    if host.sim:
        return [{"name": "python", "status": "skip", "why": "needs a GPU"}]
    works = [functools.partial(one, host, name) for name in PROGRAMS if host.wants_part("python", name)]
    parts = compat.run_all(host, "python.json", works, min(3, host.n_jobs))
    if host.wants_part("python", "torch_first_use"):
        parts += first_uses(host)
        host.save("python.json", {"host": host.facts, "parts": parts})
    return parts
