/* Copies into another order; each way of going through the output has a file of its own. */
#include "kernels/layout/layout_each.cuh"
#include "kernels/layout/layout_tile.cuh"
#include "kernels/layout/layout_wide.cuh"
#include "kernels/layout/layout_repeat.cuh"
#include "kernels/layout/layout_walk.cuh"
