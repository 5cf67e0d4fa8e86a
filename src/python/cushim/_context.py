"""Devices and contexts."""
import ctypes
import enum
import threading
import weakref
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Iterator, List, Optional, Tuple, Union
from contextlib import contextmanager

from ._api import ContextFlag
from ._library import Handle, ask, ask_two, asked, library, tell


class CacheConfig(enum.IntEnum):
    """CUfunc_cache: what on-chip memory prefers to be."""
    NONE = 0
    SHARED = 1
    L1 = 2
    EQUAL = 3


class Device:
    """A device: an ordinal, or its place on the bus as text, "0000:01:00.0"; None: the calling thread's.

    LogicError with BADDEVICE if there is none.
    """

    def __init__(self, device: Union[int, str, None] = None) -> None:
        if device is None:
            self.ordinal: int = ask(c_int, "cushim_device_current")
        elif isinstance(device, str):
            self.ordinal = ask(c_int, "cushim_device_by_pci", device.encode())
        else:
            self.ordinal = device
            self.total_memory()  # so that a wrong number is found here

    @staticmethod
    def count() -> int:
        """How many devices the process sees.  RuntimeError with NODEVICE or NOCUDA if there is none."""
        return int(ask(c_int, "cushim_device_count"))

    def name(self) -> str:
        return self._text("cushim_device_name", 256)

    def pci_bus_id(self) -> str:
        return self._text("cushim_device_pci", 32)

    def _text(self, call: str, n_bytes: int) -> str:
        text = ctypes.create_string_buffer(n_bytes)
        getattr(library(), call)(self.ordinal, text, n_bytes)
        return text.value.decode()

    def uuid(self) -> bytes:
        """16 bytes."""
        buffer = ctypes.create_string_buffer(16)
        library().cushim_device_uuid(self.ordinal, buffer)
        return buffer.raw

    def compute_capability(self) -> Tuple[int, int]:
        return ask_two(c_int, c_int, "cushim_device_capability", self.ordinal)

    def total_memory(self) -> int:
        """In bytes."""
        return int(ask(c_size_t, "cushim_device_memory", self.ordinal))

    def get_attribute(self, attribute: int) -> int:
        """The value of a DeviceAttribute, or of another number of CUdevice_attribute; LogicError for no such number."""
        return int(ask(c_int, "cushim_device_attribute", self.ordinal, attribute))

    def has_managed_memory(self) -> bool:
        """May host and device use managed memory at the same time?"""
        return bool(ask(c_int, "cushim_device_managed", self.ordinal))

    def shares_memory(self) -> bool:
        """Is the device's memory the host's?"""
        return bool(ask(c_int, "cushim_device_shared", self.ordinal))

    def can_access_peer(self, peer: "DeviceLike") -> bool:
        return bool(ask(c_int, "cushim_device_peer", self.ordinal, ordinal_of(peer)))

    def enable_peer_access(self, peer: "DeviceLike") -> None:
        """Let the primary context use the memory of the peer's.  LogicError with NOTSUPPORTED if the devices cannot."""
        library().cushim_device_peer_enable(self.ordinal, ordinal_of(peer))

    def set(self) -> None:
        """Make the primary context current in this thread, as cudaSetDevice does."""
        library().cushim_device_set(self.ordinal)

    def make_context(self, flags: int = 0) -> "Context":
        """A new context, pushed; flags are bits of ContextFlag."""
        return Context(self, flags=flags)

    def retain_primary_context(self) -> "Context":
        """The context that the CUDA runtime uses.  It is not pushed, and never reset."""
        return Context._adopted(ask(c_void_p, "cushim_context_primary", self.ordinal), owned=True)

    def __index__(self) -> int:
        return self.ordinal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.ordinal == self.ordinal

    def __hash__(self) -> int:
        return hash(self.ordinal)

    def __repr__(self) -> str:
        return f"Device({self.ordinal})"


DeviceLike = Union[Device, int, None]


def ordinal_of(device: DeviceLike) -> int:
    """-1 is the calling thread's."""
    return -1 if device is None else int(device)


