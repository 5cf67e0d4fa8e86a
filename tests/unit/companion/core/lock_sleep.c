/* Who finds the lock taken sleeps, and whoever leaves wakes; the owner, who wakes nobody, is looked
 * for. */
#include "companion/core/lock.h"

#include <pthread.h>
#include <sched.h>

#include "base/futex.h"
#include "companion/core/handle_pin.h"
#include "companion/core/handle.h"
#include "tests/unit/futex_calls.h"
#include "tests/unit/suite.h"

static struct cushim_lock bias;
static atomic_bool is_trying;

static void *enter_once(void *unused) {
    (void)unused;
    atomic_store(&is_trying, true);
    cushim_lock_lock(&bias);
    cushim_lock_unlock(&bias);
    return NULL;
}

START_TEST(who_leaves_wakes_who_sleeps) {
    pthread_t other;
    atomic_store(&futex_has_timeouts, false);
    cushim_lock_lock(&bias); /* without a record: by the exchange */
    pthread_create(&other, NULL, enter_once, NULL);
    while (atomic_load(&bias.is_taken) != 2)
        sched_yield();
    cushim_lock_unlock(&bias);
    pthread_join(other, NULL);
    ck_assert_uint_ge(atomic_load(&futex_n_wakes), 1);
    ck_assert_uint_eq(atomic_load(&bias.is_taken), 0);
}
END_TEST

START_TEST(nobody_is_woken_where_nobody_sleeps) {
    cushim_lock_lock(&bias);
    cushim_lock_unlock(&bias);
    ck_assert_uint_eq(atomic_load(&futex_n_wakes), 0);
}
END_TEST

static void finish(struct cushim_object *object) {
    free(object);
}

START_TEST(an_owner_that_leaves_without_a_word_is_found_out) {
    struct cushim_object *object = malloc(sizeof *object);
    pthread_t other;
    void *ticket;
    cushim_object_init(object, CUSHIM_KIND_EVENT, NULL, finish);
    ck_assert_int_eq(cushim_handle_open(object, &ticket), CUSHIM_OK);
    ck_assert_ptr_nonnull(cushim_thread_get());
    for (int i = 0; i < 2 * CUSHIM_LOCK_LEAST; i++) {
        cushim_lock_lock(&bias);
        cushim_lock_unlock(&bias);
    }
    cushim_lock_lock(&bias);
    pthread_create(&other, NULL, enter_once, NULL);
    while (!atomic_load(&is_trying))
        sched_yield();
    cushim_futex_nap(20000000); /* it sleeps by now, or will not have to */
    cushim_lock_unlock(&bias);
    pthread_join(other, NULL);
    ck_assert_ptr_null(atomic_load(&bias.owner));
}
END_TEST

int main(void) {
    return suite_run("bias_sleep",
                     (const TTest *[]){who_leaves_wakes_who_sleeps,
                                       nobody_is_woken_where_nobody_sleeps,
                                       an_owner_that_leaves_without_a_word_is_found_out, NULL});
}
