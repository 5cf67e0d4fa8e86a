/*
 * What the suites of this folder share: checked driver calls, a kernel, threads, held streams.
 *
 * Each suite runs under the preload and, where meson says so, natively too: what it asserts is then
 * what the driver itself does.  What only the pool does stands behind kit_is_preloaded().  Verdicts
 * come from answers and from the software device's log of calls, never from a clock.
 */
#ifndef CUSHIM_BEHAVIOUR_KIT_H
#define CUSHIM_BEHAVIOUR_KIT_H

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/sim/sim.h"

#define ANSWERS(call, code) ck_assert_int_eq((call), (code))
#define OK(call)            ANSWERS(call, CUDA_SUCCESS)

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* Is the preload at work?  false where it is absent or switched off. */
bool kit_is_preloaded(void);

/* cuInit, and the primary context of a device made current. */
CUcontext kit_use_device(int device);

CUdeviceptr kit_alloc(size_t n_bytes);

/* A stream that does not wait for the legacy one. */
CUstream kit_stream(void);

/* All bytes of a range of device memory. */
void kit_fill(CUdeviceptr address, unsigned char value, size_t n_bytes);
bool kit_is_filled(CUdeviceptr address, unsigned char value, size_t n_bytes);

/* A batch of two copies: one inside `good`, then n_bytes from there to `address`. */
CUresult kit_copy_batch(CUdeviceptr good, CUdeviceptr address, size_t n_bytes);

/* A kernel: *address = value. */
void kit_launch_write(CUdeviceptr address, unsigned value, CUstream stream);
unsigned kit_read(CUdeviceptr address);

/* A kernel that damages its context. */
void kit_launch_fault(CUresult fault, CUstream stream);

/* A thread in the context of its maker. */
struct kit_thread {
    pthread_t thread;
    CUcontext context;
    void (*work)(struct kit_thread *);
    CUdeviceptr address; /* for `work`, as it likes */
    CUdeviceptr other;
    CUstream stream;
    CUresult answer;
    atomic_int is_done;
};

void kit_start(struct kit_thread *thread, void (*work)(struct kit_thread *));
void kit_join(struct kit_thread *thread);

/* kit_start work: answer = cuMemFree(address). */
void kit_free_it(struct kit_thread *thread);

/*
 * Wait until the thread sleeps in the driver (`call` was called more than n times), or is done;
 * true: it sleeps.  What the pool waits in, and what the driver's own free is.
 */
bool kit_is_asleep(struct kit_thread *thread, const char *call, unsigned long n);
const char *kit_wait_of_free(void);

/* A graph of one kernel that writes; and the same, launched on a stream. */
CUgraphExec kit_graph(CUdeviceptr address, unsigned value);

/*
 * Run the tests of a list that ends with NULL: check's exit code.  Each runs in a forked child, a
 * fresh process to CUDA; a hang is a failure.
 */
int kit_run(const char *name, const TTest *const *tests);

/* The same, `of_each` for _i = 0 .. n - 1 first. */
int kit_run_loop(const char *name, const TTest *const *of_each, int n, const TTest *const *tests);

#endif
