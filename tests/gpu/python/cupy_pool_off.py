"""CuPy without its memory pools: every array is a cudaMalloc, every transfer a cudaHostAlloc."""
import sys

try:
    import cupy
    import numpy
except ImportError:
    print("no cupy", file=sys.stderr)
    sys.exit(77)

cupy.cuda.set_allocator(None)
cupy.cuda.set_pinned_memory_allocator(None)

random = numpy.random.default_rng(3)
for n in (1000, 100_000, 3_000_000):
    host = random.integers(-1000, 1000, n, dtype=numpy.int64)
    device = cupy.asarray(host)
    assert int(device.sum()) == int(host.sum())
    assert (cupy.sort(device).get() == numpy.sort(host)).all()
    assert (cupy.cumsum(device).get() == numpy.cumsum(host)).all()
    assert (((device * 3 + 1) % 7).get() == (host * 3 + 1) % 7).all()
    print(f"{n} sum {int(device.sum())} last {int(cupy.cumsum(device * device)[-1])}")

a = cupy.asarray(random.integers(-4, 5, (300, 200)).astype(numpy.float32))
b = cupy.asarray(random.integers(-4, 5, (200, 100)).astype(numpy.float32))
product = a @ b
assert (product.get() == a.get() @ b.get()).all()
print(f"product {float(product.sum()).hex()}")

streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
sums = []
for i in range(40):
    with streams[i % 4]:
        values = cupy.arange(10_000 * (i + 1), dtype=cupy.int64)
        sums.append(int((values * 2).sum()))
        del values
print("streams", sums == [m * (m - 1) for m in (10_000 * (i + 1) for i in range(40))], sum(sums))
