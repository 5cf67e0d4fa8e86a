"""Filling and copying.  A host side is any contiguous buffer: bytes, bytearray, memoryview, array, NumPy's arrays."""
import contextlib
import ctypes
from typing import Any, Iterator, NamedTuple, Optional, Tuple

from . import _api
from ._api import CopyFlag, CopyPlace, MemoryKind
from ._context import Context, number_of
from ._exchange import address_of
from ._errors import Error
from ._library import library, struct, tell
from ._stream import Stream, stream_number
from . import _memory

_PINNED = {MemoryKind.PINNED, MemoryKind.REGISTERED, MemoryKind.MANAGED, MemoryKind.MAPPED, MemoryKind.FOREIGN}


class _PyBuffer(ctypes.Structure):
    """Py_buffer of CPython."""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int), ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class _Side(NamedTuple):
    address: int
    n_bytes: Optional[int]  # None: not known
    is_host: bool
    is_buffer: bool = False  # of Python: a copy into it fills it


@contextlib.contextmanager
def _side(thing: Any, writable: bool, is_async: bool) -> Iterator[_Side]:
    """Where a side of a copy is.  BufferError for a buffer with gaps, or that must not be written."""
    known = _side_of_device(thing)
    if known is not None:
        yield known
        return
    buffer = _PyBuffer()
    python = ctypes.pythonapi
    python.PyObject_GetBuffer(ctypes.py_object(thing), ctypes.byref(buffer), ctypes.c_int(1 if writable else 0))  # PyBUF_WRITABLE, PyBUF_SIMPLE
    try:
        address, n_bytes = buffer.buf or 0, buffer.len
        if is_async and n_bytes and not _is_pinned(address, n_bytes):
            raise ValueError("a copy in the order of a stream needs pinned host memory: PinnedMemory, or RegisteredMemory of this buffer")
        yield _Side(address, n_bytes, True, True)
    finally:
        python.PyBuffer_Release(ctypes.byref(buffer))


def _side_of_device(thing: Any) -> Optional[_Side]:
    if isinstance(thing, _memory.Memory):
        return _Side(thing.address, thing.n_bytes, thing._on_host)
    if isinstance(thing, int):
        return _Side(thing, None, False)
    if hasattr(thing, "__cuda_array_interface__"):
        return _Side(*address_of(thing), False)
    return None


def _is_pinned(address: int, n_bytes: int) -> bool:
    try:
        found = _memory.memory_info(address)
    except Error:
        return False
    return found.kind in _PINNED and address + n_bytes <= found.start + found.n_bytes


def _length(dst: _Side, src: _Side, dst_offset: int, src_offset: int, n_bytes: Optional[int]) -> int:
    """How much is copied: what is asked for, else what the source has.  ValueError if a side is too short."""
    rooms = [None if side.n_bytes is None else side.n_bytes - offset for side, offset in ((src, src_offset), (dst, dst_offset))]
    if n_bytes is None:
        n_bytes = rooms[1] if dst.is_buffer or rooms[0] is None else rooms[0]
        if n_bytes is None:
            raise ValueError("how many bytes, between two addresses?")
    _check_room(src, src_offset, n_bytes)
    _check_room(dst, dst_offset, n_bytes)
    return n_bytes


def copy(dst: Any, src: Any, n_bytes: Optional[int] = None, *, dst_offset: int = 0, src_offset: int = 0, stream: Optional[Stream] = None) -> None:
    """Copy bytes between host and device memory, in any direction.

    dst, src: Memory, an object of the CUDA array interface, a device address, or a host buffer; offsets in bytes.
    n_bytes: None: all of src; a host buffer that is dst is filled.
    stream: None waits until the bytes have arrived; else queued there, and each host buffer has to be pinned and to stay until the stream
    has passed.
    ValueError: they do not fit, or are not pinned.  TypeError, BufferError: no contiguous buffer, or not to be written.
    """
    is_async = stream is not None
    with _side(dst, True, is_async) as to, _side(src, False, is_async) as start:
        n_bytes = _length(to, start, dst_offset, src_offset, n_bytes)
        if to.is_host and start.is_host and not is_async:
            ctypes.memmove(to.address + dst_offset, start.address + src_offset, n_bytes)
            return
        call = f"cushim_memory_{'h' if start.is_host else 'd'}2{'h' if to.is_host else 'd'}"
        if to.is_host and start.is_host:
            library().cushim_memory_copy_async(to.address + dst_offset, start.address + src_offset, n_bytes, _api.CopyKind.H2H, stream_number(stream))
        elif is_async:
            getattr(library(), call + "_async")(to.address + dst_offset, start.address + src_offset, n_bytes, stream_number(stream))
        else:
            getattr(library(), call)(to.address + dst_offset, start.address + src_offset, n_bytes)


def copy_peer(dst: Any, src: Any, n_bytes: Optional[int] = None, *, dst_context: Optional[Context] = None, src_context: Optional[Context] = None,
              stream: Optional[Stream] = None) -> None:
    """Copy device memory between contexts or devices; without a stream it waits, and is ordered behind all work of both.

    dst, src: Memory or addresses; the contexts of addresses that we did not hand out have to be named.
    """
    with _side(dst, True, False) as to, _side(src, False, False) as start:
        sides = to.address, number_of(dst_context), start.address, number_of(src_context), _length(to, start, 0, 0, n_bytes)
        if stream is None:
            library().cushim_memory_copy_peer(*sides)
        else:
            library().cushim_memory_copy_peer_async(*sides, stream_number(stream))


