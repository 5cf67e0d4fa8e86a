"""Memory of all kinds, fills, and copies between any two places."""
import array
import subprocess
import sys
import weakref

from expect import dropped, numpy, raises

import cushim
import tap
from cushim import AttachFlag, DeviceMemory, HostFlag, ManagedMemory, MemoryKind, PinnedMemory, Place, Status, Stream

WORDS = bytes(range(256))


@tap.test
def device_memory_is_an_address_with_a_length():
    block = DeviceMemory(1000)
    assert int(block) == block.address and block.address % 256 == 0 and len(block) == block.n_bytes == 1000 and bool(DeviceMemory(0)) and block.shape == (1000,)
    info = block.info()
    assert (info.start, info.n_bytes, info.kind, info.device, info.owner) == (block.address, 1000, MemoryKind.DEVICE, 0, cushim.MemoryOwner.CALLER)
    assert block.range()[0] == block.address and block.range()[1] >= 1000
    assert cushim.memory_info(block.address + 5).start == block.address == cushim.address_range(block.address + 5)[0]
    assert "1000 bytes" in repr(block)
    block.free()


@tap.test
def what_is_freed_is_not_used_again():
    block = DeviceMemory(100)
    part = block.view(10)
    with raises(cushim.LogicError, Status.STATE):
        part.free()
    block.free()
    assert block.freed
    for use in lambda: block.address, lambda: part.address, lambda: block.read(), lambda: int(part), lambda: block.fill(1), lambda: block.__cuda_array_interface__:
        with raises(cushim.LogicError, Status.STATE):
            use()
    with raises(cushim.LogicError, Status.DOUBLEFREE):
        block.free()
    with raises(cushim.LogicError):
        cushim.memory_info(0x10)


@tap.test
def memory_goes_back_when_python_drops_it_or_a_with_statement_ends():
    before = cushim.mem_get_info()[0]
    block = DeviceMemory(64 << 20)
    view, reference = block.view(5).view(5), weakref.ref(block)
    del block
    assert not dropped(reference) and cushim.mem_get_info()[0] <= before - (64 << 20)
    del view
    assert dropped(reference) and cushim.mem_get_info()[0] == before
    with DeviceMemory(64 << 20) as block:
        pass
    assert block.freed and cushim.mem_get_info()[0] == before <= cushim.mem_get_info()[1] and cushim.reusable_bytes() >= 0


@tap.test
def too_much_is_a_memory_error():
    for kind in DeviceMemory, ManagedMemory, PinnedMemory, cushim.AsyncMemory, cushim.mem_alloc:
        with raises(MemoryError):
            kind(10**15)
    with raises(cushim.MemoryError, Status.NOMEM):
        cushim.PitchedMemory(1 << 30, 1 << 20)
    for n_bytes in (1 << 64) + 8, -(1 << 64) + 8:  # of which the lower bits say 8
        for kind in DeviceMemory, ManagedMemory, PinnedMemory, cushim.AsyncMemory, cushim.Pool().alloc, cushim.Arena(1 << 20).alloc:
            with raises(cushim.Error):
                kind(n_bytes)


def host_buffers():
    yield from (WORDS, bytearray(WORDS), memoryview(WORDS), array.array("B", WORDS), memoryview(WORDS * 2)[256:])
    if numpy():
        yield numpy().frombuffer(WORDS, dtype="u1").reshape(16, 16)


@tap.test
def every_buffer_of_the_host_is_a_side_of_a_copy():
    block = DeviceMemory(512)
    for data in host_buffers():
        block.fill(0)
        block.write(data, offset=100)
        assert block.read(256, offset=100) == WORDS and block.read(100) == bytes(100) and block.read(offset=500) == bytes(12)
    floats = array.array("f", range(64))
    block.write(floats)
    back = array.array("f", bytes(256))
    block.read_into(back)
    assert back == floats
    kinds = [bytearray(256), array.array("I", bytes(256)), memoryview(bytearray(256)).cast("H")] + ([numpy().zeros(64, "f4")] if numpy() else [])
    for data in kinds:
        cushim.memcpy_dtoh(data, block)
        assert bytes(memoryview(data).cast("B")) == floats.tobytes()
    cushim.memcpy_htod(block.address, floats)
    other = DeviceMemory(256)
    cushim.memcpy_dtod(other, block, 256)
    cushim.memcpy_dtod(int(other), int(block), 256)
    assert other.read() == floats.tobytes()
    cushim.copy(block, WORDS, 10, dst_offset=5, src_offset=20)
    assert block.read(10, offset=5) == WORDS[20:30]
    cushim.copy(other, block, 8, dst_offset=16, src_offset=8)
    assert other.read(8, offset=16) == block.read(8, offset=8)


