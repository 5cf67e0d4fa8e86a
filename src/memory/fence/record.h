/*
 * A record: one event over all that a context, or one stream of it, has been given, and what became
 * of it.
 *
 * What that of a context covers is what native's free of the context's memory waits for: the work
 * of its streams, those of its green contexts too, and copies that others make from or to its
 * device memory (measured; docs/results/allocator.md).  A record whose context went away is over:
 * the driver ends a context only with its work.  Such a record is never asked for again, since its
 * event went too.
 *
 * Lock: the spare events of a fence are under its lock; no driver call is made under it.  A record
 * that is over may be made anew: then its event is used again, and no lock is taken.
 */
#ifndef CUSHIM_MEMORY_RECORD_H
#define CUSHIM_MEMORY_RECORD_H

#include "cuda/types.h"

struct cushim_mem_fence;

/* All zero has no event. */
struct cushim_mem_record {
    struct cushim_mem_fence *fence; /* whose context, or a stream of that, was recorded */
    CUevent event;                  /* NULL: the context had gone, so it is over */
    unsigned life;                  /* of that fence, when the event was taken */
};

/* Record the context of `fence`, with the event that the record has, or one more.  With an answer
 * other than success there is nothing to release.  The gate must be held. */
CUresult cushim_mem_record_make(struct cushim_mem_record *record, struct cushim_mem_fence *fence);

/* The same of one stream of the context, which is current. */
CUresult cushim_mem_record_make_on(struct cushim_mem_record *record, struct cushim_mem_fence *fence,
                                   CUstream stream);

/* The event becomes a spare again, and the record has none; nobody queries it any more. */
void cushim_mem_record_release(struct cushim_mem_record *record);

/* Success (it is over), not-ready, or the driver's error. */
CUresult cushim_mem_record_query(const struct cushim_mem_record *record);

/* Wait for it by a synchronise: what its kernels printed comes out, where it was over, too. */
CUresult cushim_mem_record_synchronise(const struct cushim_mem_record *record);

/* Wait for it: poll for about as long as a short kernel takes, then sleep as the context's flags
 * say.  The last call is a synchronise in either case. */
CUresult cushim_mem_record_wait(const struct cushim_mem_record *record);

#endif
