/*
 * Devices, by ordinal.  -1 means the calling thread's: that of its current context; if it has none,
 * the one it set; otherwise 0.  Only set and peer_enable make or need a context.
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
 */
CUSHIM_API enum cushim_status cushim_device_count(int *n);

/**
 * Make the primary context of a device current, as cudaSetDevice does.
 * @param dev  ordinal; -1: the calling thread's
 * @return CUSHIM_OK | BADDEVICE | STATE (another context is on the thread's stack) | the driver's
 * Threads  any; changes only the calling one
 * Owner    the library retains the primary context
 */
CUSHIM_API enum cushim_status cushim_device_set(int dev);

/**
 * Get the calling thread's device.
 * @param dev  out
 * @return CUSHIM_OK | INVALID | NOCUDA | NODEVICE
 * Threads  any; each has its own
 */
CUSHIM_API enum cushim_status cushim_device_current(int *dev);

/**
 * Find a device by its place on the bus.
 * @param text  "domain:bus:device.function" and its shorter forms
 * @param dev   out
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_by_pci(const char *text, int *dev);

/**
 * Get a device's place on the bus, as text.
 * @param buf        [cap_bytes], empty after a failure
 * @param cap_bytes  13 are enough for any
 * @return CUSHIM_OK | INVALID (too short: the text says how much is needed) | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_pci(int dev, char *buf, size_t cap_bytes);

/**
 * Get a device's name.
 * @param buf  [cap_bytes], empty after a failure
 * @return CUSHIM_OK | INVALID (too short: the text says how much is needed) | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_name(int dev, char *buf, size_t cap_bytes);

/**
 * Get the UUID of a device.
 * @param id16  [16]
 * @return CUSHIM_OK | INVALID | BADDEVICE | NOSYM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_uuid(int dev, unsigned char *id16);

/**
 * Get the compute capability.
 * @param major, minor  out
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_capability(int dev, int *major, int *minor);

/**
 * Get how much memory a device has.
 * @param bytes  out
 * @return CUSHIM_OK | INVALID | BADDEVICE | NOSYM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_memory(int dev, size_t *bytes);

/**
 * Read an attribute.
 * @param attr   number of CUdevice_attribute
 * @param value  out
 * @return CUSHIM_OK | INVALID (no such attribute: the text names the number) | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_attribute(int dev, int attr, int *value);

/**
 * Check whether host and device may use managed memory at the same time.
 * @param yes  out: 1 or 0
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_managed(int dev, int *yes);

/**
 * Check whether the device's memory is the host's.
 * @param yes  out: 1 or 0
 * @return CUSHIM_OK | INVALID | BADDEVICE
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_shared(int dev, int *yes);

/**
 * Check whether a device may read a peer's memory.
 * @param yes  out: 1 or 0; 0 for the device itself
 * @return CUSHIM_OK | INVALID | BADDEVICE | NOSYM
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_peer(int dev, int peer, int *yes);

/**
 * Let the primary context of a device use the memory of a peer's primary context.
 * @return CUSHIM_OK (also if it was so before) | INVALID (the same device) | BADDEVICE |
 *         NOTSUPPORTED
 * Threads  any
 */
CUSHIM_API enum cushim_status cushim_device_peer_enable(int dev, int peer);

#ifdef __cplusplus
}
#endif

#endif
