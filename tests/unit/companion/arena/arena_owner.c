/*
 * An arena whose top one thread owns: which thread becomes the owner, what ends the ownership, and
 * that no place is handed out twice in any order of threads and resets.
 */
#include <pthread.h>
#include <time.h>

#include "base/membarrier.h"
#include "cushim/arena.h"
#include "cushim/pool.h"
#include "companion/arena/arena_internal.h"
#include "companion/core/handle_pin.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

enum { BYTES = 256, N_BLOCKS = 2000, N_TURNS = 3000, N_RARE = 37 };

struct fixture {
    struct cushim_arena *handle;
    const struct cushim_arena_object *arena;
    struct cushim_pin pin; /* set for the whole test */
};

static struct fixture begin(void) {
    struct fixture fixture;
    struct cushim_arena_options options;
    cushim_arena_options_default(&options);
    options.ctx = primary(0);
    options.managed = CUSHIM_ARENA_MANAGED_NEVER;
    options.capacity_bytes = N_BLOCKS * BYTES;
    ck_ok(cushim_context_push(options.ctx));
    ck_ok(cushim_arena_create(&options, &fixture.handle));
    fixture.arena = cushim_handle_pin(&fixture.pin, CUSHIM_KIND_ARENA, fixture.handle);
    ck_assert_ptr_nonnull(fixture.arena);
    return fixture;
}

static uint64_t take(const struct fixture *fixture, cushim_devptr *ptr) {
    uint64_t epoch;
    ck_ok(cushim_arena_alloc(fixture->handle, 0, CUSHIM_MEMORY_DEVICE, BYTES, NULL, ptr, &epoch));
    return epoch;
}

static void pass(const struct fixture *fixture, unsigned n_blocks) {
    cushim_devptr ptr;
    for (unsigned i = 0; i < n_blocks; i++)
        take(fixture, &ptr);
    ck_ok(cushim_arena_reset(fixture->handle, NULL));
}

static bool is_ours(const struct fixture *fixture) {
    return cushim_arena_owner_is(&fixture->arena->book.owner, cushim_thread_get());
}

static bool may_own(void) {
    return atomic_load(&cushim_pin_is_fenced);
}

TEST(a_thread_that_resets_it_twice_owns_it) {
    struct fixture fixture = begin();
    pass(&fixture, 3);
    ck_assert(!is_ours(&fixture));
    pass(&fixture, 3);
    ck_assert(is_ours(&fixture) == may_own());
    cushim_devptr first, next;
    take(&fixture, &first);
    take(&fixture, &next);
    ck_assert_uint_eq(next, first + BYTES);
    ck_ok(cushim_arena_free(fixture.handle, 0, next, BYTES, 0));
    ck_is(cushim_arena_free(fixture.handle, 0, next, BYTES, 0), CUSHIM_DOUBLEFREE);
}

TEST(an_owned_arena_is_full_at_the_same_point) {
    struct fixture fixture = begin();
    cushim_devptr ptr;
    for (unsigned turn = 0; turn < 4; turn++) {
        for (unsigned i = 0; i < N_BLOCKS; i++)
            take(&fixture, &ptr);
        ck_is(cushim_arena_alloc(fixture.handle, 0, CUSHIM_MEMORY_DEVICE, BYTES, NULL, &ptr, NULL),
              CUSHIM_LIMIT);
        ck_assert_uint_eq(ptr, 0);
        ck_ok(cushim_arena_reset(fixture.handle, NULL));
    }
}

static void *take_once(void *argument) {
    cushim_devptr ptr;
    ck_ok(cushim_context_push(primary(0)));
    take(argument, &ptr);
    return NULL;
}

TEST(another_thread_ends_the_ownership_and_makes_it_rarer) {
    struct fixture fixture = begin();
    pthread_t other;
    pass(&fixture, 3);
    pass(&fixture, 3);
    pthread_create(&other, NULL, take_once, &fixture);
    pthread_join(other, NULL);
    ck_assert(!is_ours(&fixture));
    pass(&fixture, 3);
    ck_assert(!is_ours(&fixture));
    pass(&fixture, 3);
    ck_assert(is_ours(&fixture) == may_own());
    pthread_create(&other, NULL, take_once, &fixture);
    pthread_join(other, NULL);
    ck_assert(!is_ours(&fixture));
    ck_assert_uint_eq(fixture.arena->book.owner.log2_ended, may_own() ? 2 : 0);
}

