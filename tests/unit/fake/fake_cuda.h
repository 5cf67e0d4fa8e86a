/*
 * A driver made of counters, for the tests of src/cuda and src/memory.
 *
 * Addresses are numbers on 2 MiB borders without memory behind them; the address freed last is
 * handed out first, as if the driver meant harm.  Work is a number a stream: submitted, and done.
 * An event remembers what was submitted when it was recorded and has passed once all that is done.
 * Whatever waits (cuEventSynchronize, cuCtxSynchronize, cuMemFree_v2) makes the device finish what
 * it waits for.
 *
 * A call that uses the driver wrongly (an unknown address, an event of another context or one that
 * was destroyed, a pop of nothing) is a fault, which each test asserts to be zero.
 *
 * Lock: one mutex inside; every function may be called from any thread.
 */
#ifndef CUSHIM_TESTS_UNIT_FAKE_CUDA_H
#define CUSHIM_TESTS_UNIT_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/load.h"

enum { FAKE_CONTEXTS = 4, FAKE_STREAMS = 40 }; /* stream k belongs to context k % 4 */

/* A fresh driver: no memory in use, no limit, no failure due; nothing current in this thread. */
void fake_reset(void);

/* The table, filled through cushim_cuda_load; `without` (a name, or NULL) is left out. */
void fake_load(struct cushim_cuda *cuda, const char *without);

/* The address of a fake; cookie: a name that is not found, or NULL. */
void *fake_find(const char *name, void *cookie);

CUcontext fake_context(unsigned k);
CUstream fake_stream(unsigned k);
void fake_set_flags(unsigned k, unsigned flags); /* what cuCtxGetFlags answers */

/* The calling thread's context stack, as a program would have set it. */
void fake_set_current(CUcontext context);
CUcontext fake_current(void);
unsigned fake_depth(void);
CUstreamCaptureMode fake_mode(void);

/* Work on a stream, and its end: of the oldest piece, or of all. */
void fake_submit(unsigned stream);
void fake_step(unsigned stream);
void fake_finish(unsigned stream);
uint64_t fake_n_done(unsigned stream); /* pieces */

/* Memory: how much there is, what is out, and how many allocations that is. */
void fake_limit(size_t n_bytes);
size_t fake_used_bytes(void);
size_t fake_n_allocations(void);
bool fake_is_allocated(uint64_t address);
void fake_lose_all(void);          /* a context was reset: its memory and events are gone */
void fake_lose_events(unsigned k); /* context k went, and its events with it */
size_t fake_n_events(void);        /* created and not destroyed */

/* The n-th call from now (1 is the next) answers `result` and does nothing else.  Calls that only
 * put back what was borrowed (pop, the capture mode, the end of an event) are not counted. */
void fake_fail_at(unsigned n, CUresult result);
bool fake_has_failed(void);

/* The name of the call that fake_fail_at failed; "" where none did. */
const char *fake_failed_call(void);

/* Every call of `name` answers `result`, until `name` is NULL. */
void fake_fail_always(const char *name, CUresult result);

/* A capture in GLOBAL mode, by some other thread, on a stream of context k. */
void fake_capture(unsigned k, bool is_open);
unsigned fake_n_invalidated(void); /* captures that a call broke */

/* What was called: counts, and the order as text, "cuMemAlloc_v2(2097152) cuCtxRecordEvent(0)". */
unsigned fake_n_calls(const char *name);
unsigned fake_n_all_calls(void);
const char *fake_order(void);
void fake_forget_order(void);

/* Called at the start of each call, without the lock. */
void fake_on_call(void (*function)(const char *name));

unsigned fake_n_faults(void);

#endif
