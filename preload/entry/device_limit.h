/*
 * The limit of a device (CUSHIM_LIMIT): the process sees a smaller device.
 *
 * Heaps charge their own memory.  Memory that the driver serves is charged when it is noted
 * (foreign.h), if we see its size: device, pitched, stream-ordered and managed memory, and the
 * physical memory of cuMemCreate.  Arrays, modules and what the driver itself needs are not
 * counted.
 */
#ifndef CUSHIM_PRELOAD_DEVICE_LIMIT_H
#define CUSHIM_PRELOAD_DEVICE_LIMIT_H

#include "preload/state/process.h"

/* Read the options; called once, before any thread allocates. */
void cushim_device_limit_configure(void);

/* A device is about to be used, and one of its contexts is current.  Find its limit. */
void cushim_device_limit_open(struct cushim_cuda *cuda, int device);

/*
 * May the driver serve n_bytes more on the current device?  If not, heaps give back their idle
 * memory first.  Nothing is charged here, because memory is charged when it is noted.
 */
bool cushim_device_limit_admits(struct cushim_cuda *cuda, size_t n_bytes);

/* The same on any device. */
bool cushim_device_limit_admits_on(struct cushim_cuda *cuda, int device, size_t n_bytes);

/* A device got memory that no heap charges, or (is_there false) lost it. */
void cushim_device_limit_charge(int device, size_t n_bytes, bool is_there);

/* Correct the answer of cuMemGetInfo by the limit, and by the `reusable_bytes` that we could give
 * back. */
void cushim_device_limit_tell(int device, size_t reusable_bytes, size_t *free_bytes,
                              size_t *total_bytes);

#endif
