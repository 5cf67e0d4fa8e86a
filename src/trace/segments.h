/* Segments: the memory that a recorded process has from the driver, by address. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cushim_trace_segment {
    uint64_t base, n_bytes, pool;
    unsigned device, kind;
};

/* All zero has none. */
struct cushim_trace_segments {
    struct cushim_trace_segment_row *rows;
    struct cushim_trace_segment_pool *pools; /* by pool: the rows of each */
};

typedef void cushim_trace_segment_fn(const struct cushim_trace_segment *segment, void *context);

/* Add a new segment; false: there is no memory for it. */
bool cushim_trace_segments_add(struct cushim_trace_segments *segments,
                               const struct cushim_trace_segment *segment);

/* Remove the one at `base`, if there is one, and report it; the other function removes those of a
 * pool. */
void cushim_trace_segments_remove(struct cushim_trace_segments *segments, uint64_t base,
                                  cushim_trace_segment_fn *tell, void *context);
void cushim_trace_segments_remove_pool(struct cushim_trace_segments *segments, uint64_t pool,
                                       cushim_trace_segment_fn *tell, void *context);

/* Visit each, in no order. */
void cushim_trace_segments_each(const struct cushim_trace_segments *segments,
                                cushim_trace_segment_fn *tell, void *context);

void cushim_trace_segments_free(struct cushim_trace_segments *segments);
