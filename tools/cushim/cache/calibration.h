/*
 * How long driver allocations and frees of several sizes take on a device, as `cushim calibrate`
 * measured it, and what follows from that for a report.
 *
 * One file for each user: $XDG_CACHE_HOME/cushim/calibration.json, or the same in ~/.cache.
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
    struct calibration_size sizes[CALIBRATION_SIZES]; /* in rising order */
};

/* "13000 580.159.04": CUDA's version of the driver, and the kernel module's if there is one. */
void calibration_driver(char text[CALIBRATION_DRIVER_BYTES], uint64_t version);

/* The path of the file; false: no folder for it is known. */
bool calibration_path(char path[PATH_MAX]);

/* Read a file, skipping wrong parts.  Returns the number of devices in it. */
unsigned calibration_read(const char *path, struct calibration devices[CALIBRATION_DEVICES]);

/* Write it, completely or not at all; its folders are made.  0 or an errno. */
int calibration_write(const char *path, const struct calibration devices[], unsigned n_devices);

/*
 * The least and the greatest time of n calls with n_bytes together, none above most_bytes.  The
 * time of a call is interpolated between the two sizes beside its own.  The bounds are over all
 * ways to divide the bytes.
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
