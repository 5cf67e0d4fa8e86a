"""vkgdr's Python interface, on cushim's libvkgdr.so.1: device memory that the CPU reads and writes through a mapping."""
import ctypes
import enum
import functools
import pathlib
import weakref
from ctypes import c_bool, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Optional

from cushim import library_folder


class OpenFlags(enum.IntFlag):
    CURRENT_CONTEXT_BIT = 1  # ignore the given device, and take that of the current context
    FORCE_NON_COHERENT_BIT = 2  # treat the memory as non-coherent, even if it is coherent
    REQUIRE_COHERENT_BIT = 4  # coherent memory or none


VKGDR_OPEN_CURRENT_CONTEXT_BIT = OpenFlags.CURRENT_CONTEXT_BIT
VKGDR_OPEN_FORCE_NON_COHERENT_BIT = OpenFlags.FORCE_NON_COHERENT_BIT
VKGDR_OPEN_REQUIRE_COHERENT_BIT = OpenFlags.REQUIRE_COHERENT_BIT

_FUNCTIONS: Dict[str, Any] = {
    "last_error": (c_void_p,),
    "open": (c_void_p, c_int, c_uint32),
    "close": (None, c_void_p),
    "memory_alloc": (c_void_p, c_void_p, c_size_t, c_uint32),
    "memory_free": (None, c_void_p),
    "memory_get_host_ptr": (c_void_p, c_void_p),
    "memory_get_device_ptr": (c_uint64, c_void_p),
    "memory_is_coherent": (c_bool, c_void_p),
    "memory_non_coherent_atom_size": (c_size_t, c_void_p),
    "memory_flush": (None, c_void_p, c_size_t, c_size_t),
    "memory_invalidate": (None, c_void_p, c_size_t, c_size_t),
}


class VkgdrError(RuntimeError):
    """What failed, with the name of CUDA's or Vulkan's error."""


@functools.lru_cache(maxsize=None)
def _library() -> Any:
    """Beside libcushim.so.0, else where the loader finds it."""
    path = pathlib.Path(library_folder(), "libvkgdr.so.1")
    loaded = ctypes.CDLL(str(path) if path.exists() else path.name)
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(loaded, "vkgdr_" + name)
        function.restype, function.argtypes = result, arguments
    return loaded


def _error() -> VkgdrError:
    """Of the call of this thread that failed just now."""
    text = _library().vkgdr_last_error()
    said = ctypes.string_at(text).decode(errors="replace") if text else "unknown"
    free = ctypes.CDLL(None).free
    free.argtypes = [c_void_p]
    free(text)
    return VkgdrError(said)


class Vkgdr:
    """A device that is open for mapped memory; its memory keeps it open.  flags: bits of OpenFlags.  Raises VkgdrError."""

    def __init__(self, device: int, flags: int = 0) -> None:
        self._handle = _library().vkgdr_open(device, flags)
        if not self._handle:
            raise _error()
        weakref.finalize(self, _library().vkgdr_close, self._handle)

    @classmethod
    def open_current_context(cls, flags: int = 0) -> "Vkgdr":
        """Open the device of the current context."""
        return cls(0, flags | OpenFlags.CURRENT_CONTEXT_BIT)


def _asked(name: str, doc: str) -> Any:
    """A property: what a function of the library says of memory."""
    return property(lambda memory: getattr(_library(), "vkgdr_memory_" + name)(memory._live()), doc=doc)


class RawMemory:
    """Memory in the current context, which is one of the owner's device.  It leaks unless free() is called.  flags: 0.  Raises VkgdrError.

    numpy.asarray(memory) has its bytes, as long as it is not freed; len(memory) is their number.
    """

    def __init__(self, owner: Vkgdr, size: int, flags: int = 0) -> None:
        self._owner, self._size = owner, size
        self._handle: Optional[int] = _library().vkgdr_memory_alloc(owner._handle, size, flags)
        if not self._handle:
            raise _error()
        host = _library().vkgdr_memory_get_host_ptr(self._handle)
        self.__array_interface__ = {"shape": (size,), "typestr": "|V1", "data": (host, False), "version": 3}

    def _live(self) -> int:
        if self._handle is None:
            raise VkgdrError("the memory was freed")
        return self._handle

    def free(self) -> None:
        """Free it; again is nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _library().vkgdr_memory_free(handle)

    def __len__(self) -> int:
        return self._size

    device_ptr: int = _asked("get_device_ptr", "The device's address of the first byte.")
    is_coherent: bool = _asked("is_coherent", "Do host and device see each other's writes without flush() and invalidate()?")
    non_coherent_atom_size: int = _asked("non_coherent_atom_size", "The unit of flush() and invalidate(), in bytes; 1 if the memory is coherent.")

    def flush(self, offset: int, size: int) -> None:
        """Make host writes visible to the device; the range is widened to whole atoms."""
        _library().vkgdr_memory_flush(self._live(), offset, size)

    def invalidate(self, offset: int, size: int) -> None:
        """Make device writes visible to the host; the range is widened to whole atoms."""
        _library().vkgdr_memory_invalidate(self._live(), offset, size)
