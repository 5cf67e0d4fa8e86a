#include "trace/segments.h"

#include <utlist.h>

#include "base/hash.h"

struct cushim_trace_segment_row {
    struct cushim_trace_segment segment;
    struct cushim_trace_segment_row *prev, *next; /* of its pool */
    UT_hash_handle hh;
};

struct cushim_trace_segment_pool {
    uint64_t number;
    struct cushim_trace_segment_row *rows;
    UT_hash_handle hh;
};

static struct cushim_trace_segment_row *find(const struct cushim_trace_segments *segments,
                                             uint64_t base) {
    struct cushim_trace_segment_row *row;
    HASH_FIND(hh, segments->rows, &base, sizeof base, row);
    return row;
}

static struct cushim_trace_segment_pool *find_pool(const struct cushim_trace_segments *segments,
                                                   uint64_t number) {
    struct cushim_trace_segment_pool *pool;
    HASH_FIND(hh, segments->pools, &number, sizeof number, pool);
    return pool;
}

bool cushim_trace_segments_add(struct cushim_trace_segments *segments,
                               const struct cushim_trace_segment *segment) {
    struct cushim_trace_segment_pool *pool;
    struct cushim_trace_segment_row *row;
    HASH_GET(segments->pools, number, segment->pool, pool);
    if (!pool)
        return false;
    HASH_GET(segments->rows, segment.base, segment->base, row);
    if (!row)
        return false;
    row->segment = *segment;
    DL_APPEND(pool->rows, row);
    return true;
}

static void leave(struct cushim_trace_segments *segments, struct cushim_trace_segment_row *row,
                  cushim_trace_segment_fn *tell, void *context) {
    struct cushim_trace_segment_pool *pool = find_pool(segments, row->segment.pool);
    tell(&row->segment, context);
    DL_DELETE(pool->rows, row);
    HASH_DEL(segments->rows, row);
    free(row);
}

void cushim_trace_segments_remove(struct cushim_trace_segments *segments, uint64_t base,
                                  cushim_trace_segment_fn *tell, void *context) {
    struct cushim_trace_segment_row *row = find(segments, base);
    if (row)
        leave(segments, row, tell, context);
}

void cushim_trace_segments_remove_pool(struct cushim_trace_segments *segments, uint64_t number,
                                       cushim_trace_segment_fn *tell, void *context) {
    const struct cushim_trace_segment_pool *pool = find_pool(segments, number);
    while (pool && pool->rows)
        leave(segments, pool->rows, tell, context);
}

void cushim_trace_segments_each(const struct cushim_trace_segments *segments,
                                cushim_trace_segment_fn *tell, void *context) {
    for (const struct cushim_trace_segment_row *row = segments->rows; row; row = row->hh.next)
        tell(&row->segment, context);
}

void cushim_trace_segments_free(struct cushim_trace_segments *segments) {
    HASH_FREE(segments->rows);
    HASH_FREE(segments->pools);
}
