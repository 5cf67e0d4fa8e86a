/* Managed memory: one address for the host and all devices. */

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"

_Static_assert((int)CUSHIM_ATTACH_FLAG_GLOBAL == CU_MEM_ATTACH_GLOBAL &&
                   (int)CUSHIM_ATTACH_FLAG_HOST == CU_MEM_ATTACH_HOST &&
                   (int)CUSHIM_ATTACH_FLAG_SINGLE == CU_MEM_ATTACH_SINGLE,
               "flags are the driver's");

static CUresult obtain_managed(struct cushim_memory_request *request, CUdeviceptr *address) {
    return CUSHIM_DRIVER(cuMemAllocManaged)(address, request->bytes, request->flags);
}

/* Never give device memory instead, because the host cannot use its address. */
void cushim_memory_managed(struct cushim_memory_request *request, size_t bytes, unsigned flags) {
    cushim_memory_plain(request, bytes);
    request->entry = "cuMemAllocManaged";
    request->kind = CUSHIM_MEMORY_MANAGED;
    request->flags = flags;
    request->obtain = obtain_managed;
}

enum cushim_status cushim_memory_alloc_managed(struct cushim_context *ctx, size_t bytes,
                                               unsigned flags, cushim_devptr *p) {
    struct cushim_memory_request request;
    int has_managed = 0;
    CUSHIM_OUT(p);
    CUSHIM_TRY(cushim_driver_use(__func__));
    if (flags != CUSHIM_ATTACH_FLAG_GLOBAL && flags != CUSHIM_ATTACH_FLAG_HOST)
        return CUSHIM_FAIL(CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_NEED_ENTRY(__func__, cuMemAllocManaged);
    cushim_memory_managed(&request, bytes, flags);
    CUSHIM_TRY(CUSHIM_CALL(&scope, cuDeviceGetAttribute, &has_managed,
                           CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, scope.context->device));
    CUSHIM_FAIL_IF(scope.what, !has_managed, CUSHIM_NOTSUPPORTED, "device=%d has no managed memory",
                   scope.context->device);
    return cushim_memory_obtain(&scope, &request, p);
}

/* Begin a call on one managed range; the driver judges memory of other code. */
static enum cushim_status enter_managed(struct cushim_memory_call *call, const char *what,
                                        cushim_devptr p, size_t bytes, struct cushim_stream *s) {
    call->n_ranges = 1;
    call->ranges[0] = cushim_memory_span("p", p, bytes, CUSHIM_MEMORY_ANYWHERE);
    CUSHIM_TRY(cushim_memory_enter(call, what, s));
    const struct cushim_memory_range *range = &call->ranges[0];
    if (range->is_known && range->row.kind != CUSHIM_MEMORY_MANAGED &&
        range->row.kind != CUSHIM_MEMORY_ADOPTED)
        return cushim_scope_fail(&call->scope, CUSHIM_INVALID, "p=0x%llx is %s memory",
                                 (unsigned long long)p, cushim_memory_kind_name(range->row.kind));
    CUSHIM_TRY(cushim_capture_refuse_stream(&call->scope, call->stream));
    return cushim_memory_may_queue(call);
}

enum cushim_status cushim_memory_attach(cushim_devptr p, size_t bytes, unsigned flags,
                                        struct cushim_stream *s) {
    CUSHIM_MEMORY_CALL call = {0};
    CUSHIM_TRY(cushim_driver_use(__func__));
    if (flags != CUSHIM_ATTACH_FLAG_GLOBAL && flags != CUSHIM_ATTACH_FLAG_HOST &&
        flags != CUSHIM_ATTACH_FLAG_SINGLE)
        return CUSHIM_FAIL(CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_TRY(enter_managed(&call, __func__, p, bytes, s));
    return CUSHIM_CALL(&call.scope, cuStreamAttachMemAsync, call.stream, p, bytes, flags);
}

static enum cushim_status queue_prefetch(struct cushim_memory_call *call, cushim_devptr p,
                                         size_t bytes, int dev) {
    CUmemLocation place = {.type =
                               dev == -1 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = dev == -1 ? 0 : dev};
    if (CUSHIM_DRIVER(cuMemPrefetchAsync_v2))
        return CUSHIM_CALL(&call->scope, cuMemPrefetchAsync_v2, p, bytes, place, 0, call->stream);
    return CUSHIM_CALL(&call->scope, cuMemPrefetchAsync, p, bytes, dev == -1 ? CU_DEVICE_CPU : dev,
                       call->stream);
}

enum cushim_status cushim_memory_prefetch(cushim_devptr p, size_t bytes, int dev,
                                          struct cushim_stream *s) {
    CUSHIM_MEMORY_CALL call = {0};
    int n_devices = 0;
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_TRY(enter_managed(&call, __func__, p, bytes, s));
    CUSHIM_TRY(CUSHIM_CALL(&call.scope, cuDeviceGetCount, &n_devices));
    CUSHIM_FAIL_IF(call.scope.what, dev < -1 || dev >= n_devices, CUSHIM_BADDEVICE,
                   "dev=%d devices=%d", dev, n_devices);
    return queue_prefetch(&call, p, bytes, dev);
}
