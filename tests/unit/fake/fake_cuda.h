/*
 * A fake driver that only counts, for the tests of src/cuda and src/memory.
 *
 * Addresses are multiples of 2 MiB without memory behind them.  The address that was freed last is
 * handed out first, because that is the worst case.  Each stream counts submitted and completed
 * work.  An event remembers the work that was submitted when it was recorded, and it has passed
 * once that work is done.  A call that waits (cuEventSynchronize, cuCtxSynchronize, cuMemFree_v2)
 * makes the device finish the work it waits for.
 *
 * A call that uses the driver wrongly (an unknown address, an event of another context or one that
 * was destroyed, a pop of nothing) is a fault, which each test asserts to be zero.
 *
 * Lock: one mutex inside; every function may be called from any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/load.h"

enum { FAKE_CONTEXTS = 4, FAKE_STREAMS = 40 }; /* stream k belongs to context k % 4 */

/* Reset the driver: no memory in use, no limit, no failure due, no current context in this
 * thread. */
void fake_reset(void);

/* Fill the table through cushim_cuda_load; `without` (a name, or NULL) is left out. */
void fake_load(struct cushim_cuda *cuda, const char *without);

/* Look up a fake function; cookie: a name that is not found, or NULL. */
void *fake_find(const char *name, void *cookie);

CUcontext fake_context(unsigned k);
CUstream fake_stream(unsigned k);
void fake_set_flags(unsigned k, unsigned flags); /* the flags that cuCtxGetFlags returns */

/* The calling thread's context stack, as a program would set it. */
void fake_set_current(CUcontext context);
CUcontext fake_current(void);
unsigned fake_depth(void);
CUstreamCaptureMode fake_mode(void);

/* Submit work on a stream, and complete its oldest piece or all of it. */
void fake_submit(unsigned stream);
void fake_step(unsigned stream);
void fake_finish(unsigned stream);
uint64_t fake_n_done(unsigned stream); /* pieces of work */

/* Memory: the limit, the bytes in use, and the number of allocations. */
void fake_limit(size_t n_bytes);
size_t fake_used_bytes(void);
size_t fake_n_allocations(void);
bool fake_is_allocated(uint64_t address);
void fake_lose_all(void); /* as after the reset of a context: its memory and events are gone */
void fake_lose_events(unsigned k); /* as after the end of context k: its events are gone */
size_t fake_n_events(void);        /* created and not destroyed */

/* The n-th call from now (1 is the next) returns `result` and does nothing else.  Calls that only
 * restore something (pop, the capture mode, the destruction of an event) are not counted. */
void fake_fail_at(unsigned n, CUresult result);
bool fake_has_failed(void);

/* The name of the call that fake_fail_at failed; "" if none failed. */
const char *fake_failed_call(void);

/* Every call of `name` returns `result`, until `name` is NULL. */
void fake_fail_always(const char *name, CUresult result);

/* A capture in GLOBAL mode by another thread on a stream of context k. */
void fake_capture(unsigned k, bool is_open);
unsigned fake_n_invalidated(void); /* captures that a call invalidated */

/* The calls so far: their number, and their order as text, "cuMemAlloc_v2(2097152)
 * cuCtxRecordEvent(0)". */
unsigned fake_n_calls(const char *name);
unsigned fake_n_all_calls(void);
const char *fake_order(void);
void fake_forget_order(void);

/* Called at the start of each call, without the lock. */
void fake_on_call(void (*function)(const char *name));

unsigned fake_n_faults(void);
