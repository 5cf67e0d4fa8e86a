/* Stream caches and the blocks in them, from a heap on the fake driver. */
#include "memory/heap/stream_blocks.h"

#include <string.h>
#include <sys/mman.h>

#include "memory/heap/heap.h"
#include "memory/heap/reclaim.h"
#include "memory/heap/stream_alloc.h"
#include "memory/heap/stream_reclaim.h"
#include "tests/unit/memory/heap/heap_fixture.h"
#include "tests/unit/memory/stream_host.h"
#include "tests/unit/suite.h"

enum { BYTES = 4096, MIB = 1 << 20 };

static struct fixture *fixture;
static struct cushim_mem_streams *streams;
static uint64_t last_address; /* that went to the free lists */
static int n_last;            /* how often the last block of an orphan was told of */

static void block_went(uint64_t address) {
    last_address = address;
}

static void last_went(struct cushim_mem_streams *of) {
    (void)of;
    n_last++;
}

static const struct cushim_mem_streams_owner owner = {block_went, last_went};

static void begin(void) {
    memset(&host_seen, 0, sizeof host_seen);
    fixture = fixture_create(NULL);
    struct cushim_mem_heap *heap = &fixture->heaps[0];
    fixture->policy.keeps_all = true;
    heap->fence->host = &stream_host;
    /* of whole pages, touched by use */
    streams =
        mmap(NULL, sizeof *streams, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(streams, MAP_FAILED);
    pthread_mutex_init(&streams->lock, NULL);
    streams->heap = heap;
    streams->owner = &owner;
    streams->has_order = true;
    streams->most_blocks = 64;
    heap->owner = streams;
    last_address = 0;
    n_last = 0;
    ck_assert(cushim_mem_streams_begin(streams, heap->fence));
}

static struct cushim_mem_stream_cache *cache_of(unsigned stream, uint32_t *life) {
    const struct cushim_mem_stream of = {.fence = streams->heap->fence,
                                         .handle = fake_stream(stream)};
    return cushim_mem_stream_cache_of(streams, &of, life);
}

static struct cushim_mem_stream_block *fetch(size_t n_bytes) {
    struct cushim_mem_stream_block *block;
    ck_assert_int_eq(
        cushim_mem_stream_block_obtain(streams, n_bytes, CUSHIM_MEM_STREAM_NEW, &block), CUSHIM_OK);
    return block;
}

/* As a free on that stream does, with work before it. */
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

static void end(void) {
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    cushim_mem_streams_end(streams);
    ck_assert_int_eq(host_seen.n_inside, 0);
    ck_assert_int_eq(host_seen.n_kept, 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    fixture->heaps[0].owner = NULL;
    fixture_destroy(fixture);
}

TEST(a_block_is_found_by_its_address_as_long_as_it_is_out) {
    begin();
    struct cushim_mem_stream_block *block = fetch(BYTES);
    uint64_t address = cushim_mem_stream_block_address(block);
    ck_assert_ptr_eq(cushim_mem_stream_block_find(&fixture->blocks, address), block);
    ck_assert_ptr_eq(cushim_mem_stream_block_find(&fixture->blocks, address + BYTES - 1), block);
    ck_assert(cushim_mem_stream_block_take(block, address));
    ck_assert(!cushim_mem_stream_block_take(block, address));
    cushim_mem_stream_block_give(block, cushim_mem_streams_life(streams));
    ck_assert_ptr_null(cushim_mem_stream_block_find(&fixture->blocks, address));
    ck_assert_uint_eq(last_address, address);
    ck_assert_uint_eq(streams->table.n_used, 0);
    end();
}

TEST(its_own_stream_has_it_at_once_and_another_once_it_is_over) {
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

TEST(reclaim_gives_what_was_freed_first_and_is_over) {
    begin();
    struct cushim_mem_stream_block *first = fetch(2 * MIB), *second = fetch(2 * MIB);
    uint64_t address = cushim_mem_stream_block_address(first);
    give(first, 0);
    for (unsigned i = 0; i < 16; i++) /* they are far apart */
        cushim_mem_fence_close(streams->heap->fence);
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

/* One function ends a life of the heap for caches of threads and of streams. */
TEST(an_abandoned_heap_forgets_what_its_stream_caches_have) {
    begin();
    uint64_t life = cushim_mem_streams_life(streams);
    struct cushim_mem_stream_block *idle = fetch(BYTES), *late = fetch(BYTES), *out = fetch(BYTES);
    struct cushim_mem_stream_block *block;
    uint64_t address = cushim_mem_stream_block_address(out);
    uint32_t life_of_cache;
    struct cushim_mem_stream_cache *cache = give(idle, 0);
    ck_assert(cushim_mem_stream_block_take(late, cushim_mem_stream_block_address(late)));
    cache_of(0, &life_of_cache);
    fake_lose_all();
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    ck_assert_uint_eq(cushim_mem_streams_idle_bytes(streams), 0);
    ck_assert_uint_eq(streams->table.n_used, 0);
    ck_assert_ptr_null(cushim_mem_stream_block_find(&fixture->blocks, address));
    /* what comes late goes nowhere */
    ck_assert_ptr_null(cushim_mem_stream_cache_put(cache, life_of_cache, late));
    cushim_mem_stream_block_give(out, life);
    ck_assert_uint_eq(streams->table.n_used, 0);
    ck_assert_int_eq(cushim_mem_stream_block_obtain(streams, BYTES, CUSHIM_MEM_STREAM_FREE, &block),
                     CUSHIM_STATE);
    cushim_mem_streams_end(streams);
    ck_assert_int_eq(host_seen.n_kept, 0);
    fixture->heaps[0].owner = NULL;
    fixture_destroy(fixture);
}

TEST(the_last_block_of_an_orphan_is_told_of_once_and_its_memory_is_back) {
    begin();
    struct cushim_mem_stream_block *first = fetch(2 * MIB), *second = fetch(2 * MIB);
    uint64_t life = cushim_mem_streams_life(streams);
    streams->is_orphan = true;
    ck_assert(cushim_mem_stream_block_take(first, cushim_mem_stream_block_address(first)));
    ck_assert(cushim_mem_stream_block_take(second, cushim_mem_stream_block_address(second)));
    cushim_mem_stream_block_give(first, life);
    ck_assert_int_eq(n_last, 0);
    cushim_mem_stream_block_give(second, life);
    ck_assert_int_eq(n_last, 1);
    ck_assert(atomic_load(&streams->is_lost));
    ck_assert_uint_eq(fake_n_allocations(), 0);
    end();
}

SUITE() {
    return tests_run("stream blocks");
}
