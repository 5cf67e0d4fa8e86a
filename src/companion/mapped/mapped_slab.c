/*
 * Slabs: spans of 2 MiB, given out in units of a bitmap, first fit.
 *
 * A slab belongs to one context.  One empty slab is kept for the next block; other empty ones are
 * freed, and so are those of dead contexts.  A freed block may serve again at once, because its
 * free waited for the context.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/bits.h"
#include "companion/mapped/mapped.h"

enum {
    SLAB_BYTES = 2 << 20,
    UNIT_BYTES = 256, /* what device memory is aligned to; a power of two, as atoms are */
    N_UNITS = SLAB_BYTES / UNIT_BYTES
};

struct cushim_slab {
    struct cushim_slab *next;
    struct cushim_context_object *context; /* kept */
    struct cushim_span span;
    size_t n_used; /* units */
    bool is_used[N_UNITS];
};

static size_t units_of(size_t n_bytes) {
    return (n_bytes + UNIT_BYTES - 1) / UNIT_BYTES;
}

/* The first gap of n units that begins on `align`; N_UNITS: there is none. */
static size_t find_gap(const struct cushim_slab *slab, size_t n, size_t align) {
    for (size_t at = 0; at + n <= N_UNITS;) {
        size_t n_free = 0;
        while (n_free < n && !slab->is_used[at + n_free])
            n_free++;
        if (n_free == n)
            return at;
        at = (at + n_free) / align * align + align;
    }
    return N_UNITS;
}

static bool take_from(struct cushim_slab *slab, struct cushim_mapped_object *mapped) {
    size_t n = units_of(mapped->bytes);
    /* pieces begin with an atom, and atoms of some hardware are larger than our units */
    size_t align = cushim_most(mapped->mapper->type.unit_bytes / UNIT_BYTES, 1);
    size_t at = find_gap(slab, n, align);
    if (at == N_UNITS)
        return false;
    memset(slab->is_used + at, true, n);
    slab->n_used += n;
    mapped->slab = slab;
    mapped->span = slab->span;
    mapped->offset = at * UNIT_BYTES;
    return true;
}

static void destroy(struct cushim_mapper_object *mapper, struct cushim_slab *slab) {
    cushim_span_release(mapper, slab->context, &slab->span);
    cushim_object_release(slab->context);
    free(slab);
}

static enum cushim_status create(struct cushim_scope *scope, struct cushim_mapper_object *mapper,
                                 struct cushim_slab **out) {
    struct cushim_slab *slab = calloc(1, sizeof *slab);
    CUSHIM_FAIL_IF(scope->what, !slab, CUSHIM_NOMEM, "host=%zu", sizeof *slab);
    enum cushim_status status = cushim_span_obtain(scope, mapper, SLAB_BYTES, &slab->span);
    if (status != CUSHIM_OK) {
        free(slab);
        return status;
    }
    slab->context = cushim_object_keep(scope->context);
    *out = slab;
    return CUSHIM_OK;
}

enum cushim_status cushim_slab_take(struct cushim_scope *scope,
                                    struct cushim_mapped_object *mapped) {
    struct cushim_mapper_object *mapper = mapped->mapper;
    struct cushim_slab *slab, *made = NULL;
    pthread_mutex_lock(&mapper->lock);
    for (slab = mapper->slabs; slab; slab = slab->next) {
        if (cushim_context_is_same(slab->context, scope->context) && take_from(slab, mapped))
            break;
    }
    pthread_mutex_unlock(&mapper->lock);
    if (slab)
        return CUSHIM_OK;
    CUSHIM_TRY(create(scope, mapper, &made));
    take_from(made, mapped); /* it cannot fail: no other thread knows it yet, and it is empty */
    pthread_mutex_lock(&mapper->lock);
    made->next = mapper->slabs;
    mapper->slabs = made;
    pthread_mutex_unlock(&mapper->lock);
    return CUSHIM_OK;
}

/* Whether another empty slab serves the same context.  Under the lock. */
static bool has_spare(const struct cushim_mapper_object *mapper, const struct cushim_slab *slab) {
    for (const struct cushim_slab *at = mapper->slabs; at; at = at->next) {
        if (at != slab && at->n_used == 0 && cushim_context_is_same(at->context, slab->context))
            return true;
    }
    return false;
}

void cushim_slab_give(struct cushim_mapped_object *mapped) {
    struct cushim_mapper_object *mapper = mapped->mapper;
    struct cushim_slab *slab = mapped->slab;
    size_t n = units_of(mapped->bytes);
    pthread_mutex_lock(&mapper->lock);
    memset(slab->is_used + mapped->offset / UNIT_BYTES, false, n);
    slab->n_used -= n;
    bool is_over =
        slab->n_used == 0 && (cushim_context_is_dead(slab->context) || has_spare(mapper, slab));
    if (is_over)
        LL_DELETE(mapper->slabs, slab);
    pthread_mutex_unlock(&mapper->lock);
    if (is_over)
        destroy(mapper, slab);
}

void cushim_slabs_end(struct cushim_mapper_object *mapper) {
    while (mapper->slabs) {
        struct cushim_slab *slab = mapper->slabs;
        mapper->slabs = slab->next;
        destroy(mapper, slab);
    }
}
