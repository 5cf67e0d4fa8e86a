"""Steps with PyTorch and its Triton on the software device."""
import os
import pathlib
import sys

import torch
import torch.multiprocessing as multiprocessing
import triton
import triton.language

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import steps


def tensors():
    ones = torch.arange(1000.0, device="cuda") * 2 + 1
    assert ones.cpu().shape == (1000,)


def copies():
    host = torch.randn(1 << 20).pin_memory()
    device = host.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(device.cpu(), host)


def autograd():
    weight = torch.randn(100, device="cuda", requires_grad=True)
    (weight * weight).sum().backward()
    assert weight.grad.shape == (100,)


def adamw():
    weight = torch.nn.Parameter(torch.randn(100, device="cuda"))
    optimizer = torch.optim.AdamW([weight])
    for _ in range(3):
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()


def streams():
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    with torch.cuda.stream(stream):
        host = torch.ones(1000).pin_memory()
        device = host.to("cuda", non_blocking=True)
        event.record()
    event.wait()
    stream.synchronize()
    assert torch.equal(device.cpu(), host)


def graph():
    source, target = torch.ones(100).to("cuda"), torch.zeros(100).to("cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target.copy_(source)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(target.cpu(), torch.ones(100))


def graph_memory():
    graph = torch.cuda.CUDAGraph()
    source = torch.zeros(1 << 20, device="cuda")
    with torch.cuda.graph(graph):
        kept = source + 1
        dropped = kept * 2
        del dropped
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    del kept, graph
    torch.cuda.empty_cache()


def sort_and_index():
    values = torch.randn(10000, device="cuda")
    values.sort()
    values[torch.zeros(10, dtype=torch.long, device="cuda")]


def statistics():
    before = torch.cuda.memory_allocated()
    block = torch.empty(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4 << 20
    free, total = torch.cuda.mem_get_info()
    assert free <= total
    del block
    torch.cuda.empty_cache()
    assert torch.cuda.memory_snapshot() is not None


def out_of_memory():
    try:
        torch.empty(1 << 40, device="cuda", dtype=torch.uint8)
    except torch.OutOfMemoryError as error:
        assert "this process has" in str(error)  # PyTorch gets this from NVML
        return
    raise AssertionError("there is memory for a TiB")


def nvml():
    """Queries of torch.cuda to NVML: memory, processes, and sensors, which the device lacks."""
    block = torch.empty(8 << 20, device="cuda", dtype=torch.uint8)
    assert torch.cuda.device_memory_used() >= block.numel()
    assert f"process {os.getpid():>10d} uses" in torch.cuda.list_gpu_processes()
    for ask in (torch.cuda.utilization, torch.cuda.temperature, torch.cuda.power_draw, torch.cuda.clock_rate):
        try:
            ask()
        except Exception as error:
            assert type(error).__name__ == "NVMLError_NotSupported", error


def ten_thousand_tensors():
    kept = []
    for i in range(10000):
        kept.append(torch.empty(1 + i * 37 % 5000, device="cuda"))
        if len(kept) > 100:
            del kept[i % 100]
    torch.cuda.synchronize()


def pool_of_its_own():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        block = torch.empty(1 << 22, device="cuda")
    del block


@triton.jit
def add_one(target, n: triton.language.constexpr):
    places = target + triton.language.arange(0, n)
    triton.language.store(places, triton.language.load(places) + 1)


def kernel_of_triton():
    """A kernel that Triton compiles and its driver part loads: the device reads the image and skips the kernel."""
    kernel = add_one[(1,)](torch.zeros(256).to("cuda"), n=256)
    torch.cuda.synchronize()
    assert kernel.n_regs > 0


def two_devices():
    if torch.cuda.device_count() < 2:
        raise AssertionError("one device")
    there = torch.ones(1000).to("cuda:1")
    assert torch.equal(there.to("cuda:0").cpu(), torch.ones(1000))


def child(queue, done):
    block = queue.get()
    assert torch.equal(block.cpu(), torch.full((1000,), 7.0))
    block.copy_(torch.full((1000,), 8.0))
    torch.cuda.synchronize()
    del block
    done.put("seen")


def tensor_of_another_process():
    context = multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, done), daemon=True)
    process.start()
    block = torch.full((1000,), 7.0).to("cuda")
    queue.put(block)
    assert done.get(timeout=60) == "seen"
    process.join()
    assert process.exitcode == 0
    assert torch.equal(block.cpu(), torch.full((1000,), 8.0))


STEPS = [tensors, copies, autograd, adamw, streams, graph, graph_memory, sort_and_index, statistics, out_of_memory, nvml,
         ten_thousand_tensors, pool_of_its_own, kernel_of_triton, two_devices, tensor_of_another_process]

if __name__ == "__main__":
    steps.run(STEPS)
