#include "companion/context/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "companion/context/call.h"
#include "companion/core/thread.h"
#include "base/lock.h"
#include "companion/events.h"
#include "memory/fence/stream_fence.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cushim_context_object *registry; /* each with a reference of ours */
static atomic_uint_fast64_t n_made;            /* ids for drivers that give none */

/* ---- the registry ---- */

static uint64_t id_of(CUcontext handle) {
    unsigned long long id = 0;
    if (CUSHIM_DRIVER(cuCtxGetId) && CUSHIM_DRIVER(cuCtxGetId)(handle, &id) == CUDA_SUCCESS)
        return id;
    return 0;
}

/* Under the lock: kept, or NULL. */
static struct cushim_context_object *search(CUcontext handle) {
    struct cushim_context_object *context = registry;
    while (context && context->handle != handle)
        context = context->next;
    return cushim_object_keep(context);
}

/* Kept, or NULL. */
static struct cushim_context_object *find(CUcontext handle) {
    CUSHIM_LOCKED(&lock);
    return search(handle);
}

/* Take it out of the registry; true: this call did, and owns the registry's reference. */
static bool take_out(struct cushim_context_object *context) {
    struct cushim_context_object **at = &registry;
    CUSHIM_LOCKED(&lock);
    while (*at && *at != context)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = context->next;
    return true;
}

/* Put `made` into the registry, unless another thread was first; returns the one in it, kept. */
static struct cushim_context_object *put_in(struct cushim_context_object *made) {
    pthread_mutex_lock(&lock);
    struct cushim_context_object *first = search(made->handle);
    if (!first) {
        made->next = registry;
        registry = cushim_object_keep(made);
    }
    pthread_mutex_unlock(&lock);
    if (!first)
        return made;
    cushim_object_release(made);
    return first;
}

void cushim_context_forget(struct cushim_context_object *context) {
    if (take_out(context))
        cushim_object_release(context);
}

void cushim_context_bury(struct cushim_context_object *context) {
    store_release(&context->is_dead, true);
    cushim_mem_fence_abandon(&context->fence);
    cushim_changes_note();
    cushim_context_forget(context);
}

void cushim_context_forget_all(void) {
    for (;;) {
        pthread_mutex_lock(&lock);
        struct cushim_context_object *context = registry;
        if (context)
            registry = context->next;
        pthread_mutex_unlock(&lock);
        if (!context)
            return;
        cushim_object_release(context);
    }
}

/* ---- objects ---- */

/* Whether other code has reset it; true if the driver has no function for it. */
static bool is_primary_active(int device) {
    unsigned flags;
    int is_active = 1;
    if (CUSHIM_DRIVER(cuDevicePrimaryCtxGetState))
        CUSHIM_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &is_active);
    return is_active;
}

/* Release a primary context, never reset it.  If nobody else retains it, it must not stay current
 * here, because each call without a context would then fail. */
