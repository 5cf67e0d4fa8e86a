/* A pool while captures are open, and after its context broke. */
#include "memory/heap/heap.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/memory/heap/heap_rig.h"
#include "tests/unit/suite.h"

static struct rig *rig;
static CUresult answer;

START_TEST(while_a_capture_is_open_frees_use_the_barrier_and_never_record) {
    for (unsigned i = 0; i < 2; i++) {
        rig = rig_create(NULL);
        uint64_t address = rig_take(rig, 1000);
        atomic_store(&rig_pass, i ? CUSHIM_MEM_PASS_OWN : CUSHIM_MEM_PASS_RELAXED);
        fake_submit(0);
        fake_forget_order();
        rig_give(rig, address);
        ck_assert_str_eq(fake_order(), "cuMemAlloc_v2(1) cuMemFree_v2(1)");
        ck_assert_uint_eq(rig_n_leaves, 0); /* only PASS_RECORD is handed back */
        rig_check(rig);
        rig_destroy(rig);
    }
}
END_TEST

START_TEST(memory_is_served_while_another_thread_captures) {
    rig = rig_create(NULL);
    atomic_store(&rig_pass, CUSHIM_MEM_PASS_RELAXED);
    fake_capture(0, true);
    uint64_t address = rig_take(rig, 5000000);
    rig_give(rig, address);
    rig_trim(rig, 0);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    rig_check(rig);
}
END_TEST

START_TEST(the_callers_own_capture_keeps_its_block_live_when_native_refuses) {
    rig = rig_create(NULL);
    uint64_t address = rig_take(rig, 1000);
    atomic_store(&rig_pass, CUSHIM_MEM_PASS_OWN);
    fake_capture(0, true);
    ck_assert_int_eq(rig_release(rig, address, &answer), CUSHIM_CAPTURE);
    ck_assert_int_eq(answer, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(rig_state(rig, address), CUSHIM_MEM_LIVE);
    ck_assert_int_eq(rig->pools[0].damage, CUDA_SUCCESS);
    rig_check(rig);
}
END_TEST

START_TEST(without_memory_for_the_barrier_the_block_waits_for_the_next_wait) {
    rig = rig_create(NULL);
    uint64_t a = rig_take(rig, 1000), b = rig_take(rig, 1000), c = rig_take(rig, 1000);
    atomic_store(&rig_pass, CUSHIM_MEM_PASS_RELAXED);
    fake_limit(0);
    rig_give(rig, a);
    rig_give(rig, b);
    ck_assert_int_eq(rig_state(rig, a), CUSHIM_MEM_PENDING);
    ck_assert_uint_eq(rig_stats(rig)->live_bytes, 1000);
    rig_check(rig);
    ck_assert_uint_ne(rig_take(rig, 1000), a); /* obtaining waits for nothing, so frees nothing */
    ck_assert_int_eq(rig_state(rig, a), CUSHIM_MEM_PENDING);
    atomic_store(&rig_pass, CUSHIM_MEM_PASS_RECORD);
    rig_give(rig, c);
    ck_assert_int_eq(rig_state(rig, a), CUSHIM_MEM_FREE);
    ck_assert_int_eq(rig_state(rig, b), CUSHIM_MEM_FREE);
    rig_check(rig);
}
END_TEST

/* Captures begin and end in one thread while others free: the gate keeps records out. */
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
        uint64_t address = rig_obtain(rig, 1000, &status);
        fake_submit(0);
        if (!address || rig_release(rig, address, &said) != CUSHIM_OK)
            return NULL;
    }
    return is_good;
}

START_TEST(a_begin_never_meets_a_record) {
    pthread_t capturing, churning[3];
    rig = rig_create(NULL);
    rig->gate = (struct cushim_mem_capture_guard){is_open, enter, leave};
    pthread_create(&capturing, NULL, capture, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&churning[i], NULL, churn, rig);
    for (int i = 0; i < 3; i++) {
        void *is_good;
        pthread_join(churning[i], &is_good);
        ck_assert_ptr_nonnull(is_good);
    }
    atomic_store(&is_over, true);
    pthread_join(capturing, NULL);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    ck_assert_uint_eq(fake_n_faults(), 0);
    rig_check(rig);
}
END_TEST

