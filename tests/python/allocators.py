"""The allocators of PyTorch, CuPy and RMM, on stand-ins of these packages with the types of their calls."""
import ctypes
import sys
import types
from ctypes import CFUNCTYPE, c_int, c_size_t, c_ssize_t, c_void_p

from expect import device, raises

import cushim
import tap
from cushim import Status, Stream, allocators

N_BYTES = 3 << 20
TOO_MANY = 10**15


def package(name, **members):
    for part in (name.split(".")[0], name):
        sys.modules.setdefault(part, types.ModuleType(part))
    sys.modules[name].__dict__.update(members)


class CUDAPluggableAllocator:
    """Of torch: void *(ssize_t, int, cudaStream_t) and void (void *, ssize_t, int, cudaStream_t)."""

    def __init__(self, path, alloc, free):
        loaded = ctypes.CDLL(path)
        self.alloc = CFUNCTYPE(c_void_p, c_ssize_t, c_int, c_void_p)((alloc, loaded))
        self.free = CFUNCTYPE(None, c_void_p, c_ssize_t, c_int, c_void_p)((free, loaded))

    def allocator(self):
        return self

    def set_reset_fn(self, address):
        self.empty_cache = CFUNCTYPE(None)(address)

    def set_record_stream_fn(self, address):
        self.record_stream = CFUNCTYPE(None, c_void_p, c_void_p)(address)


class MemPool:
    """Of torch: its segments come from the allocator."""
    id = (0, 1)

    def __init__(self, allocator):
        self.allocator = allocator


class CUDAGraph:
    """Of torch."""

    def capture_begin(self, pool=None, capture_error_mode="global"):
        self.has_begun = True


class CFunctionAllocator:
    """Of cupy: void *(void *, size_t, int) and void (void *, void *, int)."""

    def __init__(self, param, malloc, free, owner):
        self.functions = CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_int)(malloc), CFUNCTYPE(None, c_void_p, c_void_p, c_int)(free)
        self.param = param

    def malloc(self, n_bytes):
        return types.SimpleNamespace(ptr=self.functions[0](self.param, n_bytes, 0) or 0 if n_bytes else 0, free=lambda block: self.functions[1](self.param, block.ptr, 0))


class CallbackMemoryResource:
    """Of rmm: (n_bytes, stream) and (address, n_bytes, stream); older ones pass no stream."""

    def __init__(self, allocate, deallocate):
        self.allocate, self.deallocate = allocate, deallocate


installed, current = [], types.SimpleNamespace(ptr=0)
package("torch.cuda", CUDAGraph=CUDAGraph, MemPool=MemPool)
package("torch.cuda.memory", CUDAPluggableAllocator=CUDAPluggableAllocator, change_current_allocator=installed.append)
package("cupy.cuda", CFunctionAllocator=CFunctionAllocator, get_current_stream=lambda: current)
package("rmm.mr", CallbackMemoryResource=CallbackMemoryResource)


def states():
    """Of the blocks of N_BYTES: the stream that has them, by address."""
    return {block.address: block.stream for block in allocators.pool().blocks() if block.asked_bytes == N_BYTES}


@tap.test
def one_call_makes_pytorch_use_the_pool():
    allocators.use_torch()
    allocators.use_torch()
    torch, = installed
    address = torch.alloc(N_BYTES, 0, None)
    assert allocators.pool().owns(address) and states()[address] == 0
    torch.free(address, N_BYTES, 0, None)
    assert torch.alloc(N_BYTES, 0, None) == address, "served again"
    torch.record_stream(address, 1)
    torch.free(address, N_BYTES, 0, None)
    assert states()[address] != 0, "recorded memory waits for all streams"
    assert torch.alloc(TOO_MANY, 0, None) is None
    torch.empty_cache()
    assert allocators.pool().stats().held_bytes == 0
    with raises(RuntimeError):  # replays would write memory that serves others
        CUDAGraph().capture_begin(capture_error_mode="relaxed")


