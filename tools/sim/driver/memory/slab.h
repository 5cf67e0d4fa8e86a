/*
 * Slabs: 2 MiB pages shared by the small blocks of a context, or of a pool, in units of 512 bytes;
 * the first gap that fits is used.  pool: NULL for memory of the context itself.
 */
#pragma once

#include <stddef.h>

struct sim_context;
struct sim_pool;
struct sim_slab;

/* NULL: the device has no page left. */
char *sim_slab_take(struct sim_context *context, struct sim_pool *pool, size_t n_bytes,
                    struct sim_slab **slab);

/* The page goes back with its last piece. */
void sim_slab_give(struct sim_context *context, struct sim_pool *pool, struct sim_slab *slab,
                   char *address, size_t n_bytes);

/* A page or more of the device, charged to it or to the pool, and committed; and back.  NULL: none
 * left. */
char *sim_pages_take(struct sim_context *context, struct sim_pool *pool, size_t n_bytes);
void sim_pages_give(struct sim_context *context, struct sim_pool *pool, char *address,
                    size_t n_bytes);
