#include "stream.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/graph/capture.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/core/handle.h"
#include "tools/sim/driver/core/print.h"
#include "scheduler.h"
#include "tools/sim/driver/core/thread.h"

#include <stdlib.h>

static unsigned long long last_id;

static struct sim_stream *create(struct sim_context *context, enum sim_stream_kind kind) {
    struct sim_stream *stream = calloc(1, sizeof *stream);
    if (stream) {
        stream->kind = kind;
        stream->context = context;
        stream->id = ++last_id;
    }
    return stream;
}

struct sim_stream *sim_stream_create_fence(struct sim_context *context) {
    struct sim_stream *stream = create(context, SIM_STREAM_FENCE);
    if (stream)
        stream->flags = CU_STREAM_NON_BLOCKING;
    return stream;
}

struct sim_stream *sim_stream_create(struct sim_context *context, enum sim_stream_kind kind,
                                     unsigned flags, int priority) {
    struct sim_stream *stream = create(context, kind);
    if (!stream)
        return NULL;
    if (!sim_handle_add(stream, SIM_HANDLE_STREAM)) {
        free(stream);
        return NULL;
    }
    stream->flags = flags;
    stream->priority = priority;
    stream->next = context->root->streams;
    context->root->streams = stream;
    return stream;
}

static void release(struct sim_stream *stream) {
    struct sim_stream **at = &stream->context->root->streams;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at)
        *at = stream->next;
    sim_nodes_finish(&stream->tips);
    free(stream);
}

void sim_stream_destroy(struct sim_stream *stream) {
    sim_handle_remove(stream);
    sim_capture_lose_stream(stream);
    stream->is_dead = true;
    if (!stream->first)
        release(stream);
}

void sim_stream_end_all(struct sim_context *root) {
    struct sim_stream *next;
    for (struct sim_stream *stream = root->streams; stream; stream = next) {
        next = stream->next;
        if (!stream->is_dead)
            sim_stream_destroy(stream);
    }
}

void sim_stream_retire_first(struct sim_stream *stream) {
    struct sim_step *step = stream->first;
    stream->first = step->next;
    if (!stream->first)
        stream->last = NULL;
    step->next = NULL;
    sim_step_complete(step);
    sim_step_unref(step);
    if (stream->is_dead && !stream->first)
        release(stream);
}

/* ---- from handle to stream ---- */

/* Each is made at its first use; NULL: no memory. */
static struct sim_stream *legacy(struct sim_context *context) {
    for (struct sim_stream *stream = context->root->streams; stream; stream = stream->next) {
        if (stream->kind == SIM_STREAM_LEGACY)
            return stream;
    }
    return sim_stream_create(context->root, SIM_STREAM_LEGACY, CU_STREAM_DEFAULT, 0);
}

/* A thread that ends takes its streams with it. */
static void end_thread(void *number) {
    pthread_mutex_lock(&sim_lock);
    for (struct sim_context *context = sim_contexts(); context; context = context->next) {
        struct sim_stream *next;
        for (struct sim_stream *stream = context->streams; stream; stream = next) {
            next = stream->next;
            if (stream->kind == SIM_STREAM_PER_THREAD && !stream->is_dead &&
                stream->thread == (unsigned long)(uintptr_t)number)
                sim_stream_destroy(stream);
        }
    }
    pthread_mutex_unlock(&sim_lock);
}

static struct sim_stream *per_thread(struct sim_context *context) {
    static pthread_key_t key;
    static bool has_key; /* under the lock */
    unsigned long number = sim_thread()->number;
    for (struct sim_stream *stream = context->root->streams; stream; stream = stream->next) {
        if (stream->kind == SIM_STREAM_PER_THREAD && stream->thread == number && !stream->is_dead)
            return stream;
    }
    if (!has_key)
        has_key = pthread_key_create(&key, end_thread) == 0;
    struct sim_stream *stream =
        sim_stream_create(context->root, SIM_STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0);
    if (stream) {
        stream->thread = number;
        if (has_key)
            pthread_setspecific(key, (void *)(uintptr_t)number);
    }
    return stream;
}

