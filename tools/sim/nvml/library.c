/* NVML's begin and end, the names of its errors, and versions. */
#include "nvml.h"

#include <stdatomic.h>
#include <string.h>

static atomic_uint n_inits;

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    atomic_fetch_add(&n_inits, 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) {
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void) {
    unsigned n = atomic_load(&n_inits);
    while (n > 0 && !atomic_compare_exchange_weak(&n_inits, &n, n - 1))
        ;
    return n > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t sim_nvml_ready(void) {
    return atomic_load(&n_inits) ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument Version Mismatch";
    case NVML_ERROR_UNKNOWN:
        break;
    }
    return "Unknown Error";
}

nvmlReturn_t sim_nvml_text(char *out, unsigned n_bytes, const char *text) {
    NVML_TRY(sim_nvml_ready());
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= n_bytes)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned n_bytes) {
    return sim_nvml_text(text, n_bytes, CUSHIM_VERSION_TEXT);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned n_bytes) {
    return sim_nvml_text(text, n_bytes, CUSHIM_VERSION_TEXT);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    struct sim_device_look look = {.driver_version = 0};
    NVML_TRY(sim_nvml_ready());
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_device_look(0, &look))
        return NVML_ERROR_NOT_SUPPORTED;
    *version = look.driver_version;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return nvmlSystemGetCudaDriverVersion(version);
}
