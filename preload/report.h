/*
 * The exit report, from our own counters alone: no CUDA call, nothing torn down (HOOKS.md D6).
 */
#ifndef CUSHIM_PRELOAD_REPORT_H
#define CUSHIM_PRELOAD_REPORT_H

#include "preload/copy.h"
#include "preload/writer.h"

/* For people: aligned, with units, one verdict line last. */
void cushim_report_text(struct cushim_writer *out);

/* For programs: one JSON object. */
void cushim_report_json(struct cushim_writer *out);

/* ---- what both are made of ---- */

/* The counters of struct cushim_mem_stats that are findings: name, field, text behind the count. */
#define CUSHIM_REPORT_FINDINGS(X)                                                                  \
    X(double_frees, n_double_frees, "freed twice, or never allocated")                             \
    X(interior_frees, n_interior_frees, "freed inside a block, not at its start")                  \
    X(overruns, n_overruns, "copies or sets that left their block")                                \
    X(uses_after_free, n_uses_after_free, "copies or sets that touched freed memory")

const char *cushim_report_kind(enum cushim_kind kind);
const char *cushim_report_direction(enum cushim_direction direction);

/* Read all counters: what the functions below answer from.  One thread, before any of them. */
void cushim_report_begin(void);

/* The counters of a kind as they were then, those of the threads' caches included. */
const struct cushim_mem_stats *cushim_report_stats(int device, enum cushim_kind kind);

/* Was this kind of memory asked for on this device? */
bool cushim_report_has(int device, enum cushim_kind kind);
bool cushim_report_has_device(int device);

/* Of live blocks: what was cut for them beyond what was asked. */
uint64_t cushim_report_waste_bytes(const struct cushim_mem_stats *stats);

/* Findings over all devices: cushim_report_sum_double_frees() and its like. */
#define CUSHIM_REPORT_SUM(name, field, text) uint64_t cushim_report_sum_##name(void);
CUSHIM_REPORT_FINDINGS(CUSHIM_REPORT_SUM)
#undef CUSHIM_REPORT_SUM

/*
 * What the process's device allocations and frees would have cost natively, waits for the device
 * aside: an estimate, from the driver calls that we made ourselves, capped at what such a call
 * typically takes.
 */
uint64_t cushim_report_native_estimate_ns(int device);

#endif
