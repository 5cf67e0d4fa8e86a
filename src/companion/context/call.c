#include "companion/context/call.h"

#include <string.h>

#include "companion/core/handle_pin.h"

static void put_pointer(void *out, void *value) {
    memcpy(out, &value, sizeof value);
}

/* The fields that every scope sets; the others are set before they are read. */
static inline void begin(struct cushim_scope *scope, const char *what,
                         struct cushim_context_object *context) {
    scope->what = what;
    scope->pin.object = NULL;
    scope->context = context;
    scope->is_kept = scope->is_changed = scope->is_dead = false;
}

/* Another context is current, or the driver could not say which is. */
static COLD enum cushim_status exchange(struct cushim_scope *scope, CUresult result) {
    CUcontext handle = scope->context->handle;
    if (result != CUDA_SUCCESS)
        return cushim_scope_fail_cu(scope, "cuCtxGetCurrent", result, "%s", "");
    result = CUSHIM_DRIVER(cuCtxSetCurrent)(handle);
    if (result == CUDA_SUCCESS) {
        scope->is_changed = true;
        return CUSHIM_OK;
    }
    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_INVALID_VALUE) {
        cushim_context_bury(scope->context); /* destroyed by others */
        return cushim_scope_fail(scope, CUSHIM_DEADCONTEXT, "device=%d", scope->context->device);
    }
    return cushim_scope_fail_cu(scope, "cuCtxSetCurrent", result, "device=%d",
                                scope->context->device);
}

/* Make the scope's context current.  After a failure the caller drops the pin and the reference. */
static inline enum cushim_status make_current(struct cushim_scope *scope) {
    CUresult result = CUSHIM_DRIVER(cuCtxGetCurrent)(&scope->before);
    return likely(result == CUDA_SUCCESS && scope->before == scope->context->handle)
               ? CUSHIM_OK
               : exchange(scope, result);
}

/* After a failure: let go of all. */
static COLD enum cushim_status give_up(struct cushim_scope *scope, enum cushim_status status) {
    cushim_handle_unpin(&scope->pin);
    if (scope->is_kept)
        cushim_object_release(scope->context);
    scope->is_kept = false;
    return status;
}

static inline enum cushim_status go_in(struct cushim_scope *scope) {
    if (!scope->context)
        return CUSHIM_OK;
    enum cushim_status status = cushim_driver_use(scope->what);
    if (unlikely(status == CUSHIM_OK && cushim_context_is_dead(scope->context)))
        status = cushim_scope_fail(scope, CUSHIM_DEADCONTEXT, "device=%d", scope->context->device);
    if (status == CUSHIM_OK)
        status = make_current(scope);
    return likely(status == CUSHIM_OK) ? status : give_up(scope, status);
}

/* A context is its own. */
static struct cushim_context_object *context_of(struct cushim_object *object) {
    return object->kind == CUSHIM_KIND_CONTEXT ? (struct cushim_context_object *)object
                                               : object->context;
}

/* The reason why a value is not an open handle. */
static COLD enum cushim_status refuse(const char *what, const void *handle) {
    CUSHIM_FAIL_IF(what, !handle, CUSHIM_INVALID, "handle=NULL");
    cushim_handle_sweep(); /* because a fast path that gave up did not look for closed handles */
    CUSHIM_TRY(cushim_driver_use(what)); /* the lack of a driver is the better answer */
    return cushim_fail(what, CUSHIM_BADHANDLE, "handle=%p", handle);
}

enum cushim_status cushim_call_begin_object(struct cushim_scope *scope, const char *what,
                                            enum cushim_kind kind, const void *handle,
                                            void *object) {
    begin(scope, what, NULL);
    put_pointer(object, NULL);
    /* if the driver is ready, the process is no forked child, and forks are watched */
    if (handle && !cushim_driver_is_ready())
        CUSHIM_TRY(cushim_driver_use_process(what));
    struct cushim_object *found = cushim_pin(&scope->pin, kind, handle);
    if (unlikely(!found))
        return refuse(what, handle);
    scope->context = context_of(found);
    CUSHIM_TRY(go_in(scope));
    put_pointer(object, found);
    return CUSHIM_OK;
}

enum cushim_status cushim_call_close_handle(struct cushim_pin *pin, const char *what,
                                            enum cushim_kind kind, const void *handle) {
    CUSHIM_TRY(cushim_driver_use_process(what));
    struct cushim_object *object = cushim_handle_pin(pin, kind, handle);
    bool is_lent = object && atomic_load(&object->n_borrowers);
    if (object && !is_lent && cushim_handle_close(pin))
        return CUSHIM_OK;
    cushim_handle_unpin(pin);
    return is_lent ? cushim_fail(what, CUSHIM_STATE, "borrowed from a client, handle=%p", handle)
                   : cushim_fail(what, CUSHIM_BADHANDLE, "handle=%p", handle);
}

