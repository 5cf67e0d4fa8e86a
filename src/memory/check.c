#include "memory/check.h"

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#include "base/lock.h"
#include "base/try.h"
#include "memory/reclaim.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"
#include "memory/free.h"
#include "memory/heap.h"

enum {
    N_GUARD = CUSHIM_MEM_GUARD_BYTES,
    GUARD = 0xfa,                         /* in a guard */
    FRESH = 0xff,                         /* in fresh memory; as a float it is NaN */
    DEAD = 0xdb,                          /* in freed memory */
    PIECE_BYTES = 16 << 10,               /* read at a time, onto the caller's stack */
    N_LOOK = PIECE_BYTES / (2 * N_GUARD), /* blocks whose guards are read with one wait */
    SET_BYTES = 64 << 20                  /* set at a time */
};

/* How long one wait may take, for at most SET_BYTES.  So a device is given up when it makes no
 * progress, because a kernel that fills it may run for ever, and not because it is slow. */
static const uint64_t patience_ns = 1000000000;

struct cushim_mem_check_row {
    uint64_t address;
    size_t n_bytes;
    uint64_t serial; /* tells blocks at one address apart */
    struct cushim_mem_heap *heap;
    uint64_t life;
    bool is_freed;
    bool is_told; /* its guards are known to be damaged */
    struct cushim_backtrace obtained, freed;
    struct cushim_mem_check_row *before, *next; /* among the live ones, or in quarantine */
    /* once freed */
    struct cushim_mem_blockref ref;
    UT_hash_handle hh;
};

/* ---- rows, under the lock ---- */

static struct cushim_mem_check_row *find(struct cushim_mem_check *check, uint64_t address) {
    struct cushim_mem_check_row *row;
    HASH_FIND(hh, check->rows, &address, sizeof address, row);
    return row;
}

/* Take the row off its list, because the block is no longer live, or leaves the quarantine. */
static void unlist(struct cushim_mem_check *check, struct cushim_mem_check_row *row) {
    if (row->is_freed) {
        DL_DELETE2(check->quarantine, row, before, next);
        check->quarantined_bytes -= row->n_bytes;
    } else {
        DL_DELETE2(check->live, row, before, next);
        check->n_live--;
    }
}

static void take_out(struct cushim_mem_check *check, struct cushim_mem_check_row *row) {
    unlist(check, row);
    HASH_DEL(check->rows, row);
}

/* False: host memory is out. */
static bool add(struct cushim_mem_check *check, struct cushim_mem_check_row *row) {
    struct cushim_mem_check_row *before = find(check, row->address);
    if (before && before->is_freed) /* this should not be, because memory in quarantine is not
                                     * handed out */
        return false;
    if (before) {
        take_out(check, before);
        free(before);
    }
    row->serial = ++check->n_rows;
    HASH_ADD(hh, check->rows, address, sizeof row->address, row);
    if (find(check, row->address) != row)
        return false;
    DL_APPEND2(check->live, row, before, next);
    check->n_live++;
    return true;
}

/* ---- findings ---- */

/* If host memory is out, the finding was still told and counted. */
static void keep(struct cushim_mem_check *check, const struct cushim_mem_finding *finding) {
    struct cushim_mem_told *told = malloc(sizeof *told);
    if (!told)
        return;
    told->finding = *finding;
    atomic_init(&told->next, NULL);
    CUSHIM_LOCKED(&check->lock);
    store_release(check->last_told ? &check->last_told->next : &check->told, told);
    check->last_told = told;
}

static void tell(struct cushim_mem_check *check, struct cushim_mem_finding *finding) {
    atomic_fetch_add_explicit(&check->n_findings, 1, memory_order_relaxed);
    if (!finding->call) /* it is this one */
        cushim_backtrace_take(&finding->at);
    check->tell(finding);
    keep(check, finding);
}

void cushim_mem_check_refused(struct cushim_mem_check *check, struct cushim_mem_finding *finding) {
    pthread_mutex_lock(&check->lock);
    const struct cushim_mem_check_row *row = find(check, finding->address);
    if (row) {
        finding->n_bytes = row->n_bytes;
        finding->obtained = row->obtained;
        finding->freed = row->freed;
    }
    pthread_mutex_unlock(&check->lock);
    tell(check, finding);
}

/* Is this still the live block that was looked at?  If so, it will not be reported again. */
static bool confirm(struct cushim_mem_check *check, uint64_t address, uint64_t serial,
                    struct cushim_backtrace *obtained) {
    CUSHIM_LOCKED(&check->lock);
    struct cushim_mem_check_row *row = find(check, address);
    bool is_same = row && row->serial == serial && !row->is_freed && !row->is_told;
    if (is_same) {
        row->is_told = true;
        *obtained = row->obtained;
    }
    return is_same;
}

