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

/* Why a copy that was large enough was left to the driver. */
#define CUSHIM_COPY_REASONS(REASON)                                                                \
    REASON(CAPTURE, "a stream capture was open")                                                   \
    REASON(HOST_FUNCTION, "inside a host function")                                                \
    REASON(PROCESSORS, "the thread may run on one processor alone, where staging loses")           \
    REASON(SHAPE, "its rows are too short")                                                        \
    REASON(PLACE, "not from pageable memory to the current device, or back")                       \
    REASON(STREAM, "its stream was busy, for which natively it need not wait")                     \
    REASON(WAIT, "its stream had an error, or could not be waited for")                            \
    REASON(RING, "no pinned memory or no stream was to be had")                                    \
    REASON(HOST, "the host memory was not all there")                                              \
    REASON(DRIVER, "the driver refused a transfer")

enum cushim_copy_reason {
#define REASON(name, text) CUSHIM_COPY_REASON_##name,
    CUSHIM_COPY_REASONS(REASON)
#undef REASON
        CUSHIM_N_COPY_REASONS
};

/* Counted while the exit report is asked for.  [1]: from the device to the host. */
struct cushim_copy_stage_counts {
    atomic_uint_fast64_t n_copies[2], n_bytes[2],
        ns[2]; /* staged, without the wait for the stream */
    atomic_uint_fast64_t n_left[CUSHIM_N_COPY_REASONS];
};

extern struct cushim_copy_stage_counts cushim_copy_stage_counts;

/*
 * Do it all; false: the driver's own call must.  Notes the time in `copy` where it is one that the
 * report tells of.
 */
bool cushim_copy_stage(struct cushim_cuda *cuda, struct cushim_copy *copy);

#endif
