/* The n-th mapping of host memory fails, for every n (linked with --wrap=mmap, mmap64). */
#include "memory/cache/cache.h"

#include <errno.h>
#include <sys/mman.h>

#include "memory/reclaim.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

/* A build with 64-bit file offsets calls mmap64; both go through here. */
void *__real_mmap(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset);
void *__wrap_mmap64(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset);

static unsigned fail_from, n_failed; /* mappings until the failure; 0: none is due */
static bool is_lasting;

void *__wrap_mmap(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset) {
    bool fails = fail_from == 1;
    if (fail_from > 1 || (fails && !is_lasting))
        fail_from--;
    if (!fails)
        return __real_mmap(at, n_bytes, rights, flags, file, offset);
    n_failed++;
    errno = ENOMEM;
    return MAP_FAILED;
}

void *__wrap_mmap64(void *at, size_t n_bytes, int rights, int flags, int file, off_t offset) {
    return __wrap_mmap(at, n_bytes, rights, flags, file, offset);
}

enum { BLOCKS = 900 };

static struct fixture *fixture;
static uint64_t addresses[5 * BLOCKS];

/* Blocks of all kinds; one in four is freed at once, in stream order. */
static void fill(void) {
    static const size_t sizes[] = {1000, 513, 100000, 3 << 20, 600000, 9 << 20, 2000000, 5000, 512};
    for (unsigned i = 0; i < BLOCKS; i++) {
        enum cushim_status status;
        CUresult answer;
        addresses[i] = fixture_obtain(fixture, sizes[i % 9], &status);
        ck_assert(addresses[i] ? status == CUSHIM_OK : status == CUSHIM_NOMEM);
        ck_assert(addresses[i] || n_failed);
        if (addresses[i] && i % 4 == 0) {
            fake_submit(0);
            status = fixture_release_on(fixture, addresses[i], fake_stream(0), &answer);
            ck_assert(status == CUSHIM_OK || (status == CUSHIM_NOMEM && n_failed));
            ck_assert_int_eq(fixture_state(fixture, addresses[i]),
                             status == CUSHIM_OK ? CUSHIM_MEM_DEFERRED : CUSHIM_MEM_LIVE);
            if (status == CUSHIM_OK)
                addresses[i] = 0;
        }
        if (i % 100 == 0)
            fixture_check(fixture);
    }
    fixture_check(fixture);
}

static void empty(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (addresses[i])
            fixture_give(fixture, addresses[i]);
    }
    fixture_check(fixture);
    fake_finish(0);
    for (unsigned i = 0; i < 3 && fixture->heaps[0].deferred.n_rows; i++) {
        enum cushim_status status;
        uint64_t address = fixture_obtain(fixture, 1000, &status);
        if (address)
            fixture_give(fixture, address);
    }
    fixture_trim(fixture, 0);
    fixture_check(fixture);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    ck_assert_uint_eq(fixture->heaps[0].held_bytes, 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
}

static void fail_each(bool lasting) {
    for (unsigned n = 1;; n++) {
        fixture = fixture_create(NULL);
        atomic_store(&fixture->policy.dedicated_bytes, 8 << 20);
        n_failed = 0;
        is_lasting = lasting;
        fail_from = n;
        fill();
        unsigned n_failures = n_failed;
        fail_from = 0;
        empty();
        fixture_destroy(fixture);
        if (!n_failures) {
            ck_assert_uint_gt(n, 2); /* a table of the map and a chunk of descriptors at least */
            break;
        }
    }
}

TEST(a_failed_mapping_costs_at_most_one_request) {
    fail_each(false);
}

TEST(without_host_memory_blocks_can_still_be_freed) {
    fail_each(true);
}

