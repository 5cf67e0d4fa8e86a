/*
 * Copies and sets: judged where an end is ours, counted by direction (interposition.md C9, C10).
 *
 * A hook describes what it was asked, begins, makes the driver's call, and ends with its answer. An
 * end that leaves its block or touches a freed one is refused as native refuses it; natively the
 * driver sees the allocation's end there, in a shared segment it would see the neighbour.  An end
 * where a segment of ours was is asked about first (preload/entry/stale_address.h).
 */
#ifndef CUSHIM_PRELOAD_COPY_CHECK_H
#define CUSHIM_PRELOAD_COPY_CHECK_H

#include "preload/state/contexts.h"

/* One end of a copy: the bytes from the first touched to the last, gaps between rows included. */
struct cushim_end {
    uint64_t address; /* 0: an array, which nobody else's bytes can follow */
    size_t span_bytes;
};

/* The rows of a shape, for who moves them. */
struct cushim_copy_rows {
    size_t width_bytes, height, depth;
    size_t to_row_bytes, to_slice_bytes, from_row_bytes, from_slice_bytes;
};

struct cushim_copy {
    enum cushim_direction direction;
    struct cushim_end to, from;
    size_t n_bytes;    /* moved */
    CUstream stream;   /* 0 also where there is none: the default stream of the current context */
    bool is_async;     /* it may still be under way when the call returned */
    bool is_unfit;     /* its rows are the driver's to judge */
    bool is_left;      /* it was large enough to be staged, and was not */
    bool has_rows;     /* else it is one run of bytes */
    uint64_t start_ns; /* of the driver's call, where somebody may look; else 0 */
    enum cushim_copy_reason left_for;
    struct cushim_copy_rows rows;
};

/* One run of bytes.  Of its rows and the reason nobody asks, and nobody writes them. */
static inline void cushim_copy_line(struct cushim_copy *copy, enum cushim_direction direction,
                                    uint64_t to, uint64_t from, size_t n_bytes, CUstream stream,
                                    bool is_async) {
    copy->direction = direction;
    copy->to = (struct cushim_end){to, n_bytes};
    copy->from = (struct cushim_end){from, n_bytes};
    copy->n_bytes = n_bytes;
    copy->stream = stream;
    copy->is_async = is_async;
    copy->is_unfit = copy->is_left = copy->has_rows = false;
    copy->start_ns = 0;
}

/* Whether an end lies in a live block, or surely in nobody's. */
static inline __attribute__((always_inline)) bool cushim_copy_end_is_plain(uint64_t address,
                                                                           size_t n_bytes) {
    enum cushim_mem_verdict verdict =
        cushim_mem_blocks_glance(&cushim_process.blocks, address, n_bytes);
    return verdict == CUSHIM_MEM_INSIDE ||
           (verdict == CUSHIM_MEM_FOREIGN &&
            !cushim_mem_pagemap_has_vacated(&cushim_process.blocks.map));
}

/*
 * Is one run of bytes as nearly all are: nobody counts it, none of its ends is to be refused, and
 * no free waits for it?  Then a hook has but to call the driver.  A set has its one end twice.
 */
static inline __attribute__((always_inline)) bool
cushim_copy_is_plain(uint64_t to, uint64_t from, size_t n_bytes, bool is_async) {
    atomic_size_t *most =
        is_async ? &cushim_process.plain_async_bytes : &cushim_process.plain_copy_bytes;
    return n_bytes < atomic_load_explicit(most, memory_order_relaxed) &&
           cushim_copy_end_is_plain(to, n_bytes) &&
           (from == to || cushim_copy_end_is_plain(from, n_bytes));
}

/* False: an end is not inside one live block, or where one was whose context went; answer
 * CUDA_ERROR_INVALID_VALUE. */
bool cushim_copy_begin(const struct cushim_copy *copy);

/* The same for an order that is given now and carried out by a graph later: memory of a graph may
 * not be there yet, so that of a foreign end nobody is asked. */
bool cushim_copy_admits(const struct cushim_copy *copy);

/* One more large copy of pageable memory, which took so long; 0: nobody knows. */
void cushim_copy_count_large(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                             enum cushim_copy_path path, bool is_to_device, uint64_t ns);

/* The host has waited for a copy: what was idle for a second goes back.  Returns `answer`. */
static inline CUresult cushim_copy_end_synchronous(CUresult answer) {
    if (answer == CUDA_SUCCESS)
        cushim_contexts_give_back_stale(NULL);
    return answer;
}

/* Count it where it was queued or done; returns `answer`. */
CUresult cushim_copy_end(struct cushim_cuda *cuda, const struct cushim_copy *copy, CUresult answer);

/*
 * The span of `height` x `depth` rows of width_bytes, row_bytes and slice_bytes apart; SIZE_MAX
 * where it does not fit a size, so that it is refused where it touches us.
 */
size_t cushim_copy_span(size_t width_bytes, size_t height, size_t depth, size_t row_bytes,
                        size_t slice_bytes);

/* What a box asks for; false where there is no shape to read, which is the driver's to judge. */
bool cushim_copy_describe_3d(const CUDA_MEMCPY3D *shape, CUstream stream, bool is_async,
                             struct cushim_copy *copy);

#endif
