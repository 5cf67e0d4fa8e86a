#include "alloc.h"

#include <dlfcn.h>
#include <string.h>

#include "tests/bench/bench.h"

struct nvml_memory {
    unsigned long long total, free, used;
};

typedef int nvml_init_fn(void);
typedef int nvml_device_fn(const char *bus, void **device);
typedef int nvml_memory_fn(void *device, struct nvml_memory *memory);

static nvml_memory_fn *ask;
static void *device;

/* CUDA's device 0 in NVML, which may number devices differently. */
static bool find_bus(char *bus, size_t n) {
    int domain, place, number;
    if (cudaDeviceGetAttribute(&domain, cudaDevAttrPciDomainId, 0) ||
        cudaDeviceGetAttribute(&place, cudaDevAttrPciBusId, 0) ||
        cudaDeviceGetAttribute(&number, cudaDevAttrPciDeviceId, 0))
        return false;
    snprintf(bus, n, "%08x:%02x:%02x.0", (unsigned)domain, (unsigned)place, (unsigned)number);
    return true;
}

/* Leaves `ask` NULL if there is no NVML. */
static void open_nvml(void) {
    char bus[64];
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    nvml_init_fn *init;
    nvml_device_fn *find;
    if (!library)
        return;
    void *addresses[] = {dlsym(library, "nvmlInit_v2"),
                         dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"),
                         dlsym(library, "nvmlDeviceGetMemoryInfo")};
    memcpy(&init, &addresses[0], sizeof init);
    memcpy(&find, &addresses[1], sizeof find);
    if (init && find && addresses[2] && !init() && find_bus(bus, sizeof bus) && !find(bus, &device))
        memcpy(&ask, &addresses[2], sizeof ask);
}

size_t held_bytes(void) {
    static bool is_open;
    struct nvml_memory memory;
    size_t free_bytes, total_bytes;
    if (!is_open)
        open_nvml();
    is_open = true;
    if (ask && !ask(device, &memory))
        return memory.used;
    bench_must("cudaMemGetInfo", cudaMemGetInfo(&free_bytes, &total_bytes));
    return total_bytes - free_bytes;
}
