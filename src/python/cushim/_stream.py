"""Streams and events."""
import ctypes
from ctypes import c_float, c_int, c_uint, c_void_p
from typing import ClassVar, Optional, Tuple

from . import _api
from ._api import StreamFlag
from ._context import Context, kept, number_of
from ._library import Handle, ask, ask_two, asked, library

IPC_BYTES = _api.CUSHIM_IPC_BYTES


class Stream(Handle):
    """A queue of device work.

    flags: of StreamFlag.  priority: lower is more urgent; 0 is the default.  context: None is the current one.
    Where a function takes a stream, None is the legacy default stream.  Stream.PER_THREAD is the thread's default stream; Stream.ALL
    (pools and arenas: any stream may use the memory) and Stream.OWN (arenas: that of its options) are no streams to queue work on.
    """

    _ends_by = "cushim_stream_destroy"
    LEGACY: ClassVar["Stream"]
    PER_THREAD: ClassVar["Stream"]
    ALL: ClassVar["Stream"]
    OWN: ClassVar["Stream"]

    def __init__(self, flags: int = 0, priority: int = 0, context: Optional[Context] = None) -> None:
        super().__init__(ask(c_void_p, "cushim_stream_create", number_of(context), flags, priority), kept(context))

    @classmethod
    def _constant(cls, number: int) -> "Stream":
        made = cls._made(number)
        made._finalizer.detach()
        return made

    @classmethod
    def wrap(cls, address: int, context: Optional[Context] = None) -> "Stream":
        """Of a CUstream or cudaStream_t that others made, and keep longer than this object."""
        return cls._made(ask(c_void_p, "cushim_stream_wrap", number_of(context), address), kept(context))

    @staticmethod
    def priority_range(context: Optional[Context] = None) -> Tuple[int, int]:
        """The least and the most urgent priority."""
        return ask_two(c_int, c_int, "cushim_stream_priority_range", number_of(context))

    @property
    def handle(self) -> int:
        """The driver's CUstream; 0: the legacy stream."""
        return ask(c_void_p, "cushim_stream_handle", self._handle) or 0

    def __cuda_stream__(self) -> Tuple[int, int]:
        return 0, self.handle

    priority: int = asked(int, c_int, "cushim_stream_priority", None)
    flags: StreamFlag = asked(StreamFlag, c_uint, "cushim_stream_flags", None)

    def synchronize(self) -> None:
        """Wait until its work is over; a failure of earlier work is raised here."""
        library().cushim_stream_synchronize(self._handle)

    def is_done(self) -> bool:
        """Is all its work over?  Never waits."""
        return bool(ask(c_int, "cushim_stream_query", self._handle))

    def wait_for_event(self, event: "Event") -> None:
        """Later work waits, on the device, for what the event recorded."""
        library().cushim_stream_wait_event(self._handle, event._handle)

    def is_capturing(self) -> bool:
        """Does it take part in a capture, valid or not?"""
        return bool(ask(c_int, "cushim_graph_status", self._handle))


Stream.LEGACY = Stream._constant(_api.CUSHIM_STREAM_LEGACY)
Stream.PER_THREAD = Stream._constant(_api.CUSHIM_STREAM_PER_THREAD)
Stream.ALL = Stream._constant(_api.CUSHIM_STREAM_ALL)
Stream.OWN = Stream._constant(_api.CUSHIM_STREAM_OWN)


def stream_number(stream: Optional[Stream]) -> Optional[int]:
    return None if stream is None else stream._handle


class Event(Handle):
    """A point in the work of a stream, to wait for and to measure between.  flags: bits of EventFlag."""

    _ends_by = "cushim_event_destroy"

    def __init__(self, flags: int = 0, context: Optional[Context] = None) -> None:
        super().__init__(ask(c_void_p, "cushim_event_create", number_of(context), flags), kept(context))

    @classmethod
    def wrap(cls, address: int, context: Optional[Context] = None) -> "Event":
        """Of a CUevent or cudaEvent_t that others made, and keep longer than this object."""
        return cls._made(ask(c_void_p, "cushim_event_wrap", number_of(context), address), kept(context))

    @classmethod
    def from_ipc_handle(cls, handle: bytes, context: Optional[Context] = None) -> "Event":
        """An event of another process, by the 64 bytes of its ipc_handle()."""
        if len(handle) != IPC_BYTES:
            raise ValueError(f"a handle has {IPC_BYTES} bytes, not {len(handle)}")
        return cls._made(ask(c_void_p, "cushim_event_ipc_open", number_of(context), handle), kept(context))

    def ipc_handle(self) -> bytes:
        """64 bytes by which another process opens it; of EventFlag.INTERPROCESS | EventFlag.NO_TIMING alone."""
        buffer = ctypes.create_string_buffer(IPC_BYTES)
        library().cushim_event_ipc_get(self._handle, buffer)
        return buffer.raw

    handle: int = asked(int, c_void_p, "cushim_event_handle", "The driver's CUevent.")

    def record(self, stream: Optional[Stream] = None) -> "Event":
        """Record the work that a stream has so far; returns the event."""
        library().cushim_event_record(self._handle, stream_number(stream))
        return self

    def synchronize(self) -> "Event":
        """Wait until the recorded work is over; returns the event."""
        library().cushim_event_synchronize(self._handle)
        return self

    def query(self) -> bool:
        """Is the recorded work over?  Never waits."""
        return bool(ask(c_int, "cushim_event_query", self._handle))

    def time_till(self, end: "Event") -> float:
        """Milliseconds from here to `end`.  Both are recorded and over, with timing; RuntimeError with NOTREADY before."""
        return float(ask(c_float, "cushim_event_elapsed", self._handle, end._handle))

    def time_since(self, start: "Event") -> float:
        """Milliseconds from `start` to here."""
        return start.time_till(self)
