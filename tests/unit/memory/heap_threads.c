/* Threads: the assertions check sums, and TSan checks the memory orders. */
#include "memory/state/heap_state.h"

#include <pthread.h>
#include <sched.h>

#include "memory/reclaim.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { THREADS = 4, ROUNDS = 2000, OWN = 24, QUEUE = 64 };

static struct fixture *fixture;
static atomic_uint n_wrong;

/* A block for another thread to free. */
static struct {
    pthread_mutex_t lock;
    uint64_t addresses[QUEUE];
    unsigned n;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t exchange(uint64_t address, uint64_t random) {
    pthread_mutex_lock(&queue.lock);
    if (queue.n < QUEUE) {
        queue.addresses[queue.n++] = address;
        address = 0;
    } else {
        unsigned at = (unsigned)(random % QUEUE);
        uint64_t other = queue.addresses[at];
        queue.addresses[at] = address;
        address = other;
    }
    pthread_mutex_unlock(&queue.lock);
    return address;
}

static size_t size_of(uint64_t random) {
    static const size_t most[] = {2000, 60000, 1 << 20, 6 << 20};
    return 1 + random / 4 % most[random % 4];
}

static void give(uint64_t address, uint64_t random) {
    CUresult answer;
    enum cushim_status status =
        random % 8 ? fixture_release(fixture, address, &answer)
                   : fixture_release_on(fixture, address, fake_stream(random % 3 * 4), &answer);
    atomic_fetch_add(&n_wrong, status != CUSHIM_OK);
}

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed, own[OWN] = {0};
    fake_set_current(fake_context(0));
    for (unsigned i = suite_turns(ROUNDS); i > 0; i--) {
        uint64_t *slot = &own[suite_random(&random) % OWN];
        enum cushim_status status;
        if (*slot && suite_random(&random) % 2)
            *slot = exchange(*slot, suite_random(&random));
        if (*slot)
            give(*slot, suite_random(&random));
        size_t n_bytes = size_of(suite_random(&random));
        *slot = fixture_obtain(fixture, n_bytes, &status);
        atomic_fetch_add(&n_wrong, status != CUSHIM_OK ||
                                       fixture_judge(fixture, *slot, n_bytes) != CUSHIM_MEM_INSIDE);
        fake_submit((unsigned)(random % 3 * 4));
        if (random % 64 == 0)
            fixture_trim(fixture, 4 << 20);
        if (random % 64 == 1)
            cushim_mem_reclaim_reusable_bytes(&fixture->heaps[0]);
    }
    for (unsigned i = 0; i < OWN; i++) {
        if (own[i])
            give(own[i], 1);
    }
    return NULL;
}

TEST(threads_that_free_each_others_blocks_leave_a_consistent_heap) {
    pthread_t threads[THREADS];
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, 4 << 20);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i * 7919 + 1)); /* the thread's seed */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    fixture_check(fixture);
    for (; queue.n; queue.n--)
        fixture_give(fixture, queue.addresses[queue.n - 1]);
    for (unsigned i = 0; i < 3; i++)
        fake_finish(4 * i);
    fixture_give(fixture, fixture_take(fixture, 1));
    fixture_trim(fixture, 0);
    fixture_check(fixture);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    ck_assert_uint_eq(fixture->heaps[0].held_bytes, 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
}

/* A live block ends in the page in which its neighbour begins, and the neighbour comes and goes. */
enum { THIRD = 1365 * 512, COMINGS = 300 };
static uint64_t neighbour;
static atomic_bool is_quiet;

static void *come_and_go(void *unused) {
    enum cushim_status status;
    CUresult answer;
    fake_set_current(fake_context(0));
    for (unsigned i = suite_turns(COMINGS); i > 0; i--) {
        uint64_t address = fixture_obtain(fixture, THIRD, &status);
        atomic_fetch_add(&n_wrong, address != neighbour);
        atomic_fetch_add(&n_wrong, fixture_release(fixture, address, &answer) != CUSHIM_OK);
        fixture_trim(fixture, 0);
    }
    atomic_store(&is_quiet, true);
    return unused;
}

TEST(a_look_up_of_a_live_block_reads_nothing_of_its_neighbour) {
    pthread_t thread;
    fixture = fixture_create(NULL);
    uint64_t live = fixture_take(fixture, THIRD), last = live + THIRD - 1;
    neighbour = fixture_take(fixture, THIRD);
    ck_assert_uint_eq(neighbour, last + 1);
    fixture_give(fixture, neighbour);
    fixture_trim(fixture, 0);
    pthread_create(&thread, NULL, come_and_go, NULL);
    while (!atomic_load(&is_quiet)) {
        enum cushim_mem_verdict verdict = cushim_mem_blocks_glance(&fixture->blocks, last, 1);
        atomic_fetch_add(&n_wrong, verdict != CUSHIM_MEM_INSIDE);
    }
    pthread_join(thread, NULL);
    ck_assert_uint_eq(n_wrong, 0);
    fixture_check(fixture);
}

/* If several threads free one block, one of them succeeds. */
static uint64_t contested;
static atomic_uint n_freed, n_refused;
static pthread_barrier_t start;

static void *free_contested(void *unused) {
    CUresult answer;
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < 200; i++) {
        pthread_barrier_wait(&start);
        enum cushim_status status = fixture_release(fixture, contested, &answer);
        atomic_fetch_add(status == CUSHIM_OK ? &n_freed : &n_refused, 1);
        atomic_fetch_add(&n_wrong, status != CUSHIM_OK && status != CUSHIM_DOUBLEFREE);
        pthread_barrier_wait(&start);
    }
    return unused;
}

TEST(a_block_that_several_threads_free_is_freed_once) {
    pthread_t threads[THREADS];
    fixture = fixture_create(NULL);
    uint64_t kept = fixture_take(fixture, 1000);
    pthread_barrier_init(&start, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, free_contested, NULL);
    for (unsigned i = 0; i < 200; i++) {
        contested = fixture_take(fixture, 1000);
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&start);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_eq(n_freed, 200);
    ck_assert_uint_eq(n_refused, 200 * (THREADS - 1));
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 1000);
    ck_assert_int_eq(fixture_state(fixture, kept), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

static atomic_uint n_pairs;
static atomic_bool is_open;

/* Nothing orders this thread after the opening of the other heap, so TSan checks all its reads. */
static void *use_until_open(void *unused) {
    bool was_open;
    CUresult answer;
    fake_set_current(fake_context(0));
    do {
        was_open = atomic_load_explicit(&is_open, memory_order_relaxed);
        enum cushim_status status;
        uint64_t address = fixture_obtain(fixture, 1000, &status);
        atomic_fetch_add(&n_wrong, status != CUSHIM_OK ||
                                       fixture_release(fixture, address, &answer) != CUSHIM_OK);
        atomic_fetch_add_explicit(&n_pairs, 1, memory_order_relaxed);
    } while (!was_open);
    return unused;
}

TEST(a_heap_opens_on_a_fence_that_is_in_use) {
    pthread_t thread;
    fixture = fixture_create(NULL);
    pthread_create(&thread, NULL, use_until_open, NULL);
    while (!atomic_load_explicit(&n_pairs, memory_order_relaxed))
        sched_yield();
    fixture_open_beside(fixture);
    atomic_store_explicit(&is_open, true, memory_order_relaxed);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(n_wrong, 0);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("pool_threads");
}
