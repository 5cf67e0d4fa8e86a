/*
 * Copies between contexts and devices.  Each end has its own context: that of its row in the
 * address map, else the one given, else the context of a call without one.
 */

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"
#include "companion/stream/stream.h"

/* The context of one end, kept. */
static enum cushim_status choose(struct cushim_memory_call *call,
                                 const struct cushim_memory_range *range,
                                 struct cushim_context *ctx, struct cushim_context_object **out) {
    struct cushim_context_object *ledgers =
        range->is_known && cushim_memory_is_bound(&range->row) ? range->row.context : NULL;
    CUSHIM_PIN pin = {0};
    *out = NULL;
    if (!ctx && !ledgers)
        return cushim_context_choose(call->scope.what, out);
    struct cushim_context_object *given =
        ctx ? cushim_handle_pin(&pin, CUSHIM_KIND_CONTEXT, ctx) : ledgers;
    CUSHIM_FAIL_IF(call->scope.what, !given, CUSHIM_BADHANDLE, "context=%p", (void *)ctx);
    if (ctx && cushim_context_is_dead(given))
        return cushim_scope_fail(&call->scope, CUSHIM_DEADCONTEXT, "context=%p", (void *)ctx);
    CUSHIM_FAIL_IF(call->scope.what, ledgers && !cushim_context_is_same(ledgers, given),
                   CUSHIM_BADDEVICE, "%s=0x%llx is of device=%d context=%llu, not %llu",
                   range->name, (unsigned long long)range->address, ledgers->device,
                   (unsigned long long)ledgers->id, (unsigned long long)given->id);
    *out = cushim_object_keep(given);
    return CUSHIM_OK;
}

enum cushim_status cushim_memory_ends(struct cushim_memory_call *call, struct cushim_context *dctx,
                                      struct cushim_context *sctx) {
    struct cushim_context *const given[2] = {dctx, sctx};
    for (int i = 0; i < 2; i++)
        CUSHIM_TRY(choose(call, &call->ranges[i], given[i], &call->ends[i]));
    for (int i = 0; i < 2; i++) {
        const struct cushim_memory_range *range = &call->ranges[i];
        /* host and managed memory belongs to every context */
        if (!given[i] && (range->place == CUSHIM_MEMORY_AT_HOST ||
                          (range->is_known && !cushim_memory_is_bound(&range->row)))) {
            cushim_object_release(call->ends[i]);
            call->ends[i] = cushim_object_keep(call->ends[!i]);
        }
    }
    return CUSHIM_OK;
}

enum cushim_status cushim_memory_judge_stream(struct cushim_memory_call *call) {
    const struct cushim_context_object *context = call->scope.context;
    if (cushim_context_is_same(context, call->ends[0]) ||
        cushim_context_is_same(context, call->ends[1]))
        return CUSHIM_OK;
    return cushim_scope_fail(&call->scope, CUSHIM_BADDEVICE, "context of the stream=%llu",
                             (unsigned long long)context->id);
}

/* Enter, and find the contexts of both ends. */
static enum cushim_status enter(struct cushim_memory_call *call, const char *what,
                                cushim_devptr dst, struct cushim_context *dctx, cushim_devptr src,
                                struct cushim_context *sctx, size_t bytes,
                                struct cushim_stream *s) {
    *call = (struct cushim_memory_call){
        .is_peer = true,
        .ctx = dctx ? dctx : sctx,
        .n_ranges = 2,
        .ranges = {cushim_memory_span("dst", dst, bytes, CUSHIM_MEMORY_AT_DEVICE),
                   cushim_memory_span("src", src, bytes, CUSHIM_MEMORY_AT_DEVICE)}};
    CUSHIM_TRY(cushim_memory_enter(call, what, s));
    return cushim_memory_ends(call, dctx, sctx);
}

/* ---- and wait ---- */

/*
 * In the context of dst.  The driver orders the copy behind and before the work of both contexts
 * and returns early; the wait is for the legacy stream there, which it puts the copy in front of.
 */
static enum cushim_status copy_now(const char *what, struct cushim_context_object *const ends[2],
                                   cushim_devptr dst, cushim_devptr src, size_t bytes) {
    CUSHIM_SCOPE scope = {0};
    CUSHIM_TRY(cushim_call_begin_known(&scope, what, ends[0]));
    CUSHIM_TRY(cushim_capture_refuse(&scope));
    if (cushim_capture_count(ends[1]))
        return cushim_scope_fail(&scope, CUSHIM_CAPTURE, "in the context of src");
    CUSHIM_TRY(
        CUSHIM_CALL(&scope, cuMemcpyPeer, dst, ends[0]->handle, src, ends[1]->handle, bytes));
    return cushim_stream_wait(&scope, NULL);
}

enum cushim_status cushim_memory_copy_peer(cushim_devptr dst, struct cushim_context *dctx,
                                           cushim_devptr src, struct cushim_context *sctx,
                                           size_t bytes) {
    CUSHIM_MEMORY_CALL call = {0};
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_TRY(enter(&call, __func__, dst, dctx, src, sctx, bytes, CUSHIM_STREAM_LEGACY));
    return copy_now(__func__, call.ends, dst, src, bytes);
}

/* ---- in the order of a stream ---- */

enum cushim_status cushim_memory_copy_peer_async(cushim_devptr dst, struct cushim_context *dctx,
                                                 cushim_devptr src, struct cushim_context *sctx,
                                                 size_t bytes, struct cushim_stream *s) {
    CUSHIM_MEMORY_CALL call = {0};
    CUSHIM_SOME_BYTES(__func__, bytes);
    CUSHIM_TRY(enter(&call, __func__, dst, dctx, src, sctx, bytes, s));
    CUSHIM_TRY(cushim_memory_judge_stream(&call));
    CUSHIM_TRY(cushim_memory_may_queue(&call));
    return CUSHIM_CALL(&call.scope, cuMemcpyPeerAsync, dst, call.ends[0]->handle, src,
                       call.ends[1]->handle, bytes, call.stream);
}
