"""libcushim.so's pool as the allocator of CuPy, PyTorch and RMM; each is imported when it is used.

    torch.cuda.memory.change_current_allocator(cushim.allocators.torch_allocator())
    cupy.cuda.set_allocator(cushim.allocators.cupy_allocator())
    rmm.mr.set_current_device_resource(cushim.allocators.rmm_resource())
"""
import ctypes
import functools
import importlib
from typing import Any

from ._library import library, library_path
from ._pool import Pool


@functools.lru_cache(maxsize=None)
def pool() -> Pool:
    """The pool of CuPy and RMM; for PyTorch the library makes its own."""
    return Pool()


def torch_allocator() -> Any:
    """For torch.cuda.memory.change_current_allocator, before CUDA memory is used; empty_cache() gives its idle memory back."""
    memory = importlib.import_module("torch.cuda.memory")
    prefix = "cushim_pool_process_"
    made = memory.CUDAPluggableAllocator(library_path(), prefix + "alloc_ordered", prefix + "free_ordered")
    for setter, name in ("set_reset_fn", "trim"), ("set_record_stream_fn", "record_stream"):  # empty_cache(), record_stream()
        getattr(made.allocator(), setter)(ctypes.cast(getattr(library(), prefix + name), ctypes.c_void_p).value)
    return made


def cupy_allocator() -> Any:
    """For cupy.cuda.set_allocator."""
    cuda = importlib.import_module("cupy.cuda")
    return cuda.PythonFunctionAllocator(pool().allocate, lambda address, device: pool().free(address)).malloc


def rmm_resource(device: int = -1) -> Any:
    """For rmm.mr.set_per_device_resource; -1 is the calling thread's device at each request."""
    memory = importlib.import_module("rmm.mr")
    return memory.CallbackMemoryResource(lambda n_bytes, stream: pool().allocate(n_bytes, device),
                                         lambda address, n_bytes, stream: pool().free(address))
