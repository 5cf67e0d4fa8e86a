/*
 * Stream-ordered device memory.  Each context has a driver pool of its own, because other libraries
 * share the device's default pool, which we never touch.
 *
 * The pool is made at the first use and ends with its context's object.
 */

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"
#include "companion/context/pressure.h"

/* What the pool keeps when idle, until cushim_memory_async_threshold. */
static const cuuint64_t KEPT_BYTES = 512ull << 20;

/* ---- pressure ---- */

static bool measure(CUmemoryPool handle, cuuint64_t *reserved_bytes, cuuint64_t *used_bytes) {
    return CUSHIM_DRIVER(cuMemPoolGetAttribute) &&
           CUSHIM_DRIVER(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                                reserved_bytes) == CUDA_SUCCESS &&
           CUSHIM_DRIVER(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                                                used_bytes) == CUDA_SUCCESS;
}

/* Give all idle memory, because a part of the driver's one heap might be too little. */
static size_t give(struct cushim_context_object *context, size_t bytes) {
    cuuint64_t before_bytes = 0, after_bytes = 0, used_bytes;
    CUmemoryPool handle = atomic_load(&context->async_pool);
    (void)bytes;
    if (!handle || !CUSHIM_DRIVER(cuMemPoolTrimTo) ||
        !measure(handle, &before_bytes, &used_bytes) ||
        CUSHIM_DRIVER(cuMemPoolTrimTo)(handle, 0) != CUDA_SUCCESS ||
        !measure(handle, &after_bytes, &used_bytes))
        return 0;
    return before_bytes > after_bytes ? before_bytes - after_bytes : 0;
}

static void count(struct cushim_context_object *context, struct cushim_pressure_held *held) {
    cuuint64_t reserved_bytes = 0, used_bytes = 0;
    CUmemoryPool handle = atomic_load(&context->async_pool);
    if (!handle || !measure(handle, &reserved_bytes, &used_bytes))
        return;
    size_t idle_bytes = reserved_bytes > used_bytes ? reserved_bytes - used_bytes : 0;
    held->cached_bytes += idle_bytes;
    held->reusable_bytes += idle_bytes;
    held->live_bytes += used_bytes;
}

static struct cushim_pressure pressure = {.give = give, .count = count};

/* ---- the pool of a context ---- */

/* Whether this driver and device have such pools. */
static enum cushim_status ask_support(struct cushim_scope *scope, int *has_pools) {
    *has_pools = 0;
    if (!CUSHIM_DRIVER(cuMemPoolCreate) || !CUSHIM_DRIVER(cuMemPoolDestroy) ||
        !CUSHIM_DRIVER(cuMemPoolSetAttribute) || !CUSHIM_DRIVER(cuMemAllocFromPoolAsync) ||
        !CUSHIM_DRIVER(cuMemFreeAsync))
        return CUSHIM_OK;
    return CUSHIM_CALL(scope, cuDeviceGetAttribute, has_pools,
                       CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, scope->context->device);
}

static enum cushim_status make_pool(struct cushim_scope *scope, CUmemoryPool *out) {
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = scope->context->device}};
    cuuint64_t kept_bytes = KEPT_BYTES;
    CUmemoryPool made;
    *out = NULL;
    CUSHIM_TRY(CUSHIM_CALL(scope, cuMemPoolCreate, &made, &props));
    enum cushim_status status = CUSHIM_CALL(scope, cuMemPoolSetAttribute, made,
                                            CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept_bytes);
    if (status == CUSHIM_OK &&
        atomic_compare_exchange_strong(&scope->context->async_pool, out, made))
        *out = made;
    else
        CUSHIM_DRIVER(cuMemPoolDestroy)(made);
    return status;
}

/* The pool of the scope's context, made at the first use; NULL if the device has none. */
static enum cushim_status pool_of(struct cushim_scope *scope, CUmemoryPool *out) {
    int has_pools;
    *out = atomic_load(&scope->context->async_pool);
    if (*out)
        return CUSHIM_OK;
    CUSHIM_TRY(ask_support(scope, &has_pools));
    if (!has_pools)
        return CUSHIM_OK;
    cushim_pressure_add(&pressure);
    return CUSHIM_RELAXED(make_pool(scope, out));
}

/* ---- allocation ---- */

static CUresult obtain_async(struct cushim_memory_request *request, CUdeviceptr *address) {
    return CUSHIM_DRIVER(cuMemAllocFromPoolAsync)(address, request->bytes, request->pool,
                                                  request->stream);
}

