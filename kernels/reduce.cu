/* Reductions; each has files of its own. */
#include "kernels/reduce_rows.cuh"
#include "kernels/reduce_columns.cuh"
#include "kernels/reduce_argmax.cuh"
