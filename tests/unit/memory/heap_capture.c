/* A heap while captures are open, and after its context is damaged. */
#include "memory/state/heap_state.h"
#include "memory/heap.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

static struct fixture *fixture;
static CUresult answer;

TEST(while_a_capture_is_open_frees_use_the_barrier_and_never_record) {
    for (unsigned i = 0; i < 2; i++) {
        fixture = fixture_create(NULL);
        uint64_t address = fixture_take(fixture, 1000);
        atomic_store(&fixture_pass, i ? CUSHIM_MEM_PASS_OWN : CUSHIM_MEM_PASS_RELAXED);
        fake_submit(0);
        fake_forget_order();
        fixture_give(fixture, address);
        ck_assert_str_eq(fake_order(), "cuMemAlloc_v2(1) cuMemFree_v2(1)");
        ck_assert_uint_eq(fixture_n_leaves, 0); /* only PASS_RECORD is returned */
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(memory_is_served_while_another_thread_captures) {
    fixture = fixture_create(NULL);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
    fake_capture(0, true);
    uint64_t address = fixture_take(fixture, 5000000);
    fixture_give(fixture, address);
    fixture_trim(fixture, 0);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    fixture_check(fixture);
}

TEST(the_callers_own_capture_keeps_a_block_live_if_the_driver_refuses_its_free) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_OWN);
    fake_capture(0, true);
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_CAPTURE);
    ck_assert_int_eq(answer, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
    ck_assert_int_eq(fixture->heaps[0].damage, CUDA_SUCCESS);
    fixture_check(fixture);
}

TEST(without_memory_for_the_barrier_the_block_waits_for_the_next_wait) {
    fixture = fixture_create(NULL);
    uint64_t a = fixture_take(fixture, 1000), b = fixture_take(fixture, 1000),
             c = fixture_take(fixture, 1000);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
    fake_limit(0);
    fixture_give(fixture, a);
    fixture_give(fixture, b);
    ck_assert_int_eq(fixture_state(fixture, a), CUSHIM_MEM_DEFERRED);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 1000);
    fixture_check(fixture);
    ck_assert_uint_ne(fixture_take(fixture, 1000),
                      a); /* an allocation waits for nothing, so it makes nothing free */
    ck_assert_int_eq(fixture_state(fixture, a), CUSHIM_MEM_DEFERRED);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RECORD);
    fixture_give(fixture, c);
    ck_assert_int_eq(fixture_state(fixture, a), CUSHIM_MEM_FREE);
    ck_assert_int_eq(fixture_state(fixture, b), CUSHIM_MEM_FREE);
    fixture_check(fixture);
}

static bool is_never_open(void) {
    return false;
}

TEST(if_a_capture_begins_during_a_free_idle_memory_serves_the_barrier) {
    fixture = fixture_create(NULL);
    fixture->guard.is_open = is_never_open; /* the capture begins after this answer */
    fixture_give(fixture, fixture_take(fixture, 3 << 20));
    uint64_t address = fixture_take(fixture, 1000);
    fake_limit(fake_used_bytes());
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
    fixture_give(fixture, address);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_FREE);
    fixture_check(fixture);
}

