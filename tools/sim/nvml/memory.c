/* NVML's memory of a device, and the processes that have it. */
#include "nvml.h"

/* Others may take more between two looks, so limit used to total here. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, memory, &i, &look));
    memory->total = look.total_bytes;
    memory->used = look.used_bytes < look.total_bytes ? look.used_bytes : look.total_bytes;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_v2 *memory) {
    struct nvml_memory found;
    NVML_TRY(sim_nvml_ready());
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != NVML_MEMORY_V2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    NVML_TRY(nvmlDeviceGetMemoryInfo(device, &found));
    memory->total = found.total;
    memory->reserved = 0;
    memory->free = found.free;
    memory->used = found.used;
    return NVML_SUCCESS;
}

/* Their number; NVML_ERROR_INSUFFICIENT_SIZE if *n is less. */
static nvmlReturn_t find(nvmlDevice_t device, unsigned *n, const void *out,
                         struct sim_process found[SIM_MAX_PROCESSES]) {
    struct sim_device_look look;
    int i;
    NVML_TRY(sim_nvml_find(device, n, &i, &look));
    unsigned n_room = *n;
    *n = sim_device_processes(i, found, SIM_MAX_PROCESSES);
    if (*n > n_room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return *n == 0 || out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *n,
                                                  struct nvml_process_v1 *processes) {
    struct sim_process found[SIM_MAX_PROCESSES];
    NVML_TRY(find(device, n, processes, found));
    for (unsigned i = 0; i < *n; i++)
        processes[i] = (struct nvml_process_v1){(unsigned)found[i].pid, found[i].used_bytes};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *n,
                                                     struct nvml_process_v2 *processes) {
    struct sim_process found[SIM_MAX_PROCESSES];
    NVML_TRY(find(device, n, processes, found));
    for (unsigned i = 0; i < *n; i++)
        processes[i] =
            (struct nvml_process_v2){(unsigned)found[i].pid, found[i].used_bytes, ~0u, ~0u};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *n,
                                                     struct nvml_process_v2 *processes) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, n, processes);
}
