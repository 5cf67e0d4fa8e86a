/*
 * The limit of a device (CUSHIM_LIMIT): the process sees a smaller one.
 *
 * Memory of pools is charged by the pools; here is what the driver serves natively, as far as its
 * size is seen: device, pitched, stream-ordered and managed memory, and physical memory of
 * cuMemCreate.  Arrays, modules and what the driver itself needs are not counted.
 */
#ifndef CUSHIM_PRELOAD_DEVICE_LIMIT_H
#define CUSHIM_PRELOAD_DEVICE_LIMIT_H

#include "preload/state/process.h"

/* From the options, before any thread allocates. */
void cushim_device_limit_configure(void);

/* A device is about to be used, one of its contexts being current: what is its share? */
void cushim_device_limit_open(struct cushim_cuda *cuda, int device);

/*
 * May the driver serve n_bytes more on the current device?  Gives back what pools hold free where
 * it may not otherwise.  Nothing is charged: what was served is, when it is noted.
 */
bool cushim_device_limit_admits(struct cushim_cuda *cuda, size_t n_bytes);

/* The same on any device. */
bool cushim_device_limit_admits_on(struct cushim_cuda *cuda, int device, size_t n_bytes);

/* Native memory whose counters these are came or went. */
void cushim_device_limit_note(const struct cushim_mem_stats *stats, size_t n_bytes, bool is_there);

/* Physical memory that cuMemCreate made on a device, and that a release let go. */
void cushim_device_limit_note_handle(CUmemGenericAllocationHandle handle, int device,
                                     size_t n_bytes);
void cushim_device_limit_forget_handle(CUmemGenericAllocationHandle handle);

/* The driver is gone, and all handles with it. */
void cushim_device_limit_drop_handles(void);

/* What cuMemGetInfo says where `reusable_bytes` of what we hold are free. */
void cushim_device_limit_tell(int device, size_t reusable_bytes, size_t *free_bytes,
                              size_t *total_bytes);

#endif
