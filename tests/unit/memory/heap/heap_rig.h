/*
 * A pool on the fake driver, and what must hold of it at every moment.
 *
 * One rig is one ledger with up to RIG_POOLS pools, pool k on context k, sharing policy, gate and
 * statistics.  rig_check walks all segments, extents, lists and bitmaps and compares every sum with
 * what the pools and the statistics say.
 */
#ifndef CUSHIM_TESTS_UNIT_MEMORY_RIG_H
#define CUSHIM_TESTS_UNIT_MEMORY_RIG_H

#include "cuda/table.h"
#include "memory/heap/heap.h"
#include "tests/unit/fake/fake_cuda.h"

enum { RIG_POOLS = 2 };

struct rig {
    struct cushim_cuda cuda;
    struct cushim_mem_blocks ledger;
    struct cushim_mem_capture_guard gate;
    struct cushim_mem_policy policy;
    struct cushim_mem_stats stats, sum;
    struct cushim_mem_heap pools[RIG_POOLS];
};

/* What the gate answers, and how often PASS_RECORD was given out and handed back. */
extern atomic_int rig_pass;
extern atomic_uint rig_n_enters, rig_n_leaves;

/* Set by tests that keep blocks in holds, which no pool knows. */
extern bool rig_holds;

/* A fresh fake and a rig with pool 0 open and context 0 current; `without` as in fake_load. */
struct rig *rig_create(const char *without);
void rig_destroy(struct rig *rig);

void rig_open(struct rig *rig, unsigned k);

/* All counters, those of the caches included; valid until the next call. */
const struct cushim_mem_stats *rig_stats(struct rig *rig);

/* 0 and *status where the request was not served. */
uint64_t rig_obtain(struct rig *rig, size_t n_bytes, enum cushim_status *status);

/* Obtain from pool 0; fails the test where that fails. */
uint64_t rig_take(struct rig *rig, size_t n_bytes);

/* What a hook makes of a free: CUSHIM_UNKNOWNPTR for a foreign address, CUSHIM_DOUBLEFREE for a
 * block that is not LIVE, CUSHIM_INVALID for an interior address; else the pool's answer. */
enum cushim_status rig_release(struct rig *rig, uint64_t address, CUresult *answer);
enum cushim_status rig_release_on(struct rig *rig, uint64_t address, CUstream stream,
                                  CUresult *answer);

/* Release; fails the test where that fails. */
void rig_give(struct rig *rig, uint64_t address);

/* All that pool 0 holds and nobody uses goes back to the driver: caches first, then all but
 * keep_bytes. */
size_t rig_trim(struct rig *rig, size_t keep_bytes);

/* What pool 0 has handed out or keeps pending: its live_bytes without the caches'. */
size_t rig_used_bytes(struct rig *rig);

enum cushim_mem_state rig_state(struct rig *rig, uint64_t address);
enum cushim_mem_verdict rig_judge(struct rig *rig, uint64_t address, size_t n_bytes);

/* All invariants of all open pools; NULL, or what is wrong in words (static). */
const char *rig_fault(struct rig *rig);
void rig_check(struct rig *rig);

#endif