/* ---- what is written in device memory ---- */

/* The first of some bytes that is not `value`. */
struct flaw {
    size_t offset; /* after them: there is none */
    unsigned char found;
};

static struct flaw find_flaw(const unsigned char *bytes, size_t n_bytes, unsigned char value) {
    size_t i = 0;
    while (i < n_bytes && bytes[i] == value)
        i++;
    return (struct flaw){i, i < n_bytes ? bytes[i] : 0};
}

/* A live block, as it was when it was looked up. */
struct seen {
    uint64_t address, serial;
    size_t n_bytes;
};

/* Tell of a damaged guard before or after a block, once both were read. */
static void tell_guards(struct cushim_mem_check *check, const struct seen *seen,
                        const struct flaw flaws[2]) {
    struct cushim_backtrace obtained;
    if ((flaws[0].offset == N_GUARD && flaws[1].offset == N_GUARD) ||
        !confirm(check, seen->address, seen->serial, &obtained))
        return;
    for (unsigned i = 0; i < 2; i++) {
        int64_t offset = (int64_t)flaws[i].offset;
        if (offset < N_GUARD)
            tell(check, &(struct cushim_mem_finding){
                            .harm = i ? CUSHIM_MEM_HARM_AFTER : CUSHIM_MEM_HARM_BEFORE,
                            .address = seen->address,
                            .n_bytes = seen->n_bytes,
                            .offset = i ? offset + (int64_t)seen->n_bytes : offset - N_GUARD,
                            .found = flaws[i].found,
                            .obtained = obtained});
    }
}

/* Look at up to N_LOOK blocks, with one wait. */
static void look_at(struct cushim_mem_check *check, struct cushim_mem_heap *heap,
                    const struct seen *seen, unsigned n) {
    struct cushim_mem_fill reads[2 * N_LOOK];
    unsigned char guards[2 * N_LOOK][N_GUARD];
    for (unsigned i = 0; i < 2 * n; i++) {
        uint64_t address = seen[i / 2].address;
        address += i % 2 ? seen[i / 2].n_bytes : -(uint64_t)N_GUARD;
        reads[i] = (struct cushim_mem_fill){address, N_GUARD, 0, guards[i]};
    }
    if (cushim_mem_fill_device(&heap->filler, reads, 2 * n, 0) != CUSHIM_OK)
        return;
    for (unsigned i = 0; i < n; i++) {
        const struct flaw flaws[] = {find_flaw(guards[2 * i], N_GUARD, GUARD),
                                     find_flaw(guards[2 * i + 1], N_GUARD, GUARD)};
        tell_guards(check, &seen[i], flaws);
    }
}

/* Set the bytes of a block from `at` on, piece by piece. */
static enum cushim_status set_from(struct cushim_mem_heap *heap, uint64_t address, size_t n_bytes,
                                   size_t at, unsigned char value) {
    enum cushim_status status = CUSHIM_OK;
    for (; at < n_bytes && status == CUSHIM_OK; at += SET_BYTES) {
        const struct cushim_mem_fill fill = {address + at, cushim_least(n_bytes - at, SET_BYTES),
                                             value, NULL};
        status = cushim_mem_fill_device(&heap->filler, &fill, 1, patience_ns);
    }
    return status;
}

/* ---- obtained ---- */

static void count_unchecked(struct cushim_mem_check *check) {
    atomic_fetch_add_explicit(&check->n_unchecked, 1, memory_order_relaxed);
}

enum cushim_status cushim_mem_check_obtained(struct cushim_mem_check *check,
                                             struct cushim_mem_heap *heap, uint64_t address,
                                             size_t n_bytes, bool is_poisoned) {
    size_t fresh_bytes = is_poisoned ? n_bytes : 0;
    const struct cushim_mem_fill fills[] = {
        {address - N_GUARD, N_GUARD, GUARD, NULL},
        {address, cushim_least(fresh_bytes, SET_BYTES), FRESH, NULL},
        {address + n_bytes, N_GUARD, GUARD, NULL},
    };
    uint64_t life = atomic_load(&heap->generation);
    enum cushim_status status =
        cushim_mem_fill_device(&heap->filler, fills, sizeof fills / sizeof *fills, patience_ns);
    if (status == CUSHIM_OK)
        status = set_from(heap, address, fresh_bytes, SET_BYTES, FRESH);
    struct cushim_mem_check_row *row = status == CUSHIM_OK ? calloc(1, sizeof *row) : NULL;
    bool is_added = false;
    if (row) {
        row->address = address;
        row->n_bytes = n_bytes;
        row->heap = heap;
        row->life = life;
        cushim_backtrace_take(&row->obtained);
        is_added = CUSHIM_UNDER(&check->lock, add(check, row));
    }
    if (!is_added) {
        count_unchecked(check);
        free(row);
    }
    return status == CUSHIM_TIMEOUT ? CUSHIM_TIMEOUT : CUSHIM_OK;
}

