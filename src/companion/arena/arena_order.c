
#include "base/log.h"
#include "companion/arena/arena_internal.h"
#include "companion/capture/graph_resources.h"
#include "cushim/pool.h"
#include "companion/capture/known_captures.h"
#include "companion/stream/stream.h"
#include "base/lock.h"

enum { POISON = 0x7FF80000 }; /* NaN as a float, and twice in a row as a double */

void cushim_arena_order_init(struct cushim_arena_order *order) {
    atomic_init(&order->clean_epoch, 1);
    atomic_init(&order->ready_epoch, 0);
    for (unsigned i = 0; i < CUSHIM_ARENA_N_READY; i++)
        atomic_init(&order->ready[i], CUSHIM_ARENA_NOBODY);
    order->open = 1;
    pthread_mutex_init(&order->lock, NULL);
}

void cushim_arena_order_finish(struct cushim_arena_order *order, bool is_dead) {
    for (unsigned i = 0; i < CUSHIM_ARENA_N_REGIONS; i++)
        cushim_mem_stream_fence_release(&order->fences[i].mark);
    for (unsigned i = 0; i < order->n_batches; i++)
        cushim_mem_stream_fence_release(&order->batches[i].mark);
    if (order->fill_stream && !is_dead)
        CUSHIM_DRIVER(cuStreamDestroy_v2)(order->fill_stream);
    pthread_mutex_destroy(&order->lock);
}

void cushim_arena_order_forget(struct cushim_arena_order *order) {
    store_relaxed(&order->clean_epoch, 0);
    store_relaxed(&order->ready_epoch, 0);
    for (unsigned i = 0; i < CUSHIM_ARENA_N_READY; i++)
        store_relaxed(&order->ready[i], CUSHIM_ARENA_NOBODY);
    order->next_ready = 0; /* so that the first stream of an epoch is found at once */
}

/* ---- the fence of a region ---- */

static uint64_t epoch_of(const struct cushim_arena_object *arena) {
    return cushim_arena_book_epoch(&arena->book);
}

static struct cushim_arena_fence *fence_now(struct cushim_arena_object *arena) {
    uint64_t base = cushim_arena_book_base(&arena->book);
    return &arena->order.fences[base / arena->book.n_grains];
}

static void clear_fence(struct cushim_arena_fence *fence) {
    cushim_mem_stream_fence_release(&fence->mark);
    fence->stream = CUSHIM_ARENA_NOBODY;
}

static bool has_fence(const struct cushim_arena_fence *fence) {
    return cushim_mem_stream_fence_is_some(&fence->mark);
}

/* Note that the stream needs no wait in this epoch. */
static void note_ready(struct cushim_arena_object *arena, struct cushim_stream *stream) {
    struct cushim_arena_order *order = &arena->order;
    if (order->n_collecting) /* then each request takes the slow path */
        return;
    if (!has_fence(fence_now(arena)))
        store_release(&order->clean_epoch, epoch_of(arena));
    if (stream == CUSHIM_STREAM_PER_THREAD || stream == CUSHIM_STREAM_ALL)
        return; /* the one is another stream in each thread, the other is no stream */
    store_release(&order->ready[order->next_ready++ % CUSHIM_ARENA_N_READY], stream);
    store_release(&order->ready_epoch, epoch_of(arena));
}

/* Order the stream behind the fence of the region, unless it comes after that already. */
static enum cushim_status order_behind(struct cushim_scope *scope,
                                       struct cushim_arena_object *arena,
                                       struct cushim_stream *stream, CUstream handle) {
    struct cushim_arena_fence *fence = fence_now(arena);
    if (!has_fence(fence) || fence->stream == stream ||
        cushim_arena_order_is_ready(&arena->order, epoch_of(arena), stream))
        return CUSHIM_OK;
    return cushim_mem_stream_fence_order(&fence->mark, &scope->context->fence, scope->what, handle);
}