enum cushim_status cushim_call_begin_destroy(struct cushim_scope *scope, const char *what,
                                             enum cushim_kind kind, const void *handle,
                                             void *object) {
    begin(scope, what, NULL);
    put_pointer(object, NULL);
    CUSHIM_TRY(cushim_call_close_handle(&scope->pin, what, kind, handle));
    scope->context = context_of(scope->pin.object);
    put_pointer(object, scope->pin.object);
    if (!scope->context)
        return CUSHIM_OK;
    /* A destroy does not fail because its context or driver is gone. */
    scope->is_dead = cushim_driver_use(what) != CUSHIM_OK ||
                     cushim_context_is_dead(scope->context) || make_current(scope) != CUSHIM_OK;
    return CUSHIM_OK;
}

enum cushim_status cushim_call_begin_context(struct cushim_scope *scope, const char *what,
                                             struct cushim_context *ctx) {
    struct cushim_context_object *context;
    if (ctx)
        return cushim_call_begin_object(scope, what, CUSHIM_KIND_CONTEXT, ctx, &context);
    begin(scope, what, NULL);
    CUSHIM_TRY(cushim_driver_use(what));
    CUSHIM_TRY(cushim_context_choose(what, &scope->context));
    scope->is_kept = true;
    return go_in(scope);
}

enum cushim_status cushim_call_begin_known(struct cushim_scope *scope, const char *what,
                                           struct cushim_context_object *context) {
    begin(scope, what, context);
    CUSHIM_TRY(cushim_driver_use_process(what));
    return go_in(scope);
}

enum cushim_status cushim_call_begin_taken(struct cushim_scope *scope, const char *what,
                                           struct cushim_context_object *context) {
    enum cushim_status status = cushim_call_begin_known(scope, what, context);
    scope->is_kept = status == CUSHIM_OK;
    if (!scope->is_kept)
        cushim_object_release(context);
    return status;
}

enum cushim_status cushim_call_begin_device(struct cushim_scope *scope, const char *what,
                                            int device) {
    struct cushim_context_object *context;
    CUSHIM_TRY(cushim_driver_use(what));
    CUSHIM_TRY(cushim_context_of_device(what, device, &context));
    return cushim_call_begin_taken(scope, what, context);
}

enum cushim_status cushim_call_destroy(const char *what, enum cushim_kind kind,
                                       const void *handle) {
    CUSHIM_SCOPE scope = {0};
    void *object;
    return handle ? cushim_call_begin_destroy(&scope, what, kind, handle, &object) : CUSHIM_OK;
}

bool cushim_call_begin_quietly(struct cushim_scope *scope, struct cushim_context_object *context) {
    begin(scope, "cushim_finish", context);
    if (load_acquire(&cushim_driver_state_now) != CUSHIM_DRIVER_READY ||
        cushim_context_is_dead(context))
        return false;
    if (CUSHIM_DRIVER(cuCtxGetCurrent)(&scope->before) != CUDA_SUCCESS)
        return false;
    if (scope->before == context->handle)
        return true;
    scope->is_changed = CUSHIM_DRIVER(cuCtxSetCurrent)(context->handle) == CUDA_SUCCESS;
    return scope->is_changed;
}

/* The call itself may have destroyed the context that was current; then none is. */
static COLD void exchange_back(struct cushim_scope *scope) {
    scope->is_changed = false;
    if (CUSHIM_DRIVER(cuCtxSetCurrent)(scope->before) != CUDA_SUCCESS)
        CUSHIM_DRIVER(cuCtxSetCurrent)(NULL);
}

enum cushim_status cushim_call_end(struct cushim_scope *scope, enum cushim_status status) {
    if (unlikely(scope->is_changed))
        exchange_back(scope);
    cushim_unpin(&scope->pin);
    if (scope->is_kept) {
        scope->is_kept = false;
        cushim_object_release(scope->context);
    }
    return status;
}

enum cushim_status cushim_scope_fail_cu(struct cushim_scope *scope, const char *entry,
                                        CUresult result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    enum cushim_status status = cushim_fail_cu_list(entry, result, format, arguments);
    va_end(arguments);
    if (scope->context)
        cushim_context_note(scope->context, entry, result);
    return status;
}
