"""Steps with cuda.core and the driver part of cuda.bindings on the software device: memory of each kind, streams,
events, graphs, and memory of another process."""
import ctypes
import multiprocessing
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from cuda.bindings import driver
from cuda.core import (Device, DeviceMemoryResource, DeviceMemoryResourceOptions, LegacyPinnedMemoryResource, ManagedMemoryResource,
                       VirtualMemoryResource)
import steps

N_BYTES = 1 << 20


def well(answer):
    """The results of a driver call, without its status."""
    status, *values = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(status.name)
    return values[0] if len(values) == 1 else values


def bytes_of(buffer, n):
    """The first bytes of a buffer, or of memory at an address, copied by the driver."""
    host = (ctypes.c_ubyte * n)()
    well(driver.cuMemcpyDtoH(ctypes.addressof(host), int(getattr(buffer, "handle", buffer)), n))
    return bytes(host)


def is_filled(resource):
    device = Device()
    stream = device.create_stream()
    buffer = resource.allocate(N_BYTES, stream=stream)
    buffer.fill(7, stream=stream)
    stream.sync()
    assert buffer.size == N_BYTES and bytes_of(buffer, 100) == b"\7" * 100
    buffer.close(stream)
    stream.sync()


def default_memory():
    is_filled(Device().memory_resource)


def pool_of_its_own():
    is_filled(DeviceMemoryResource(Device()))


def managed_memory():
    is_filled(ManagedMemoryResource())


def pinned_memory():
    buffer = LegacyPinnedMemoryResource().allocate(4096, stream=Device().default_stream)
    assert buffer.is_host_accessible and buffer.is_device_accessible
    ctypes.memset(int(buffer.handle), 5, 4096)
    assert bytes_of(buffer, 4096) == b"\5" * 4096
    buffer.close(Device().default_stream)


def mapped_memory():
    resource = VirtualMemoryResource(Device())
    buffer = resource.allocate(2 << 20, stream=Device().default_stream)
    well(driver.cuMemsetD8(int(buffer.handle), 3, 2 << 20))
    well(driver.cuCtxSynchronize())  # because it may move
    larger = resource.modify_allocation(buffer, 4 << 20)
    assert larger.size >= 4 << 20 and bytes_of(larger, 10) == b"\3" * 10
    larger.close(Device().default_stream)


def many_sizes():
    resource, stream = Device().memory_resource, Device().create_stream()
    kept = []
    for i in range(3000):
        kept.append(resource.allocate(1 + i * 7919 % 300000, stream=stream))
        if len(kept) > 50:
            kept.pop(i % 50).close(stream)
    for buffer in kept:
        buffer.close(stream)
    stream.sync()


def plain_memory_of_the_driver():
    blocks = [well(driver.cuMemAlloc(1 + i * 7919 % 300000)) for i in range(500)]
    for i, block in enumerate(blocks):
        well(driver.cuMemsetD8(block, i % 256, 1))
    for i, block in enumerate(blocks):
        host = ctypes.c_ubyte()
        well(driver.cuMemcpyDtoH(ctypes.addressof(host), block, 1))
        assert host.value == i % 256
        well(driver.cuMemFree(block))


def questions_about_a_pointer():
    kind, start, size = (driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                         driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                         driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE)
    block = well(driver.cuMemAlloc(1000))
    inside = int(block) + 500
    assert int(well(driver.cuPointerGetAttribute(start, inside))) == int(block)
    assert well(driver.cuPointerGetAttribute(size, inside)) == 1000
    assert well(driver.cuPointerGetAttribute(kind, inside)) == driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    assert [int(value) for value in well(driver.cuMemGetAddressRange(inside))] == [int(block), 1000]
    well(driver.cuMemFree(block))


def wrong_calls():
    answers = [driver.cuMemFree(0x1234000), driver.cuMemAlloc(0), driver.cuMemAlloc(1 << 60), driver.cuMemGetAddressRange(0x1234000),
               driver.cuMemcpyDtoH(0, 0x1234000, 8), driver.cuMemFreeAsync(0x1234000, 0), driver.cuIpcGetMemHandle(0x1234000)]
    assert all(answer[0] != driver.CUresult.CUDA_SUCCESS for answer in answers)
    print("ok wrong_calls answer", " ".join(answer[0].name for answer in answers))


def a_freed_block():
    block = well(driver.cuMemAlloc(3 << 20))
    well(driver.cuMemFree(block))
    answers = [driver.cuMemFree(block), driver.cuMemsetD8(block, 1, 1)]
    print("ok a_freed_block answers", " ".join(answer[0].name for answer in answers))


def streams_and_events():
    device = Device()
    first, second = device.create_stream(), device.create_stream()
    event = device.create_event()
    buffer, other = (device.memory_resource.allocate(N_BYTES, stream=first) for _ in range(2))
    buffer.fill(9, stream=first)
    first.record(event)
    second.wait(event)
    buffer.copy_to(other, stream=second)
    second.sync()
    assert event.is_done and bytes_of(other, 64) == b"\t" * 64
    for each in (buffer, other):
        each.close(second)