enum cushim_status cushim_arena_order_stream(struct cushim_scope *scope,
                                             struct cushim_arena_object *arena,
                                             struct cushim_stream *stream, CUstream handle,
                                             bool is_captured) {
    struct cushim_arena_fence *fence = fence_now(arena);
    if (has_fence(fence) && cushim_mem_stream_fence_is_complete(&fence->mark))
        clear_fence(fence);
    if (has_fence(fence) &&
        is_captured) /* refuse, because the graph may be launched on any stream */
        return cushim_scope_fail(scope, CUSHIM_CAPTURE, "a fence is not over");
    if (has_fence(fence) && (arena->is_managed || stream == CUSHIM_STREAM_ALL)) {
        CUSHIM_TRY(cushim_mem_stream_fence_wait(&fence->mark, scope->what));
        clear_fence(fence);
    }
    CUSHIM_TRY(order_behind(scope, arena, stream, handle));
    if (!is_captured)
        note_ready(arena, stream);
    return CUSHIM_OK;
}

/* ---- the end of an epoch ---- */

/* What a reset reclaims becomes NaN, so that a use after it shows in results.  The stream is not
 * captured. */
static enum cushim_status poison(struct cushim_scope *scope, struct cushim_arena_object *arena,
                                 CUstream stream, uint64_t at, uint64_t n_grains) {
    return CUSHIM_CALL(scope, cuMemsetD32Async, cushim_arena_address(arena, at), POISON,
                       n_grains * CUSHIM_ARENA_GRAIN_BYTES / sizeof(uint32_t), stream);
}

/* Fill behind all work of the context, on a stream of our own: *mark, which is behind the fill
 * afterwards, or as it was. */
static enum cushim_status fill_behind_all(struct cushim_scope *scope,
                                          struct cushim_arena_object *arena, uint64_t at,
                                          uint64_t n_grains, struct cushim_mem_stream_fence *mark) {
    struct cushim_mem_stream_fence behind;
    if (!arena->order.fill_stream)
        CUSHIM_TRY(
            CUSHIM_CALL(scope, cuStreamCreate, &arena->order.fill_stream, CU_STREAM_NON_BLOCKING));
    CUstream fill = arena->order.fill_stream;
    CUSHIM_TRY(cushim_mem_stream_fence_order(mark, &scope->context->fence, scope->what, fill));
    CUSHIM_TRY(poison(scope, arena, fill, at, n_grains));
    CUSHIM_TRY(cushim_mem_stream_fence_record(&scope->context->fence, scope->what, &fill, &behind));
    cushim_mem_stream_fence_release(mark);
    *mark = behind;
    return CUSHIM_OK;
}

/* Whether there is memory to poison, and no capture forbids it. */
static bool may_fill(struct cushim_scope *scope, struct cushim_arena_object *arena, uint64_t *at,
                     uint64_t *n_grains) {
    if (!(arena->flags & CUSHIM_ARENA_FLAG_POISON))
        return false;
    pthread_mutex_lock(&arena->lock);
    cushim_arena_book_reclaimed(&arena->book, at, n_grains);
    pthread_mutex_unlock(&arena->lock);
    if (!*n_grains || !cushim_capture_count(scope->context))
        return *n_grains != 0;
    if (!arena->order.has_warned_fill)
        log_warn("arena", "reset during a capture: not poisoned bytes=%lu",
                 (unsigned long)(*n_grains * CUSHIM_ARENA_GRAIN_BYTES));
    arena->order.has_warned_fill = true;
    return false;
}

static enum cushim_status end_on_all(struct cushim_scope *scope, struct cushim_arena_object *arena,
                                     struct cushim_mem_stream_fence *mark) {
    uint64_t at, n_grains;
    CUSHIM_TRY(cushim_mem_stream_fence_record(&scope->context->fence, scope->what, NULL, mark));
    if (!may_fill(scope, arena, &at, &n_grains))
        return CUSHIM_OK;
    enum cushim_status status = fill_behind_all(scope, arena, at, n_grains, mark);
    if (status != CUSHIM_OK)
        cushim_mem_stream_fence_release(mark);
    return status;
}

