#include "companion/mapped/mapped.h"

#include <stdlib.h>

#include "companion/context/address_map.h"
#include "companion/capture/known_captures.h"
#include "memory/fence/stream_fence.h"

enum { FLAGS = CUSHIM_MAPPED_FLAG_SLAB };

/* ---- alloc ---- */

static void finish(struct cushim_object *object) {
    struct cushim_mapped_object *mapped = (struct cushim_mapped_object *)object;
    if (mapped->slab)
        cushim_slab_give(mapped);
    else if (mapped->span.memory.bytes) /* else the allocation failed */
        cushim_span_release(mapped->mapper, object->context, &mapped->span);
    cushim_object_release(mapped->mapper);
    free(mapped);
}

static uint64_t start_of(const struct cushim_mapped_object *mapped) {
    return mapped->span.device + mapped->offset;
}

/* If the context died, the address and its row may belong to another block by now. */
static void erase(struct cushim_mapped_object *mapped) {
    struct cushim_address_map_row row;
    if (cushim_address_map_erase(start_of(mapped), &row) != CUSHIM_OK)
        return;
    if (row.owner == &mapped->object)
        cushim_address_map_drop(&row);
    else
        cushim_address_map_restore(&row);
}

static enum cushim_status record(struct cushim_scope *scope, struct cushim_mapped_object *mapped) {
    const struct cushim_address_map_row row =
        cushim_address_map_row_of(CUSHIM_MEMORY_MAPPED, start_of(mapped), mapped->bytes,
                                  mapped->object.context, &mapped->object);
    enum cushim_status status = cushim_address_map_record(&row);
    return status == CUSHIM_OK ? CUSHIM_OK
                               : cushim_scope_fail(scope, status, "ptr=0x%llx bytes=%zu",
                                                   (unsigned long long)row.start, row.bytes);
}

/* The scope's context is current, and the block's. */
static enum cushim_status alloc_in(struct cushim_scope *scope, struct cushim_mapper_object *mapper,
                                   size_t bytes, unsigned flags, struct cushim_mapped **out) {
    struct cushim_mapped_object *mapped = calloc(1, sizeof *mapped);
    CUSHIM_FAIL_IF(scope->what, !mapped, CUSHIM_NOMEM, "host=%zu", sizeof *mapped);
    cushim_object_init(&mapped->object, CUSHIM_KIND_MAPPED, scope->context, finish);
    mapped->mapper = cushim_object_keep(mapper);
    mapped->bytes = bytes;
    bool is_small = flags & CUSHIM_MAPPED_FLAG_SLAB && bytes <= CUSHIM_SLAB_MOST_BYTES;
    enum cushim_status status = is_small ? cushim_slab_take(scope, mapped)
                                         : cushim_span_obtain(scope, mapper, bytes, &mapped->span);
    if (status == CUSHIM_OK)
        status = record(scope, mapped);
    if (status == CUSHIM_OK && (status = cushim_handle_open(&mapped->object, out)) != CUSHIM_OK)
        erase(mapped);
    if (status != CUSHIM_OK)
        cushim_object_release(mapped);
    return status;
}

enum cushim_status cushim_mapped_alloc(struct cushim_mapper *handle, size_t bytes, unsigned flags,
                                       struct cushim_mapped **mapped) {
    CUSHIM_SCOPE of_device = {0};
    CUSHIM_OUT(mapped);
    CUSHIM_FAIL_IF(__func__, bytes == 0 || bytes > INT64_MAX, CUSHIM_INVALID, "bytes=%zu", bytes);
    CUSHIM_FAIL_IF(__func__, flags & ~(unsigned)FLAGS, CUSHIM_INVALID, "flags=%u", flags);
    CUSHIM_ENTER(MAPPER, mapper, handle);
    if (!scope.context) /* it is of a device: use its primary context, which may be a new one */
        CUSHIM_TRY(cushim_call_begin_device(&of_device, __func__, mapper->device));
    return alloc_in(scope.context ? &scope : &of_device, mapper, bytes, flags, mapped);
}

