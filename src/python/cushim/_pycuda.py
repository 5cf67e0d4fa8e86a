"""What else programs call that were written for PyCUDA's driver module: its names of flags, memory and copies."""
import enum
from typing import Any, Optional

from ._context import Context
from ._copies import copy
from ._errors import Error
from ._memory import DeviceMemory, Memory, PinnedMemory
from ._stream import Stream

CudaError = Error
DeviceAllocation = DeviceMemory
HostAllocation = PinnedMemory


class ctx_flags(enum.IntFlag):
    SCHED_AUTO = 0
    SCHED_SPIN = 1
    SCHED_YIELD = 2
    SCHED_BLOCKING_SYNC = 4
    MAP_HOST = 8
    LMEM_RESIZE_TO_MAX = 16


class host_alloc_flags(enum.IntFlag):
    PORTABLE = 1
    DEVICE_MAP = 2
    WRITE_COMBINED = 4


class event_flags(enum.IntFlag):
    DEFAULT = 0
    BLOCKING_SYNC = 1
    DISABLE_TIMING = 2
    INTERPROCESS = 4


class stream_flags(enum.IntFlag):
    DEFAULT = 0
    NON_BLOCKING = 1


def mem_alloc(n_bytes: int, context: Optional[Context] = None) -> DeviceMemory:
    """Device memory.  MemoryError if there is none left."""
    return DeviceMemory(n_bytes, context)


def mem_host_alloc(n_bytes: int, flags: int = 0, context: Optional[Context] = None) -> PinnedMemory:
    """Pinned host memory.  flags: bits of host_alloc_flags."""
    return PinnedMemory(n_bytes, flags, context)


def memcpy_htod(dest: Any, src: Any) -> None:
    """All of a host buffer to device memory; waits."""
    copy(dest, src)


def memcpy_dtoh(dest: Any, src: Any) -> None:
    """Fill a writable host buffer from device memory; waits."""
    copy(dest, src, _room(dest))


def memcpy_dtod(dest: Any, src: Any, size: Optional[int] = None) -> None:
    """`size` bytes in the device; waits."""
    copy(dest, src, size)


def memcpy_htod_async(dest: Any, src: Any, stream: Optional[Stream] = None) -> None:
    """Queued; the buffer has to be pinned, and to stay until the stream has passed."""
    copy(dest, src, stream=Stream.LEGACY if stream is None else stream)


def memcpy_dtoh_async(dest: Any, src: Any, stream: Optional[Stream] = None) -> None:
    """Queued; the buffer has to be pinned, and to stay until the stream has passed."""
    copy(dest, src, _room(dest), stream=Stream.LEGACY if stream is None else stream)


def _room(dest: Any) -> Optional[int]:
    """What fills it; None: copy() sees that."""
    return dest.n_bytes if isinstance(dest, Memory) else None


def memcpy_dtod_async(dest: Any, src: Any, size: Optional[int] = None, stream: Optional[Stream] = None) -> None:
    """Queued."""
    copy(dest, src, size, stream=Stream.LEGACY if stream is None else stream)
