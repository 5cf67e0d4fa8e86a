/*
 * Reads recordings, as files or folders of files, and the scopes of each.
 */
#pragma once

#include "tools/cushim/recording/names.h"

/* The files of a recording, in the order of their names. */
struct recording_files {
    char **paths;
    size_t n;
};

/* Find the files.  In a folder these end in .trace, and there may be none.  Returns 0 or an
 * errno. */
int recording_files(struct recording_files *files, const char *path);
/* Add those of another recording. */
int recording_files_add(struct recording_files *files, const char *path);
void recording_files_free(struct recording_files *files);

/* An errno of a recording that cannot be read, in words. */
const char *recording_error(int error);

/* Memory whose blocks are reported together: of one device, pinned memory of all, or what others
 * made and have in their sums. */
enum {
    RECORDING_PINNED = -1,
    RECORDING_IMPORTED = -2,
    RECORDING_SCOPES = CUSHIM_TRACE_DEVICES + 2
};

struct recording_scope {
    int device;
    uint64_t devices, kinds;
    uint64_t n_events, n_start, run_ns; /* of the recording; n_start: see account.h */
    uint64_t until_ns;                  /* reading stops behind this time; 0 to read all */
    uint64_t n_requests, n_hits, n_live, live_bytes, peak_bytes, peak_held_bytes, peak_ns, wait_ns,
        n_waits;
    uint64_t n_refused, n_calls;     /* calls of the driver for memory */
    uint64_t n_before, before_bytes; /* lived before it began */
};

static inline bool recording_scope_has(const struct recording_scope *scope, unsigned device,
                                       unsigned kind) {
    return scope->devices >> device & scope->kinds >> kind & 1;
}

/* The number of the scope that has a kind of memory of a device. */
unsigned recording_scope_of(unsigned device, unsigned kind);

/* Does the site have anything of the scope? */
static inline bool recording_has_site(const struct cushim_trace_site *site) {
    return site->n_requests || site->n_noted || site->n_live;
}

/* A recording that was read to its end.  Its sites have what is in the scope. */
struct recording {
    struct cushim_trace_account account;
    struct names *names;
    struct {
        uint64_t n_bytes; /* 0: unknown */
        char name[64];
    } devices[CUSHIM_TRACE_DEVICES];
};

/* Find the scopes that have requests or blocks.  Returns their number, or minus an errno. */
int recording_scopes(const char *path, struct recording_scope scopes[RECORDING_SCOPES]);

struct history;

/* Read all of it.  Sites note what they have at the scope's peak, and whether they grow.  Returns 0
 * or an errno.  `history` may be NULL. */
int recording_read(struct recording *recording, const char *path,
                   const struct recording_scope *scope, struct history *history);

/* Called for scope number i of n.  If the recording has no requests, n is 0 and the scope is
 * NULL. */
typedef int recording_see_fn(void *context, struct recording *recording,
                             const struct recording_scope *scope, int i, int n);

/* Read a recording once for each scope that has requests.  Its histories have most_moments
 * together; `history` may be NULL.  Returns 0 or an errno; `see` may end the reading with one. */
int recording_each_scope(const char *path, struct history *history, unsigned most_moments,
                         recording_see_fn *see, void *context);
void recording_close(struct recording *recording);

/* When the process, or its recording, ended; now if it still runs, and the last event if its end is
 * unknown. */
uint64_t recording_end_ns(const struct cushim_trace_account *account);

/* The bytes of a scope after the last event of the account. */
uint64_t recording_live_bytes(const struct cushim_trace_account *account,
                              const struct recording_scope *scope);
uint64_t recording_held_bytes(const struct cushim_trace_account *account,
                              const struct recording_scope *scope);

/* "device 0", "pinned memory", "imported memory". */
const char *recording_scope_name(const struct recording_scope *scope, char text[32]);
