"""Modules, functions, launches of each way."""
import array
import ctypes
import struct

from expect import EXAMPLES, numpy, raises

import cushim
import tap
from cushim import DeviceMemory, LinkInput, LinkKind, Module, Status, Stream

PTX = (EXAMPLES / "kernels.ptx").read_bytes()
FLOATS = array.array("f", range(64))
DOUBLED = array.array("f", range(0, 128, 2)).tobytes()
VARIABLE = "cushim software device module\n.global table 128\n"


def scale():
    return Module(PTX).get_function("scale")


def data():
    block = DeviceMemory(256)
    block.write(FLOATS)
    return block


@tap.test
def an_image_is_loaded_from_bytes_text_or_a_file():
    for image in PTX, bytearray(PTX), memoryview(PTX), PTX.decode():
        with Module(image, level=3, lines=True) as module:
            assert module.get_function("sum").name == "sum" and isinstance(module.log, str)
        assert module.closed
    Module.from_file(EXAMPLES / "kernels.ptx").unload()
    with raises(cushim.LogicError, Status.NOTFOUND):
        Module(PTX).get_function("nothing_of_that_name")
    with raises(cushim.RuntimeError, Status.NOFILE):
        Module.from_file("/nonexistent/kernels.ptx")
    for kind in cushim.Error, cushim.LogicError, cushim.CompileError:
        with raises(kind, Status.COMPILE):
            Module(b"no image of any kind")


@tap.test
def images_are_linked():
    with Module.link([LinkInput(PTX, LinkKind.PTX, "kernels")]) as module:
        block = data()
        module.get_function("scale")(block, ctypes.c_float(2), ctypes.c_uint(64), grid=2, block=32)
        assert block.read() == DOUBLED
    with raises(cushim.LogicError):
        Module.link([])


@tap.test
def a_variable_is_memory_of_its_module():
    module = Module(VARIABLE)
    address, n_bytes = module.get_global("table")
    table = module.get_variable("table")
    del module
    assert n_bytes == 128 and table.address == address
    table.write(b"there")
    assert table.read(5) == b"there"
    with raises(cushim.LogicError, Status.NOTFOUND):
        Module(VARIABLE).get_global("other")


@tap.test
def a_function_is_launched_with_arguments_of_each_kind():
    class Scalar:  # as NumPy's
        def __init__(self, letter, number):
            self.dtype, self.shape, self.data = letter, (), struct.pack(letter, number)

        def tobytes(self):
            return self.data

    class Foreign:
        def __init__(self, block):
            self.__cuda_array_interface__ = block.__cuda_array_interface__
    block, function, stream = data(), scale(), Stream()
    address = ctypes.c_void_p(block.address)
    for pointer in block, block.view(0, 256), Foreign(block), address:
        for shape in {"grid": 2, "block": 32}, {"grid": (2, 1, 1), "block": (32, 1, 1), "stream": stream}, {"grid": [2], "block": (32, 1), "shared": 16}:
            block.write(FLOATS)
            function(pointer, ctypes.c_float(2), struct.pack("I", 64), **shape)
            cushim.synchronize()
            assert block.read() == DOUBLED
    for scalars in ((Scalar("f", 2), Scalar("I", 64)), *([(numpy().float32(2), numpy().uint32(64))] if numpy() else [])):
        block.write(FLOATS)
        function(block, *scalars, grid=2, block=32)
        assert block.read() == DOUBLED
    block.write(FLOATS)
    function.launch_packed(struct.pack("PfI", block.address, 2, 64), grid=2, block=32)
    assert block.read() == DOUBLED
    assert function.timed(block, ctypes.c_float(2), ctypes.c_uint(64), grid=2, block=32) > 0


