/*
 * Elementwise kernels: one element of each output from the same elements of the inputs.
 *
 * Each has a plain kernel, for any address, and a wide one right after it in elementwise.def, for
 * addresses that are multiples of 16.
 */
#include "kernels/elementwise/elementwise_arithmetic.cuh"
#include "kernels/elementwise/elementwise_pow.cuh"
#include "kernels/elementwise/elementwise_train.cuh"
#include "kernels/elementwise/elementwise_unary.cuh"
