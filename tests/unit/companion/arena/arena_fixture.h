/* Small arenas on the software device, two streams and held work, for the suites of arenas. */
#pragma once

#include "tests/unit/suite.h"
#include "cushim/arena.h"
#include "cushim/context.h"
#include "cushim/memory.h"
#include "cushim/pool.h"
#include "cushim/stream.h"
#include "companion/context/address_map.h"
#include "companion/arena/arena.h"
#include "companion/arena/arena_internal.h"
#include "companion/context/call.h"
#include "sim.h"
#include "tests/unit/companion/core/sim_fixture.h"

static struct cushim_stream *s, *t; /* set by begin_streams */

static inline void ok(enum cushim_status status) {
    ck_assert_msg(status == CUSHIM_OK, "%s", cushim_status_name(status));
}

static inline struct cushim_arena *made(struct cushim_arena_options options) {
    struct cushim_arena *arena;
    ok(cushim_arena_create(&options, &arena));
    return arena;
}

static inline struct cushim_arena_options default_options(unsigned flags) {
    struct cushim_arena_options options;
    cushim_arena_options_default(&options);
    options.capacity_bytes = 4096;
    options.flags = flags;
    return options;
}

static inline void begin_streams(void) {
    ok(cushim_stream_create(NULL, 1, 0, &s));
    ok(cushim_stream_create(NULL, 1, 0, &t));
}

static inline cushim_devptr take_on(struct cushim_arena *arena, size_t bytes,
                                    struct cushim_stream *on) {
    cushim_devptr ptr;
    ok(cushim_arena_alloc(arena, 0, 0, bytes, on, &ptr, NULL));
    return ptr;
}

static inline unsigned long waits_of_device(void) {
    return SIM(sim_calls)("cuStreamWaitEvent");
}

static inline struct cushim_arena_stats stats_of(struct cushim_arena *arena) {
    struct cushim_arena_stats stats = {.struct_size = sizeof stats};
    ok(cushim_arena_stats(arena, &stats));
    return stats;
}

/* Submit work on a stream that does not end before the device is released. */
static inline cushim_devptr busy(struct cushim_stream *on) {
    static cushim_devptr block;
    if (!block)
        ok(cushim_memory_alloc(NULL, 4096, &block));
    SIM(sim_hold)();
    ok(cushim_memory_set8_async(block, 1, 4096, on));
    return block;
}
