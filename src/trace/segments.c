#include "trace/segments.h"

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

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

/* NULL if memory is out. */
static struct cushim_trace_segment_pool *find_or_add_pool(struct cushim_trace_segments *segments,
                                                          uint64_t number) {
    struct cushim_trace_segment_pool *pool = find_pool(segments, number);
    if (pool || !(pool = calloc(1, sizeof *pool)))
        return pool;
    pool->number = number;
    HASH_ADD(hh, segments->pools, number, sizeof pool->number, pool);
    if (find_pool(segments, number))
        return pool;
    free(pool);
    return NULL;
}

bool cushim_trace_segments_add(struct cushim_trace_segments *segments,
                               const struct cushim_trace_segment *segment) {
    struct cushim_trace_segment_pool *pool = find_or_add_pool(segments, segment->pool);
    struct cushim_trace_segment_row *row = pool ? calloc(1, sizeof *row) : NULL;
    if (!row)
        return false;
    row->segment = *segment;
    HASH_ADD(hh, segments->rows, segment.base, sizeof row->segment.base, row);
    if (find(segments, segment->base) != row) {
        free(row);
        return false;
    }
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
    struct cushim_trace_segment_row *row, *next;
    struct cushim_trace_segment_pool *pool, *next_pool;
    HASH_ITER(hh, segments->rows, row, next) {
        HASH_DEL(segments->rows, row);
        free(row);
    }
    HASH_ITER(hh, segments->pools, pool, next_pool) {
        HASH_DEL(segments->pools, pool);
        free(pool);
    }
}
