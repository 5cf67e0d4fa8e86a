/*
 * A pass over an arena: 4096 allocations, then a reset.  A figure is for one block, with its share
 * of the reset.  The comparison is the driver's stream-ordered pool, which keeps everything: 4096
 * allocations and frees, and a wait.
 *
 *   companion            the pass and the reset name one stream
 *   companion, ALL       both name any stream: the reset puts a fence over the context
 *   companion, unfenced  the caller orders the work
 */
#include <string.h>

#include "companion.h"

enum { N_BLOCKS = 4096, MAX_BYTES = 2048, N_DONE = 4 };

struct pass {
    size_t n_bytes;
    struct companion_stream stream;
    struct cushim_arena *own, *all, *unfenced;
    CUdeviceptr blocks[N_BLOCKS];
};

/* n is a whole number of passes. */
static void take(struct cushim_arena *arena, struct cushim_stream *s, size_t n_bytes, size_t n) {
    for (size_t done = 0; done < n; done += N_BLOCKS) {
        for (size_t i = 0; i < N_BLOCKS; i++) {
            cushim_devptr block;
            uint64_t epoch;
            need(cushim_arena_alloc(arena, 0, CUSHIM_MEMORY_DEVICE, n_bytes, s, &block, &epoch));
        }
        need(cushim_arena_reset(arena, s));
    }
}

static void by_stream(void *cookie, size_t n) {
    struct pass *pass = cookie;
    take(pass->own, pass->stream.handle, pass->n_bytes, n);
}

static void by_all(void *cookie, size_t n) {
    struct pass *pass = cookie;
    take(pass->all, CUSHIM_STREAM_ALL, pass->n_bytes, n);
}

static void unfenced(void *cookie, size_t n) {
    struct pass *pass = cookie;
    take(pass->unfenced, pass->stream.handle, pass->n_bytes, n);
}

static void by_driver_pool(void *cookie, size_t n) {
    struct pass *pass = cookie;
    CUstream stream = pass->stream.cu;
    for (size_t done = 0; done < n; done += N_BLOCKS) {
        for (size_t i = 0; i < N_BLOCKS; i++)
            bench_must("cuMemAllocAsync",
                       (int)raw.cuMemAllocAsync(&pass->blocks[i], pass->n_bytes, stream));
        for (size_t i = 0; i < N_BLOCKS; i++)
            bench_must("cuMemFreeAsync", (int)raw.cuMemFreeAsync(pass->blocks[i], stream));
        bench_must("wait", (int)raw.cuStreamSynchronize(stream));
    }
}

static struct cushim_arena *make(unsigned flags, cushim_devptr base) {
    struct cushim_arena *arena;
    struct cushim_arena_options options;
    cushim_arena_options_default(&options);
    options.device = 0;
    options.managed = CUSHIM_ARENA_MANAGED_NEVER;
    options.capacity_bytes = (size_t)N_BLOCKS * MAX_BYTES;
    options.base = base;
    options.flags = flags;
    need(cushim_arena_create(&options, &arena));
    return arena;
}

/* Blocks follow each other and keep their contents; a reset begins at the start. */
static void check(struct cushim_arena *arena, struct cushim_stream *s, size_t n_bytes) {
    cushim_devptr first = 0, block = 0;
    uint64_t epoch, next;
    void *wanted = bench_memory(n_bytes, 1);
    for (int i = 0; i < N_DONE; i++) {
        need(cushim_arena_alloc(arena, 0, CUSHIM_MEMORY_DEVICE, n_bytes, s, &block, &epoch));
        first = i ? first : block;
        companion_fill(block, (unsigned char)(i + 1), n_bytes);
    }
    for (int i = 0; i < N_DONE; i++) {
        memset(wanted, i + 1, n_bytes);
        companion_check("a block of the arena", first + (size_t)i * n_bytes, wanted, n_bytes);
    }
    need(cushim_arena_reset(arena, s));
    need(cushim_arena_alloc(arena, 0, CUSHIM_MEMORY_DEVICE, n_bytes, s, &block, &next));
    if (block != first || next != epoch + 1)
        bench_fail("the arena after its reset", 0);
    need(cushim_arena_reset(arena, s));
    free(wanted);
}

static void keep_driver_pool(void) {
    CUmemoryPool pool;
    uint64_t everything = UINT64_MAX;
    bench_must("cuDeviceGetDefaultMemPool", (int)raw.cuDeviceGetDefaultMemPool(&pool, 0));
    bench_must("threshold", (int)raw.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                                           &everything));
}

/* Check that no request missed: each block came from the region. */
static void check_hits(struct cushim_arena *arena) {
    struct cushim_arena_stats stats = {.struct_size = sizeof stats};
    need(cushim_arena_stats(arena, &stats));
    if (stats.misses || !stats.hits)
        bench_fail("misses of the arena", (int)stats.misses);
    need(cushim_arena_destroy(arena));
}

void run_companion_arena(const struct companion_settings *settings) {
    static const struct companion_way ways[] = {{"cuMemAllocAsync, kept", by_driver_pool},
                                                {"companion", by_stream},
                                                {"companion, ALL", by_all},
                                                {"companion, unfenced", unfenced}};
    struct pass *pass = bench_memory(1, sizeof *pass);
    CUdeviceptr base;
    pass->stream = companion_stream_create();
    bench_must("cuMemAlloc", (int)raw.cuMemAlloc(&base, (size_t)N_BLOCKS * MAX_BYTES));
    pass->own = make(0, 0);
    pass->all = make(0, 0);
    pass->unfenced = make(CUSHIM_ARENA_FLAG_UNFENCED, base);
    keep_driver_pool();
    for (size_t n_bytes = 256; n_bytes <= MAX_BYTES; n_bytes *= 8) {
        char name[64];
        snprintf(name, sizeof name, "arena/%zu", n_bytes);
        pass->n_bytes = n_bytes;
        check(pass->own, pass->stream.handle, n_bytes);
        check(pass->all, CUSHIM_STREAM_ALL, n_bytes);
        check(pass->unfenced, pass->stream.handle, n_bytes);
        companion_contest(
            &(struct companion_contest){
                .name = name, .ways = ways, .n_ways = 4, .cookie = pass, .n_each = N_BLOCKS},
            settings);
    }
    check_hits(pass->own);
    check_hits(pass->all);
    check_hits(pass->unfenced);
    bench_must("cuMemFree", (int)raw.cuMemFree(base));
    need(cushim_stream_destroy(pass->stream.handle));
    free(pass);
}
