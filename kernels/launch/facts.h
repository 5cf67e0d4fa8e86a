/*
 * The facts of a device by which launchers choose.  The driver is asked once per process and
 * device.
 *
 * Shared memory is asked for because it does not follow from the generation: 12.0 has the
 * instructions of 9.0 and less than half of its shared memory.  One mutex is held while a device is
 * asked; reading known facts takes no lock.
 */
#ifndef CUSHIM_KERNELS_FACTS_H
#define CUSHIM_KERNELS_FACTS_H

#include <stdbool.h>

#include "cushim/status.h"

enum { CUSHIM_MOST_KERNEL_DEVICES = 64 };

struct cushim_kernel_facts {
    int capability;                 /* 10 * major + minor */
    unsigned n_sms;                 /* multiprocessors */
    unsigned shared_bytes;          /* the most that a block may have, if the kernel's limit is
                                       raised */
    unsigned shared_bytes_of_sm;    /* of all blocks of a multiprocessor */
    unsigned reserved_shared_bytes; /* that each block takes of it besides its own */
    bool has_clusters;
};

/**
 * Find out about a device.
 * @param what    the public function, for the text
 * @param device  its ordinal
 * @param facts   out; valid until the process ends
 * @return CUSHIM_OK | NOTSUPPORTED (a device beyond the last that is kept) | a driver status; the
 *         error text is set
 * Threads  any
 */
enum cushim_status cushim_kernel_facts_of(const char *what, int device,
                                          const struct cushim_kernel_facts **facts);

#endif
