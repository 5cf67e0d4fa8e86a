"""Pools and arenas: memory without a driver call.

    python3 pools.py

It prints:

    the next block of that size on the stream is the same: True
    hits 1, misses 1
    pinned, from the same pool: b'hello'
    a second free: CUSHIM_DOUBLEFREE
    an arena after its reset: CUSHIM_STALE
    a pinned block outlives it: b'kept'
"""
import cushim

stream, pool = cushim.Stream(), cushim.Pool(keep_bytes=64 << 20)
block = pool.alloc(1600, stream)
block.fill(1, stream=stream)
address = block.address
block.free()  # behind the work of its stream; the host does not wait
again = pool.alloc(1600, stream)
print("the next block of that size on the stream is the same:", again.address == address)
stats = pool.stats()
print(f"hits {stats.hits}, misses {stats.misses}")

pinned = pool.alloc(1024, kind=cushim.MemoryKind.PINNED)
pinned.buffer[:5] = b"hello"
print("pinned, from the same pool:", pinned.read(5))

again.free()
try:
    pool.free(address, stream)
except cushim.LogicError as error:
    print("a second free:", error.args[0])

arena = cushim.Arena(1 << 20, fallback=pool)
kept, gone = arena.alloc(1000), arena.alloc(1000)
kept.write(b"kept")
kept.pin()
arena.reset()  # the next pass begins; work of the legacy stream is ordered before
try:
    gone.read()
except cushim.LogicError as error:
    print("an arena after its reset:", error.args[0])
print("a pinned block outlives it:", kept.read(4))
kept.unpin()
