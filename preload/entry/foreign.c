#include "preload/entry/foreign.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Keys have 8 bytes, addresses and handles; one product mixes them well enough. */
#define HASH_FUNCTION(key, n_bytes, hash)                                                          \
    do {                                                                                           \
        uint64_t word_;                                                                            \
        memcpy(&word_, (key), sizeof word_);                                                       \
        (hash) = (unsigned)(word_ * 0x9e3779b97f4a7c15u >> 32);                                    \
    } while (0)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/backtrace.h"
#include "base/clock.h"
#include "base/lock.h"
#include "preload/entry/device_limit.h"
#include "preload/observe/shortage.h"
#include "preload/observe/sites.h"
#include "preload/observe/tracing.h"
#include "preload/state/contexts.h"

struct row {
    struct cushim_foreign foreign;
    UT_hash_handle hh;
};

#define ONE                                                                                        \
    { .lock = PTHREAD_MUTEX_INITIALIZER }
#define FOUR    ONE, ONE, ONE, ONE
#define SIXTEEN FOUR, FOUR, FOUR, FOUR

/* An address decides the shard, so that threads seldom meet.  Unused rows are kept for later. */
enum { SHARDS = 64 };

static struct shard {
    _Alignas(64) pthread_mutex_t lock;
    struct row *rows, *spares; /* the second a list by hh.next */
} shards[SHARDS] = {SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN};

static struct shard *shard_of(uint64_t address) {
    enum { LOG2_GRAIN = 9, LOG2_SHARDS = 6 };
    return &shards[(address >> LOG2_GRAIN) * 0x9e3779b97f4a7c15u >> (64 - LOG2_SHARDS)];
}

static struct row *find(const struct shard *shard, uint64_t address) {
    struct row *row;
    HASH_FIND(hh, shard->rows, &address, sizeof address, row);
    return row;
}

/* The caller holds the lock. */
static struct row *take_spare(struct shard *shard) {
    struct row *row = shard->spares;
    if (!row)
        return malloc(sizeof *row);
    shard->spares = row->hh.next;
    return row;
}

static void spare(struct shard *shard, struct row *row) {
    row->hh.next = shard->spares;
    shard->spares = row;
}

/* Pinned memory belongs to no device, managed memory stays on none, imported memory is charged to
 * the process that made it, and nobody asked for what contexts take. */
static void charge(const struct cushim_foreign *foreign, bool is_there) {
    size_t place = (size_t)(foreign->stats - &cushim_page.stats[0][0]);
    bool is_spilled = foreign->kind == CUSHIM_KIND_SPILLED;
    if (is_spilled ||
        (cushim_kind_is_on_device(foreign->kind) && foreign->kind != CUSHIM_KIND_MANAGED &&
         foreign->kind != CUSHIM_KIND_CONTEXT))
        cushim_device_limit_charge((int)(place / CUSHIM_N_KINDS), is_spilled, foreign->n_bytes,
                                   is_there);
}

/* Sites are places that ask for memory. */
static bool has_site(const struct cushim_foreign *foreign) {
    return foreign->kind < CUSHIM_KIND_IMPORTED;
}

static void count_gone(const struct cushim_foreign *foreign) {
    struct cushim_mem_stats *stats = foreign->stats;
    cushim_mem_stats_subtract(&stats->live_bytes, foreign->n_bytes);
    cushim_mem_stats_subtract(&stats->block_bytes, foreign->n_bytes);
    cushim_mem_stats_subtract(&stats->held_bytes, foreign->n_bytes);
    charge(foreign, false);
    if (cushim_process.is_watched) {
        if (foreign->recording == cushim_tracing_number())
            cushim_tracing_free(foreign->stats, NULL, foreign->address);
        if (has_site(foreign))
            cushim_sites_free(NULL, foreign->address);
    }
}

/* Returns the recording that will have it. */
static unsigned enter(const struct cushim_foreign *foreign) {
    struct shard *shard = shard_of(foreign->address);
    pthread_mutex_lock(&shard->lock);
    struct row *row = find(shard, foreign->address);
    if (row) { /* it was freed in a way that we do not see */
        count_gone(&row->foreign);
        HASH_DEL(shard->rows, row);
    } else {
        row = take_spare(shard);
    }
    bool is_entered = false;
    unsigned recording = 0;
    if (row) {
        row->foreign = *foreign;
        row->foreign.recording = recording = cushim_tracing_number();
        HASH_ADD(hh, shard->rows, foreign.address, sizeof row->foreign.address, row);
        is_entered = row->hh.tbl; /* NULL if uthash was out of memory */
        if (!is_entered)
            spare(shard, row);
    }
    pthread_mutex_unlock(&shard->lock);
    if (!is_entered)
        return 0;
    cushim_mem_stats_grow_held(foreign->stats, foreign->n_bytes);
    cushim_mem_stats_add(&foreign->stats->block_bytes, foreign->n_bytes);
    cushim_mem_stats_grow_live(foreign->stats, foreign->n_bytes);
    charge(foreign, true);
    return recording;
}

