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

/* ---- that wait ---- */

/* The driver's entry for the kind, with what is behind its name. */
#define BY_KIND(scope, kind, behind, plain, dst, src, ...)                                         \
    ((kind) == CUSHIM_COPY_H2D ? CUSHIM_CALL(scope, cuMemcpyHtoD##behind, dst,                     \
                                             (const void *)(uintptr_t)(src), __VA_ARGS__)          \
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

/* On the legacy stream, or in the order of a stream. */
static enum cushim_status copy(const char *what, uint64_t dst, uint64_t src, size_t bytes,
                               enum cushim_copy_kind kind, bool is_async, struct cushim_stream *s) {
    CUSHIM_MEMORY_CALL call = {
        .n_ranges = 2,
        .ranges = {cushim_memory_span("dst", dst, bytes, place_of(kind, true)),
                   cushim_memory_span("src", src, bytes, place_of(kind, false))}};
    struct cushim_scope *scope = &call.scope;
    CUSHIM_TRY(cushim_driver_use(what));
    if (kind < CUSHIM_COPY_H2H || kind > CUSHIM_COPY_BY_ADDRESS)
        return cushim_fail(what, CUSHIM_INVALID, "kind=%d", kind);
    CUSHIM_SOME_BYTES(what, bytes);
    CUSHIM_TRY(cushim_memory_enter(&call, what, s));
    CUSHIM_TRY(is_async ? cushim_memory_may_queue(&call) : cushim_capture_refuse(scope));
    if (is_async)
        return BY_KIND(scope, kind, Async_v2, cuMemcpyAsync, dst, src, bytes, call.stream);
    CUSHIM_TRY(BY_KIND(scope, kind, _v2, cuMemcpy, dst, src, bytes));
    return ends_later(&call, kind) ? cushim_memory_wait(&call) : CUSHIM_OK;
}

enum cushim_status cushim_memory_copy(cushim_devptr dst, cushim_devptr src, size_t bytes,
                                      enum cushim_copy_kind kind) {
    return copy(__func__, dst, src, bytes, kind, false, CUSHIM_STREAM_LEGACY);
}

enum cushim_status cushim_memory_copy_async(cushim_devptr dst, cushim_devptr src, size_t bytes,
                                            enum cushim_copy_kind kind, struct cushim_stream *s) {
    return copy(__func__, dst, src, bytes, kind, true, s);
}

/* The calls whose name is the kind. */
#define COPY(name, KIND, dst_type, src_type)                                                       \
    enum cushim_status cushim_memory_##name(dst_type dst, src_type src, size_t bytes) {            \
        return copy(__func__, (uintptr_t)dst, (uintptr_t)src, bytes, CUSHIM_COPY_##KIND, false,    \
                    CUSHIM_STREAM_LEGACY);                                                         \
    }                                                                                              \
    enum cushim_status cushim_memory_##name##_async(dst_type dst, src_type src, size_t bytes,      \
                                                    struct cushim_stream *s) {                     \
        return copy(__func__, (uintptr_t)dst, (uintptr_t)src, bytes, CUSHIM_COPY_##KIND, true, s); \
    }

COPY(h2d, H2D, cushim_devptr, const void *)
COPY(d2h, D2H, void *, cushim_devptr)
COPY(d2d, D2D, cushim_devptr, cushim_devptr)

/* ---- in the order of a stream ---- */
