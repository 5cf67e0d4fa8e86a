/* Reductions; each has files of its own. */
#include "kernels/reduce/reduce_rows.cuh"
#include "kernels/reduce/reduce_columns.cuh"
#include "kernels/reduce/reduce_argmax.cuh"