@tap.test
def statistics_have_the_names_of_pytorch():
    torch = allocators.torch_allocator()
    allocators.reset_stats()
    first, second = torch.alloc(N_BYTES, 0, None), torch.alloc(N_BYTES, 0, None)
    torch.free(first, N_BYTES, 0, None)
    assert torch.alloc(TOO_MANY, 0, None) is None
    stats = allocators.torch_stats(0)
    assert stats["allocation.all.current"] == 1 and stats["requested_bytes.all.current"] == N_BYTES
    assert N_BYTES <= stats["allocated_bytes.all.current"] == stats["allocated_bytes.all.peak"] // 2
    assert stats["allocated_bytes.all.current"] <= stats["active_bytes.all.current"] <= stats["reserved_bytes.all.current"] <= stats["reserved_bytes.all.peak"]
    assert stats["num_ooms"] == 1 and 1 <= stats["active.all.current"] <= 2 and "num_alloc_retries" in stats
    assert allocators.torch_stats(1)["reserved_bytes.all.peak"] == 0
    allocators.reset_stats()
    stats = allocators.torch_stats()
    assert stats["allocated_bytes.all.peak"] == stats["allocated_bytes.all.current"] and stats["num_ooms"] == 0
    torch.free(second, N_BYTES, 0, None)


@tap.test
def a_graph_of_pytorch_has_a_pool_whose_segments_come_from_ours():
    first, second = allocators.torch_graph_pool(), allocators.torch_graph_pool()
    assert first is not second and first.allocator is second.allocator
    stream, driver, graph = Stream(), device(), c_void_p()
    allocators.pool().drain()  # so that the segment is the driver's
    assert driver.cuStreamBeginCapture_v2(c_void_p(stream.handle), 0) == 0  # in the mode of torch.cuda.graph, which forbids much
    address = first.allocator.alloc(N_BYTES, 0, stream.handle)
    assert driver.cuStreamEndCapture(c_void_p(stream.handle), ctypes.byref(graph)) == 0
    assert allocators.pool().owns(address)
    first.allocator.free(address, N_BYTES, 0, stream.handle)
    assert not allocators.pool().owns(address)
    assert driver.cuGraphDestroy(graph) == 0


@tap.test
def cupy_is_served_in_the_order_of_its_current_stream():
    malloc = allocators.cupy_allocator()
    block = malloc(N_BYTES)
    assert states()[block.ptr] == 0
    block.free(block)
    assert malloc(N_BYTES).ptr == block.ptr and malloc(0).ptr == 0
    block.free(block)
    stream = Stream()
    current.ptr = stream.handle
    block = malloc(N_BYTES)
    assert states()[block.ptr] not in (0, stream.handle), "CuPy may destroy it"
    current.ptr = 0
    block.free(block)
    with raises(cushim.MemoryError, Status.NOMEM):
        malloc(TOO_MANY)


@tap.test
def rmm_is_served_in_the_order_of_the_stream_of_each_request():
    resource = allocators.rmm_resource()
    legacy, other = (types.SimpleNamespace(is_default=lambda answer=answer: answer) for answer in (True, False))
    address = resource.allocate(N_BYTES, legacy)
    assert states()[address] == 0
    resource.deallocate(address, N_BYTES, legacy)
    assert resource.allocate(N_BYTES, legacy) == address and resource.allocate(0, legacy) == 0
    resource.deallocate(address, N_BYTES, other)
    assert states()[address] != 0
    address = resource.allocate(N_BYTES)
    assert states()[address] != 0
    resource.deallocate(address, N_BYTES)
    with raises(cushim.MemoryError, Status.NOMEM):
        resource.allocate(TOO_MANY, legacy)
    cushim.Device(1).retain_primary_context()
    of_second = allocators.rmm_resource(1)
    address = of_second.allocate(N_BYTES, legacy)
    assert cushim.memory_info(address).device == 1
    of_second.deallocate(address, N_BYTES, legacy)


tap.run()
