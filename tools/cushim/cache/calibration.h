/*
 * What driver allocations and frees of several sizes take on a device, as `cushim calibrate`
 * measured it, and what follows from that for a report.
 *
 * One file for a user: $XDG_CACHE_HOME/cushim/calibration.json, or that in ~/.cache.
 */
#ifndef CUSHIM_TOOLS_CALIBRATION_H
#define CUSHIM_TOOLS_CALIBRATION_H

#include <limits.h>

#include "report/report.h"

enum { CALIBRATION_SIZES = 16, CALIBRATION_DEVICES = 64, CALIBRATION_DRIVER_BYTES = 64 };

/* Medians of one size. */
struct calibration_size {
    uint64_t n_bytes, alloc_ns, free_ns;
};

/* A device with one driver: both must be those of the report. */
struct calibration {
    char uuid[CUSHIM_REPORT_UUID_BYTES];
    char driver[CALIBRATION_DRIVER_BYTES]; /* calibration_driver */
    uint64_t when;                         /* seconds since 1970 */
    bool is_software;
    unsigned n_sizes;
    struct calibration_size sizes[CALIBRATION_SIZES]; /* small ones first */
};

/* "13000 580.159.04": CUDA's version of the driver, and the kernel module's where there is one. */
void calibration_driver(char text[CALIBRATION_DRIVER_BYTES], uint64_t version);

/* The path of the file; false: nobody knows a folder for it. */
bool calibration_path(char path[PATH_MAX]);

/* Read a file: what is wrong in it is passed over.  Returns how many devices it has. */
unsigned calibration_read(const char *path, struct calibration devices[CALIBRATION_DEVICES]);

/* Write it, as a whole or not at all; its folders are made.  0 or an errno. */
int calibration_write(const char *path, const struct calibration devices[], unsigned n_devices);

/*
 * What n calls that have n_bytes together, none above most_bytes, take at least and at most: each
 * takes what a straight line between the two sizes beside its own says.  Of all ways to part the
 * bytes, the least and the most.
 */
struct calibration_bounds {
    uint64_t least_ns, most_ns;
};
struct calibration_bounds calibration_bound(const struct calibration *device, bool is_free,
                                            uint64_t n, uint64_t n_bytes, uint64_t most_bytes);

/* Give a report what its requests of device memory would have taken natively, if the file has each
 * device of it.  The file is read once. */
void calibration_apply(struct cushim_report *report);

#endif
