/*
 * A request that found no memory.  It is noted in the page for the report, and printed on standard
 * error if CUSHIM_OOM asks for that.
 */
#ifndef CUSHIM_PRELOAD_SHORTAGE_H
#define CUSHIM_PRELOAD_SHORTAGE_H

#include <stddef.h>

struct cushim_mem_heap;
struct cushim_mem_reclaim;
struct cushim_mem_census;

/* Memory is out after everything was tried.  No lock is held. */
void cushim_shortage_note(struct cushim_mem_heap *heap, const struct cushim_mem_reclaim *tried,
                          const struct cushim_mem_census *census, size_t n_bytes);

#endif