CUresult sim_stream_of_handle(CUstream handle, CUstream default_stream, struct sim_stream **out) {
    if (!handle)
        handle = default_stream;
    if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        struct sim_context *context;
        SIM_TRY(sim_context_current(&context));
        *out = handle == CU_STREAM_LEGACY ? legacy(context) : per_thread(context);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!sim_handle_is(handle, SIM_HANDLE_STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct sim_stream *)handle;
    if (!(*out)->context->is_alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return sim_context_fault((*out)->context);
}

CUresult sim_stream_to_wait_for(CUstream handle, CUstream default_stream, struct sim_stream **out) {
    SIM_TRY(sim_stream_of_handle(handle, default_stream, out));
    return sim_capture_refuse_wait(*out);
}

/* ---- work ---- */

bool sim_stream_is_blocking(const struct sim_stream *stream) {
    return stream->kind != SIM_STREAM_LEGACY && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The steps of other streams that a step submitted now comes after, by the legacy rule. */
static bool add_legacy_marks(struct sim_stream *stream, struct sim_marks *marks) {
    if (stream->kind != SIM_STREAM_LEGACY && !sim_stream_is_blocking(stream))
        return true;
    for (struct sim_stream *other = stream->context->root->streams; other; other = other->next) {
        bool is_ordered = stream->kind == SIM_STREAM_LEGACY ? sim_stream_is_blocking(other)
                                                            : other->kind == SIM_STREAM_LEGACY;
        if (is_ordered && !sim_marks_add(marks, other->last))
            return false;
    }
    return true;
}

static bool wait_for_all(struct sim_step *step, const struct sim_marks *marks) {
    for (size_t i = 0; i < marks->n; i++) {
        if (!sim_step_wait_for(step, marks->steps[i]))
            return false;
    }
    return true;
}

static bool order(struct sim_step *step, struct sim_step *after,
                  const struct sim_marks *after_all) {
    struct sim_marks marks = {NULL, 0, 0};
    bool is_whole = add_legacy_marks(step->stream, &marks) && wait_for_all(step, &marks) &&
                    (!after_all || wait_for_all(step, after_all)) &&
                    sim_step_wait_for(step, after) &&
                    sim_step_wait_for(step, step->stream->context->root->fence);
    sim_marks_finish(&marks);
    return is_whole;
}

/* Marks with nothing before them need no turn, and no thread that makes one. */
static bool is_done_at_once(struct sim_step *step) {
    return step->work.kind == SIM_WORK_EMPTY && !step->stream->first && sim_step_is_ready(step);
}

CUresult sim_stream_submit(struct sim_stream *stream, struct sim_work *work, struct sim_step *after,
                           struct sim_marks *after_all, struct sim_step **out) {
    struct sim_step *step = sim_step_create(stream, work);
    if (!step || !order(step, after, after_all)) {
        sim_step_unref(step);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    bool is_done = is_done_at_once(step);
    CUresult result = is_done ? CUDA_SUCCESS : sim_scheduler_add(stream);
    if (result != CUDA_SUCCESS) { /* it would never get a turn */
        sim_step_unref(step);
        return result;
    }
    if (out)
        *out = sim_step_ref(step);
    if (is_done) {
        sim_step_complete(step);
        sim_step_unref(step);
        return CUDA_SUCCESS;
    }
    if (stream->last)
        stream->last->next = step;
    else
        stream->first = step;
    stream->last = step;
    return CUDA_SUCCESS;
}

CUresult sim_stream_enqueue(struct sim_stream *stream, struct sim_work *work,
                            struct sim_step **step) {
    if (step)
        *step = NULL;
    if (stream->capture)
        return sim_capture_add(stream, work);
    CUresult result = sim_capture_refuse_legacy(stream);
    if (result == CUDA_SUCCESS)
        return sim_stream_submit(stream, work, NULL, NULL, step);
    sim_work_finish(work);
    return result;
}

CUresult sim_stream_synchronize(struct sim_stream *stream) {
    struct sim_context *context = stream->context;
    struct sim_marks marks = {NULL, 0, 0};
    bool is_whole = sim_marks_add(&marks, stream->last);
    if (stream->kind == SIM_STREAM_LEGACY)
        is_whole = is_whole && add_legacy_marks(stream, &marks);
    CUresult result = sim_marks_wait(&marks);
    sim_marks_finish(&marks);
    sim_print_flush();
    SIM_TRY(result);
    return is_whole ? sim_context_fault(context) : CUDA_ERROR_OUT_OF_MEMORY;
}

bool sim_stream_is_idle(struct sim_stream *stream) {
    struct sim_marks marks = {NULL, 0, 0};
    if (stream->kind == SIM_STREAM_LEGACY)
        add_legacy_marks(stream, &marks);
    bool is_idle = !stream->first && marks.n == 0;
    sim_marks_finish(&marks);
    return is_idle;
}
