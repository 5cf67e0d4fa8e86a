/*
 * Devices: by ordinal, -1 meaning the calling thread's (that of its current context, else the one
 * it set, else 0).  No call here but set, and peer_enable, makes or needs a context.
 */
#ifndef CUSHIM_DEVICE_H
#define CUSHIM_DEVICE_H

#include "cushim/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Count the visible devices.
 * @param n  out
 * @return CUSHIM_OK | INVALID | NOCUDA | NODEVICE (n is 0)
 * Threads  any
 * Source   Go GetDeviceCount, PyCUDA Device.count
 */
CUSHIM_API enum cushim_status cushim_device_count(int *n);

/**
 * Make the primary context of a device current, as cudaSetDevice does.
 * @param dev  ordinal; -1: the calling thread's
 * @return CUSHIM_OK | BADDEVICE | STATE (another context is on the thread's stack) | the driver's
 * Threads  the calling one alone
 * Owner    the library retains the primary context
 */
CUSHIM_API enum cushim_status cushim_device_set(int dev);

/**
 * Tell the calling thread's device.
 * @param dev  out
 * @return CUSHIM_OK | INVALID | NOCUDA | NODEVICE
 * Threads  the calling one alone
 */
CUSHIM_API enum cushim_status cushim_device_current(int *dev);

/**
 * Find a device by its place on the bus.
 * @param text  "domain:bus:device.function" and its shorter forms
 * @param dev   out
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 * Source   PyCUDA Device(str)
 */
CUSHIM_API enum cushim_status cushim_device_by_pci(const char *text, int *dev);

/**
 * Tell a device's place on the bus, as text.
 * @param buf        [cap_bytes], empty after a failure
 * @param cap_bytes  13 are enough for any
 * @return CUSHIM_OK | INVALID (too short: the text says how much is needed) | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_pci(int dev, char *buf, size_t cap_bytes);

/**
 * Tell a device's name.
 * @param buf  [cap_bytes], empty after a failure
 * @return CUSHIM_OK | INVALID (too short: the text says how much is needed) | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_name(int dev, char *buf, size_t cap_bytes);

/**
 * Tell a device's number that is unique in the world.
 * @param id16  [16]
 * @return CUSHIM_OK | INVALID | BADDEVICE | NOSYM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_uuid(int dev, unsigned char *id16);

/**
 * Tell the compute capability.
 * @param major, minor  out
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 * Source   Go DeviceComputeCapability
 */
CUSHIM_API enum cushim_status cushim_device_capability(int dev, int *major, int *minor);

/**
 * Tell how much memory a device has.
 * @param bytes  out
 * @return CUSHIM_OK | INVALID | BADDEVICE | NOSYM
 * Threads  any
 * Source   PyCUDA total_memory
 */
CUSHIM_API enum cushim_status cushim_device_memory(int dev, size_t *bytes);

/**
 * Read an attribute.
 * @param attr   number of CUdevice_attribute
 * @param value  out
 * @return CUSHIM_OK | INVALID (no such attribute: the text names the number) | BADDEVICE
 * Threads  any
 * Source   Go DeviceGetAttribute, PyCUDA get_attribute
 */
CUSHIM_API enum cushim_status cushim_device_attribute(int dev, int attr, int *value);

/**
 * Tell whether host and device may use managed memory at the same time.
 * @param yes  out: 1 or 0
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 * Source   Go ManagedMemorySupported
 */
CUSHIM_API enum cushim_status cushim_device_managed(int dev, int *yes);

/**
 * Tell whether the device's memory is the host's.
 * @param yes  out: 1 or 0
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_shared(int dev, int *yes);

/**
 * Tell whether a device may read a peer's memory.
 * @param yes  out: 1 or 0; 0 for the device itself
 * @return CUSHIM_OK | INVALID | BADDEVICE | NOSYM
 * Threads  any
 * Source   PyCUDA can_access_peer
 */
CUSHIM_API enum cushim_status cushim_device_peer(int dev, int peer, int *yes);

/**
 * Let the primary context of a device use the memory of a peer's primary context.
 * @return CUSHIM_OK (also where it was so) | INVALID (the same device) | BADDEVICE | NOTSUPPORTED
 * Threads  any
 * Source   PyCUDA enable_peer_access
 */
CUSHIM_API enum cushim_status cushim_device_peer_enable(int dev, int peer);

#ifdef __cplusplus
}
#endif

#endif