void cushim_foreign_record(const struct cushim_foreign *foreign) {
    size_t place = (size_t)(foreign->stats - &cushim_page.stats[0][0]);
    if (!cushim_mem_stats_read(&foreign->stats->n_requests) &&
        cushim_kind_is_on_device(foreign->kind) && cushim_driver())
        cushim_contexts_note_device(cushim_driver(), (int)(place / CUSHIM_N_KINDS));
    cushim_mem_stats_add(&foreign->stats->n_requests, 1);
    cushim_mem_stats_add(foreign->is_hit ? &foreign->stats->n_hits : &foreign->stats->n_natively,
                         1);
    cushim_mem_stats_add(&foreign->stats->requested_bytes, foreign->n_bytes);
    cushim_process_note_use();
    cushim_shortage_served(foreign->stats, foreign->n_bytes);
    if (enter(foreign))
        cushim_tracing_alloc(foreign->stats, NULL, foreign->address, foreign->n_bytes,
                             foreign->is_hit);
    if (cushim_process.is_watched && has_site(foreign))
        cushim_sites_alloc(NULL, foreign->address, foreign->n_bytes,
                           foreign->kind == CUSHIM_KIND_SPILLED);
}

size_t cushim_foreign_bytes(uint64_t address) {
    struct shard *shard = shard_of(address);
    CUSHIM_LOCKED(&shard->lock);
    const struct row *row = find(shard, address);
    return row ? row->foreign.n_bytes : 0;
}

void cushim_foreign_restore(const struct cushim_foreign *foreign) {
    if (enter(foreign))
        cushim_tracing_lives(foreign->stats, NULL, foreign->address, foreign->n_bytes, NULL,
                             cushim_clock_ns());
}

bool cushim_foreign_erase(uint64_t address, struct cushim_foreign *foreign) {
    struct shard *shard = shard_of(address);
    pthread_mutex_lock(&shard->lock);
    struct row *row = find(shard, address);
    if (row) {
        *foreign = row->foreign;
        HASH_DEL(shard->rows, row);
        spare(shard, row);
    }
    pthread_mutex_unlock(&shard->lock);
    if (row)
        count_gone(foreign);
    return row;
}

void cushim_foreign_count_free(const struct cushim_foreign *foreign) {
    cushim_mem_stats_add(&foreign->stats->n_frees, 1);
}

void cushim_foreign_gone(uint64_t address) {
    struct cushim_foreign foreign;
    if (cushim_foreign_erase(address, &foreign))
        cushim_foreign_count_free(&foreign);
}

/* What is of the context, or has these counters; of neither: all. */
static void drop(CUcontext context, const struct cushim_mem_stats *stats) {
    bool is_all = !context && !stats;
    for (struct shard *shard = shards; shard < shards + SHARDS; shard++) {
        struct row *row, *next;
        CUSHIM_LOCKED(&shard->lock);
        HASH_ITER(hh, shard->rows, row, next) {
            bool is_of_context = context && row->foreign.context == context;
            if (!is_all && !is_of_context && row->foreign.stats != stats)
                continue;
            HASH_DEL(shard->rows, row);
            count_gone(&row->foreign);
            spare(shard, row);
        }
    }
}

void cushim_foreign_drop(CUcontext context) {
    if (context)
        drop(context, NULL);
}

void cushim_foreign_drop_counted(const struct cushim_mem_stats *stats) {
    drop(NULL, stats);
}

void cushim_foreign_tell_start(void) {
    unsigned recording = cushim_tracing_number();
    for (unsigned i = 0; i < SHARDS; i++) {
        struct row *row, *next;
        CUSHIM_LOCKED(&shards[i].lock);
        HASH_ITER(hh, shards[i].rows, row, next) {
            struct cushim_foreign *foreign = &row->foreign;
            struct cushim_backtrace stack;
            if (foreign->recording == recording)
                continue;
            foreign->recording = recording;
            cushim_tracing_lives(foreign->stats, NULL, foreign->address, foreign->n_bytes,
                                 cushim_sites_stack(foreign->address, &stack) ? &stack : NULL,
                                 cushim_clock_ns());
        }
    }
}

void cushim_foreign_drop_all(void) {
    drop(NULL, NULL);
}