@tap.test
def a_copy_that_cannot_be_is_refused_before_anything_is_written():
    block = DeviceMemory(8)
    block.fill(1)
    with raises(ValueError):
        block.write(b"nine bytes")
    for call in (lambda: block.write(b"abc", offset=6), lambda: block.write(b"abc", offset=-1), lambda: block.read(9), lambda: block.read(1, offset=9),
                 lambda: block.read_into(bytearray(9)), lambda: cushim.copy(block.address, block.address), lambda: cushim.copy(block, b"abc", -1),
                 lambda: block.fill(256), lambda: block.fill(0, width=3), lambda: block.view(4, 5), lambda: block.view(shape=(3,), typestr="<f4"),
                 lambda: block.view(1, typestr="<f4")):
        with raises(ValueError):
            call()
    for call in lambda: block.write("text"), lambda: block.write(None), lambda: cushim.fill(b"abc", 1), lambda: block.buffer:
        with raises(TypeError):
            call()
    for call in lambda: block.read_into(b"12345678"), lambda: block.write(memoryview(bytes(8))[::2]):
        with raises(BufferError):
            call()
    with raises(cushim.LogicError, Status.INVALID):
        cushim.copy(block.address, bytes(9))
    assert block.read() == b"\1" * 8


@tap.test
def in_the_order_of_a_stream_host_memory_is_pinned():
    block, stream = DeviceMemory(256), Stream()
    for data in WORDS, bytearray(256):
        with raises(ValueError):
            block.write(data, stream=stream)
    with raises(ValueError):
        block.read_into(bytearray(256), stream=stream)
    there, back, plain = PinnedMemory(256), PinnedMemory(256, HostFlag.PORTABLE), bytearray(256)
    there.buffer[:] = WORDS
    block.write(there, stream=stream)
    block.read_into(back, stream=stream)
    with cushim.RegisteredMemory(plain) as registered:
        block.read_into(registered, stream=stream)
        block.read_into(memoryview(plain)[:100], stream=stream)
        stream.synchronize()
    assert bytes(back.buffer) == WORDS == bytes(plain)
    with raises(ValueError):
        block.read_into(plain, stream=stream)
    back.buffer[:] = bytes(256)
    block.write(there.buffer[:128], offset=128, stream=stream)
    cushim.memcpy_dtoh_async(back, block, stream)
    cushim.memcpy_htod_async(block, there, stream)
    other = DeviceMemory(256)
    cushim.memcpy_dtod_async(other, block, 256, stream)
    cushim.memcpy_dtoh_async(back.view(0, 128), other)
    cushim.copy(there, back, stream=stream)
    stream.synchronize()
    cushim.synchronize()
    assert other.read() == WORDS and bytes(there.buffer[128:]) == WORDS[:128]


@tap.test
def pinned_memory_is_a_buffer_and_stays_while_one_is_used():
    block = cushim.mem_host_alloc(100, cushim.host_alloc_flags.DEVICE_MAP)
    assert isinstance(block, cushim.HostAllocation) and len(block) == 100 and block.info().kind == MemoryKind.PINNED
    assert block.device_address() == block.address
    block.buffer[:5] = b"there"
    view, reference = block.buffer, weakref.ref(block)
    assert block.read(5) == b"there" and block.view(1, 3).buffer.tobytes() == b"her"
    block.write(b"H", offset=1)
    del block
    assert not dropped(reference) and bytes(view[:5]) == b"tHere"
    if numpy():
        assert numpy().frombuffer(view, dtype="u1")[0] == ord("t")
    if sys.version_info >= (3, 12):
        assert bytes(memoryview(PinnedMemory(3))) is not None
    del view
    assert dropped(reference)
    with PinnedMemory(8) as block:
        pass
    with raises(cushim.LogicError, Status.STATE):
        block.buffer


