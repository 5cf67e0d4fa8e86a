/*
 * Copies between contexts and devices.  Each end has a context of its own: that of its row in the
 * address map, else the one given, else that of a call without a context.
 */
#include "cushim/memory_copy.h"

#include "base/try.h"
#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"
#include "companion/stream/stream.h"

/* The context of one end, kept. */
static enum cushim_status choose(struct cushim_memory_call *call,
                                 const struct cushim_memory_range *range,
                                 struct cushim_context *ctx, struct cushim_context_object **out) {
    struct cushim_context_object *ledgers =
        range->is_known && cushim_memory_is_bound(&range->row) ? range->row.context : NULL;
    struct cushim_pin pin;
    *out = NULL;
    if (!ctx) {
        if (!ledgers)
            return cushim_context_choose(call->scope.what, out);
        *out = cushim_object_keep(ledgers);
        return CUSHIM_OK;
    }
    struct cushim_context_object *given = cushim_handle_pin(&pin, CUSHIM_KIND_CONTEXT, ctx);
    if (!given)
        return cushim_scope_fail(&call->scope, CUSHIM_BADHANDLE, "context=%p", (void *)ctx);
    cushim_object_keep(given);
    cushim_handle_unpin(&pin);
    enum cushim_status status = CUSHIM_OK;
    if (cushim_context_is_dead(given))
        status = cushim_scope_fail(&call->scope, CUSHIM_DEADCONTEXT, "context=%p", (void *)ctx);
    else if (ledgers && !cushim_context_is_same(ledgers, given))
        status = cushim_scope_fail(&call->scope, CUSHIM_BADDEVICE,
                                   "%s=0x%llx is of device=%d context=%llu, not %llu", range->name,
                                   (unsigned long long)range->address, ledgers->device,
                                   (unsigned long long)ledgers->id, (unsigned long long)given->id);
    if (status != CUSHIM_OK)
        cushim_object_release(given);
    else
        *out = given;
    return status;
}

/* Host and managed memory is at home in every context. */
static bool is_anywhere(const struct cushim_memory_range *range, const struct cushim_context *ctx) {
    return !ctx && (range->place == CUSHIM_MEMORY_AT_HOST ||
                    (range->is_known && !cushim_memory_is_bound(&range->row)));
}

enum cushim_status cushim_memory_ends(struct cushim_memory_call *call, struct cushim_context *dctx,
                                      struct cushim_context *sctx,
                                      struct cushim_context_object *ends[2]) {
    struct cushim_context *const given[2] = {dctx, sctx};
    enum cushim_status status = CUSHIM_OK;
    ends[0] = ends[1] = NULL;
    for (int i = 0; i < 2 && status == CUSHIM_OK; i++)
        status = choose(call, &call->ranges[i], given[i], &ends[i]);
    for (int i = 0; i < 2 && status == CUSHIM_OK; i++) {
        if (is_anywhere(&call->ranges[i], given[i])) {
            cushim_object_release(ends[i]);
            ends[i] = cushim_object_keep(ends[!i]);
        }
    }
    if (status != CUSHIM_OK) {
        cushim_object_release(ends[0]);
        ends[0] = NULL;
    }
    return status;
}

enum cushim_status cushim_memory_judge_stream(struct cushim_memory_call *call,
                                              struct cushim_context_object *const ends[2]) {
    const struct cushim_context_object *context = call->scope.context;
    if (cushim_context_is_same(context, ends[0]) || cushim_context_is_same(context, ends[1]))
        return CUSHIM_OK;
    return cushim_scope_fail(&call->scope, CUSHIM_BADDEVICE, "context of the stream=%llu",
                             (unsigned long long)context->id);
}

static enum cushim_status enter(struct cushim_memory_call *call, const char *what,
                                cushim_devptr dst, cushim_devptr src, size_t bytes,
                                struct cushim_context *ctx, struct cushim_stream *s) {
    *call = (struct cushim_memory_call){
        .is_peer = true,
        .ctx = ctx,
        .n_ranges = 2,
        .ranges = {
            {.name = "dst", .address = dst, .bytes = bytes, .place = CUSHIM_MEMORY_AT_DEVICE},
            {.name = "src", .address = src, .bytes = bytes, .place = CUSHIM_MEMORY_AT_DEVICE}}};
    return cushim_memory_enter(call, what, s);
}

/* ---- and wait ---- */

/*
 * In the context of dst.  The driver orders the copy behind and before the work of both contexts
 * and returns early; the wait is for the legacy stream there, which it puts the copy in front of.
 */
static enum cushim_status copy_now(const char *what, struct cushim_context_object *const ends[2],
                                   cushim_devptr dst, cushim_devptr src, size_t bytes) {
    struct cushim_scope scope;
    CUSHIM_TRY(cushim_call_begin_known(&scope, what, ends[0]));
    enum cushim_status status = cushim_capture_refuse(&scope);
    if (status == CUSHIM_OK && cushim_capture_count(ends[1]))
        status = cushim_scope_fail(&scope, CUSHIM_CAPTURE, "in the context of src");
    if (status == CUSHIM_OK)
        status =
            CUSHIM_CALL(&scope, cuMemcpyPeer, dst, ends[0]->handle, src, ends[1]->handle, bytes);
    if (status == CUSHIM_OK)
        status = cushim_stream_wait(&scope, NULL);
    return cushim_call_end(&scope, status);
}

enum cushim_status cushim_memory_copy_peer(cushim_devptr dst, struct cushim_context *dctx,
                                           cushim_devptr src, struct cushim_context *sctx,
                                           size_t bytes) {
    struct cushim_memory_call call;
    struct cushim_context_object *ends[2];
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_memory_check_bytes(__func__, "bytes", bytes));
    if (!bytes)
        return CUSHIM_OK;
    CUSHIM_TRY(enter(&call, __func__, dst, src, bytes, dctx ? dctx : sctx, CUSHIM_STREAM_LEGACY));
    enum cushim_status status = cushim_memory_ends(&call, dctx, sctx, ends);
    if (status == CUSHIM_OK) {
        status = copy_now(__func__, ends, dst, src, bytes);
        cushim_object_release(ends[0]);
        cushim_object_release(ends[1]);
    }
    return cushim_memory_leave(&call, status);
}

/* ---- in the order of a stream ---- */

enum cushim_status cushim_memory_copy_peer_async(cushim_devptr dst, struct cushim_context *dctx,
                                                 cushim_devptr src, struct cushim_context *sctx,
                                                 size_t bytes, struct cushim_stream *s) {
    struct cushim_memory_call call;
    struct cushim_context_object *ends[2];
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_memory_check_bytes(__func__, "bytes", bytes));
    if (!bytes)
        return CUSHIM_OK;
    CUSHIM_TRY(enter(&call, __func__, dst, src, bytes, dctx ? dctx : sctx, s));
    enum cushim_status status = cushim_memory_ends(&call, dctx, sctx, ends);
    if (status == CUSHIM_OK) {
        status = cushim_memory_judge_stream(&call, ends);
        if (status == CUSHIM_OK)
            status = cushim_memory_may_queue(&call);
        if (status == CUSHIM_OK)
            status = CUSHIM_CALL(&call.scope, cuMemcpyPeerAsync, dst, ends[0]->handle, src,
                                 ends[1]->handle, bytes, call.stream);
        cushim_object_release(ends[0]);
        cushim_object_release(ends[1]);
    }
    return cushim_memory_leave(&call, status);
}
