/*
 * Pitched memory (cuMemAllocPitch, and cudaMallocPitch and cudaMalloc3D, which come to it): blocks
 * of the heap, whose rows are as far apart as the driver puts them.
 *
 * The distance depends on the device, the width and the size of an element.  The driver serves the
 * first request of these, and its answer is remembered for the next.
 */
#pragma once

#include <stddef.h>

#include "cuda/types.h"

struct cushim_cuda;

/* cuMemAllocPitch_v2, whatever serves it. */
CUresult cushim_pitch_alloc(struct cushim_cuda *cuda, CUdeviceptr *address, size_t *pitch_bytes,
                            size_t width_bytes, size_t height, unsigned element_bytes);
