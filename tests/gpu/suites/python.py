"""Python programs as in compat: frameworks with their own cudart, caches off.

torch_first_use is different: natively, in exact and in relaxed at once, kernels are loaded for the first time while
another program fills the device. Even natively about one child in ten ends in an error other than out of memory there,
such as 700, and seldom twice in the same. Such errors are counted, natively and under cushim. A wrong sum without an
error is a fault.
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
    "torch_sleep": {},
    "triton_add": OFF,
    "cupy_pool_off": {},
    "numba_saxpy": {},
    "jax_small": {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


def path_of(name):
    return build.ROOT / "tests" / "gpu" / "python" / f"{name}.py"


def one(host, name):
    # code that is compiled at run time is compiled once, in the first of the two runs, in a separate folder
    caches = {"CUPY_CACHE_DIR": host.scratch / "cupy", "TRITON_CACHE_DIR": host.scratch / "triton",
              "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONHASHSEED": "0"}
    return compat.gauntlet(host, name, [sys.executable, path_of(name)], TIMEOUT_S, **caches, **PROGRAMS[name])


FIRST_USE_S, IMPORT_S = 30, 40  # seconds of children, and at most until PyTorch is loaded and the last child has ended
FIRST_USE_WAYS = {"native": None, "exact": {}, "relaxed": {"CUSHIM_FREE": "relaxed"}}


def run_first_uses(host, way, settings):
    """One row per child, and how the program ended."""
    lines = host.scratch / f"torch_first_use-{way}.lines"
    env = {} if settings is None else {"LD_PRELOAD": host.preload, **settings}
    done = host.run([sys.executable, "-B", path_of("torch_first_use"), lines, FIRST_USE_S], FIRST_USE_S + IMPORT_S, **env)
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else [], done


def count_errors(rows):
    """{error other than out of memory: the number of children with it}"""
    return collections.Counter(row["errors"][0] for row in rows if row["errors"])


def judge_first_uses(way, rows, done, native_rows):
    errors, natively = count_errors(rows), count_errors(native_rows)
    part = {"name": f"torch_first_use-{way}", "status": "pass", "faults": [], "seconds": done.seconds, "children": len(rows),
            "out_of_memory": sum(row["n_out_of_memory"] > 0 for row in rows), "errors": errors,
            "native_children": len(native_rows), "native_errors": natively}
    if not rows or not native_rows:
        why = done.stderr.decode(errors="replace").strip().splitlines() or ["no child ended"]
        return part | {"status": "skip", "why": why[-1][-200:]}
    n_wrong = sum(row["is_right"] is False and not row["errors"] for row in rows)
    if n_wrong:
        part.update(status="fail", faults=[f"{n_wrong} of {len(rows)} children had a wrong sum and no error"])
    elif errors or natively:
        part.update(difference=list(errors), differs_because=f"{sum(errors.values())} of {len(rows)} children met such errors, "
                                                             f"natively {sum(natively.values())} of {len(native_rows)}")
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
