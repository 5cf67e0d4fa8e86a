/*
 * Waits: what the calling thread itself waited for the device, in all its fences.
 *
 * The counters of a device say how much its frees waited; these say which free it was, to who asks
 * before and after it.
 */
#ifndef CUSHIM_MEMORY_WAITS_H
#define CUSHIM_MEMORY_WAITS_H

#include <stdint.h>

#include "memory/stats.h"

struct cushim_mem_waits {
    uint64_t n, ns;
};

/* Only rises. */
extern _Thread_local struct cushim_mem_waits cushim_mem_waits_of_thread
    __attribute__((tls_model("initial-exec")));

/* A wait that began at start_ns is over, and found the device busy. */
void cushim_mem_waits_count(struct cushim_mem_stats *stats, uint64_t start_ns);

#endif
