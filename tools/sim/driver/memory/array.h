/* Arrays: rows without gaps in memory of their own; only copies know their layout. */
#pragma once

#include "tools/sim/driver/core/abi.h"

#include <stddef.h>

struct sim_array {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    CUdeviceptr address; /* of a block of its own */
    size_t pitch_bytes, slice_bytes;
    size_t n_bytes;
};

CUresult sim_array_of_handle(CUarray handle, struct sim_array **out);

/* Bytes of one element of a format; 0: not known. */
size_t sim_array_element_bytes(CUarray_format format, unsigned n_channels);
