/* Reductions; each has its own files. */
#include "kernels/reduce/reduce_rows.cuh"
#include "kernels/reduce/reduce_columns.cuh"
#include "kernels/reduce/reduce_argmax.cuh"
#include "kernels/reduce/reduce_bf16.cuh"
#include "kernels/reduce/reduce_scan.cuh"