class Context(Handle):
    """A context.  Context(device) makes one and pushes it; Device.retain_primary_context() and Context.current() give others.

    `with context:` makes it current, and detaches it at the end, of the outermost one.  `with context.pushed():` makes it current, and no more.
    A context on a thread's stack stays alive; so does one whose objects are alive.  It is detached when Python drops it.
    """

    _ends_by = "cushim_context_destroy"
    _n_entered = 0  # `with` statements that are open

    def __init__(self, device: DeviceLike = None, *, flags: int = 0, push: bool = True) -> None:
        super().__init__(ask(c_void_p, "cushim_context_create", ordinal_of(device), flags & ~ContextFlag.PUSH))
        _known[self._handle] = self
        if push:
            self.push()

    @classmethod
    def _adopted(cls, handle: int, owned: bool) -> "Context":
        """The object of a handle; there is one at a time."""
        known = _known.get(handle)
        if known is None or known.closed:
            known = _known[handle] = cls._made(handle)
            if not owned:
                known._finalizer.detach()
        return known

    @classmethod
    def current(cls) -> "Optional[Context]":
        """What a call without a context would use; None if there is none."""
        handle = ask(c_void_p, "cushim_context_current")
        return cls._adopted(handle, owned=False) if handle else None

    get_current = current

    @classmethod
    def wrap(cls, address: int) -> "Context":
        """Of a CUcontext that others made, and keep."""
        return cls._adopted(ask(c_void_p, "cushim_context_wrap", address), owned=True)

    def push(self) -> None:
        """Put it on the thread's stack: it is current."""
        library().cushim_context_push(self._handle)
        _stack().append(self)

    @staticmethod
    def pop() -> "Context":
        """Take the top off the thread's stack, and return it.  LogicError with NOCONTEXT if the stack is empty."""
        handle = ask(c_void_p, "cushim_context_pop")
        taken = Context._adopted(handle, owned=False)
        stack = _stack()
        while stack and stack.pop()._handle != handle:  # what is above has ended
            pass
        return taken

    @contextmanager
    def pushed(self) -> Iterator["Context"]:
        """Current inside of a `with` statement."""
        self.push()
        try:
            yield self
        finally:
            if self in _stack():
                self.pop()

    def detach(self) -> None:
        """Let go of it: one that was made here ends with all that is in it; a primary one, when nobody needs it any more.  Again is nothing."""
        self.close()
        _stack()[:] = [context for context in _stack() if context is not self]

    def __enter__(self) -> "Context":
        if self._n_entered or not _stack() or _stack()[-1] is not self:
            self.push()
        self._n_entered += 1
        return self

    def __exit__(self, *error: Any) -> None:
        if _stack() and _stack()[-1] is self:
            self.pop()
        self._n_entered -= 1
        if self._n_entered == 0:
            self.detach()

    handle: int = asked(int, c_void_p, "cushim_context_handle", "The driver's CUcontext.")
    id: int = asked(int, c_uint64, "cushim_context_id", "A number that no other context of this process has, or will have.")

    def get_device(self) -> Device:
        return Device(ask(c_int, "cushim_context_device", self._handle))

    def synchronize(self) -> None:
        """Wait for all its work; a failure of earlier work is raised here."""
        library().cushim_context_synchronize(self._handle)

    def check(self) -> None:
        """Raises the first failure that damaged it for good; waits for nothing."""
        library().cushim_context_check(self._handle)

    def get_limit(self, limit: int) -> int:
        """Of a Limit."""
        return int(ask(c_size_t, "cushim_context_limit_get", self._handle, limit))

    def set_limit(self, limit: int, value: int) -> None:
        tell("cushim_context_limit_set", self._handle, limit, value)

    def get_cache_config(self) -> CacheConfig:
        return CacheConfig(ask(c_int, "cushim_context_cache_get", self._handle))

    def set_cache_config(self, config: int) -> None:
        tell("cushim_context_cache_set", self._handle, config)

    def n_captures(self) -> int:
        """How many captures are open in it, as far as is known."""
        return int(ask(c_int, "cushim_graph_capturing", self._handle))

    def enable_peer_access(self, peer: "Union[Context, DeviceLike]") -> None:
        """As Device.enable_peer_access, for the devices of two primary contexts."""
        self.get_device().enable_peer_access(peer.get_device() if isinstance(peer, Context) else peer)


_known: "weakref.WeakValueDictionary[int, Context]" = weakref.WeakValueDictionary()
_stacks = threading.local()


def _stack() -> List[Context]:
    """The contexts that this thread has pushed from Python, which keeps them alive."""
    if not hasattr(_stacks, "contexts"):
        _stacks.contexts = []
    return _stacks.contexts  # type: ignore[no-any-return]


def kept(context: Optional[Context]) -> Optional[Context]:
    """What an object made in `context`, or without one, keeps alive."""
    return context if context is not None or not _stack() else _stack()[-1]


def number_of(context: Optional[Context]) -> Optional[int]:
    return None if context is None else context._handle


def synchronize(context: Optional[Context] = None) -> None:
    """Wait for all work of a context; None: of the current one."""
    library().cushim_context_synchronize(number_of(context))
