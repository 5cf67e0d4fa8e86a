/*
 * Fences on the fake driver, and helpers that the suites of epochs share.
 */
#pragma once

#include "memory/fence/fence.h"

struct fence_fixture {
    struct cushim_cuda *cuda; /* the fake's table, allocated apart because it is large */
    /* the fence of the first context, which the functions below use */
    struct cushim_mem_fence *fence;
    struct cushim_mem_fence the_fence;
    struct cushim_mem_stats stats;
    enum cushim_mem_pass pass; /* what the capture guard answers */
    int n_inside;              /* how often the guard was entered and not left */
    CUresult answer;           /* result of the last call */
    const char *moment;        /* the call that `deed` waits for */
    void (*deed)(void);
};

extern struct fence_fixture fixture;

/* A fresh driver and the fence of its first context; `without` as in fake_load. */
void fence_fixture_setup(const char *without);

/* Check what must hold at the end of each test. */
void fence_fixture_finish(void);

/* A free: it submits work, then returns the epoch. */
uint64_t fence_fixture_free(unsigned stream);

enum cushim_status fence_fixture_start(void);

/* Whether the epoch is done, by a poll. */
bool fence_fixture_is_done(uint64_t epoch);

enum cushim_status fence_fixture_await(uint64_t epoch, uint64_t deadline_ns);

/* Run `deed` inside the next call of this driver function. */
void fence_fixture_when(const char *name, void (*deed)(void));
