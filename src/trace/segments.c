#include "trace/segments.h"

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct cushim_trace_segment_row {
    struct cushim_trace_segment segment;
    UT_hash_handle hh;
};

static struct cushim_trace_segment_row *find(const struct cushim_trace_segments *segments,
                                             uint64_t base) {
    struct cushim_trace_segment_row *row;
    HASH_FIND(hh, segments->rows, &base, sizeof base, row);
    return row;
}

bool cushim_trace_segments_add(struct cushim_trace_segments *segments,
                               const struct cushim_trace_segment *segment) {
    struct cushim_trace_segment_row *row = calloc(1, sizeof *row);
    if (!row)
        return false;
    row->segment = *segment;
    HASH_ADD(hh, segments->rows, segment.base, sizeof row->segment.base, row);
    if (find(segments, segment->base) == row)
        return true;
    free(row);
    return false;
}

static void leave(struct cushim_trace_segments *segments, struct cushim_trace_segment_row *row,
                  cushim_trace_segment_fn *tell, void *context) {
    tell(&row->segment, context);
    HASH_DEL(segments->rows, row);
    free(row);
}

void cushim_trace_segments_remove(struct cushim_trace_segments *segments, uint64_t base,
                                  cushim_trace_segment_fn *tell, void *context) {
    struct cushim_trace_segment_row *row = find(segments, base);
    if (row)
        leave(segments, row, tell, context);
}

void cushim_trace_segments_remove_pool(struct cushim_trace_segments *segments, uint64_t pool,
                                       cushim_trace_segment_fn *tell, void *context) {
    struct cushim_trace_segment_row *row, *next;
    HASH_ITER(hh, segments->rows, row, next) {
        if (row->segment.pool == pool)
            leave(segments, row, tell, context);
    }
}

void cushim_trace_segments_each(const struct cushim_trace_segments *segments,
                                cushim_trace_segment_fn *tell, void *context) {
    for (const struct cushim_trace_segment_row *row = segments->rows; row; row = row->hh.next)
        tell(&row->segment, context);
}

void cushim_trace_segments_free(struct cushim_trace_segments *segments) {
    struct cushim_trace_segment_row *row, *next;
    HASH_ITER(hh, segments->rows, row, next) {
        HASH_DEL(segments->rows, row);
        free(row);
    }
}