/* ---- freed ---- */

/* Give the block to the free lists.  If its poison is still being written, it waits for the open
 * epoch. */
static void give_back(struct cushim_mem_heap *heap, uint64_t life,
                      const struct cushim_mem_blockref *ref, bool is_busy) {
    if (!cushim_mem_heap_lock_life(heap, life)) /* it went with its context */
        return;
    if (is_busy) {
        /* work was submitted before the load of `open` */
        atomic_thread_fence(memory_order_seq_cst);
        /* if host memory for the note is out, the block is never reused */
        cushim_mem_deferred_add(&heap->deferred, &heap->meta, ref,
                                cushim_mem_fence_tag(heap->fence));
    } else {
        cushim_mem_free_lists_give(heap, ref);
    }
    bool is_stale = !is_busy && heap->held_bytes > cushim_mem_watermark_now(heap);
    pthread_mutex_unlock(&heap->lock);
    if (is_stale)
        cushim_mem_reclaim_shrink(heap, life, 0, false);
}

/* The first byte of a freed block that is not DEAD; false if there is none, or it cannot be read.
 */
static bool is_flawed(const struct cushim_mem_check_row *row, struct flaw *flaw) {
    unsigned char piece[PIECE_BYTES];
    for (size_t at = 0; at < row->n_bytes; at += PIECE_BYTES) {
        size_t n = cushim_least(row->n_bytes - at, PIECE_BYTES);
        const struct cushim_mem_fill read = {row->address + at, n, 0, piece};
        if (cushim_mem_fill_device(&row->heap->filler, &read, 1, 0) != CUSHIM_OK)
            return false;
        *flaw = find_flaw(piece, n, DEAD);
        flaw->offset += at;
        if (flaw->offset < at + n)
            return true;
    }
    return false;
}

static void look_at_poison(struct cushim_mem_check *check, const struct cushim_mem_check_row *row) {
    struct flaw flaw;
    if (!is_flawed(row, &flaw) ||
        atomic_load(&row->heap->generation) != row->life) /* another life of the heap has the memory
                                                           * already */
        return;
    tell(check, &(struct cushim_mem_finding){.harm = CUSHIM_MEM_HARM_FREED,
                                             .address = row->address,
                                             .n_bytes = row->n_bytes,
                                             .offset = (int64_t)flaw.offset,
                                             .found = flaw.found,
                                             .obtained = row->obtained,
                                             .freed = row->freed});
}

size_t cushim_mem_check_empty(struct cushim_mem_check *check, size_t keep_bytes) {
    size_t n_bytes = 0;
    for (;;) {
        pthread_mutex_lock(&check->lock);
        struct cushim_mem_check_row *row =
            check->quarantined_bytes > keep_bytes ? check->quarantine : NULL;
        if (row)
            take_out(check, row);
        pthread_mutex_unlock(&check->lock);
        if (!row)
            return n_bytes;
        look_at_poison(check, row);
        give_back(row->heap, row->life, &row->ref, false);
        n_bytes += row->n_bytes;
        free(row);
    }
}

/* The block is claimed and no work on it is left: poison it, and keep it from being reused. */
static void quarantine(struct cushim_mem_check *check, const struct cushim_mem_lookup *lookup,
                       uint64_t life) {
    struct cushim_mem_heap *heap = lookup->segment->heap;
    enum cushim_status status = CUSHIM_NOTSUPPORTED;
    if (lookup->asked_bytes <= check->quarantine_bytes)
        status = set_from(heap, lookup->base, lookup->asked_bytes, 0, DEAD);
    struct cushim_backtrace freed;
    cushim_backtrace_take(&freed);
    pthread_mutex_lock(&check->lock);
    check->n_freed++;
    struct cushim_mem_check_row *row = find(check, lookup->base);
    bool is_kept = status == CUSHIM_OK && row && row->life == life;
    if (is_kept) {
        unlist(check, row);
        row->is_freed = true;
        row->freed = freed;
        row->ref = lookup->ref;
        DL_APPEND2(check->quarantine, row, before, next);
        check->quarantined_bytes += row->n_bytes;
    } else if (row) {
        take_out(check, row);
    }
    pthread_mutex_unlock(&check->lock);
    if (is_kept) {
        cushim_mem_check_empty(check, check->quarantine_bytes);
        return;
    }
    free(row);
    give_back(heap, life, &lookup->ref, status == CUSHIM_TIMEOUT);
}