def fill(memory: Any, value: int = 0, *, width: int = 1, offset: int = 0, count: Optional[int] = None, stream: Optional[Stream] = None) -> None:
    """Set `count` words of `width` bytes (1, 2 or 4) from the byte at `offset` on; None: all there are.  Queued.  ValueError if they do not fit."""
    side = _word_side(memory, value, width)
    if count is None:
        if side.n_bytes is None:
            raise ValueError("how many words, from an address on?")
        count = max(side.n_bytes - offset, 0) // width
    _check_room(side, offset, count * width)
    if stream is None:
        tell(f"cushim_memory_set{8 * width}", side.address + offset, value, count)
    else:
        tell(f"cushim_memory_set{8 * width}_async", side.address + offset, value, count, stream_number(stream))


def fill_2d(memory: Any, value: int, *, rows: int, row_words: int, pitch_bytes: int, width: int = 1, offset: int = 0, stream: Optional[Stream] = None) -> None:
    """Set `rows` rows of `row_words` words; what lies between them is left alone.  Queued.  ValueError if they do not fit."""
    side = _word_side(memory, value, width)
    _check_room(side, offset, min(rows, row_words) and (rows - 1) * pitch_bytes + row_words * width)
    tell(f"cushim_memory_set2d{8 * width}", side.address + offset, pitch_bytes, value, row_words, rows, stream_number(stream))


def _check_room(side: _Side, offset: int, n_bytes: int) -> None:
    if min(offset, n_bytes) < 0:
        raise ValueError("an offset or a size is negative")
    if side.n_bytes is not None and offset + n_bytes > side.n_bytes:
        raise ValueError(f"{n_bytes} bytes do not fit into {max(side.n_bytes - offset, 0)}")


def _word_side(memory: Any, value: int, width: int) -> _Side:
    if width not in (1, 2, 4) or not 0 <= value < 256 ** width:
        raise ValueError(f"{value} is no word of {width} bytes, which is 1, 2 or 4")
    side = _side_of_device(memory)
    if side is None:
        raise TypeError(f"{type(memory).__name__} is no device memory")
    return side


class Place(NamedTuple):
    """One side of a copy of rows or boxes.

    memory: as copy() takes it.  pitch_bytes: from row to row; 0: as wide as the copy.  height: rows from slice to slice; 0: as the copy.
    x_bytes, y, z: where the copy begins.  context: of an address that we did not hand out.
    """
    memory: Any
    pitch_bytes: int = 0
    height: int = 0
    x_bytes: int = 0
    y: int = 0
    z: int = 0
    context: Optional[Context] = None


def _end(place: Any, writable: bool, is_async: bool, stack: contextlib.ExitStack, shape: Tuple[int, int, int]) -> Any:
    place = place if isinstance(place, Place) else Place(place)
    side = stack.enter_context(_side(place.memory, writable, is_async))
    pitch = place.pitch_bytes or shape[0] + place.x_bytes
    rows = (place.z + shape[2] - 1) * (place.height or shape[1] + place.y) + place.y + shape[1] - 1
    if all(shape) and side.n_bytes is not None and side.is_host and rows * pitch + place.x_bytes + shape[0] > side.n_bytes:
        raise ValueError(f"{rows * pitch + place.x_bytes + shape[0]} bytes do not fit into {side.n_bytes}")
    return _api.cushim_copy_end(address=side.address, place=CopyPlace.HOST if side.is_host else CopyPlace.DEVICE, pitch_bytes=place.pitch_bytes,
                                height=place.height, x_bytes=place.x_bytes, y=place.y, z=place.z, ctx=number_of(place.context))


def copy_2d(dst: Any, src: Any, width_bytes: int, rows: int, *, stream: Optional[Stream] = None) -> None:
    """Copy rows.  dst, src: a Place, or what copy() takes.  Waits without a stream; with one it is queued, between pinned memory."""
    with contextlib.ExitStack() as stack:
        ends = [_end(place, writable, stream is not None, stack, (width_bytes, rows, 1)) for place, writable in ((dst, True), (src, False))]
        described = struct(_api.cushim_copy2d, flags=0 if stream else CopyFlag.BLOCKING, width_bytes=width_bytes, rows=rows, dst=ends[0], src=ends[1])
        library().cushim_memory_copy_2d(ctypes.byref(described), stream_number(stream))


def copy_3d(dst: Any, src: Any, width_bytes: int, rows: int, slices: int, *, stream: Optional[Stream] = None) -> None:
    """Copy a box, also between contexts.  Else as copy_2d()."""
    with contextlib.ExitStack() as stack:
        ends = [_end(place, writable, stream is not None, stack, (width_bytes, rows, slices)) for place, writable in ((dst, True), (src, False))]
        described = struct(_api.cushim_copy3d, flags=0 if stream else CopyFlag.BLOCKING, width_bytes=width_bytes, rows=rows, slices=slices,
                           dst=ends[0], src=ends[1])
        library().cushim_memory_copy_3d(ctypes.byref(described), stream_number(stream))
