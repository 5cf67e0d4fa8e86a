/*
 * CUDA's device language for a C++ compiler: kernels/device/device.cuh includes this if kernels are
 * compiled to run on the CPU.
 *
 * Words of the language become nothing or their plain meaning. thread.h has variables and functions
 * that need other threads.  What a kernel may not use is not declared here: atomics on floats,
 * device-side printf, variables of a module.
 */
#ifndef CUSHIM_EMULATOR_CUDA_H
#define CUSHIM_EMULATOR_CUDA_H

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __CUDA_ARCH__ 900 /* kernels for older devices have their own names */

/* generate.py looks for this word in the preprocessed text. */
#ifdef CUSHIM_EMULATED_LIST
#define __global__ cushim_emulated_global
#else
#define __global__ __attribute__((visibility("hidden")))
#endif

#define __device__
#define __host__
#define __constant__
#define __shared__      static /* one for all blocks, because one runs at a time: block.cpp */
#define __forceinline__ inline __attribute__((always_inline))
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __maxnreg__(n)

#include "kernels/tests/emulator/vectors.h"
#include "kernels/tests/emulator/half.h"
#include "kernels/tests/emulator/thread.h"
#include "kernels/tests/emulator/arithmetic.h"
#include "kernels/tests/emulator/memory.h"
#include "kernels/tests/emulator/collective.h"

#endif
