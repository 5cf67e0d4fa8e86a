#include "preload/resolve/fork.h"

#include <pthread.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "preload/resolve/export.h"

/* Readers hold forks off; the thread that forks is the writer.  Readers come first, so one may
 * enter again. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

/* How often this thread holds forks off.  It can still fork, in a signal handler. */
static _Thread_local unsigned n_held __attribute__((tls_model("initial-exec")));

static void before(void) {
    if (!n_held)
        pthread_rwlock_wrlock(&lock);
}

static void in_parent(void) {
    if (!n_held)
        pthread_rwlock_unlock(&lock);
}

/* The lock knows its writer by a number that the child's thread does not have, and other threads
 * that read are not there. */
static void in_child(void) {
#ifdef __SANITIZE_THREAD__ /* which does not see that the child's lock is a new one */
    if (!n_held) {
        __tsan_mutex_pre_unlock(&lock, 0);
        __tsan_mutex_post_unlock(&lock, 0);
    }
#endif
    pthread_rwlock_init(&lock, NULL);
    for (unsigned i = 0; i < n_held; i++)
        pthread_rwlock_rdlock(&lock);
}

/* What pthread_atfork calls, which is in each object and asks for it strongly: other C libraries
 * lack it, and load this one all the same. */
extern int __register_atfork(cushim_fork_fn *first, cushim_fork_fn *of_parent,
                             cushim_fork_fn *of_child, void *object) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

void cushim_fork_watch(cushim_fork_fn *first, cushim_fork_fn *of_parent, cushim_fork_fn *of_child) {
    if (__register_atfork)
        __register_atfork(first, of_parent, of_child, __dso_handle);
}

static void watch(void) {
    cushim_fork_watch(before, in_parent, in_child);
}

CUSHIM_EARLY bool cushim_fork_hold_off(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    if (pthread_rwlock_rdlock(&lock) != 0) /* the writer gets no read lock, in another library's
                                            * handler */
        return false;
    n_held++;
    return true;
}

CUSHIM_EARLY void cushim_fork_let_go(bool is_held_off) {
    if (!is_held_off)
        return;
    n_held--;
    pthread_rwlock_unlock(&lock);
}
