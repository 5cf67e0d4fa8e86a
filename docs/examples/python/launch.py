"""A kernel from a file, launched in three ways.

    python3 launch.py [kernels.ptx]

It prints:

    with ctypes numbers: [0.0, 2.0, 4.0, 6.0]
    prepared, with Python's: [0.0, 4.0, 8.0, 12.0]
    a host buffer, staged: [0.0, 3.0, 6.0, 9.0]
    two arguments for three: CUSHIM_INVALID
"""
import array
import ctypes
import pathlib
import sys

import cushim

path = sys.argv[1] if sys.argv[1:] else pathlib.Path(__file__).parents[1] / "kernels.ptx"
scale = cushim.Module.from_file(path).get_function("scale")  # scale(float *data, float factor, unsigned n)


def floats(block):
    return array.array("f", block.read()).tolist()


block = cushim.DeviceMemory(16)
block.write(array.array("f", range(4)))
scale(block, ctypes.c_float(2), ctypes.c_uint(4), grid=1, block=32)
print("with ctypes numbers:", floats(block))

prepared = scale.prepare("PfI")  # letters as in Python's struct
prepared(block, 2.0, 4, block=32)
print("prepared, with Python's:", floats(block))

data = array.array("f", range(4))
scale(cushim.InOut(data), ctypes.c_float(3), ctypes.c_uint(4), block=32)  # there and back, and waits
print("a host buffer, staged:", data.tolist())

try:
    scale(block, ctypes.c_float(2))
except cushim.LogicError as error:
    print("two arguments for three:", error.args[0])
