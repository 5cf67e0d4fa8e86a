/*
 * Staged copies: which copies run through pinned memory of ours (src/copy), and when.
 *
 * Natively a copy between pageable host memory and the device waits for its stream, and then moves
 * the bytes by way of the driver's own staging.  Here the same stream is waited for, and the bytes
 * move by way of ours, by several threads; the call returns when all have arrived.  Whatever does
 * not fit, or fails in between, is left to the driver's own call, which does it all and answers.
 */
#ifndef CUSHIM_PRELOAD_COPY_STAGE_H
#define CUSHIM_PRELOAD_COPY_STAGE_H

#include "preload/entry/copy_check.h"

/* Of one that may be large enough. */
bool cushim_copy_stage_large(struct cushim_cuda *cuda, struct cushim_copy *copy);

/*
 * Do it all; false: the driver's own call must.  Then a large copy has the time in `start_ns`,
 * where somebody may look.  Counted in the page, where somebody may look: at a report, the page or
 * a recording.
 */
static inline bool cushim_copy_stage(struct cushim_cuda *cuda, struct cushim_copy *copy) {
    return copy->n_bytes >= cushim_process.large_copy_bytes && cushim_copy_stage_large(cuda, copy);
}

/*
 * A batch: copies that come in no order among each other, in a stream.  All of it is staged or
 * none, so that it answers as natively.
 */
struct cushim_copy_batch {
    struct cushim_copy (*at)(const struct cushim_copy_batch *batch, size_t i);
    const void *list; /* the caller's, which `at` reads */
    size_t n_copies;
    CUstream stream;
    bool is_plain; /* each copy has attributes that natively nobody refuses, and no hints */
    bool is_left;  /* a large one among them could have been staged */
    enum cushim_copy_reason left_for;
};

/* As cushim_copy_stage; where the driver copies `is_left` says why. */
bool cushim_copy_stage_batch(struct cushim_cuda *cuda, struct cushim_copy_batch *batch);

/* As cushim_copy_end, for each of them. */
CUresult cushim_copy_end_batch(struct cushim_cuda *cuda, const struct cushim_copy_batch *batch,
                               CUresult answer);

#endif