def time_between_events():
    device = Device()
    stream = device.create_stream()
    begin, end = (stream.record(options={"timing_enabled": True}) for _ in range(2))
    end.sync()
    assert end - begin >= 0


def a_graph():
    device = Device()
    stream = device.create_stream()
    buffer, other = (device.memory_resource.allocate(N_BYTES, stream=stream) for _ in range(2))
    stream.sync()
    well(driver.cuStreamBeginCapture(stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    buffer.fill(4, stream=stream)
    buffer.copy_to(other, stream=stream)
    graph = well(driver.cuStreamEndCapture(stream.handle))
    program = well(driver.cuGraphInstantiate(graph, 0))
    for _ in range(3):
        well(driver.cuGraphLaunch(program, stream.handle))
    stream.sync()
    assert bytes_of(other, 64) == b"\4" * 64
    well(driver.cuGraphExecDestroy(program))
    well(driver.cuGraphDestroy(graph))


def memory_in_a_capture():
    device = Device()
    stream = device.create_stream()
    well(driver.cuStreamBeginCapture(stream.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    block = well(driver.cuMemAllocAsync(N_BYTES, stream.handle))
    well(driver.cuMemsetD8Async(block, 1, N_BYTES, stream.handle))
    well(driver.cuMemFreeAsync(block, stream.handle))
    graph = well(driver.cuStreamEndCapture(stream.handle))
    program = well(driver.cuGraphInstantiate(graph, 0))
    for _ in range(3):
        well(driver.cuGraphLaunch(program, stream.handle))
    stream.sync()
    well(driver.cuGraphExecDestroy(program))
    well(driver.cuGraphDestroy(graph))


def graph_builder():
    builder = Device().create_graph_builder().begin_building()
    graph = builder.end_building().complete()
    stream = Device().create_stream()
    graph.upload(stream)
    graph.launch(stream)
    stream.sync()


def two_devices():
    there = Device(1)
    there.set_current()
    try:
        block = well(driver.cuMemAlloc(1000))
        well(driver.cuMemsetD8(block, 6, 1000))
        device = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        assert well(driver.cuPointerGetAttribute(device, block)) == 1
        well(driver.cuMemFree(block))
    finally:
        Device(0).set_current()


def importer(pipe):
    """Opens the memory of the other process, reads it, and writes to it."""
    Device().set_current()
    handle = driver.CUipcMemHandle()
    ctypes.memmove(handle.getPtr(), pipe.recv(), 64)
    block = well(driver.cuIpcOpenMemHandle(handle, driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
    host = ctypes.c_ubyte()
    well(driver.cuMemcpyDtoH(ctypes.addressof(host), int(block) + 99, 1))
    well(driver.cuMemsetD8(block, host.value + 1, 100))
    well(driver.cuCtxSynchronize())
    well(driver.cuIpcCloseMemHandle(block))
    pipe.send("done")


def memory_of_another_process():
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=importer, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    for size in (1000, 100000, 3 << 20):
        block = well(driver.cuMemAlloc(size))
        well(driver.cuMemsetD8(block, 50, 100))
        well(driver.cuCtxSynchronize())
        handle = well(driver.cuIpcGetMemHandle(block))
        if size == 100000:
            ours.send(ctypes.string_at(handle.getPtr(), 64))
            assert ours.recv() == "done"
            assert bytes_of(block, 100) == b"\x33" * 100
        well(driver.cuMemFree(block))
    child.join(60)
    assert child.exitcode == 0


def pool_importer(pipe):
    device = Device()
    device.set_current()
    resource, buffer = pipe.recv(), pipe.recv()
    del resource
    stream = device.create_stream()
    assert bytes_of(buffer, 100) == b"\6" * 100
    buffer.fill(8, stream=stream)
    stream.sync()
    buffer.close(stream)
    pipe.send("done")


def pool_of_another_process():
    multiprocessing.set_start_method("spawn", force=True)
    ours, theirs = multiprocessing.Pipe()
    device = Device()
    stream = device.create_stream()
    resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True, max_size=8 << 20))
    child = multiprocessing.Process(target=pool_importer, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    buffer = resource.allocate(4096, stream=stream)
    buffer.fill(6, stream=stream)
    stream.sync()
    ours.send(resource)
    ours.send(buffer)
    assert ours.recv() == "done"
    assert bytes_of(buffer, 100) == b"\x08" * 100
    buffer.close(stream)
    child.join(60)


STEPS = [default_memory, pool_of_its_own, managed_memory, pinned_memory, mapped_memory, many_sizes, plain_memory_of_the_driver,
         questions_about_a_pointer, wrong_calls, a_freed_block, streams_and_events, time_between_events, a_graph, memory_in_a_capture,
         graph_builder, two_devices, memory_of_another_process, pool_of_another_process]

if __name__ == "__main__":
    Device().set_current()
    steps.run(STEPS)
