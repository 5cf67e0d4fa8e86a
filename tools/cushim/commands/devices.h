/*
 * Devices, as the live pages of all processes and NVML, if it is there, see them.
 */
#ifndef CUSHIM_TOOLS_DEVICES_H
#define CUSHIM_TOOLS_DEVICES_H

#include "report/report.h"

/* Of one device: what pages say, and NVML. */
struct device {
    char uuid[CUSHIM_REPORT_UUID_BYTES]; /* "": not known; then its number identifies it */
    char name[CUSHIM_NAME_BYTES];
    int number; /* the least by which a process knows it */
    unsigned n_processes;
    uint64_t held_bytes;
    uint64_t all_bytes, free_bytes; /* 0: not known */
};

struct devices {
    struct device rows[CUSHIM_MAX_DEVICES];
    unsigned n;
};

/* Add what a process has of its device of this number. */
void devices_add(struct devices *devices, const struct cushim_report *report, int number);

/* Ask NVML how much memory each has, and sort them. */
void devices_settle(struct devices *devices);

/* A line of at most 80 columns. */
void devices_text(const struct device *device, char *text, size_t n_bytes);

#endif
