#include "memory/layout/sizeclass.h"

#include <string.h>

#include <utlist.h>

#include "base/bits.h"
#include "memory/layout/segment.h"

enum { N_GRAINS = CUSHIM_MEM_MOST_CLASSES, N_LINEAR = 8, LOG2_STEPS = 3, STEPS_END = 256 };

/*
 * These belong to the process and not to a heap, because each request reads the table, and would
 * first have to read the heap to find its own.  They are written before there is a heap, and only
 * read from then on: by the preload when it reads its options, by libcushim once, in the call that
 * makes the first pool, and by `cushim replay` in the child that makes a plan.  Their names are
 * hidden, so the preload and libcushim in one process have a copy and a scheme each.
 */
uint16_t cushim_mem_sizeclass_table[N_GRAINS];
static uint16_t class_grains[N_GRAINS]; /* of a block, by class */
static unsigned n_classes;

/*
 * The fine scheme above 128 KiB, in grains: the largest sizes of which 2 to 15 fit into 2 MiB,
 * sizes between them that keep the waste at an eighth, and common sizes.
 */
static const uint16_t large_grains[] = {273,  292,  315,  320,  341,  372,  384,  409, 455,
                                        512,  585,  640,  682,  768,  819,  896,  960, 1024,
                                        1152, 1280, 1365, 1536, 1664, 1792, 1920, 2048};

/* Does a class end at n grains? */
static bool is_end(enum cushim_mem_scheme scheme, unsigned n) {
    const uint16_t *end = large_grains;
    if (scheme == CUSHIM_MEM_POW2)
        return (n & (n - 1)) == 0;
    if (scheme == CUSHIM_MEM_EXACT || n <= N_LINEAR)
        return true;
    if (n <= STEPS_END)
        return n % (1u << (cushim_log2_floor(n - 1) - LOG2_STEPS)) == 0;
    while (*end < n)
        end++;
    return *end == n;
}

void cushim_mem_sizeclass_choose(enum cushim_mem_scheme scheme) {
    n_classes = 0;
    for (unsigned n = 1; n <= N_GRAINS; n++) {
        cushim_mem_sizeclass_table[n - 1] = (uint16_t)n_classes;
        if (is_end(scheme, n))
            class_grains[n_classes++] = (uint16_t)n;
    }
}

unsigned cushim_mem_sizeclass_count(void) {
    return n_classes;
}

size_t cushim_mem_sizeclass_bytes(unsigned class_index) {
    return (size_t)class_grains[class_index] << CUSHIM_MEM_LOG2_GRAIN;
}

/* ---- buckets ---- */

enum { MOST_SLAB_BYTES = 1 << 16 };

size_t cushim_mem_bucket_slab_grains(const struct cushim_mem_bucket *bucket, unsigned class_index) {
    size_t block_bytes = cushim_mem_sizeclass_bytes(class_index);
    size_t block_grains = cushim_mem_grains_of(block_bytes);
    size_t n_least = (CUSHIM_MEM_LEAST_GRAINS + block_grains - 1) / block_grains;
    size_t n_blocks = cushim_least(bucket->n_cells, MOST_SLAB_BYTES / block_bytes);
    size_t n_even = CUSHIM_MEM_PAGE_BYTES / (block_bytes & -block_bytes); /* blocks end with a
                                                                           * page */
    if (n_even && n_blocks > n_even)
        n_blocks -= n_blocks % n_even;
    return cushim_most(n_blocks, n_least) * block_grains;
}

enum cushim_status cushim_mem_bucket_add(struct cushim_mem_bucket *bucket,
                                         struct cushim_mem_meta *meta,
                                         struct cushim_mem_extent *extent, unsigned class_index) {
    size_t block_bytes = cushim_mem_sizeclass_bytes(class_index);
    uint32_t n_cells = (uint32_t)((extent->n_grains << CUSHIM_MEM_LOG2_GRAIN) / block_bytes);
    struct cushim_mem_block_meta *cells =
        cushim_mem_meta_obtain_as(meta, CUSHIM_MEM_META_CELLS, n_cells * sizeof *cells, 0);
    if (!cells)
        return CUSHIM_NOMEM;
    memset(cells, 0, n_cells * sizeof *cells);
    for (uint32_t i = 0; i < n_cells; i++)
        cells[i].next_free = i + 1;
    extent->class_index = (uint16_t)class_index;
    extent->block_bytes = block_bytes;
    extent->inverse = cushim_mem_extent_inverse(block_bytes);
    extent->n_cells = extent->n_free_cells = n_cells;
    extent->first_free_cell = extent->n_retired_cells = 0;
    extent->cells = cells;
    store_release(&extent->kind, CUSHIM_MEM_EXTENT_SLAB);
    bucket->n_cells += n_cells;
    DL_PREPEND2(bucket->slabs, extent, previous, next);
    return CUSHIM_OK;
}

bool cushim_mem_bucket_take(struct cushim_mem_bucket *bucket, struct cushim_mem_blockref *ref) {
    struct cushim_mem_extent *slab = bucket->slabs;
    if (!slab)
        return false;
    ref->extent = slab;
    ref->index = slab->first_free_cell;
    slab->first_free_cell = slab->cells[ref->index].next_free;
    if (--slab->n_free_cells == 0)
        DL_DELETE2(bucket->slabs, slab, previous, next);
    return true;
}

struct cushim_mem_extent *cushim_mem_bucket_leave(struct cushim_mem_bucket *bucket,
                                                  struct cushim_mem_extent *slab) {
    bucket->n_cells -= slab->n_cells;
    if (slab->n_free_cells)
        DL_DELETE2(bucket->slabs, slab, previous, next);
    return slab;
}

struct cushim_mem_extent *cushim_mem_bucket_give(struct cushim_mem_bucket *bucket,
                                                 const struct cushim_mem_blockref *ref) {
    struct cushim_mem_extent *slab = ref->extent;
    slab->cells[ref->index].next_free = slab->first_free_cell;
    slab->first_free_cell = ref->index;
    if (++slab->n_free_cells == 1)
        DL_PREPEND2(bucket->slabs, slab, previous, next);
    bool is_only = bucket->slabs == slab && !slab->next;
    return slab->n_free_cells == slab->n_cells && !is_only ? cushim_mem_bucket_leave(bucket, slab)
                                                           : NULL;
}

struct cushim_mem_extent *cushim_mem_bucket_drain(struct cushim_mem_bucket *bucket) {
    for (struct cushim_mem_extent *slab = bucket->slabs; slab; slab = slab->next) {
        if (slab->n_free_cells == slab->n_cells)
            return cushim_mem_bucket_leave(bucket, slab);
    }
    return NULL;
}
