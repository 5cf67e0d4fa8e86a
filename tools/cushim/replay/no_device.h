/*
 * A driver without a device, for `cushim replay`.  Memory is only numbers, and work is
 * complete at once.
 *
 * It has the calls that the memory engine makes, for one thread.  The device has as much memory as
 * the recording says; if it says nothing, there is no limit.
 */
#pragma once

#include <stdint.h>

struct cushim_cuda;

/* Make a table of its functions.  Returns NULL if there is no memory. */
struct cushim_cuda *no_device_open(void);

/* Set the time that the engine reads from now on; 0 for the time of the machine. */
void no_device_set_time(uint64_t ns);

enum { NO_DEVICE_MOST = 64 };

/* Set the memory of a device. */
void no_device_set_memory(unsigned device, uint64_t n_bytes);

/* Make a context of a device current.  A context is any number except 0. */
void no_device_set_context(uint64_t context, unsigned device);
