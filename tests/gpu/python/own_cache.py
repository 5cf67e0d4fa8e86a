"""The cost of the preload in programs that do not need it: Python libraries with their own caches, which hardly call
cudaMalloc after the warm-up.

    own_cache.py [--only torch,cupy,jax,triton]

At each line of its input it measures every workload once and prints one line per workload, with the time of a repeat
that ends in a synchronise, and an empty line (tests/bench/run/turns.py). PyTorch: a training step, 200 small
element-wise operations, 64 matrix products, Fourier transforms whose plan changes, 100 replays of a CUDA graph,
pageable batches copied to the device and their sums back. CuPy: element-wise chains and sums; JAX: 20 jitted steps;
Triton: 100 launches. A missing library is reported on stderr. Exit status 77: all are missing.
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch and CuPy need some of the device too
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
SLICE_S = 0.15  # repeats of a workload per turn


def training_step(torch):
    nn = torch.nn
    model = nn.Sequential(*(layer for _ in range(4)
                            for layer in (nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(2048, 1024, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        (model(x) - x).square().mean().backward()
        optimizer.step()
    return step


def small_operations(torch):
    x = torch.randn(1000, device="cuda")

    def chain():
        y = x
        for _ in range(100):
            y = (y * 1.01).add(0.5)
    return chain


def matrix_products(torch):
    a, b = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")

    def products():
        for _ in range(64):
            a @ b
    return products


def changing_transforms(torch):
    x = torch.randn(8, 1 << 16, device="cuda")

    def transforms():
        torch.backends.cuda.cufft_plan_cache.clear()
        for log2 in range(10, 16):
            torch.fft.rfft(x[:, :1 << log2])
    return transforms


def graph_replays(torch):
    x = torch.randn(1 << 16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x
        for _ in range(10):
            y = torch.sin(y)

    def replays():
        for _ in range(100):
            graph.replay()
    return replays


def pageable_batches(torch):
    batch = torch.randn(64, 3, 64, 64)

    def copies():
        for _ in range(10):
            batch.cuda().sum().item()
    return copies


def cupy_chains(cupy):
    x = cupy.arange(1 << 16, dtype=cupy.float32)

    def chains():
        y = x
        for _ in range(20):
            y = cupy.sqrt(y * 1.5 + 1)
        float(y.sum())
    return chains


def jax_steps(jax):
    x = jax.numpy.ones((256, 256))
    step = jax.jit(lambda w: w - 0.01 * jax.grad(lambda v: ((x @ v - 1) ** 2).mean())(w))

    def steps():
        w = x
        for _ in range(20):
            w = step(w)
        w.block_until_ready()
    return steps


def triton_launches(torch):
    import triton_add
    x = torch.randn(1 << 16, device="cuda")
    out = torch.empty_like(x)

    def launches():
        for _ in range(100):
            triton_add.add[(64,)](out, x, x, x.numel(), BLOCK=1024)
    return launches


# library: (its module, the function that waits for the device, the workloads)
LIBRARIES = {
    "torch": ("torch", lambda torch: torch.cuda.synchronize, (training_step, small_operations, matrix_products,
                                                              changing_transforms, graph_replays, pageable_batches)),
    "cupy": ("cupy", lambda cupy: cupy.cuda.runtime.deviceSynchronize, (cupy_chains,)),
    "jax": ("jax", lambda jax: lambda: None, (jax_steps,)),
    "triton": ("torch", lambda torch: torch.cuda.synchronize, (triton_launches,)),
}


def ready(names):
    """[(name, work, wait)] of the installed libraries."""
    found = []
    for name in names:
        module, wait_of, makers = LIBRARIES[name]
        try:
            library = __import__(module)
            __import__(name)
            found += [(make.__name__, make(library), wait_of(library)) for make in makers]
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
    return found


def measure(work, wait):
    times, end = [], time.perf_counter() + SLICE_S
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter_ns()
        work()
        wait()
        times.append(time.perf_counter_ns() - start)
    return sorted(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join(LIBRARIES))
    options = parser.parse_args()
    works = ready(options.only.split(","))
    if not works:
        sys.exit(77)
    for _ in sys.stdin:
        for name, work, wait in works:
            times = measure(work, wait)
            n = len(times)
            print(json.dumps({"case": f"own-cache/{name}", "n": n, "p0_ns": times[0], "p50_ns": times[n // 2],
                              "p99_ns": times[(n - 1) * 99 // 100], "max_ns": times[-1]}))
        print(flush=True)


main()
