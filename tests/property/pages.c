/*
 * The number of driver pages that blocks of one size take. For each multiple of 512 bytes up to 1
 * MiB, a new context or pool allocates as many blocks as fit into some pages in steps of 512 bytes.
 *
 *   property-pages [pool]   a line per size: bytes, pages that the blocks would fit into, pages
 * taken
 */
#include "trace.h"

#include "tools/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If few blocks fit into a page, one block less counts much, so use more pages. */
enum { GRAIN = 512, N_PAGES = 8, N_PAGES_OF_LARGE = 32, LARGE_BYTES = 64 << 10 };

static void take(struct world *world, struct step step) {
    if (world_take(world, &step) != CUDA_SUCCESS) {
        fprintf(stderr, "property-pages: a step of kind %d failed\n", step.kind);
        exit(3);
    }
}

static size_t pages_of(struct world *world, size_t n_bytes, size_t n_blocks) {
    size_t before_bytes = sim_used_bytes(0);
    for (size_t i = 0; i < n_blocks; i++)
        take(world, (struct step){.kind = STEP_ALLOC, .slot = (uint32_t)i, .n_bytes = n_bytes});
    return (sim_used_bytes(0) - before_bytes) / PAGE_BYTES;
}

/* Nothing is left of the previous size. */
static void begin_anew(struct world *world, size_t n_blocks) {
    if (!world->pool) {
        take(world, (struct step){.kind = STEP_CONTEXT_END, .place = 1});
        return;
    }
    for (size_t i = 0; i < n_blocks; i++)
        take(world, (struct step){.kind = STEP_FREE, .slot = (uint32_t)i});
    if (cushim_pool_destroy(world->pool) != CUSHIM_OK ||
        cushim_pool_create(NULL, &world->pool) != CUSHIM_OK)
        exit(3);
}

int main(int argc, char **argv) {
    struct world world;
    world_open(&world, argc > 1 && !strcmp(argv[1], "pool"));
    for (size_t n_bytes = GRAIN; n_bytes <= MIB; n_bytes += GRAIN) {
        size_t n_pages = n_bytes < LARGE_BYTES ? N_PAGES : N_PAGES_OF_LARGE;
        size_t n_blocks = PAGE_BYTES / n_bytes * n_pages;
        if (!world.pool)
            take(&world, (struct step){.kind = STEP_CONTEXT_ENTER, .place = 1});
        printf("%zu %zu %zu\n", n_bytes, n_pages, pages_of(&world, n_bytes, n_blocks));
        begin_anew(&world, n_blocks);
    }
    return 0;
}
