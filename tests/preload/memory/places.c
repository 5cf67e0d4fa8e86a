/*
 * Calls of the runtime from many places of code (interposition.md B21): the loader is asked once
 * for each page of code which runtime they mean, and this program counts the questions, which come
 * through it.  Forks wait until nothing is asked (B20).
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/preload/fixture/fixture.h"

#define RT_OK(call) ck_assert_int_eq((call), cudaSuccess)

/* The preload's questions to the loader come here; counted. */
static atomic_ulong n_questions;
static atomic_bool is_slow, is_asking, forks; /* what happens during a question */
static pid_t child_of_question = -1;
typedef int each_fn(struct dl_phdr_info *, size_t, void *);
typedef int iterate_fn(each_fn *, void *);

__attribute__((visibility("default"))) int dl_iterate_phdr(each_fn *each, void *cookie) {
    static _Atomic(iterate_fn *) real;
    iterate_fn *iterate = atomic_load(&real);
    if (!iterate) {
        void *address = dlsym(RTLD_NEXT, "dl_iterate_phdr");
        memcpy(&iterate, &address, sizeof iterate);
        atomic_store(&real, iterate);
    }
    atomic_fetch_add(&n_questions, 1);
    if (atomic_exchange(&forks, false))
        child_of_question = fork();
    if (!atomic_load(&is_slow))
        return iterate(each, cookie);
    atomic_store(&is_asking, true);
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    int answer = iterate(each, cookie);
    atomic_store(&is_asking, false);
    return answer;
}

/* As many places of code that allocate and free, some 20 bytes of code or more each. */
static void *place_block;
#define PLACE                                                                                      \
    RT_OK(cudaMalloc(&place_block, 4096));                                                         \
    RT_OK(cudaFree(place_block));
#define PLACES_8   PLACE PLACE PLACE PLACE PLACE PLACE PLACE PLACE
#define PLACES_64  PLACES_8 PLACES_8 PLACES_8 PLACES_8 PLACES_8 PLACES_8 PLACES_8 PLACES_8
#define PLACES_512 PLACES_64 PLACES_64 PLACES_64 PLACES_64 PLACES_64 PLACES_64 PLACES_64 PLACES_64

static void call_from_everywhere(void){PLACES_512}

TEST(calls_from_hundreds_of_places_ask_the_loader_nothing_the_second_time) {
    call_from_everywhere();
    unsigned long n = atomic_load(&n_questions);
    call_from_everywhere();
    ck_assert_uint_eq(atomic_load(&n_questions), n);
    /* a library that goes may have had any of these places, and a page of code is asked for once */
    void *library = dlopen(getenv("READERS_LIBRARY"), RTLD_NOW);
    ck_assert_ptr_nonnull(library);
    dlclose(library);
    call_from_everywhere();
    n = atomic_load(&n_questions);
    call_from_everywhere();
    ck_assert_uint_eq(atomic_load(&n_questions), n);
}

/* ---- forks in between ---- */

static atomic_bool is_over;
static atomic_uint n_asking; /* at the moment of a fork */

/* Registered first, so it is called last before a fork. */
static void look(void) {
    atomic_fetch_add(&n_asking, atomic_load(&is_asking));
}

static void *open_and_close(void *unused) {
    do /* once even if all forks come first */
        dlclose(dlopen(getenv("READERS_LIBRARY"), RTLD_NOW));
    while (!atomic_load(&is_over));
    return unused;
}

/* The loader's list has a lock, which would never become free in a child. */
TEST(no_fork_falls_into_a_question_to_the_loader) {
    pthread_t thread;
    atomic_store(&is_slow, true);
    unsigned long n = atomic_load(&n_questions);
    pthread_create(&thread, NULL, open_and_close, NULL);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (!child)
            _exit(0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    if (fixture_is_preloaded())
        ck_assert_uint_gt(atomic_load(&n_questions), n);
    ck_assert_uint_eq(atomic_load(&n_asking), 0);
}

/* A signal handler may do this at any moment of its thread.  Without cushim there are no
 * questions. */
TEST_IF(fixture_is_preloaded(), who_asks_the_loader_can_fork_meanwhile) {
    int status = -1;
    atomic_store(&forks, true);
    void *library = dlopen(getenv("READERS_LIBRARY"), RTLD_NOW);
    dlclose(library);
    if (!child_of_question)
        _exit(fork() < 0); /* once more, and out */
    ck_assert_int_eq(waitpid(child_of_question, &status, 0), child_of_question);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    pthread_atfork(look, NULL, NULL);
    return fixture_run("places");
}
