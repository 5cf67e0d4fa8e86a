/* Entries of fatbins, unpacked.  The memory is to be freed; NULL: damaged. */
#pragma once

#include "image_part.h"

struct sim_part sim_unpack_none(struct sim_part packed);

/* A block of LZ4, by the description of the block format in the LZ4 project. */
struct sim_part sim_unpack_lz4(struct sim_part packed, size_t n_bytes);

/* By libzstd.so.1, which is opened when first needed; NULL also if it is not installed. */
struct sim_part sim_unpack_zstd(struct sim_part packed, size_t n_bytes);
