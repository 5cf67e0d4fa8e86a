/* Caches as threads start and end, and while other threads empty them. */
#include "memory/cache/cache.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "memory/alloc.h"
#include "memory/heap.h"
#include "tests/unit/memory/cache/crowd_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, THREADS = 20 };

static atomic_bool is_over;

static void run(unsigned n, void *(*function)(void *)) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, function, (void *)i);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
}

static void *live_briefly(void *unused) {
    uint64_t addresses[8];
    (void)unused;
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < 8; i++)
        addresses[i] = take(1000 << i);
    for (unsigned i = 0; i < 8; i++)
        give(addresses[i]);
    return cushim_mem_cache_recent;
}

TEST(a_thousand_threads_in_turn_share_one_cache) {
    void *first = NULL;
    for (unsigned relaxed = 0; relaxed < 2; relaxed++) {
        fixture = fixture_create(NULL);
        fixture->policy.is_relaxed = relaxed;
        for (unsigned i = 0; i < 2000; i++) {
            pthread_t thread;
            void *cache;
            pthread_create(&thread, NULL, live_briefly, NULL);
            pthread_join(thread, &cache);
            first = first ? first : cache;
            ck_assert_ptr_eq(cache, first);
            ck_assert_uint_eq(heap()->n_caches, 0);
            ck_assert_uint_le(heap()->held_bytes, 16 * MIB);
        }
        ck_assert_uint_eq(n_wrong, 0);
        ck_assert_uint_eq(fixture_stats(fixture)->n_requests, 16000);
        ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 16000);
        ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

/* The owner is inside its cache, as it is briefly in each call. */
static void *stay_inside(void *unused) {
    give(take(1000));
    atomic_fetch_add(&n_wrong, !cushim_futex_lock_take(&cushim_mem_cache_recent->lock));
    meet();
    meet();
    cushim_futex_lock_leave(&cushim_mem_cache_recent->lock);
    return unused;
}

static void *drain_once(void *unused) {
    cushim_mem_cache_drain_all(heap());
    return unused;
}

static void *give_and_stay(void *unused) {
    fake_set_current(fake_context(0));
    give(take(100000));
    meet();
    meet();
    return unused;
}

TEST(blocks_in_the_cache_of_an_idle_thread_can_be_drained) {
    pthread_t idle;
    fixture = fixture_create(NULL);
    give(take(1000));
    pthread_barrier_init(&meeting, NULL, 2);
    pthread_create(&idle, NULL, give_and_stay, NULL);
    meet();
    ck_assert_uint_ge(cushim_mem_cache_drain_all(heap()), 101000);
    meet();
    pthread_join(idle, NULL);
    fixture_check(fixture);
    fixture_destroy(fixture);
}

/* Keys end a thread in the order in which they were made, and this one's is the last. */
/* The process kills itself, because at an exit memcheck would report what only the stack of the
 * ended thread points to. */
static void leave_well(void *unused) {
    (void)unused;
    kill(getpid(), SIGKILL);
}

TEST(a_thread_of_a_child_ends_even_if_the_fork_interrupted_a_cache) {
    pthread_t owner, drainer;
    int status = -1;
    fixture = fixture_create(NULL);
    give(take(1000)); /* so that this thread has blocks to return when it ends */
    pthread_barrier_init(&meeting, NULL, 2);
    pthread_create(&owner, NULL, stay_inside, NULL);
    meet();
    pthread_create(&drainer, NULL, drain_once, NULL);
    struct cushim_mem_cache *inside = heap()->caches; /* the youngest cache is first */
    while (!atomic_load(&inside->lock.n_wanted))
        sched_yield();
    pid_t child = fork();
    if (!child) {
        pthread_key_t last;
        alarm(20); /* against a hang */
        cushim_mem_cache_leave_to_parent();
        pthread_key_create(&last, leave_well);
        pthread_setspecific(last, fixture);
        pthread_exit(NULL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    meet();
    pthread_join(owner, NULL);
    pthread_join(drainer, NULL);
    ck_assert_uint_eq(n_wrong, 0);
    fixture_check(fixture);
}

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed * 2654435761u + 1, addresses[16] = {0};
    fake_set_current(fake_context(0));
    for (unsigned i = suite_turns(4000); i > 0; i--) {
        uint64_t *slot = &addresses[suite_random(&random) % 16];
        if (*slot)
            give(*slot);
        size_t n_bytes = 1 + suite_random(&random) % 70000;
        *slot = take(n_bytes);
        atomic_fetch_add(&n_wrong, fixture_judge(fixture, *slot, n_bytes) != CUSHIM_MEM_INSIDE);
    }
    for (unsigned i = 0; i < 16; i++) {
        if (addresses[i])
            give(addresses[i]);
    }
    return NULL;
}

static void *drain(void *unused) {
    while (!atomic_load(&is_over)) {
        cushim_mem_cache_drain_all(heap());
        fixture_stats(fixture);
    }
    return unused;
}

TEST(caches_in_use_can_be_drained_and_summed) {
    for (unsigned relaxed = 0; relaxed < 2; relaxed++) {
        pthread_t drainer;
        fixture = fixture_create(NULL);
        fixture->policy.is_relaxed = relaxed;
        atomic_store(&is_over, false);
        pthread_create(&drainer, NULL, drain, NULL);
        run(4, churn);
        atomic_store(&is_over, true);
        pthread_join(drainer, NULL);
        ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
        ck_assert_uint_eq(fixture_stats(fixture)->n_requests, 4 * suite_turns(4000));
        ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 4 * suite_turns(4000));
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

static void *take_and_give(void *unused) {
    fake_set_current(fake_context(0));
    for (unsigned i = suite_turns(20000); i > 0; i--)
        give(take(1000));
    return unused;
}

static void *sum_up(void *unused) {
    while (!atomic_load(&is_over)) {
        const struct cushim_mem_stats *sum = fixture_stats(fixture);
        atomic_fetch_add(&n_wrong, sum->n_frees > sum->n_requests);
    }
    return unused;
}

TEST(no_sum_has_more_frees_than_requests) {
    pthread_t reader;
    fixture = fixture_create(NULL);
    atomic_store(&is_over, false);
    pthread_create(&reader, NULL, sum_up, NULL);
    run(4, take_and_give);
    atomic_store(&is_over, true);
    pthread_join(reader, NULL);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->n_requests, 4 * suite_turns(20000));
    ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 4 * suite_turns(20000));
    fixture_destroy(fixture);
}

static void *survive(void *unused) {
    fake_set_current(fake_context(0));
    for (unsigned life = 0; life < 20; life++) {
        for (unsigned i = 0; i < 20; i++)
            give(take(1000 + 5000 * i));
        meet(); /* the heap is abandoned, this thread's cache being full, and opened again */
        meet();
    }
    return unused;
}

TEST(a_heap_is_abandoned_while_caches_hold_its_blocks) {
    pthread_t threads[4];
    fixture = fixture_create(NULL);
    pthread_barrier_init(&meeting, NULL, 5);
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, survive, NULL);
    for (unsigned life = 0; life < 20; life++) {
        meet();
        fixture_check(fixture);
        cushim_mem_heap_abandon(heap());
        ck_assert_ptr_null(heap()->caches);
        fake_lose_all();
        fixture_open(fixture, 0);
        meet();
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->n_requests, 4 * 20 * 20);
    fixture_check(fixture);
}

