/*
 * Spilling (CUSHIM_SPILL): when a device has no memory for a request, a block is made of host
 * memory, and the program takes it for device memory.
 *
 * Each context has a heap of its own for such blocks (context_heap.h), whose segments are charged
 * here, as is what cuMemCreate makes there (entry/mapped_memory.c).  It is asked last, so a request
 * goes to the device whenever that has room.  A large block goes back to the host as soon as it is
 * free.
 */
#ifndef CUSHIM_PRELOAD_SPILL_H
#define CUSHIM_PRELOAD_SPILL_H

#include <stdbool.h>
#include <stddef.h>

struct cushim_mem_limit;
struct cushim_mem_policy;

/* The policy of these heaps, derived from that of device memory. */
void cushim_spill_set_policy(struct cushim_mem_policy *policy);

/* What of them is charged for a device. */
struct cushim_mem_limit *cushim_spill_budget(int device);

/* What a device is larger by; 0: nothing is spilled. */
size_t cushim_spill_bytes(void);

/* How much more may be spilled now, for a device. */
size_t cushim_spill_free_bytes(int device);

/* Is a request of a device that has no memory likely to be spilled? */
bool cushim_spill_may_serve(int device, size_t n_bytes);

#endif
