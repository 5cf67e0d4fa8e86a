/*
 * What the suites of epochs share: fences on the fake driver, and the words of their sentences.
 */
#ifndef CUSHIM_TESTS_UNIT_FENCE_FIXTURE_H
#define CUSHIM_TESTS_UNIT_FENCE_FIXTURE_H

#include "memory/fence/fence.h"

struct fence_fixture {
    struct cushim_cuda *cuda;       /* the fake as a table: apart, so that few compile one */
    struct cushim_mem_fence *fence; /* of the first context; the words below are about it */
    struct cushim_mem_fence the_fence;
    struct cushim_mem_stats stats;
    enum cushim_mem_pass pass; /* what the gate says */
    int n_inside;              /* entered and not left */
    CUresult answer;           /* of the last call */
    const char *moment;        /* still to come */
    void (*deed)(void);
};

extern struct fence_fixture fixture;

/* A fresh driver and the fence of its first context; `without` as in fake_load. */
void fence_fixture_setup(const char *without);

/* What holds at the end of each test. */
void fence_fixture_finish(void);

/* A free: the work before it, then the tag. */
uint64_t fence_fixture_free(unsigned stream);

enum cushim_status fence_fixture_start(void);

/* By a poll. */
bool fence_fixture_is_done(uint64_t epoch);

enum cushim_status fence_fixture_await(uint64_t epoch, uint64_t deadline_ns);

/* Do something inside the next call of a driver function. */
void fence_fixture_when(const char *name, void (*deed)(void));

#endif
