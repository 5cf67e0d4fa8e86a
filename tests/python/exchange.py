"""Memory of other packages, and ours for them."""
import array
import ctypes
import weakref

from expect import dropped, raises

import cushim
import tap
from cushim import DeviceMemory, Event, Pool, Status, Stream, asmemory
from cushim._exchange import _lent


class ByInterface:
    """An array of another package."""

    def __init__(self, block, **more):
        self.block, self.__cuda_array_interface__ = block, {**block.__cuda_array_interface__, **more}


class ByDLPack:
    def __init__(self, block):
        self.block, self.asked = block, []

    def __dlpack_device__(self):
        return self.block.__dlpack_device__()

    def __dlpack__(self, **more):
        self.asked.append(more)
        return self.block.__dlpack__(**more)


def matrix():
    block = DeviceMemory(100)
    block.write(array.array("f", range(25)))
    return block.view(4, shape=(2, 3), typestr="<f4")


@tap.test
def a_view_is_an_array_for_others():
    view = matrix()
    assert view.__cuda_array_interface__ == {"shape": (2, 3), "typestr": "<f4", "data": (view.address, False), "version": 3, "stream": None}
    assert view.shape == (2, 3) and view.typestr == "<f4" and len(view) == 24 and array.array("f", view.read()).tolist() == [1, 2, 3, 4, 5, 6]
    assert view.__dlpack_device__() == (2, 0) and DeviceMemory(8).view(typestr="<i4").shape == (2,) and DeviceMemory(8).view(shape=(), typestr="<f8").shape == ()


@tap.test
def an_array_of_others_is_memory():
    for kind in ByInterface, ByDLPack:
        other = kind(matrix())
        taken, block, source = asmemory(other), other.block, weakref.ref(other.block.base)
        assert (taken.shape, taken.typestr, taken.address, len(taken)) == ((2, 3), "<f4", block.address, 24)
        del other, block
        assert not dropped(source) and array.array("f", taken.read()).tolist() == [1, 2, 3, 4, 5, 6]
        del taken
        assert dropped(source) and not _lent
    block = DeviceMemory(24)
    cushim.copy(block, ByInterface(matrix()))
    assert array.array("f", block.read()).tolist() == [1, 2, 3, 4, 5, 6]


@tap.test
def what_is_no_whole_array_of_a_device_is_refused():
    for wrong in b"bytes", None, array.array("f"):
        with raises(TypeError):
            asmemory(wrong)
    with raises(ValueError):
        asmemory(ByInterface(matrix(), strides=(4, 8)))
    assert asmemory(ByInterface(matrix(), strides=(12, 4))).shape == (2, 3)
    with raises(ValueError):
        cushim.copy(DeviceMemory(24), ByInterface(matrix(), strides=(4, 8)))

    class OfHost(ByDLPack):
        def __dlpack_device__(self):
            return 1, 0

    with raises(ValueError):
        asmemory(OfHost(matrix()))


@tap.test
def a_capsule_that_nobody_takes_gives_back():
    view = matrix()
    source = weakref.ref(view.base)
    capsule = view.__dlpack__()
    del view
    assert not dropped(source) and len(_lent) == 1
    del capsule
    assert dropped(source) and not _lent


@tap.test
def memory_of_the_host_says_so():
    pinned, managed = cushim.PinnedMemory(16), cushim.ManagedMemory(16)
    assert (pinned.__dlpack_device__()[0], managed.__dlpack_device__()[0]) == (3, 13)
    for block in pinned, managed:
        assert asmemory(ByDLPack(block)).address == block.address
    with raises(BufferError):
        pinned.__dlpack__(copy=True)


@tap.test
def types_of_elements_survive():
    block = DeviceMemory(16)
    for typestr in "|u1", "|i1", "|b1", "<u2", "<i2", "<f2", "<f4", "<i4", "<u4", "<f8", "<i8", "<u8", "<c8", "<c16":
        view = block.view(typestr=typestr)
        assert (asmemory(ByDLPack(view)).typestr, asmemory(ByInterface(view)).shape) == (typestr, view.shape)


@tap.test
def work_is_ordered_before_the_takers():
    stream = Stream(cushim.StreamFlag.NON_BLOCKING)
    pool = Pool()
    block, taker = pool.alloc(100, stream), Stream(cushim.StreamFlag.NON_BLOCKING)
    block.fill(7, stream=stream)
    for number in None, 1, 2, -1, taker.handle:
        block.__dlpack__(stream=number)
    other = pool.alloc(100)
    other.__dlpack__(stream=taker.handle)
    for number in None, 1, 2, stream.handle:
        asmemory(ByInterface(block, stream=number))
    package = ByDLPack(block)
    asmemory(package)
    assert package.asked == [{"stream": 1}]
    cushim.synchronize()


@tap.test
def memory_that_is_gone_is_not_shown():
    view = matrix()
    view.base.free()
    for use in lambda: view.__cuda_array_interface__, view.__dlpack__, lambda: asmemory(view):
        with raises(cushim.LogicError, Status.STATE):
            use()


def has(name):
    try:
        return __import__(name)
    except ImportError:
        return None


@tap.test
def numba_takes_memory_and_gives_it_if_it_is_here():
    numba = has("numba.cuda")
    if not numba:
        tap.skip("no Numba here")
    view = matrix()
    taken = numba.cuda.as_cuda_array(view)
    assert taken.shape == (2, 3) and asmemory(taken).address == view.address


tap.run()
