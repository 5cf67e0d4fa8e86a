/*
 * The limit of a device (CUSHIM_LIMIT): the process sees a smaller device.  The members of a group
 * (CUSHIM_LIMIT_GROUP) see it together (report/group.h).
 *
 * Heaps charge their own memory.  Memory that the driver serves is charged before the driver is
 * asked, if we see its size: device, pitched, stream-ordered and mapped memory, and arrays. Managed
 * memory is not, because the driver moves it out when others need the room; nor are modules and
 * what the driver itself needs.
 */
#ifndef CUSHIM_PRELOAD_DEVICE_LIMIT_H
#define CUSHIM_PRELOAD_DEVICE_LIMIT_H

#include "preload/state/process.h"

/* Read the options; called once, before any thread allocates. */
void cushim_device_limit_configure(void);

/* In a forked child, which is a member of its own if it `is_fresh`. */
void cushim_device_limit_in_child(bool is_fresh);

/* Another process may have changed the limit, or wants memory of the group: take what holds now. */
void cushim_device_limit_look(void);

/* Does the process see any device in another size, because of a limit or of what may be spilled? */
bool cushim_device_limit_is_set(void);

/* What the options leave of a device of `total_bytes`. */
size_t cushim_device_limit_bytes(int device, size_t total_bytes);

/* A device is about to be used.  Find its limit. */
void cushim_device_limit_open(struct cushim_cuda *cuda, int device);

/*
 * May the driver serve n_bytes more on the current device?  If not, heaps give back their idle
 * memory first.  They are charged until the thread notes the memory, or settles.
 */
bool cushim_device_limit_admits(struct cushim_cuda *cuda, size_t n_bytes);

/* The same on any device. */
bool cushim_device_limit_admits_on(struct cushim_cuda *cuda, int device, size_t n_bytes);

/* The same of host memory in the device's place, if that has none for n_bytes. */
bool cushim_device_limit_admits_spilled(int device, size_t n_bytes);

/* The driver has answered: what it did not serve is charged no longer. */
void cushim_device_limit_settle(void);

/* A device, or the host in its place, got memory that no heap charges, or (is_there false) lost
 * it. */
void cushim_device_limit_charge(int device, bool is_spilled, size_t n_bytes, bool is_there);

/* Correct what a driver says of a device: by the limit, by what our heaps could give back, and by
 * what may be spilled. */
void cushim_device_limit_tell(struct cushim_cuda *cuda, int device, size_t *free_bytes,
                              size_t *total_bytes);

#endif
