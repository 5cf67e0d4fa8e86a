#include "preload/entry/copy_stage.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "copy/host.h"
#include "copy/ring.h"
#include "cuda/current_context.h"
#include "cuda/table.h"
#include "memory/state/heap_state.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"
#include "preload/observe/tracing.h"

/* Is there a report, a live page or a recording that shows it? */
static bool is_counted(void) {
    return cushim_process_options.stats[0] || cushim_process_options.live || cushim_tracing_is_on();
}

static bool leave_for(struct cushim_copy *copy, enum cushim_copy_reason reason) {
    copy->is_left = true;
    copy->left_for = reason;
    return false;
}

static void count_left(struct cushim_copy *copy) {
    copy->is_left = copy->is_left && is_counted();
    if (copy->is_left)
        cushim_mem_stats_add(&cushim_page.copies.n_left[copy->left_for], 1);
}

/* ---- what lies at the two ends, by the driver's word ---- */

struct place {
    unsigned type; /* 0: the driver knows nothing there */
    int device;
    unsigned is_managed;
};

static struct place place_of(struct cushim_cuda *cuda, uint64_t address) {
    struct place place = {0, -1, 0};
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[] = {&place.type, &place.device, &place.is_managed};
    if (cuda->cuPointerGetAttributes(3, attributes, data, address) != CUDA_SUCCESS)
        place.type = CU_MEMORYTYPE_UNIFIED; /* no end may be of this type */
    return place;
}

static bool wraps(const struct cushim_end *end) {
    return !end->address || !end->span_bytes || end->address + end->span_bytes < end->address;
}

/* The driver knows nothing at the first byte nor at the last. */
static bool is_pageable(struct cushim_cuda *cuda, const struct cushim_end *end) {
    return !wraps(end) && place_of(cuda, end->address).type == 0 &&
           place_of(cuda, end->address + end->span_bytes - 1).type == 0;
}

/* Is it in one allocation of the current device? */
static bool is_on_device(struct cushim_cuda *cuda, const struct cushim_end *end) {
    CUdevice device;
    CUdeviceptr base;
    size_t n_bytes;
    if (wraps(end) || cuda->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return false;
    struct place place = place_of(cuda, end->address);
    return place.type == CU_MEMORYTYPE_DEVICE && place.device == device && !place.is_managed &&
           cuda->cuMemGetAddressRange_v2(&base, &n_bytes, end->address) == CUDA_SUCCESS &&
           end->address >= base && end->address + end->span_bytes <= base + n_bytes;
}

/* Find which end is the host's.  False: they are not one of the host and one of the device. */
static bool find_direction(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                           bool *is_to_device) {
    if (!cuda->cuPointerGetAttributes || !cuda->cuMemGetAddressRange_v2)
        return false;
    *is_to_device = copy->direction == CUSHIM_HOST_TO_DEVICE ||
                    (copy->direction == CUSHIM_BY_ADDRESS && is_pageable(cuda, &copy->from));
    return *is_to_device ? is_pageable(cuda, &copy->from) && is_on_device(cuda, &copy->to)
                         : is_pageable(cuda, &copy->to) && is_on_device(cuda, &copy->from);
}

/* ---- the shape ---- */

static struct cushim_copy_box box_of(const struct cushim_copy *copy, bool is_to_device) {
    const struct cushim_copy_rows *rows = &copy->rows;
    struct cushim_copy_side to = {copy->to.address, rows->to_row_bytes, rows->to_slice_bytes};
    struct cushim_copy_side from = {copy->from.address, rows->from_row_bytes,
                                    rows->from_slice_bytes};
    return (struct cushim_copy_box){.host = is_to_device ? from : to,
                                    .device = is_to_device ? to : from,
                                    .width_bytes =
                                        copy->has_rows ? rows->width_bytes : copy->n_bytes,
                                    .height = copy->has_rows ? rows->height : 1,
                                    .depth = copy->has_rows ? rows->depth : 1,
                                    .is_to_device = is_to_device};
}

/* Slices that do not join take at least one driver call each, which is too much for many small
 * ones. */
static bool is_fit(const struct cushim_copy_box *box, size_t n_bytes) {
    struct cushim_copy_cut cut = cushim_copy_cut(box, n_bytes);
    return n_bytes / cut.n_pieces >= cushim_process_options.copy_stage_min / 8;
}

/* ---- the ring ---- */

/* The processors beside the caller's; all that are online if the set has too few bits for the
 * machine. */
static size_t count_other_processors(void) {
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);
    return n > 1 ? (size_t)n - 1 : 0;
}

