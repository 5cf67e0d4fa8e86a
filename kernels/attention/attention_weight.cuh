/*
 * Weights of attention: powers of 2 of scores relative to the row's largest so far.
 *
 * The difference of two scores is formed before it is scaled, so a weight is never above 1, however
 * large scores are.  While a row has seen only -infinity its weights are 0; a score of +infinity,
 * like NaN, makes them NaN.
 */
#ifndef CUSHIM_KERNELS_ATTENTION_WEIGHT_CUH
#define CUSHIM_KERNELS_ATTENTION_WEIGHT_CUH

#include "kernels/attention/attention.h"
#include "kernels/device/device.cuh"

/* The base to subtract from scores. */
DEVICE float base_of(float most) {
    return most == -INFINITY ? 0.0f : most;
}

/* The weight, times 2^lift. */
DEVICE float weight_of(float score, float base, float scale, float lift) {
    return exp2f(fmaf(score - base, scale, lift));
}

/* The factor for earlier weights under a later base. */
DEVICE float factor_of(float most_before, float base, float scale) {
    return exp2f((most_before - base) * scale);
}

/* 1 over a row's sum of weights; 0 if all scores were -infinity. */
DEVICE float share_of(float sum) {
    return sum == 0 ? 0.0f : 1.0f / sum;
}

/* HOLDS: nobody writes the memory while the kernel runs, so that it may be loaded at any time. */
template <bool HOLDS, class T> DEVICE T load_one(const T *from) {
    return HOLDS ? __ldg(from) : *from;
}

/*
 * Four columns of a row, 0 from n_columns on.  HOLDS is false for decode: launched dependent, it
 * runs beside the kernel ahead of it, which may be writing them.
 */
template <bool HOLDS>
DEVICE float4 load_columns(const float *row, int column, int n_columns, bool is_wide) {
    if (is_wide)
        return column < n_columns ? load_one<HOLDS>(reinterpret_cast<const float4 *>(row + column))
                                  : make_float4(0, 0, 0, 0);
    float4 value = make_float4(0, 0, 0, 0);
    if (column < n_columns)
        value.x = load_one<HOLDS>(row + column);
    if (column + 1 < n_columns)
        value.y = load_one<HOLDS>(row + column + 1);
    if (column + 2 < n_columns)
        value.z = load_one<HOLDS>(row + column + 2);
    if (column + 3 < n_columns)
        value.w = load_one<HOLDS>(row + column + 3);
    return value;
}

#endif