/* Captures begin and end in one thread while others free; the capture guard keeps records out. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int n_open;
static atomic_bool is_over;

static bool is_open(void) {
    return atomic_load(&n_open) != 0;
}

static enum cushim_mem_pass enter(void) {
    pthread_rwlock_rdlock(&lock);
    if (!atomic_load(&n_open))
        return CUSHIM_MEM_PASS_RECORD;
    pthread_rwlock_unlock(&lock);
    return CUSHIM_MEM_PASS_RELAXED;
}

static void leave(void) {
    pthread_rwlock_unlock(&lock);
}

static void *capture(void *unused) {
    while (!atomic_load(&is_over)) {
        for (int begins = 1; begins >= 0; begins--) {
            pthread_rwlock_wrlock(&lock);
            fake_capture(0, begins);
            atomic_fetch_add(&n_open, begins ? 1 : -1);
            pthread_rwlock_unlock(&lock);
        }
    }
    return unused;
}

static void *churn(void *is_good) {
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < 300; i++) {
        enum cushim_status status;
        CUresult said;
        uint64_t address = fixture_obtain(fixture, 1000, &status);
        fake_submit(0);
        if (!address || fixture_release(fixture, address, &said) != CUSHIM_OK)
            return NULL;
    }
    return is_good;
}

TEST(a_begin_never_meets_a_record) {
    pthread_t capturing, churning[3];
    fixture = fixture_create(NULL);
    fixture->guard = (struct cushim_mem_capture_guard){is_open, enter, leave};
    pthread_create(&capturing, NULL, capture, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&churning[i], NULL, churn, fixture);
    for (int i = 0; i < 3; i++) {
        void *is_good;
        pthread_join(churning[i], &is_good);
        ck_assert_ptr_nonnull(is_good);
    }
    atomic_store(&is_over, true);
    pthread_join(capturing, NULL);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    fixture_check(fixture);
}

static const char *const stages[] = {"cuCtxRecordEvent", "cuEventQuery", "cuEventSynchronize"};

TEST(damage_keeps_the_block_and_the_error_and_the_heap_stops_serving) {
    static const CUresult answers[] = {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED,
                                       CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_UNKNOWN};
    for (unsigned i = 0; i < 12; i++) {
        fixture = fixture_create(NULL);
        enum cushim_status status;
        uint64_t address = fixture_take(fixture, 1000), other = fixture_take(fixture, 5000000);
        fake_submit(0);
        fake_fail_always(stages[i % 3], answers[i / 3]);
        ck_assert_int_ne(fixture_release(fixture, address, &answer), CUSHIM_OK);
        ck_assert_int_eq(answer, answers[i / 3]);
        ck_assert_int_eq(fixture->heaps[0].damage, answers[i / 3]);
        ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
        ck_assert_uint_eq(fixture_obtain(fixture, 1000, &status), 0);
        ck_assert_int_eq(status, CUSHIM_STATE);
        ck_assert_int_eq(fixture_release(fixture, other, &answer), CUSHIM_STATE);
        ck_assert_int_eq(fixture_state(fixture, other), CUSHIM_MEM_LIVE);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(a_damaged_heap_serves_again_once_its_context_is_replaced) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_ILLEGAL_ADDRESS);
    fixture_release(fixture, address, &answer);
    fake_fail_always(NULL, CUDA_SUCCESS);
    cushim_mem_heap_abandon(&fixture->heaps[0]);
    fake_lose_all();
    fixture_open(fixture, 0);
    fixture_give(fixture, fixture_take(fixture, 1000));
    fixture_check(fixture);
}

static void reopen_in_wait(const char *name) {
    if (strcmp(name, "cuEventSynchronize") == 0) {
        fake_on_call(NULL);
        cushim_mem_heap_abandon(&fixture->heaps[0]);
        fixture_open(fixture, 0);
        fixture_take(fixture, 1000);
    }
}

TEST(a_wait_that_fails_after_its_heap_is_reopened_does_not_damage_the_new_life) {
    fixture = fixture_create(NULL);
    uint64_t address = fixture_take(fixture, 1000);
    fake_submit(0);
    fake_fail_always("cuEventSynchronize", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fake_on_call(reopen_in_wait);
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(answer, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ck_assert_int_eq(fixture->heaps[0].damage, CUDA_SUCCESS);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 1000);
    fixture_check(fixture);
}

TEST(a_damaged_uncached_free_is_noted_too) {
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, 2 << 20);
    atomic_store(&fixture->policy.is_dedicated_uncached, true);
    uint64_t address = fixture_take(fixture, 3 << 20);
    fake_fail_always("cuMemFree_v2", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_FAULT);
    ck_assert_int_eq(answer, CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
    ck_assert_int_eq(fixture->heaps[0].damage, CUDA_ERROR_ILLEGAL_ADDRESS);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("pool_capture");
}
