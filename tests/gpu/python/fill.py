"""Takes all memory of the device and frees it, repeatedly, without cushim and through the driver.

    fill.py STOP SECONDS     until there is a file STOP, or the time is up
"""
import ctypes
import pathlib
import random
import sys
import time

FULL_S, ROOM_S = 0.25, 0.25  # on average
LARGEST_BYTES = 8 << 30


def take(cuda, least_bytes):
    """Allocates blocks until FULL_S have passed, including memory that others free meanwhile."""
    blocks, n_bytes = [], LARGEST_BYTES
    until = time.monotonic() + FULL_S * random.uniform(0.3, 1.7)
    while time.monotonic() < until:
        block = ctypes.c_uint64()
        if cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(n_bytes)) == 0:
            blocks.append(block)
        elif n_bytes > least_bytes:
            n_bytes //= 2
        else:
            time.sleep(0.005)
    return blocks


def main():
    stop, end = pathlib.Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    cuda, context, n = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), 0
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
        sys.exit("no context")
    while not stop.exists() and time.monotonic() < end:
        for block in take(cuda, random.choice((2 << 20, 2 << 20, 16 << 20, 64 << 20))):
            cuda.cuMemFree_v2(block)
        n += 1
        time.sleep(ROOM_S * random.uniform(0.3, 1.7))
    print(f"filled {n} times")


if __name__ == "__main__":
    main()