@tap.test
def a_registered_buffer_is_pinned_as_long_as_the_object():
    data = bytearray(5000)
    with cushim.RegisteredMemory(data, cushim.RegisterFlag.MAPPED) as block:
        assert len(block) == 5000 and block.info().kind == MemoryKind.REGISTERED and block.device_address()
        with raises(cushim.LogicError, Status.STATE):
            cushim.RegisteredMemory(data)
        block.buffer[7] = 7
    assert data[7] == 7
    with raises(TypeError):
        cushim.RegisteredMemory(b"not to be written")


@tap.test
def managed_memory_is_of_both():
    block, stream = ManagedMemory(1000), Stream()
    block.buffer[:3] = b"abc"
    block.prefetch(0, stream)
    block.fill(7, offset=2, count=5, stream=stream)
    block.prefetch(None, stream)
    stream.synchronize()
    assert bytes(block.buffer[:8]) == b"ab" + b"\7" * 5 + b"\0" and block.info().kind == MemoryKind.MANAGED
    block.attach(AttachFlag.SINGLE, stream)
    block.attach(AttachFlag.GLOBAL)
    with raises(cushim.LogicError, Status.INVALID):
        ManagedMemory(10, 77)


@tap.test
def rows_are_padded_filled_and_copied():
    block = cushim.PitchedMemory(12, 4)
    assert block.pitch_bytes >= 12 and len(block) == 4 * block.pitch_bytes and (block.width_bytes, block.rows) == (12, 4)
    block.fill(9)
    data, back = bytes(range(48)), bytearray(48)
    cushim.copy_2d(Place(block, block.pitch_bytes), data, 12, 4)
    cushim.copy_2d(back, Place(block, block.pitch_bytes), 12, 4)
    assert back == data and block.read(12, offset=block.pitch_bytes) == data[12:24] and block.read(1, offset=12) == b"\t"
    part = bytearray(6)
    cushim.copy_2d(part, Place(block, block.pitch_bytes, x_bytes=3, y=2), 3, 2)
    assert part == data[27:30] + data[39:42]
    cushim.fill_2d(block, 0x0102, width=2, rows=4, row_words=3, pitch_bytes=block.pitch_bytes)
    assert block.read(8) == b"\2\1" * 3 + data[6:8]
    with raises(ValueError):
        cushim.copy_2d(bytearray(47), Place(block, block.pitch_bytes), 12, 4)
    with raises(ValueError):
        cushim.copy_2d(bytearray(48), Place(block, block.pitch_bytes), 12, 4, stream=Stream())
    with raises(cushim.LogicError, Status.INVALID):
        cushim.copy_2d(Place(block, block.pitch_bytes), bytes(60), 12, 5)


@tap.test
def boxes_are_copied():
    box, data, back = DeviceMemory(4 * 3 * 2), bytes(range(24)), bytearray(4)
    cushim.copy_3d(box, data, 4, 3, 2)
    cushim.copy_3d(back, Place(box, pitch_bytes=4, height=3, x_bytes=1, y=1, z=0), 2, 1, 2)
    assert back == data[5:7] + data[17:19]
    pinned, stream = PinnedMemory(24), Stream()
    cushim.copy_3d(pinned, box, 4, 3, 2, stream=stream)
    stream.synchronize()
    assert bytes(pinned.buffer) == data


