/* The public calls on the library itself (cushim/library.h), except those on errors. */
#include "cushim/library.h"

#include "base/log.h"
#include "companion/context/address_map.h"
#include "companion/mapped/mapper.h"

int cushim_available(void) {
    int n = 0;
    if (cushim_driver_use(__func__) != CUSHIM_OK)
        return 0;
    return CUSHIM_DRIVER(cuDeviceGetCount)(&n) == CUDA_SUCCESS && n > 0;
}

enum cushim_status cushim_load(const char *path) {
    return cushim_driver_load(__func__, path);
}

enum cushim_status cushim_unload(void) {
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    size_t n_handles = cushim_handle_count(), n_rows = cushim_address_map_count();
    if (n_handles || n_rows)
        return CUSHIM_FAIL(CUSHIM_STATE, "objects=%zu allocations=%zu", n_handles, n_rows);
    if (cushim_driver_is_ready())
        cushim_context_forget_all();
    cushim_driver_unload();
    return CUSHIM_OK;
}

const char *cushim_load_error(void) {
    return cushim_driver_reason();
}

static int has_async_alloc(void) {
    int device, yes = 0;
    CUdevice_attribute attribute = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    if (!CUSHIM_DRIVER(cuMemAllocAsync) || !CUSHIM_DRIVER(cuMemPoolCreate) ||
        cushim_context_ordinal(__func__, -1, &device) != CUSHIM_OK)
        return 0;
    return CUSHIM_DRIVER(cuDeviceGetAttribute)(&yes, attribute, device) == CUDA_SUCCESS && yes;
}

int cushim_has(enum cushim_feature feature) {
    if (cushim_driver_use(__func__) != CUSHIM_OK)
        return 0;
    switch (feature) {
    case CUSHIM_FEATURE_GRAPH:
        return CUSHIM_DRIVER(cuStreamBeginCapture_v2) && CUSHIM_DRIVER(cuGraphInstantiateWithFlags);
    case CUSHIM_FEATURE_ASYNC_ALLOC:
        return has_async_alloc();
    case CUSHIM_FEATURE_CONTEXT_FENCE:
        return CUSHIM_DRIVER(cuCtxRecordEvent) != NULL;
    case CUSHIM_FEATURE_PARAM_INFO:
        return cushim_driver_find("cuFuncGetParamInfo") != NULL;
    case CUSHIM_FEATURE_VULKAN:
        return cushim_card_is_possible(); /* cushim_mapper_open says what else is missing */
    default:
        return 0;
    }
}

int cushim_version(void) {
    return CUSHIM_VERSION;
}

const char *cushim_version_text(void) {
    return CUSHIM_VERSION_TEXT;
}

enum cushim_status cushim_driver_version(int *n) {
    CUSHIM_OUT(n);
    CUSHIM_TRY(cushim_driver_use(__func__));
    *n = cushim_driver_number();
    return CUSHIM_OK;
}

enum cushim_status cushim_symbol(const char *name, void **fn) {
    CUSHIM_OUT(fn);
    CUSHIM_NEED(name);
    CUSHIM_TRY(cushim_driver_use(__func__));
    *fn = cushim_driver_find(name);
    return *fn ? CUSHIM_OK : cushim_fail_nosym(__func__, name);
}

enum cushim_status cushim_log_set(cushim_log_fn *fn, void *cookie) {
    int level = cushim_settings()->log;
    CUSHIM_FAIL_IF(__func__, !cushim_log_set_sink(fn, cookie), CUSHIM_NOMEM, "%s", "");
    if (!getenv("CUSHIM_LOG"))
        cushim_log_set_level(fn ? CUSHIM_LOG_INFO : (enum cushim_log_level)level);
    return CUSHIM_OK;
}
