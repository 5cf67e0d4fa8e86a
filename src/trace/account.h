/*
 * The account of a recording: which blocks are live, to which site they belong, and what each site
 * and each place has, event by event.
 *
 * An allocation adds a block.  Each block that ends is reported as a FREE, also if the recording
 * has none: when the context of its heap ended, or when its address is allocated again.  So the
 * reader of an account can pair allocations and frees without a table of its own.
 */
#pragma once

#include "trace/mapped.h"
#include "trace/reader.h"

enum { CUSHIM_TRACE_DEVICES = 64, CUSHIM_TRACE_KINDS = 12, CUSHIM_TRACE_SAMPLES = 32 };

/* A site: one call stack that asked for memory.  Number 0 is for requests without a stack. */
struct cushim_trace_site {
    uint64_t number;            /* from 1, in the order of appearance */
    unsigned n_frames, n_label; /* n_label: a reader's own */
    unsigned kind;              /* of its last block */
    uint64_t frames[CUSHIM_TRACE_FRAMES];
    uint64_t n_requests, requested_bytes; /* of all requests */
    uint64_t n_live, live_bytes;
    uint64_t n_frees, life_ns;                   /* of blocks that were freed */
    uint64_t n_temporary;                        /* freed before the same thread asked again */
    uint64_t n_waits, wait_ns;                   /* of frees of its blocks */
    uint64_t n_refused;                          /* requests that found no memory */
    uint64_t n_noted, noted_bytes;               /* cushim_trace_account_note */
    uint64_t oldest_ns;                          /* cushim_trace_account_date */
    uint64_t sample_bytes[CUSHIM_TRACE_SAMPLES]; /* live; cushim_trace_account_sample */
    bool grows;                                  /* for a reader: cushim_site_grows, */
    uint64_t hour_bytes;                         /* and by how much in an hour */
};

/* A block, and the time of its request. */
struct cushim_trace_block {
    uint64_t address, n_bytes, time_ns, pool, thread;
    uint64_t request; /* of its thread, from 1; 0: it lived before the recording */
    unsigned device, kind;
    struct cushim_trace_site *site;
    uint64_t own; /* a reader's; 0 at first */
};

/* Memory that the recorded process has from the driver. */
struct cushim_trace_segment {
    uint64_t base, n_bytes, pool;
    unsigned device, kind;
};

/* The sums of a kind of memory of a device. */
struct cushim_trace_sums {
    uint64_t n_requests, n_hits, n_native, n_frees, n_refused, requested_bytes;
    uint64_t n_live, live_bytes, peak_live_bytes, peak_ns;
    uint64_t held_bytes, peak_held_bytes; /* of segments, and of blocks that the driver serves */
    uint64_t n_waits, wait_ns;
    uint64_t n_calls;                /* of the driver, for blocks that it serves */
    uint64_t n_moves;                /* of segments, to and from the driver */
    uint64_t n_before, before_bytes; /* that lived before the recording */
};

struct cushim_trace_account {
    struct cushim_trace_reader reader;
    /* Only blocks of these devices and kinds count for sites; a reader may narrow it before the
     * first event. */
    uint64_t devices, kinds; /* bits */
    uint64_t until_ns;       /* events from the first later one on are skipped; 0: none are */
    int error;               /* an errno: reading ended before the recording did */
    /* Called for each recorded event before it changes the account.  NULL: not called. */
    void (*foresee)(const struct cushim_trace_account *account, void *context);
    void *foresee_context;

    /* The last event that was accounted, and the block of an ALLOC or a FREE.  The site is that of
     * the block, or of a REFUSE. */
    struct cushim_trace_event event;
    uint64_t writer;
    bool is_guessed; /* a FREE that was not recorded */
    struct cushim_trace_block block;
    struct cushim_trace_site *site;

    struct cushim_trace_sums sums[CUSHIM_TRACE_DEVICES][CUSHIM_TRACE_KINDS];
    uint64_t first_ns, last_ns, n_events;
    uint64_t n_start; /* of these, up to the last that says what lived before */
    uint64_t sample_ns[CUSHIM_TRACE_SAMPLES];
    uint64_t n_foreign;               /* frees of blocks whose request was not recorded */
    uint64_t n_disorder;              /* addresses that were allocated while they were live */
    uint64_t n_strange;               /* events that are impossible */
    struct cushim_trace_site **sites; /* by number, until a reader sorts them */
    size_t n_sites;
    struct cushim_trace_tables *tables;
};

/* From the first event to a moment. */
static inline uint64_t cushim_trace_account_since(const struct cushim_trace_account *account,
                                                  uint64_t ns) {
    return ns > account->first_ns ? ns - account->first_ns : 0;
}

/* When the process, or its recording, ended; the last event if that is unknown. */
uint64_t cushim_trace_account_end_ns(const struct cushim_trace_account *account);

/* 0, or an errno as cushim_trace_reader_open has it. */
int cushim_trace_account_open(struct cushim_trace_account *account, const char *path);

/* Account the next event.  False: there are no more, or `error` has the reason. */
bool cushim_trace_account_next(struct cushim_trace_account *account);

/* Keep what each site has now as `noted`, or as its sample number `i`. */
void cushim_trace_account_note(struct cushim_trace_account *account);
void cushim_trace_account_sample(struct cushim_trace_account *account, unsigned i);

/* The live block at an address, in which a reader may write `own`; NULL: there is none. */
struct cushim_trace_block *cushim_trace_account_live(const struct cushim_trace_account *account,
                                                     uint64_t address);

/* Visit each live block, or each segment, in no order. */
void cushim_trace_account_each(const struct cushim_trace_account *account,
                               void (*tell)(const struct cushim_trace_block *block, void *context),
                               void *context);
typedef void cushim_trace_segment_fn(const struct cushim_trace_segment *segment, void *context);
void cushim_trace_account_each_segment(const struct cushim_trace_account *account,
                                       cushim_trace_segment_fn *tell, void *context);

/* Set for each site when the oldest of its live blocks was requested. */
void cushim_trace_account_date(struct cushim_trace_account *account);

/* The module that contains a frame, and the place in its file; NULL if none does. */
const struct cushim_trace_module *
cushim_trace_account_module(const struct cushim_trace_account *account, uint64_t frame,
                            uint64_t *offset);

void cushim_trace_account_close(struct cushim_trace_account *account);
