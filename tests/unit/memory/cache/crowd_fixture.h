/*
 * A heap that many threads use: one fixture for the file that includes this, a barrier, and a count
 * of faults, because Check's assertions may not be used from many threads.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/memory/heap_fixture.h"

static struct fixture *fixture;
static atomic_uint n_wrong;
static pthread_barrier_t meeting;

static inline void meet(void) {
    pthread_barrier_wait(&meeting);
}

static inline struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

/* Like fixture_take and fixture_give, but they count faults. */
static inline uint64_t take(size_t n_bytes) {
    enum cushim_status status;
    uint64_t address = fixture_obtain(fixture, n_bytes, &status);
    atomic_fetch_add(&n_wrong, status != CUSHIM_OK);
    return address;
}

static inline void give(uint64_t address) {
    CUresult answer;
    atomic_fetch_add(&n_wrong, fixture_release(fixture, address, &answer) != CUSHIM_OK);
}
