"""Memory of other packages, and ours for them: the CUDA array interface, and DLPack both ways."""
import ctypes
import math
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ._api import EventFlag, MemoryKind
from ._stream import Event, Stream

if TYPE_CHECKING:
    from ._memory import Memory, View

DLPACK_CUDA, DLPACK_CUDA_HOST, DLPACK_MANAGED = 2, 3, 13
DLPACK_KINDS = {MemoryKind.PINNED: DLPACK_CUDA_HOST, MemoryKind.REGISTERED: DLPACK_CUDA_HOST, MemoryKind.MANAGED: DLPACK_MANAGED}
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # of a typestr


class _Tensor(ctypes.Structure):
    """DLTensor, and the first fields of DLManagedTensor behind it."""
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8),
                ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
                ("manager", c_void_p), ("deleter", c_void_p)]


_DELETER = ctypes.CFUNCTYPE(None, c_void_p)
_lent: Dict[int, Any] = {}  # what takers of capsules have, by the address of its tensor


def _give_back(address: int) -> None:
    _lent.pop(address, None)


def _drop(capsule: int) -> None:
    """A capsule ends that nobody has taken."""
    if ctypes.pythonapi.PyCapsule_IsValid(c_void_p(capsule), b"dltensor"):
        _give_back(_pointer(c_void_p(capsule), b"dltensor"))


_on_give_back, _on_drop = _DELETER(_give_back), ctypes.PYFUNCTYPE(None, c_void_p)(_drop)


def _pointer(capsule: Any, name: bytes) -> int:
    get = ctypes.PYFUNCTYPE(c_void_p, type(capsule) if isinstance(capsule, c_void_p) else ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    return int(get(capsule, name))


def exported(memory: "Memory", stream: Optional[int]) -> Any:
    """A capsule with the memory, which keeps it alive.  stream: the taker's, as DLPack numbers it; None: legacy; -1: it orders nothing."""
    if stream != -1:
        taker = Stream.LEGACY if stream is None or stream in (0, 1) else Stream.PER_THREAD if stream == 2 else Stream.wrap(stream)
        order(memory.stream, taker)
    shape = (c_int64 * len(memory.shape))(*memory.shape)
    kind, device = memory.__dlpack_device__()
    tensor = _Tensor(memory.address, kind, device, len(shape), _CODES[memory.typestr[1]], 8 * int(memory.typestr[2:]), 1, shape, None, 0, None,
                     ctypes.cast(_on_give_back, c_void_p))
    _lent[ctypes.addressof(tensor)] = tensor, shape, memory
    new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
    return new(ctypes.addressof(tensor), b"dltensor", ctypes.cast(_on_drop, c_void_p))


def order(first: Optional[Stream], then: Stream) -> None:
    """Later work of `then` waits for what `first` has so far.  For ALL the host waits."""
    first = Stream.LEGACY if first is None else first
    if first is Stream.ALL or first is Stream.OWN:
        from ._context import synchronize
        synchronize()
    elif first._handle != then._handle:
        with Event(EventFlag.NO_TIMING) as event:
            then.wait_for_event(event.record(first))


def address_of(thing: Any) -> Tuple[int, int]:
    """Address and bytes of an object with the CUDA array interface.  ValueError if it has gaps."""
    shown = thing.__cuda_array_interface__
    item = int(shown["typestr"][2:])
    n_bytes = math.prod((item, *shown["shape"]))
    if shown.get("strides") and n_bytes and tuple(shown["strides"]) != _row_order(shown["shape"], item):
        raise ValueError("an array with gaps, or not in row order")
    return shown["data"][0] or 0, n_bytes


def _row_order(shape: Tuple[int, ...], item: int) -> Tuple[int, ...]:
    strides: List[int] = []
    for extent in reversed(shape):
        strides.insert(0, item)
        item *= extent
    return tuple(strides)


def asmemory(thing: Any) -> "View":
    """The device memory of another package's array, by the CUDA array interface or by DLPack; keeps the array alive.

    Its work is ordered before that of the legacy stream.  TypeError for what has neither; ValueError for gaps or another kind of device.
    """
    from ._memory import Memory, View, nothing
    if hasattr(thing, "__cuda_array_interface__"):
        shown = thing.__cuda_array_interface__
        address, n_bytes = address_of(thing)
        if shown.get("stream"):
            order(Stream.PER_THREAD if shown["stream"] == 2 else Stream.LEGACY if shown["stream"] == 1 else Stream.wrap(shown["stream"]), Stream.LEGACY)
        return View(Memory(address, n_bytes, nothing, thing), 0, n_bytes, tuple(shown["shape"]), shown["typestr"])
    if not hasattr(thing, "__dlpack__"):
        raise TypeError(f"{type(thing).__name__} has neither the CUDA array interface nor DLPack")
    if thing.__dlpack_device__()[0] not in (DLPACK_CUDA, DLPACK_CUDA_HOST, DLPACK_MANAGED):
        raise ValueError("memory of another kind of device")
    capsule = thing.__dlpack__(stream=1)
    tensor_address = _pointer(capsule, b"dltensor")
    tensor = _Tensor.from_address(tensor_address)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    letter = {code: letter for letter, code in _CODES.items()}.get(tensor.code)
    if letter is None or tensor.lanes != 1 or tensor.bits % 8:
        raise ValueError("elements that have no typestr")
    typestr = f"{'<' if tensor.bits > 8 else '|'}{letter}{tensor.bits // 8}"
    if tensor.strides and [tensor.strides[i] for i in range(tensor.ndim) if shape[i] > 1] != [
            stride for stride, extent in zip(_row_order(shape, 1), shape) if extent > 1]:
        raise ValueError("an array with gaps, or not in row order")
    n_bytes = math.prod((tensor.bits // 8, *shape))
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), _USED)
    return View(Memory((tensor.data or 0) + tensor.byte_offset, n_bytes, _delete, tensor_address, tensor.deleter), 0, n_bytes, shape, typestr)


_USED = c_char_p(b"used_dltensor")  # a capsule keeps the address of its name


def _delete(tensor_address: int, deleter: Optional[int]) -> None:
    if deleter:
        _DELETER(deleter)(tensor_address)
