/*
 * What the suites of epochs share: fences on the fake driver, and the words of their sentences.
 */
#ifndef CUSHIM_TESTS_UNIT_FENCE_RIG_H
#define CUSHIM_TESTS_UNIT_FENCE_RIG_H

#include "cuda/table.h"
#include "memory/fence/fence.h"

struct fence_rig {
    struct cushim_cuda cuda;
    struct cushim_mem_fence *fence; /* of the first context; the words below are about it */
    struct cushim_mem_fence the_fence;
    struct cushim_mem_stats stats;
    enum cushim_mem_pass pass; /* what the gate says */
    int n_inside;              /* entered and not left */
    CUresult answer;           /* of the last call */
    const char *moment;        /* still to come */
    void (*deed)(void);
};

extern struct fence_rig rig;

/* A fresh driver and the fence of its first context; `without` as in fake_load. */
void fence_rig_setup(const char *without);

/* What holds at the end of each test. */
void fence_rig_finish(void);

/* A free: the work before it, then the tag. */
uint64_t fence_rig_free(unsigned stream);

enum cushim_status fence_rig_start(void);

/* By a poll. */
bool fence_rig_is_done(uint64_t epoch);

enum cushim_status fence_rig_await(uint64_t epoch, uint64_t deadline_ns);

/* Do something inside the next call of a driver function. */
void fence_rig_when(const char *name, void (*deed)(void));

#endif
