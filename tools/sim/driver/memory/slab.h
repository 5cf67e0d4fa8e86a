/* Slabs: 2 MiB pages shared by a context's small blocks, in units of 512 bytes, the first gap that
 * fits. */
#ifndef CUSHIM_SIM_SLAB_H
#define CUSHIM_SIM_SLAB_H

#include <stddef.h>

struct sim_context;
struct sim_slab;

/* NULL: the device has no page left. */
char *sim_slab_take(struct sim_context *context, size_t n_bytes, struct sim_slab **slab);

/* The page goes back to the device with its last piece. */
void sim_slab_give(struct sim_context *context, struct sim_slab *slab, char *address,
                   size_t n_bytes);

/* A page or more of the device, charged to it and committed; and back.  NULL: none left. */
char *sim_pages_take(struct sim_context *context, size_t n_bytes);
void sim_pages_give(struct sim_context *context, char *address, size_t n_bytes);

#endif