static void release_primary(const struct cushim_context_object *context) {
    CUcontext current = NULL;
    CUSHIM_DRIVER(cuDevicePrimaryCtxRelease_v2)(context->device);
    if (!is_primary_active(context->device) &&
        CUSHIM_DRIVER(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current == context->handle)
        CUSHIM_DRIVER(cuCtxSetCurrent)(NULL);
}

/* If other code reset a primary context, nothing is to be done. */
static void finish(struct cushim_object *object) {
    struct cushim_context_object *context = (struct cushim_context_object *)object;
    CUSHIM_SCOPE scope = {0};
    bool is_ready = atomic_load(&cushim_driver_state_now) == CUSHIM_DRIVER_READY;
    CUmemoryPool pool = atomic_load(&context->async_pool);
    if (context->fence.n_spares && cushim_call_begin_quietly(&scope, context))
        cushim_mem_stream_fence_end(&context->fence);
    cushim_call_end(&scope, CUSHIM_OK);
    /* A pool belongs to the device and outlives the context.  Its allocations stay valid. */
    if (is_ready && pool)
        CUSHIM_DRIVER(cuMemPoolDestroy)(pool);
    if (is_ready && context->form == CUSHIM_CONTEXT_PRIMARY && !cushim_context_is_dead(context) &&
        CUSHIM_DRIVER(cuDevicePrimaryCtxRelease_v2))
        release_primary(context);
    free(context);
}

static struct cushim_context_object *make(CUcontext handle, int device,
                                          enum cushim_context_form form) {
    struct cushim_context_object *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    cushim_object_init(&context->object, CUSHIM_KIND_CONTEXT, NULL, finish);
    context->handle = handle;
    context->device = device;
    context->form = form;
    context->fence.host = cushim_events.fence_host;
    cushim_mem_fence_init(&context->fence, &cushim_driver_cuda, handle, NULL);
    context->id = id_of(handle);
    if (!context->id)
        context->id = atomic_fetch_add(&n_made, 1) + 1;
    return context;
}

CUresult cushim_context_ask_device(CUcontext handle, int *device) {
    CUcontext before;
    if (CUSHIM_DRIVER(cuCtxGetDevice_v2))
        return CUSHIM_DRIVER(cuCtxGetDevice_v2)(device, handle);
    CUresult result = CUSHIM_DRIVER(cuCtxGetCurrent)(&before);
    if (result != CUDA_SUCCESS || before == handle)
        return result == CUDA_SUCCESS ? CUSHIM_DRIVER(cuCtxGetDevice)(device) : result;
    result = CUSHIM_DRIVER(cuCtxSetCurrent)(handle);
    if (result != CUDA_SUCCESS)
        return result;
    result = CUSHIM_DRIVER(cuCtxGetDevice)(device);
    CUSHIM_DRIVER(cuCtxSetCurrent)(before);
    return result;
}

enum cushim_status cushim_context_of_handle(const char *what, CUcontext handle,
                                            struct cushim_context_object **out) {
    *out = find(handle);
    if (*out) {
        uint64_t id = (*out)->form == CUSHIM_CONTEXT_WRAPPED ? id_of(handle) : 0;
        if (!id || id == (*out)->id)
            return CUSHIM_OK;
        cushim_context_bury(
            *out); /* other code destroyed it, and the driver has reused the handle */
        cushim_object_release(*out);
        *out = NULL;
    }
    int device = 0;
    CUSHIM_TRY(CUSHIM_ANSWER("cuCtxGetDevice", cushim_context_ask_device(handle, &device),
                             "context=%p", (void *)handle));
    struct cushim_context_object *made = make(handle, device, CUSHIM_CONTEXT_WRAPPED);
    CUSHIM_FAIL_IF(what, !made, CUSHIM_NOMEM, "host=%zu", sizeof *made);
    *out = put_in(made);
    return CUSHIM_OK;
}

static struct cushim_context_object *find_primary(int device) {
    CUSHIM_LOCKED(&lock);
    struct cushim_context_object *context = registry;
    while (context && !(context->form == CUSHIM_CONTEXT_PRIMARY && context->device == device))
        context = context->next;
    return cushim_object_keep(context);
}

enum cushim_status cushim_context_of_device(const char *what, int device,
                                            struct cushim_context_object **out) {
    *out = NULL;
    CUSHIM_TRY(cushim_context_ordinal(what, device, &device));
    struct cushim_context_object *known = find_primary(device);
    if (known && is_primary_active(device)) {
        *out = known;
        return CUSHIM_OK;
    }
    if (known) {
        cushim_context_bury(known);
        cushim_object_release(known);
    }
    CUcontext handle = NULL;
    CUSHIM_TRY(CUSHIM_ASK(what, cuDevicePrimaryCtxRetain, (&handle, device), "device=%d", device));
    struct cushim_context_object *made = make(handle, device, CUSHIM_CONTEXT_PRIMARY);
    if (!made) {
        if (CUSHIM_DRIVER(cuDevicePrimaryCtxRelease_v2))
            CUSHIM_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
        return cushim_fail(what, CUSHIM_NOMEM, "host=%zu", sizeof *made);
    }
    /* If it was wrapped before, it becomes the context that we retain. */
    struct cushim_context_object *stranger = find(handle);
    if (stranger && stranger->form == CUSHIM_CONTEXT_WRAPPED)
        cushim_context_forget(stranger);
    cushim_object_release(stranger);
    *out = put_in(made);
    return CUSHIM_OK;
}

enum cushim_status cushim_context_make(const char *what, int device, unsigned flags,
                                       struct cushim_context_object **out) {
    CUcontext handle = NULL, popped;
    *out = NULL;
    CUSHIM_TRY(CUSHIM_DRIVER(cuCtxCreate_v4)
                   ? CUSHIM_ASK(what, cuCtxCreate_v4, (&handle, NULL, flags, device),
                                "device=%d flags=%u", device, flags)
                   : CUSHIM_ASK(what, cuCtxCreate_v2, (&handle, flags, device),
                                "device=%d flags=%u", device, flags));
    CUSHIM_DRIVER(cuCtxPopCurrent_v2)(&popped); /* creation pushed it */
    struct cushim_context_object *made = make(handle, device, CUSHIM_CONTEXT_OWNED);
    if (!made) {
        CUSHIM_DRIVER(cuCtxDestroy_v2)(handle);
        return cushim_fail(what, CUSHIM_NOMEM, "host=%zu", sizeof *made);
    }
    /* An object of this handle is stale: other code destroyed the context, and the driver has
     * reused the handle. */
    struct cushim_context_object *old = find(handle);
    if (old)
        cushim_context_bury(old);
    cushim_object_release(old);
    *out = put_in(made);
    return CUSHIM_OK;
}

/* ---- which one ---- */

enum cushim_status cushim_context_ordinal(const char *what, int device, int *ordinal) {
    int n = 0, current;
    *ordinal = 0;
    if (device == -1) {
        struct cushim_thread *thread = cushim_thread_get();
        device = thread ? thread->device : 0;
        if (CUSHIM_DRIVER(cuCtxGetDevice)(&current) == CUDA_SUCCESS)
            device = current;
    }
    CUSHIM_TRY(CUSHIM_ASK(what, cuDeviceGetCount, (&n), "%s", ""));
    CUSHIM_FAIL_IF(what, !n, CUSHIM_NODEVICE, "%s", "");
    if (device < 0 || device >= n)
        return cushim_fail(what, CUSHIM_BADDEVICE, "device=%d devices=%d", device, n);
    *ordinal = device;
    return CUSHIM_OK;
}

enum cushim_status cushim_context_choose(const char *what, struct cushim_context_object **out) {
    CUcontext current = NULL;
    *out = NULL;
    CUSHIM_TRY(CUSHIM_ASK(what, cuCtxGetCurrent, (&current), "%s", ""));
    return current ? cushim_context_of_handle(what, current, out)
                   : cushim_context_of_device(what, -1, out);
}

/* ---- damage ---- */

void cushim_context_note(struct cushim_context_object *context, const char *entry,
                         CUresult result) {
    int unclaimed = 0;
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_DEINITIALIZED)
        cushim_context_bury(context);
    if (!cushim_error_is_sticky(result) ||
        !atomic_compare_exchange_strong(&context->first_claimed, &unclaimed, 1))
        return;
    snprintf(context->first_entry, sizeof context->first_entry, "%s", entry);
    store_release(&context->first_result, (int)result);
}
