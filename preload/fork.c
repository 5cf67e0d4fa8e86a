#include "preload/fork.h"

#include <pthread.h>

#include "preload/export.h"

/* Readers hold forks off; who forks is the writer.  Readers come first, so one may enter again. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void before(void) {
    pthread_rwlock_wrlock(&lock);
}

static void in_parent(void) {
    pthread_rwlock_unlock(&lock);
}

/* The lock knows its writer by a number that the child's thread does not have. */
static void in_child(void) {
    pthread_rwlock_init(&lock, NULL);
}

static void watch(void) {
    pthread_atfork(before, in_parent, in_child);
}

CUSHIM_EARLY bool cushim_fork_hold_off(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    return pthread_rwlock_rdlock(&lock) == 0; /* refused to the writer, in a handler of others */
}

CUSHIM_EARLY void cushim_fork_let_go(bool is_held_off) {
    if (is_held_off)
        pthread_rwlock_unlock(&lock);
}
