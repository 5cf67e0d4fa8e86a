/*
 * Devices as live pages see them, and NVML if it is installed.
 */
#pragma once

#include "report/report.h"

/* One device, as pages and NVML see it. */
struct device {
    char uuid[CUSHIM_REPORT_UUID_BYTES]; /* "" if unknown; the number then identifies the device */
    char name[CUSHIM_NAME_BYTES];
    int number; /* the smallest of its numbers in all processes */
    unsigned n_processes;
    uint64_t held_bytes;
    uint64_t all_bytes, free_bytes; /* 0 if not known */
};

struct devices {
    struct device rows[CUSHIM_MAX_DEVICES];
    unsigned n;
};

/* Add what a process holds of the device that it knows by this number. */
void devices_add(struct devices *devices, const struct cushim_report *report, int number);

/* Ask NVML for the memory of each device, and sort them. */
void devices_settle(struct devices *devices);

/* Ask NVML how much each device has left; returns their number, 0 without NVML.  The devices have
 * NVML's numbers. */
unsigned devices_free(uint64_t free_bytes[CUSHIM_MAX_DEVICES]);

/* Ask NVML which processes hold memory of a device; returns their number, 0 if there is no such
 * device. */
enum { DEVICES_MOST_PROCESSES = 256 };
struct device_process { /* as NVML has it */
    unsigned process;
    unsigned long long n_bytes; /* 0 if not known */
    unsigned instances[2];
};
unsigned devices_processes(unsigned number,
                           struct device_process processes[DEVICES_MOST_PROCESSES]);

/* What NVML says that a process has of a device, or of all if that is -1, beyond its own account.
 * 0: nothing, or NVML does not say.  It is asked once about each device; devices_ask_again begins
 * the next look. */
void devices_ask_again(void);
uint64_t devices_unaccounted_bytes(const struct cushim_report *report, int device);

/* A line of at most 80 columns. */
void devices_text(const struct device *device, char *text, size_t n_bytes);
