"""libcushim.so.0 by ctypes: pools and arenas, whose memory other packages use by the CUDA array interface."""
import ctypes
import functools
import pathlib
import weakref
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Dict, Tuple

from ._files import library_folder

_MEMORY_CLASS = 1  # of enum cushim_status_class: out of memory of some kind
_STREAM_ALL = 3  # any stream may have used the memory, so a free waits for the work of all
_DEVICE = 0  # of enum cushim_memory_kind

_SIGNATURES: Dict[str, Tuple[Any, ...]] = {
    "cushim_status_class": (c_int,),
    "cushim_memory_h2d": (c_uint64, c_char_p, c_size_t),
    "cushim_memory_d2h": (c_void_p, c_uint64, c_size_t),
    "cushim_pool_create": (c_void_p, POINTER(c_void_p)),
    "cushim_pool_destroy": (c_void_p,),
    "cushim_pool_alloc": (c_void_p, c_int, c_int, c_size_t, c_void_p, POINTER(c_uint64)),
    "cushim_pool_free": (c_void_p, c_int, c_uint64, c_size_t, c_void_p),
    "cushim_arena_options_default": (c_void_p,),
    "cushim_arena_create": (c_void_p, POINTER(c_void_p)),
    "cushim_arena_destroy": (c_void_p,),
    "cushim_arena_alloc": (c_void_p, c_int, c_int, c_size_t, c_void_p, POINTER(c_uint64), POINTER(c_uint64)),
    "cushim_arena_free": (c_void_p, c_int, c_uint64, c_size_t, c_uint64),
    "cushim_arena_reset": (c_void_p, c_void_p),
}


class _ArenaOptions(ctypes.Structure):
    """struct cushim_arena_options."""
    _fields_ = [("struct_size", c_size_t), ("ctx", c_void_p), ("device", c_int), ("managed", c_int), ("capacity_bytes", c_size_t),
                ("base", c_uint64), ("fallback", c_void_p), ("stream", c_void_p), ("regions", ctypes.c_uint), ("flags", ctypes.c_uint)]


class Error(Exception):
    """An error of libcushim.so: the name of its status, and its text."""


class OutOfMemory(Error, MemoryError):
    """No memory is left for a request."""


def library_path() -> str:
    return str(pathlib.Path(library_folder(), "libcushim.so.0"))


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(library_path())
    for name, arguments in _SIGNATURES.items():
        getattr(loaded, name).argtypes = arguments
    for name in ("cushim_last_error", "cushim_status_name"):
        getattr(loaded, name).restype = c_char_p
    return loaded


def _check(status: int) -> None:
    if status:
        kind = OutOfMemory if library().cushim_status_class(status) & _MEMORY_CLASS else Error
        raise kind(library().cushim_status_name(status).decode(), library().cushim_last_error().decode())


class Memory:
    """A block of device memory.  It is freed when Python drops it, and reused after the work of all streams."""

    def __init__(self, address: int, n_bytes: int, give_back: Any, *arguments: Any) -> None:
        self.address, self.n_bytes = address, n_bytes
        self._finalizer = weakref.finalize(self, give_back, *arguments)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        """The block as an array of bytes for CuPy, numba and PyTorch; it lives as long as this object."""
        return {"shape": (self.n_bytes,), "typestr": "|u1", "data": (self.address, False), "version": 3, "stream": None}

    def write(self, data: bytes) -> None:
        """Copy host bytes to the start of the block, and wait until they have arrived."""
        if len(data) > self.n_bytes:
            raise ValueError(f"{len(data)} bytes do not fit into {self.n_bytes}")
        _check(library().cushim_memory_h2d(self.address, data, len(data)))

    def read(self) -> bytes:
        """Read the bytes of the block, after the work that was issued before."""
        data = ctypes.create_string_buffer(self.n_bytes)
        _check(library().cushim_memory_d2h(data, self.address, self.n_bytes))
        return data.raw


class Pool:
    """Device memory that is reused without a driver call."""

    def __init__(self) -> None:
        handle = c_void_p()
        _check(library().cushim_pool_create(None, byref(handle)))
        self._handle = handle.value
        weakref.finalize(self, library().cushim_pool_destroy, self._handle)

    def allocate(self, n_bytes: int, device: int = -1) -> int:
        """Allocate a block that the caller frees.  Returns its address; 0 for 0 bytes.  -1 is the thread's device."""
        address = c_uint64()
        _check(library().cushim_pool_alloc(self._handle, device, _DEVICE, n_bytes, _STREAM_ALL, byref(address)))
        return address.value

    def free(self, address: int) -> None:
        """Free a block; it is reused when all work that was submitted before is over."""
        _check(library().cushim_pool_free(self._handle, -1, address, 0, _STREAM_ALL))

    def alloc(self, n_bytes: int) -> Memory:
        """Allocate a block that keeps its pool."""
        address = self.allocate(n_bytes)
        return Memory(address, n_bytes, self.free, address)


class Arena:
    """Device memory for one pass: reset() frees all of it at once."""

    def __init__(self, capacity_bytes: int) -> None:
        handle, options = c_void_p(), _ArenaOptions()
        library().cushim_arena_options_default(byref(options))
        options.capacity_bytes = capacity_bytes
        _check(library().cushim_arena_create(byref(options), byref(handle)))
        self._handle = handle.value
        weakref.finalize(self, library().cushim_arena_destroy, self._handle)

    def alloc(self, n_bytes: int) -> Memory:
        """Allocate a block that is valid until the next reset."""
        address, epoch = c_uint64(), c_uint64()
        _check(library().cushim_arena_alloc(self._handle, -1, _DEVICE, n_bytes, None, byref(address), byref(epoch)))
        return Memory(address.value, n_bytes, _arena_free, self, address.value, n_bytes, epoch.value)

    def reset(self) -> None:
        """Begin the next pass.  Work that uses the blocks must have been issued to the legacy stream."""
        _check(library().cushim_arena_reset(self._handle, None))


def _arena_free(arena: Arena, address: int, n_bytes: int, epoch: int) -> None:
    library().cushim_arena_free(arena._handle, -1, address, n_bytes, epoch)
