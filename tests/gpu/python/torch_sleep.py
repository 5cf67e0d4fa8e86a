"""Weights and caches of an inference engine sleep and wake at their addresses, as vLLM's do.

Each tensor lies in memory that this program maps. A sleep of level 1 copies the weights to pinned memory, one of level 2
drops them, and both unmap and release everything; to wake is to make and map memory at the same addresses. A captured
graph and plain kernels then give the same numbers, to the last bit.
"""
import ctypes
import sys

try:
    import torch
except ImportError:
    print("no torch", file=sys.stderr)
    sys.exit(77)

WIDTH, N_LAYERS, N_TOKENS = 1024, 8, 2048
PINNED, OF_DEVICE, READ_WRITE = 1, 1, 3
cuda = ctypes.CDLL("libcuda.so.1")


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location),
                ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


def call(name, *values):
    error = getattr(cuda, name)(*values)
    if error:
        raise RuntimeError(f"{name}: error {error}")


class Mapped:
    """Memory of a tensor, which can sleep."""

    def __init__(self, n_rows, is_kept):
        self.n_bytes, self.is_kept, self.backup = n_rows * WIDTH * 4, is_kept, None  # a multiple of 2 MiB
        self.address, self.handle = ctypes.c_uint64(), ctypes.c_uint64()
        call("cuMemAddressReserve", ctypes.byref(self.address), ctypes.c_size_t(self.n_bytes), ctypes.c_size_t(0),
             ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.wake()
        self.__cuda_array_interface__ = {"shape": (n_rows, WIDTH), "typestr": "<f4", "version": 3,
                                         "data": (self.address.value, False)}
        self.tensor = torch.as_tensor(self, device="cuda")

    def wake(self):
        here = Location(OF_DEVICE, 0)
        properties, access = Properties(type=PINNED, location=here), Access(here, READ_WRITE)
        n_bytes, none = ctypes.c_size_t(self.n_bytes), ctypes.c_uint64(0)
        call("cuMemCreate", ctypes.byref(self.handle), n_bytes, ctypes.byref(properties), none)
        call("cuMemMap", self.address, n_bytes, ctypes.c_size_t(0), self.handle, none)
        call("cuMemSetAccess", self.address, n_bytes, ctypes.byref(access), ctypes.c_size_t(1))
        if self.backup is not None:
            self.tensor.copy_(self.backup)
            self.backup = None

    def sleep(self, level):
        if level == 1 and self.is_kept:
            self.backup = self.tensor.to("cpu").pin_memory()
        torch.cuda.synchronize()
        call("cuMemsetD8_v2", self.address, ctypes.c_ubyte(0xff), ctypes.c_size_t(self.n_bytes))  # nothing is right by chance
        torch.cuda.synchronize()
        call("cuMemUnmap", self.address, ctypes.c_size_t(self.n_bytes))
        call("cuMemRelease", self.handle)


def token(weights, caches, place, x):
    for weight, cache in zip(weights, caches):
        cache.tensor[place].copy_((x[:, None] * weight.tensor).sum(0))
        x = torch.tanh(x + cache.tensor[:place + 1].sum(0))
    return x


def main():
    torch.manual_seed(1)
    x = torch.linspace(-1, 1, WIDTH, device="cuda")  # makes the context
    weights, caches = ([Mapped(n, is_kept) for _ in range(N_LAYERS)] for n, is_kept in ((WIDTH, True), (N_TOKENS, False)))
    values = [torch.randn(WIDTH, WIDTH) * WIDTH ** -0.5 for _ in weights]

    def load():
        for weight, value in zip(weights, values):
            weight.tensor.copy_(value)

    load()
    token(weights, caches, 0, x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        last = token(weights, caches, 8, x)

    def numbers():
        first = torch.stack([token(weights, caches, place, x) for place in range(8)])
        graph.replay()
        assert all(torch.equal(weight.tensor.cpu(), value) for weight, value in zip(weights, values))
        return [float(tensor.double().abs().sum()).hex() for tensor in (first, last)]

    awake = numbers()
    print(*awake)
    for level in (1, 2, 1, 2):
        for part in weights + caches:
            part.sleep(level)
        for part in weights + caches:
            part.wake()
        if level == 2:
            load()
        assert numbers() == awake, f"after level {level}"
        print(f"the same after level {level}")


main()
