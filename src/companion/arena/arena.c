/* Arenas as objects: options, life and pins. */
#include "companion/arena/arena_internal.h"

#include <stdlib.h>

#include "cushim/device.h"
#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"
#include "companion/stream/stream.h"
#include "base/lock.h"

/* ---- entering ---- */

static enum cushim_status refuse_ended(const char *what, struct cushim_arena *handle) {
    return cushim_fail(what, CUSHIM_BADHANDLE, "handle=%p: destroyed, still pinned",
                       (void *)handle);
}

enum cushim_status cushim_arena_enter(struct cushim_scope *scope, const char *what,
                                      struct cushim_arena *handle,
                                      struct cushim_arena_object **arena) {
    CUSHIM_TRY(cushim_call_begin_object(scope, what, CUSHIM_KIND_ARENA, handle, arena));
    if (!atomic_load(&(*arena)->is_ended))
        return CUSHIM_OK;
    *arena = NULL;
    return cushim_call_end(scope, refuse_ended(what, handle));
}

/* An arena that was destroyed while pinned still answers an unpin. */
static enum cushim_status look_at_any(struct cushim_pin *pin, const char *what,
                                      struct cushim_arena *handle,
                                      struct cushim_arena_object **arena) {
    *arena = NULL;
    CUSHIM_TRY(cushim_check_given(what, "arena", handle));
    if (!cushim_driver_is_forked())
        *arena = cushim_handle_pin(pin, CUSHIM_KIND_ARENA, handle);
    if (*arena)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_driver_use_process(what));
    return cushim_fail(what, CUSHIM_BADHANDLE, "handle=%p", (void *)handle);
}

enum cushim_status cushim_arena_look(struct cushim_pin *pin, const char *what,
                                     struct cushim_arena *handle,
                                     struct cushim_arena_object **arena) {
    CUSHIM_TRY(look_at_any(pin, what, handle, arena));
    if (!load_relaxed(&(*arena)->is_ended))
        return CUSHIM_OK;
    cushim_handle_unpin(pin);
    *arena = NULL;
    return refuse_ended(what, handle);
}

/* ---- options ---- */

void cushim_arena_options_default(struct cushim_arena_options *options) {
    if (!options)
        return;
    const struct cushim_options *settings = cushim_settings();
    *options = (struct cushim_arena_options){
        .struct_size = sizeof *options,
        .device = -1,
        .managed = settings->arena_managed,
        .capacity_bytes = SIZE_MAX,
        .stream = CUSHIM_STREAM_ALL,
        .regions = 1,
        .flags = settings->arena_poison ? CUSHIM_ARENA_FLAG_POISON : 0,
    };
}

static enum cushim_status check_options(const char *what,
                                        const struct cushim_arena_options *options) {
    unsigned known = CUSHIM_ARENA_FLAG_REUSE | CUSHIM_ARENA_FLAG_POISON |
                     CUSHIM_ARENA_FLAG_RESET_FALLBACK | CUSHIM_ARENA_FLAG_UNFENCED;
    size_t capacity = options->capacity_bytes;
    if (!capacity || capacity > PTRDIFF_MAX - CUSHIM_ARENA_GRAIN_BYTES ||
        cushim_arena_grains(capacity) > CUSHIM_ARENA_MOST_GRAINS / CUSHIM_ARENA_N_REGIONS)
        return cushim_fail(what, CUSHIM_INVALID, "capacity_bytes=%zu", capacity);
    if (options->regions < 1 || options->regions > CUSHIM_ARENA_N_REGIONS)
        return cushim_fail(what, CUSHIM_INVALID, "regions=%u", options->regions);
    CUSHIM_FAIL_IF(what, options->flags & ~known, CUSHIM_INVALID, "flags=0x%x", options->flags);
    if (options->managed < CUSHIM_ARENA_MANAGED_AUTO ||
        options->managed > CUSHIM_ARENA_MANAGED_ALWAYS || options->device < -1)
        return cushim_fail(what, CUSHIM_INVALID, "managed=%d device=%d", options->managed,
                           options->device);
    if (options->base % CUSHIM_ARENA_GRAIN_BYTES ||
        (options->flags & CUSHIM_ARENA_FLAG_UNFENCED && !options->base))
        return cushim_fail(what, CUSHIM_INVALID, "base=0x%llx flags=0x%x",
                           (unsigned long long)options->base, options->flags);
    CUSHIM_FAIL_IF(what, options->stream == CUSHIM_STREAM_OWN, CUSHIM_INVALID, "stream=OWN");
    return CUSHIM_OK;
}

/* ---- the memory behind the regions ---- */

/* Get the memory behind the regions, device or managed: one allocation, one row of the address map.
 */
