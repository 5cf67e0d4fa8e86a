/* Threads on the book of an arena: each place is handed out once per epoch, whatever resets do. */
#include <pthread.h>

#include "tests/unit/suite.h"
#include "companion/arena/arena_region.h"

static struct cushim_arena_book book;

enum { N_THREADS = 4, N_TAKES = 20000, THREAD_GRAINS = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t owners[THREAD_GRAINS]; /* the epoch in which a place was last taken */
static atomic_uint n_twice;

static void *taker(void *unused) {
    uint64_t at;
    for (unsigned i = 0; i < N_TAKES; i++) {
        uint64_t epoch = cushim_arena_book_epoch(&book);
        if (cushim_arena_book_bump(&book, epoch, 1, &at)) {
            if (atomic_exchange(&owners[at], epoch) == epoch)
                atomic_fetch_add(&n_twice, 1);
            continue;
        }
        pthread_mutex_lock(&lock);
        if (cushim_arena_book_used(&book) == THREAD_GRAINS) {
            cushim_arena_book_close(&book);
            cushim_arena_book_next(&book);
        } else if (cushim_arena_book_take(&book, 1, 0, &at) == CUSHIM_ARENA_FIT_TAKEN &&
                   atomic_exchange(&owners[at], cushim_arena_book_epoch(&book)) ==
                       cushim_arena_book_epoch(&book))
            atomic_fetch_add(&n_twice, 1);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

TEST(no_place_is_taken_twice_in_an_epoch) {
    pthread_t threads[N_THREADS];
    ck_assert(cushim_arena_book_init(&book, THREAD_GRAINS, 1, false));
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, taker, NULL);
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_twice, 0);
    ck_assert_uint_gt(book.n_resets, 0);
    cushim_arena_book_finish(&book);
}

SUITE() {
    return tests_run("arena region threads");
}
