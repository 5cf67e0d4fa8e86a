#include "companion/context/context_stack.h"

#include <stdlib.h>

#include "companion/core/driver.h"
#include "companion/core/error.h"

struct cushim_frame {
    struct cushim_context_object *context; /* kept */
    struct cushim_frame *below;
};

static bool is_dead(const struct cushim_context_object *context) {
    return cushim_context_is_dead(context) || load_acquire(&context->object.is_closed);
}

static void drop_top(struct cushim_thread *thread) {
    struct cushim_frame *frame = thread->frames;
    thread->frames = frame->below;
    cushim_object_release(frame->context);
    free(frame);
}

static struct cushim_context_object *top_of(struct cushim_thread *thread) {
    while (thread && thread->frames && is_dead(thread->frames->context))
        drop_top(thread);
    return thread && thread->frames ? thread->frames->context : NULL;
}

/* Make the first live entry current, or what was current before the first push. */
static void make_top_current(struct cushim_thread *thread) {
    struct cushim_context_object *top = top_of(thread);
    CUcontext handle = top ? top->handle : thread->base_context;
    if (CUSHIM_DRIVER(cuCtxSetCurrent)(handle) != CUDA_SUCCESS && handle)
        CUSHIM_DRIVER(cuCtxSetCurrent)(NULL); /* other code destroyed it */
}

struct cushim_context_object *cushim_stack_top(void) {
    return top_of(cushim_thread_get());
}

enum cushim_status cushim_stack_push(const char *what, struct cushim_context_object *context) {
    struct cushim_thread *thread = cushim_thread_get();
    struct cushim_frame *frame = malloc(sizeof *frame);
    CUcontext found = NULL;
    if (!thread || !frame) {
        free(frame);
        return cushim_fail(what, CUSHIM_NOMEM, "host=%zu", sizeof *frame);
    }
    CUSHIM_DRIVER(cuCtxGetCurrent)(&found);
    CUresult result = CUSHIM_DRIVER(cuCtxSetCurrent)(context->handle);
    if (result != CUDA_SUCCESS) {
        free(frame);
        cushim_context_note(context, "cuCtxSetCurrent", result);
        return cushim_fail_cu("cuCtxSetCurrent", result, "device=%d", context->device);
    }
    if (!thread->frames)
        thread->base_context = found;
    frame->context = cushim_object_keep(context);
    frame->below = thread->frames;
    thread->frames = frame;
    return CUSHIM_OK;
}

enum cushim_status cushim_stack_pop(const char *what, struct cushim_context_object **out) {
    struct cushim_thread *thread = cushim_thread_get();
    bool was_used = thread && thread->frames;
    *out = cushim_object_keep(top_of(thread));
    if (!*out) {
        if (was_used)
            make_top_current(thread);
        return cushim_fail(what, CUSHIM_NOCONTEXT, "%s", "");
    }
    drop_top(thread);
    make_top_current(thread);
    return CUSHIM_OK;
}

void cushim_stack_settle(void) {
    struct cushim_thread *thread = cushim_thread_get();
    if (thread && thread->frames && is_dead(thread->frames->context))
        make_top_current(thread);
}

/* Drop only references, because CUDA's own stack ends with the thread. */
void cushim_stack_thread_ended(struct cushim_thread *thread) {
    while (!cushim_driver_is_forked() && thread->frames)
        drop_top(thread);
}
