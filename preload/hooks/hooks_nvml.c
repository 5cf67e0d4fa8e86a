/*
 * NVML's memory of a device, under a limit: the size that CUDA's own calls tell
 * (interposition.md C17).  Look-ups get these functions if a limit is set (resolve/dlsym.c).
 */
#include <string.h>

#include "base/bits.h"
#include "cuda/table.h"
#include "preload/entry/device_limit.h"
#include "preload/entry/nvml.h"
#include "preload/resolve/nvml.h"
#include "preload/state/spill.h"

enum { FUNCTION_NOT_FOUND = 13 };

typedef int get_fn(void *device, void *out);
typedef int get_text_fn(void *device, char *text, unsigned n_bytes);

/* Which of CUDA's n devices it is; -1: none of them. */
static int number_of(struct cushim_cuda *cuda, void *device, int n) {
    char wanted[CUSHIM_NVML_UUID_BYTES] = "", text[CUSHIM_NVML_UUID_BYTES];
    get_text_fn *get_uuid;
    CUuuid uuid;
    if (!cushim_nvml_find("nvmlDeviceGetUUID", &get_uuid) ||
        get_uuid(device, wanted, sizeof wanted) != 0)
        return -1;
    for (int i = 0; i < n && i < CUSHIM_MAX_DEVICES; i++) {
        if (!cuda->cuDeviceGetUuid_v2 || cuda->cuDeviceGetUuid_v2(&uuid, i) != CUDA_SUCCESS)
            continue;
        cushim_nvml_write_uuid(text, &uuid);
        if (strcmp(text, wanted) == 0)
            return i;
    }
    return -1;
}

/* What is used may be other processes'.  Until CUDA is initialised its numbers are taken for those
 * of NVML. */
static void tell(void *device, unsigned long long *total, unsigned long long *free,
                 unsigned long long *used) {
    struct cushim_cuda *cuda = cushim_driver();
    size_t total_bytes = *total, free_bytes = *free;
    get_fn *get_index;
    int n, number = -1;
    if (!cushim_device_limit_is_set())
        return;
    if (cuda && cuda->cuDeviceGetCount && cuda->cuDeviceGetCount(&n) == CUDA_SUCCESS) {
        number = number_of(cuda, device, n);
        if (number >= 0)
            cushim_device_limit_tell(cuda, number, &free_bytes, &total_bytes);
    } else if (cushim_nvml_find("nvmlDeviceGetIndex", &get_index) &&
               get_index(device, &number) == 0) {
        total_bytes = cushim_device_limit_bytes(number, total_bytes) + cushim_spill_bytes();
        free_bytes += cushim_spill_bytes();
    }
    *total = total_bytes;
    *free = cushim_least(free_bytes, total_bytes);
    *used = *total - *free;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory) {
    get_fn *real;
    int answer = cushim_nvml_find(__func__, &real) ? real(device, memory) : FUNCTION_NOT_FOUND;
    if (answer == 0)
        tell(device, &memory->total, &memory->free, &memory->used);
    return answer;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory) {
    get_fn *real;
    int answer = cushim_nvml_find(__func__, &real) ? real(device, memory) : FUNCTION_NOT_FOUND;
    if (answer == 0 && cushim_device_limit_is_set()) {
        memory->reserved = 0; /* it is in `used`, or beyond the limit */
        tell(device, &memory->total, &memory->free, &memory->used);
    }
    return answer;
}
