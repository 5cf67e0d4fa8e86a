/* Calls on ranges: their rows of the address map, the context they run in, their stream. */
#include "companion/memory/memory.h"

#include "companion/capture/known_captures.h"
#include "companion/stream/stream.h"

enum cushim_status cushim_memory_check_bytes(const char *what, const char *name, size_t bytes) {
    CUSHIM_TRY(cushim_driver_use(what));
    if (bytes > (size_t)INT64_MAX)
        return cushim_fail(what, CUSHIM_INVALID, "%s=%lld", name, (long long)bytes);
    return CUSHIM_OK;
}

const char *cushim_memory_kind_name(enum cushim_memory_kind kind) {
    static const char *const names[] = {
        [CUSHIM_MEMORY_DEVICE] = "device",        [CUSHIM_MEMORY_MANAGED] = "managed",
        [CUSHIM_MEMORY_PINNED] = "pinned",        [CUSHIM_MEMORY_REGISTERED] = "registered",
        [CUSHIM_MEMORY_ASYNC] = "stream-ordered", [CUSHIM_MEMORY_ADOPTED] = "adopted",
        [CUSHIM_MEMORY_IPC] = "other process's",  [CUSHIM_MEMORY_GLOBAL] = "module's global",
        [CUSHIM_MEMORY_GRAPH] = "graph's",        [CUSHIM_MEMORY_MAPPED] = "mapper's"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

bool cushim_memory_is_bound(const struct cushim_address_map_row *row) {
    return row->kind != CUSHIM_MEMORY_MANAGED && row->kind != CUSHIM_MEMORY_PINNED &&
           row->kind != CUSHIM_MEMORY_REGISTERED;
}

/* ---- ranges ---- */

static bool is_at(const struct cushim_address_map_row *row, enum cushim_memory_place place) {
    bool is_host = row->kind == CUSHIM_MEMORY_PINNED || row->kind == CUSHIM_MEMORY_REGISTERED;
    if (place == CUSHIM_MEMORY_ANYWHERE || row->kind == CUSHIM_MEMORY_MANAGED)
        return true;
    if (is_host) /* mapped memory has an address of the device, too: CU_MEMHOSTALLOC_DEVICEMAP */
        return place == CUSHIM_MEMORY_AT_HOST || (row->flags & CU_MEMHOSTALLOC_DEVICEMAP);
    /* The driver judges adopted memory, because it may be of any kind. */
    return place == CUSHIM_MEMORY_AT_DEVICE || row->kind == CUSHIM_MEMORY_ADOPTED;
}

static enum cushim_status judge_range(const char *what, const struct cushim_memory_range *range) {
    const struct cushim_address_map_row *row = &range->row;
    uint64_t left_bytes = row->bytes - (range->address - row->start);
    if (!is_at(row, range->place))
        return cushim_fail(what, CUSHIM_INVALID, "%s=0x%llx is %s memory", range->name,
                           (unsigned long long)range->address, cushim_memory_kind_name(row->kind));
    if (range->bytes > left_bytes)
        return cushim_fail(what, CUSHIM_INVALID, "%s=0x%llx bytes=%zu left=%llu of block=%zu",
                           range->name, (unsigned long long)range->address, range->bytes,
                           (unsigned long long)left_bytes, row->bytes);
    return CUSHIM_OK;
}

static enum cushim_status find_ranges(struct cushim_memory_call *call, const char *what) {
    for (unsigned i = 0; i < call->n_ranges; i++) {
        struct cushim_memory_range *range = &call->ranges[i];
        CUSHIM_FAIL_IF(what, !range->address, CUSHIM_INVALID, "%s=NULL", range->name);
        range->is_known = cushim_address_map_find(range->address, &range->row);
        if (range->is_known)
            CUSHIM_TRY(judge_range(what, range));
    }
    return CUSHIM_OK;
}

/* The context that the ranges ask for: of the first that is bound to one, else of the first known.
 */
static struct cushim_context_object *context_of(const struct cushim_memory_call *call) {
    struct cushim_context_object *any = NULL;
    for (unsigned i = 0; i < call->n_ranges; i++) {
        const struct cushim_memory_range *range = &call->ranges[i];
        if (range->is_known && cushim_memory_is_bound(&range->row))
            return range->row.context;
        if (range->is_known && !any)
            any = range->row.context;
    }
    return any;
}

/* The memory must belong to this context, and its context must live. */
static enum cushim_status judge_contexts(struct cushim_memory_call *call) {
    for (unsigned i = 0; i < call->n_ranges; i++) {
        const struct cushim_memory_range *range = &call->ranges[i];
        if (!range->is_known || !cushim_memory_is_bound(&range->row))
            continue;
        const struct cushim_context_object *context = range->row.context;
        CUSHIM_FAIL_IF(call->scope.what, cushim_context_is_dead(context), CUSHIM_DEADCONTEXT,
                       "%s=0x%llx", range->name, (unsigned long long)range->address);
        if (!call->is_peer && !cushim_context_is_same(context, call->scope.context))
            return cushim_scope_fail(
                &call->scope, CUSHIM_BADDEVICE, "%s=0x%llx is of device=%d context=%llu, not %llu",
                range->name, (unsigned long long)range->address, context->device,
                (unsigned long long)context->id, (unsigned long long)call->scope.context->id);
    }
    return CUSHIM_OK;
}

/* ---- entering ---- */

enum cushim_status cushim_memory_enter_stream(struct cushim_scope *scope, const char *what,
                                              struct cushim_stream *stream,
                                              struct cushim_context_object *context,
                                              struct cushim_context *ctx, CUstream *handle) {
    struct cushim_stream_object *object;
    *handle = stream == CUSHIM_STREAM_PER_THREAD ? CU_STREAM_PER_THREAD : NULL;
    if (!cushim_stream_is_special(stream)) {
        CUSHIM_TRY(cushim_call_begin_object(scope, what, CUSHIM_KIND_STREAM, stream, &object));
        *handle = object->handle;
        return CUSHIM_OK;
    }
    return context ? cushim_call_begin_known(scope, what, context)
                   : cushim_call_begin_context(scope, what, ctx);
}

enum cushim_status cushim_memory_enter(struct cushim_memory_call *call, const char *what,
                                       struct cushim_stream *stream) {
    CUSHIM_TRY(cushim_driver_use(what));
    CUSHIM_TRY(find_ranges(call, what));
    CUSHIM_TRY(cushim_memory_enter_stream(&call->scope, what, stream, context_of(call), call->ctx,
                                          &call->stream));
    return judge_contexts(call);
}

enum cushim_status cushim_memory_leave(struct cushim_memory_call *call, enum cushim_status status) {
    status = cushim_call_end(&call->scope, status);
    for (unsigned i = 0; i < call->n_ranges; i++) {
        if (call->ranges[i].is_known)
            cushim_address_map_drop(&call->ranges[i].row);
        call->ranges[i].is_known = false;
    }
    for (unsigned i = 0; i < 2; i++) {
        cushim_object_release(call->ends[i]);
        call->ends[i] = NULL;
    }
    return status;
}

/*
 * Work on the legacy stream would invalidate a capture of a blocking stream.  The driver says
 * whether there is one, and the question leaves captures valid.  We ask only if a capture is known;
 * if the driver refuses, so do we.
 */
enum cushim_status cushim_memory_may_queue(struct cushim_memory_call *call) {
    CUstreamCaptureStatus state;
    bool is_legacy = call->stream == NULL || call->stream == CU_STREAM_LEGACY;
    if (!is_legacy || !cushim_capture_count(call->scope.context))
        return CUSHIM_OK;
    if (CUSHIM_DRIVER(cuStreamIsCapturing) &&
        CUSHIM_DRIVER(cuStreamIsCapturing)(CU_STREAM_LEGACY, &state) == CUDA_SUCCESS)
        return CUSHIM_OK;
    return cushim_capture_refuse(&call->scope);
}

enum cushim_status cushim_memory_wait(struct cushim_memory_call *call) {
    return cushim_stream_wait(&call->scope, call->stream);
}
