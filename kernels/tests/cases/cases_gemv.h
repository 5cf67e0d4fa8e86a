/* What the files with cases of the family gemv share. */
#ifndef CUSHIM_KERNELS_TESTS_CASES_GEMV_H
#define CUSHIM_KERNELS_TESTS_CASES_GEMV_H

#include "kernels/tests/frame/case.h"

kernel_make make_late_infinity; /* only the last element */

void add_column(struct kernel_table *table);  /* gemv_q4k_f32 */
void add_dense(struct kernel_table *table);   /* gemv_f32, gemm_batched_small_f32 */
void add_ends(struct kernel_table *table);    /* gemv_add, gemv_swiglu, gemv_qkv_q4k_f32 */
void add_decoder(struct kernel_table *table); /* decoder_f32 */

/*
 * What rounding to the least float takes from blocks of 32, whose sums over x are floats before
 * their scales are applied, and from the result's sums.
 */
static inline double lost_in_blocks(int64_t k, double largest_weight) {
    return (double)(k / 32) * (1 + largest_weight) * 0x1p-149;
}

/* makers_columns.c */
kernel_make make_seldom_finite, make_wide_spread, make_wide_blocks, make_tiny, make_below_normal,
    make_huge, make_one_large;

#endif
