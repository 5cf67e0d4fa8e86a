/*
 * What the tests of the software driver share: a context, a few kernels, waits that do not hang for
 * ever. Each test runs in a process of its own, so each has a driver of its own.
 */
#ifndef CUSHIM_UNIT_SIM_RIG_H
#define CUSHIM_UNIT_SIM_RIG_H

#include <check.h>
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/sim/sim.h"

#define ck_cuda(expr)            ck_assert_int_eq((expr), CUDA_SUCCESS)
#define ck_cuda_is(expr, result) ck_assert_int_eq((expr), (result))

enum { MIB = 1 << 20 };

/* The driver, and the primary context of device 0, current. */
CUcontext rig_context(void);

CUstream rig_stream(unsigned flags);
CUdeviceptr rig_alloc(size_t n_bytes);

/* Kernels of the test program, by name: see rig.c. */
CUfunction rig_kernel(const char *name);

/* Write `value` to *target on a stream, by the kernel `store`. */
void rig_store(CUstream stream, int *target, int value);

/* A kernel that spins until *flag is not 0. */
void rig_spin(CUstream stream, atomic_int *flag);

/* Run `call` in a thread of its own; what it returns comes from rig_join. */
struct rig_thread;
struct rig_thread *rig_run(CUresult (*call)(void *), void *argument);
CUresult rig_join(struct rig_thread *thread);

/* Whether the thread is still in its call after a while that is long for one that does not wait. */
bool rig_is_waiting(struct rig_thread *thread);

#endif
