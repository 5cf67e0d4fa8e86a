/* A lock that leans: between threads that take turns, and those that come as they please. */
#include "companion/core/lock.h"

#include <pthread.h>
#include <time.h>

#include "companion/core/handle_pin.h"
#include "companion/core/handle.h"
#include "tests/unit/suite.h"

enum { OTHERS = 3, VISITS = 2000, STAY = 20, SOME = 3 * CUSHIM_LOCK_LEAST };

static struct cushim_lock bias;
static unsigned long n_entries; /* under the lock, and neither atomic nor locked otherwise */
static atomic_uint n_at_work;

static void finish(struct cushim_object *object) {
    free(object);
}

/* The library asks for membarrier(2) when its first ticket is opened. */
static void begin(void) {
    struct cushim_object *object = malloc(sizeof *object);
    void *ticket;
    cushim_object_init(object, CUSHIM_KIND_EVENT, NULL, finish);
    ck_assert_int_eq(cushim_handle_open(object, &ticket), CUSHIM_OK);
    ck_assert_ptr_nonnull(cushim_thread_get());
    bias = (struct cushim_lock){0};
    n_entries = 0;
}

static void enter(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        cushim_lock_lock(&bias);
        n_entries++;
        cushim_lock_unlock(&bias);
    }
}

static bool is_ours(void) {
    return atomic_load(&bias.owner) == cushim_thread_get();
}

START_TEST(who_comes_again_and_again_owns_it) {
    begin();
    enter(CUSHIM_LOCK_LEAST);
    ck_assert(!is_ours());
    enter(1);
    ck_assert(is_ours() == atomic_load(&cushim_pin_is_fenced));
    enter(SOME);
    ck_assert(!atomic_load(&bias.is_taken));
    ck_assert_ptr_null(atomic_load(&cushim_thread_get()->inside));
}
END_TEST

static void *enter_some(void *unused) {
    (void)unused;
    cushim_thread_get();
    enter(SOME);
    return NULL;
}

START_TEST(another_thread_ends_that_and_may_own_it_later) {
    pthread_t other;
    begin();
    enter(SOME);
    pthread_create(&other, NULL, enter_some, NULL);
    pthread_join(other, NULL);
    ck_assert(!is_ours());
    enter(1);
    ck_assert_uint_eq(n_entries, 2 * SOME + 1);
    ck_assert_uint_eq(bias.log2_ended, atomic_load(&cushim_pin_is_fenced) ? 2 : 0);
}
END_TEST

/* ---- the quick way ---- */

static atomic_bool has_entered;

static void *enter_once(void *unused) {
    (void)unused;
    cushim_thread_get();
    enter(1);
    atomic_store(&has_entered, true);
    return NULL;
}

START_TEST(the_owner_is_inside_as_long_as_it_has_the_pin) {
    const struct timespec moment = {.tv_nsec = 30000000};
    struct cushim_object *object = malloc(sizeof *object);
    struct cushim_thread *thread;
    pthread_t other;
    void *ticket;
    begin();
    thread = cushim_thread_get();
    cushim_object_init(object, CUSHIM_KIND_POOL, NULL, finish);
    ck_assert_int_eq(cushim_handle_open(object, &ticket), CUSHIM_OK);
    struct cushim_slot *slot = cushim_slot_of((uintptr_t)ticket);
    cushim_lock_set_quick(&bias, slot);
    enter(SOME);
    if (!atomic_load(&cushim_pin_is_fenced)) {
        ck_assert(!cushim_lock_is_owned(&bias, thread));
        return;
    }
    ck_assert(cushim_pin_quickly(thread, CUSHIM_CELL_QUICK, slot, ticket));
    ck_assert(cushim_lock_is_owned(&bias, thread));
    ck_assert(!cushim_pin_quickly(thread, CUSHIM_CELL_QUICK, slot,
                                  ticket)); /* as of a signal's handler */
    pthread_create(&other, NULL, enter_once, NULL);
    nanosleep(&moment, NULL);
    ck_assert(!atomic_load(&has_entered));
    ck_assert_int_eq(cushim_unpin_quickly(thread, CUSHIM_CELL_QUICK, slot), CUSHIM_OK);
    pthread_join(other, NULL);
    ck_assert(cushim_pin_quickly(thread, CUSHIM_CELL_QUICK, slot, ticket));
    ck_assert(!cushim_lock_is_owned(&bias, thread));
    cushim_unpin_undone(thread, CUSHIM_CELL_QUICK);
    ck_assert_uint_eq(n_entries, SOME + 1);
}
END_TEST