static enum cushim_status end_on_stream(struct cushim_scope *scope,
                                        struct cushim_arena_object *arena,
                                        struct cushim_stream *stream, CUstream handle,
                                        struct cushim_mem_stream_fence *mark) {
    uint64_t at, n_grains;
    CUSHIM_TRY(cushim_capture_refuse_stream(scope, handle));
    CUSHIM_TRY(order_behind(scope, arena, stream, handle)); /* so that the new fence covers it */
    if (may_fill(scope, arena, &at, &n_grains))
        CUSHIM_TRY(poison(scope, arena, handle, at, n_grains));
    return cushim_mem_stream_fence_record(&scope->context->fence, scope->what, &handle, mark);
}

/* End the epoch, whose region is closed: poison what it reclaims if the options say so, and leave a
 * fence.  After a failure nothing has changed. */
static enum cushim_status end_order(struct cushim_scope *scope, struct cushim_arena_object *arena,
                                    struct cushim_stream *stream, CUstream handle) {
    struct cushim_mem_stream_fence mark;
    if (stream == CUSHIM_STREAM_ALL)
        CUSHIM_TRY(end_on_all(scope, arena, &mark));
    else
        CUSHIM_TRY(end_on_stream(scope, arena, stream, handle, &mark));
    struct cushim_arena_fence *fence = fence_now(arena);
    clear_fence(fence);
    bool is_one = stream != CUSHIM_STREAM_ALL && stream != CUSHIM_STREAM_PER_THREAD;
    *fence = (struct cushim_arena_fence){mark, is_one ? stream : CUSHIM_ARENA_NOBODY};
    cushim_arena_order_forget(&arena->order);
    /* Freed spans end with the epoch, so frees from here on belong to a new batch. */
    struct cushim_arena_order *order = &arena->order;
    for (unsigned i = 0; i < order->n_batches; i++)
        cushim_mem_stream_fence_release(&order->batches[i].mark);
    order->n_batches = 0;
    CUSHIM_LOCKED(&arena->lock);
    order->done = order->open++;
    return CUSHIM_OK;
}

enum cushim_status cushim_arena_order_wait(struct cushim_scope *scope,
                                           struct cushim_arena_object *arena) {
    for (unsigned i = 0; i < arena->book.n_regions; i++) {
        struct cushim_arena_fence *fence = &arena->order.fences[i];
        if (has_fence(fence))
            CUSHIM_TRY(cushim_mem_stream_fence_wait(&fence->mark, scope->what));
        clear_fence(fence);
    }
    return CUSHIM_OK;
}

/* ---- batches of frees ---- */

/* Whether frees are in the order of one stream. */
static bool has_stream(const struct cushim_arena_object *arena) {
    return arena->stream != CUSHIM_STREAM_ALL && arena->stream != CUSHIM_STREAM_PER_THREAD;
}

uint64_t cushim_arena_order_done(const struct cushim_arena_object *arena,
                                 struct cushim_stream *stream, bool is_captured) {
    bool is_ordered = has_stream(arena) && stream == arena->stream && !arena->is_managed;
    if (arena->flags & CUSHIM_ARENA_FLAG_UNFENCED || (is_ordered && !is_captured))
        return UINT64_MAX;
    return arena->order.done;
}

static void drop_done_batches(struct cushim_arena_order *order) {
    unsigned n = 0;
    while (n < order->n_batches && cushim_mem_stream_fence_is_complete(&order->batches[n].mark)) {
        order->done = order->batches[n].number;
        cushim_mem_stream_fence_release(&order->batches[n++].mark);
    }
    order->n_batches -= n;
    for (unsigned i = 0; i < order->n_batches; i++)
        order->batches[i] = order->batches[i + n];
}

static enum cushim_status record_batch(struct cushim_scope *scope,
                                       struct cushim_arena_object *arena,
                                       struct cushim_mem_stream_fence *mark) {
    CUSHIM_STREAM_USE use = {0};
    bool has_one = has_stream(arena); /* not PER_THREAD: each thread has another one */
    if (has_one)
        CUSHIM_TRY(cushim_stream_use_in(scope, arena->stream, &use));
    return cushim_mem_stream_fence_record(&scope->context->fence, scope->what,
                                          has_one ? &use.handle : NULL, mark);
}

