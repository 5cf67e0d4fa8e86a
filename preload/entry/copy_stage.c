#include "preload/entry/copy_stage.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "copy/ring.h"
#include "cuda/table.h"
#include "memory/current_context.h"
#include "memory/heap/heap.h"
#include "preload/state/captures.h"
#include "preload/state/contexts.h"
#include "preload/state/process_options.h"
#include "preload/state/tracing.h"

/* Somebody may look: at the report, the live page, or the recording. */
static bool is_counted(void) {
    return cushim_process_options.stats[0] || cushim_process_options.live || cushim_tracing_is_on();
}

static bool leave_for(struct cushim_copy *copy, enum cushim_copy_reason reason) {
    if (!is_counted())
        return false;
    cushim_mem_stats_add(&cushim_page.copies.n_left[reason], 1);
    copy->is_left = true;
    copy->left_for = reason;
    return false;
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
        place.type = CU_MEMORYTYPE_UNIFIED; /* of which no end may be */
    return place;
}

static bool wraps(const struct cushim_end *end) {
    return !end->address || !end->span_bytes || end->address + end->span_bytes < end->address;
}

/* Unknown to the driver from the first byte to the last. */
static bool is_pageable(struct cushim_cuda *cuda, const struct cushim_end *end) {
    return !wraps(end) && place_of(cuda, end->address).type == 0 &&
           place_of(cuda, end->address + end->span_bytes - 1).type == 0;
}

/* In one allocation of the current device. */
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

/* Which end is the host's; false: not one of the host and one of the device. */
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
    bool has_rows = rows->height != 0;
    return (struct cushim_copy_box){.host = is_to_device ? from : to,
                                    .device = is_to_device ? to : from,
                                    .width_bytes = has_rows ? rows->width_bytes : copy->n_bytes,
                                    .height = has_rows ? rows->height : 1,
                                    .depth = has_rows ? rows->depth : 1,
                                    .is_to_device = is_to_device};
}

/* Slices that do not join take a driver call each at least, which many small ones are not worth. */
static bool is_fit(const struct cushim_copy_box *box, size_t n_bytes) {
    struct cushim_copy_cut cut = cushim_copy_cut(box, n_bytes);
    return n_bytes / cut.n_pieces >= cushim_process_options.copy_stage_min / 8;
}

/* ---- the wait ---- */

/*
 * What native waits for.  Only a queued copy to the device may come back before its stream is
 * there: it is staged where the stream is idle, so that nobody waits who natively would not.
 */
static CUresult wait_for_stream(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                                bool is_to_device) {
    return cushim_copy_ring_await(cuda, copy->stream, !copy->is_async || !is_to_device);
}

/* ---- the ring ---- */

/* Processors beside the caller's.  Where the set has too few bits for the machine: all online. */
static size_t count_other_processors(void) {
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);
    return n > 1 ? (size_t)n - 1 : 0;
}

/* The context's, where it lives and is not a green one: those end unseen. */
static bool is_own_context(struct cushim_cuda *cuda, CUcontext context) {
    struct cushim_mem_heap *pool = cushim_contexts_current(cuda);
    return pool && atomic_load(&pool->fence->context) == context;
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
    if (is_own_context(cuda, setup.context)) /* behind the above: who ends it waits for us */
        outcome = cushim_copy_ring_move(ring, box);
    cushim_copy_ring_release(ring);
    return outcome;
}

static bool settle(struct cushim_cuda *cuda, enum cushim_copy_outcome outcome,
                   struct cushim_copy *copy, bool is_to_device, uint64_t start_ns) {
    static const enum cushim_copy_reason reasons[] = {
        [CUSHIM_COPY_NO_RING] = CUSHIM_COPY_REASON_RING,
        [CUSHIM_COPY_HOST_IS_NOT] = CUSHIM_COPY_REASON_HOST,
        [CUSHIM_COPY_REFUSED] = CUSHIM_COPY_REASON_DRIVER};
    if (outcome != CUSHIM_COPY_DONE)
        return leave_for(copy, reasons[outcome]);
    if (start_ns)
        cushim_copy_count_large(cuda, copy, CUSHIM_COPY_STAGED, is_to_device, start_ns);
    return true;
}

/* The thread's capture mode is RELAXED: a capture that another one begins now stays valid. */
static bool stage(struct cushim_cuda *cuda, struct cushim_copy *copy) {
    bool is_to_device;
    size_t n_others = count_other_processors();
    if (!n_others)
        return leave_for(copy, CUSHIM_COPY_REASON_PROCESSORS);
    if (!find_direction(cuda, copy, &is_to_device))
        return leave_for(copy, CUSHIM_COPY_REASON_PLACE);
    struct cushim_copy_box box = box_of(copy, is_to_device);
    if (!is_fit(&box, copy->n_bytes))
        return leave_for(copy, CUSHIM_COPY_REASON_SHAPE);
    CUresult answer = wait_for_stream(cuda, copy, is_to_device);
    if (answer != CUDA_SUCCESS)
        return leave_for(copy, answer == CUDA_ERROR_NOT_READY ? CUSHIM_COPY_REASON_STREAM
                                                              : CUSHIM_COPY_REASON_WAIT);
    uint64_t start_ns = is_counted() ? cushim_clock_ns() : 0;
    return settle(cuda, move(cuda, &box, n_others), copy, is_to_device, start_ns);
}

static bool stage_where_possible(struct cushim_cuda *cuda, struct cushim_copy *copy) {
    if (copy->is_unfit)
        return leave_for(copy, CUSHIM_COPY_REASON_SHAPE);
    if (cushim_thread.host_function_depth)
        return leave_for(copy, CUSHIM_COPY_REASON_HOST_FUNCTION);
    if (cushim_capture_is_open())
        return leave_for(copy, CUSHIM_COPY_REASON_CAPTURE);
    if (!cuda->cuStreamQuery || !cuda->cuStreamSynchronize)
        return leave_for(copy, CUSHIM_COPY_REASON_WAIT);
    int error = errno;
    CUstreamCaptureMode mode = cushim_mem_mode_relaxed(cuda);
    bool is_done = stage(cuda, copy);
    cushim_mem_mode_back(cuda, mode);
    errno = error;
    return is_done;
}

static bool is_large(const struct cushim_copy *copy) {
    return copy->n_bytes >= cushim_process_options.copy_stage_min && cushim_process_is_on() &&
           copy->direction != CUSHIM_DEVICE_TO_DEVICE && copy->direction != CUSHIM_HOST_TO_HOST;
}

void cushim_copy_stage_left_batch(struct cushim_copy *copy) {
    if (cushim_process_options.copy_stage && is_large(copy))
        leave_for(copy, CUSHIM_COPY_REASON_BATCH);
}

bool cushim_copy_stage(struct cushim_cuda *cuda, struct cushim_copy *copy) {
    if (!is_large(copy))
        return false;
    if (cushim_process_options.copy_stage && stage_where_possible(cuda, copy))
        return true;
    copy->start_ns = is_counted() ? cushim_clock_ns() : 0;
    return false;
}
