/*
 * The twins: what each kernel of cushim/kernels.h computes, in plain C on host memory.
 *
 * Each takes its kernel's parameters without scratch and stream, checks nothing, and returns when
 * it is done.  Sums, exponentials and quotients are formed in double and rounded once at the store;
 * where a kernel is specified bit by bit its twin uses the same operations.  Threads  any.
 */
#ifndef CUSHIM_KERNELS_REF_H
#define CUSHIM_KERNELS_REF_H

#include <stdbool.h>
#include <stdint.h>

#include "cushim/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise ---- */

CUSHIM_API void cushim_add_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_sub_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_mul_f32_ref(const float *a, const float *b, float *c, int64_t n);
CUSHIM_API void cushim_div_f32_ref(const float *a, const float *b, float *c, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