void cushim_arena_order_ripen(struct cushim_scope *scope, struct cushim_arena_object *arena) {
    struct cushim_arena_order *order = &arena->order;
    struct cushim_mem_stream_fence mark;
    drop_done_batches(order);
    if (order->n_batches == CUSHIM_ARENA_N_BATCHES || cushim_capture_count(scope->context))
        return;
    /* the number first, so that a free with this number came before the record */
    uint64_t number = CUSHIM_UNDER(&arena->lock, order->open++);
    if (record_batch(scope, arena, &mark) != CUSHIM_OK)
        return; /* the next batch covers these frees, too */
    order->batches[order->n_batches++] = (struct cushim_arena_batch){mark, number};
    drop_done_batches(order);
}

/* ---- resets ---- */

/* Leave a fence for the epoch that ends.  The region is closed; order.lock. */
static enum cushim_status fence(struct cushim_scope *scope, struct cushim_arena_object *arena,
                                struct cushim_stream *stream) {
    CUSHIM_STREAM_USE use = {0};
    if (arena->flags & CUSHIM_ARENA_FLAG_UNFENCED || arena->book.is_drained)
        return CUSHIM_OK;
    if (stream != CUSHIM_STREAM_ALL)
        CUSHIM_TRY(cushim_stream_use_in(scope, stream, &use));
    if (use.handle == CU_STREAM_PER_THREAD) /* its handle means another stream in each thread */
        stream = CUSHIM_STREAM_PER_THREAD;
    return end_order(scope, arena, stream, use.handle);
}

static void close_book(struct cushim_arena_object *arena) {
    CUSHIM_LOCKED(&arena->lock);
    cushim_arena_book_close(&arena->book);
}

/* Go on in the closed book as `end` says, or open it again after a failure. */
static void end_book(struct cushim_arena_object *arena, enum cushim_status status,
                     void (*end)(struct cushim_arena_book *book)) {
    CUSHIM_LOCKED(&arena->lock);
    if (status == CUSHIM_OK)
        end(&arena->book);
    else
        cushim_arena_book_reopen(&arena->book);
}

enum cushim_status cushim_arena_reset(struct cushim_arena *handle, struct cushim_stream *s) {
    cushim_graph_resources_give_back();
    CUSHIM_ENTER_ARENA(__func__, handle);
    if (s == CUSHIM_STREAM_OWN)
        s = arena->stream;
    pthread_mutex_lock(&arena->order.lock);
    uint64_t ended = cushim_arena_book_epoch(&arena->book);
    close_book(arena);
    enum cushim_status status = fence(&scope, arena, s);
    end_book(arena, status, cushim_arena_book_next);
    pthread_mutex_unlock(&arena->order.lock);
    if (status == CUSHIM_OK && arena->flags & CUSHIM_ARENA_FLAG_RESET_FALLBACK)
        cushim_arena_pay_back_all(arena, ended, s);
    return status;
}

/* ---- the drain ---- */

/* order.lock */
static enum cushim_status drain_regions(struct cushim_scope *scope,
                                        struct cushim_arena_object *arena) {
    pthread_mutex_lock(&arena->lock);
    uint64_t pinned = cushim_arena_pins_grains(&arena->book.pins);
    bool is_kept = pinned || arena->book.pins.holds;
    pthread_mutex_unlock(&arena->lock);
    if (arena->book.is_drained)
        return CUSHIM_OK;
    CUSHIM_FAIL_IF(scope->what, is_kept, CUSHIM_STATE, "pinned=%zu",
                   (size_t)(pinned * CUSHIM_ARENA_GRAIN_BYTES));
    CUSHIM_TRY(cushim_capture_refuse(scope));
    CUSHIM_TRY(cushim_arena_order_wait(scope, arena));
    close_book(arena);
    enum cushim_status status = cushim_arena_memory_release(scope, arena);
    end_book(arena, status, cushim_arena_book_drain);
    return status;
}

enum cushim_status cushim_arena_drain(struct cushim_arena *handle) {
    cushim_graph_resources_give_back();
    CUSHIM_ENTER_ARENA(__func__, handle);
    CUSHIM_TRY(CUSHIM_UNDER(&arena->order.lock, drain_regions(&scope, arena)));
    return arena->fallback.pool ? cushim_pool_drain(arena->fallback.pool) : CUSHIM_OK;
}