static enum cushim_status obtain_memory(struct cushim_scope *scope,
                                        struct cushim_arena_object *arena, int mode, size_t bytes) {
    int has_managed = 0, is_shared = 0, device = scope->context->device;
    if (mode != CUSHIM_ARENA_MANAGED_NEVER) {
        CUSHIM_TRY(cushim_device_managed(device, &has_managed));
        CUSHIM_TRY(cushim_device_shared(device, &is_shared));
    }
    if (mode == CUSHIM_ARENA_MANAGED_ALWAYS && !has_managed)
        return cushim_scope_fail(scope, CUSHIM_NOTSUPPORTED, "managed memory, device=%d", device);
    if (mode == CUSHIM_ARENA_MANAGED_ALWAYS)
        CUSHIM_NEED_ENTRY(scope->what, cuMemAllocManaged);
    arena->is_managed = has_managed && CUSHIM_DRIVER(cuMemAllocManaged) &&
                        (mode == CUSHIM_ARENA_MANAGED_ALWAYS || is_shared);
    struct cushim_memory_request request;
    if (arena->is_managed)
        cushim_memory_managed(&request, bytes, CU_MEM_ATTACH_GLOBAL);
    else
        cushim_memory_plain(&request, bytes);
    request.owner = &arena->object;
    CUSHIM_TRY(cushim_memory_obtain(scope, &request, &arena->base));
    arena->has_memory = arena->has_row = true;
    return CUSHIM_OK;
}

/* Out of the address map only. */
static void forget_row(struct cushim_arena_object *arena) {
    struct cushim_address_map_row row;
    if (arena->has_row && cushim_address_map_erase(arena->base, &row) == CUSHIM_OK)
        cushim_address_map_drop(&row);
    arena->has_row = false;
}

enum cushim_status cushim_arena_memory_release(struct cushim_scope *scope,
                                               struct cushim_arena_object *arena) {
    struct cushim_address_map_row row;
    if (!arena->has_memory)
        return CUSHIM_OK;
    bool has_row = arena->has_row && cushim_address_map_erase(arena->base, &row) == CUSHIM_OK;
    enum cushim_status status =
        CUSHIM_RELAXED(CUSHIM_CALL(scope, cuMemFree_v2, (CUdeviceptr)arena->base));
    arena->has_memory = status != CUSHIM_OK;
    if (has_row && status != CUSHIM_OK)
        cushim_address_map_restore(&row);
    else if (has_row)
        cushim_address_map_drop(&row);
    arena->has_row = has_row && status != CUSHIM_OK;
    return status;
}

/* ---- life ---- */

static void finish(struct cushim_object *object) {
    struct cushim_arena_object *arena = (struct cushim_arena_object *)object;
    CUSHIM_SCOPE scope = {0};
    bool is_alive = object->context && cushim_call_begin_quietly(&scope, object->context);
    if (is_alive)
        cushim_arena_memory_release(&scope, arena);
    else
        forget_row(arena);
    cushim_arena_order_finish(&arena->order, !is_alive);
    cushim_call_end(&scope, CUSHIM_OK);
    free(arena->fallback.loans);
    cushim_arena_book_finish(&arena->book);
    pthread_mutex_destroy(&arena->lock);
    free(arena);
}

/* Allocate and set up what needs no device; NULL: no host memory. */
static struct cushim_arena_object *make(const struct cushim_arena_options *options,
                                        struct cushim_context_object *context) {
    /* it begins a cache line, because all threads write its first lines */
    struct cushim_arena_object *arena = cushim_object_alloc(sizeof *arena);
    if (!arena)
        return NULL;
    if (!cushim_arena_book_init(&arena->book, cushim_arena_grains(options->capacity_bytes),
                                options->regions, options->flags & CUSHIM_ARENA_FLAG_REUSE)) {
        free(arena);
        return NULL;
    }
    cushim_arena_order_init(&arena->order);
    pthread_mutex_init(&arena->lock, NULL);
    arena->flags = options->flags;
    arena->base = options->base;
    arena->is_managed = options->base && options->managed == CUSHIM_ARENA_MANAGED_ALWAYS;
    arena->is_ours = !options->base;
    arena->stream = options->stream;
    arena->fallback.pool = options->fallback;
    arena->device = context ? context->device : options->device < 0 ? 0 : options->device;
    cushim_object_init(&arena->object, CUSHIM_KIND_ARENA, context, finish);
    return arena;
}

/* The handles in the options must be open now; each use looks them up again. */
static enum cushim_status check_handles(struct cushim_scope *scope,
                                        struct cushim_arena_options *options) {
    CUSHIM_STREAM_USE use = {0};
    if (options->fallback && !cushim_handle_is_open(CUSHIM_KIND_POOL, options->fallback))
        return cushim_scope_fail(scope, CUSHIM_BADHANDLE, "fallback=%p", (void *)options->fallback);
    if (!scope->context || options->stream == CUSHIM_STREAM_ALL)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_stream_use_in(scope, options->stream, &use));
    if (use.handle == CU_STREAM_PER_THREAD) /* its handle means another stream in each thread */
        options->stream = CUSHIM_STREAM_PER_THREAD;
    return CUSHIM_OK;
}

