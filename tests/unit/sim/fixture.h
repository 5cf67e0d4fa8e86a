/*
 * For the tests of the software driver: a context, a few kernels, and waits with a time limit. Each
 * test runs in its own process, so each has its own driver.
 */
#pragma once

#include <check.h>
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/sim/sim.h"

#define ck_cuda(expr)            ck_assert_int_eq((expr), CUDA_SUCCESS)
#define ck_cuda_is(expr, result) ck_assert_int_eq((expr), (result))

enum { MIB = 1 << 20 };

/* Initialises the driver and makes the primary context of device 0 current. */
CUcontext fixture_context(void);

CUstream fixture_stream(unsigned flags);
CUdeviceptr fixture_alloc(size_t n_bytes);

/* Kernels of the test program, by name: see fixture.c. */
CUfunction fixture_kernel(const char *name);

/* Write `value` to *target on a stream with the kernel `store`. */
void fixture_store(CUstream stream, int *target, int value);

/* A kernel that spins until *flag is not 0. */
void fixture_spin(CUstream stream, atomic_int *flag);

/* Run `call` in a new thread; fixture_join returns its result. */
struct fixture_thread;
struct fixture_thread *fixture_run(CUresult (*call)(void *), void *argument);
CUresult fixture_join(struct fixture_thread *thread);

/* Whether the thread is still in its call after a time that is long for a call that does not
 * wait. */
bool fixture_is_waiting(struct fixture_thread *thread);