TEST(a_page_map_without_memory_enters_no_page) {
    static struct cushim_mem_pagemap map;
    uint64_t border = (uint64_t)1 << 32; /* of two tables */
    fail_from = 2;
    is_lasting = false;
    ck_assert_int_eq(cushim_mem_pagemap_set(&map, border - 65536, 131072, (void *)&map),
                     CUSHIM_NOMEM);
    ck_assert_ptr_null(cushim_mem_pagemap_find(&map, border - 65536));
    ck_assert_ptr_null(cushim_mem_pagemap_find(&map, border));
    ck_assert_int_eq(cushim_mem_pagemap_set(&map, border - 65536, 131072, (void *)&map), CUSHIM_OK);
}

TEST(a_block_without_a_row_to_wait_in_stays_live) {
    enum cushim_status status = CUSHIM_OK;
    CUresult answer;
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 5 * BLOCKS; i++)
        addresses[i] = fixture_take(fixture, 512);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
    fake_limit(0); /* no device memory for the barrier */
    is_lasting = true;
    fail_from = 1; /* and no host memory for a row */
    unsigned n_pending = 0;
    for (; n_pending < 5 * BLOCKS && status == CUSHIM_OK; n_pending++)
        status = fixture_release(fixture, addresses[n_pending], &answer);
    fail_from = 0;
    ck_assert_uint_gt(n_failed, 0); /* the last chunk was used up */
    ck_assert_int_eq(status, CUSHIM_NOMEM);
    ck_assert_int_eq(answer, CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(fixture_state(fixture, addresses[n_pending - 1]), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

static void *leave_pending_blocks(void *unused) {
    CUresult answer;
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < 40; i++)
        addresses[i] = fixture_take(fixture, 2000);
    fake_submit(0);
    for (unsigned i = 0; i < 40; i++)
        fixture_release(fixture, addresses[i], &answer);
    is_lasting = true;
    fail_from = 1;
    pthread_mutex_lock(&fixture->heaps[0].lock);
    while (cushim_mem_meta_obtain(&fixture->heaps[0].meta, 1)) { /* use up the free slots */
    }
    pthread_mutex_unlock(&fixture->heaps[0].lock);
    return unused; /* now the cache has nowhere to put its blocks */
}

TEST(a_cache_that_cannot_be_emptied_outlives_its_thread) {
    pthread_t thread;
    fixture = fixture_create(NULL);
    fixture->policy.is_relaxed = true;
    fixture_give(fixture, fixture_take(fixture, 2000)); /* the first free of a heap's life waits */
    pthread_create(&thread, NULL, leave_pending_blocks, NULL);
    pthread_join(thread, NULL);
    ck_assert_uint_gt(n_failed, 0);
    ck_assert_uint_eq(fixture->heaps[0].n_caches, 2);
    ck_assert_int_eq(fixture_state(fixture, addresses[0]), CUSHIM_MEM_DEFERRED);
    fixture_check(fixture);
    fail_from = 0;
    cushim_mem_cache_drain_all(&fixture->heaps[0]);
    ck_assert_uint_eq(fixture->heaps[0].n_caches, 1); /* this thread's cache */
    fixture_check(fixture);
    fake_finish(0);
    cushim_mem_reclaim_empty(&fixture->heaps[0], cushim_mem_reclaim_until());
    ck_assert_uint_eq(fixture->heaps[0].held_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 41);
    fixture_check(fixture);
}

/* Without memory for a row a free waits for the device, and the block is free at once. */
TEST(a_relaxed_free_without_a_row_waits) {
    fixture = fixture_create(NULL);
    fixture->policy.is_relaxed = true;
    fixture_give(fixture, fixture_take(fixture, 2000));
    uint64_t address = fixture_take(fixture, 5 << 20);
    is_lasting = true;
    fail_from = 1;
    while (cushim_mem_meta_obtain(&fixture->heaps[0].meta, 1)) {
    }
    fake_submit(0);
    fixture_give(fixture, address);
    fail_from = 0;
    ck_assert_uint_eq(fake_n_done(0), 1);
    ck_assert_int_eq(fixture_judge(fixture, address, 1), CUSHIM_MEM_NO_BLOCK);
    ck_assert_ptr_null(fixture->heaps[0].deferred.first);
    fixture_check(fixture);
}

int main(void) {
    return tests_run("pool_nomem");
}
