/* Copies into another order; each way of going through the output has a file of its own. */
#include "kernels/layout_each.cuh"
#include "kernels/layout_tile.cuh"
#include "kernels/layout_wide.cuh"
#include "kernels/layout_repeat.cuh"
#include "kernels/layout_walk.cuh"