/* Does the context live, and is it not a green one?  We do not see the end of those. */
static bool is_own_context(struct cushim_cuda *cuda, CUcontext context) {
    struct cushim_mem_heap *heap = cushim_contexts_current(cuda);
    return heap && atomic_load(&heap->fence->context) == context;
}

static enum cushim_copy_outcome move(struct cushim_cuda *cuda, const struct cushim_copy_box *box,
                                     size_t n_others) {
    size_t n = cushim_process_options.copy_threads;
    struct cushim_copy_ring_setup setup = {.cuda = cuda,
                                           .ring_bytes = cushim_process_options.copy_ring,
                                           .n_threads = (unsigned)(n < n_others ? n : n_others)};
    enum cushim_copy_outcome outcome = CUSHIM_COPY_NO_RING;
    if (cuda->cuCtxGetCurrent(&setup.context) != CUDA_SUCCESS || !setup.context)
        return outcome;
    struct cushim_copy_ring *ring = cushim_copy_ring_obtain(&setup);
    if (!ring)
        return outcome;
    if (is_own_context(cuda, setup.context)) /* after the above, so that a thread that ends it waits
                                              * for us */
        outcome = cushim_copy_ring_move(ring, box);
    cushim_copy_ring_release(ring);
    return outcome;
}

static enum cushim_copy_reason reason_of(enum cushim_copy_outcome outcome) {
    static const enum cushim_copy_reason reasons[] = {
        [CUSHIM_COPY_NO_RING] = CUSHIM_COPY_REASON_RING,
        [CUSHIM_COPY_HOST_IS_NOT] = CUSHIM_COPY_REASON_HOST,
        [CUSHIM_COPY_REFUSED] = CUSHIM_COPY_REASON_DRIVER};
    return reasons[outcome];
}

/* Find what a copy moves; false if its ends cannot be staged. */
static bool find_box(struct cushim_cuda *cuda, struct cushim_copy *copy,
                     struct cushim_copy_box *box) {
    bool is_to_device;
    if (!find_direction(cuda, copy, &is_to_device))
        return leave_for(copy, CUSHIM_COPY_REASON_PLACE);
    *box = box_of(copy, is_to_device);
    return is_fit(box, copy->n_bytes) || leave_for(copy, CUSHIM_COPY_REASON_SHAPE);
}

/* The driver may return from a queued copy to the device, and from a batch, before their stream is
 * idle.  So these are staged only if it is idle already. */
static bool is_ordered(struct cushim_cuda *cuda, struct cushim_copy *copy, bool may_wait) {
    CUresult answer = cushim_copy_ring_await(cuda, copy->stream, may_wait);
    return answer == CUDA_SUCCESS ||
           leave_for(copy, answer == CUDA_ERROR_NOT_READY ? CUSHIM_COPY_REASON_STREAM
                                                          : CUSHIM_COPY_REASON_WAIT);
}

static bool stage(struct cushim_cuda *cuda, struct cushim_copy *copy, size_t n_others) {
    struct cushim_copy_box box;
    if (copy->is_unfit)
        return leave_for(copy, CUSHIM_COPY_REASON_SHAPE);
    if (!find_box(cuda, copy, &box) ||
        !is_ordered(cuda, copy, !copy->is_async || !box.is_to_device))
        return false;
    uint64_t start_ns = is_counted() ? cushim_clock_ns() : 0;
    enum cushim_copy_outcome outcome = move(cuda, &box, n_others);
    if (outcome != CUSHIM_COPY_DONE)
        return leave_for(copy, reason_of(outcome));
    if (start_ns)
        cushim_copy_count_large(cuda, copy, CUSHIM_COPY_STAGED, box.is_to_device,
                                cushim_clock_ns() - start_ns);
    return true;
}

/* ---- a batch ---- */

static bool is_large(const struct cushim_copy *copy) {
    return copy->n_bytes >= cushim_process_options.copy_stage_min && cushim_process_is_on() &&
           copy->direction != CUSHIM_DEVICE_TO_DEVICE && copy->direction != CUSHIM_HOST_TO_HOST;
}

static bool is_fit_batch(const struct cushim_copy_batch *batch) {
    for (size_t i = 0; batch->is_plain && i < batch->n_copies; i++) {
        struct cushim_copy copy = batch->at(batch, i);
        if (!is_large(&copy) || copy.is_unfit)
            return false;
    }
    return batch->is_plain;
}

/* Find the box of each copy.  False: not all may be staged, and `whole` has the reason. */
static bool find_boxes(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                       struct cushim_copy *whole, struct cushim_copy_box *boxes) {
    for (size_t i = 0; i < batch->n_copies; i++) {
        struct cushim_copy copy = batch->at(batch, i);
        if (!find_box(cuda, &copy, &boxes[i]))
            return leave_for(whole, copy.left_for);
        whole->n_bytes += copy.n_bytes;
    }
    return true;
}

