"""numba: arrays are created, moved, used by a compiled kernel and dropped; also streams and pinned memory."""
import sys
import warnings

warnings.filterwarnings("ignore")  # warnings about the occupancy of small grids
try:
    import numpy

    # names that numba uses and newer versions of numpy lack
    for old, new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
        if not hasattr(numpy, old):
            setattr(numpy, old, getattr(numpy, new))
    from numba import cuda
except ImportError:
    print("no numba", file=sys.stderr)
    sys.exit(77)
if not cuda.is_available():
    print("numba finds no device it can use", file=sys.stderr)
    sys.exit(77)


try:
    cuda.jit("void(float32[:])")(lambda x: None)
except AttributeError as error:
    print(f"numba does not fit this numpy: {error}", file=sys.stderr)
    sys.exit(77)


@cuda.jit
def saxpy(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


for n in (1000, 50_000, 2_000_000):
    x = numpy.arange(n, dtype=numpy.float32) % 1000
    y = numpy.arange(n, dtype=numpy.float32) % 77
    for a in range(5):
        out = cuda.device_array(n, dtype=numpy.float32)
        saxpy[(n + 255) // 256, 256](out, numpy.float32(a), cuda.to_device(x), cuda.to_device(y))
        result = out.copy_to_host()
        assert (result == a * x + y).all()
    print(f"{n} sum {float(result.sum(dtype=numpy.float64)).hex()}")

stream = cuda.stream()
pinned = cuda.pinned_array(10_000, dtype=numpy.float32)
pinned[:] = 3
x = cuda.to_device(pinned, stream=stream)
out = cuda.device_array(10_000, dtype=numpy.float32, stream=stream)
saxpy[40, 256, stream](out, numpy.float32(2), x, x)
result = out.copy_to_host(stream=stream)
stream.synchronize()
print(f"stream sum {float(result.sum()).hex()}")
