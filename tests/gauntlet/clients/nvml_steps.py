"""NVIDIA's Python module for NVML on the software device: its results are compared with the driver's in this process."""
import ctypes
import os
import pathlib
import sys

import pynvml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import steps

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *words):
    result = getattr(cuda, name)(*words)
    assert result == 0, (name, result)


def devices():
    pynvml.nvmlInit()
    count = ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(count))
    assert pynvml.nvmlDeviceGetCount() == count.value
    return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count.value)]


def names_and_addresses():
    for i, device in enumerate(devices()):
        name, address = (ctypes.create_string_buffer(100) for _ in range(2))
        call("cuDeviceGetName", name, 100, i)
        call("cuDeviceGetPCIBusId", address, 100, i)
        assert pynvml.nvmlDeviceGetName(device) == name.value.decode()
        assert pynvml.nvmlDeviceGetPciInfo(device).busIdLegacy == address.value.decode()
        by_address = pynvml.nvmlDeviceGetHandleByPciBusId(pynvml.nvmlDeviceGetPciInfo(device).busId.encode())
        by_uuid = pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(device).encode())
        assert pynvml.nvmlDeviceGetIndex(by_address) == pynvml.nvmlDeviceGetIndex(by_uuid) == i


def memory():
    device = devices()[0]
    context, block, free, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
    before = pynvml.nvmlDeviceGetMemoryInfo(device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(100 * MIB))
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    after, newer = pynvml.nvmlDeviceGetMemoryInfo(device), pynvml.nvmlDeviceGetMemoryInfo(device, pynvml.nvmlMemory_v2)
    assert before.used == 0 and after.used >= 100 * MIB
    assert after.total == total.value and after.free + after.used == after.total
    assert (newer.total, newer.free, newer.used) == (after.total, after.free, after.used)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    assert [(one.pid, one.usedGpuMemory) for one in processes] == [(os.getpid(), after.used)]
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(devices()[1]) == []


def versions():
    devices()
    number = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(number))
    assert pynvml.nvmlSystemGetCudaDriverVersion() == number.value
    assert pynvml.nvmlSystemGetDriverVersion() and pynvml.nvmlSystemGetNVMLVersion()


def what_it_has_not():
    device, other = devices()
    for ask in (pynvml.nvmlDeviceGetUtilizationRates, pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetMigMode,
                lambda one: pynvml.nvmlDeviceGetTemperature(one, pynvml.NVML_TEMPERATURE_GPU),
                lambda one: pynvml.nvmlDeviceGetNvLinkState(one, 0),
                lambda one: pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)):
        try:
            ask(device)
        except pynvml.NVMLError_NotSupported:
            continue
        raise AssertionError("there is an answer")
    fields = pynvml.nvmlDeviceGetFieldValues(device, [pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT])
    assert fields[0].nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


def begin_and_end():
    devices()
    while pynvml._nvmlLib_refcount:
        pynvml.nvmlShutdown()
    try:
        pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError_Uninitialized:
        return
    raise AssertionError("it answers behind its end")


if __name__ == "__main__":
    steps.run([names_and_addresses, memory, versions, what_it_has_not, begin_and_end])
