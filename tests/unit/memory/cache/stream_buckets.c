/* The buckets of a stream cache. */
#include "memory/cache/stream_buckets.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/unit/suite.h"

enum { STEP_BYTES = 512, N_BUCKETS = 1000, N_FULL = 64, N_MOST = 7, MAX_TESTS = 16 };

/* If set, there is no host memory for buckets, or for their table: the test is linked so that
 * allocations come here first. */
static bool has_no_memory, has_no_table;

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return has_no_memory ? NULL : __real_aligned_alloc(alignment, size);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    return has_no_table ? NULL : __real_malloc(size);
}

/* Returns empty buckets; they are static, so that leak checkers find their tables. */
static struct cushim_mem_stream_buckets *begin(void) {
    static struct cushim_mem_stream_buckets all[MAX_TESTS];
    static unsigned n;
    ck_assert_uint_lt(n, MAX_TESTS);
    return &all[n++];
}

static size_t count(const struct cushim_mem_stream_buckets *buckets, size_t bucket_bytes) {
    const struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_find(buckets, bucket_bytes);
    return bucket ? bucket->n : 0;
}

/* Makes buckets of 1 .. N_BUCKETS steps; bucket k has k blocks. */
static void fill(struct cushim_mem_stream_buckets *buckets) {
    for (size_t i = 1; i <= N_BUCKETS; i++)
        cushim_mem_stream_buckets_make(buckets, i * STEP_BYTES, N_MOST)->n = i;
}

TEST(an_empty_cache_has_only_the_loose_bucket) {
    struct cushim_mem_stream_buckets *buckets = begin();
    ck_assert_ptr_null(cushim_mem_stream_buckets_find(buckets, STEP_BYTES));
    ck_assert_uint_eq(count(buckets, STEP_BYTES), 0);
    ck_assert_ptr_eq(cushim_mem_stream_buckets_next(buckets, NULL), &buckets->loose);
    ck_assert_ptr_null(cushim_mem_stream_buckets_next(buckets, &buckets->loose));
    cushim_mem_stream_buckets_clear(buckets);
}

TEST(each_bucket_is_found_with_its_blocks) {
    struct cushim_mem_stream_buckets *buckets = begin();
    fill(buckets);
    for (size_t i = 1; i <= N_BUCKETS; i++) {
        struct cushim_mem_stream_bucket *bucket =
            cushim_mem_stream_buckets_find(buckets, i * STEP_BYTES);
        ck_assert_ptr_nonnull(bucket);
        ck_assert_uint_eq(bucket->bucket_bytes, i * STEP_BYTES);
        ck_assert_uint_eq(bucket->n, i);
        ck_assert_uint_eq(bucket->n_most, N_MOST);
        ck_assert_uint_eq((uintptr_t)bucket % 64, 0);
    }
    ck_assert_ptr_null(cushim_mem_stream_buckets_find(buckets, STEP_BYTES / 2));
    ck_assert_ptr_null(cushim_mem_stream_buckets_find(buckets, 0));
}

TEST(a_walk_visits_each_bucket_once_and_the_loose_one_last) {
    struct cushim_mem_stream_buckets *buckets = begin();
    struct cushim_mem_stream_bucket *bucket = NULL, *last = NULL;
    size_t n = 0, n_blocks = 0;
    fill(buckets);
    while ((bucket = cushim_mem_stream_buckets_next(buckets, bucket))) {
        n++;
        n_blocks += bucket->n;
        last = bucket;
    }
    ck_assert_uint_eq(n, N_BUCKETS + 1);
    ck_assert_uint_eq(n_blocks, N_BUCKETS * (N_BUCKETS + 1) / 2);
    ck_assert_ptr_eq(last, &buckets->loose);
}

/* A program whose sizes always change does not pay for its early sizes. */
TEST(empty_buckets_go_when_there_is_no_room) {
    struct cushim_mem_stream_buckets *buckets = begin();
    for (size_t i = 1; i <= N_BUCKETS; i++)
        cushim_mem_stream_buckets_make(buckets, i * STEP_BYTES, N_MOST);
    ck_assert_uint_lt(HASH_COUNT(buckets->table), N_BUCKETS / 10);
    ck_assert_ptr_nonnull(cushim_mem_stream_buckets_find(buckets, N_BUCKETS * STEP_BYTES));
    ck_assert_ptr_null(cushim_mem_stream_buckets_find(buckets, STEP_BYTES));
}

TEST(without_host_memory_the_loose_bucket_takes_all_blocks) {
    struct cushim_mem_stream_buckets *buckets = begin();
    has_no_memory = true;
    ck_assert_ptr_eq(cushim_mem_stream_buckets_make(buckets, STEP_BYTES, N_MOST), &buckets->loose);
    has_no_memory = false;
    has_no_table = true;
    ck_assert_ptr_eq(cushim_mem_stream_buckets_make(buckets, STEP_BYTES, N_MOST), &buckets->loose);
    has_no_table = false;
    ck_assert_ptr_null(cushim_mem_stream_buckets_find(buckets, STEP_BYTES));
    for (size_t i = 1; i <= N_FULL; i++)
        cushim_mem_stream_buckets_make(buckets, i * STEP_BYTES, N_MOST)->n = i;
    has_no_memory = true;
    ck_assert_ptr_eq(cushim_mem_stream_buckets_make(buckets, (N_FULL + 1) * STEP_BYTES, N_MOST),
                     &buckets->loose);
    /* each free into the loose bucket looks for blocks to give up */
    ck_assert_uint_eq(buckets->loose.n_most, 0);
    for (size_t i = 1; i <= N_FULL; i++)
        ck_assert_uint_eq(count(buckets, i * STEP_BYTES), i);
    has_no_memory = false;
}

TEST(cleared_buckets_are_empty_and_usable) {
    struct cushim_mem_stream_buckets *buckets = begin();
    fill(buckets);
    buckets->loose.n = 3;
    cushim_mem_stream_buckets_clear(buckets);
    ck_assert_uint_eq(buckets->loose.n, 0);
    ck_assert_ptr_eq(cushim_mem_stream_buckets_next(buckets, NULL), &buckets->loose);
    ck_assert_ptr_null(cushim_mem_stream_buckets_find(buckets, STEP_BYTES));
    struct cushim_mem_stream_bucket *bucket =
        cushim_mem_stream_buckets_make(buckets, STEP_BYTES, 2 * N_MOST);
    ck_assert_ptr_eq(cushim_mem_stream_buckets_find(buckets, STEP_BYTES), bucket);
    ck_assert_uint_eq(bucket->n, 0);
    ck_assert_uint_eq(bucket->n_most, 2 * N_MOST);
}

int main(void) {
    return tests_run("stream buckets");
}
