/* The buckets of a cache: found again however many there are, counted while others make more. */
#include "companion/pool/pool_buckets.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/unit/suite.h"

enum {
    STEP_BYTES = 512,
    N_BUCKETS = 1000,
    N_FULL = 64, /* so many and a table is as full as it may be */
    N_MOST = 7,
    MAX_TESTS = 16
};

/* No host memory where it is set: the test is linked so that it is asked first. */
static bool has_no_memory;

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return has_no_memory ? NULL : __real_aligned_alloc(alignment, size);
}

/* Empty ones; their tables are for good, and so they stay where leak checkers find them. */
static struct cushim_pool_buckets *begin(void) {
    static struct cushim_pool_buckets all[MAX_TESTS];
    static unsigned n;
    ck_assert_uint_lt(n, MAX_TESTS);
    return &all[n++];
}

static void set_count(struct cushim_pool_bucket *bucket, size_t n) {
    atomic_store(&bucket->n, n);
}

/* Buckets 1 .. N_BUCKETS times the step, each with as many blocks as its number. */
static void fill(struct cushim_pool_buckets *buckets) {
    for (size_t i = 1; i <= N_BUCKETS; i++)
        set_count(cushim_pool_buckets_make(buckets, i * STEP_BYTES, N_MOST), i);
}

START_TEST(an_empty_one_has_the_loose_bin_alone) {
    struct cushim_pool_buckets *buckets = begin();
    ck_assert_ptr_null(cushim_pool_buckets_find(buckets, STEP_BYTES));
    ck_assert_uint_eq(cushim_pool_buckets_count(buckets, STEP_BYTES), 0);
    ck_assert_ptr_eq(cushim_pool_buckets_next(buckets, NULL), &buckets->loose);
    ck_assert_ptr_null(cushim_pool_buckets_next(buckets, &buckets->loose));
    cushim_pool_buckets_clear(buckets);
}
END_TEST

START_TEST(each_bucket_is_found_with_what_it_had) {
    struct cushim_pool_buckets *buckets = begin();
    fill(buckets);
    for (size_t i = 1; i <= N_BUCKETS; i++) {
        struct cushim_pool_bucket *bucket = cushim_pool_buckets_find(buckets, i * STEP_BYTES);
        ck_assert_ptr_nonnull(bucket);
        ck_assert_uint_eq(cushim_pool_bucket_bytes(bucket), i * STEP_BYTES);
        ck_assert_uint_eq(cushim_pool_bucket_count(bucket), i);
        ck_assert_uint_eq(bucket->n_most, N_MOST);
        ck_assert_uint_eq((uintptr_t)bucket % 64, 0);
    }
    ck_assert_ptr_null(cushim_pool_buckets_find(buckets, STEP_BYTES / 2));
    ck_assert_ptr_null(cushim_pool_buckets_find(buckets, 0));
}
END_TEST

START_TEST(a_walk_meets_each_bin_once_and_the_loose_one_last) {
    struct cushim_pool_buckets *buckets = begin();
    struct cushim_pool_bucket *bucket = NULL, *last = NULL;
    size_t n = 0, n_blocks = 0;
    fill(buckets);
    while ((bucket = cushim_pool_buckets_next(buckets, bucket))) {
        n++;
        n_blocks += cushim_pool_bucket_count(bucket);
        last = bucket;
    }
    ck_assert_uint_eq(n, N_BUCKETS + 1);
    ck_assert_uint_eq(n_blocks, N_BUCKETS * (N_BUCKETS + 1) / 2);
    ck_assert_ptr_eq(last, &buckets->loose);
}
END_TEST

/* A program of ever new sizes does not pay for those of long ago. */
START_TEST(bins_without_a_block_go_when_there_is_no_room) {
    struct cushim_pool_buckets *buckets = begin();
    for (size_t i = 1; i <= N_BUCKETS; i++)
        cushim_pool_buckets_make(buckets, i * STEP_BYTES, N_MOST);
    ck_assert_uint_lt(buckets->n, N_BUCKETS / 2);
    ck_assert_ptr_nonnull(cushim_pool_buckets_find(buckets, N_BUCKETS * STEP_BYTES));
    ck_assert_ptr_null(cushim_pool_buckets_find(buckets, STEP_BYTES));
}
END_TEST

START_TEST(without_host_memory_the_loose_bin_serves_and_nothing_is_lost) {
    struct cushim_pool_buckets *buckets = begin();
    has_no_memory = true;
    ck_assert_ptr_eq(cushim_pool_buckets_make(buckets, STEP_BYTES, N_MOST), &buckets->loose);
    has_no_memory = false;
    for (size_t i = 1; i <= N_FULL; i++)
        set_count(cushim_pool_buckets_make(buckets, i * STEP_BYTES, N_MOST), i);
    has_no_memory = true;
    ck_assert_ptr_eq(cushim_pool_buckets_make(buckets, (N_FULL + 1) * STEP_BYTES, N_MOST),
                     &buckets->loose);
    ck_assert_uint_eq(buckets->loose.n_most, 0); /* each free into it is looked after */
    for (size_t i = 1; i <= N_FULL; i++)
        ck_assert_uint_eq(cushim_pool_buckets_count(buckets, i * STEP_BYTES), i);
    has_no_memory = false;
}
END_TEST

START_TEST(cleared_it_is_empty_and_serves_again) {
    struct cushim_pool_buckets *buckets = begin();
    fill(buckets);
    set_count(&buckets->loose, 3);
    cushim_pool_buckets_clear(buckets);
    ck_assert_uint_eq(cushim_pool_bucket_count(&buckets->loose), 0);
    ck_assert_ptr_eq(cushim_pool_buckets_next(buckets, NULL), &buckets->loose);
    ck_assert_ptr_null(cushim_pool_buckets_find(buckets, STEP_BYTES));
    struct cushim_pool_bucket *bucket = cushim_pool_buckets_make(buckets, STEP_BYTES, 2 * N_MOST);
    ck_assert_ptr_eq(cushim_pool_buckets_find(buckets, STEP_BYTES), bucket);
    ck_assert_uint_eq(cushim_pool_bucket_count(bucket), 0);
    ck_assert_uint_eq(bucket->n_most, 2 * N_MOST);
}
END_TEST

/* ---- another thread counts ---- */

static atomic_bool is_over, is_counting;

/* The first bucket's count is never another's, however the table grows. */
static void *count(void *argument) {
    const struct cushim_pool_buckets *buckets = argument;
    size_t n_seen = 0;
    while (!atomic_load(&is_over)) {
        size_t n = cushim_pool_buckets_count(buckets, STEP_BYTES);
        ck_assert(n == 0 || n == 1);
        ck_assert_uint_ge(n, n_seen);
        n_seen = n;
        atomic_store(&is_counting, true);
    }
    return NULL;
}

START_TEST(a_thread_without_the_lock_may_count) {
    struct cushim_pool_buckets *buckets = begin();
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, count, buckets), 0);
    while (!atomic_load(&is_counting))
        sched_yield();
    fill(buckets);
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

int main(void) {
    return suite_run("pool buckets",
                     (const TTest *[]){
                         an_empty_one_has_the_loose_bin_alone,
                         each_bucket_is_found_with_what_it_had,
                         a_walk_meets_each_bin_once_and_the_loose_one_last,
                         bins_without_a_block_go_when_there_is_no_room,
                         without_host_memory_the_loose_bin_serves_and_nothing_is_lost,
                         cleared_it_is_empty_and_serves_again,
                         a_thread_without_the_lock_may_count,
                         NULL,
                     });
}
