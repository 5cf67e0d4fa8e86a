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

static bool is_pool(const struct cushim_pool *handle) {
    return cushim_handle_is_open(CUSHIM_KIND_POOL, handle);
}

/* An arena that was destroyed while pinned only answers unpins. */
static bool is_arena(const struct cushim_arena *handle) {
    CUSHIM_PIN pin = {0};
    const struct cushim_arena_object *arena = cushim_handle_pin(&pin, CUSHIM_KIND_ARENA, handle);
    return arena && !atomic_load(&arena->is_ended);
}

#define DEFAULT(noun, out)                                                                         \
    enum cushim_status cushim_##noun##_set_default(struct cushim_##noun *handle) {                 \
        CUSHIM_TRY(cushim_driver_use_process(__func__));                                           \
        if (handle && !is_##noun(handle))                                                          \
            return CUSHIM_FAIL(CUSHIM_BADHANDLE, "handle=%p", (void *)handle);                     \
        atomic_store(&noun##_now, handle);                                                         \
        return CUSHIM_OK;                                                                          \
    }                                                                                              \
    enum cushim_status cushim_##noun##_default(struct cushim_##noun **out) {                       \
        CUSHIM_OUT(out);                                                                           \
        CUSHIM_TRY(cushim_driver_use_process(__func__));                                           \
        struct cushim_##noun *now = atomic_load(&noun##_now);                                      \
        *out = now && is_##noun(now) ? now : NULL;                                                 \
        return CUSHIM_OK;                                                                          \
    }

DEFAULT(pool, p)
DEFAULT(arena, arena)
