/*
 * The defaults of the process: one pool, one arena, as handles.
 *
 * Only the program uses them; the library itself never does.  A destroy need not clear them,
 * because a closed handle is recognised.
 */
#include "cushim/pool.h"
#include "companion/arena/arena_internal.h"

static _Atomic(struct cushim_pool *) pool_now;
static _Atomic(struct cushim_arena *) arena_now;

/* An arena that was destroyed while pinned only answers unpins. */
static bool is_arena(struct cushim_arena *handle) {
    CUSHIM_PIN pin = {0};
    const struct cushim_arena_object *arena = cushim_handle_pin(&pin, CUSHIM_KIND_ARENA, handle);
    return arena && !atomic_load(&arena->is_ended);
}

enum cushim_status cushim_pool_set_default(struct cushim_pool *p) {
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    if (p && !cushim_handle_is_open(CUSHIM_KIND_POOL, p))
        return CUSHIM_FAIL(CUSHIM_BADHANDLE, "handle=%p", (void *)p);
    atomic_store(&pool_now, p);
    return CUSHIM_OK;
}

enum cushim_status cushim_pool_default(struct cushim_pool **p) {
    CUSHIM_OUT(p);
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    struct cushim_pool *now = atomic_load(&pool_now);
    if (now && cushim_handle_is_open(CUSHIM_KIND_POOL, now))
        *p = now;
    return CUSHIM_OK;
}

enum cushim_status cushim_arena_set_default(struct cushim_arena *arena) {
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    if (arena && !is_arena(arena))
        return CUSHIM_FAIL(CUSHIM_BADHANDLE, "handle=%p", (void *)arena);
    atomic_store(&arena_now, arena);
    return CUSHIM_OK;
}

enum cushim_status cushim_arena_default(struct cushim_arena **arena) {
    CUSHIM_OUT(arena);
    CUSHIM_TRY(cushim_driver_use_process(__func__));
    struct cushim_arena *now = atomic_load(&arena_now);
    if (now && is_arena(now))
        *arena = now;
    return CUSHIM_OK;
}
