"""cushim from Python: CUDA's driver by libcushim.so, with pools, arenas and graphs; and its preload, if that is in this process.

ctypes alone: nothing is compiled, and NumPy is used if it is there.  The library is loaded at the first call that needs it.
MemoryError and RuntimeError are here by name, and `from cushim import *` leaves Python's own alone.
"""
from . import allocators
from ._api import (ArenaFlag, ArenaManagedMode, AttachFlag, ContextFlag, DeviceAttribute, EventFlag, Feature, FunctionAttribute, GraphFlag, GraphMemory,
                   GraphMode, HostFlag, Limit, LinkKind, MappedFlag, MapperFlag, MemoryKind, MemoryOwner, PoolPolicy, PoolState, RegisterFlag, Status, StreamFlag)
from ._arena import Arena, ArenaMemory, ArenaStats
from ._context import CacheConfig, Context, Device, synchronize
from ._copies import Place, copy, copy_2d, copy_3d, copy_peer, fill, fill_2d
from ._driver import available, driver_version, has, init, start_profiler, stop_profiler
from ._errors import CompileError, Error, LaunchError, LogicError, OutOfMemory
from ._errors import MemoryError as MemoryError
from ._errors import RuntimeError as RuntimeError
from ._exchange import asmemory
from ._files import __version__, include_folder, library_folder, preload_path
from ._graph import Capture, Graph, GraphExec, GraphExecInfo, GraphInfo, graph_memory, graph_memory_trim
from ._mapped import MappedMemory, Mapper
from ._memory import (AsyncMemory, DeviceMemory, IpcMemory, ManagedMemory, Memory, MemoryInfo, PinnedMemory, PitchedMemory, RegisteredMemory, View,
                      address_range, adopt, async_threshold, async_trim, mem_get_info, memory_info, reusable_bytes)
from ._module import Function, In, InOut, LinkInput, Module, Out, PreparedFunction
from ._pool import Pool, PoolBlock, PoolMemory, PoolStats
from ._preload import Stats, active, arena_reset, mark, report, reset_peak, stats, trim
from ._pycuda import (CudaError, DeviceAllocation, HostAllocation, ctx_flags, event_flags, host_alloc_flags, mem_alloc, mem_host_alloc, memcpy_dtod,
                      memcpy_dtod_async, memcpy_dtoh, memcpy_dtoh_async, memcpy_htod, memcpy_htod_async, stream_flags)
from ._stream import Event, Stream

__all__ = [
    "Arena", "ArenaFlag", "ArenaManagedMode", "ArenaMemory", "ArenaStats", "AsyncMemory", "AttachFlag", "CacheConfig", "Capture", "CompileError", "Context",
    "ContextFlag", "CudaError", "Device", "DeviceAllocation", "DeviceAttribute", "DeviceMemory", "Error", "Event", "EventFlag", "Feature", "Function",
    "FunctionAttribute", "Graph", "GraphExec", "GraphExecInfo", "GraphFlag", "GraphInfo", "GraphMemory", "GraphMode", "HostAllocation", "HostFlag", "In",
    "InOut", "IpcMemory", "LaunchError", "Limit", "LinkInput", "LinkKind", "LogicError", "ManagedMemory", "MappedFlag", "MappedMemory", "Mapper", "MapperFlag",
    "Memory", "MemoryInfo", "MemoryKind", "MemoryOwner", "Module", "Out", "OutOfMemory", "PinnedMemory", "PitchedMemory", "Place", "Pool", "PoolBlock",
    "PoolMemory", "PoolPolicy", "PoolState", "PoolStats", "PreparedFunction", "RegisterFlag", "RegisteredMemory", "Stats", "Status", "Stream", "StreamFlag",
    "View", "__version__", "active", "address_range", "adopt", "allocators", "arena_reset", "asmemory", "async_threshold", "async_trim", "available", "copy",
    "copy_2d", "copy_3d", "copy_peer", "ctx_flags", "driver_version", "event_flags", "fill", "fill_2d", "graph_memory", "graph_memory_trim", "has",
    "host_alloc_flags", "include_folder", "init", "library_folder", "mark", "mem_alloc", "mem_get_info", "mem_host_alloc", "memcpy_dtod", "memcpy_dtod_async",
    "memcpy_dtoh", "memcpy_dtoh_async", "memcpy_htod", "memcpy_htod_async", "memory_info", "preload_path", "report", "reset_peak", "reusable_bytes",
    "start_profiler", "stats", "stop_profiler", "stream_flags", "synchronize", "trim",
]
