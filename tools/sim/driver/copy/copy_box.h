/* Boxes: the shapes of cuMemcpy2D, 3D and the like, and arrays, in one form. */
#pragma once

#include "copy.h"

/* The box of a copy's shape; Height and Depth may be 0 for nothing. */
CUresult sim_copy_box(const CUDA_MEMCPY3D_PEER *shape, struct sim_copy *out);

/* The box of a shape without contexts. */
CUresult sim_copy_box_of_3d(const CUDA_MEMCPY3D *shape, struct sim_copy *out);
