"""Memory of all kinds.  A block goes back with free(), with a `with` statement, or when Python drops it."""
import ctypes
import math
import weakref
from ctypes import c_size_t, c_uint64, c_void_p
from typing import Any, Dict, NamedTuple, Optional, Tuple, TypeVar

from . import _api, _exchange
from ._api import AttachFlag, MemoryKind, MemoryOwner, Status
from ._context import Context, DeviceLike, kept, number_of, ordinal_of
from ._errors import refusal
from ._library import ask, ask_two, library, not_copied, size, struct, tell
from ._stream import IPC_BYTES, Stream, stream_number

_Self = TypeVar("_Self", bound="Memory")


class MemoryInfo(NamedTuple):
    """What is known about an address: the block that has it, and what has to give that back."""
    start: int
    n_bytes: int
    kind: MemoryKind
    device: int
    owner: MemoryOwner
    flags: int
    context_id: int


class Memory:
    """A block of memory that a device addresses; int() is its address, len() its bytes.

    address: of the first byte, in the device.  n_bytes: as asked for.  stream: of its last use as far as it is known; None: the legacy one.
    LogicError with STATE for a block that was freed, with STALE for one of an arena that was reset.
    """

    def __init__(self, address: int, n_bytes: int, give_back: Any = None, *arguments: Any, host: Optional[int] = None, on_host: bool = False,
                 stream: Optional[Stream] = None) -> None:
        self._address, self.n_bytes, self._host, self._on_host, self.stream = address, n_bytes, host, on_host, stream
        self.shape: Tuple[int, ...] = (n_bytes,)
        self.typestr = "|u1"
        self._finalizer = weakref.finalize(self, _in_silence, give_back or nothing, *arguments)

    def _check(self) -> None:
        """Raises if the block must not be used any more."""
        if not self._finalizer.alive:
            raise refusal(Status.STATE, type(self).__name__, "this memory was freed")

    @property
    def address(self) -> int:
        self._check()
        return self._address

    def __int__(self) -> int:
        return self.address

    def __len__(self) -> int:
        return self.n_bytes

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address:#x}, {self.n_bytes} bytes>"

    def free(self) -> None:
        """Give it back now.  LogicError with DOUBLEFREE if that was done before; after another failure it is still allocated."""
        found = self._finalizer.peek()
        if found is None:
            raise refusal(Status.DOUBLEFREE, "free", "this memory was freed before")
        give_back, *arguments = found[2]
        give_back(*arguments)
        self._finalizer.detach()

    @property
    def freed(self) -> bool:
        return not self._finalizer.alive

    def __reduce__(self) -> Any:
        raise not_copied(self)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._finalizer.alive:
            self.free()

    # the host's view

    @property
    def buffer(self) -> memoryview:
        """The bytes as the host sees them, without a copy; keeps the block alive.  TypeError for memory of the device alone."""
        if self._host is None:
            raise TypeError(f"the host does not address {type(self).__name__}: read() and write() copy")
        self._check()
        array = (ctypes.c_char * self.n_bytes).from_address(self._host)
        array._memory = self  # type: ignore[attr-defined]
        return memoryview(array).cast("B")

    def __buffer__(self, flags: int) -> memoryview:  # Python 3.12 asks it for memoryview(block) and numpy.frombuffer(block)
        return self.buffer

    # copies: _copies.py has them all

    def write(self, data: Any, offset: int = 0, stream: Optional[Stream] = None) -> None:
        """Copy a buffer, or other device memory, to the byte at `offset`.

        Returns when it is there; with a stream, queued: then host memory has to be pinned.  ValueError if it does not fit.
        """
        copy(self, data, dst_offset=offset, stream=stream)

    def read(self, n_bytes: Optional[int] = None, offset: int = 0) -> bytes:
        """A copy of the bytes from `offset` on: n_bytes, or all, behind work that was issued to the legacy stream before."""
        data = bytearray(self.n_bytes - offset if n_bytes is None else n_bytes)
        copy(data, self, src_offset=offset)
        return bytes(data)

    def read_into(self, data: Any, offset: int = 0, stream: Optional[Stream] = None) -> None:
        """Fill a writable buffer from the byte at `offset`; with a stream, queued: then it has to be pinned."""
        copy(data, self, data.n_bytes if isinstance(data, Memory) else None, src_offset=offset, stream=stream)

    def fill(self, value: int = 0, *, width: int = 1, offset: int = 0, count: Optional[int] = None, stream: Optional[Stream] = None) -> None:
        """Set `count` words of `width` bytes (1, 2 or 4), from the byte at `offset`; None: all.  Queued, on the legacy stream without one."""
        fill(self, value, width=width, offset=offset, count=count, stream=stream)

    # others' views

    def view(self, offset: int = 0, n_bytes: Optional[int] = None, *, shape: Optional[Tuple[int, ...]] = None, typestr: str = "|u1") -> "View":
        """A part of it, as an array in row order: typestr as NumPy writes it, `<f4` and the like.  Keeps the block alive."""
        return View(self, offset, n_bytes, shape, typestr)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        """As CuPy, Numba and PyTorch take it; the block is there as long as this object."""
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "version": 3, "stream": None}

    def __dlpack_device__(self) -> Tuple[int, int]:
        found = self.info()
        return _exchange.DLPACK_KINDS.get(found.kind, _exchange.DLPACK_CUDA), max(found.device, 0)

    def __dlpack__(self, *, stream: Optional[int] = None, copy: Optional[bool] = None, **more: Any) -> Any:
        """As torch.from_dlpack and its like take it; work that is queued on the block's stream is ordered before the taker's.

        BufferError if the taker wants a copy.
        """
        if copy:
            raise BufferError("memory is lent as it is, never copied")
        return _exchange.exported(self, stream)

    # questions

    def info(self) -> MemoryInfo:
        """All that is known about its first byte."""
        return memory_info(self.address)

    def range(self) -> Tuple[int, int]:
        """The driver's allocation that has it: address, bytes."""
        return address_range(self.address)

    def ipc_handle(self) -> bytes:
        """64 bytes by which another process opens it.  LogicError with STATE for a block that shares an allocation with others."""
        buffer = ctypes.create_string_buffer(IPC_BYTES)
        library().cushim_memory_ipc_get(self.address, buffer)
        return buffer.raw


