"""A pool from Python, with only ctypes: no C compiler and no other package.

    python3 ctypes_pool.py [libcushim.so.0]

Every argument of the library is an integer or a pointer, so a binding is a list of names. The class
of a failure decides the type of the exception; a buffer goes back to the pool when Python drops it.
It prints:

    400 floats there and back
    the next buffer of that size is the same block: hits 1, misses 1
    MemoryError: CUSHIM_NOMEM
    ValueError: CUSHIM_DOUBLEFREE
"""
import array
import ctypes
import sys
import weakref
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p

OK, DOUBLEFREE = 0, -11
MEMORY = 1  # a class
STREAM_ALL = 3
ALL = -1  # of enum cushim_memory_kind

cushim = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libcushim.so.0")
cushim.cushim_last_error.restype = c_char_p
cushim.cushim_status_name.restype = c_char_p
cushim.cushim_memory_alloc.argtypes = [c_void_p, c_size_t, POINTER(c_uint64)]
cushim.cushim_memory_h2d.argtypes = [c_uint64, c_void_p, c_size_t]
cushim.cushim_memory_d2h.argtypes = [c_void_p, c_uint64, c_size_t]
cushim.cushim_pool_create.argtypes = [c_void_p, POINTER(c_void_p)]
cushim.cushim_pool_alloc_on.argtypes = [c_void_p, c_size_t, c_void_p, POINTER(c_uint64)]
cushim.cushim_pool_free_on.argtypes = [c_void_p, c_uint64, c_void_p]
cushim.cushim_pool_destroy.argtypes = [c_void_p]


class PoolStats(Structure):
    """The first fields of struct cushim_pool_stats; struct_size tells the library how many."""
    _fields_ = [("struct_size", c_size_t), ("hits", c_uint64), ("misses", c_uint64)]


cushim.cushim_pool_stats.argtypes = [c_void_p, c_int, c_int, POINTER(PoolStats)]


def check(status):
    if status != OK:
        kind = MemoryError if cushim.cushim_status_class(status) & MEMORY else ValueError
        raise kind(cushim.cushim_status_name(status).decode(), cushim.cushim_last_error().decode())


class Pool:
    def __init__(self):
        handle = c_void_p()
        check(cushim.cushim_pool_create(None, byref(handle)))
        self.handle = handle.value

    def buffer(self, n_bytes):
        return Buffer(self, n_bytes)

    def stats(self):
        stats = PoolStats(struct_size=ctypes.sizeof(PoolStats))
        check(cushim.cushim_pool_stats(self.handle, -1, ALL, byref(stats)))
        return stats


class Buffer:
    """A block of device memory.  The free names all streams, so it may be dropped at any time."""

    def __init__(self, pool, n_bytes):
        p = c_uint64()
        check(cushim.cushim_pool_alloc_on(pool.handle, n_bytes, STREAM_ALL, byref(p)))
        self.address, self.n_bytes = p.value, n_bytes
        self.free = weakref.finalize(self, cushim.cushim_pool_free_on, pool.handle, p.value, STREAM_ALL)

    def write(self, data):
        check(cushim.cushim_memory_h2d(self.address, data.buffer_info()[0], self.n_bytes))

    def read(self, data):
        check(cushim.cushim_memory_d2h(data.buffer_info()[0], self.address, self.n_bytes))


def main():
    pool = Pool()
    there, back = array.array("f", range(400)), array.array("f", bytes(1600))
    buffer = pool.buffer(1600)
    buffer.write(there)
    buffer.read(back)
    assert there == back
    print("400 floats there and back")

    address = buffer.address
    del buffer
    check(cushim.cushim_context_synchronize(None))
    again = pool.buffer(1600)
    stats = pool.stats()
    assert again.address == address and (stats.hits, stats.misses) == (1, 1)
    print(f"the next buffer of that size is the same block: hits {stats.hits}, misses {stats.misses}")

    try:
        check(cushim.cushim_memory_alloc(None, 10**15, byref(c_uint64())))
    except MemoryError as error:
        assert "asked=1000000000000000" in error.args[1]
        print(f"MemoryError: {error.args[0]}")

    assert again.free() == OK
    try:
        check(cushim.cushim_pool_free_on(pool.handle, address, STREAM_ALL))
    except ValueError as error:
        print(f"ValueError: {error.args[0]}")
    check(cushim.cushim_pool_destroy(pool.handle))


main()
