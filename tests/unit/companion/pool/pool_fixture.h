/* Allocations and frees that must succeed, for the suites of pools. */
#pragma once

#include "cushim/pool.h"
#include "cushim/stream.h"
#include "tests/unit/companion/core/sim_fixture.h"

#include "sim.h"

static inline struct cushim_pool *create(const struct cushim_pool_options *options) {
    struct cushim_pool *p;
    ck_assert_int_eq(cushim_pool_create(options, &p), CUSHIM_OK);
    return p;
}

static inline struct cushim_stream *new_stream(void) {
    struct cushim_stream *s;
    ck_assert_int_eq(cushim_stream_create(NULL, 1, 0, &s), CUSHIM_OK);
    return s;
}

static inline cushim_devptr take(struct cushim_pool *p, size_t bytes, struct cushim_stream *s) {
    cushim_devptr ptr;
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, bytes, s, &ptr), CUSHIM_OK);
    return ptr;
}

static inline void give(struct cushim_pool *p, cushim_devptr ptr, struct cushim_stream *s) {
    ck_assert_int_eq(cushim_pool_free(p, -1, ptr, 0, s), CUSHIM_OK);
}

static inline struct cushim_pool_stats stats_of(struct cushim_pool *p) {
    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    ck_assert_int_eq(cushim_pool_stats(p, -1, -1, &stats), CUSHIM_OK);
    return stats;
}

static inline void take_and_give(struct cushim_pool *p, size_t bytes, unsigned n,
                                 struct cushim_stream *s) {
    cushim_devptr all[256];
    ck_assert_uint_le(n, 256);
    for (unsigned i = 0; i < n; i++)
        all[i] = take(p, bytes, s);
    for (unsigned i = 0; i < n; i++)
        give(p, all[i], s);
}
