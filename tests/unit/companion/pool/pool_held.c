/*
 * How much device memory a pool holds beside live blocks: it is bounded at every step, without a
 * cap and for all sizes, and the rest stays available to others.  The device has no backing
 * (CUSHIM_SIM_UNBACKED); its pages are counted.
 */
#include <stdio.h>

#include "cushim/cushim.h"
#include "tests/unit/companion/pool/pool_fixture.h"
#include "tests/unit/suite.h"

enum { MOST_BLOCKS = 2048 };

static const size_t mib = (size_t)1 << 20;

/* This many blocks of random sizes are live; each step frees one and allocates another. */
struct trace {
    unsigned n_blocks, n_steps;
    size_t most_bytes;
    struct cushim_stream *streams[2]; /* streams that blocks use in turn */
};

/* The highest held and live bytes over the steps. A live block counts as in the driver: above 1 MiB
 * in whole pages of 2 MiB. */
struct peaks {
    size_t held_bytes, live_bytes, asked_bytes;
};

static size_t native_bytes(size_t bytes) {
    return bytes > mib ? (bytes + 2 * mib - 1) / (2 * mib) * (2 * mib) : bytes;
}

static void raise(size_t *peak, size_t bytes) {
    if (*peak < bytes)
        *peak = bytes;
}

static struct peaks play(struct cushim_pool *p, const struct trace *trace) {
    static cushim_devptr blocks[MOST_BLOCKS];
    static size_t sizes[MOST_BLOCKS];
    struct peaks peaks = {0};
    uint64_t seed = 88172645463325252u;
    size_t live_bytes = 0, asked_bytes = 0;
    ck_assert_uint_le(trace->n_blocks, MOST_BLOCKS);
    for (unsigned i = 0; i < trace->n_blocks + trace->n_steps; i++) {
        unsigned at = i < trace->n_blocks ? i : (unsigned)(suite_random(&seed) % trace->n_blocks);
        struct cushim_stream *s = trace->streams[at % 2];
        if (i >= trace->n_blocks) {
            give(p, blocks[at], s);
            live_bytes -= native_bytes(sizes[at]);
            asked_bytes -= sizes[at];
        }
        sizes[at] = 1 + suite_random(&seed) % trace->most_bytes;
        live_bytes += native_bytes(sizes[at]);
        asked_bytes += sizes[at];
        blocks[at] = take(p, sizes[at], s);
        raise(&peaks.live_bytes, live_bytes);
        raise(&peaks.asked_bytes, asked_bytes);
        raise(&peaks.held_bytes, (size_t)stats_of(p).held_bytes);
    }
    for (unsigned i = 0; i < trace->n_blocks; i++)
        give(p, blocks[i], trace->streams[i % 2]);
    return peaks;
}

static double held_by_live(size_t most_bytes, unsigned n_blocks, unsigned n_streams) {
    struct cushim_stream *s = new_stream(), *t = n_streams == 2 ? new_stream() : s;
    struct cushim_pool *p = create(NULL);
    unsigned n_steps = suite_steps(6000);
    SIM(sim_calls_reset)();
    struct peaks peaks = play(p, &(struct trace){.n_blocks = n_blocks,
                                                 .n_steps = n_steps,
                                                 .most_bytes = most_bytes,
                                                 .streams = {s, t}});
    unsigned long n_calls = SIM(sim_calls)("cuMemAlloc_v2") + SIM(sim_calls)("cuMemFree_v2");
    double by_live = (double)peaks.held_bytes / (double)peaks.live_bytes;
    printf("# sizes to %zu MiB, %u streams: asked %zu MiB, live %zu, held %zu, %.2f of live, %.2f "
           "calls a step\n",
           most_bytes / mib, n_streams, peaks.asked_bytes / mib, peaks.live_bytes / mib,
           peaks.held_bytes / mib, by_live, (double)n_calls / (double)(n_blocks + n_steps));
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    return by_live;
}

TEST(a_pool_holds_little_more_than_is_live) {
    ck_assert_double_le(held_by_live(64 * mib, 64, 1), 1.4);
    ck_assert_double_le(held_by_live(64 * mib, 64, 2), 1.4);
    ck_assert_double_le(held_by_live(8 * mib, 512, 1), 1.4);
    ck_assert_double_le(held_by_live(2 * mib, 1024, 1), 1.4);
    ck_assert_double_le(held_by_live(2 * mib, 1024, 2), 1.4);
}

/* The device has room for the live blocks and almost nothing else. */
TEST(on_a_nearly_full_device_a_pool_holds_less) {
    size_t device_bytes = 0;
    ck_assert_int_eq(cushim_device_memory(0, &device_bytes), CUSHIM_OK);
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    cushim_devptr other;
    size_t other_bytes = device_bytes - (size_t)2800 * mib;
    ck_assert_int_eq(cushim_memory_alloc(NULL, other_bytes, &other), CUSHIM_OK);
    struct peaks peaks = play(p, &(struct trace){.n_blocks = 64,
                                                 .n_steps = suite_steps(6000),
                                                 .most_bytes = 64 * mib,
                                                 .streams = {s, s}});
    double by_live = (double)peaks.held_bytes / (double)peaks.live_bytes;
    printf("# 2800 MiB are left: live %zu MiB, held %zu MiB, %.2f\n", peaks.live_bytes / mib,
           peaks.held_bytes / mib, by_live);
    ck_assert_double_le(by_live, 1.15);
    /* another allocator takes it while the pool is idle */
    CUdeviceptr foreign;
    ck_assert_int_eq(SIM(cuMemAlloc_v2)(&foreign, (size_t)1 << 30), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* A refused request says nothing about live bytes. */
TEST(a_refused_request_does_not_raise_the_bound_on_idle_memory) {
    enum { N_FREED = 4, N_LIVE = 5 };
    cushim_devptr ptr, freed[N_FREED];
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    for (unsigned i = 0; i < N_FREED; i++)
        freed[i] = take(p, 400 * mib, s);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 30720 * mib, s, &ptr), CUSHIM_NOMEM);
    for (unsigned i = 0; i < N_FREED; i++)
        give(p, freed[i], s);
    for (unsigned i = 0; i < N_LIVE; i++) {
        ck_assert_int_eq(cushim_stream_synchronize(s), CUSHIM_OK);
        take(p, 410 * mib, s);
    }
    size_t live_bytes = N_LIVE * 410 * mib;
    ck_assert_uint_le((size_t)stats_of(p).held_bytes, live_bytes + live_bytes / 2 + 32 * mib);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

SUITE() {
    return tests_run("pool_held");
}
