"""Arenas: memory that lives for one pass, and is free all at once after a reset."""
import ctypes
import weakref
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Dict, List, Optional

from . import _api
from ._api import ArenaManagedMode, MemoryKind, Status
from ._context import Context, DeviceLike, kept, number_of, ordinal_of
from ._errors import Error, refusal
from ._library import Handle, ask, ask_two, asked, filled, library, put, size, tell
from ._memory import Memory
from ._pool import Pool, ask_created
from ._stream import Stream, stream_number


class ArenaStats(_api.ArenaStats):
    """Counters, and gauges of this moment, as struct cushim_arena_stats has them; sizes in bytes."""


class ArenaMemory(Memory):
    """A block of an arena, for the epoch that it is of.  After a reset its use raises LogicError with STALE, unless it was kept."""

    def __init__(self, arena: "Arena", address: int, n_bytes: int, epoch: int, host: Optional[int], on_host: bool, stream: Optional[Stream]) -> None:
        self._epoch = [epoch]
        super().__init__(address, n_bytes, _give_back, arena, address, n_bytes, self._epoch, host=host, on_host=on_host, stream=stream)
        self.arena = arena

    @property
    def epoch(self) -> int:
        return self._epoch[0]

    def _check(self) -> None:
        super()._check()
        now = self.arena.epoch
        if self.epoch != now:
            raise refusal(Status.STALE, "ArenaMemory", f"the arena was reset: this block is of epoch {self.epoch}, and it is {now}")

    def pin(self) -> None:
        """Resets leave it alone until as many unpin(): for memory that is to outlive the pass."""
        library().cushim_arena_pin(self.arena._handle, self.address)

    def unpin(self) -> None:
        """LogicError with STATE if it has no pin."""
        library().cushim_arena_unpin(self.arena._handle, self.address)


def _give_back(arena: "Arena", address: int, n_bytes: int, epoch: List[int]) -> None:
    library().cushim_arena_free(arena._handle, -1, address, n_bytes, epoch[0])


_blocks: "Dict[int, weakref.WeakSet[ArenaMemory]]" = {}  # by arena: those that a reset asks about


class Arena(Handle):
    """An arena of one to four regions, of capacity_bytes each; None: what CUSHIM_ARENA says.

    context, device: where it is.  managed: of ArenaManagedMode.  base: the caller's memory for all regions.  fallback: a pool that serves what
    the arena cannot.  stream: for Stream.OWN and ArenaFlag.REUSE; None: the default, Stream.ALL.  flags: bits of ArenaFlag, beside those of
    CUSHIM_ARENA_POISON.
    """

    _ends_by = "cushim_arena_destroy"

    def __init__(self, capacity_bytes: Optional[int] = None, *, context: Optional[Context] = None, device: DeviceLike = None,
                 managed: Optional[ArenaManagedMode] = None, base: Optional[Memory] = None, fallback: Optional[Pool] = None, stream: Optional[Stream] = None,
                 regions: int = 1, flags: int = 0) -> None:
        options = _api.cushim_arena_options()
        library().cushim_arena_options_default(ctypes.byref(options))
        options.ctx, options.device = number_of(context), ordinal_of(device)
        options.flags |= flags
        put(options, regions=regions, capacity_bytes=capacity_bytes, managed=managed)
        if base is not None:
            if len(base) < options.capacity_bytes * regions:
                raise ValueError(f"{regions} regions of {options.capacity_bytes} bytes do not fit into {len(base)}")
            options.base = base.address
        if stream is not None:
            options.stream = stream._handle
        if fallback is not None:
            options.fallback = fallback._handle
        super().__init__(ask_created("cushim_arena_create", options), kept(context), base, fallback, stream)
        weakref.finalize(self, _blocks.pop, self._handle, None)

    def alloc(self, n_bytes: int, stream: Optional[Stream] = None, *, kind: int = MemoryKind.DEVICE, device: DeviceLike = None) -> ArenaMemory:
        """A block that is valid until the next reset, for first use on a stream; None: the legacy one.  MemoryError if it is full."""
        address, epoch = ask_two(c_uint64, c_uint64, "cushim_arena_alloc", self._handle, ordinal_of(device), kind, size(n_bytes), stream_number(stream))
        host = address if kind != MemoryKind.DEVICE or self.managed else None
        block = ArenaMemory(self, address, n_bytes, epoch, host, kind == MemoryKind.PINNED, stream)
        _blocks.setdefault(self._handle, weakref.WeakSet()).add(block)
        return block

    def reset(self, stream: Optional[Stream] = None) -> None:
        """Begin the next epoch: memory is used again behind the work of this stream; None: the legacy one, Stream.ALL: any."""
        library().cushim_arena_reset(self._handle, stream_number(stream))
        epoch = self.epoch
        for block in list(_blocks.get(self._handle, ())):
            if block.epoch == epoch - 1 and not block.freed and self._has(block):
                block._epoch[0] = epoch
            else:
                _blocks[self._handle].discard(block)

    def _has(self, block: ArenaMemory) -> bool:
        """Has it outlived the reset, pinned or below the floor?  A region takes a pin of live blocks alone."""
        try:
            library().cushim_arena_pin(self._handle, block._address)
        except Error:
            return False
        library().cushim_arena_unpin(self._handle, block._address)
        return True

    epoch: int = asked(int, c_uint64, "cushim_arena_epoch", "From 1, one more with each reset.")

    @property
    def floor(self) -> int:
        """Bytes of the current region that resets leave alone; rounded up to 256, not above what is used."""
        return int(ask(c_size_t, "cushim_arena_floor", self._handle))

    @floor.setter
    def floor(self, n_bytes: int) -> None:
        tell("cushim_arena_set_floor", self._handle, n_bytes)

    used_bytes: int = asked(int, c_size_t, "cushim_arena_used", "Of the current region.")
    capacity_bytes: int = asked(int, c_size_t, "cushim_arena_capacity", "Of each region; 0 after drain().")
    pinned_bytes: int = asked(int, c_size_t, "cushim_arena_pinned", "By pin(), each block once, and by graphs.")
    managed: bool = asked(bool, c_int, "cushim_arena_managed", "Is its memory managed?")

    def stats(self) -> ArenaStats:
        return filled(ArenaStats, "cushim_arena_stats", self._handle)

    def drain(self) -> None:
        """Give the memory of the regions back, and drain the fallback.  LogicError with STATE if something is pinned."""
        library().cushim_arena_drain(self._handle)

    def set_default(self) -> None:
        """Make it what default() gives; nothing of the library uses it by itself."""
        library().cushim_arena_set_default(self._handle)

    @classmethod
    def default(cls) -> "Optional[Arena]":
        """The arena that set_default() named, as long as that lives."""
        return cls._borrowed(ask(c_void_p, "cushim_arena_default"))