/* A heap is abandoned and opened again while the threads whose caches have its blocks use
 * another. */
static void *use_another(void *unused) {
    fake_set_current(fake_context(0));
    while (!atomic_load(&is_over)) {
        meet();
        give(take(2000)); /* this thread has a cache of heap 0 again */
        meet();
        for (unsigned i = 0; i < 50; i++) {
            struct cushim_mem_block block;
            CUresult answer;
            bool is_served = cushim_mem_alloc(&fixture->heaps[1], 2000, &block) == CUSHIM_OK;
            atomic_fetch_add(&n_wrong, !is_served || fixture_release(fixture, block.address,
                                                                     &answer) != CUSHIM_OK);
        }
    }
    return unused;
}

TEST(a_heap_is_abandoned_while_its_threads_use_another) {
    pthread_t threads[3];
    fixture = fixture_create(NULL);
    fixture_open(fixture, 1);
    pthread_barrier_init(&meeting, NULL, 4);
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, use_another, NULL);
    for (unsigned life = 1; life <= 100; life++) {
        meet();
        atomic_store(&is_over, life == 100);
        meet();
        cushim_mem_heap_abandon(heap());
        ck_assert_uint_eq(heap()->n_caches, 0);
        fixture_open(fixture, 0);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->n_requests, 100 * 3 * 51);
    ck_assert_uint_eq(fixture->heaps[1].n_caches, 0);
    fixture_check(fixture);
}

/* A destructor that runs after cushim's: its blocks take the heap's lock. */
static pthread_key_t late_key;
static unsigned n_late;

static void use_late(void *unused) {
    give(take(3000));
    if (++n_late < 3) /* run again in the next round of destructors */
        pthread_setspecific(late_key, unused);
}

static void *end_late(void *unused) {
    fake_set_current(fake_context(0));
    give(take(3000));
    pthread_setspecific(late_key, fixture);
    return unused;
}

TEST(blocks_freed_in_a_late_destructor_go_to_the_free_lists) {
    fixture = fixture_create(NULL);
    pthread_key_create(&late_key, use_late);
    run(1, end_late);
    ck_assert_uint_eq(n_late, 3);
    ck_assert_uint_eq(heap()->n_caches, 0);
    ck_assert_uint_eq(heap()->live_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 4);
    fixture_check(fixture);
}

static uint64_t passed[THREADS];

static void *take_for_others(void *number) {
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < 9; i++)
        take(900000);
    passed[(uintptr_t)number] = take(900000);
    meet();
    for (unsigned round = 0; round < 50; round++) {
        uint64_t *from = &passed[((uintptr_t)number + round + 1) % 4];
        give(*from);
        *from = take(900000);
        meet();
    }
    return NULL;
}

TEST(the_peak_is_off_by_at_most_the_unpublished_bytes_of_threads) {
    fixture = fixture_create(NULL);
    pthread_barrier_init(&meeting, NULL, 4);
    run(4, take_for_others);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 40 * 900000);
    ck_assert_uint_ge(fixture_stats(fixture)->peak_live_bytes, 40 * 900000 - 4 * MIB);
    ck_assert_uint_le(fixture_stats(fixture)->peak_live_bytes, 40 * 900000 + 4 * MIB);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("cache_threads");
}
