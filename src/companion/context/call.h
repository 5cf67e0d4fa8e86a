/*
 * The scope of a public call: its object is pinned, its context chosen and current, and everything
 * is restored at its end.
 *
 * The context is (1) of the object or of the pointer's row in the address map, else (2) a ctx that
 * is not NULL, else (3) the thread's current CUDA context, else (4) the primary context of the
 * thread's device.  Only the top of CUDA's own stack is exchanged, so its depth stays.  A call
 * takes no lock and allocates nothing.
 *
 * Each begin that succeeded has an end, which is that of the block (CUSHIM_SCOPE).  If it failed
 * the error text is set and nothing is held.
 */
#pragma once

#include "companion/context/context.h"
#include "companion/core/driver.h"
#include "companion/core/error.h"

struct cushim_scope {
    const char *what;                      /* our public function */
    struct cushim_pin pin;                 /* of the object or of ctx */
    struct cushim_context_object *context; /* the call's; kept while is_kept, else by the object */
    bool is_kept;
    bool is_changed; /* another context was current: `before`, perhaps none */
    bool is_dead;    /* of a destroy: the context is gone, make no driver call */
    CUcontext before;
};

/**
 * Begin a call on an object.  An object without a context (object.context NULL) changes no current
 * context.
 * @param handle  NULL: CUSHIM_INVALID
 * @param object  &the object pointer of the kind; NULL after a failure
 * @return CUSHIM_OK | INVALID | NOCUDA | BADHANDLE | DEADCONTEXT | the driver's
 */
enum cushim_status cushim_call_begin_object(struct cushim_scope *scope, const char *what,
                                            enum cushim_kind kind, const void *handle,
                                            void *object);

/* Pin what a handle stands for and close it: CUSHIM_OK | BADHANDLE | STATE (a client lends it) |
 * NOCUDA.  Nothing is pinned after a failure. */
enum cushim_status cushim_call_close_handle(struct cushim_pin *pin, const char *what,
                                            enum cushim_kind kind, const void *handle);

/**
 * Begin a destroy: the handle is closed by this call.
 * @param handle  not NULL: the caller has answered NULL with CUSHIM_OK
 * @param object  as above; finish runs in leave, or later with the last reference: do there, not
 *                here, what needs no answer
 * @return CUSHIM_OK (scope->is_dead says whether the driver may be called) | BADHANDLE | NOCUDA (a
 *         forked child)
 */
enum cushim_status cushim_call_begin_destroy(struct cushim_scope *scope, const char *what,
                                             enum cushim_kind kind, const void *handle,
                                             void *object);

/* Begin a call with a ctx argument, which may be NULL: rules (2) to (4). */
enum cushim_status cushim_call_begin_context(struct cushim_scope *scope, const char *what,
                                             struct cushim_context *ctx);

/* Begin a call in a context that the caller keeps (a ledger row's, a pool's own). */
enum cushim_status cushim_call_begin_known(struct cushim_scope *scope, const char *what,
                                           struct cushim_context_object *context);

/* The same in a context whose reference passes to the scope, also after a failure. */
enum cushim_status cushim_call_begin_taken(struct cushim_scope *scope, const char *what,
                                           struct cushim_context_object *context);

/* Begin a call in the primary context of a device; -1: the thread's. */
enum cushim_status cushim_call_begin_device(struct cushim_scope *scope, const char *what,
                                            int device);

/* The whole of a destroy that has nothing to do beside `finish`; NULL is CUSHIM_OK. */
enum cushim_status cushim_call_destroy(const char *what, enum cushim_kind kind, const void *handle);

/* End it now; returns `status`.  A second end does nothing. */
enum cushim_status cushim_call_end(struct cushim_scope *scope, enum cushim_status status);

/* A scope that ends with its block, if it was not ended before: CUSHIM_SCOPE scope = {0}; */
#define CUSHIM_SCOPE __attribute__((cleanup(cushim_scope_close))) struct cushim_scope

static inline void cushim_scope_close(struct cushim_scope *scope) {
    cushim_call_end(scope, CUSHIM_OK);
}

/*
 * Begin a public call that ends with its block: declare the scope, and the object of the handle;
 * or return the status of a failure.  CUSHIM_ENTER_AS names the public call itself.
 */
#define CUSHIM_ENTER_AS(what, KIND, name, handle)                                                  \
    CUSHIM_SCOPE scope = {0};                                                                      \
    struct cushim_##name##_object *name;                                                           \
    CUSHIM_TRY(cushim_call_begin_object(&scope, (what), CUSHIM_KIND_##KIND, (handle), &name))
#define CUSHIM_ENTER(KIND, name, handle) CUSHIM_ENTER_AS(__func__, KIND, name, handle)

/* A whole public function that asks an object for one fact, 0 after a failure. */
#define CUSHIM_FACT(KIND, noun, fact, type, out, value)                                            \
    enum cushim_status cushim_##noun##_##fact(struct cushim_##noun *handle, type *out) {           \
        CUSHIM_OUT(out);                                                                           \
        CUSHIM_ENTER(KIND, noun, handle);                                                          \
        *out = (value);                                                                            \
        return CUSHIM_OK;                                                                          \
    }

/* Begin a public call in a context, as CUSHIM_ENTER does on an object. */
#define CUSHIM_ENTER_CONTEXT(ctx)                                                                  \
    CUSHIM_SCOPE scope = {0};                                                                      \
    CUSHIM_TRY(cushim_call_begin_context(&scope, __func__, (ctx)))

/* For a finish function: make `context` current; false if it is dead or there is no driver, and
 * only host memory can be released. */
bool cushim_call_begin_quietly(struct cushim_scope *scope, struct cushim_context_object *context);

/* Refuse inside a scope: cushim_scope_fail(&scope, status, format, ...). */
#define cushim_scope_fail(scope, ...) cushim_fail((scope)->what, __VA_ARGS__)

/* The driver failed inside a scope.  Also notes sticky errors and destroyed contexts. */
__attribute__((format(printf, 4, 5))) enum cushim_status
cushim_scope_fail_cu(struct cushim_scope *scope, const char *entry, CUresult result,
                     const char *format, ...);

/* The status of a driver's answer, with the device as the only detail. */
static inline enum cushim_status cushim_scope_answer(struct cushim_scope *scope, const char *entry,
                                                     CUresult result) {
    if (likely(result == CUDA_SUCCESS))
        return CUSHIM_OK;
    return scope->context
               ? cushim_scope_fail_cu(scope, entry, result, "device=%d", scope->context->device)
               : cushim_scope_fail_cu(scope, entry, result, "%s", "");
}

/*
 * Call the driver: CUSHIM_CALL(&scope, cuStreamSynchronize, stream->handle) is a status; an entry
 * that the driver lacks is NOSYM naming it.
 */
#ifdef __clang__ /* for entries without arguments, which C23 allows and gcc accepts */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#define CUSHIM_CALL(scope, entry, ...)                                                             \
    (CUSHIM_DRIVER(entry)                                                                          \
         ? cushim_scope_answer((scope), #entry, CUSHIM_DRIVER(entry)(__VA_ARGS__))                 \
         : cushim_fail_nosym((scope)->what, #entry))
