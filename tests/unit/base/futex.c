/* Which events end a sleep on a word, and which do not. */
#include "base/futex.h"

#include <pthread.h>
#include <signal.h>

#include "tests/unit/suite.h"

enum { WHILE_NS = 20000000, N_SIGNALS = 5 };

static atomic_uint word;
static atomic_int is_through;
static const uint64_t long_ns = 60000000000;

TEST(a_sleep_on_a_changed_word_returns_at_once) {
    atomic_store(&word, 1);
    errno = EDOM;
    cushim_futex_wait(&word, 0, long_ns); /* hangs if it sleeps */
    ck_assert_int_eq(errno, EDOM);
}

TEST(a_sleep_without_a_wake_times_out) {
    uint64_t since_ns = cushim_clock_ns();
    errno = EDOM;
    cushim_futex_wait(&word, 0, WHILE_NS);
    ck_assert_uint_ge(cushim_clock_ns() - since_ns, WHILE_NS);
    ck_assert_int_eq(errno, EDOM);
}

static void *wait_for_one(void *unused) {
    (void)unused;
    while (!atomic_load(&word))
        cushim_futex_wait(&word, 0, long_ns);
    atomic_store(&is_through, 1);
    return NULL;
}

TEST(a_wake_reaches_all_sleepers_and_keeps_errno) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, wait_for_one, NULL);
    cushim_futex_nap(WHILE_NS); /* so that most threads sleep; the test also holds for the others */
    errno = EDOM;
    atomic_store(&word, 1);
    cushim_futex_wake(&word);
    ck_assert_int_eq(errno, EDOM);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void do_nothing(int number) {
    (void)number;
}

static void *sleep_once(void *unused) {
    (void)unused;
    cushim_futex_wait(&word, 0, long_ns);
    atomic_store(&is_through, 1);
    return NULL;
}

TEST(a_signal_does_not_end_a_sleep) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = do_nothing}; /* without SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, sleep_once, NULL);
    for (int i = 0; i < N_SIGNALS; i++) {
        cushim_futex_nap(WHILE_NS);
        pthread_kill(thread, SIGUSR1);
    }
    cushim_futex_nap(WHILE_NS);
    ck_assert(!atomic_load(&is_through));
    atomic_store(&word, 1);
    cushim_futex_wake(&word);
    pthread_join(thread, NULL);
}

static void *sleep_with_a_cancel_pending(void *unused) {
    (void)unused;
    pthread_cancel(pthread_self());
    cushim_futex_wait(&word, 0, 1000);
    cushim_futex_nap(1000);
    atomic_store(&is_through, 1);
#ifdef __SANITIZE_ADDRESS__ /* which takes a stack that is unwound for one in use */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return PTHREAD_CANCELED;
#else
    pthread_testcancel();
    return NULL;
#endif
}

TEST(a_sleep_is_not_a_cancellation_point) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, sleep_with_a_cancel_pending, NULL);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert(atomic_load(&is_through));
}

TEST(a_back_off_spins_a_hundred_times_then_sleeps_longer_each_time) {
    unsigned n_looks = 0;
    for (int i = 0; i < CUSHIM_FUTEX_LOOKS; i++)
        cushim_futex_back_off(&n_looks);
    ck_assert_uint_eq(n_looks, CUSHIM_FUTEX_LOOKS);
    for (uint64_t nap_ns = CUSHIM_FUTEX_FIRST_NAP_NS; nap_ns < CUSHIM_FUTEX_SHORT_NS; nap_ns *= 2) {
        uint64_t since_ns = cushim_clock_ns();
        cushim_futex_back_off(&n_looks);
        ck_assert_uint_ge(cushim_clock_ns() - since_ns, nap_ns);
    }
    unsigned n_most = n_looks;
    uint64_t since_ns = cushim_clock_ns();
    for (int i = 0; i < 40; i++)
        cushim_futex_back_off(&n_looks);
    ck_assert_uint_eq(n_looks, n_most); /* the shift stays within the word */
    ck_assert_uint_ge(cushim_clock_ns() - since_ns, 40ull * CUSHIM_FUTEX_SHORT_NS);
}

SUITE() {
    return tests_run("futex");
}
