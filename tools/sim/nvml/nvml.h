/*
 * NVML as far as the software device answers: types as in NVIDIA's documentation, under names of
 * ours, and what the files of tools/sim/nvml share.
 */
#pragma once

#include "tools/sim/sim.h"

#include <stddef.h>

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvml_device *nvmlDevice_t;

struct nvml_pci_v2 {
    char bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id, reserved[4];
};

struct nvml_pci_v3 {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_V2 ((unsigned)sizeof(struct nvml_memory_v2) | 2u << 24)

struct nvml_process_v1 {
    unsigned pid;
    unsigned long long used_bytes;
};

struct nvml_process_v2 { /* of the functions _v2 and _v3 */
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance; /* ~0: none */
};

struct nvml_field {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned value_type;
    nvmlReturn_t result;
    unsigned long long value;
};

enum { NVML_P2P_READ, NVML_P2P_WRITE, NVML_P2P_NVLINK, NVML_P2P_ATOMICS, NVML_P2P_PCI };
enum { NVML_P2P_OK = 0, NVML_P2P_NOT_SUPPORTED = 5 };

/* ---- what is exported (and absent.def) ---- */

SIM_EXPORT nvmlReturn_t nvmlInit(void);
SIM_EXPORT nvmlReturn_t nvmlInit_v2(void);
SIM_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags);
SIM_EXPORT nvmlReturn_t nvmlShutdown(void);
SIM_EXPORT const char *nvmlErrorString(nvmlReturn_t result);
SIM_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned n_bytes);
SIM_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned n_bytes);
SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version);
SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *n);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *text, nvmlDevice_t *device);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned n_bytes);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned n_bytes);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct nvml_pci_v2 *pci);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci_v3 *pci);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
                                                           int *minor);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned *mode);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other,
                                               unsigned index, unsigned *status);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int n,
                                                 struct nvml_field *fields);

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device,
                                                   struct nvml_memory_v2 *memory);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *n,
                                                             struct nvml_process_v1 *processes);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *n,
                                                                struct nvml_process_v2 *processes);
SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *n,
                                                                struct nvml_process_v2 *processes);

/* ---- what the files of this folder share ---- */

/* Early return, as SIM_TRY. */
#define NVML_TRY(expr)                                                                             \
    do {                                                                                           \
        nvmlReturn_t try_result_ = (expr);                                                         \
        if (try_result_ != NVML_SUCCESS)                                                           \
            return try_result_;                                                                    \
    } while (0)

/* NVML_ERROR_UNINITIALIZED outside of init and shutdown. */
nvmlReturn_t sim_nvml_ready(void);

/* The meaning of a handle; NVML_ERROR_INVALID_ARGUMENT if it is none, or `out` is NULL. */
nvmlReturn_t sim_nvml_find(nvmlDevice_t handle, const void *out, int *device,
                           struct sim_device_look *look);

/* Copy a text and its end into a buffer of n_bytes. */
nvmlReturn_t sim_nvml_text(char *out, unsigned n_bytes, const char *text);
