/*
 * The exit report, from our own counters alone: no CUDA call, nothing torn down (HOOKS.md D6).
 */
#ifndef CUSHIM_PRELOAD_REPORT_H
#define CUSHIM_PRELOAD_REPORT_H

#include "preload/entry/copy_check.h"
#include "base/writer.h"

/* For people: aligned, with units, one verdict line last. */
void cushim_report_text(struct cushim_writer *out);

/* For programs: one JSON object, whose first field names its schema.  New fields keep the number;
 * one whose meaning changes, or that goes, raises it. */
#define CUSHIM_REPORT_SCHEMA "cushim-report/1"
void cushim_report_json(struct cushim_writer *out);

/* For the log, at level info: what was asked for, and what of it was pooled. */
void cushim_report_tell(void);

/* ---- what both are made of ---- */

/* The counters of struct cushim_mem_stats that are findings: name, field, text behind the count of
 * one and of several. */
#define CUSHIM_REPORT_FINDINGS(X)                                                                  \
    X(double_frees, n_double_frees, "free of memory already freed, or never allocated",            \
      "frees of memory already freed, or never allocated")                                         \
    X(interior_frees, n_interior_frees, "free inside a block, not at its start",                   \
      "frees inside a block, not at its start")                                                    \
    X(overruns, n_overruns, "copy or set that left its block",                                     \
      "copies or sets that left their block")                                                      \
    X(uses_after_free, n_uses_after_free, "copy or set that touched freed memory",                 \
      "copies or sets that touched freed memory")

const char *cushim_report_kind(enum cushim_kind kind);
const char *cushim_report_direction(enum cushim_direction direction);

/* Read all counters: what the functions below answer from.  One thread, before any of them. */
void cushim_report_begin(void);

/* The counters of a kind as they were then, those of the threads' caches included. */
const struct cushim_mem_stats *cushim_report_stats(int device, enum cushim_kind kind);

/* Was this kind of memory asked for on this device? */
bool cushim_report_has(int device, enum cushim_kind kind);
bool cushim_report_has_device(int device);

/* Of live blocks: what they are larger than was asked. */
uint64_t cushim_report_rounding_bytes(const struct cushim_mem_stats *stats);

/* Findings over all devices: cushim_report_sum_double_frees() and its like. */
#define CUSHIM_REPORT_SUM(name, field, one, many) uint64_t cushim_report_sum_##name(void);
CUSHIM_REPORT_FINDINGS(CUSHIM_REPORT_SUM)
#undef CUSHIM_REPORT_SUM

/* What all devices have of a counter of one kind. */
#define cushim_report_sum(kind, field)                                                             \
    cushim_report_sum_at(kind, offsetof(struct cushim_mem_stats, field))
uint64_t cushim_report_sum_at(enum cushim_kind kind, size_t counter);

/* The calls of cuMemCreate that the driver served, and their bytes: of one device, or of all. */
struct cushim_report_virtual {
    uint64_t n_requests, requested_bytes;
};
struct cushim_report_virtual cushim_report_virtual(int device);
struct cushim_report_virtual cushim_report_virtual_sum(void);

#endif
