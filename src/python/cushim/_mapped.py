"""Device memory that the host writes and reads through a mapping."""
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Optional, Tuple

from ._context import Context, DeviceLike, kept, number_of, ordinal_of
from ._library import Handle, ask, ask_two, asked, library, size, tell
from ._memory import Memory


class Mapper(Handle):
    """Vulkan's memory for a context, or for the primary context of a device.  flags: bits of MapperFlag; 0 prefers coherent memory.

    LogicError with NOTSUPPORTED if there is no Vulkan loader, driver, device or such memory: the text names it.
    """

    _ends_by = "cushim_mapper_close"

    def __init__(self, context: Optional[Context] = None, *, device: DeviceLike = None, flags: int = 0) -> None:
        if device is None:
            handle = ask(c_void_p, "cushim_mapper_open", number_of(context), flags)
        else:
            handle = ask(c_void_p, "cushim_mapper_open_device", ordinal_of(device), flags)
        super().__init__(handle, kept(context))

    def budget(self) -> Tuple[int, int]:
        """Free and total bytes that can be mapped."""
        return ask_two(c_size_t, c_size_t, "cushim_mapper_budget", self._handle)

    def alloc(self, n_bytes: int, flags: int = 0) -> "MappedMemory":
        return MappedMemory(self, n_bytes, flags)


class MappedMemory(Memory):
    """Device memory; `buffer` has its bytes in the host.  Writing there is fast, reading slow.  flags: bits of MappedFlag.

    A launch sees what the host wrote before, and flushed if the memory is not coherent.
    """

    def __init__(self, mapper: Mapper, n_bytes: int, flags: int = 0) -> None:
        self._mapped = handle = ask(c_void_p, "cushim_mapped_alloc", mapper._handle, size(n_bytes), flags)
        super().__init__(ask(c_uint64, "cushim_mapped_device", handle), n_bytes, _free, handle, mapper, host=ask(c_void_p, "cushim_mapped_host", handle))

    is_coherent: bool = asked(bool, c_int, "cushim_mapped_coherent", "Do host and device see each other's writes without flush() and invalidate()?", "_mapped")
    atom_bytes: int = asked(int, c_size_t, "cushim_mapped_atom", "The unit of flush() and invalidate(); 1 if the memory is coherent.", "_mapped")

    def flush(self, offset: int = 0, n_bytes: Optional[int] = None) -> None:
        """Make host writes visible to later launches.  offset, n_bytes: multiples of the atom, or up to the end; None: up to the end."""
        tell("cushim_mapped_flush", self._mapped, offset, self.n_bytes - offset if n_bytes is None else n_bytes)

    def invalidate(self, offset: int = 0, n_bytes: Optional[int] = None) -> None:
        """Make writes of finished work visible to the host; host writes that were not flushed are lost."""
        tell("cushim_mapped_invalidate", self._mapped, offset, self.n_bytes - offset if n_bytes is None else n_bytes)

    def export(self) -> int:
        """A file descriptor of a dma-buf, for drivers of other devices; the caller closes it."""
        return int(ask(c_int, "cushim_mapped_export", self._mapped))


def _free(handle: int, mapper: Mapper) -> None:
    library().cushim_mapped_free(handle)
