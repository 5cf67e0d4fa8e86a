/*
 * Copies and sets: judged if an end is ours, and counted by direction (interposition.md C9, C10).
 *
 * A hook describes the call, begins, makes the driver's call, and ends with its answer.  If an end
 * leaves its block or touches a freed one, the copy is refused, as the driver would refuse it
 * without cushim.  The driver itself cannot do so here, because in a shared segment the neighbour
 * follows.  If a segment of ours lay at an end before, the driver is asked first
 * (preload/entry/stale_address.h).
 */
#pragma once

#include "preload/state/contexts.h"

/* One end of a copy: the bytes from the first touched to the last, gaps between rows included. */
struct cushim_end {
    uint64_t address; /* 0: an array, which only the driver can judge */
    size_t span_bytes;
};

/* The rows of a shape, for the code that moves them. */
struct cushim_copy_rows {
    size_t width_bytes, height, depth;
    size_t to_row_bytes, to_slice_bytes, from_row_bytes, from_slice_bytes;
};

struct cushim_copy {
    enum cushim_direction direction;
    struct cushim_end to, from;
    size_t n_bytes;    /* moved */
    CUstream stream;   /* 0 also if there is none: the default stream of the current context */
    bool is_async;     /* it may still be under way when the call returns */
    bool is_unfit;     /* only the driver can judge its rows */
    bool is_left;      /* it was large enough to be staged, and was not */
    bool has_rows;     /* if not, it is one run of bytes */
    uint64_t start_ns; /* of the driver's call if it is counted, else 0 */
    enum cushim_copy_reason left_for;
    struct cushim_copy_rows rows;
};

/* Describe one run of bytes.  Its rows and the reason are not written, because nobody reads
 * them. */
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

/* Does an end lie in a live block, or certainly in no block of ours? */
static inline __attribute__((always_inline)) bool cushim_copy_end_is_plain(uint64_t address,
                                                                           size_t n_bytes) {
    enum cushim_mem_verdict verdict =
        cushim_mem_blocks_glance(&cushim_process.blocks, address, n_bytes);
    return verdict == CUSHIM_MEM_INSIDE ||
           (verdict == CUSHIM_MEM_FOREIGN &&
            !cushim_mem_pagemap_has_vacated(&cushim_process.blocks.map));
}

/*
 * Does nobody count this run of bytes, is neither end to be refused, and does no free wait for it?
 * That is so for nearly all, and then a hook only calls the driver.  A set passes its one end
 * twice.
 */
static inline __attribute__((always_inline)) bool
cushim_copy_is_plain(uint64_t to, uint64_t from, size_t n_bytes, bool is_async) {
    atomic_size_t *most =
        is_async ? &cushim_process.plain_async_bytes : &cushim_process.plain_copy_bytes;
    return n_bytes < atomic_load_explicit(most, memory_order_relaxed) &&
           cushim_copy_end_is_plain(to, n_bytes) &&
           (from == to || cushim_copy_end_is_plain(from, n_bytes));
}

/* False: an end is not inside one live block, or is in memory that went with its context.  Answer
 * CUDA_ERROR_INVALID_VALUE. */
bool cushim_copy_begin(const struct cushim_copy *copy);

/* The same for a copy that a graph makes later.  Memory of a graph may not exist yet, so the driver
 * is not asked about a foreign end. */
bool cushim_copy_admits(const struct cushim_copy *copy);

/* Count a large copy of pageable memory and the time that it took; 0: unknown. */
void cushim_copy_count_large(struct cushim_cuda *cuda, const struct cushim_copy *copy,
                             enum cushim_copy_path path, bool is_to_device, uint64_t ns);

/* The host has waited for a copy: give back memory that was idle for a second.  Returns
 * `answer`. */
static inline CUresult cushim_copy_end_synchronous(CUresult answer) {
    if (answer == CUDA_SUCCESS)
        cushim_contexts_give_back_stale(NULL);
    return answer;
}

/* Count it if it was queued or done; returns `answer`. */
CUresult cushim_copy_end(struct cushim_cuda *cuda, const struct cushim_copy *copy, CUresult answer);

/* The rest of a hook that has described a copy: `call`, which is the driver's or ours, makes it. */
#define CUSHIM_COPY(copy, call)                                                                    \
    if (!cushim_copy_begin(copy))                                                                  \
        return CUDA_ERROR_INVALID_VALUE;                                                           \
    return cushim_copy_end(cuda, copy, call)

/*
 * The span of `height` x `depth` rows of width_bytes, row_bytes and slice_bytes apart; SIZE_MAX if
 * it does not fit a size, so that it is refused if it touches memory of ours.
 */
size_t cushim_copy_span(size_t width_bytes, size_t height, size_t depth, size_t row_bytes,
                        size_t slice_bytes);

/* Describe a box; false if there is no shape to read, which the driver judges. */
bool cushim_copy_describe_3d(const CUDA_MEMCPY3D *shape, CUstream stream, bool is_async,
                             struct cushim_copy *copy);