def nothing(*kept: Any) -> None:
    """For memory that ends with these objects, which the finalizer keeps until now."""


def _in_silence(give_back: Any, *arguments: Any) -> None:
    """What a finalizer calls: nobody is there to take an exception."""
    try:
        give_back(*arguments)
    except Exception:
        pass


def _by_address(name: str, address: int, *kept: Any) -> None:
    getattr(library(), name)(address)


class _Owned(Memory):
    """What a function with the address alone gives back."""

    def __init__(self, address: int, n_bytes: int, frees: str, keep: Any, **more: Any) -> None:
        super().__init__(address, n_bytes, _by_address, frees, address, keep, **more)


class DeviceMemory(_Owned):
    """Device memory, aligned to 256 bytes at least.  MemoryError if there is none left."""

    def __init__(self, n_bytes: int, context: Optional[Context] = None) -> None:
        super().__init__(ask(c_uint64, "cushim_memory_alloc", number_of(context), size(n_bytes)), n_bytes, "cushim_memory_free", kept(context))


class PitchedMemory(_Owned):
    """Rows of device memory, each at a multiple of pitch_bytes.  element_bytes: 4, 8 or 16, the largest access of a kernel."""

    def __init__(self, width_bytes: int, rows: int, element_bytes: int = 4, context: Optional[Context] = None) -> None:
        address, pitch = ask_two(c_uint64, c_size_t, "cushim_memory_alloc_pitch", number_of(context), size(width_bytes), size(rows), element_bytes)
        self.width_bytes, self.rows, self.pitch_bytes = width_bytes, rows, pitch
        super().__init__(address, pitch * rows, "cushim_memory_free", kept(context))


class ManagedMemory(_Owned):
    """Memory that host and devices address alike.  flags: AttachFlag.GLOBAL or HOST.  LogicError with NOTSUPPORTED on a device without."""

    def __init__(self, n_bytes: int, flags: int = AttachFlag.GLOBAL, context: Optional[Context] = None) -> None:
        address = ask(c_uint64, "cushim_memory_alloc_managed", number_of(context), size(n_bytes), flags)
        super().__init__(address, n_bytes, "cushim_memory_free", kept(context), host=address)

    def attach(self, flags: int, stream: Optional[Stream] = None) -> None:
        """Say which stream uses it, by one AttachFlag; SINGLE names `stream`.  Queued."""
        tell("cushim_memory_attach", self.address, self.n_bytes, flags, stream_number(stream))

    def prefetch(self, device: DeviceLike = None, stream: Optional[Stream] = None) -> None:
        """Move it to where it is used next: a device; None: the host.  Queued."""
        tell("cushim_memory_prefetch", self.address, self.n_bytes, ordinal_of(device), stream_number(stream))


class PinnedMemory(_Owned):
    """Page-locked host memory; `buffer` has its bytes.  flags: bits of HostFlag; `address` is the device's if there is one."""

    def __init__(self, n_bytes: int, flags: int = 0, context: Optional[Context] = None) -> None:
        host = ask(c_void_p, "cushim_host_alloc", number_of(context), size(n_bytes), flags) or 0
        super().__init__(host, n_bytes, "cushim_host_free", kept(context), host=host, on_host=True)

    def device_address(self) -> int:
        """Where the device has it.  LogicError without HostFlag.MAPPED."""
        return int(ask(c_uint64, "cushim_host_device_pointer", self.address))


