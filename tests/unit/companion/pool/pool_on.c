/* The short forms of pool calls, host memory as a pointer, and the alignment of blocks. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "cushim/cushim.h"
#include "tests/unit/companion/pool/pool_fixture.h"
#include "tests/unit/suite.h"

static struct cushim_memory_info info_of(cushim_devptr ptr) {
    struct cushim_memory_info info = {.struct_size = sizeof info};
    ck_assert_int_eq(cushim_memory_query(ptr, &info), CUSHIM_OK);
    return info;
}

static cushim_devptr take_on(struct cushim_pool *p, size_t bytes, struct cushim_stream *s) {
    cushim_devptr ptr;
    ck_assert_int_eq(cushim_pool_alloc_on(p, bytes, s, &ptr), CUSHIM_OK);
    return ptr;
}

TEST(memory_for_a_stream_is_on_its_device) {
    struct cushim_pool *p = create(NULL);
    struct cushim_context *second;
    struct cushim_stream *s;
    ck_assert_int_eq(cushim_context_primary(1, &second), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(second, 0, 0, &s), CUSHIM_OK);
    for (int round = 0; round < 3; round++) { /* whatever was cached before */
        cushim_devptr of_stream = take_on(p, 1000, s), of_thread = take_on(p, 1000, NULL),
                      of_all = take_on(p, 1000, CUSHIM_STREAM_ALL), elsewhere;
        ck_assert_int_eq(cushim_pool_alloc(p, 0, CUSHIM_MEMORY_DEVICE, 1000, s, &elsewhere),
                         CUSHIM_OK);
        ck_assert_int_eq(info_of(of_stream).device, 1);
        ck_assert_int_eq(info_of(of_thread).device, 0);
        ck_assert_int_eq(info_of(of_all).device, 0);
        ck_assert_int_eq(info_of(elsewhere).device, 0);
        ck_assert_int_eq(info_of(of_stream).kind, CUSHIM_MEMORY_DEVICE);
        ck_assert_int_eq(cushim_pool_free_on(p, of_stream, s), CUSHIM_OK);
        ck_assert_int_eq(cushim_pool_free_on(p, of_thread, NULL), CUSHIM_OK);
        ck_assert_int_eq(cushim_pool_free_on(p, of_all, CUSHIM_STREAM_ALL), CUSHIM_OK);
        ck_assert_int_eq(cushim_pool_free_on(p, elsewhere, s), CUSHIM_OK);
    }
    ck_assert_uint_eq(stats_of(p).live_blocks, 0);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

struct elsewhere {
    struct cushim_pool *p;
    struct cushim_stream *s;
    cushim_devptr ptr;
};

static void *take_first(void *argument) {
    struct elsewhere *elsewhere = argument;
    elsewhere->ptr = take_on(elsewhere->p, 1000, elsewhere->s);
    return NULL;
}

TEST(the_first_block_of_a_thread_is_on_its_device) {
    struct elsewhere elsewhere = {.p = create(NULL)};
    struct cushim_context *second;
    pthread_t thread;
    ck_assert_int_eq(cushim_context_primary(1, &second), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(second, 0, 0, &elsewhere.s), CUSHIM_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, take_first, &elsewhere), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(info_of(elsewhere.ptr).device, 1);
    ck_assert_int_eq(cushim_pool_free_on(elsewhere.p, elsewhere.ptr, elsewhere.s), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(elsewhere.p), CUSHIM_OK);
}

