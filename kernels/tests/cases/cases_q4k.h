/* Makers of q4k operands, for the families quant and gemv. */
#ifndef CUSHIM_KERNELS_TESTS_CASES_Q4K_H
#define CUSHIM_KERNELS_TESTS_CASES_Q4K_H

#include "kernels/tests/frame/case.h"
#include "kernels/tests/frame/quantise.h"

kernel_make make_q4k;              /* quantised normal values; a tenth of the blocks are zeros */
kernel_make make_q4k_bits;         /* any bytes, but d and dmin are finite */
kernel_make make_q4k_edges;        /* sc, mn, nibbles 0 or largest; d, dmin 0, subnormal, largest */
kernel_make make_q4k_without_dmin; /* dmin = 0 */

#endif
