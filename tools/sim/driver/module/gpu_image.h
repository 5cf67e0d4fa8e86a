/*
 * The contents of a GPU's image: its kernels, their parameters, and its variables.  Instructions
 * are never looked at.
 */
#pragma once

#include "image_part.h"
#include "module_image.h"

/*
 * Add the contents of a fatbin, a wrapper around one, a cubin or a PTX text to `image`.  False: it
 * cannot be read, and nothing was added.  The size in it counts, up to the part's.
 */
bool sim_gpu_image_read(struct sim_image *image, struct sim_part bytes);

/* A cubin, with all its bytes.  False: damaged; what was added until then may be useless. */
bool sim_cubin_read(struct sim_image *image, struct sim_part cubin);

/* A PTX text: only its entries and their parameters. */
bool sim_ptx_read(struct sim_image *image, struct sim_part text);
