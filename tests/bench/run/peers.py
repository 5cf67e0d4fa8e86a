#!/usr/bin/env python3
"""Allocators of Python packages on the workloads of alloc.c: pairs, and traces that it wrote.

    peers.py --allocator torch|cupy|noop [--sizes 512,1M] [--traces FILE,FILE] [--ms N]

They are called as directly as Python can: PyTorch's raw_alloc and raw_delete, CuPy's pool.malloc. Each line has
Python's own time as `python_ns`, from the same loop around an allocator that does nothing; subtract it to get the
allocator's time. Exit status 77: the package or the device is missing.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

SIZES = "512,4K,64K,1M,2M,16M,256M,1G"
N_LOOKS = 200
now_ns = time.perf_counter_ns


class Noop:
    def __init__(self):
        self.n = 0

    def obtain(self, n_bytes):
        return n_bytes

    def release(self, block):
        pass

    def held_bytes(self):
        return 0

    def clear(self):
        """Releases cached memory, so that the next workload begins as in a fresh process."""

    def check(self):
        pass


class Torch(Noop):
    def __init__(self):
        import torch
        if not torch.cuda.is_available():
            raise ImportError("no CUDA device")
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.torch, self.stream = torch, torch.cuda.current_stream().cuda_stream
        alloc = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", None)
        stream = self.stream
        if alloc:
            self.obtain = lambda n_bytes: alloc(n_bytes, stream)
            self.release = torch._C._cuda_cudaCachingAllocator_raw_delete
        else:
            self.obtain = torch.cuda.caching_allocator_alloc
            self.release = torch.cuda.caching_allocator_delete

    def held_bytes(self):
        free, whole = self.torch.cuda.mem_get_info()
        return whole - free

    def clear(self):
        self.torch.cuda.empty_cache()

    def check(self):
        values = self.torch.full((1000,), 7, device="cuda")
        assert int(values.sum()) == 7000
        block = self.obtain(4096)
        assert block
        self.release(block)


class Cupy(Noop):
    def __init__(self):
        import cupy
        self.cupy = cupy
        cupy.zeros(1)
        self.obtain = cupy.get_default_memory_pool().malloc

    def release(self, block):  # the caller drops the last reference
        pass

    def held_bytes(self):
        free, whole = self.cupy.cuda.runtime.memGetInfo()
        return whole - free

    def clear(self):
        self.cupy.get_default_memory_pool().free_all_blocks()

    def check(self):
        assert int(self.cupy.full(1000, 7).sum()) == 7000
        assert self.obtain(4096).ptr


ALLOCATORS = {"noop": Noop, "torch": Torch, "cupy": Cupy}


def size_of(text):
    return int(text[:-1]) << 10 * ("KMG".index(text[-1]) + 1) if text[-1] in "KMG" else int(text)


def do_pairs(allocator, n_bytes, n):
    obtain, release = allocator.obtain, allocator.release
    start = now_ns()
    for _ in range(n):
        block = obtain(n_bytes)
        release(block)
        block = None  # the stream that CuPy waits for
    return now_ns() - start


def line_of(case, samples, mean_ns, python_ns, **more):
    samples = sorted(samples)
    return {"case": case, "n": len(samples), "p0_ns": samples[0], "p50_ns": samples[len(samples) // 2],
            "p99_ns": samples[(len(samples) - 1) * 99 // 100], "max_ns": samples[-1], "mean_ns": round(mean_ns, 1),
            "python_ns": round(python_ns, 1), **more}


def python_pair_ns():
    noop = Noop()
    return statistics.median(do_pairs(noop, 64, 1000) / 1000 for _ in range(20))


def pair(allocator, label, time_ms):
    """Batches for the median and single pairs for the tail, as in pair.c."""
    n_bytes = size_of(label)
    do_pairs(allocator, n_bytes, 10)
    batch, half_ns = 50, time_ms * 500000
    batches, singles = [], []
    end = now_ns() + half_ns
    while now_ns() < end or len(batches) < 3:
        batches.append(do_pairs(allocator, n_bytes, batch) / batch)
    end = now_ns() + half_ns
    while now_ns() < end or len(singles) < 3:
        singles.append(do_pairs(allocator, n_bytes, 1))
    line = line_of(f"pair/{label}", batches, statistics.mean(batches), python_pair_ns())
    singles.sort()
    line.update(p99_ns=singles[(len(singles) - 1) * 99 // 100], max_ns=singles[-1],
                n=len(batches) * batch + len(singles))
    return line


def read_trace(path):
    """(steps, index of the first timed step, peak of the live bytes): a step is (id, bytes), 0 bytes for a free."""
    steps, timed_from, sizes, live, peak = [], 0, [], 0, 0
    for line in pathlib.Path(path).read_text().splitlines()[1:]:
        if line[:1] == "a":
            steps.append((len(sizes), int(line[2:])))
            sizes.append(int(line[2:]))
            live += sizes[-1]
            peak = max(peak, live)
        elif line[:1] == "f":
            steps.append((int(line[2:]), 0))
            live -= sizes[int(line[2:])]
        elif line[:1] == "t":
            timed_from = len(steps)
    return steps, timed_from, peak


def look_at_peaks(allocator, steps, peak):
    """Plays the trace; returns the held device memory at the peak of live bytes."""
    blocks, sizes, live, looked_at, held = {}, {}, 0, 0, 0
    for number, n_bytes in steps:
        if not n_bytes:
            allocator.release(blocks.pop(number))
            live -= sizes[number]
            continue
        blocks[number] = allocator.obtain(n_bytes)
        sizes[number] = n_bytes
        live += n_bytes
        if live >= looked_at + peak / N_LOOKS or live == peak:
            looked_at, held = live, max(held, allocator.held_bytes())
    for block in blocks.values():
        allocator.release(block)
    return held


def clocked(allocator, steps, timed_from):
    obtain, release = allocator.obtain, allocator.release
    blocks, obtain_ns, samples = {}, {}, []
    for i, (number, n_bytes) in enumerate(steps):
        if n_bytes:
            start = now_ns()
            block = obtain(n_bytes)
            obtain_ns[number] = now_ns() - start
            blocks[number] = block
            block = None
        else:
            block = blocks.pop(number)
            start = now_ns()
            release(block)
            block = None
            ns = now_ns() - start
            if i >= timed_from:
                samples.append(obtain_ns[number] + ns)
    for block in blocks.values():
        release(block)
    return samples


def plain(allocator, steps, timed_from):
    """Nanoseconds of the timed part."""
    obtain, release = allocator.obtain, allocator.release
    blocks, start = {}, now_ns()
    for i, (number, n_bytes) in enumerate(steps):
        if i == timed_from:
            start = now_ns()
        if n_bytes:
            blocks[number] = obtain(n_bytes)
        else:
            release(blocks.pop(number))
    ns = now_ns() - start
    for block in blocks.values():
        release(block)
    return ns


def case_of(path):
    """The file is named after the case with - for /; a recorded trace's has no such prefix."""
    name = pathlib.Path(path).stem
    kind, _, rest = name.partition("-")
    return f"{kind}/{rest}" if kind in ("random", "power", "growth", "pack") else f"trace/{name}"