/* In the scope of its context, which is NULL with UNFENCED. */
static enum cushim_status create(struct cushim_scope *scope, struct cushim_arena_options *options,
                                 struct cushim_arena **out) {
    CUSHIM_TRY(check_handles(scope, options));
    struct cushim_arena_object *arena = make(options, scope->context);
    CUSHIM_FAIL_IF(scope->what, !arena, CUSHIM_NOMEM, "host memory");
    enum cushim_status status = CUSHIM_OK;
    if (arena->is_ours)
        status = obtain_memory(scope, arena, options->managed,
                               arena->book.n_grains * options->regions * CUSHIM_ARENA_GRAIN_BYTES);
    if (status == CUSHIM_OK)
        status = cushim_handle_open(&arena->object, out);
    if (status == CUSHIM_OK)
        return status;
    forget_row(arena); /* because its row keeps the arena */
    cushim_object_release(arena);
    return status;
}

enum cushim_status cushim_arena_create(const struct cushim_arena_options *given,
                                       struct cushim_arena **out) {
    CUSHIM_SCOPE scope = {.what = __func__};
    struct cushim_arena_options options;
    CUSHIM_TRY(cushim_check_out(__func__, "arena", out, sizeof *out));
    cushim_arena_options_default(&options);
    CUSHIM_TRY(cushim_struct_size_take(__func__, &options, sizeof options, given));
    if (options.capacity_bytes == SIZE_MAX)
        options.capacity_bytes = cushim_settings()->arena;
    CUSHIM_TRY(check_options(__func__, &options));
    if (options.flags & CUSHIM_ARENA_FLAG_UNFENCED) {
        CUSHIM_TRY(cushim_driver_use_process(__func__));
        return create(&scope, &options, out);
    }
    CUSHIM_TRY(options.ctx || options.device == -1
                   ? cushim_call_begin_context(&scope, __func__, options.ctx)
                   : cushim_call_begin_device(&scope, __func__, options.device));
    return create(&scope, &options, out);
}

/* If blocks are pinned, the memory stays until the last unpin; true: it does. */
static bool end_pinned(struct cushim_arena_object *arena) {
    pthread_mutex_lock(&arena->order.lock);
    pthread_mutex_lock(&arena->lock);
    bool is_pinned = arena->book.pins.n != 0;
    if (is_pinned) {
        cushim_arena_book_close(&arena->book);
        atomic_store(&arena->is_ended, true);
    }
    pthread_mutex_unlock(&arena->lock);
    pthread_mutex_unlock(&arena->order.lock);
    return is_pinned;
}

enum cushim_status cushim_arena_destroy(struct cushim_arena *handle) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_arena_object *arena;
    CUSHIM_PIN pin = {0};
    if (!handle)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_arena_look(&pin, __func__, handle, &arena));
    bool is_pinned = end_pinned(arena);
    cushim_handle_unpin(&pin);
    if (is_pinned)
        return CUSHIM_OK;
    CUSHIM_TRY(cushim_call_begin_destroy(&scope, __func__, CUSHIM_KIND_ARENA, handle, &arena));
    CUSHIM_LOCKED(&arena->order.lock);
    forget_row(arena);
    return CUSHIM_OK;
}

/* ---- pins ---- */

/* The answer of the two functions on pins, with its text. */
static enum cushim_status tell(const char *what, enum cushim_status status,
                               struct cushim_arena *handle, cushim_devptr ptr) {
    return status == CUSHIM_OK ? status
                               : cushim_fail(what, status, "ptr=0x%llx arena=%p",
                                             (unsigned long long)ptr, (void *)handle);
}

enum cushim_status cushim_arena_pin(struct cushim_arena *handle, cushim_devptr ptr) {
    uint64_t at;
    CUSHIM_LOOK_AT_ARENA(__func__, handle);
    enum cushim_status status = CUSHIM_UNKNOWNPTR;
    if (cushim_arena_place(arena, ptr, &at)) {
        CUSHIM_LOCKED(&arena->order.lock); /* not while a reset is under way */
        status = CUSHIM_UNDER(&arena->lock, cushim_arena_book_pin(&arena->book, at));
    }
    return tell(__func__, status, handle, ptr);
}

enum cushim_status cushim_arena_unpin(struct cushim_arena *handle, cushim_devptr ptr) {
    struct cushim_arena_object *arena;
    CUSHIM_PIN pin = {0};
    uint64_t at;
    CUSHIM_TRY(look_at_any(&pin, __func__, handle, &arena));
    enum cushim_status status = CUSHIM_UNKNOWNPTR;
    bool is_last = false;
    if (cushim_arena_place(arena, ptr, &at)) {
        pthread_mutex_lock(&arena->lock);
        status = cushim_arena_book_unpin(&arena->book, at, arena->order.open);
        is_last = status == CUSHIM_OK && !arena->book.pins.n && atomic_load(&arena->is_ended);
        pthread_mutex_unlock(&arena->lock);
    }
    if (is_last) { /* of a destroyed arena, whose memory is freed now */
        pthread_mutex_lock(&arena->order.lock);
        forget_row(arena);
        pthread_mutex_unlock(&arena->order.lock);
        cushim_object_close(&arena->object);
    }
    return tell(__func__, status, handle, ptr);
}