class RegisteredMemory(_Owned):
    """A writable buffer of the program, pinned as long as this object.  flags: bits of RegisterFlag."""

    def __init__(self, data: Any, flags: int = 0, context: Optional[Context] = None) -> None:
        held = memoryview(data).cast("B")
        address = ctypes.addressof(ctypes.c_char.from_buffer(held))
        tell("cushim_host_register", number_of(context), address, held.nbytes, flags)
        super().__init__(address, held.nbytes, "cushim_host_unregister", (kept(context), held), host=address, on_host=True)

    device_address = PinnedMemory.device_address


class AsyncMemory(Memory):
    """Device memory in the order of a stream: valid for its later work, and freed behind it."""

    def __init__(self, n_bytes: int, stream: Optional[Stream] = None) -> None:
        address = ask(c_uint64, "cushim_memory_alloc_async", stream_number(stream), size(n_bytes))
        super().__init__(address, n_bytes, _free_async, address, stream, stream=stream)


def _free_async(address: int, stream: Optional[Stream]) -> None:
    library().cushim_memory_free_async(address, stream_number(stream))


class IpcMemory(_Owned):
    """Device memory of another process, by the 64 bytes of its ipc_handle()."""

    def __init__(self, handle: bytes, context: Optional[Context] = None) -> None:
        if len(handle) != IPC_BYTES:
            raise ValueError(f"a handle has {IPC_BYTES} bytes, not {len(handle)}")
        address = ask(c_uint64, "cushim_memory_ipc_open", number_of(context), handle)
        super().__init__(address, ask(c_size_t, "cushim_memory_size", address), "cushim_memory_ipc_close", kept(context))


class View(Memory):
    """A part of other memory, as an array in row order."""

    def __init__(self, memory: Memory, offset: int = 0, n_bytes: Optional[int] = None, shape: Optional[Tuple[int, ...]] = None, typestr: str = "|u1") -> None:
        item = int(typestr[2:]) if typestr[2:].isdigit() else 0
        if not item:
            raise ValueError(f"{typestr} is no typestr, as <f4 is")
        if shape is not None:
            if min(shape, default=0) < 0:
                raise ValueError(f"{shape} is no shape")
            n_bytes = math.prod((item, *shape))
        elif n_bytes is None:
            n_bytes = memory.n_bytes - offset
        if offset < 0 or n_bytes < 0 or offset + n_bytes > memory.n_bytes:
            raise ValueError(f"{n_bytes} bytes at {offset} do not fit into {memory.n_bytes}")
        if shape is None and n_bytes % item:
            raise ValueError(f"{n_bytes} bytes are no whole number of {typestr}")
        self.base = memory
        super().__init__(memory._address + offset, n_bytes, _no_owner, host=None if memory._host is None else memory._host + offset, on_host=memory._on_host,
                         stream=memory.stream)
        self.shape, self.typestr = (n_bytes // item,) if shape is None else shape, typestr

    def _check(self) -> None:
        super()._check()
        self.base._check()

    def __exit__(self, *error: Any) -> None:
        pass


def _no_owner() -> None:
    raise refusal(Status.STATE, "free", "a view does not own its memory")


def memory_info(address: int) -> MemoryInfo:
    """All that is known about an address, of others too.  LogicError with UNKNOWNPTR if neither we nor the driver know it."""
    found = struct(_api.cushim_memory_info)
    library().cushim_memory_query(address, ctypes.byref(found))
    return MemoryInfo(found.start, found.bytes, MemoryKind(found.kind), found.device, MemoryOwner(found.owner), found.flags, found.context_id)


def address_range(address: int) -> Tuple[int, int]:
    """The driver's allocation that contains an address: its start, its bytes."""
    return ask_two(c_uint64, c_size_t, "cushim_memory_range", address)


def mem_get_info(context: Optional[Context] = None) -> Tuple[int, int]:
    """Free and total bytes of the device, as the driver counts them."""
    return ask_two(c_size_t, c_size_t, "cushim_memory_info", number_of(context))


def reusable_bytes(context: Optional[Context] = None) -> int:
    """What the pools in a context could give back."""
    return int(ask(c_size_t, "cushim_memory_info_pools", number_of(context)))


def async_threshold(n_bytes: int, context: Optional[Context] = None) -> None:
    """What AsyncMemory's pool keeps when it is idle; 512 MiB until set."""
    tell("cushim_memory_async_threshold", number_of(context), n_bytes)


def async_trim(keep_bytes: int = 0, context: Optional[Context] = None) -> None:
    """Give idle memory of that pool back to the device, all but `keep_bytes`."""
    tell("cushim_memory_async_trim", number_of(context), keep_bytes)


def adopt(address: int, n_bytes: int, context: Optional[Context] = None) -> Memory:
    """Memory that others allocated: its ranges are checked as ours are.  Drop it before they free it."""
    tell("cushim_memory_adopt", number_of(context), address, n_bytes)
    return _Owned(address, n_bytes, "cushim_memory_disown", kept(context))


from ._copies import copy, fill  # noqa: E402  (they need Memory)
