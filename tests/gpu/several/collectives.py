"""NCCL between ranks of torchrun: all-reduce and send/recv with correct sums; each rank prints a line with its
bandwidth on standard error.

    torchrun --nproc-per-node 2 collectives.py
"""
import ctypes
import json
import os
import signal
import sys
import time

try:
    import torch
    import torch.distributed as distributed
except ImportError:
    print("no torch", file=sys.stderr)
    sys.exit(77)

N_REPEATS = 200
SIZES = (1024, 1 << 20, 16 << 20)  # floats


def end_with_parent():
    """torchrun starts each rank in its own session, so a rank that hangs must not outlive it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def timed(call):
    """Seconds for all repeats after a warm-up, from which the caller computes GB/s."""
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(N_REPEATS):
        call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main():
    if torch.cuda.device_count() < 2:
        print("wants two devices", file=sys.stderr)
        return 77
    end_with_parent()
    rank, n_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    lines, figures = [], {}
    for size in SIZES:
        buffer = torch.empty(size, device="cuda")
        wrong = 0
        for number in range(N_REPEATS):
            buffer.copy_((torch.arange(size, device="cuda") + number + rank) % 13)
            expected = sum((torch.arange(size, device="cuda") + number + other) % 13 for other in range(n_ranks)).float()
            distributed.all_reduce(buffer)
            wrong += int((buffer != expected).sum().item())
        other = torch.empty_like(buffer)
        for number in range(N_REPEATS):
            buffer.fill_(float(rank + number))
            if rank == 0:
                distributed.send(buffer, 1)
                distributed.recv(other, 1)
            else:
                distributed.recv(other, 0)
                distributed.send(buffer, 0)
            wrong += int((other != float(1 - rank + number)).sum().item())
        lines.append(f"{size} floats: {wrong} wrong")
        buffer.zero_()
        figures[f"all_reduce {4 * size}"] = N_REPEATS * 4 * size / timed(lambda: distributed.all_reduce(buffer)) / 1e9
        sides = (lambda: distributed.send(buffer, 1)) if rank == 0 else (lambda: distributed.recv(buffer, 0))
        figures[f"send {4 * size}"] = N_REPEATS * 4 * size / timed(sides) / 1e9
        del buffer, other
    if rank == 0:
        print("\n".join(lines), flush=True)
        print("GB/s " + json.dumps({name: round(value, 3) for name, value in figures.items()}), file=sys.stderr, flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
