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

/*
 * Do it all; false: the driver's own call must.  Then a large copy has the time in `start_ns`,
 * where somebody may look.  Counted in the page, where somebody may look: at a report, the page or
 * a recording.
 */
bool cushim_copy_stage(struct cushim_cuda *cuda, struct cushim_copy *copy);

/* One of a batch, which the driver made: counted where it was large enough. */
void cushim_copy_stage_left_batch(struct cushim_copy *copy);

#endif
