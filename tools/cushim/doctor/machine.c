#include "tools/cushim/doctor/machine.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/membarrier.h"
#include "tools/cushim/doctor/driver.h"
#include "tools/cushim/doctor/findings.h"

static const double mib = 1024.0 * 1024;

/* Versions are numbers such as 13010: 13.1. */
#define VERSION               "%d.%d"
#define VERSION_PARTS(number) (number) / 1000, (number) % 1000 / 10

static void add_device(const struct driver *driver, CUdevice device) {
    char name[128] = "", row[32];
    size_t total_bytes = 0;
    driver->cuDeviceGetName(name, sizeof name, device);
    driver->cuDeviceTotalMem_v2(&total_bytes, device);
    bool is_software = driver_is_software(driver);
    snprintf(row, sizeof row, "device %d", device);
    report_add(is_software ? REPORT_NOTE : REPORT_OK, row, "%s, %.0f MiB%s", name,
               (double)total_bytes / mib, is_software ? " (no GPU: a stand-in for tests)" : "");
}

static bool examine_driver(void) {
    static struct driver driver;
    int version = 0, n_devices = 0;
    char wrong[512];
    if (!driver_open(&driver, wrong, sizeof wrong)) {
        report_wrong("driver", "%s", wrong);
        report_remedy(
            "install the NVIDIA driver; without a GPU put `cushim sim` before the command");
        return false;
    }
    void *address;
    memcpy(&address, &driver.cuDriverGetVersion, sizeof address);
    driver.cuDriverGetVersion(&version);
    report_ok("driver", "CUDA " VERSION ", %s", VERSION_PARTS(version), driver_file_of(address));
    CUresult error = driver.cuInit(0);
    if (error == CUDA_SUCCESS)
        error = driver.cuDeviceGetCount(&n_devices);
    if (error != CUDA_SUCCESS || n_devices == 0) {
        report_wrong("device", "none answers: %s",
                     error == CUDA_SUCCESS ? "the driver counts 0"
                                           : driver_error_name(&driver, error));
        report_remedy("see whether /dev/nvidia* exist and may be opened, and CUDA_VISIBLE_DEVICES");
        return false;
    }
    for (int i = 0; i < n_devices; i++)
        add_device(&driver, i);
    return true;
}

/* Report the runtimes that a program with a shared runtime would get. */
static void examine_runtimes(void) {
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
    bool is_any = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        struct link_map *map;
        if (!handle)
            continue;
        is_any = true;
        __typeof__(&cudaRuntimeGetVersion) get_version;
        void *address = dlsym(handle, "cudaRuntimeGetVersion");
        int version = 0;
        memcpy(&get_version, &address, sizeof get_version);
        if (address)
            get_version(&version);
        report_ok("libcudart", "CUDA " VERSION ", %s", VERSION_PARTS(version),
                  dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : names[i]);
        dlclose(handle);
    }
    if (!is_any)
        report_note("libcudart",
                    "no shared one on the loader's path (programs with a static one need none)");
}

/* This is asked before the driver has threads, because the kernel would wait for them. */
static void examine_membarrier(void) {
    if (cushim_membarrier_ask())
        report_ok("membarrier", "granted: pinning a handle takes a store and a load");
    else
        report_note("membarrier", "refused, by the kernel or a sandbox: to pin a handle is a "
                                  "locked exchange");
}

bool machine_examine(void) {
    report_heading("this machine");
    report_ok("glibc", "%s", gnu_get_libc_version());
    examine_membarrier();
    bool has_device = examine_driver();
    examine_runtimes();
    return has_device;
}
