#!/usr/bin/env python3
"""Records the allocator calls of a PyTorch training step as a trace for `alloc --work trace`.

    record_torch.py --library FILE --out FILE [--steps N] [--warm N]

FILE is record_alloc.c built as a library. The program is tests/gpu/python/torch_train.py with its timed model; the
timed part of the trace begins after --warm steps. Without torch or a device it exits with 77.
"""
import argparse
import ctypes
import os
import pathlib
import runpy
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "gpu" / "python" / "torch_train.py"


def trace_of(events, n_warm):
    """Lines of a trace from (address, bytes); bytes 0: a free; address 0: the end of a step."""
    ids, lines, n_blocks, n_marks = {}, [], 0, 0
    for address, n_bytes in events:
        if address == 0:
            n_marks += 1
            lines.append("t" if n_marks == n_warm else f"# step {n_marks} ends")
        elif n_bytes:
            ids[address] = n_blocks
            n_blocks += 1
            lines.append(f"a {n_bytes}")
        elif address in ids:
            lines.append(f"f {ids.pop(address)}")
    return lines, n_marks


def main():
    parser = argparse.ArgumentParser(description="a PyTorch training step as a trace")
    parser.add_argument("--library", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="steps before the timed part (2)")
    arguments = parser.parse_args()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        import torch
    except ImportError:
        print("no torch", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 77
    path = os.path.abspath(arguments.library)
    library = ctypes.CDLL(path)
    library.record_events.restype = ctypes.c_size_t
    library.record_events.argtypes = [ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64))]
    torch.cuda.memory.change_current_allocator(
        torch.cuda.memory.CUDAPluggableAllocator(path, "record_malloc", "record_free"))

    step = torch.optim.AdamW.step

    def marked(self, *more, **named):
        answer = step(self, *more, **named)
        library.record_mark()
        return answer

    torch.optim.AdamW.step = marked
    sys.argv = [str(PROGRAM), "--time", "--steps", str(arguments.steps + 6)]  # the program needs 5 steps before it times one
    runpy.run_path(str(PROGRAM), run_name="recorded")

    first = ctypes.POINTER(ctypes.c_uint64)()
    n = library.record_events(ctypes.byref(first))
    events = [(first[2 * i], first[2 * i + 1]) for i in range(n)]
    marks = [i for i, (address, _) in enumerate(events) if address == 0]
    events = events[:marks[min(len(marks), arguments.steps) - 1] + 1] if marks else events
    lines, n_marks = trace_of(events, arguments.warm)
    if n_marks <= arguments.warm:
        print(f"{n_marks} steps were seen", file=sys.stderr)
        return 1
    head = [f"# PyTorch {torch.__version__}, {PROGRAM.name} --time, {n_marks} steps, {arguments.warm} before the timed part",
            f"# {torch.cuda.get_device_name(0)}"]
    pathlib.Path(arguments.out).write_text("\n".join(["cushim-trace 1", *head, *lines]) + "\n")
    print(f"{arguments.out}: {len(lines)} lines, {n_marks} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
