#include "context.h"

#include "share.h"
#include "tools/sim/driver/memory/block.h"
#include "tools/sim/driver/memory/pool.h"
#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/core/internal.h"
#include "tools/sim/driver/core/options.h"
#include "tools/sim/driver/core/print.h"
#include "sim.h"
#include "tools/sim/driver/stream/stream.h"
#include "tools/sim/driver/core/thread.h"

#include <stdlib.h>

static struct sim_context *contexts;
static unsigned long long last_id;

struct sim_context *sim_contexts(void) {
    return contexts;
}

static void unlist(struct sim_context *context) {
    struct sim_context **at = &contexts;
    while (*at && *at != context)
        at = &(*at)->next;
    if (*at)
        *at = context->next;
}

/* It may already be there, because a context that is ending waits for its work without the lock. */
static void list(struct sim_context *context) {
    unlist(context);
    context->next = contexts;
    contexts = context;
}

static void set_limits(struct sim_context *context) {
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7168 << 10;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
}

static void take_memory(struct sim_context *context) {
    size_t n_pages = sim_options()->context / SIM_PAGE_BYTES;
    context->n_taken = sim_device_charge(context->device, n_pages) ? n_pages : 0;
    context->has_launched = false;
    sim_internal_take(context);
}

void sim_context_note_launch(struct sim_context *context) {
    size_t n_pages = sim_options()->lazy / SIM_PAGE_BYTES;
    if (!context->has_launched && sim_device_charge(context->device, n_pages))
        context->n_taken += n_pages;
    context->has_launched = true;
}

struct sim_context *sim_context_create(struct sim_device *device, struct sim_context *root,
                                       unsigned flags) {
    struct sim_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->device = device;
    context->root = root ? root : context;
    context->flags = flags;
    context->api_version = 3020;
    context->id = ++last_id;
    if (!root && !(context->fence_stream = sim_stream_create_fence(context)))
        goto error_context;
    if (!sim_handle_add(context, SIM_HANDLE_CONTEXT))
        goto error_stream;
    set_limits(context);
    context->is_alive = true;
    list(context);
    if (!root) {
        sim_share_context(device->number, 1);
        take_memory(context);
    }
    return context;

error_stream:
    free(context->fence_stream);
error_context:
    free(context);
    return NULL;
}

void sim_context_revive(struct sim_context *context) {
    context->is_alive = true;
    list(context);
    context->fault = CUDA_SUCCESS;
    context->peers = 0;
    context->id = ++last_id;
    set_limits(context);
    sim_share_context(context->device->number, 1);
    take_memory(context);
}

/* Green contexts die with their root. */
static void end_greens(const struct sim_context *root) {
    for (struct sim_context *other = contexts, *next; other; other = next) {
        next = other->next;
        if (other == root || other->root != root)
            continue;
        other->is_alive = false;
        unlist(other);
    }
}

void sim_context_end(struct sim_context *context) {
    context->is_alive = false;
    if (context->root != context) {
        unlist(context);
        return;
    }
    end_greens(context);
    struct sim_marks marks = {NULL, 0, 0};
    sim_context_marks(context, &marks);
    sim_marks_wait(&marks);
    sim_marks_finish(&marks);
    sim_stream_end_all(context);
    sim_step_unref(context->fence);
    context->fence = NULL;
    sim_blocks_end_context(context);
    sim_pools_empty(context->device);
    sim_device_refund(context->device, context->n_taken);
    context->n_taken = 0;
    sim_share_context(context->device->number, -1);
    if (!context->is_alive && !context->streams)
        unlist(context);
}

struct sim_context *sim_context_top(void) {
    const struct sim_thread *thread = sim_thread();
    return thread->depth ? thread->contexts[thread->depth - 1] : NULL;
}

CUresult sim_context_current(struct sim_context **out) {
    *out = sim_context_top();
    if (!*out)
        return CUDA_ERROR_INVALID_CONTEXT;
    return (*out)->is_alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_context_of_handle(CUcontext handle, struct sim_context **out) {
    if (!handle)
        return sim_context_current(out);
    if (!sim_handle_is(handle, SIM_HANDLE_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (struct sim_context *)handle;
    return (*out)->is_alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_context_fault(const struct sim_context *context) {
    return context && context->is_alive ? context->root->fault : CUDA_SUCCESS;
}

void sim_context_damage(struct sim_context *context, CUresult fault) {
    if (fault == CUDA_SUCCESS || context->root->fault == CUDA_SUCCESS)
        context->root->fault = fault;
    pthread_cond_broadcast(&sim_changed);
}

/* Add the steps of another context's stream that read or write memory of this one. */
static bool add_touching(struct sim_marks *marks, const struct sim_stream *stream,
                         const struct sim_context *root) {
    for (struct sim_step *step = stream->first; step; step = step->next) {
        if (sim_work_touches(&step->work, root) && !sim_marks_add(marks, step))
            return false;
    }
    return true;
}

bool sim_context_marks(struct sim_context *context, struct sim_marks *marks) {
    struct sim_context *root = context->root;
    for (struct sim_context *other = contexts; other; other = other->next) {
        for (struct sim_stream *stream = other->streams; stream; stream = stream->next) {
            bool is_added = other == root ? sim_marks_add(marks, stream->last)
                                          : add_touching(marks, stream, root);
            if (!is_added)
                return false;
        }
    }
    return true;
}

CUresult sim_context_synchronize(struct sim_context *context) {
    struct sim_marks marks = {NULL, 0, 0};
    bool is_whole = sim_context_marks(context, &marks);
    CUresult result = sim_marks_wait(&marks);
    sim_marks_finish(&marks);
    sim_print_flush();
    SIM_TRY(result);
    return is_whole ? sim_context_fault(context) : CUDA_ERROR_OUT_OF_MEMORY;
}

size_t sim_listed_contexts(void) {
    size_t n = 0;
    pthread_mutex_lock(&sim_lock);
    for (const struct sim_context *context = contexts; context; context = context->next)
        n++;
    pthread_mutex_unlock(&sim_lock);
    return n;
}

void sim_fault(CUresult result) {
    pthread_mutex_lock(&sim_lock);
    struct sim_context *context = sim_context_top();
    if (context)
        sim_context_damage(context, result);
    pthread_mutex_unlock(&sim_lock);
}
