/* Copies into another order; each way to go through the output has its own file. */
#include "kernels/layout/layout_each.cuh"
#include "kernels/layout/layout_tile.cuh"
#include "kernels/layout/layout_wide.cuh"
#include "kernels/layout/layout_repeat.cuh"
#include "kernels/layout/layout_walk.cuh"
