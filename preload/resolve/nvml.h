/* The two functions of NVML that tell the size of a device, as NVIDIA's documentation declares
 * them. */
#pragma once

#include "preload/resolve/export.h"

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

CUSHIM_EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
CUSHIM_EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory);
