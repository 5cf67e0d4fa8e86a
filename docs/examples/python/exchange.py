"""Memory for CuPy, PyTorch and Numba, and theirs for us.

    python3 exchange.py

torch.from_dlpack(view), cupy.asarray(view) and numba.cuda.as_cuda_array(view) take a view as it is, and cushim.asmemory(array) takes
theirs. None is needed here: the array below is what another package would give.

It prints:

    a view: (2, 3) <f4
    by DLPack: (2, 3) <f4, the same memory: True
    by the CUDA array interface: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
"""
import array

import cushim

block = cushim.DeviceMemory(256)
view = block.view(offset=64, shape=(2, 3), typestr="<f4")  # keeps the block alive
view.write(array.array("f", range(1, 7)))
print("a view:", view.shape, view.typestr)


class Other:
    """An array of another package."""

    def __dlpack_device__(self):
        return view.__dlpack_device__()

    def __dlpack__(self, **more):
        return view.__dlpack__(**more)


taken = cushim.asmemory(Other())  # its stream is ordered before the legacy one
print(f"by DLPack: {taken.shape} {taken.typestr}, the same memory: {taken.address == view.address}")


class Interface:
    __cuda_array_interface__ = view.__cuda_array_interface__


copied = cushim.DeviceMemory(24)
cushim.copy(copied, Interface())  # any such object is a side of a copy, and an argument of a kernel
print("by the CUDA array interface:", array.array("f", copied.read()).tolist())
