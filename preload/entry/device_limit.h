/*
 * The limit of a device (CUSHIM_LIMIT): the process sees a smaller device.
 *
 * Heaps charge their own memory.  What the driver serves natively is charged where it is noted
 * (foreign.h), as far as its size is seen: device, pitched, stream-ordered, managed and mapped
 * memory, and arrays.  Modules and what the driver itself needs are not counted.
 */
#ifndef CUSHIM_PRELOAD_DEVICE_LIMIT_H
#define CUSHIM_PRELOAD_DEVICE_LIMIT_H

#include "preload/state/process.h"

/* Read the options; once, before any thread allocates. */
void cushim_device_limit_configure(void);

/* A device is about to be used, and one of its contexts is current: find how large its limit is. */
void cushim_device_limit_open(struct cushim_cuda *cuda, int device);

/*
 * May the driver serve n_bytes more on the current device?  If not, heaps give back their idle
 * memory first.  Nothing is charged here: what was served is charged when it is noted.
 */
bool cushim_device_limit_admits(struct cushim_cuda *cuda, size_t n_bytes);

/* The same on any device. */
bool cushim_device_limit_admits_on(struct cushim_cuda *cuda, int device, size_t n_bytes);

/* Memory that no heap charges came to a device, or (is_there false) went. */
void cushim_device_limit_charge(int device, size_t n_bytes, bool is_there);

/* Correct what cuMemGetInfo said by the limit, and by `reusable_bytes` that we could give back. */
void cushim_device_limit_tell(int device, size_t reusable_bytes, size_t *free_bytes,
                              size_t *total_bytes);

#endif