@tap.test
def a_launch_that_cannot_be_is_refused():
    block, function = data(), scale()
    for call, kind in ((lambda: function(block, 2.0, ctypes.c_uint(64)), TypeError), (lambda: function(block, ctypes.c_float(2), 64), TypeError),
                       (lambda: function(block, ctypes.c_float(2), ctypes.c_uint(64), block=(1, 1, 1, 1)), ValueError),
                       (lambda: function(block, ctypes.c_float(2)), cushim.LogicError), (lambda: function(block, ctypes.c_float(2), ctypes.c_uint(1), block=0), cushim.LogicError),
                       (lambda: function(block, ctypes.c_double(2), ctypes.c_uint(64)), cushim.LogicError), (lambda: function(block, b"abc", b"abcd"), cushim.LogicError)):
        with raises(kind, Status.INVALID if kind is cushim.LogicError else None):
            call()
    block.free()
    with raises(cushim.LogicError, Status.STATE):
        function(block, ctypes.c_float(2), ctypes.c_uint(64))
    function.module.unload()
    with raises(cushim.LogicError):
        function(DeviceMemory(8), ctypes.c_float(2), ctypes.c_uint(1))


@tap.test
def host_buffers_are_staged_for_a_launch():
    function, stream = scale(), Stream()
    for order in None, stream:
        floats = array.array("f", FLOATS)
        function(cushim.InOut(floats), ctypes.c_float(2), ctypes.c_uint(64), grid=2, block=32, stream=order)
        assert floats.tobytes() == DOUBLED
        total = array.array("I", [0])
        function.module.get_function("sum")(cushim.Out(total), cushim.In(array.array("I", range(10))), ctypes.c_uint(10), stream=order)
        assert total[0] == 45


@tap.test
def host_buffers_are_staged_behind_and_before_the_work_of_their_stream():
    """On a stream that the legacy one does not wait for, with work before, in memory that serves again."""
    function, stream = Module(PTX).get_function("sum"), Stream(cushim.StreamFlag.NON_BLOCKING)
    numbers, busy = array.array("I", range(10)), DeviceMemory(8 << 20)
    source = DeviceMemory(40)
    source.write(numbers)
    for argument in cushim.In(numbers), source:
        before, total = cushim.AsyncMemory(40, stream), array.array("I", [0])
        for i in range(50):
            busy.fill(i, stream=stream)
        before.fill(255, stream=stream)
        before.free()
        function(cushim.Out(total), argument, ctypes.c_uint(10), stream=stream)
        assert total[0] == 45


@tap.test
def a_prepared_function_takes_plain_numbers():
    block, stream = data(), Stream()
    with scale().prepare("PfI") as prepared:
        assert isinstance(prepared, cushim.PreparedFunction)
        calls = (lambda: prepared(block, 2.0, 64, grid=2, block=32, stream=stream), lambda: prepared.prepared_call(2, 32, block.address, 2, 64),
                 lambda: prepared.prepared_async_call((2, 1), (32, 1, 1), stream, block, 2.0, 64), lambda: prepared.prepared_timed_call(2, 32, block, 2, 64))
        for call in calls:
            block.write(FLOATS)
            call()
            cushim.synchronize()
            assert block.read() == DOUBLED
        for wrong in (block, 2.0), (block, "two", 64), (block, 2.0, -1), (block, 2.0, 2**32):
            with raises(TypeError):
                prepared(*wrong)
    with raises(cushim.LogicError, Status.BADHANDLE):
        prepared(block, 2.0, 64)
    for wrong in "Pff?", "Pd", "P":
        with raises(cushim.LogicError, Status.INVALID):
            scale().prepare(wrong)


@tap.test
def a_function_tells_what_it_needs():
    function = scale()
    assert function.max_threads_per_block >= 32 and min(function.num_regs, function.shared_size_bytes, function.local_size_bytes, function.const_size_bytes) >= 0
    function.set_attribute(cushim.FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024)
    assert function.get_attribute(cushim.FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES) == 1024
    function.set_cache_config(cushim.CacheConfig.SHARED)
    assert function.occupancy(128) > 0
    grid, block = function.suggest(limit=64)
    assert grid > 0 and 0 < block <= 64 and "scale" in repr(function)
    with raises(cushim.LogicError, Status.INVALID):
        function.get_attribute(10000)


tap.run()
