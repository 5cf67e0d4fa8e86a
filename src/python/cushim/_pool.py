"""Pools: memory that is kept when it is freed, and served again without a driver call."""
import ctypes
import weakref
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import _api
from ._api import GraphMemory, MemoryKind, PoolPolicy, PoolState
from ._context import Context, DeviceLike, kept, number_of, ordinal_of
from ._graph import Graph
from ._library import Handle, ask, filled, library, put, size, tell
from ._memory import Memory
from ._stream import Stream, stream_number

_NO_CALLBACK = _api.cushim_pool_oom_fn()
_called_when_out: Dict[int, Any] = {}  # by pool: the library calls it as long as the pool lives


class PoolStats(_api.PoolStats):
    """Counters, and gauges of this moment, as struct cushim_pool_stats has them; sizes in bytes.

    held_blocks of PyCUDA are cached_blocks, active_blocks are live_blocks, managed_bytes are cached_bytes + live_bytes, and active_bytes
    are asked_bytes.
    """


class PoolBlock(NamedTuple):
    """A block that Pool.blocks() shows.  stream: the driver's, of its first use if it is live, else of its last."""
    address: int
    asked_bytes: int
    block_bytes: int
    device: int
    kind: MemoryKind
    state: PoolState
    stream: int


class PoolMemory(Memory):
    """A block of a pool, which stays as long as it.  It goes back behind the work of `stream`, which is that of its first use until set."""

    def __init__(self, pool: "Pool", address: int, n_bytes: int, kind: int, stream: Optional[Stream]) -> None:
        self._last = [stream]
        super().__init__(address, n_bytes, _give_back, pool, address, self._last, host=None if kind == MemoryKind.DEVICE else address,
                         on_host=kind == MemoryKind.PINNED, stream=stream)
        self.pool = pool

    @property
    def stream(self) -> Optional[Stream]:
        return self._last[0]

    @stream.setter
    def stream(self, stream: Optional[Stream]) -> None:
        self._last[0] = stream

    def free(self, stream: Optional[Stream] = None) -> None:
        """Give it back behind its last use on `stream`; None: on self.stream."""
        if stream is not None:
            self._last[0] = stream
        super().free()


def _give_back(pool: "Pool", address: int, last: List[Optional[Stream]]) -> None:
    pool.free(address, last[0])  # a stream that was closed counts as ALL


