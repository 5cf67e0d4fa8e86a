"""vkgdr's modules on cushim: what its reference says of each name.

PyCUDA is not needed: a module with the two names that vkgdr.pycuda uses stands for it.
"""
import ctypes
import gc
import sys
import types

from expect import numpy, raises

import cushim
import tap
import vkgdr
from vkgdr import OpenFlags, RawMemory, Vkgdr, VkgdrError


class PointerHolderBase:
    """Of PyCUDA: what GPUArray takes as gpudata."""

    def __int__(self):
        return self.get_pointer()


driver = types.ModuleType("pycuda.driver")
driver.PointerHolderBase, driver.Context = PointerHolderBase, cushim.Context
sys.modules.update({"pycuda": types.ModuleType("pycuda"), "pycuda.driver": driver})
sys.modules["pycuda"].driver = driver
import vkgdr.pycuda  # noqa: E402


def is_said(text, call):
    try:
        call()
    except VkgdrError as error:
        assert text in str(error), error
        return True
    return False


@tap.test
def flags_and_errors_have_the_names_of_the_reference():
    assert [int(flag) for flag in OpenFlags] == [1, 2, 4] and issubclass(VkgdrError, RuntimeError)
    assert vkgdr.VKGDR_OPEN_CURRENT_CONTEXT_BIT == OpenFlags.CURRENT_CONTEXT_BIT and vkgdr.VKGDR_OPEN_REQUIRE_COHERENT_BIT == 4
    assert is_said("CUDA_ERROR_INVALID_DEVICE", lambda: Vkgdr(-1))
    assert is_said("CUDA_ERROR_INVALID_CONTEXT", Vkgdr.open_current_context)
    Vkgdr(0)


@tap.test
def memory_is_written_by_the_host_and_used_by_the_device():
    coherent, not_coherent = OpenFlags.REQUIRE_COHERENT_BIT, OpenFlags.FORCE_NON_COHERENT_BIT
    for flags in 0, coherent, not_coherent, coherent | not_coherent:
        with cushim.Device(0).make_context():
            owner = Vkgdr.open_current_context(flags)
            memory = RawMemory(owner, 4097)
            del owner
            assert len(memory) == 4097 and memory.is_coherent == (not flags & not_coherent)
            assert (memory.non_coherent_atom_size == 1) == memory.is_coherent
            shown = memory.__array_interface__
            assert shown["shape"] == (4097,) and shown["typestr"] == "|V1" and shown["version"] == 3
            ctypes.memmove(shown["data"][0], b"there", 5)
            if numpy():
                assert bytes(numpy().asarray(memory).view("u1")[:5]) == b"there"
            memory.flush(0, 4097)
            assert cushim.memory_info(memory.device_ptr).kind == cushim.MemoryKind.MAPPED
            back = bytearray(5)
            cushim.copy(back, memory.device_ptr)
            cushim.fill(memory.device_ptr, 7, count=3)
            cushim.synchronize()
            memory.invalidate(0, 3)
            assert back == b"there" and ctypes.string_at(shown["data"][0], 5) == b"\7\7\7re"
            memory.free()
            memory.free()
            with raises(VkgdrError):
                memory.device_ptr


@tap.test
def what_cannot_be_had_is_an_error_with_its_name():
    with cushim.Device(0).make_context() as context:
        owner = Vkgdr.open_current_context()
        assert is_said("VK_ERROR_OUT_OF_DEVICE_MEMORY", lambda: RawMemory(owner, 10**15))
        with raises(VkgdrError):
            RawMemory(owner, 100, 77)
        context.pop()
        for kind in RawMemory, vkgdr.pycuda.Memory:
            with raises(VkgdrError):
                kind(owner, 123)
        context.push()
        if cushim.Device.count() > 1:
            with cushim.Device(1).make_context():
                with raises(VkgdrError):
                    RawMemory(owner, 100)


@tap.test
def memory_for_PyCUDA_ends_when_it_is_dropped():
    with cushim.Device(0).make_context():
        owner = Vkgdr.open_current_context()
        memory = vkgdr.pycuda.Memory(owner, 4097)
        assert isinstance(memory, RawMemory) and isinstance(memory, driver.PointerHolderBase)
        address = memory.device_ptr
        assert int(memory) == address == memory.get_pointer() and cushim.memory_info(address).n_bytes == 4097
        del memory
        gc.collect()
        with raises(cushim.Error):
            cushim.memory_info(address)
        memory = vkgdr.pycuda.Memory(owner, 10)
        memory.free()
        memory.free()


tap.run()
