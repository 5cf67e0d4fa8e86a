/*
 * How long driver allocations and frees of several sizes take on a device, as `cushim calibrate`
 * measured it, and what follows from that for a report.
 *
 * Each user has one file: $XDG_CACHE_HOME/cushim/calibration.json, or the same in ~/.cache.
 */
#ifndef CUSHIM_TOOLS_CALIBRATION_H
#define CUSHIM_TOOLS_CALIBRATION_H

#include <limits.h>

#include "report/report.h"

enum { CALIBRATION_SIZES = 16, CALIBRATION_DEVICES = 64, CALIBRATION_DRIVER_BYTES = 64 };

/* The median times of one size. */
struct calibration_size {
    uint64_t n_bytes, alloc_ns, free_ns;
};

/* A device with one driver; a report must have the same two. */
struct calibration {
    char uuid[CUSHIM_REPORT_UUID_BYTES];
    char driver[CALIBRATION_DRIVER_BYTES]; /* as calibration_driver writes it */
    uint64_t when;                         /* seconds since 1970 */
    bool is_software;
    unsigned n_sizes;
    struct calibration_size sizes[CALIBRATION_SIZES]; /* in rising order */
};

/* "13000 580.159.04": CUDA's version of the driver, and the kernel module's if there is one. */
void calibration_driver(char text[CALIBRATION_DRIVER_BYTES], uint64_t version);

/* Write the path of the file.  Returns false if no folder for it is known. */
bool calibration_path(char path[PATH_MAX]);

/* Read a file; wrong parts are skipped.  Returns the number of devices in it. */
unsigned calibration_read(const char *path, struct calibration devices[CALIBRATION_DEVICES]);

/* Make the folders and write the file, completely or not at all. Returns 0 or an errno. */
int calibration_write(const char *path, const struct calibration devices[], unsigned n_devices);

/*
 * The least and the greatest time of n calls that have n_bytes together, each at most most_bytes.
 * The time of a call is interpolated between the two nearest sizes.  The bounds are over all ways
 * to divide the bytes.
 */
struct calibration_bounds {
    uint64_t least_ns, most_ns;
};
struct calibration_bounds calibration_bound(const struct calibration *device, bool is_free,
                                            uint64_t n, uint64_t n_bytes, uint64_t most_bytes);

/* Give a report the time that its requests of device memory would take without cushim, if the file
 * has each of its devices.  The file is read once. */
void calibration_apply(struct cushim_report *report);

#endif
