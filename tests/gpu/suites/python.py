"""Python programs through the gauntlet: frameworks that come with a cudart of their own, cache off."""
import functools
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


def one(host, name):
    # what compiles at run time does so once, for the first run of the two, in a place of its own
    caches = {"CUPY_CACHE_DIR": host.scratch / "cupy", "TRITON_CACHE_DIR": host.scratch / "triton",
              "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONHASHSEED": "0"}
    path = build.ROOT / "tests" / "gpu" / "python" / f"{name}.py"
    return compat.gauntlet(host, name, [sys.executable, path], TIMEOUT_S, **caches, **PROGRAMS[name])


def run(host):
    if host.sim:
        return [{"name": "python", "status": "skip", "why": "needs a GPU"}]
    return compat.run_all(host, "python.json", [functools.partial(one, host, name) for name in PROGRAMS],
                          min(3, host.n_jobs))
