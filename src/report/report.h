/*
 * The report: the counters of a page, for people and for programs.
 *
 * It reads nothing of the process but its page.  A function adds to the JSON what only the process
 * itself knows.
 */
#pragma once

#include "base/writer.h"
#include "report/page.h"

enum { CUSHIM_REPORT_LINE_BYTES = 128 };

/* Name the function of a frame, and its line in the source: "FILE:88"; each is "" if unknown.
 * False: the line is unknown. */
typedef bool cushim_report_find_line_fn(const struct cushim_page_frame *frame,
                                        char function[CUSHIM_REPORT_LINE_BYTES],
                                        char line[CUSHIM_REPORT_LINE_BYTES]);

struct cushim_report {
    struct cushim_page page; /* a copy, whose rows include what the caches of threads counted */
    const struct cushim_page_sites *sites; /* NULL: not wanted; others may write them meanwhile */
    const struct cushim_page_calls *calls; /* page_calls.h; as the sites */
    uint64_t run_ns;
    bool is_run_longer; /* it may have run for longer than run_ns: its end is not known */
    bool is_of_page;    /* read from its file, and not by the process itself */
    uint64_t suspended_ns, suspended_bytes; /* for how long, and what is in host memory; 0: not */
    const char *ended; /* how, in words; NULL: it runs, or writes the report itself */
    cushim_report_find_line_fn *find_line; /* NULL: frames stay names and offsets */
    uint64_t n_short; /* other processes that found no memory where this one has some idle */
    void (*put_json)(struct cushim_writer *out); /* whole members, a comma after each; or NULL */
};

/* For people: at most 80 columns, with units and one verdict at the end.  The title is the first
 * line. */
void cushim_report_title(struct cushim_writer *out, const struct cushim_report *report);
void cushim_report_text(struct cushim_writer *out, const struct cushim_report *report);

/* Write a line about a number of findings; false: there are none, and no line. */
bool cushim_report_put_finding(struct cushim_writer *out, uint64_t n, const char *one,
                               const char *many);

/* Parts of it: the findings, and the last requests that found no memory.  False: there is none. */
bool cushim_report_findings_text(struct cushim_writer *out, const struct cushim_report *report);
bool cushim_report_shortages_text(struct cushim_writer *out, const struct cushim_report *report);

/* For programs: one JSON object, whose first field names its schema (docs/schema/report-1.json). A
 * new field does not change its number; a field that goes or changes its meaning does. */
#define CUSHIM_REPORT_SCHEMA "cushim-report/1"
void cushim_report_json(struct cushim_writer *out, const struct cushim_report *report);

/* ---- shared by both ---- */

/* The counters of struct cushim_mem_stats that are findings: name, field, text after a count of one
 * and of several. */
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

/* The counters of a kind, including those of the threads' caches. */
static inline const struct cushim_mem_stats *
cushim_report_stats(const struct cushim_report *report, int device, enum cushim_kind kind) {
    return &report->page.stats[device][kind];
}

/* Was this kind of memory requested on this device? */
bool cushim_report_has(const struct cushim_report *report, int device, enum cushim_kind kind);
bool cushim_report_has_device(const struct cushim_report *report, int device);

/* The first of such devices behind this one, which is -1 at first; -1: there is none. */
int cushim_report_next_device(const struct cushim_report *report, int device);

/*
 * The held bytes, in parts that add up to them.  The counters are read one after the other while
 * others write, so a part is cut if the parts before it leave less, and the sum is exact.
 */
struct cushim_report_held {
    uint64_t live_bytes, rounding_bytes, spare_bytes, idle_bytes, held_bytes;
};
struct cushim_report_held cushim_report_held(const struct cushim_mem_stats *stats);

/* This much idle device memory is worth a word. */
#define CUSHIM_REPORT_MUCH_IDLE_BYTES ((uint64_t)1 << 30)
uint64_t cushim_report_idle_bytes(const struct cushim_report *report, int device);

/* By how much live blocks are larger than requested. */
uint64_t cushim_report_rounding_bytes(const struct cushim_mem_stats *stats);

/* The sum of a counter over all devices for one kind or for all, or over the kinds of memory that
 * this process has on a device. */
#define cushim_report_sum(report, kind, field)                                                     \
    cushim_report_sum_of(report, -1, 1u << (kind), offsetof(struct cushim_mem_stats, field))
#define cushim_report_sum_all(report, field)                                                       \
    cushim_report_sum_of(report, -1, ~0u, offsetof(struct cushim_mem_stats, field))
#define cushim_report_sum_device(report, device, field)                                            \
    cushim_report_sum_of(report, device, CUSHIM_KINDS_ON_DEVICE,                                   \
                         offsetof(struct cushim_mem_stats, field))
uint64_t cushim_report_sum_of(const struct cushim_report *report, int device, unsigned kinds,
                              size_t counter);

/* The first of several texts (page.h) and the one behind `text`; NULL: there is none. */
const char *cushim_report_next_text(const char *texts, uint64_t n_bytes, const char *text);

/* "HEAD: TEXT" in lines of at most 80 columns. */
void cushim_report_put_folded(struct cushim_writer *out, const char *head, const char *text);

/* The value of an option that was set, spelled as `cushim run` takes it; NULL if it was not set. */
const char *cushim_report_option(const struct cushim_page_head *head, const char *name);

/* "GPU-01234567-89ab-...": as nvidia-smi spells it; "" if unknown. */
enum { CUSHIM_REPORT_UUID_BYTES = 41 };
const char *cushim_report_uuid(char text[CUSHIM_REPORT_UUID_BYTES], const unsigned char uuid[16]);

/* The time from the start of the process to a moment. */
uint64_t cushim_report_since(const struct cushim_report *report, uint64_t ns);

/* A text as JSON, with its quotes, whatever bytes it contains. */
void cushim_report_put_string(struct cushim_writer *out, const char *text);