static bool see(struct cushim_mem_check *check, uint64_t address, struct seen *seen) {
    CUSHIM_LOCKED(&check->lock);
    const struct cushim_mem_check_row *row = find(check, address);
    bool is_live = row && !row->is_freed;
    if (is_live)
        *seen = (struct seen){row->address, row->serial, row->n_bytes};
    return is_live;
}

enum cushim_status cushim_mem_check_release(struct cushim_mem_check *check,
                                            const struct cushim_mem_lookup *lookup,
                                            CUresult *answer) {
    struct cushim_mem_heap *heap = lookup->segment->heap;
    uint64_t life = cushim_mem_heap_life(heap);
    struct seen seen;
    *answer = CUDA_SUCCESS;
    atomic_thread_fence(memory_order_seq_cst); /* the exchange of its state comes after the wait */
    if (!life || !see(check, lookup->base, &seen) ||
        cushim_mem_fence_wait(heap->fence, heap->stats, answer) != CUSHIM_OK) {
        /* the row first, because a moment after the release another thread may have the address */
        cushim_mem_check_drop(check, lookup->base);
        return cushim_mem_free(heap, lookup, answer); /* it returns the error, if there is one */
    }
    look_at(check, heap, &seen, 1);
    CUSHIM_TRY(cushim_mem_free_claim(heap, lookup));
    quarantine(check, lookup, life);
    if (load_relaxed(&heap->deferred.n_rows) && cushim_mem_heap_lock_life(heap, life)) {
        cushim_mem_heap_give_deferred(heap);
        pthread_mutex_unlock(&heap->lock);
    }
    return CUSHIM_OK;
}

void cushim_mem_check_drop(struct cushim_mem_check *check, uint64_t address) {
    pthread_mutex_lock(&check->lock);
    struct cushim_mem_check_row *row = find(check, address);
    if (row && row->is_freed)
        row = NULL; /* it is in quarantine */
    if (row)
        take_out(check, row);
    pthread_mutex_unlock(&check->lock);
    if (row)
        count_unchecked(check);
    free(row);
}

/* ---- all of a heap ---- */

/* The rest of a look: how many blocks it may still check, and how many live ones it may pass, of
 * other heaps, too. */
struct turns {
    size_t n_looks, n_live;
};

/* The next live blocks of a heap, in turn. */
static unsigned take_turns(struct cushim_mem_check *check, const struct cushim_mem_heap *heap,
                           struct seen seen[N_LOOK], struct turns *turns) {
    unsigned n = 0;
    CUSHIM_LOCKED(&check->lock);
    for (; turns->n_looks && turns->n_live && n < N_LOOK; turns->n_live--) {
        struct cushim_mem_check_row *row = check->live;
        if (!row)
            break;
        DL_DELETE2(check->live, row, before, next);
        DL_APPEND2(check->live, row, before, next);
        if (row->heap != heap || row->is_told)
            continue;
        seen[n++] = (struct seen){row->address, row->serial, row->n_bytes};
        turns->n_looks--;
    }
    return n;
}

void cushim_mem_check_look(struct cushim_mem_check *check, struct cushim_mem_heap *heap,
                           bool is_all) {
    struct seen seen[N_LOOK];
    unsigned n;
    pthread_mutex_lock(&check->lock);
    struct turns turns = {SIZE_MAX, check->n_live};
    if (!is_all)
        turns.n_looks = CUSHIM_MEM_CHECK_LOOK_BLOCKS + (size_t)(check->n_rows - check->n_looked);
    check->n_looked = check->n_rows;
    pthread_mutex_unlock(&check->lock);
    while ((n = take_turns(check, heap, seen, &turns)) > 0)
        look_at(check, heap, seen, n);
}

void cushim_mem_check_forget(struct cushim_mem_check *check, const struct cushim_mem_heap *heap) {
    struct cushim_mem_check_row *row, *next;
    CUSHIM_LOCKED(&check->lock);
    HASH_ITER(hh, check->rows, row, next) {
        if (row->heap == heap) {
            take_out(check, row);
            free(row);
        }
    }
}
