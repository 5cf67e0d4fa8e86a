/* The public calls on contexts (cushim/context.h). */
#include "cushim/context.h"

#include "cuda/translate.h"
#include "companion/context/call.h"
#include "companion/context/context_stack.h"

enum {
    SCHEDULE = CUSHIM_CONTEXT_FLAG_SPIN | CUSHIM_CONTEXT_FLAG_YIELD | CUSHIM_CONTEXT_FLAG_BLOCKING,
    KNOWN = SCHEDULE | CUSHIM_CONTEXT_FLAG_MAP_HOST | CUSHIM_CONTEXT_FLAG_RESIZE_LMEM |
            CUSHIM_CONTEXT_FLAG_PUSH
};

/* ---- making ---- */

enum cushim_status cushim_context_create(int dev, unsigned flags, struct cushim_context **ctx) {
    struct cushim_context_object *context;
    unsigned schedule = flags & SCHEDULE;
    CUSHIM_OUT(ctx);
    if (flags & ~(unsigned)KNOWN || schedule & (schedule - 1))
        return CUSHIM_FAIL(CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_context_ordinal(__func__, dev, &dev));
    CUSHIM_TRY(
        cushim_context_make(__func__, dev, flags & ~(unsigned)CUSHIM_CONTEXT_FLAG_PUSH, &context));
    enum cushim_status status = cushim_handle_share(&context->object, ctx);
    if (status == CUSHIM_OK && flags & CUSHIM_CONTEXT_FLAG_PUSH)
        status = cushim_stack_push(__func__, context);
    if (status != CUSHIM_OK) {
        cushim_object_close(&context->object);
        cushim_context_bury(context);
        CUSHIM_DRIVER(cuCtxDestroy_v2)(context->handle);
        *ctx = NULL;
    }
    cushim_object_release(context);
    return status;
}

/* Its handle; the reference goes. */
static enum cushim_status give_handle(struct cushim_context_object *context,
                                      struct cushim_context **ctx) {
    enum cushim_status status = cushim_handle_share(&context->object, ctx);
    cushim_object_release(context);
    return status;
}

enum cushim_status cushim_context_primary(int dev, struct cushim_context **ctx) {
    struct cushim_context_object *context;
    CUSHIM_OUT(ctx);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_context_of_device(__func__, dev, &context));
    return give_handle(context, ctx);
}

enum cushim_status cushim_context_wrap(struct CUctx_st *cu, struct cushim_context **ctx) {
    struct cushim_context_object *context;
    CUSHIM_OUT(ctx);
    CUSHIM_NEED(cu);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_context_of_handle(__func__, cu, &context));
    return give_handle(context, ctx);
}

/* An owned context is destroyed now, even if other objects refer to it; of the others only our
 * reference goes. */
static enum cushim_status end(struct cushim_context_object *context) {
    CUresult result = CUDA_SUCCESS;
    bool was_dead = cushim_context_is_dead(context) || cushim_driver_use(__func__) != CUSHIM_OK;
    if (context->form == CUSHIM_CONTEXT_OWNED)
        cushim_context_bury(context);
    else
        cushim_context_forget(context);
    if (was_dead)
        return CUSHIM_OK;
    cushim_stack_settle(); /* before the destroy, while the current context can be compared */
    if (context->form == CUSHIM_CONTEXT_OWNED)
        result = CUSHIM_DRIVER(cuCtxDestroy_v2)(context->handle);
    if (result == CUDA_SUCCESS || cushim_status_from_cu(result) == CUSHIM_DEADCONTEXT ||
        result == CUDA_ERROR_INVALID_CONTEXT)
        return CUSHIM_OK;
    return cushim_fail_cu("cuCtxDestroy", result, "device=%d", context->device);
}

enum cushim_status cushim_context_destroy(struct cushim_context *ctx) {
    CUSHIM_PIN pin = {0};
    if (!ctx)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_call_close_handle(&pin, __func__, CUSHIM_KIND_CONTEXT, ctx));
    return end((struct cushim_context_object *)pin.object);
}

/* ---- the stack ---- */