def replay(allocator, path, before_bytes):
    steps, timed_from, peak = read_trace(path)
    n_pairs = max(1, sum(not n_bytes for _, n_bytes in steps[timed_from:]))
    held = look_at_peaks(allocator, steps, peak) - before_bytes
    samples = clocked(allocator, steps, timed_from) or [0]
    mean_ns = plain(allocator, steps, timed_from) / n_pairs
    return line_of(case_of(path), samples, mean_ns, plain(Noop(), steps, timed_from) / n_pairs, passes=3,
                   peak_live_bytes=peak, peak_held_bytes=max(0, held), held_by_live=round(max(0, held) / max(1, peak), 4))


def main():
    parser = argparse.ArgumentParser(description="allocators of Python packages")
    parser.add_argument("--allocator", required=True, choices=ALLOCATORS)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--traces", default="")
    parser.add_argument("--ms", type=int, default=20)
    arguments = parser.parse_args()
    try:
        allocator = ALLOCATORS[arguments.allocator]()
    except ImportError as error:
        print(error, file=sys.stderr)
        return 77
    before_bytes = allocator.held_bytes()
    allocator.check()
    for path in filter(None, arguments.traces.split(",")):
        allocator.clear()
        print(json.dumps(replay(allocator, path, before_bytes)), flush=True)
    allocator.clear()
    for label in arguments.sizes.split(","):
        print(json.dumps(pair(allocator, label, arguments.ms)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
