/*
 * A driver without a device, for `cushim replay --plan`: memory is numbers, work is over at once.
 *
 * It answers what the memory engine asks, from one thread.  The device has the memory that the
 * recording says, or as much as is asked for.
 */
#ifndef CUSHIM_TOOLS_REPLAY_NO_DEVICE_H
#define CUSHIM_TOOLS_REPLAY_NO_DEVICE_H

#include <stdint.h>

struct cushim_cuda;

/* A table of its functions; NULL: no memory. */
struct cushim_cuda *no_device_open(void);

/* The time that the engine reads from now on; 0: that of the machine. */
void no_device_set_time(uint64_t ns);

enum { NO_DEVICE_MOST = 64 };

/* The memory of a device. */
void no_device_set_memory(unsigned device, uint64_t n_bytes);

/* Make a context of a device current; it is any number but 0. */
void no_device_set_context(uint64_t context, unsigned device);

#endif
