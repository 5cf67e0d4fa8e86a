/* Allocation: from the top without a lock, else in order with the lock, else from the fallback. */
#include "companion/arena/arena_internal.h"

#include "base/log.h"
#include "cushim/pool.h"
#include "companion/capture/known_captures.h"
#include "companion/capture/graph_resources.h"
#include "base/lock.h"
#include "companion/stream/stream.h"

/* ---- from the regions ---- */

/* Whether the regions serve requests of this device and kind. */
ALWAYS_INLINE bool is_own(const struct cushim_arena_object *arena, int device, int kind) {
    return (device == -1 || device == arena->device) &&
           (kind == CUSHIM_MEMORY_DEVICE || (kind == CUSHIM_MEMORY_MANAGED && arena->is_managed));
}

/* Whether a block from the top of the region needs no order in the epoch `now`. */
ALWAYS_INLINE bool is_ready(const struct cushim_arena_object *arena, uint64_t now,
                            struct cushim_stream *s) {
    return !load_relaxed(&arena->book.n_spans) &&
           (cushim_arena_order_is_ready(&arena->order, now, s) ||
            /* the caller orders work, and no capture collects blocks */
            (arena->flags & CUSHIM_ARENA_FLAG_UNFENCED &&
             !load_relaxed(&arena->order.n_collecting)));
}

/* The hold of the open capture that the request belongs to; NULL: of none.  order.lock. */
static struct cushim_arena_graph *hold_of(struct cushim_arena_object *arena,
                                          struct cushim_stream *stream, uint64_t capture_id) {
    for (struct cushim_arena_graph *hold = arena->book.pins.holds; hold; hold = hold->next) {
        if (!hold->is_collecting)
            continue;
        if (stream == CUSHIM_STREAM_ALL ? pthread_equal(hold->thread, pthread_self())
                                        : capture_id && hold->capture_id == capture_id)
            return hold;
    }
    return NULL;
}

/* Take from the book, under its lock; *fit is the result. */
static enum cushim_status take_locked(struct cushim_scope *scope, struct cushim_arena_object *arena,
                                      uint64_t n_grains, uint64_t done,
                                      struct cushim_arena_graph *hold, uint64_t *at,
                                      enum cushim_arena_fit *fit) {
    CUSHIM_LOCKED(&arena->lock);
    *fit = CUSHIM_ARENA_FIT_NONE;
    if (hold && !cushim_arena_graph_reserve(hold))
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host memory");
    *fit = cushim_arena_book_take(&arena->book, n_grains, done, at);
    if (hold && *fit == CUSHIM_ARENA_FIT_TAKEN)
        cushim_arena_graph_add(hold, *at, n_grains);
    return CUSHIM_OK;
}

/* If freed spans that would serve the request wait for a fence, poll the fence or record it. */
static uint64_t poll_fence(struct cushim_scope *scope, struct cushim_arena_object *arena,
                           const struct cushim_arena_request *request, bool is_captured) {
    uint64_t done = cushim_arena_order_done(arena, request->stream, is_captured);
    if (!CUSHIM_UNDER(&arena->lock,
                      cushim_arena_spans_is_deferred(&arena->book.spans, request->n_grains, done)))
        return done;
    cushim_arena_order_ripen(scope, arena);
    return cushim_arena_order_done(arena, request->stream, is_captured);
}

/* Order the stream, take a block, and note that the stream is ordered.  order.lock. */
static enum cushim_status take(struct cushim_scope *scope, struct cushim_arena_object *arena,
                               struct cushim_arena_request *request, uint64_t *at,
                               enum cushim_arena_fit *fit) {
    CUSHIM_STREAM_USE use = {0};
    bool is_fenced = !(arena->flags & CUSHIM_ARENA_FLAG_UNFENCED);
    bool is_collecting = atomic_load(&arena->order.n_collecting);
    if (request->stream != CUSHIM_STREAM_ALL && (is_fenced || is_collecting))
        CUSHIM_TRY(scope->context ? cushim_stream_use_in(scope, request->stream, &use)
                                  : cushim_stream_use_any(scope, request->stream, &use));
    if (use.handle == CU_STREAM_PER_THREAD) /* its handle means another stream in each thread */
        request->stream = CUSHIM_STREAM_PER_THREAD;
    bool may_capture = is_collecting || (is_fenced && cushim_capture_count(scope->context));
    uint64_t capture_id = may_capture ? cushim_stream_capture_id(use.handle) : 0;
    struct cushim_arena_graph *hold = hold_of(arena, request->stream, capture_id);
    bool is_captured = capture_id || hold;
    if (is_fenced)
        CUSHIM_TRY(
            cushim_arena_order_stream(scope, arena, request->stream, use.handle, is_captured));
    uint64_t done = is_fenced ? poll_fence(scope, arena, request, is_captured) : UINT64_MAX;
    return take_locked(scope, arena, request->n_grains, done, hold, at, fit);
}

