/* How epochs end: by resets, and at last by a drain. */
#include "companion/arena/arena_internal.h"

#include "cushim/pool.h"
#include "companion/capture/known_captures.h"
#include "companion/capture/graph_resources.h"
#include "companion/stream/stream.h"
#include "base/lock.h"

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
    return cushim_arena_order_end(scope, arena, stream, use.handle);
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
    CUSHIM_SCOPE scope = {0};
    struct cushim_arena_object *arena;
    cushim_graph_resources_give_back();
    CUSHIM_TRY(cushim_arena_enter(&scope, __func__, handle, &arena));
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
    if (is_kept)
        return cushim_scope_fail(scope, CUSHIM_STATE, "pinned=%zu",
                                 (size_t)(pinned * CUSHIM_ARENA_GRAIN_BYTES));
    CUSHIM_TRY(cushim_capture_refuse(scope));
    CUSHIM_TRY(cushim_arena_order_wait(scope, arena));
    close_book(arena);
    enum cushim_status status = cushim_arena_memory_release(scope, arena);
    end_book(arena, status, cushim_arena_book_drain);
    return status;
}

enum cushim_status cushim_arena_drain(struct cushim_arena *handle) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_arena_object *arena;
    cushim_graph_resources_give_back();
    CUSHIM_TRY(cushim_arena_enter(&scope, __func__, handle, &arena));
    pthread_mutex_lock(&arena->order.lock);
    enum cushim_status status = drain_regions(&scope, arena);
    pthread_mutex_unlock(&arena->order.lock);
    if (status == CUSHIM_OK && arena->fallback.pool)
        status = cushim_pool_drain(arena->fallback.pool);
    return status;
}
