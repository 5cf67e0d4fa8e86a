/*
 * What a device has that launchers choose by, asked of the driver once a process and device.
 *
 * Shared memory is not what a generation has: 12.0 has the instructions of 9.0 and less than half
 * of its shared memory.  Lock: one mutex while a device is asked; facts that are there take none.
 */
#ifndef CUSHIM_KERNELS_FACTS_H
#define CUSHIM_KERNELS_FACTS_H

#include <stdbool.h>

#include "cushim/status.h"

enum { CUSHIM_MOST_KERNEL_DEVICES = 64 };

struct cushim_kernel_facts {
    int capability;                 /* 10 * major + minor */
    unsigned n_sms;                 /* multiprocessors */
    unsigned shared_bytes;          /* that a block may have, of a kernel whose limit is raised */
    unsigned shared_bytes_of_sm;    /* of all blocks of a multiprocessor, ... */
    unsigned reserved_shared_bytes; /* of which each block takes so many besides its own */
    bool has_clusters;
};

/**
 * Find out about a device.
 * @param what    the public function, for the text
 * @param device  its ordinal
 * @param facts   out; valid for good
 * @return CUSHIM_OK | NOTSUPPORTED (a device beyond the last that is kept) | a status of the
 *         driver; the error text is set
 * Threads  any
 */
enum cushim_status cushim_kernel_facts_of(const char *what, int device,
                                          const struct cushim_kernel_facts **facts);

#endif
