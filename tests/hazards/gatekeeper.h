/*
 * Gates that open by themselves: work is held back until the test has checked, or for a while.
 *
 * A separate thread opens the gate when it is released or when `patience` is over. A thread that
 * waits for held work, as in the driver's free, sleeps at most that long.
 */
#pragma once

#include "work.h"

#include <pthread.h>

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned patience_ms;
    unsigned n_holds; /* this and the next are under the lock */
    int is_closed, is_over;
    unsigned *is_open; /* the words that gates read */
} gatekeeper = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void gatekeeper_wait(void) {
    unsigned hold = gatekeeper.n_holds;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)gatekeeper.patience_ms * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    int error = 0;
    while (gatekeeper.n_holds == hold && gatekeeper.is_closed && !gatekeeper.is_over && error == 0)
        error = pthread_cond_timedwait(&gatekeeper.changed, &gatekeeper.lock, &until);
    if (gatekeeper.n_holds != hold && !gatekeeper.is_over)
        return; /* that gate was released, and this is another one */
    gatekeeper.is_closed = 0;
    gate_set(gatekeeper.is_open, 1);
}

static void *gatekeeper_run(void *unused) {
    pthread_mutex_lock(&gatekeeper.lock);
    while (!gatekeeper.is_over) {
        if (gatekeeper.is_closed)
            gatekeeper_wait();
        else
            pthread_cond_wait(&gatekeeper.changed, &gatekeeper.lock);
    }
    pthread_mutex_unlock(&gatekeeper.lock);
    return unused;
}

static void gatekeeper_create(unsigned patience_ms) {
    gatekeeper.patience_ms = patience_ms;
    gatekeeper.is_open = gate_create();
    MUST(pthread_create(&gatekeeper.thread, NULL, gatekeeper_run, NULL) == 0);
}

static void gatekeeper_destroy(void) {
    pthread_mutex_lock(&gatekeeper.lock);
    gatekeeper.is_over = 1;
    pthread_cond_broadcast(&gatekeeper.changed);
    pthread_mutex_unlock(&gatekeeper.lock);
    MUST(pthread_join(gatekeeper.thread, NULL) == 0);
}

/* Later work on the stream is held. */
static void hold(cudaStream_t stream) {
    pthread_mutex_lock(&gatekeeper.lock);
    gate_set(gatekeeper.is_open, 0);
    gatekeeper.is_closed = 1;
    gatekeeper.n_holds++;
    pthread_cond_broadcast(&gatekeeper.changed);
    pthread_mutex_unlock(&gatekeeper.lock);
    TRY(LAUNCH(gate, 1, 1, stream, gatekeeper.is_open));
}

/* The test has checked. */
static void release_gate(void) {
    pthread_mutex_lock(&gatekeeper.lock);
    gatekeeper.is_closed = 0;
    gate_set(gatekeeper.is_open, 1);
    pthread_cond_broadcast(&gatekeeper.changed);
    pthread_mutex_unlock(&gatekeeper.lock);
}