enum cushim_status cushim_context_push(struct cushim_context *ctx) {
    CUSHIM_ENTER(CONTEXT, context, ctx);
    /* The scope ends first, because the stack must remember the context that was current before. */
    cushim_object_keep(context);
    cushim_call_end(&scope, CUSHIM_OK);
    enum cushim_status status = cushim_stack_push(__func__, context);
    cushim_object_release(context);
    return status;
}

enum cushim_status cushim_context_pop(struct cushim_context **ctx) {
    struct cushim_context_object *context;
    CUSHIM_CLEAR(ctx);
    CUSHIM_TRY(cushim_driver_use(__func__));
    CUSHIM_TRY(cushim_stack_pop(__func__, &context));
    if (ctx)
        *ctx = context->object.handle;
    cushim_object_release(context);
    return CUSHIM_OK;
}

enum cushim_status cushim_context_current(struct cushim_context **ctx) {
    struct cushim_context_object *context = NULL;
    CUcontext current = NULL;
    CUSHIM_OUT(ctx);
    CUSHIM_TRY(cushim_driver_use(__func__));
    struct cushim_context_object *top = cushim_stack_top();
    if (top) {
        *ctx = top->object.handle;
        return CUSHIM_OK;
    }
    CUSHIM_TRY(CUSHIM_ASK(__func__, cuCtxGetCurrent, (&current), "%s", ""));
    if (!current)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_context_of_handle(__func__, current, &context));
    return give_handle(context, ctx);
}

/* ---- questions and settings ---- */

CUSHIM_FACT(CONTEXT, context, handle, struct CUctx_st *, cu, context->handle)
CUSHIM_FACT(CONTEXT, context, id, uint64_t, id, context->id)

enum cushim_status cushim_context_device(struct cushim_context *ctx, int *dev) {
    CUSHIM_OUT(dev);
    CUSHIM_ENTER_CONTEXT(ctx);
    *dev = scope.context->device;
    return CUSHIM_OK;
}

enum cushim_status cushim_context_limit_get(struct cushim_context *ctx, int limit, size_t *value) {
    CUSHIM_OUT(value);
    CUSHIM_ENTER_CONTEXT(ctx);
    return CUSHIM_CALL(&scope, cuCtxGetLimit, value, (CUlimit)limit);
}

enum cushim_status cushim_context_limit_set(struct cushim_context *ctx, int limit, size_t value) {
    CUSHIM_FAIL_IF(__func__, value > SIZE_MAX / 2, CUSHIM_INVALID, "value=%zu", value);
    CUSHIM_ENTER_CONTEXT(ctx);
    return CUSHIM_CALL(&scope, cuCtxSetLimit, (CUlimit)limit, value);
}

enum cushim_status cushim_context_cache_get(struct cushim_context *ctx, int *value) {
    CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
    CUSHIM_OUT(value);
    CUSHIM_ENTER_CONTEXT(ctx);
    enum cushim_status status = CUSHIM_CALL(&scope, cuCtxGetCacheConfig, &cache);
    *value = (int)cache;
    return status;
}

enum cushim_status cushim_context_cache_set(struct cushim_context *ctx, int value) {
    CUSHIM_ENTER_CONTEXT(ctx);
    return CUSHIM_CALL(&scope, cuCtxSetCacheConfig, (CUfunc_cache)value);
}

enum cushim_status cushim_context_check(struct cushim_context *ctx) {
    CUSHIM_ENTER_CONTEXT(ctx);
    enum cushim_status status = CUSHIM_OK;
    int first = load_acquire(&scope.context->first_result);
    if (first)
        status = cushim_fail_cu(scope.context->first_entry, (CUresult)first,
                                "device=%d seen before", scope.context->device);
    return status;
}

enum cushim_status cushim_context_capture_enter(struct cushim_context *ctx) {
    CUSHIM_ENTER_CONTEXT(ctx);
    atomic_fetch_add(&scope.context->n_announced, 1);
    cushim_changes_note();
    return CUSHIM_OK;
}

enum cushim_status cushim_context_capture_leave(struct cushim_context *ctx) {
    CUSHIM_ENTER_CONTEXT(ctx);
    int n = atomic_load(&scope.context->n_announced);
    while (n > 0 && !atomic_compare_exchange_weak(&scope.context->n_announced, &n, n - 1)) {
    }
    return n > 0 ? CUSHIM_OK : cushim_scope_fail(&scope, CUSHIM_STATE, "announced=0");
}
