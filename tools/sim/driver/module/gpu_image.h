/*
 * What is in an image of a GPU: its kernels, what they take, and its variables.  Instructions are
 * never looked at.
 */
#ifndef CUSHIM_SIM_GPU_IMAGE_H
#define CUSHIM_SIM_GPU_IMAGE_H

#include "image_part.h"
#include "module_image.h"

/*
 * Add what a fatbin, a wrapper around one, a cubin or a PTX text has to `image`.  False: it cannot
 * be read, and nothing was added.  What it says of its own size counts, up to the part's.
 */
bool sim_gpu_image_read(struct sim_image *image, struct sim_part bytes);

/* A cubin, with all its bytes.  False: damaged; what was added by then may be of no use. */
bool sim_cubin_read(struct sim_image *image, struct sim_part cubin);

/* A PTX text: its entries and their parameters alone. */
bool sim_ptx_read(struct sim_image *image, struct sim_part text);

#endif
