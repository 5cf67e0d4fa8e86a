/*
 * Staged copies: which copies run through pinned memory of ours (src/copy), and when.
 *
 * For a copy between pageable host memory and the device, the driver waits for its stream and then
 * moves the bytes through its own pinned memory.  We wait for the same stream, and several threads
 * move the bytes through ours; the call returns when all have arrived.  If a copy does not fit, or
 * a step fails, the driver's own call makes the whole copy and answers.
 */
#pragma once

#include "preload/entry/copy_check.h"

/* The rest of cushim_copy_stage, for a copy that may be large enough. */
bool cushim_copy_stage_large(struct cushim_cuda *cuda, struct cushim_copy *copy);

/*
 * Make the whole copy.  False: the driver's own call must; a large copy then has the time in
 * `start_ns`.  It is counted, and its time is taken, only if there is a report, a live page or a
 * recording.
 */
static inline bool cushim_copy_stage(struct cushim_cuda *cuda, struct cushim_copy *copy) {
    return copy->n_bytes >= cushim_process.large_copy_bytes && cushim_copy_stage_large(cuda, copy);
}

/*
 * A batch: copies in a stream that have no order among each other.  All of them are staged or none,
 * so that the answer is the driver's.
 */
struct cushim_copy_batch {
    struct cushim_copy (*at)(const struct cushim_copy_batch *batch, size_t i);
    const void *list; /* the caller's, which `at` reads */
    size_t n_copies;
    CUstream stream;
    bool is_plain; /* each copy has attributes that the driver accepts, and no hints */
    bool is_left;  /* a large one among them could have been staged */
    enum cushim_copy_reason left_for;
};

/* As cushim_copy_stage; if the driver has to copy, `left_for` says why. */
bool cushim_copy_stage_batch(struct cushim_cuda *cuda, struct cushim_copy_batch *batch);

/* As cushim_copy_end, for each of them. */
CUresult cushim_copy_end_batch(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                               CUresult answer);