/* ---- free ---- */

/* The memory is freed by the last user: this call, or a running call of another thread. */
enum cushim_status cushim_mapped_free(struct cushim_mapped *mapped) {
    CUSHIM_SCOPE scope = {0};
    struct cushim_mapped_object *b;
    if (!mapped)
        return CUSHIM_OK;
    /* before the handle is closed: a refused free has freed nothing */
    CUSHIM_TRY(cushim_capture_refuse_handle(__func__, CUSHIM_KIND_MAPPED, mapped));
    CUSHIM_TRY(cushim_call_begin_destroy(&scope, __func__, CUSHIM_KIND_MAPPED, mapped, &b));
    erase(b);
    return scope.is_dead ? CUSHIM_OK : cushim_mem_stream_fence_wait_all(&scope.context->fence);
}

/* ---- questions ---- */

CUSHIM_FACT(MAPPED, mapped, host, void *, p, (char *)mapped->span.memory.host + mapped->offset)
CUSHIM_FACT(MAPPED, mapped, device, cushim_devptr, p, start_of(mapped))
CUSHIM_FACT(MAPPED, mapped, size, size_t, bytes, mapped->bytes)
CUSHIM_FACT(MAPPED, mapped, coherent, int, yes, mapped->mapper->type.is_coherent)
CUSHIM_FACT(MAPPED, mapped, atom, size_t, bytes, mapped->mapper->type.atom_bytes)

/* ---- flush, invalidate, export ---- */

/* Flush or invalidate whole atoms; a range up to the end of the block includes its last atom. */
static enum cushim_status make_visible(const char *what, struct cushim_mapped *handle, size_t off,
                                       size_t bytes, enum cushim_card_sync way) {
    CUSHIM_ENTER_AS(what, MAPPED, mapped, handle);
    size_t atom = mapped->mapper->type.atom_bytes;
    enum cushim_status status = CUSHIM_OK;
    bool is_inside = off <= mapped->bytes && bytes <= mapped->bytes - off;
    if (!is_inside || off % atom || (bytes % atom && off + bytes != mapped->bytes)) {
        status = cushim_scope_fail(&scope, CUSHIM_INVALID, "off=%zu bytes=%zu size=%zu atom=%zu",
                                   off, bytes, mapped->bytes, atom);
    } else if (mapped->mapper->type.is_coherent) {
        cushim_mapped_fence();
    } else if (bytes) {
        cushim_mapped_fence(); /* stores that went around the caches are not among what is flushed
                                */
        bytes += (atom - bytes % atom) % atom;
        status = cushim_card_sync(mapped->mapper->card, &mapped->span.memory, mapped->offset + off,
                                  bytes, way);
    }
    return status;
}

enum cushim_status cushim_mapped_flush(struct cushim_mapped *mapped, size_t off, size_t bytes) {
    return make_visible(__func__, mapped, off, bytes, CUSHIM_CARD_FLUSH);
}

enum cushim_status cushim_mapped_invalidate(struct cushim_mapped *mapped, size_t off,
                                            size_t bytes) {
    return make_visible(__func__, mapped, off, bytes, CUSHIM_CARD_INVALIDATE);
}

enum cushim_status cushim_mapped_export(struct cushim_mapped *handle, int *fd) {
    int made = -1;
    CUSHIM_NEED(fd);
    *fd = -1; /* 0 would be the standard input */
    CUSHIM_ENTER(MAPPED, mapped, handle);
    enum cushim_status status =
        mapped->slab
            ? cushim_scope_fail(&scope, CUSHIM_STATE, "bytes=%zu: of a slab", mapped->bytes)
            : cushim_card_export(__func__, mapped->mapper->card, &mapped->span.memory,
                                 CUSHIM_CARD_DMA_BUF, &made);
    if (status == CUSHIM_OK)
        *fd = made;
    return status;
}
