/* Frees: of blocks of the regions, and of the fallback's. */
#include "companion/arena/arena_internal.h"

#include "cushim/memory.h"
#include "cushim/pool.h"
#include "companion/context/address_map.h"
#include "companion/core/rows.h"
#include "base/lock.h"

/* ---- the fallback's ---- */

bool cushim_arena_lend(struct cushim_arena_object *arena, const struct cushim_arena_loan *loan) {
    struct cushim_arena_fallback *fallback = &arena->fallback;
    CUSHIM_LOCKED(&arena->lock);
    bool is_noted =
        cushim_rows_insert(&fallback->loans, &fallback->n, &fallback->cap, sizeof *loan, loan);
    fallback->bytes += is_noted ? loan->bytes : 0;
    return is_noted;
}

/* The functions below take `arena->lock`, or are called under it. */
static struct cushim_arena_loan *find_loan(const struct cushim_arena_object *arena,
                                           uint64_t address) {
    const struct cushim_arena_fallback *fallback = &arena->fallback;
    return cushim_rows_find(fallback->loans, fallback->n, sizeof *fallback->loans, address);
}

static struct cushim_arena_loan take_loan(struct cushim_arena_object *arena,
                                          struct cushim_arena_loan *loan) {
    struct cushim_arena_loan taken = *loan;
    arena->fallback.bytes -= taken.bytes;
    cushim_rows_remove(arena->fallback.loans, &arena->fallback.n, sizeof *loan, loan);
    return taken;
}

/* Back to the pool; if the pool is destroyed, the block is plain memory. */
static enum cushim_status pay_back(struct cushim_arena_object *arena,
                                   const struct cushim_arena_loan *loan,
                                   struct cushim_stream *stream) {
    enum cushim_status status =
        cushim_pool_free(arena->fallback.pool, -1, loan->address, 0, stream);
    if (status == CUSHIM_BADHANDLE)
        status = cushim_memory_free(loan->address);
    if (status == CUSHIM_OK) /* so that a second free is a double free */
        cushim_address_map_note_freed(loan->address);
    return status;
}

/* Whether the free of a loan is valid.  `arena->lock`. */
static enum cushim_status judge_loan(const struct cushim_arena_loan *loan, int dev, size_t bytes) {
    if (dev != -1 && dev != loan->device)
        return CUSHIM_BADDEVICE;
    return !bytes || cushim_arena_grains(bytes) == cushim_arena_grains(loan->bytes)
               ? CUSHIM_OK
               : CUSHIM_INVALID;
}

/* True: the address is a loan, and *status is the answer; the pool sets the text of its own errors.
 */
static bool free_loan(struct cushim_arena_object *arena, int dev, uint64_t address, size_t bytes,
                      enum cushim_status *status) {
    struct cushim_arena_loan loan;
    pthread_mutex_lock(&arena->lock);
    struct cushim_arena_loan *found = find_loan(arena, address);
    *status = found ? judge_loan(found, dev, bytes) : CUSHIM_UNKNOWNPTR;
    if (found && *status == CUSHIM_OK)
        loan = take_loan(arena, found);
    pthread_mutex_unlock(&arena->lock);
    if (!found || *status != CUSHIM_OK)
        return found != NULL;
    /* the stream of the last use: that of the options if the block was allocated on it, else ALL */
    bool is_on_own = loan.stream == arena->stream;
    *status = pay_back(arena, &loan, is_on_own ? loan.stream : CUSHIM_STREAM_ALL);
    if (*status != CUSHIM_OK)
        cushim_arena_lend(arena, &loan); /* it cannot fail, because its room is still there */
    return true;
}

void cushim_arena_pay_back_all(struct cushim_arena_object *arena, uint64_t epoch,
                               struct cushim_stream *stream) {
    struct cushim_arena_loan loan;
    bool is_there = true;
    while (is_there) {
        pthread_mutex_lock(&arena->lock);
        size_t i = arena->fallback.n;
        while (i > 0 && arena->fallback.loans[i - 1].epoch > epoch)
            i--;
        is_there = i > 0;
        if (is_there)
            loan = take_loan(arena, &arena->fallback.loans[i - 1]);
        pthread_mutex_unlock(&arena->lock);
        /* ALL, because the stream of the reset may not be ordered behind its own stream */
        if (is_there)
            pay_back(arena, &loan, loan.stream == stream ? stream : CUSHIM_STREAM_ALL);
    }
}

/* ---- the regions' ---- */

/* An address that we do not have: it may have been freed before. */
static enum cushim_status judge_unknown(struct cushim_arena_object *arena, uint64_t address,
                                        uint64_t epoch) {
    bool is_old = epoch && epoch < cushim_arena_book_epoch(&arena->book);
    if (!cushim_address_map_was_freed(address))
        return CUSHIM_UNKNOWNPTR;
    return is_old && arena->flags & CUSHIM_ARENA_FLAG_RESET_FALLBACK ? CUSHIM_STALE
                                                                     : CUSHIM_DOUBLEFREE;
}

/* A loan, or an unknown address. */
static enum cushim_status free_other(struct cushim_arena_object *arena, int dev, uint64_t address,
                                     size_t bytes, uint64_t epoch) {
    enum cushim_status status;
    if (!free_loan(arena, dev, address, bytes, &status))
        status = judge_unknown(arena, address, epoch);
    CUSHIM_LOCKED(&arena->lock);
    arena->book.n_frees += status == CUSHIM_OK;
    arena->book.n_stale += status == CUSHIM_STALE;
    arena->book.n_refused += status != CUSHIM_OK && status != CUSHIM_STALE;
    return status;
}

/* A block of the regions, if the address is no loan: the pool may have got memory of a drained
 * region. */
static enum cushim_status free_any(struct cushim_arena_object *arena, int dev, uint64_t address,
                                   size_t bytes, uint64_t epoch) {
    enum cushim_status status = CUSHIM_BADDEVICE;
    uint64_t at;
    if (!cushim_arena_place(arena, address, &at))
        return free_other(arena, dev, address, bytes, epoch);
    pthread_mutex_lock(&arena->lock);
    bool is_lent = find_loan(arena, address);
    if (!is_lent && (dev == -1 || dev == arena->device))
        status = cushim_arena_book_free(&arena->book, at, cushim_arena_grains(bytes), epoch,
                                        arena->order.open);
    else if (!is_lent)
        arena->book.n_refused++;
    pthread_mutex_unlock(&arena->lock);
    return is_lent ? free_other(arena, dev, address, bytes, epoch) : status;
}

enum cushim_status cushim_arena_free(struct cushim_arena *handle, int dev, cushim_devptr ptr,
                                     size_t bytes, uint64_t epoch) {
    if (bytes > PTRDIFF_MAX || dev < -1)
        return CUSHIM_FAIL(CUSHIM_INVALID, "bytes=%zu device=%d", bytes, dev);
    CUSHIM_LOOK_AT_ARENA(__func__, handle);
    enum cushim_status status = ptr ? free_any(arena, dev, ptr, bytes, epoch) : CUSHIM_OK;
    if (status != CUSHIM_OK)
        CUSHIM_FAIL(status, "ptr=0x%llx arena=%p bytes=%zu epoch=%llu device=%d",
                    (unsigned long long)ptr, (void *)handle, bytes, (unsigned long long)epoch, dev);
    return status;
}
