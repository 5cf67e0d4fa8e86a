/*
 * Copying lines.  The kind selects the driver's function; it is checked first against what the
 * address map has of both ends.
 */
#include "cushim/memory_copy.h"

#include "companion/capture/known_captures.h"
#include "companion/memory/memory.h"

static enum cushim_memory_place place_of(enum cushim_copy_kind kind, bool is_dst) {
    enum cushim_copy_kind to_device = is_dst ? CUSHIM_COPY_H2D : CUSHIM_COPY_D2H;
    if (kind == CUSHIM_COPY_BY_ADDRESS)
        return CUSHIM_MEMORY_ANYWHERE;
    return kind == CUSHIM_COPY_D2D || kind == to_device ? CUSHIM_MEMORY_AT_DEVICE
                                                        : CUSHIM_MEMORY_AT_HOST;
}

static enum cushim_status judge(const char *what, size_t bytes, enum cushim_copy_kind kind) {
    CUSHIM_TRY(cushim_driver_use(what));
    if (kind < CUSHIM_COPY_H2H || kind > CUSHIM_COPY_BY_ADDRESS)
        return cushim_fail(what, CUSHIM_INVALID, "kind=%d", kind);
    return cushim_memory_check_bytes(what, "bytes", bytes);
}

static enum cushim_status enter(struct cushim_memory_call *call, const char *what, uint64_t dst,
                                uint64_t src, size_t bytes, enum cushim_copy_kind kind,
                                struct cushim_stream *s) {
    *call = (struct cushim_memory_call){
        .n_ranges = 2,
        .ranges = {
            {.name = "dst", .address = dst, .bytes = bytes, .place = place_of(kind, true)},
            {.name = "src", .address = src, .bytes = bytes, .place = place_of(kind, false)}}};
    return cushim_memory_enter(call, what, s);
}

static const void *host(uint64_t address) {
    return (const void *)(uintptr_t)address;
}

/* ---- that wait ---- */

/* The driver's entry for the kind, with what is behind its name. */
#define BY_KIND(scope, kind, behind, plain, dst, src, ...)                                         \
    ((kind) == CUSHIM_COPY_H2D                                                                     \
         ? CUSHIM_CALL(scope, cuMemcpyHtoD##behind, dst, host(src), __VA_ARGS__)                   \
     : (kind) == CUSHIM_COPY_D2H                                                                   \
         ? CUSHIM_CALL(scope, cuMemcpyDtoH##behind, (void *)(uintptr_t)(dst), src, __VA_ARGS__)    \
     : (kind) == CUSHIM_COPY_D2D ? CUSHIM_CALL(scope, cuMemcpyDtoD##behind, dst, src, __VA_ARGS__) \
                                 : CUSHIM_CALL(scope, plain, dst, src, __VA_ARGS__))

/*
 * The driver returns from a copy inside the device before it ends, and from one of pageable memory
 * as soon as that was read; a stream that does not wait for the legacy one would see old bytes.
 */
static bool ends_later(const struct cushim_memory_call *call, enum cushim_copy_kind kind) {
    const struct cushim_memory_range *src = &call->ranges[1];
    bool is_pinned = src->is_known && (src->row.kind == CUSHIM_MEMORY_PINNED ||
                                       src->row.kind == CUSHIM_MEMORY_REGISTERED);
    if (kind == CUSHIM_COPY_H2D)
        return !is_pinned;
    return kind == CUSHIM_COPY_D2D || kind == CUSHIM_COPY_BY_ADDRESS;
}

static enum cushim_status copy(const char *what, uint64_t dst, uint64_t src, size_t bytes,
                               enum cushim_copy_kind kind) {
    CUSHIM_MEMORY_CALL call = {0};
    CUSHIM_TRY(judge(what, bytes, kind));
    if (!bytes)
        return CUSHIM_OK;
    CUSHIM_TRY(enter(&call, what, dst, src, bytes, kind, CUSHIM_STREAM_LEGACY));
    CUSHIM_TRY(cushim_capture_refuse(&call.scope));
    CUSHIM_TRY(BY_KIND(&call.scope, kind, _v2, cuMemcpy, dst, src, bytes));
    return ends_later(&call, kind) ? cushim_memory_wait(&call) : CUSHIM_OK;
}

enum cushim_status cushim_memory_copy(cushim_devptr dst, cushim_devptr src, size_t bytes,
                                      enum cushim_copy_kind kind) {
    return copy(__func__, dst, src, bytes, kind);
}

enum cushim_status cushim_memory_h2d(cushim_devptr dst, const void *src, size_t bytes) {
    return copy(__func__, dst, (uintptr_t)src, bytes, CUSHIM_COPY_H2D);
}

enum cushim_status cushim_memory_d2h(void *dst, cushim_devptr src, size_t bytes) {
    return copy(__func__, (uintptr_t)dst, src, bytes, CUSHIM_COPY_D2H);
}

enum cushim_status cushim_memory_d2d(cushim_devptr dst, cushim_devptr src, size_t bytes) {
    return copy(__func__, dst, src, bytes, CUSHIM_COPY_D2D);
}

/* ---- in the order of a stream ---- */

static enum cushim_status copy_async(const char *what, uint64_t dst, uint64_t src, size_t bytes,
                                     enum cushim_copy_kind kind, struct cushim_stream *s) {
    CUSHIM_MEMORY_CALL call = {0};
    CUSHIM_TRY(judge(what, bytes, kind));
    if (!bytes)
        return CUSHIM_OK;
    CUSHIM_TRY(enter(&call, what, dst, src, bytes, kind, s));
    CUSHIM_TRY(cushim_memory_may_queue(&call));
    return BY_KIND(&call.scope, kind, Async_v2, cuMemcpyAsync, dst, src, bytes, call.stream);
}

enum cushim_status cushim_memory_copy_async(cushim_devptr dst, cushim_devptr src, size_t bytes,
                                            enum cushim_copy_kind kind, struct cushim_stream *s) {
    return copy_async(__func__, dst, src, bytes, kind, s);
}

enum cushim_status cushim_memory_h2d_async(cushim_devptr dst, const void *src, size_t bytes,
                                           struct cushim_stream *s) {
    return copy_async(__func__, dst, (uintptr_t)src, bytes, CUSHIM_COPY_H2D, s);
}

enum cushim_status cushim_memory_d2h_async(void *dst, cushim_devptr src, size_t bytes,
                                           struct cushim_stream *s) {
    return copy_async(__func__, (uintptr_t)dst, src, bytes, CUSHIM_COPY_D2H, s);
}

enum cushim_status cushim_memory_d2d_async(cushim_devptr dst, cushim_devptr src, size_t bytes,
                                           struct cushim_stream *s) {
    return copy_async(__func__, dst, src, bytes, CUSHIM_COPY_D2D, s);
}
