/*
 * Pinned host memory.  Its rows have the host's address, which is also the device's if addresses
 * are unified.  The flags of a row are those of its allocation.
 */

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"

_Static_assert(CUSHIM_HOST_FLAG_PORTABLE == CU_MEMHOSTALLOC_PORTABLE &&
                   CUSHIM_HOST_FLAG_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP &&
                   CUSHIM_HOST_FLAG_COMBINED == CU_MEMHOSTALLOC_WRITECOMBINED,
               "flags of cushim_host_alloc are the driver's");
_Static_assert(CUSHIM_REGISTER_FLAG_PORTABLE == CU_MEMHOSTREGISTER_PORTABLE &&
                   CUSHIM_REGISTER_FLAG_MAPPED == CU_MEMHOSTREGISTER_DEVICEMAP &&
                   CUSHIM_REGISTER_FLAG_IO_MEMORY == CU_MEMHOSTREGISTER_IOMEMORY &&
                   CUSHIM_REGISTER_FLAG_READ_ONLY == CU_MEMHOSTREGISTER_READ_ONLY,
               "flags of cushim_host_register are the driver's");

static CUresult obtain_pinned(struct cushim_memory_request *request, CUdeviceptr *address) {
    void *p = NULL;
    CUresult result = CUSHIM_DRIVER(cuMemHostAlloc)(&p, request->bytes, request->flags);
    *address = (CUdeviceptr)(uintptr_t)p;
    return result;
}

enum cushim_status cushim_host_alloc(struct cushim_context *ctx, size_t bytes, unsigned flags,
                                     void **p) {
    const unsigned known =
        CUSHIM_HOST_FLAG_PORTABLE | CUSHIM_HOST_FLAG_MAPPED | CUSHIM_HOST_FLAG_COMBINED;
    uint64_t address;
    CUSHIM_OUT(p);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_FAIL_IF(__func__, flags & ~known, CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_ENTER_CONTEXT(ctx);
    if (!CUSHIM_DRIVER(cuMemHostAlloc) || !CUSHIM_DRIVER(cuMemFreeHost))
        return cushim_fail_nosym(__func__, "cuMemHostAlloc");
    struct cushim_memory_request request = {.entry = "cuMemHostAlloc",
                                            .kind = CUSHIM_MEMORY_PINNED,
                                            .flags = flags,
                                            .bytes = bytes,
                                            .obtain = obtain_pinned};
    enum cushim_status status = cushim_memory_obtain(&scope, &request, &address);
    *p = (void *)(uintptr_t)address;
    return status;
}

enum cushim_status cushim_host_free(void *p) {
    return cushim_memory_give_back(__func__, CUSHIM_MEMORY_KIND(PINNED), (uintptr_t)p);
}

/* Memory of the program: the driver gives no address, and no idle memory could help it. */
static enum cushim_status pin(struct cushim_scope *scope, void *p, size_t bytes, unsigned flags) {
    struct cushim_address_map_row row = cushim_address_map_row_of(
        CUSHIM_MEMORY_REGISTERED, (uintptr_t)p, bytes, scope->context, NULL);
    CUresult result = CUSHIM_RELAXED(CUSHIM_DRIVER(cuMemHostRegister_v2)(p, bytes, flags));
    if (result != CUDA_SUCCESS)
        return cushim_scope_fail_cu(scope, "cuMemHostRegister_v2", result,
                                    "device=%d p=%p bytes=%zu", scope->context->device, p, bytes);
    row.flags = flags;
    enum cushim_status status = cushim_address_map_record(&row);
    if (status == CUSHIM_OK)
        return status;
    (void)CUSHIM_RELAXED(CUSHIM_DRIVER(cuMemHostUnregister)(p));
    return cushim_scope_fail(scope, status, "p=%p bytes=%zu", p, bytes);
}

enum cushim_status cushim_host_register(struct cushim_context *ctx, void *p, size_t bytes,
                                        unsigned flags) {
    const unsigned known = CUSHIM_REGISTER_FLAG_PORTABLE | CUSHIM_REGISTER_FLAG_MAPPED |
                           CUSHIM_REGISTER_FLAG_IO_MEMORY | CUSHIM_REGISTER_FLAG_READ_ONLY;
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_FAIL_IF(__func__, flags & ~known, CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_NEED(p);
    if ((uintptr_t)p > UINTPTR_MAX - (bytes - 1))
        return CUSHIM_FAIL(CUSHIM_INVALID, "p=%p bytes=%zu", p, bytes);
    CUSHIM_ENTER_CONTEXT(ctx);
    if (!CUSHIM_DRIVER(cuMemHostRegister_v2) || !CUSHIM_DRIVER(cuMemHostUnregister))
        return cushim_fail_nosym(__func__, "cuMemHostRegister_v2");
    return pin(&scope, p, bytes, flags);
}

enum cushim_status cushim_host_unregister(void *p) {
    enum cushim_status status =
        cushim_memory_give_back(__func__, CUSHIM_MEMORY_KIND(REGISTERED), (uintptr_t)p);
    /* Memory that is no longer registered is unknown, because it belongs to the program. */
    if (status == CUSHIM_DOUBLEFREE)
        return CUSHIM_FAIL(CUSHIM_UNKNOWNPTR, "p=%p is not registered any more", p);
    return status;
}

enum cushim_status cushim_host_device_pointer(void *p, cushim_devptr *dp) {
    CUSHIM_MEMORY_CALL call = {
        .n_ranges = 1, .ranges = {cushim_memory_span("p", (uintptr_t)p, 1, CUSHIM_MEMORY_AT_HOST)}};
    CUdeviceptr address = 0;
    CUSHIM_OUT(dp);
    CUSHIM_TRY(cushim_memory_enter(&call, __func__, CUSHIM_STREAM_LEGACY));
    if (call.ranges[0].is_known && call.ranges[0].row.kind == CUSHIM_MEMORY_MANAGED) {
        *dp = (uintptr_t)p; /* managed memory has one address for both */
        return CUSHIM_OK;
    }
    enum cushim_status status =
        CUSHIM_CALL(&call.scope, cuMemHostGetDevicePointer_v2, &address, p, 0);
    *dp = status == CUSHIM_OK ? address : 0;
    return status;
}
