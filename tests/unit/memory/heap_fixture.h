/*
 * A heap on the fake driver, and its invariants.
 *
 * One fixture is one table of blocks with up to FIXTURE_HEAPS heaps, heap k on context k, sharing
 * policy, capture guard and statistics.  fixture_check walks all segments, extents, lists and
 * bitmaps and compares every sum with what the heaps and the statistics say.
 */
#pragma once

#include "memory/state/heap_state.h"
#include "tests/unit/fake/fake_cuda.h"

enum { FIXTURE_HEAPS = 2 };

struct fixture {
    struct cushim_cuda *cuda; /* the fake's table, allocated apart because it is large */
    struct cushim_mem_blocks blocks;
    struct cushim_mem_capture_guard guard;
    struct cushim_mem_policy policy;
    struct cushim_mem_stats stats, sum;
    struct cushim_mem_heap heaps[FIXTURE_HEAPS];
};

/* What the capture guard answers, and how often PASS_RECORD was given and returned. */
extern atomic_int fixture_pass;
extern atomic_uint fixture_n_enters, fixture_n_leaves;

/* Set by tests that hold blocks, because a heap does not list held blocks. */
extern bool fixture_holds;

/* A fresh fake and a fixture with heap 0 open and context 0 current; `without` as in fake_load. */
struct fixture *fixture_create(const char *without);
void fixture_destroy(struct fixture *fixture);

void fixture_open(struct fixture *fixture, unsigned k);

/* Heap 1 on context 0, with the fence of heap 0. */
void fixture_open_beside(struct fixture *fixture);

/* All counters, including those of the caches; valid until the next call. */
const struct cushim_mem_stats *fixture_stats(struct fixture *fixture);

/* Allocate from heap 0; 0 and *status if the request was refused. */
uint64_t fixture_obtain(struct fixture *fixture, size_t n_bytes, enum cushim_status *status);

/* Allocate from heap 0; a refusal fails the test. */
uint64_t fixture_take(struct fixture *fixture, size_t n_bytes);

/* Free as a hook does: CUSHIM_UNKNOWNPTR for a foreign address, CUSHIM_DOUBLEFREE for a block that
 * is not LIVE, CUSHIM_INVALID for an interior address; otherwise the heap's answer. */
enum cushim_status fixture_release(struct fixture *fixture, uint64_t address, CUresult *answer);
enum cushim_status fixture_release_on(struct fixture *fixture, uint64_t address, CUstream stream,
                                      CUresult *answer);

/* Free; an error fails the test. */
void fixture_give(struct fixture *fixture, uint64_t address);

/* Empty the caches, then give free memory of heap 0 back to the driver, except keep_bytes. */
size_t fixture_trim(struct fixture *fixture, size_t keep_bytes);

/* Bytes of heap 0 that are live or pending: its live_bytes without those in caches. */
size_t fixture_used_bytes(struct fixture *fixture);

enum cushim_mem_state fixture_state(struct fixture *fixture, uint64_t address);
enum cushim_mem_verdict fixture_judge(struct fixture *fixture, uint64_t address, size_t n_bytes);

/* Check the invariants of all open heaps; returns NULL, or a static text that says what is
 * wrong. */
const char *fixture_fault(struct fixture *fixture);
void fixture_check(struct fixture *fixture);
