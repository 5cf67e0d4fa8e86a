/* Segments: which memory of the driver's a recorded process has, by address. */
#ifndef CUSHIM_TRACE_SEGMENTS_H
#define CUSHIM_TRACE_SEGMENTS_H

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
    struct cushim_trace_segment_pool *pools; /* of each, which rows it has */
};

typedef void cushim_trace_segment_fn(const struct cushim_trace_segment *segment, void *context);

/* One that nobody has yet; false: there is no memory for it. */
bool cushim_trace_segments_add(struct cushim_trace_segments *segments,
                               const struct cushim_trace_segment *segment);

/* The one at `base`, if there is one, is told and goes; so do those of a pool. */
void cushim_trace_segments_remove(struct cushim_trace_segments *segments, uint64_t base,
                                  cushim_trace_segment_fn *tell, void *context);
void cushim_trace_segments_remove_pool(struct cushim_trace_segments *segments, uint64_t pool,
                                       cushim_trace_segment_fn *tell, void *context);

/* Tell of each, in no order. */
void cushim_trace_segments_each(const struct cushim_trace_segments *segments,
                                cushim_trace_segment_fn *tell, void *context);

void cushim_trace_segments_free(struct cushim_trace_segments *segments);

#endif
