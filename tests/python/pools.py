"""Pools, and allocators of frameworks that they serve."""
import gc
import weakref

from expect import dropped, raises

import cushim
import tap
from cushim import GraphMemory, MemoryKind, Pool, PoolPolicy, PoolState, Status, Stream


@tap.test
def a_block_serves_again_in_the_order_of_its_stream():
    pool, stream, other = Pool(), Stream(), Stream()
    block = pool.alloc(1600, stream)
    block.fill(9, stream=stream)
    address = block.address
    block.free()
    again = pool.alloc(1600, stream)
    assert again.address == address and again.stream is stream and again.pool is pool
    again.stream = other
    del again
    gc.collect()
    assert pool.alloc(1600, other).address == address
    block = pool.alloc(1600, stream)
    block.free(Stream.ALL)
    stats = pool.stats()
    assert (stats.hits, stats.frees, stats.refused) == (2 + (stats.hits - 2), stats.frees, 0) and stats.hits >= 2 and stats.held_bytes > 0


@tap.test
def a_block_outlives_its_stream_and_its_pool_outlives_it():
    pool = Pool()
    reference = weakref.ref(pool)
    stream = Stream()
    block = pool.alloc(100, stream)
    stream.close()
    del pool
    assert not dropped(reference)
    block.write(b"there")
    assert block.read(5) == b"there"
    del block
    assert dropped(reference)


@tap.test
def kinds_of_memory_come_from_one_pool():
    pool = Pool()
    pinned, managed, device = pool.alloc(100, kind=MemoryKind.PINNED), pool.alloc(100, kind=MemoryKind.MANAGED), pool.alloc(100, device=1)
    pinned.buffer[:5] = b"there"
    managed.write(pinned)
    stream = Stream()
    managed.write(pinned, stream=stream)
    stream.synchronize()
    assert bytes(managed.buffer[:5]) == b"there" == pinned.read(5) and device.info().device == 1
    assert pool.stats(kind=MemoryKind.PINNED).live_blocks == 1 == pool.stats(1).live_blocks and pool.stats().live_blocks == 3
    seen = {block.address: block for block in pool.blocks() if block.state == PoolState.LIVE}
    assert set(seen) == {pinned.address, managed.address, device.address}
    assert seen[managed.address].kind == MemoryKind.MANAGED and seen[device.address].asked_bytes == 100 and seen[device.address].device == 1
    with raises(TypeError):
        device.buffer


@tap.test
def wrong_frees_are_refused():
    pool = Pool()
    block = pool.alloc(100)
    address = block.address
    block.free()
    with raises(cushim.LogicError, Status.DOUBLEFREE):
        block.free()
    with raises(cushim.LogicError, Status.DOUBLEFREE):
        pool.free(address)
    with raises(cushim.LogicError, Status.UNKNOWNPTR):
        pool.free(12345)
    assert pool.stats().refused == 2 and not pool.owns(address)
    pool.reset_stats()
    assert pool.stats().refused == 0
    raw = pool.allocate(100)
    assert pool.owns(raw) and not pool.owns(raw + 1) and pool.allocate(0) == 0
    pool.free(raw)
    with raises(cushim.LogicError, Status.STATE):
        block.read()


@tap.test
def memory_is_bounded_and_goes_back():
    pool = Pool(policy=PoolPolicy.POW2, cap_live_bytes=1 << 20, keep_bytes=0)
    assert pool.bucket(1000) == 1024 and Pool(policy=PoolPolicy.EXACT).bucket(1000) == 1000 and Pool(steps=16, dedicated=True, poll_us=0).bucket(1000) >= 1000
    with raises(cushim.MemoryError, Status.LIMIT):
        pool.alloc(2 << 20)
    block = pool.alloc(1 << 20)
    with raises(cushim.MemoryError, Status.LIMIT):
        pool.alloc(1)
    block.free()
    cushim.synchronize()
    pool.trim(keep_bytes=0, device=0)
    pool.drain()
    assert pool.stats().held_bytes == 0 == pool.stats().cached_blocks
    pool.hold(False)
    pool.alloc(1000).free()
    assert pool.stats().cached_blocks == 0
    pool.hold()
    with raises(cushim.LogicError, Status.INVALID):
        Pool(steps=7)
    with raises(cushim.LogicError, Status.BADDEVICE):
        pool.alloc(100, device=7)


@tap.test
def a_function_is_asked_when_memory_is_out():
    pool, asked = Pool(), []
    held = [cushim.DeviceMemory(600 << 20)]

    def give(n_bytes):
        asked.append(n_bytes)
        return bool(held and [held.pop()])

    pool.set_default()
    Pool.default().on_out_of_memory(give)
    gc.collect()
    block = pool.alloc(700 << 20)
    assert asked == [700 << 20] and not held and len(block) == 700 << 20
    pool.on_out_of_memory(None)
    with raises(cushim.MemoryError, Status.NOMEM):
        pool.alloc(900 << 20)
    assert len(asked) == 1
    pool.close()


@tap.test
def a_pool_is_attached_to_a_capture_of_others():
    pool, stream = Pool(), Stream()
    pool.freeze(stream, GraphMemory.HOLD)
    assert pool.frozen() == 1
    with raises(cushim.LogicError, Status.STATE):
        pool.freeze(stream)
    graph = pool.unfreeze(stream)
    assert pool.frozen() == 0
    graph.close()
    with raises(cushim.LogicError, Status.STATE):
        pool.unfreeze(stream)


@tap.test
def a_process_has_a_default_pool_if_one_is_set():
    assert Pool.default() is None
    pool = Pool()
    pool.set_default()
    assert Pool.default().alloc(100).pool is not pool and pool.stats().misses == 1
    pool.close()
    assert Pool.default() is None
    with raises(cushim.LogicError, Status.BADHANDLE):
        pool.alloc(1)


@tap.test
def a_pool_of_a_context_has_no_other():
    with cushim.Device(1).make_context() as context:
        pool = Pool(context)
        assert pool.alloc(100).info().device == 1
        with raises(cushim.LogicError, Status.BADDEVICE):
            pool.alloc(100, device=0)


tap.run()
