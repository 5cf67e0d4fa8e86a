/*
 * Pending blocks: freed, and not reusable before the work ahead of them is over.
 *
 * In `exact` a free waits, so only two kinds come here: blocks freed in stream order
 * (cudaFreeAsync), each with an event on its stream, and blocks whose wait was impossible for want
 * of memory, which the next wait of the context covers.  Oldest first; all under the pool's lock.
 */
#ifndef CUSHIM_MEMORY_PENDING_H
#define CUSHIM_MEMORY_PENDING_H

#include "cuda/table.h"
#include "memory/bucket.h"

struct cushim_mem_pending_row {
    struct cushim_mem_pending_row *next;
    struct cushim_mem_segment *segment;
    struct cushim_mem_place place;
    CUevent event; /* NULL: covered by a wait of the context that begins later */
    uint64_t serial;
};

/* All zero is empty. */
struct cushim_mem_pending {
    struct cushim_mem_pending_row *first, *last;
    atomic_uint_fast64_t serial; /* of the youngest row; read without the lock as well */
};

/* Append; false where host memory is out. */
bool cushim_mem_pending_add(struct cushim_mem_pending *pending, struct cushim_mem_meta *meta,
                            struct cushim_mem_segment *segment,
                            const struct cushim_mem_place *place, CUevent event);

/*
 * Take out the first row that is done: its event has passed, or it has none and is not younger than
 * `waited_serial`.  Queries at most a few events.  False where none is.
 */
bool cushim_mem_pending_take(struct cushim_mem_pending *pending, struct cushim_mem_meta *meta,
                             struct cushim_cuda *cuda, uint64_t waited_serial,
                             struct cushim_mem_pending_row *row);

#endif