@tap.test
def words_of_three_sizes_are_filled():
    block, stream = DeviceMemory(16), Stream()
    for width, value in (1, 0x11), (2, 0x2211), (4, 0x44332211):
        for order in None, stream:
            block.fill(0)
            block.fill(value, width=width, offset=4, count=2, stream=order)
            cushim.synchronize()
            assert block.read() == bytes(4) + 2 * value.to_bytes(width, "little") + bytes(12 - 2 * width)
    cushim.fill(block.address, 255, count=16)
    assert block.read() == b"\xff" * 16
    with raises(ValueError):
        cushim.fill(block.address, 1)
    with raises(cushim.LogicError, Status.INVALID):
        block.fill(1, width=4, offset=2, count=1)


@tap.test
def two_devices_copy_to_each_other():
    with cushim.Device(1).retain_primary_context() as second:
        there = DeviceMemory(256)
        second.pop()
        with cushim.Device(0).retain_primary_context() as first:
            here, stream = DeviceMemory(256), Stream()
            here.write(WORDS)
            with raises(cushim.LogicError, Status.BADDEVICE):
                cushim.copy(there, here)
            cushim.copy_peer(there, here)
            assert there.read() == WORDS and there.info().device == 1
            here.fill(0)
            cushim.copy_peer(here, there, 100, dst_context=first, src_context=second, stream=stream)
            stream.synchronize()
            assert here.read(100) == WORDS[:100]
            first.synchronize()


@tap.test
def a_stream_allocates_and_frees_in_its_order():
    stream = Stream()
    block = cushim.AsyncMemory(1000, stream)
    block.fill(3, stream=stream)
    stream.synchronize()
    assert block.read(2) == b"\3\3" and block.info().kind == MemoryKind.ASYNC
    block.free()
    with cushim.AsyncMemory(1000):
        pass
    cushim.async_threshold(1 << 20)
    cushim.async_trim()


CHILD = """
import cushim, sys
with cushim.IpcMemory(bytes.fromhex(sys.argv[1])) as block:
    print(block.read(5).decode(), len(block) >= 100, block.info().kind.name)
"""


@tap.test
def another_process_opens_device_memory():
    block = DeviceMemory(100)
    block.write(b"there")
    cushim.synchronize()
    done = subprocess.run([sys.executable, "-c", CHILD, block.ipc_handle().hex()], text=True, capture_output=True)
    assert done.stdout == "there True IPC\n", done.stderr
    with raises(ValueError):
        cushim.IpcMemory(b"short")
    with raises(cushim.Error):
        PinnedMemory(10).ipc_handle()


@tap.test
def memory_of_others_is_adopted():
    cushim.Device(0).set()
    library = cushim._library.library()
    import ctypes
    get, address = ctypes.c_void_p(), ctypes.c_uint64()
    library.cushim_symbol(b"cuMemAlloc_v2", ctypes.byref(get))
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(get.value)(ctypes.addressof(address), 4096) == 0
    with cushim.adopt(address.value, 4096) as block:
        block.write(b"x" * 4096)
        assert block.info().kind == MemoryKind.ADOPTED and cushim.Context.current().get_device().ordinal == 0
        with raises(cushim.LogicError, Status.INVALID):
            cushim.copy(address.value, b"x" * 4097)


@tap.test
def mapped_memory_is_written_by_the_host():
    try:
        mapper = cushim.Mapper(device=0)
    except cushim.LogicError as error:
        assert error.status == Status.NOTSUPPORTED and error.text
        tap.skip(error.text)
    with mapper:
        free, total = mapper.budget()
        assert 0 < free <= total
        block = mapper.alloc(1000)
    block.buffer[:5] = b"there"
    block.flush()
    assert block.read(5) == b"there" and (block.is_coherent, block.atom_bytes) == (True, 1) and block.info().kind == MemoryKind.MAPPED
    block.fill(1, count=2)
    cushim.synchronize()
    block.invalidate()
    assert bytes(block.buffer[:5]) == b"\1\1ere"
    with raises(cushim.LogicError, Status.INVALID):
        block.flush(0, 2000)
    block.free()
    with raises(cushim.LogicError, Status.INVALID):
        cushim.Mapper(flags=64)
    slab = cushim.MappedMemory(cushim.Mapper(), 100, cushim.MappedFlag.SLAB)
    with raises(cushim.LogicError, Status.STATE):
        slab.export()


tap.run()
