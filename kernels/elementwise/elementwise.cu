/*
 * Elementwise kernels: each output element depends on the same element of each input.
 *
 * Each has a plain kernel, for any address, and right after it in elementwise.def a wide one, for
 * addresses that are multiples of 16.
 */
#include "kernels/elementwise/elementwise_arithmetic.cuh"
#include "kernels/elementwise/elementwise_pow.cuh"
#include "kernels/elementwise/elementwise_train.cuh"
#include "kernels/elementwise/elementwise_unary.cuh"