static enum cushim_status alloc(struct cushim_scope *scope, CUstream stream, size_t bytes,
                                cushim_devptr *p) {
    struct cushim_memory_request request;
    CUstreamCaptureStatus state;
    CUmemoryPool pool;
    cushim_memory_plain(&request, bytes);
    CUSHIM_TRY(cushim_capture_of_stream(scope, stream, &state));
    if (state == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return cushim_scope_fail(scope, CUSHIM_CAPTURE, "invalidated, stream=%p", (void *)stream);
    CUSHIM_TRY(pool_of(scope, &pool));
    if (pool) {
        request.entry = "cuMemAllocFromPoolAsync";
        request.kind =
            state == CU_STREAM_CAPTURE_STATUS_NONE ? CUSHIM_MEMORY_ASYNC : CUSHIM_MEMORY_GRAPH;
        request.pool = pool;
        request.stream = stream;
        request.obtain = obtain_async;
    }
    return cushim_memory_obtain(scope, &request, p);
}

enum cushim_status cushim_memory_alloc_async(struct cushim_stream *s, size_t bytes,
                                             cushim_devptr *p) {
    CUSHIM_MEMORY_CALL call = {0};
    CUSHIM_OUT(p);
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_TRY(cushim_memory_enter(&call, __func__, s));
    CUSHIM_TRY(cushim_memory_may_queue(&call));
    return alloc(&call.scope, call.stream, bytes, p);
}

/* ---- and back ---- */

/*
 * Memory of a node is freed by a node of the same capture, or by the program after a launch.  In
 * the second case the next launch gets the same address, so the address map keeps it (*is_kept).  A
 * node frees no other memory.
 */
static enum cushim_status queue_free(struct cushim_memory_call *call,
                                     const struct cushim_address_map_row *row, bool *is_kept) {
    CUstreamCaptureStatus state;
    CUSHIM_TRY(cushim_memory_may_queue(call));
    CUSHIM_TRY(cushim_capture_of_stream(&call->scope, call->stream, &state));
    bool is_captured = state != CU_STREAM_CAPTURE_STATUS_NONE;
    bool is_node = row->kind == CUSHIM_MEMORY_GRAPH;
    CUSHIM_FAIL_IF(call->scope.what, is_captured && !is_node, CUSHIM_CAPTURE,
                   "ptr=0x%llx bytes=%zu is %s memory", (unsigned long long)row->start, row->bytes,
                   cushim_memory_kind_name(row->kind));
    *is_kept = is_node && !is_captured;
    if (!*is_kept)
        return CUSHIM_CALL(&call->scope, cuMemFreeAsync, row->start, call->stream);
    CUresult result = CUSHIM_DRIVER(cuMemFreeAsync)(row->start, call->stream);
    CUSHIM_FAIL_IF(call->scope.what, result == CUDA_ERROR_INVALID_VALUE, CUSHIM_STATE,
                   "ptr=0x%llx bytes=%zu is memory of a graph's node, and no launch "
                   "left it",
                   (unsigned long long)row->start, row->bytes);
    return cushim_scope_answer(&call->scope, "cuMemFreeAsync", result);
}

static enum cushim_status free_in(const char *what, struct cushim_stream *s,
                                  const struct cushim_address_map_row *row, bool *is_kept) {
    CUSHIM_MEMORY_CALL call = {0};
    CUSHIM_TRY(cushim_memory_enter_stream(&call.scope, what, s, row->context, NULL, &call.stream));
    if (!cushim_context_is_same(call.scope.context, row->context))
        return cushim_scope_fail(
            &call.scope, CUSHIM_BADDEVICE, "ptr=0x%llx is of device=%d context=%llu, not %llu",
            (unsigned long long)row->start, row->context->device,
            (unsigned long long)row->context->id, (unsigned long long)call.scope.context->id);
    if (CUSHIM_DRIVER(cuMemFreeAsync))
        return queue_free(&call, row, is_kept);
    return CUSHIM_RELAXED(CUSHIM_CALL(&call.scope, cuMemFree_v2, row->start));
}

enum cushim_status cushim_memory_free_async(cushim_devptr p, struct cushim_stream *s) {
    const unsigned plain = CUSHIM_MEMORY_KIND(DEVICE) | CUSHIM_MEMORY_KIND(ASYNC);
    struct cushim_address_map_row row;
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    if (!p)
        return CUSHIM_OK;
    if (cushim_handle_is_closed(CUSHIM_KIND_STREAM, s)) /* no work can be queued on it */
        return cushim_memory_give_back(__func__, plain, p);
    CUSHIM_TRY(cushim_memory_take(__func__, plain | CUSHIM_MEMORY_KIND(GRAPH), p, &row));
    if (!row.context) /* it was a plain block, and is freed */
        return CUSHIM_OK;
    enum cushim_status status = CUSHIM_OK;
    bool is_kept = false;
    if (!cushim_context_is_dead(row.context))
        status = free_in(__func__, s, &row, &is_kept);
    if ((status == CUSHIM_OK && !is_kept) || cushim_context_is_dead(row.context)) {
        cushim_address_map_drop(&row);
        return CUSHIM_OK;
    }
    cushim_address_map_restore(&row);
    return status;
}

/* ---- the pool's own ---- */

enum cushim_status cushim_memory_async_threshold(struct cushim_context *ctx, size_t bytes) {
    CUmemoryPool pool;
    cuuint64_t kept_bytes = bytes;
    CUSHIM_TRY(cushim_memory_check_bytes(__func__, "bytes", bytes));
    CUSHIM_ENTER_CONTEXT(ctx);
    CUSHIM_TRY(pool_of(&scope, &pool));
    CUSHIM_FAIL_IF(scope.what, !pool, CUSHIM_NOTSUPPORTED, "device=%d has no memory pools",
                   scope.context->device);
    return CUSHIM_CALL(&scope, cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                       &kept_bytes);
}

enum cushim_status cushim_memory_async_trim(struct cushim_context *ctx, size_t keep_bytes) {
    CUSHIM_TRY(cushim_memory_check_bytes(__func__, "keep_bytes", keep_bytes));
    CUSHIM_ENTER_CONTEXT(ctx);
    CUmemoryPool pool = atomic_load(&scope.context->async_pool);
    return pool ? CUSHIM_CALL(&scope, cuMemPoolTrimTo, pool, keep_bytes) : CUSHIM_OK;
}