/* ---- from the fallback ---- */

/* The regions cannot serve it: count that, and warn once in an epoch if they are full. */
static void note_miss(struct cushim_arena_object *arena, const struct cushim_arena_request *request,
                      uint64_t *epoch, size_t *used_bytes) {
    pthread_mutex_lock(&arena->lock);
    *epoch = cushim_arena_book_epoch(&arena->book);
    arena->n_misses++;
    bool is_first = is_own(arena, request->device, request->kind) && arena->warned_epoch != *epoch;
    if (is_first)
        arena->warned_epoch = *epoch;
    *used_bytes = cushim_arena_book_used(&arena->book) * CUSHIM_ARENA_GRAIN_BYTES;
    uint64_t n_misses = arena->n_misses, n_hits = cushim_arena_book_hits(&arena->book);
    pthread_mutex_unlock(&arena->lock);
    if (is_first)
        log_warn("arena", "full: asked=%zu used=%zu capacity=%zu hits=%lu misses=%lu epoch=%lu",
                 request->bytes, *used_bytes,
                 (size_t)(arena->book.n_grains * CUSHIM_ARENA_GRAIN_BYTES), (unsigned long)n_hits,
                 (unsigned long)n_misses, (unsigned long)*epoch);
}

static enum cushim_status borrow(struct cushim_scope *scope, struct cushim_arena_object *arena,
                                 const struct cushim_arena_request *request, uint64_t epoch,
                                 cushim_devptr *ptr) {
    struct cushim_pool *pool = arena->fallback.pool;
    struct cushim_arena_loan loan = {
        .bytes = request->bytes ? request->bytes : 1, /* because each block has its own address */
        .device = request->device == -1 ? arena->device : request->device,
        .epoch = epoch,
        .stream = request->stream,
    };
    CUSHIM_TRY(cushim_pool_alloc(pool, loan.device, request->kind, loan.bytes, loan.stream,
                                 &loan.address));
    if (!cushim_arena_lend(arena, &loan)) {
        cushim_pool_free(pool, -1, loan.address, 0, loan.stream);
        return cushim_scope_fail(scope, CUSHIM_NOMEM, "host memory");
    }
    *ptr = loan.address;
    return CUSHIM_OK;
}

/* `refusal` is why the regions did not serve: OK if they were full or not tried. */
static enum cushim_status miss(struct cushim_scope *scope, struct cushim_arena_object *arena,
                               const struct cushim_arena_request *request,
                               enum cushim_status refusal, cushim_devptr *ptr, uint64_t *epoch) {
    uint64_t now;
    size_t used_bytes;
    note_miss(arena, request, &now, &used_bytes);
    if (arena->fallback.pool) {
        CUSHIM_TRY(borrow(scope, arena, request, now, ptr));
        if (epoch)
            *epoch = now;
        return CUSHIM_OK;
    }
    if (refusal != CUSHIM_OK)
        return refusal;
    CUSHIM_FAIL_IF(scope->what, request->device != -1 && request->device != arena->device,
                   CUSHIM_BADDEVICE, "device=%d arena=%d", request->device, arena->device);
    return cushim_scope_fail(scope, CUSHIM_LIMIT, "asked=%zu kind=%d used=%zu capacity=%zu",
                             request->bytes, request->kind, used_bytes,
                             (size_t)(arena->book.n_grains * CUSHIM_ARENA_GRAIN_BYTES));
}

/* ---- the call ---- */

