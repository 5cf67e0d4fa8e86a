#include "preload/entry/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "preload/resolve/elf.h"
#include "preload/resolve/nvml.h"

static const char file[] = "libnvidia-ml.so";

/* As NVML has it for the functions _v2 and _v3. */
struct process {
    unsigned number;
    unsigned long long used_bytes;
    unsigned instances[2];
};

enum { MOST_PROCESSES = 256 };

typedef int init_fn(void);
typedef int get_device_fn(const char *uuid, void **device);
typedef int get_processes_fn(void *device, unsigned *n, struct process *processes);

bool cushim_nvml_find(const char *name, void *function) {
    struct cushim_object object;
    void *address =
        cushim_object_list(file, name, &object, 1) ? cushim_object_symbol(&object, name) : NULL;
    memcpy(function, &address, sizeof address);
    return address;
}

void cushim_nvml_write_uuid(char text[CUSHIM_NVML_UUID_BYTES], const CUuuid *uuid) {
    int n = snprintf(text, CUSHIM_NVML_UUID_BYTES, "GPU-");
    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, (size_t)(CUSHIM_NVML_UUID_BYTES - n), "%s%02x",
                      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      (unsigned char)uuid->bytes[i]);
}

/* It stays loaded and initialised. */
static bool start(void) {
    static bool is_started;
    char name[sizeof file + 2];
    init_fn *init;
    snprintf(name, sizeof name, "%s.1", file);
    if (!is_started)
        is_started = dlopen(name, RTLD_NOW | RTLD_LOCAL) &&
                     cushim_nvml_find("nvmlInit_v2", &init) && init() == 0;
    return is_started;
}

static bool find_device(const CUuuid *uuid, void **device) {
    char text[CUSHIM_NVML_UUID_BYTES];
    get_device_fn *get_device;
    cushim_nvml_write_uuid(text, uuid);
    return start() && cushim_nvml_find("nvmlDeviceGetHandleByUUID", &get_device) &&
           get_device(text, device) == 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool cushim_nvml_used_bytes(const CUuuid *uuid, uint64_t *n_bytes) {
    static struct process processes[MOST_PROCESSES];
    get_processes_fn *get_processes;
    unsigned n = MOST_PROCESSES;
    void *device;
    CUSHIM_LOCKED(&lock);
    if (!find_device(uuid, &device) ||
        (!cushim_nvml_find("nvmlDeviceGetComputeRunningProcesses_v3", &get_processes) &&
         !cushim_nvml_find("nvmlDeviceGetComputeRunningProcesses_v2", &get_processes)) ||
        get_processes(device, &n, processes) != 0)
        return false;
    for (unsigned i = 0; i < n && i < MOST_PROCESSES; i++) {
        *n_bytes = processes[i].used_bytes;
        if (processes[i].number == (unsigned)getpid() && *n_bytes != UINT64_MAX)
            return true;
    }
    return false;
}

bool cushim_nvml_device_bytes(const CUuuid *uuid, uint64_t *n_bytes) {
    int (*get)(void *device, struct nvml_memory *memory);
    struct nvml_memory memory;
    void *device;
    CUSHIM_LOCKED(&lock);
    if (!find_device(uuid, &device) || !cushim_nvml_find("nvmlDeviceGetMemoryInfo", &get) ||
        get(device, &memory) != 0)
        return false;
    *n_bytes = memory.used;
    return true;
}
