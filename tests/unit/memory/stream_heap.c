/* Heaps with stream caches on the fake driver: allocation, free, and the end of a heap. */
#include "memory/stream_heap.h"

#include <string.h>

#include "cuda/table.h"
#include "memory/heap.h"
#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/memory/stream_host.h"
#include "tests/unit/suite.h"

enum { BYTES = 4096, MIB = 1 << 20 };

static struct cushim_cuda cuda;
static struct cushim_mem_fence fence;
static struct cushim_mem_blocks blocks;
static struct cushim_mem_policy policy = {.least_idle_bytes = SIZE_MAX / 2};
static struct cushim_mem_stats stats;
static struct cushim_mem_streams *streams;
static uint64_t last_address; /* blocks that went to the free lists */
static int n_forgot, n_left;

static void block_went(uint64_t address) {
    last_address = address;
}

static void forgot(struct cushim_mem_streams *of) {
    n_forgot += of == streams;
}

static void leave(struct cushim_mem_streams *of) {
    n_left += of == streams;
}

static const struct cushim_mem_streams_owner owner = {block_went, forgot, leave};

static struct cushim_mem_streams *open_heap(void) {
    const struct cushim_mem_heap_setup setup = {.cuda = &cuda,
                                                .context = fake_context(0),
                                                .blocks = &blocks,
                                                .policy = &policy,
                                                .stats = &stats,
                                                .provider = &cushim_mem_provider_device,
                                                .fence = &fence};
    struct cushim_mem_streams *opened = cushim_mem_streams_obtain(sizeof *opened);
    opened->owner = &owner;
    opened->has_order = true;
    opened->most_blocks = 64;
    ck_assert(cushim_mem_streams_open(opened, &setup));
    return opened;
}

static void begin(void) {
    memset(&host_seen, 0, sizeof host_seen);
    memset(&fence, 0, sizeof fence);
    fake_reset();
    fake_load(&cuda, NULL);
    fake_set_current(fake_context(0));
    if (!cushim_mem_sizeclass_count())
        cushim_mem_sizeclass_choose(CUSHIM_MEM_EXACT);
    atomic_store(&policy.dedicated_bytes, (size_t)256 << 20);
    cushim_mem_fence_init(&fence, &cuda, fake_context(0), NULL);
    fence.host = &stream_host;
    last_address = 0;
    n_forgot = n_left = 0;
    streams = open_heap();
    ck_assert_ptr_eq(cushim_mem_streams_next_used(NULL), streams);
}

