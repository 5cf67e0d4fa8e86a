"""PyTorch and libcushim.so in one process share the driver, a context, memory, streams and graphs.

    torch_beside_companion.py LIBCUSHIM

PyTorch starts first, then the companion uses its context. Prints one line per feature that works.
"""
import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

try:
    import torch
except ImportError:
    print("no torch", file=sys.stderr)
    sys.exit(77)

N = 1 << 20
cushim = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
cushim.cushim_last_error.restype = c_char_p
cushim.cushim_context_handle.argtypes = [c_void_p, POINTER(c_void_p)]
cushim.cushim_context_primary.argtypes = [c_int, POINTER(c_void_p)]
cushim.cushim_memory_d2h.argtypes = [c_void_p, c_uint64, c_size_t]
cushim.cushim_memory_set8_async.argtypes = [c_uint64, ctypes.c_uint8, c_size_t, c_void_p]
cushim.cushim_stream_wrap.argtypes = [c_void_p, c_void_p, POINTER(c_void_p)]
cushim.cushim_stream_destroy.argtypes = [c_void_p]
cushim.cushim_pool_create.argtypes = [c_void_p, POINTER(c_void_p)]
cushim.cushim_pool_alloc.argtypes = [c_void_p, c_int, c_int, c_size_t, c_void_p, POINTER(c_uint64)]
cushim.cushim_pool_free.argtypes = [c_void_p, c_int, c_uint64, c_size_t, c_void_p]
cushim.cushim_pool_destroy.argtypes = [c_void_p]


def check(status):
    assert status == 0, cushim.cushim_last_error().decode()


class Block:
    """A pool's block as PyTorch accepts it: without a copy; it goes back to the pool with the last tensor."""

    def __init__(self, pool, stream, n_floats):
        address = c_uint64()
        check(cushim.cushim_pool_alloc(pool, 0, 0, 4 * n_floats, stream, byref(address)))
        self.pool, self.stream, self.address = pool, stream, address.value
        self.__cuda_array_interface__ = {"shape": (n_floats,), "typestr": "<f4", "data": (address.value, False),
                                         "version": 3, "strides": None}

    def __del__(self):
        check(cushim.cushim_pool_free(self.pool, 0, self.address, 0, self.stream))


def wrapped(stream):
    handle = c_void_p()
    check(cushim.cushim_stream_wrap(None, stream.cuda_stream or None, byref(handle)))
    return handle


def main():
    ones = torch.ones(N, device="cuda")
    primary, handle = c_void_p(), c_void_p()
    check(cushim.cushim_context_primary(0, byref(primary)))
    check(cushim.cushim_context_handle(primary, byref(handle)))
    current = c_void_p()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(byref(current)) == 0
    assert current.value == handle.value
    print("PyTorch's context is the one that the library works in")

    back = (ctypes.c_float * N)()
    torch.cuda.synchronize()
    check(cushim.cushim_memory_d2h(back, ones.data_ptr(), 4 * N))
    assert back[0] == back[N - 1] == 1.0
    print("the library reads a tensor")

    pool, side = c_void_p(), torch.cuda.Stream()
    handle = wrapped(side)
    check(cushim.cushim_pool_create(None, byref(pool)))
    first = Block(pool, handle, N)
    with torch.cuda.stream(side):
        tensor = torch.as_tensor(first, device="cuda")
        assert tensor.data_ptr() == first.address
        tensor.fill_(3.0)
        total = (tensor * ones).sum()
    side.synchronize()
    assert total.item() == 3.0 * N
    print("a tensor lies in a block of a pool, and is computed on")

    address = first.address
    del tensor, first
    second = Block(pool, handle, N)
    assert second.address == address
    check(cushim.cushim_memory_set8_async(address, 0, 4 * N, handle))
    with torch.cuda.stream(side):
        tensor = torch.as_tensor(second, device="cuda")
        assert tensor.sum().item() == 0.0
    print("the block comes again, and both queue on one stream")

    graph, result = torch.cuda.CUDAGraph(), torch.zeros(N, device="cuda")
    with torch.cuda.graph(graph, stream=side):
        result.copy_(tensor * 2.0)
    tensor.fill_(21.0)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    assert result[0].item() == result[N - 1].item() == 42.0
    print("PyTorch's graph reads the block")

    for turn in range(200):
        a, b = torch.full((N,), float(turn), device="cuda"), Block(pool, handle, 1 + turn * 997)
        assert a[turn].item() == float(turn)
        del a, b
    torch.cuda.synchronize()
    print("both allocate in turns")
    del tensor, second, graph
    check(cushim.cushim_pool_destroy(pool))
    check(cushim.cushim_stream_destroy(handle))
    assert (torch.ones(8, device="cuda") + 1).sum().item() == 16.0
    print("PyTorch goes on when the pool is gone")


main()
