/*
 * The blocks of a pool, and the memory of nodes, that belong to one capture, then to its graph.
 *
 * A list names blocks, each with the life of its heap's allocator, and each counted in the block's
 * n_holds.  When the last list drops a block it goes back to a cache: a block that was freed
 * meanwhile (is_deferred) to that of the stream which freed it; one that is still live while the
 * graph is gone to that of ALL, since its last stream is not known.
 *
 * Lock: a list that belongs to a freeze is guarded by the pool's lock, then by its owner.
 */
#ifndef CUSHIM_COMPANION_POOL_GRAPH_H
#define CUSHIM_COMPANION_POOL_GRAPH_H

#include "companion/pool/pool_cache.h"

struct cushim_pool_graph_row {
    struct cushim_pool_block *block; /* NULL: a node's memory */
    uint64_t life;                   /* of the block's heap */
    uint64_t address;
    size_t bucket_bytes;
    CUstream freed_on; /* while the capture is open */
    bool is_freed;     /* in this capture: may serve in it again */
    bool is_over;      /* a node's memory that was freed in the capture */
};

struct cushim_pool_graph {
    struct cushim_pool_graph_row *rows;
    size_t n_rows, n_most;
    size_t bytes;
};

/* One more row, all zero; NULL: no host memory.  Earlier rows may move. */
struct cushim_pool_graph_row *cushim_pool_graph_add(struct cushim_pool_graph *held);

/* The list holds a block from now on; NULL: no host memory, and it does not. */
struct cushim_pool_graph_row *cushim_pool_graph_add_block(struct cushim_pool_graph *held,
                                                          struct cushim_pool_block *block);

/* The row of a block, or NULL. */
struct cushim_pool_graph_row *cushim_pool_graph_find(struct cushim_pool_graph *held,
                                                     const struct cushim_pool_block *block);

/* A held block was freed naming a cache, or (NULL) serves again. */
void cushim_pool_graph_defer(struct cushim_pool_block *block, struct cushim_pool_cache *cache);

/* Let go of all; is_graph_gone: of live blocks too, else they are their callers' as before. */
void cushim_pool_graph_drop(struct cushim_pool_graph *held, bool is_graph_gone);

#endif
