"""JAX's memory on the software device, with each of its allocators. The steps need no compiled program, because that
needs a cuDNN that starts.

    jax_steps.py [ALLOCATOR]
"""
import os
import pathlib
import subprocess
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import steps

# XLA_PYTHON_CLIENT_ALLOCATOR, and whether it takes memory at the start
ALLOCATORS = {"default": ("default", "true"), "grows": ("default", "false"), "platform": ("platform", "false"),
              "cuda_async": ("cuda_async", "false")}


def start(allocator):
    """Makes a file of NVIDIA's driver that JAX looks for, because the device has none."""
    name, takes_all = ALLOCATORS[allocator]
    os.environ |= {"JAX_PLATFORMS": "cuda", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "XLA_PYTHON_CLIENT_ALLOCATOR": name,
                   "XLA_PYTHON_CLIENT_PREALLOCATE": takes_all}
    global jax
    import jax
    from jax._src import hardware_utils
    hardware_utils.has_visible_nvidia_gpu = lambda: True


def numbers(n):
    return numpy.arange(n, dtype=numpy.float32)


def there_and_back():
    for n in (1, 1000, 100_000, 4 << 20):
        block = jax.device_put(numbers(n), jax.devices()[0])
        assert numpy.array_equal(numpy.asarray(block), numbers(n))


def between_devices():
    first, second = jax.devices()
    there = jax.device_put(jax.device_put(numbers(100_000), first), second)
    assert there.devices() == {second} and numpy.array_equal(numpy.asarray(there), numbers(100_000))


def thousand_blocks():
    kept = []
    for i in range(1000):
        n = 1 + i * 37 % 50_000
        kept.append((n, jax.device_put(numbers(n), jax.devices()[0])))
        if len(kept) > 50:
            kept.pop(i % 50)[1].delete()
    for n, block in kept:
        assert numpy.array_equal(numpy.asarray(block), numbers(n))


def deleted():
    block = jax.device_put(numbers(1000), jax.devices()[0])
    block.block_until_ready()
    block.delete()
    try:
        numpy.asarray(block)
    except RuntimeError:
        return
    raise AssertionError("it is there")


def out_of_memory():
    try:
        jax.device_put(numpy.zeros(1 << 33, dtype=numpy.uint8), jax.devices()[0]).block_until_ready()
    except Exception as error:
        assert "RESOURCE_EXHAUSTED" in str(error), error
        return
    raise AssertionError("there is memory for 8 GiB")


if __name__ == "__main__" and len(sys.argv) > 1:
    start(sys.argv[1])
    steps.run([there_and_back, between_devices, thousand_blocks, deleted, out_of_memory])
elif __name__ == "__main__":
    for allocator in ALLOCATORS:
        done = subprocess.run([sys.executable, __file__, allocator], text=True, stdout=subprocess.PIPE)
        for line in done.stdout.splitlines():
            print(line.replace("ok ", f"ok {allocator}-", 1) if line.startswith("ok ") else f"{allocator}-{line}", flush=True)
        print(f"{allocator}-end: {done.returncode}" if done.returncode else f"ok {allocator}-end", flush=True)