/* A slot may be another ticket's by the time that somebody wants the lock of one that is gone. */
START_TEST(a_pin_over_a_launch_is_not_waited_for) {
    struct cushim_object *object = malloc(sizeof *object);
    struct cushim_slot *slot;
    pthread_t other;
    void *ticket;
    begin();
    cushim_object_init(object, CUSHIM_KIND_PREPARED, NULL, finish);
    ck_assert_int_eq(cushim_handle_open(object, &ticket), CUSHIM_OK);
    cushim_lock_set_quick(&bias, cushim_slot_of((uintptr_t)ticket));
    enter(SOME);
    ck_assert_ptr_eq(cushim_pin_at_once(cushim_thread_get(), CUSHIM_CELL_LAUNCH,
                                        CUSHIM_KIND_PREPARED, ticket, &slot),
                     object);
    pthread_create(&other, NULL, enter_once, NULL);
    pthread_join(other, NULL); /* does not end where it is */
    ck_assert(atomic_load(&has_entered));
    cushim_unpin_at_once(cushim_thread_get(), CUSHIM_CELL_LAUNCH, slot);
}
END_TEST

/* Stay a moment, so that whoever does not wait is met. */
static void enter_and_stay(void) {
    cushim_lock_lock(&bias);
    unsigned long n = n_entries;
    for (volatile int i = 0; i < STAY; i++) {
    }
    n_entries = n + 1;
    bias.log2_ended = 0; /* the next ownership comes as soon as the first */
    cushim_lock_unlock(&bias);
}

/* Now and then: an owner has come back meanwhile. */
static void *visit(void *argument) {
    const struct timespec pause = {.tv_nsec = 20000};
    if (argument)
        cushim_thread_get(); /* else without a record */
    for (unsigned i = 0; i < VISITS; i++) {
        enter_and_stay();
        nanosleep(&pause, NULL);
    }
    atomic_fetch_sub(&n_at_work, 1);
    return NULL;
}

START_TEST(no_two_threads_are_inside_at_once) {
    pthread_t others[OTHERS];
    unsigned long n_own = 0;
    begin();
    atomic_store(&n_at_work, OTHERS);
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_create(&others[i], NULL, visit, i ? &others[0] : NULL);
    for (; atomic_load(&n_at_work); n_own++)
        enter_and_stay();
    for (unsigned i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    ck_assert_uint_eq(n_entries, n_own + OTHERS * VISITS);
}
END_TEST

START_TEST(a_lock_inside_another_excludes_too) {
    static struct cushim_lock second;
    begin();
    enter(SOME);
    cushim_lock_lock(&second);
    cushim_lock_lock(&bias);
    ck_assert(atomic_load(&bias.is_taken) || is_ours());
    cushim_lock_unlock(&bias);
    cushim_lock_unlock(&second);
    ck_assert(!atomic_load(&bias.is_taken) && !atomic_load(&second.is_taken));
    ck_assert_ptr_null(atomic_load(&cushim_thread_get()->inside));
}
END_TEST

SUITE() {
    return suite_run("bias", (const TTest *[]){who_comes_again_and_again_owns_it,
                                               another_thread_ends_that_and_may_own_it_later,
                                               the_owner_is_inside_as_long_as_it_has_the_pin,
                                               a_pin_over_a_launch_is_not_waited_for,
                                               no_two_threads_are_inside_at_once,
                                               a_lock_inside_another_excludes_too, NULL});
}
