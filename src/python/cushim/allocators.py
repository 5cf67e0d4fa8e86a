"""libcushim.so's pool of the process as the allocator of PyTorch, CuPy and RMM; each is imported when it is used.

    cushim.allocators.use_torch()
    cupy.cuda.set_allocator(cushim.allocators.cupy_allocator())
    rmm.mr.set_current_device_resource(cushim.allocators.rmm_resource())

Memory for the legacy default stream is in that stream's order.  Memory for other streams waits for all work when it is freed.
"""
import ctypes
import functools
import importlib
from typing import Any, Dict

from ._api import CUSHIM_STREAM_ALL, Status
from ._context import DeviceLike
from ._library import ask, failure, library, library_path
from ._pool import Pool

_PREFIX = "cushim_pool_process_"


@functools.lru_cache(maxsize=None)
def pool() -> Pool:
    """The pool of all three, which must not be closed."""
    made = Pool._borrowed(ask(ctypes.c_void_p, "cushim_pool_process"))
    assert made is not None
    return made


def _address(name: str) -> int:
    return ctypes.cast(getattr(library(), _PREFIX + name), ctypes.c_void_p).value or 0


def _needed(address: int, name: str) -> int:
    if not address:
        raise failure(Status.NOMEM, _PREFIX + name)
    return address


# ---- PyTorch ----

def torch_allocator() -> Any:
    """For torch.cuda.memory.change_current_allocator and torch.cuda.MemPool; empty_cache() gives its idle memory back."""
    memory = importlib.import_module("torch.cuda.memory")
    made = memory.CUDAPluggableAllocator(library_path(), _PREFIX + "alloc_ordered", _PREFIX + "free_ordered")
    for setter, name in ("set_reset_fn", "trim"), ("set_record_stream_fn", "record_stream"):  # empty_cache(), record_stream()
        getattr(made.allocator(), setter)(_address(name))
    return made


def _refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("PyTorch does not tell this allocator which memory a graph keeps: use its own cache, and cushim.allocators.torch_graph_pool()")


@functools.lru_cache(maxsize=None)
def use_torch() -> None:
    """Make it PyTorch's allocator, before CUDA memory is used.  A capture of a graph then raises RuntimeError: see torch_graph_pool."""
    importlib.import_module("torch.cuda.memory").change_current_allocator(torch_allocator())
    importlib.import_module("torch.cuda").CUDAGraph.capture_begin = _refuse


@functools.lru_cache(maxsize=None)
def _for_graphs() -> Any:
    return torch_allocator()  # kept, because a MemPool does not keep it


def torch_graph_pool() -> Any:
    """A torch.cuda.MemPool whose memory comes from the pool: torch.cuda.graph(graph, pool=it.id), with PyTorch's own cache.  Keep it with the graph."""
    return importlib.import_module("torch.cuda").MemPool(_for_graphs().allocator())


def torch_stats(device: DeviceLike = None) -> Dict[str, int]:
    """What the pool knows of torch.cuda.memory_stats, under its names; None: of all devices.  num_alloc_retries are steps of reclaim."""
    stats = pool().stats(device)
    return {
        "allocation.all.current": stats.live_blocks, "allocated_bytes.all.current": stats.live_bytes, "allocated_bytes.all.peak": stats.peak_live_bytes,
        "requested_bytes.all.current": stats.asked_bytes, "reserved_bytes.all.current": stats.held_bytes, "reserved_bytes.all.peak": stats.peak_bytes,
        "active.all.current": stats.live_blocks + stats.pending_blocks, "active_bytes.all.current": stats.live_bytes + stats.pending_bytes,
        "num_alloc_retries": stats.reclaim_steps, "num_ooms": stats.out_of_memory,
    }


def reset_stats() -> None:
    """Begin peaks and counters again."""
    pool().reset_stats()


# ---- CuPy and RMM ----

def cupy_allocator() -> Any:
    """For cupy.cuda.set_allocator, in the order of CuPy's current stream; C functions allocate and free."""
    cuda = importlib.import_module("cupy.cuda")
    legacy, other = (cuda.CFunctionAllocator(stream, _address("alloc_for"), _address("free_for"), pool()).malloc for stream in (0, CUSHIM_STREAM_ALL))

    def malloc(n_bytes: int) -> Any:
        block = (other if cuda.get_current_stream().ptr else legacy)(n_bytes)
        if n_bytes:
            _needed(block.ptr, "alloc_for")  # CuPy takes NULL for memory
        return block

    return malloc


def rmm_resource(device: int = -1) -> Any:
    """For rmm.mr.set_per_device_resource, in the order of each request's stream; -1 is the calling thread's device."""
    memory = importlib.import_module("rmm.mr")

    def order(stream: Any) -> int:
        return 0 if stream is not None and stream.is_default() else CUSHIM_STREAM_ALL

    def allocate(n_bytes: int, stream: Any = None) -> int:
        return _needed(library().cushim_pool_process_alloc_for(order(stream), n_bytes, device), "alloc_for") if n_bytes else 0

    def deallocate(address: int, n_bytes: int, stream: Any = None) -> None:
        library().cushim_pool_process_free_for(order(stream), address, device)

    return memory.CallbackMemoryResource(allocate, deallocate)
