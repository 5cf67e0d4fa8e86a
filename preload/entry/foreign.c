#include "preload/entry/foreign.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "preload/entry/device_limit.h"

struct row {
    struct cushim_foreign native;
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;

static struct row *find(uint64_t address) {
    struct row *row;
    HASH_FIND(hh, rows, &address, sizeof address, row);
    return row;
}

static void enter(const struct cushim_foreign *native) {
    struct row *row = malloc(sizeof *row);
    if (!row)
        return;
    row->native = *native;
    pthread_mutex_lock(&lock);
    struct row *stale = find(native->address); /* freed in a way that we do not see */
    if (stale) {
        HASH_DEL(rows, stale);
        cushim_mem_stats_subtract(&stale->native.stats->live_bytes, stale->native.n_bytes);
        cushim_device_limit_note(stale->native.stats, stale->native.n_bytes, false);
    }
    HASH_ADD(hh, rows, native.address, sizeof row->native.address, row);
    bool is_entered = find(native->address) != NULL;
    pthread_mutex_unlock(&lock);
    free(stale);
    if (!is_entered) {
        free(row);
        return;
    }
    cushim_mem_stats_grow_live(native->stats, native->n_bytes);
    cushim_device_limit_note(native->stats, native->n_bytes, true);
}

void cushim_foreign_record(const struct cushim_foreign *native) {
    cushim_mem_stats_add(&native->stats->n_requests, 1);
    cushim_mem_stats_add(&native->stats->n_natively, 1);
    cushim_mem_stats_add(&native->stats->requested_bytes, native->n_bytes);
    cushim_process_note_use();
    enter(native);
}

void cushim_foreign_restore(const struct cushim_foreign *native) {
    enter(native);
}

bool cushim_foreign_erase(uint64_t address, struct cushim_foreign *native) {
    pthread_mutex_lock(&lock);
    struct row *row = find(address);
    if (row)
        HASH_DEL(rows, row);
    pthread_mutex_unlock(&lock);
    if (!row)
        return false;
    *native = row->native;
    free(row);
    cushim_mem_stats_subtract(&native->stats->live_bytes, native->n_bytes);
    cushim_device_limit_note(native->stats, native->n_bytes, false);
    return true;
}

void cushim_foreign_count_free(const struct cushim_foreign *native) {
    cushim_mem_stats_add(&native->stats->n_frees, 1);
}

static void drop(CUcontext context, bool is_all) {
    struct row *row, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, rows, row, next) {
        if (row->native.context != context && !is_all)
            continue;
        HASH_DEL(rows, row);
        cushim_mem_stats_subtract(&row->native.stats->live_bytes, row->native.n_bytes);
        cushim_device_limit_note(row->native.stats, row->native.n_bytes, false);
        free(row);
    }
    pthread_mutex_unlock(&lock);
}

void cushim_foreign_drop(CUcontext context) {
    if (context)
        drop(context, false);
}

void cushim_foreign_drop_all(void) {
    drop(NULL, true);
}