class Pool(Handle):
    """A pool of device, managed and pinned memory.

    context: None: the primary contexts of all devices.  policy, steps: how a size is rounded to a bucket.  dedicated: blocks of 2 MiB and
    more are driver allocations of their own.  poll_us: how long a request for Stream.ALL polls what is in flight.  cap_*: bounds of idle and
    live memory, in blocks and bytes; keep_bytes may be idle in any case.  None: the default of pool.h.
    """

    _ends_by = "cushim_pool_destroy"

    def __init__(self, context: Optional[Context] = None, *, policy: Optional[PoolPolicy] = None, steps: Optional[int] = None, dedicated: Optional[bool] = None,
                 poll_us: Optional[int] = None, cap_bucket_blocks: Optional[int] = None, cap_bucket_bytes: Optional[int] = None,
                 cap_cached_bytes: Optional[int] = None, cap_live_bytes: Optional[int] = None, keep_bytes: Optional[int] = None) -> None:
        options = _api.cushim_pool_options()
        library().cushim_pool_options_default(ctypes.byref(options))
        options.ctx = number_of(context)
        put(options, policy=policy, steps=steps, dedicated=dedicated, poll_us=poll_us, cap_bucket_blocks=cap_bucket_blocks, cap_bucket_bytes=cap_bucket_bytes,
            cap_cached_bytes=cap_cached_bytes, cap_live_bytes=cap_live_bytes, keep_bytes=keep_bytes)
        super().__init__(ask_created("cushim_pool_create", options), kept(context))
        weakref.finalize(self, _called_when_out.pop, self._handle, None)

    def alloc(self, n_bytes: int, stream: Optional[Stream] = Stream.ALL, *, kind: int = MemoryKind.DEVICE, device: DeviceLike = None) -> PoolMemory:
        """A block for first use on a stream (None: the legacy one; Stream.ALL: any), of a kind: DEVICE, MANAGED or PINNED of MemoryKind.

        MemoryError: there is none left, or cap_live_bytes is reached.
        """
        address = ask(c_uint64, "cushim_pool_alloc", self._handle, ordinal_of(device), kind, size(n_bytes), stream_number(stream))
        return PoolMemory(self, address, n_bytes, kind, stream)

    def allocate(self, n_bytes: int, device: int = -1) -> int:
        """The address of a block, for a caller that calls free(); 0 for 0 bytes.  -1 is the calling thread's device."""
        return int(ask(c_uint64, "cushim_pool_alloc", self._handle, device, MemoryKind.DEVICE, size(n_bytes), _api.CUSHIM_STREAM_ALL))

    def free(self, address: int, stream: Optional[Stream] = Stream.ALL) -> None:
        """Give an address back behind its last use on a stream.  LogicError with UNKNOWNPTR or DOUBLEFREE: refused, nothing changed."""
        tell("cushim_pool_free", self._handle, -1, address, 0, stream_number(stream))

    def bucket(self, n_bytes: int) -> int:
        """The bytes of the block that serves a request of n_bytes."""
        return int(ask(c_size_t, "cushim_pool_bucket", self._handle, n_bytes))

    def stats(self, device: DeviceLike = None, kind: int = MemoryKind.ALL) -> PoolStats:
        """Of a device, or of all; of a kind, or of all."""
        return filled(PoolStats, "cushim_pool_stats", self._handle, ordinal_of(device), kind)

    def reset_stats(self) -> None:
        """Set the counters to 0, and begin the peaks again."""
        library().cushim_pool_stats_reset(self._handle)

    def drain(self) -> None:
        """Give all idle memory back to the driver; waits for what is pending."""
        library().cushim_pool_drain(self._handle)

    def trim(self, keep_bytes: int = 0, device: DeviceLike = None) -> None:
        """Give idle memory back, the oldest first, until at most `keep_bytes` are kept; waits for nothing."""
        tell("cushim_pool_trim", self._handle, ordinal_of(device), keep_bytes)

    def hold(self, on: bool = True) -> None:
        """Keep freed blocks for the next request, as from the start; False: drain now, and at each free from then on."""
        tell("cushim_pool_freeze_idle", self._handle, on)

    def owns(self, address: int) -> bool:
        """Is it the address of a live block?"""
        return bool(ask(c_int, "cushim_pool_owns", self._handle, address))

    def blocks(self) -> List[PoolBlock]:
        """All blocks there are, live and idle."""
        found: List[PoolBlock] = []

        def see(view: Any, cookie: Any) -> int:
            block = view.contents
            found.append(PoolBlock(block.ptr, block.asked_bytes, block.block_bytes, block.device, MemoryKind(block.kind), PoolState(block.state), block.stream or 0))
            return 0

        library().cushim_pool_walk(self._handle, _api.cushim_pool_walk_fn(see), None)
        return found

    def on_out_of_memory(self, function: Optional[Callable[[int], bool]]) -> None:
        """Called last when memory is out, with the bytes asked for: free something and return True to try again.  None: no function."""
        called = _api.cushim_pool_oom_fn(lambda n_bytes, cookie: bool(function(n_bytes))) if function is not None else _NO_CALLBACK
        library().cushim_pool_on_oom(self._handle, called, None)
        _called_when_out[self._handle] = called

    def freeze(self, stream: Stream, memory: int = GraphMemory.HOLD) -> None:
        """Attach it to a capture of this stream that others are about to begin.  memory: of GraphMemory."""
        library().cushim_pool_freeze(self._handle, stream._handle, memory)

    def unfreeze(self, stream: Stream) -> Graph:
        """Detach it from a capture that has ended.  The graph holds the capture's memory: keep it until the last launch is over."""
        return Graph._made(ask(c_void_p, "cushim_pool_unfreeze", self._handle, stream._handle))

    def frozen(self) -> int:
        """How many captures it is attached to."""
        return int(ask(c_int, "cushim_pool_frozen", self._handle))

    def set_default(self) -> None:
        """Make it what default() gives; nothing of the library uses it by itself."""
        library().cushim_pool_set_default(self._handle)

    @classmethod
    def default(cls) -> "Optional[Pool]":
        """The pool that set_default() named, as long as that lives."""
        return cls._borrowed(ask(c_void_p, "cushim_pool_default"))


def ask_created(name: str, options: Any) -> int:
    return int(ask(c_void_p, name, ctypes.byref(options)))