static const char *const stages[] = {"cuCtxRecordEvent", "cuEventQuery", "cuEventSynchronize"};

START_TEST(damage_keeps_the_block_and_the_answer_and_the_pool_steps_aside) {
    static const CUresult answers[] = {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED,
                                       CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_UNKNOWN};
    for (unsigned i = 0; i < 12; i++) {
        rig = rig_create(NULL);
        enum cushim_status status;
        uint64_t address = rig_take(rig, 1000), other = rig_take(rig, 5000000);
        fake_submit(0);
        fake_fail_always(stages[i % 3], answers[i / 3]);
        ck_assert_int_ne(rig_release(rig, address, &answer), CUSHIM_OK);
        ck_assert_int_eq(answer, answers[i / 3]);
        ck_assert_int_eq(rig->pools[0].damage, answers[i / 3]);
        ck_assert_int_eq(rig_state(rig, address), CUSHIM_MEM_LIVE);
        ck_assert_uint_eq(rig_obtain(rig, 1000, &status), 0);
        ck_assert_int_eq(status, CUSHIM_STATE);
        ck_assert_int_eq(rig_release(rig, other, &answer), CUSHIM_STATE);
        ck_assert_int_eq(rig_state(rig, other), CUSHIM_MEM_LIVE);
        rig_check(rig);
        rig_destroy(rig);
    }
}
END_TEST

START_TEST(a_damaged_pool_serves_again_once_its_context_was_replaced) {
    rig = rig_create(NULL);
    uint64_t address = rig_take(rig, 1000);
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_ILLEGAL_ADDRESS);
    rig_release(rig, address, &answer);
    fake_fail_always(NULL, CUDA_SUCCESS);
    cushim_mem_heap_abandon(&rig->pools[0]);
    fake_lose_all();
    rig_open(rig, 0);
    rig_give(rig, rig_take(rig, 1000));
    rig_check(rig);
}
END_TEST

static void reopen_in_wait(const char *name) {
    if (strcmp(name, "cuEventSynchronize") == 0) {
        fake_on_call(NULL);
        cushim_mem_heap_abandon(&rig->pools[0]);
        rig_open(rig, 0);
        rig_take(rig, 1000);
    }
}

START_TEST(a_wait_that_fails_after_its_pool_was_reborn_does_not_damage_the_new_life) {
    rig = rig_create(NULL);
    uint64_t address = rig_take(rig, 1000);
    fake_submit(0);
    fake_fail_always("cuEventSynchronize", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fake_on_call(reopen_in_wait);
    ck_assert_int_eq(rig_release(rig, address, &answer), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(answer, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ck_assert_int_eq(rig->pools[0].damage, CUDA_SUCCESS);
    ck_assert_uint_eq(rig_stats(rig)->live_bytes, 1000);
    rig_check(rig);
}
END_TEST

START_TEST(a_damaged_uncached_free_is_noted_too) {
    rig = rig_create(NULL);
    atomic_store(&rig->policy.dedicated_bytes, 2 << 20);
    atomic_store(&rig->policy.is_dedicated_uncached, true);
    uint64_t address = rig_take(rig, 3 << 20);
    fake_fail_always("cuMemFree_v2", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(rig_release(rig, address, &answer), CUSHIM_FAULT);
    ck_assert_int_eq(answer, CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(rig_state(rig, address), CUSHIM_MEM_LIVE);
    ck_assert_int_eq(rig->pools[0].damage, CUDA_ERROR_ILLEGAL_ADDRESS);
    rig_check(rig);
}
END_TEST

SUITE() {
    return suite_run(
        "pool_capture",
        (const TTest *[]){while_a_capture_is_open_frees_use_the_barrier_and_never_record,
                          memory_is_served_while_another_thread_captures,
                          the_callers_own_capture_keeps_its_block_live_when_native_refuses,
                          without_memory_for_the_barrier_the_block_waits_for_the_next_wait,
                          a_begin_never_meets_a_record,
                          damage_keeps_the_block_and_the_answer_and_the_pool_steps_aside,
                          a_damaged_pool_serves_again_once_its_context_was_replaced,
                          a_wait_that_fails_after_its_pool_was_reborn_does_not_damage_the_new_life,
                          a_damaged_uncached_free_is_noted_too, NULL});
}