TEST(a_hit_by_the_short_form_makes_no_driver_call) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    cushim_devptr first = take_on(p, 5000, s);
    ck_assert_int_eq(cushim_pool_free_on(p, first, s), CUSHIM_OK);
    ck_assert_uint_eq(take_on(p, 5000, s), first);
    ck_assert_int_eq(cushim_pool_free_on(p, first, s), CUSHIM_OK);
    SIM(sim_calls_reset)();
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(take_on(p, 5000, s), first);
        ck_assert_int_eq(cushim_pool_free_on(p, first, s), CUSHIM_OK);
    }
    ck_assert_uint_eq(SIM(sim_calls_total)(), 0);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(the_short_form_refuses_the_same_errors_as_the_full_one) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    cushim_devptr ptr = take_on(p, 1000, s), other = 1;
    ck_assert_int_eq(cushim_pool_free_on(p, ptr, s), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_free_on(p, ptr, s), CUSHIM_DOUBLEFREE);
    ck_assert_int_eq(cushim_pool_free_on(p, 0, s), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_free_host(p, NULL, s), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_destroy(s), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_alloc_on(p, 1000, s, &other), CUSHIM_BADHANDLE);
    ck_assert_uint_eq(other, 0);
    ck_assert_int_eq(cushim_pool_alloc_on(p, 1000, NULL, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_alloc_on(NULL, 1000, NULL, &other), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(host_memory_is_returned_as_a_pointer) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    void *none = p;
    for (enum cushim_memory_kind kind = CUSHIM_MEMORY_MANAGED; kind <= CUSHIM_MEMORY_PINNED;
         kind++) {
        unsigned char *bytes;
        void *ptr;
        ck_assert_int_eq(cushim_pool_alloc_host(p, kind, 1000, s, &ptr), CUSHIM_OK);
        ck_assert_int_eq(info_of((uintptr_t)ptr).kind, kind);
        bytes = ptr;
        memset(bytes, 1, 1000);
        ck_assert_int_eq(cushim_memory_set8_async((uintptr_t)ptr, 7, 500, s), CUSHIM_OK);
        ck_assert_int_eq(cushim_stream_synchronize(s), CUSHIM_OK);
        ck_assert_uint_eq(bytes[499], 7);
        ck_assert_uint_eq(bytes[500], 1);
        ck_assert_int_eq(cushim_pool_free_host(p, ptr, s), CUSHIM_OK);
        ck_assert_int_eq(cushim_pool_free_host(p, ptr, s), CUSHIM_DOUBLEFREE);
    }
    ck_assert_int_eq(cushim_pool_alloc_host(p, CUSHIM_MEMORY_DEVICE, 1000, s, &none),
                     CUSHIM_INVALID);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(cushim_pool_alloc_host(p, CUSHIM_MEMORY_PINNED, 1000, s, NULL),
                     CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_alloc_host(p, CUSHIM_MEMORY_PINNED, 0, s, &none), CUSHIM_OK);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* Sizes that are no multiple of the alignment, side by side; some reuse freed memory. */
static void assert_aligned(struct cushim_pool *p, enum cushim_memory_kind kind) {
    cushim_devptr all[60];
    uint64_t state = 42;
    for (int i = 0; i < 180; i++) {
        cushim_devptr *ptr = &all[i % 60];
        size_t bytes = 1 + suite_random(&state) % ((size_t)1 << (1 + i % 23));
        if (i >= 60)
            give(p, *ptr, NULL);
        ck_assert_int_eq(cushim_pool_alloc(p, 0, kind, bytes, NULL, ptr), CUSHIM_OK);
        ck_assert_uint_eq(*ptr % CUSHIM_POOL_ALIGN_BYTES, 0);
    }
}

TEST(every_block_has_the_alignment_of_the_header) {
    for (int policy = CUSHIM_POOL_POLICY_FINE; policy <= CUSHIM_POOL_POLICY_EXACT; policy++) {
        for (int dedicated = 0; dedicated < 2; dedicated++) {
            struct cushim_pool_options options;
            cushim_pool_options_default(&options);
            options.policy = (enum cushim_pool_policy)policy;
            options.dedicated = dedicated;
            struct cushim_pool *p = create(&options);
            for (int kind = CUSHIM_MEMORY_DEVICE; kind <= CUSHIM_MEMORY_PINNED; kind++)
                assert_aligned(p, (enum cushim_memory_kind)kind);
            ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
        }
    }
}

enum { N_THREADS = 8 };

static void *ask(void *barrier) {
    pthread_barrier_wait(barrier);
    return cushim_pool_process_alloc(1000, 1, NULL);
}

TEST(threads_that_make_the_first_call_together_share_one_pool) {
    pthread_t threads[N_THREADS];
    void *blocks[N_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &barrier), 0);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], &blocks[i]);
    pthread_barrier_destroy(&barrier);
    cushim_pool_process_free((void *)4096, 1, 1, NULL);
    char *refused = strdup(cushim_last_error());
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_ptr_nonnull(blocks[i]);
        /* no call is refused, so the error text stays */
        cushim_pool_process_free(blocks[i], 1000, 1, NULL);
        ck_assert_str_eq(cushim_last_error(), refused);
    }
    free(refused);
}

SUITE() {
    return tests_run("pool on");
}
