"""Arenas, their epochs, and blocks of an epoch that is over."""
import gc

from expect import raises

import cushim
import tap
from cushim import Arena, ArenaFlag, ArenaManagedMode, DeviceMemory, MemoryKind, Pool, Status, Stream


@tap.test
def a_block_of_a_reset_arena_raises():
    arena, stream = Arena(1 << 20), Stream()
    first, second = arena.alloc(1000, stream), arena.alloc(1000)
    first.write(b"there")
    part = first.view(1, 4)
    assert first.read(5) == b"there" and second.address - first.address == 1024 and first.epoch == arena.epoch == 1 and first.arena is arena
    arena.reset(Stream.ALL)
    assert arena.epoch == 2 and first.epoch == 1
    for use in (first.read, lambda: first.write(b"x"), lambda: first.address, lambda: part.read(1), lambda: second.fill(1), first.__dlpack__,
                lambda: cushim.copy(first, second), lambda: int(first), lambda: first.__cuda_array_interface__):
        with raises(cushim.LogicError, Status.STALE):
            use()
    again = arena.alloc(1000, stream)
    again.write(b"other")
    with raises(cushim.LogicError, Status.STALE):
        first.read()
    with raises(cushim.LogicError, Status.STALE):
        first.free()
    del first, part
    assert again.read(5) == b"other" and arena.stats().stale >= 1


@tap.test
def pins_and_floors_outlive_resets():
    arena = Arena(1 << 20)
    below = arena.alloc(1000)
    arena.floor = arena.used_bytes
    pinned, gone = arena.alloc(1000), arena.alloc(1000)
    pinned.pin()
    pinned.write(b"there")
    assert arena.floor == 1024 and arena.pinned_bytes == 1024
    with raises(cushim.LogicError, Status.INVALID):
        arena.floor = 1 << 19
    for epoch in 2, 3:
        arena.reset()
        assert below.epoch == pinned.epoch == arena.epoch == epoch and gone.epoch == 1 and pinned.read(5) == b"there"
        with raises(cushim.LogicError, Status.STALE):
            gone.read()
    with raises(cushim.LogicError, Status.STATE):
        arena.drain()
    pinned.unpin()
    with raises(cushim.LogicError, Status.STATE):
        pinned.unpin()
    arena.reset()
    with raises(cushim.LogicError, Status.STALE):
        pinned.read()
    below.free()
    assert arena.pinned_bytes == 0 and arena.stats().refused == 0


@tap.test
def a_full_arena_is_a_memory_error_or_its_fallback():
    with raises(MemoryError):
        Arena(1 << 20).alloc(2 << 20)
    with raises(cushim.MemoryError, Status.LIMIT):
        Arena(1 << 20).alloc(2 << 20)
    pool = Pool()
    arena = Arena(1 << 20, fallback=pool, flags=ArenaFlag.RESET_FALLBACK)
    block = arena.alloc(2 << 20)
    pinned = arena.alloc(10, kind=MemoryKind.PINNED)
    pinned.buffer[0] = 1
    assert pool.owns(block.address) and arena.stats().fallback_blocks == 2 and arena.stats().misses == 2
    arena.reset()
    assert arena.stats().fallback_blocks == 0
    with raises(cushim.LogicError, Status.STALE):
        block.read()


@tap.test
def an_arena_has_options_and_statistics():
    stream, base = Stream(), DeviceMemory(4 * 4096)
    with Arena(4096, regions=4, base=base, stream=stream, flags=ArenaFlag.REUSE) as arena:
        addresses = set()
        for i in range(8):
            block = arena.alloc(4096, stream)
            addresses.add(block.address)
            arena.reset(Stream.OWN)
        assert addresses == {base.address + i * 4096 for i in range(4)} and arena.capacity_bytes == 4096 and not arena.managed
        block = arena.alloc(512, stream)
        address = block.address
        block.free()
        assert arena.alloc(512, stream).address == address
        stats = arena.stats()
        assert (stats.hits, stats.resets, stats.reuses, stats.peak_bytes) == (10, 8, 1, 4096) and stats.used_bytes == arena.used_bytes == 512
    with raises(cushim.LogicError, Status.BADHANDLE):
        arena.reset()
    with raises(ValueError):
        Arena(8192, regions=4, base=base)
    with raises(cushim.LogicError, Status.INVALID):
        Arena(0)
    with raises(cushim.LogicError, Status.INVALID):
        Arena(4096, flags=ArenaFlag.UNFENCED)


@tap.test
def managed_regions_are_of_both():
    arena = Arena(1 << 20, managed=ArenaManagedMode.ALWAYS, device=0)
    block = arena.alloc(100)
    cushim.synchronize()
    block.buffer[:5] = b"there"
    assert arena.managed and block.read(5) == b"there"
    arena.reset()
    with raises(cushim.LogicError, Status.STALE):
        block.buffer
    arena.drain()
    assert arena.capacity_bytes == 0
    with raises(cushim.LogicError):
        Arena(4096, device=9)


@tap.test
def a_process_has_a_default_arena_if_one_is_set():
    assert Arena.default() is None
    arena = Arena(1 << 20)
    arena.set_default()
    kept, block = arena.alloc(100), Arena.default().alloc(100)
    kept.pin()
    Arena.default().reset()
    assert kept.epoch == 2
    with raises(cushim.LogicError, Status.STALE):
        block.read()
    kept.unpin()
    arena.close()
    assert Arena.default() is None
    del arena, block, kept
    gc.collect()
    assert not cushim._arena._blocks


tap.run()