/* Nothing is left of the heap or in the driver. */
static void check_gone(void) {
    ck_assert_ptr_null(cushim_mem_streams_next_used(NULL));
    ck_assert_int_eq(host_seen.n_inside, 0);
    ck_assert_int_eq(host_seen.n_kept, 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
}

static void end(void) {
    cushim_mem_streams_close(streams);
    ck_assert_int_eq(n_left, 1);
}

static struct cushim_mem_stream_cache *cache_of(unsigned stream, uint32_t *life) {
    const struct cushim_mem_stream of = {.fence = &fence, .handle = fake_stream(stream)};
    return cushim_mem_stream_cache_of(streams, &of, life);
}

static struct cushim_mem_stream_block *fetch(size_t n_bytes) {
    struct cushim_mem_stream_block *block;
    ck_assert_int_eq(
        cushim_mem_stream_block_obtain(streams, n_bytes, CUSHIM_MEM_STREAM_NEW, &block), CUSHIM_OK);
    return block;
}

/* Frees on that stream, with work before the free. */
static struct cushim_mem_stream_cache *give(struct cushim_mem_stream_block *block,
                                            unsigned stream) {
    uint32_t life;
    struct cushim_mem_stream_cache *cache = cache_of(stream, &life);
    fake_submit(stream);
    ck_assert(cushim_mem_stream_block_take(block, cushim_mem_stream_block_address(block)));
    return cushim_mem_stream_cache_put(cache, life, block);
}

static struct cushim_mem_stream_block *serve(unsigned stream, size_t n_bytes) {
    uint32_t life;
    struct cushim_mem_stream_cache *cache = cache_of(stream, &life);
    struct cushim_mem_stream_block *block;
    return cushim_mem_stream_cache_serve(cache, life, n_bytes, &block) == CUSHIM_OK ? block : NULL;
}

TEST(a_block_is_found_by_its_address_while_it_is_live) {
    begin();
    struct cushim_mem_stream_block *block = fetch(BYTES);
    uint64_t address = cushim_mem_stream_block_address(block);
    ck_assert_ptr_eq(cushim_mem_stream_block_find(&blocks, address), block);
    ck_assert_ptr_eq(cushim_mem_stream_block_find(&blocks, address + BYTES - 1), block);
    ck_assert(cushim_mem_stream_block_take(block, address));
    ck_assert(!cushim_mem_stream_block_take(block, address));
    cushim_mem_stream_block_give(block, cushim_mem_streams_life(streams));
    ck_assert_ptr_null(cushim_mem_stream_block_find(&blocks, address));
    ck_assert_uint_eq(last_address, address);
    ck_assert_uint_eq(streams->table.n_used, 0);
    end();
}

TEST(a_freed_block_serves_its_own_stream_at_once_and_others_once_the_work_is_over) {
    begin();
    struct cushim_mem_stream_block *block = fetch(MIB);
    give(block, 0);
    ck_assert_ptr_eq(serve(0, MIB), block);
    cushim_mem_stream_block_set_live(block);
    give(block, 0);
    ck_assert_ptr_null(cushim_mem_stream_cache_take(streams->all, MIB, 0));
    struct cushim_mem_stream_block *other = serve(4, MIB);
    ck_assert_ptr_ne(other, block);
    fake_finish(0);
    ck_assert_int_eq(cushim_mem_streams_prove(streams, CUSHIM_MEM_RECORD), CUSHIM_OK);
    ck_assert_ptr_eq(serve(4, MIB), block);
    end();
}

TEST(reclaim_gives_the_oldest_completed_blocks_first) {
    begin();
    struct cushim_mem_stream_block *first = fetch(2 * MIB), *second = fetch(2 * MIB);
    uint64_t address = cushim_mem_stream_block_address(first);
    give(first, 0);
    for (unsigned i = 0; i < 16; i++) /* so that no segment has both */
        cushim_mem_fence_close(&fence);
    give(second, 4);
    ck_assert_uint_eq(cushim_mem_streams_reclaim(streams, 1, CUSHIM_MEM_RECORD), 0);
    fake_finish(0);
    fake_finish(4);
    ck_assert_uint_eq(cushim_mem_streams_reclaim(streams, 1, CUSHIM_MEM_ASK), 2 * MIB);
    ck_assert_uint_eq(last_address, address);
    ck_assert_uint_eq(streams->n_evicted, 1);
    ck_assert_uint_eq(cushim_mem_streams_idle_bytes(streams), 2 * MIB);
    end();
}

TEST(an_owner_that_ends_leaves_nothing) {
    begin();
    give(fetch(BYTES), 0);
    give(fetch(2 * MIB), 4);
    end();
    check_gone();
    n_left = 0;
    ck_assert_ptr_eq(open_heap(), streams); /* in another life of the heap */
    ck_assert_uint_eq(streams->table.n_used, 0);
    end();
}

/* One function ends a heap's life for thread caches and stream caches. */
TEST(the_end_of_a_context_empties_its_stream_caches) {
    begin();
    uint64_t life = cushim_mem_streams_life(streams);
    struct cushim_mem_stream_block *idle = fetch(BYTES), *late = fetch(BYTES), *out = fetch(BYTES);
    struct cushim_mem_stream_block *block;
    uint64_t address = cushim_mem_stream_block_address(out);
    struct cushim_mem_stream_cache *cache = give(idle, 0);
    uint32_t life_of_cache = cache->life;
    ck_assert(cushim_mem_stream_block_take(late, cushim_mem_stream_block_address(late)));
    fake_lose_all();
    cushim_mem_fence_abandon(&fence);
    fake_forget_order();
    cushim_mem_streams_lose_gone();
    ck_assert_int_eq(n_forgot, 1);
    ck_assert_uint_eq(cushim_mem_streams_idle_bytes(streams), 0);
    ck_assert_uint_eq(streams->table.n_used, 0);
    ck_assert_ptr_null(cushim_mem_stream_block_find(&blocks, address));
    /* a late free goes nowhere */
    ck_assert_ptr_null(cushim_mem_stream_cache_put(cache, life_of_cache, late));
    cushim_mem_stream_block_give(out, life);
    ck_assert_uint_eq(streams->table.n_used, 0);
    ck_assert_int_eq(cushim_mem_stream_block_obtain(streams, BYTES, CUSHIM_MEM_STREAM_FREE, &block),
                     CUSHIM_STATE);
    end();
    ck_assert_str_eq(fake_order(), ""); /* no driver call */
    check_gone();
}

TEST(an_orphaned_heap_ends_with_its_last_block_and_returns_its_memory) {
    begin();
    struct cushim_mem_stream_block *first = fetch(2 * MIB), *second = fetch(2 * MIB);
    uint64_t one = cushim_mem_stream_block_address(first);
    uint64_t two = cushim_mem_stream_block_address(second);
    ck_assert(!cushim_mem_stream_block_free_orphan(first, one)); /* it still has an owner */
    end();
    ck_assert(cushim_mem_stream_block_free_orphan(first, one));
    ck_assert(!cushim_mem_stream_block_free_orphan(first, one));
    ck_assert_uint_eq(fake_n_allocations(), 1);
    ck_assert_ptr_eq(cushim_mem_streams_next_used(NULL), streams);
    ck_assert(cushim_mem_stream_block_free_orphan(second, two));
    check_gone();
}

TEST(a_held_block_comes_back_when_its_last_holder_lets_go) {
    begin();
    uint64_t life = cushim_mem_streams_life(streams);
    struct cushim_mem_stream_block *block = fetch(BYTES);
    uint64_t address = cushim_mem_stream_block_address(block);
    uint32_t life_of_cache, life_seen;
    struct cushim_mem_stream_cache *cache = cache_of(0, &life_of_cache);
    cushim_mem_stream_block_hold(block);
    cushim_mem_stream_block_hold(block);
    ck_assert_uint_eq(streams->held_blocks, 1);
    ck_assert(cushim_mem_stream_block_take(block, address));
    ck_assert(cushim_mem_stream_block_defer(block, cache, life_of_cache));
    ck_assert(!cushim_mem_stream_block_let_go(block, life, false, &life_seen));
    ck_assert(cushim_mem_stream_block_let_go(block, life, false, &life_seen));
    ck_assert_uint_eq(life_seen, life_of_cache);
    ck_assert_uint_eq(streams->held_bytes, 0);
    ck_assert(!cushim_mem_stream_block_defer(block, cache, life_of_cache));
    ck_assert_ptr_eq(cushim_mem_stream_cache_put(cache, life_seen, block), cache);
    end();
    check_gone();
}

/* The heap's host makes its own records; the fence shows whether the device is idle. */
TEST(free_segments_go_quietly_while_the_host_allows_it) {
    begin();
    struct cushim_mem_heap *heap = streams->heap;
    uint64_t life = cushim_mem_streams_life(streams);
    struct cushim_mem_stream_block *first = fetch(2 * MIB), *second = fetch(2 * MIB);
    cushim_mem_stream_block_give(first, life);
    cushim_mem_stream_block_give(second, life);
    fake_submit(4);
    ck_assert_uint_eq(cushim_mem_reclaim_quietly(heap, 0), 0); /* the device is busy */
    fake_finish(4);
    host_seen.is_captured = true;
    ck_assert_uint_eq(cushim_mem_reclaim_quietly(heap, 0), 0);
    host_seen.is_captured = false;
    host_seen.is_gone = true;
    fake_forget_order();
    ck_assert_uint_eq(cushim_mem_reclaim_quietly(heap, 0), 0);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(heap, 0), 0);
    ck_assert_str_eq(fake_order(), ""); /* no driver call */
    host_seen.is_gone = false;
    ck_assert_uint_eq(cushim_mem_reclaim_quietly(heap, 2 * MIB), 2 * MIB);
    ck_assert_uint_eq(cushim_mem_reclaim_trim(heap, 0), 2 * MIB);
    end();
    check_gone();
}

SUITE() {
    return tests_run("stream heap");
}
