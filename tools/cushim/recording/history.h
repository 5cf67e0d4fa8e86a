/*
 * The history of a recording: live and held memory, the sites that held it at some moments, marks
 * and copies.  Everything is bounded, however long the recording is.
 */
#pragma once

#include "report/page.h"
#include "tools/cushim/recording/map.h"

enum {
    HISTORY_BUCKETS = 2048, /* equal parts of the run */
    HISTORY_MOMENTS = 256,
    HISTORY_LEAST_MOMENTS = 16,
    HISTORY_REFUSALS = 8, /* moments of the first requests that found no memory */
    HISTORY_MAPS = 48,
    HISTORY_SHARES = 250, /* the largest sites of each moment */
    HISTORY_MARKS = 500,
    HISTORY_COPIES = 24,
    HISTORY_TEXT_BYTES = 64
};

/* Live bytes were between `least`, which is also there by kind, and `most`; `held` is the highest
 * value. */
struct history_bucket {
    uint64_t least, most, held, of_kinds[CUSHIM_N_KINDS];
};

/* The bytes of a site.  If sites are joined later, `number` identifies the joined one. */
struct history_share {
    const struct cushim_trace_site *site;
    uint64_t n_bytes;
};

struct history_moment {
    uint64_t ns;
    bool is_peak;
    struct map map;      /* held_bytes is 0 if it was not made */
    uint64_t rest_bytes; /* of sites that are not in shares */
    size_t n;
    struct history_share *shares;
};

/* The program named a moment, or a request found no memory. */
struct history_mark {
    uint64_t ns, n_bytes;
    const struct cushim_trace_site *site; /* of the request; NULL for a mark */
    char text[HISTORY_TEXT_BYTES];
};

struct history_copies {
    bool is_to_host, is_by_driver;
    char why[HISTORY_TEXT_BYTES];
    uint64_t n, n_timed, n_bytes, timed_bytes, ns;
};

struct recording_scope;

struct history {
    const struct recording_scope *scope;
    unsigned most_moments;
    struct history_bucket buckets[HISTORY_BUCKETS];
    unsigned n_buckets;
    struct history_bucket now, peak; /* at a moment */
    uint64_t kinds; /* bits: those of a device that were live, if there were several */
    bool has_peak;
    uint64_t changed_ns, next_ns; /* live bytes have not changed since changed_ns; the next moment
                                     is due at next_ns */
    bool is_changed;              /* since the last moment */
    struct history_moment moments[HISTORY_MOMENTS + 2 + HISTORY_REFUSALS];
    unsigned n_moments, n_refusals, n_even;
    struct history_mark marks[HISTORY_MARKS];
    unsigned n_marks;
    uint64_t n_more_marks;
    struct history_copies copies[HISTORY_COPIES];
    unsigned n_copies;
    int error;
};

/* Begin the history of a scope, with at most this many moments, and no fewer than
 * HISTORY_LEAST_MOMENTS. */
void history_begin(struct history *history, const struct recording_scope *scope,
                   unsigned most_moments);

/* Called before the account takes an event in, as its `foresee`. */
void history_foresee(const struct cushim_trace_account *account, void *history);

/* Called after the account took an event in. */
void history_see(struct history *history, const struct cushim_trace_account *account);

/* Called at the end. */
void history_end(struct history *history, const struct cushim_trace_account *account);

void history_free(struct history *history);