static atomic_bool has_taken;

static void *take_and_tell(void *argument) {
    take_once(argument);
    atomic_store(&has_taken, true);
    return NULL;
}

TEST_IF(cushim_membarrier_ask(), who_ends_it_waits_for_a_fast_path) {
    const struct timespec moment = {.tv_nsec = 30000000};
    struct fixture fixture = begin();
    struct cushim_slot *slot = cushim_slot_of((uintptr_t)fixture.handle);
    pthread_t other;
    pass(&fixture, 3);
    pass(&fixture, 3);
    ck_assert(cushim_pin_fast(cushim_thread_get(), CUSHIM_CELL_FAST, slot, fixture.handle));
    pthread_create(&other, NULL, take_and_tell, &fixture);
    nanosleep(&moment, NULL);
    ck_assert(!atomic_load(&has_taken));
    ck_assert_int_eq(cushim_unpin_fast(cushim_thread_get(), CUSHIM_CELL_FAST, slot), CUSHIM_OK);
    pthread_join(other, NULL);
    ck_assert(atomic_load(&has_taken) && !is_ours(&fixture));
}

/* ---- threads ---- */

static atomic_uint_fast64_t owners[N_BLOCKS]; /* the epoch in which a place was last taken */
static atomic_uint n_twice, n_lost;
static atomic_bool is_over;

/* A region with room refuses three times in a row: its word was lost. */
static void check_full(const struct fixture *fixture) {
    struct cushim_arena_stats stats = {.struct_size = sizeof stats};
    cushim_devptr ptr;
    unsigned n_refused = 1;
    while (n_refused < 3) {
        ck_ok(cushim_arena_stats(fixture->handle, &stats));
        if (stats.used_bytes > N_BLOCKS / 2 * BYTES ||
            !cushim_arena_alloc(fixture->handle, 0, CUSHIM_MEMORY_DEVICE, BYTES, NULL, &ptr, NULL))
            return;
        n_refused++;
    }
    atomic_fetch_add(&n_lost, 1);
}

static void take_checked(const struct fixture *fixture) {
    cushim_devptr ptr;
    uint64_t epoch;
    if (cushim_arena_alloc(fixture->handle, 0, CUSHIM_MEMORY_DEVICE, BYTES, NULL, &ptr, &epoch))
        check_full(fixture);
    else if (atomic_exchange(&owners[(ptr - fixture->arena->base) / BYTES], epoch) == epoch)
        atomic_fetch_add(&n_twice, 1);
}

/* Takes a block now and then, so that the ownership ends at every point of the owner's work. */
static void *visit(void *argument) {
    ck_ok(cushim_context_push(primary(0)));
    for (unsigned i = 0; !atomic_load(&is_over); i++) {
        take_checked(argument);
        if (i % 64 == 0) /* while the owner allocates */
            ck_ok(cushim_arena_reset(((const struct fixture *)argument)->handle, NULL));
        for (volatile unsigned k = 0; k < i * N_RARE % 20000; k++) {
        }
    }
    return NULL;
}

/* Reset the count of ended ownerships, because otherwise ownership soon becomes rare. */
static void forget_ends(struct cushim_arena_object *arena) {
    pthread_mutex_lock(&arena->lock);
    arena->book.owner.log2_ended = 0;
    pthread_mutex_unlock(&arena->lock);
}

TEST(no_place_is_taken_twice_while_ownership_changes) {
    struct fixture fixture = begin();
    pthread_t others[2];
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&others[i], NULL, visit, &fixture);
    for (unsigned turn = 0; turn < N_TURNS; turn++) {
        forget_ends((struct cushim_arena_object *)fixture.arena);
        ck_ok(cushim_arena_reset(fixture.handle, NULL));
        ck_ok(cushim_arena_reset(fixture.handle, NULL));
        for (unsigned i = 0; i < N_BLOCKS / 8; i++)
            take_checked(&fixture);
    }
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(others[i], NULL);
    ck_assert_uint_eq(n_twice, 0);
    ck_assert_uint_eq(n_lost, 0);
}

SUITE() {
    return tests_run("arena owner");
}