/* The slow path, from the start. */
static COLD enum cushim_status alloc_slowly(const char *what, struct cushim_arena *handle, int dev,
                                            enum cushim_memory_kind kind, size_t bytes,
                                            struct cushim_stream *s, cushim_devptr *ptr,
                                            uint64_t *epoch) {
    /* 0 bytes take as much as 1 */
    struct cushim_arena_request request = {dev, kind, bytes, cushim_arena_grains(bytes ? bytes : 1),
                                           s};
    enum cushim_arena_fit fit = CUSHIM_ARENA_FIT_NONE;
    enum cushim_status status = CUSHIM_OK;
    uint64_t at, n_changes = cushim_changes_now(); /* read before the conditions are checked */
    CUSHIM_CLEAR(epoch);
    CUSHIM_TRY(cushim_check_out(what, "ptr", ptr, sizeof *ptr));
    if (bytes > PTRDIFF_MAX || dev < -1 || kind < CUSHIM_MEMORY_DEVICE ||
        kind > CUSHIM_MEMORY_PINNED)
        return cushim_fail(what, CUSHIM_INVALID, "bytes=%zu kind=%d device=%d", bytes, kind, dev);
    cushim_graph_resources_give_back();
    CUSHIM_ENTER_ARENA(what, handle);
    /* a thread that resets the arena may own its top from now on */
    store_relaxed(&arena->book.owner.slot, cushim_slot_of((uintptr_t)handle));
    cushim_pin_note_fast(&arena->n_fast, n_changes);
    if (request.stream == CUSHIM_STREAM_OWN)
        request.stream = arena->stream;
    if (is_own(arena, dev, kind)) {
        pthread_mutex_lock(&arena->order.lock);
        status = take(&scope, arena, &request, &at, &fit);
        if (fit == CUSHIM_ARENA_FIT_TAKEN) {
            *ptr = cushim_arena_address(arena, at);
            if (epoch)
                *epoch = cushim_arena_book_epoch(&arena->book);
        }
        pthread_mutex_unlock(&arena->order.lock);
    }
    if (fit != CUSHIM_ARENA_FIT_TAKEN && (status == CUSHIM_OK || status == CUSHIM_CAPTURE))
        status = miss(&scope, arena, &request, status, ptr, epoch);
    return status;
}

/* ---- the fast path: a block from the top that needs no order ---- */

enum cushim_status cushim_arena_alloc(struct cushim_arena *handle, int dev,
                                      enum cushim_memory_kind kind, size_t bytes,
                                      struct cushim_stream *s, cushim_devptr *ptr,
                                      uint64_t *epoch) {
    struct cushim_thread *thread = cushim_thread_mine;
    struct cushim_slot *slot = cushim_slot_of_kind(CUSHIM_KIND_ARENA, (uintptr_t)handle);
    if (likely(thread && slot && ptr && bytes - 1 < PTRDIFF_MAX && cushim_pin_has_fast_path() &&
               cushim_pin_fast(thread, CUSHIM_CELL_FAST, slot, handle))) {
        struct cushim_arena_object *arena =
            (struct cushim_arena_object *)load_relaxed(&slot->object);
        struct cushim_stream *stream = s == CUSHIM_STREAM_OWN ? arena->stream : s;
        uint64_t at, n_grains = cushim_arena_grains(bytes);
        uint64_t now = cushim_arena_book_epoch(&arena->book);
        if (likely(load_acquire(&arena->n_fast) == cushim_changes_now() &&
                   is_own(arena, dev, kind) && is_ready(arena, now, stream) &&
                   (cushim_arena_owner_is(&arena->book.owner, thread)
                        ? cushim_arena_book_push(&arena->book, now, n_grains, &at)
                        : cushim_arena_book_bump(&arena->book, now, n_grains, &at)))) {
            *ptr = cushim_arena_address(arena, at);
            if (epoch)
                *epoch = now;
            return cushim_unpin_fast(thread, CUSHIM_CELL_FAST, slot);
        }
        cushim_unpin_undone(thread, CUSHIM_CELL_FAST);
    }
    return alloc_slowly(__func__, handle, dev, kind, bytes, s, ptr, epoch);
}

enum cushim_status cushim_arena_take(struct cushim_arena *arena, size_t bytes,
                                     struct cushim_stream *s, cushim_devptr *ptr) {
    return cushim_arena_alloc(arena, -1, CUSHIM_MEMORY_DEVICE, bytes, s, ptr, NULL);
}