/* The time of the batch is divided by bytes, so it is counted only when all copies are done. */
static void count_batch(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                        const struct cushim_copy_box *boxes, size_t n_bytes, uint64_t ns) {
    for (size_t i = 0; i < batch->n_copies; i++) {
        struct cushim_copy copy = batch->at(batch, i);
        cushim_copy_count_large(cuda, &copy, CUSHIM_COPY_STAGED, boxes[i].is_to_device,
                                (uint64_t)((double)ns * ((double)copy.n_bytes / (double)n_bytes)));
    }
}

/* The copies of a batch have no order, so after a failure the driver may make all of them again. */
static bool move_boxes(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                       struct cushim_copy *whole, size_t n_others,
                       const struct cushim_copy_box *boxes) {
    uint64_t start_ns = is_counted() ? cushim_clock_ns() : 0;
    for (size_t i = 0; i < batch->n_copies; i++) {
        enum cushim_copy_outcome outcome = move(cuda, &boxes[i], n_others);
        if (outcome != CUSHIM_COPY_DONE)
            return leave_for(whole, reason_of(outcome));
    }
    if (start_ns)
        count_batch(cuda, batch, boxes, whole->n_bytes, cushim_clock_ns() - start_ns);
    return true;
}

static bool stage_batch(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                        struct cushim_copy *whole, size_t n_others) {
    struct cushim_copy_box *boxes = reallocarray(NULL, batch->n_copies, sizeof *boxes);
    bool is_done = boxes
                       ? find_boxes(cuda, batch, whole, boxes) && is_ordered(cuda, whole, false) &&
                             move_boxes(cuda, batch, whole, n_others, boxes)
                       : leave_for(whole, CUSHIM_COPY_REASON_RING);
    free(boxes);
    return is_done;
}

/* ---- all of it ---- */

/* The thread's capture mode is RELAXED meanwhile, so that a capture which another thread begins
 * stays valid. */
static bool stage_if_possible(struct cushim_cuda *cuda, struct cushim_copy *copy,
                              const struct cushim_copy_batch *batch) {
    if (cushim_thread.host_function_depth)
        return leave_for(copy, CUSHIM_COPY_REASON_HOST_FUNCTION);
    if (cushim_capture_is_open())
        return leave_for(copy, CUSHIM_COPY_REASON_CAPTURE);
    if (!cuda->cuStreamQuery || !cuda->cuStreamSynchronize)
        return leave_for(copy, CUSHIM_COPY_REASON_WAIT);
    size_t n_others = count_other_processors();
    if (!n_others)
        return leave_for(copy, CUSHIM_COPY_REASON_PROCESSORS);
    if (!cushim_copy_host_can_look())
        return leave_for(copy, CUSHIM_COPY_REASON_KERNEL);
    int error = errno;
    CUstreamCaptureMode mode = cushim_mode_relaxed(cuda);
    bool is_done = batch ? stage_batch(cuda, batch, copy, n_others) : stage(cuda, copy, n_others);
    cushim_mode_back(cuda, mode);
    errno = error;
    return is_done;
}

bool cushim_copy_stage_large(struct cushim_cuda *cuda, struct cushim_copy *copy) {
    if (!is_large(copy))
        return false;
    if (cushim_process_options.copy_stage && stage_if_possible(cuda, copy, NULL))
        return true;
    count_left(copy);
    copy->start_ns = is_counted() ? cushim_clock_ns() : 0;
    return false;
}

bool cushim_copy_stage_batch(struct cushim_cuda *cuda, struct cushim_copy_batch *batch) {
    bool is_legacy = !batch->stream || batch->stream == CU_STREAM_LEGACY; /* which the driver
                                                                           * refuses */
    struct cushim_copy whole = {.stream = batch->stream};
    if (!cushim_process_options.copy_stage || !batch->n_copies || is_legacy)
        return false;
    if (is_fit_batch(batch) ? stage_if_possible(cuda, &whole, batch)
                            : leave_for(&whole, CUSHIM_COPY_REASON_BATCH))
        return true;
    batch->is_left = true;
    batch->left_for = whole.left_for;
    return false;
}

CUresult cushim_copy_end_batch(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                               CUresult answer) {
    for (size_t i = 0; answer == CUDA_SUCCESS && i < batch->n_copies; i++) {
        struct cushim_copy copy = batch->at(batch, i);
        if (batch->is_left && is_large(&copy)) {
            leave_for(&copy, batch->left_for);
            count_left(&copy);
        }
        if (copy.n_bytes) /* 0 if an end is an array */
            cushim_copy_end(cuda, &copy, answer);
    }
    return answer;
}
