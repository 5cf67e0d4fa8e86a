/* The blocks that captures took from an arena (companion/arena/arena.h). */
#include "companion/arena/arena.h"

#include <stdlib.h>
#include <utlist.h>

#include "companion/arena/arena_internal.h"
#include "base/lock.h"

enum cushim_status cushim_arena_graph_prepare(const char *what,
                                              struct cushim_context_object *context,
                                              struct cushim_arena *handle,
                                              struct cushim_arena_graph **out) {
    *out = NULL;
    CUSHIM_ENTER_ARENA(what, handle);
    if (scope.context) { /* else UNFENCED; wait for every fence, so that blocks may go into the
                            capture */
        CUSHIM_FAIL_IF(what, !cushim_context_is_same(context, scope.context), CUSHIM_BADDEVICE,
                       "an arena of another context");
        CUSHIM_LOCKED(&arena->order.lock);
        CUSHIM_TRY(cushim_arena_order_wait(&scope, arena));
    }
    struct cushim_arena_graph *hold = calloc(1, sizeof *hold);
    CUSHIM_FAIL_IF(scope.what, !hold, CUSHIM_NOMEM, "host memory");
    hold->arena = cushim_object_keep(arena);
    *out = hold;
    return CUSHIM_OK;
}

void cushim_arena_graph_start(struct cushim_arena_graph *hold, uint64_t capture_id) {
    struct cushim_arena_object *arena = hold->arena;
    hold->capture_id = capture_id;
    hold->thread = pthread_self();
    pthread_mutex_lock(&arena->order.lock);
    atomic_fetch_add(&arena->order.n_collecting, 1);
    cushim_arena_order_forget(&arena->order); /* from here on each request takes the slow path */
    pthread_mutex_lock(&arena->lock);
    hold->is_listed = hold->is_collecting = true;
    LL_PREPEND(arena->book.pins.holds, hold);
    pthread_mutex_unlock(&arena->lock);
    pthread_mutex_unlock(&arena->order.lock);
}

void cushim_arena_graph_stop(struct cushim_arena_graph *hold) {
    struct cushim_arena_object *arena = hold->arena;
    CUSHIM_LOCKED(&arena->order.lock);
    if (hold->is_collecting)
        atomic_fetch_sub(&arena->order.n_collecting, 1);
    hold->is_collecting = false;
}

size_t cushim_arena_graph_bytes(struct cushim_arena_graph *hold) {
    CUSHIM_LOCKED(&hold->arena->lock);
    return (size_t)hold->n_grains * CUSHIM_ARENA_GRAIN_BYTES;
}

void cushim_arena_graph_drop(struct cushim_arena_graph *hold) {
    if (!hold)
        return;
    struct cushim_arena_object *arena = hold->arena;
    cushim_arena_graph_stop(hold);
    pthread_mutex_lock(&arena->lock);
    if (hold->is_listed)
        LL_DELETE(arena->book.pins.holds, hold);
    pthread_mutex_unlock(&arena->lock);
    free(hold->ranges);
    free(hold);
    cushim_object_release(arena);
}
