#include "tools/cushim/doctor/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool driver_open(struct driver *driver, char *wrong, size_t wrong_bytes) {
    memset(driver, 0, sizeof *driver);
    driver->handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver->handle) {
        snprintf(wrong, wrong_bytes, "%s", dlerror());
        return false;
    }
    void *address;
#define DRIVER_LOOK_UP(name)                                                                       \
    address = dlsym(driver->handle, #name);                                                        \
    if (!address) {                                                                                \
        snprintf(wrong, wrong_bytes, "libcuda.so.1 has no " #name);                                \
        return false;                                                                              \
    }                                                                                              \
    memcpy(&driver->name, &address, sizeof address);
    DRIVER_CALLS(DRIVER_LOOK_UP)
#undef DRIVER_LOOK_UP
    return true;
}

bool driver_is_software(const struct driver *driver) {
    return dlsym(driver->handle, "cushim_sim_version") != NULL;
}

const char *driver_error_name(const struct driver *driver, CUresult error) {
    const char *name = NULL;
    if (driver->cuGetErrorName(error, &name) != CUDA_SUCCESS || !name)
        return "an unknown error";
    return name;
}

const char *driver_file_of(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname : "?";
}
