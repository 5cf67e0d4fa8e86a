"""Memory of all kinds, and copies from and to whatever has bytes.

    python3 memory.py

It prints:

    bytes, an array, a part of it: b'hello' [0.0, 1.0, 2.0] [1.0, 2.0]
    a stream needs pinned memory: ValueError
    through pinned memory: b'hello'
    rows without their padding: b'abcdef'
    managed, as the host sees it: b'hello'
    too much: MemoryError CUSHIM_NOMEM
"""
import array

import cushim

block = cushim.DeviceMemory(1024)  # goes back when Python drops it, or by block.free()
block.write(b"hello", offset=100)
floats = array.array("f", range(64))
block.write(floats)
part = array.array("f", bytes(8))
block.read_into(part, offset=4)
block.write(b"hello", offset=512)
print("bytes, an array, a part of it:", block.read(5, offset=512), array.array("f", block.read(12)).tolist(), part.tolist())

stream, pinned = cushim.Stream(), cushim.PinnedMemory(1024)
try:
    block.write(b"hello", stream=stream)
except ValueError as error:
    print("a stream needs pinned memory:", type(error).__name__)
pinned.buffer[:5] = b"hello"  # a memoryview: numpy.frombuffer(pinned.buffer, dtype) is an array of it
block.write(pinned, stream=stream)
stream.synchronize()
print("through pinned memory:", block.read(5))

rows = cushim.PitchedMemory(3, 2)
cushim.copy_2d(cushim.Place(rows, rows.pitch_bytes), b"abcdef", 3, 2)
back = bytearray(6)
cushim.copy_2d(back, cushim.Place(rows, rows.pitch_bytes), 3, 2)
print("rows without their padding:", bytes(back))

managed = cushim.ManagedMemory(1024)
cushim.copy(managed, block, 5)
print("managed, as the host sees it:", bytes(managed.buffer[:5]))

try:
    cushim.DeviceMemory(10**15)
except MemoryError as error:  # Python's own, and cushim's
    print("too much:", type(error).__name__, error.args[0])
