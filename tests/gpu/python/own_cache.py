"""What the preload costs a program that does not need it: PyTorch with its own cache, which asks cudaMalloc for next to
nothing after the warm-up.

    own_cache.py [--repeats N]

One line a workload, the time of a repeat that ends in a synchronise: a training step, 200 small element-wise operations,
64 matrix products, Fourier transforms whose plan changes, 100 replays of a CUDA graph, a pageable batch copied to the
device and its sum copied back.  Exit status 77: no PyTorch.
"""
import json
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    print("no torch", file=sys.stderr)
    sys.exit(77)


def training_step():
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(2048, 1024, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        (model(x) - x).square().mean().backward()
        optimizer.step()
    return step


def small_operations():
    x = torch.randn(1000, device="cuda")

    def chain():
        y = x
        for _ in range(100):
            y = (y * 1.01).add(0.5)
    return chain


def matrix_products():
    a, b = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")

    def products():
        for _ in range(64):
            a @ b
    return products


def changing_transforms():
    x = torch.randn(8, 1 << 16, device="cuda")

    def transforms():
        torch.backends.cuda.cufft_plan_cache.clear()
        for log2 in range(10, 16):
            torch.fft.rfft(x[:, :1 << log2])
    return transforms


def graph_replays():
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


def pageable_batches():
    batch = torch.randn(64, 3, 64, 64)

    def copies():
        for _ in range(10):
            batch.cuda().sum().item()
    return copies


def main():
    n_repeats = int(sys.argv[sys.argv.index("--repeats") + 1]) if "--repeats" in sys.argv else 30
    for make in (training_step, small_operations, matrix_products, changing_transforms, graph_replays, pageable_batches):
        work, times = make(), []
        for i in range(5 + n_repeats):
            start = time.perf_counter_ns()
            work()
            torch.cuda.synchronize()
            if i >= 5:
                times.append(time.perf_counter_ns() - start)
        times.sort()
        print(json.dumps({"case": f"own-cache/{make.__name__}", "n": n_repeats, "p0_ns": times[0], "p50_ns": times[n_repeats // 2],
                          "p99_ns": times[(n_repeats - 1) * 99 // 100], "max_ns": times[-1]}))


main()
