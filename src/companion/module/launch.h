/*
 * The fast path of a launch.  One number stands for its conditions (cushim_changes),
 * except for the stream, which is pinned, and the context.
 *
 * The driver can launch on a stream while another context is current (driver 580.159; an error of
 * other drivers leads to the slow path).  But it crashes if other code destroyed the stream's
 * context by cuCtxDestroy.  Only the driver knows that, so we ask which context is current, because
 * a current context is alive.
 *
 * A primary context that we retain cannot be destroyed.  After a reset by other code the launch
 * gives CUDA_ERROR_CONTEXT_IS_DESTROYED, so we need not ask.
 */
#pragma once

#include "companion/module/function.h"
#include "companion/stream/stream.h"

/* Whether cuLaunchKernel can run it without changes. */
static inline bool cushim_launch_is_plain(const struct cushim_launch *launch) {
    return launch && launch->struct_size == sizeof *launch && launch->block[0] &&
           launch->block[1] && launch->block[2] && !launch->cooperative;
}

/* A capture of the context is open or announced: what is launched may become a part of its graph.
 */
static inline bool cushim_launch_may_capture(const struct cushim_context_object *context) {
    return load_relaxed(&context->n_captures) || load_relaxed(&context->n_announced);
}

static inline unsigned cushim_launch_blocks(unsigned n) {
    return n ? n : 1;
}

/* cuLaunchKernel, which is there. */
ALWAYS_INLINE CUresult cushim_launch_submit(CUfunction function, const struct cushim_launch *launch,
                                            CUstream stream, struct cushim_args args) {
    __typeof__(&cuLaunchKernel) entry = load_relaxed(&CUSHIM_DRIVER(cuLaunchKernel));
    return entry(function, cushim_launch_blocks(launch->grid[0]),
                 cushim_launch_blocks(launch->grid[1]), cushim_launch_blocks(launch->grid[2]),
                 launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes, stream,
                 cushim_args_for_driver(args.each), args.packed);
}

/* The context that must be current for launches in this one; NULL: any. */
static inline CUcontext cushim_launch_context(const struct cushim_context_object *context) {
    return context->form == CUSHIM_CONTEXT_PRIMARY ? NULL : context->handle;
}

static inline bool cushim_launch_is_current(CUcontext context) {
    CUcontext current;
    return CUSHIM_DRIVER(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current == context;
}

/* If we did not check the context, an error may mean that another one is current. */
static inline bool cushim_launch_is_final(CUcontext must_be_current, CUresult result) {
    return likely(result == CUDA_SUCCESS) || must_be_current;
}

/* The stream of a launch: pinned in CUSHIM_CELL_STREAM until cushim_unpin_fast. */
struct cushim_launch_stream {
    struct cushim_slot *slot;
    CUstream handle;
};

/* A handle's, of the object's context, with `must_be_current` current; false: nothing is held. */
ALWAYS_INLINE bool cushim_launch_stream_enter(struct cushim_thread *thread,
                                              const struct cushim_object *object,
                                              CUcontext must_be_current,
                                              const struct cushim_stream *s,
                                              struct cushim_launch_stream *out) {
    struct cushim_slot *slot = cushim_slot_of_kind(CUSHIM_KIND_STREAM, (uintptr_t)s);
    if (unlikely(!slot || !cushim_pin_fast(thread, CUSHIM_CELL_STREAM, slot, s)))
        return false;
    const struct cushim_stream_object *stream =
        (const struct cushim_stream_object *)load_relaxed(&slot->object);
    out->slot = slot;
    out->handle = stream->handle;
    if (likely(stream->object.context == object->context &&
               (must_be_current ? cushim_launch_is_current(must_be_current)
                                : !cushim_stream_follows_current(stream->handle))))
        return true;
    cushim_unpin_fast(thread, CUSHIM_CELL_STREAM, slot);
    return false;
}

/* Whether the fast path may be tried at all, for a pin in CUSHIM_CELL_LAUNCH. */
static inline bool cushim_launch_has_fast_path(const struct cushim_thread *thread,
                                               const struct cushim_slot *slot) {
    return thread && slot && cushim_pin_has_fast_path();
}

/* The driver refused; in the scope that the launch did without. */
enum cushim_status cushim_launch_tell(const char *what,
                                      const struct cushim_function_object *function,
                                      const struct cushim_launch *launch, CUresult result);

/**
 * Launch a function, or a prepared launch with as many arguments as it has.
 * @param status  the answer, if the launch was done
 * @return false: it was not, and the slow path must launch
 */
ALWAYS_INLINE bool cushim_launch_fast(const char *what, enum cushim_kind kind, const void *handle,
                                      const struct cushim_launch *launch, const void *const *args,
                                      size_t n, enum cushim_status *status) {
    struct cushim_thread *thread = cushim_thread_mine;
    struct cushim_slot *slot = cushim_slot_of_kind(kind, (uintptr_t)handle);
    struct cushim_launch_stream use;
    bool is_done = false;
    if (unlikely(!cushim_launch_has_fast_path(thread, slot) ||
                 !cushim_pin_fast(thread, CUSHIM_CELL_LAUNCH, slot, handle)))
        return false;
    const struct cushim_launched *launched =
        (const struct cushim_launched *)load_relaxed(&slot->object);
    const struct cushim_fast_launch *fast = &launched->fast;
    if (kind == CUSHIM_KIND_PREPARED)
        n = fast->n;
    if (likely((fast->n == n || fast->n == SIZE_MAX) && cushim_args_count(args, n) == n &&
               load_acquire(&fast->n_fast) == cushim_changes_now() &&
               cushim_launch_is_plain(launch) &&
               cushim_launch_stream_enter(thread, &launched->object, fast->must_be_current,
                                          launch->stream, &use))) {
        CUresult result = cushim_launch_submit(fast->handle, launch, use.handle,
                                               (struct cushim_args){.each = n ? args : NULL});
        cushim_unpin_fast(thread, CUSHIM_CELL_STREAM, use.slot);
        is_done = cushim_launch_is_final(fast->must_be_current, result);
        if (unlikely(is_done && result != CUDA_SUCCESS))
            *status = cushim_launch_tell(what, fast->function, launch, result);
    }
    cushim_unpin_fast(thread, CUSHIM_CELL_LAUNCH, slot);
    return is_done;
}
