#include "slab.h"

#include "pool.h"

#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/context/device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT_BYTES = 512, N_UNITS = (2 << 20) / UNIT_BYTES };

struct sim_slab {
    struct sim_slab *next;
    char *base;
    size_t n_used;
    uint8_t is_used[N_UNITS];
};

static void refund(struct sim_device *device, struct sim_pool *pool, size_t n_pages) {
    if (pool)
        sim_pool_refund(pool, n_pages);
    else
        sim_device_refund(device, n_pages);
}

char *sim_pages_take(struct sim_context *context, struct sim_pool *pool, size_t n_bytes) {
    struct sim_device *device = context->device;
    size_t n_pages = sim_space_round(&device->space, n_bytes) / SIM_PAGE_BYTES;
    if (!(pool ? sim_pool_charge(pool, n_pages) : sim_device_charge(device, n_pages)))
        return NULL;
    char *address = sim_space_take(&device->space, n_bytes, 1);
    if (!address)
        goto error_charge;
    if (!sim_space_commit(&device->space, address, n_bytes))
        goto error_space;
    return address;

error_space:
    sim_space_give(&device->space, address, n_bytes);
error_charge:
    refund(device, pool, n_pages);
    return NULL;
}

void sim_pages_give(struct sim_context *context, struct sim_pool *pool, char *address,
                    size_t n_bytes) {
    struct sim_device *device = context->device;
    sim_space_decommit(&device->space, address, n_bytes);
    sim_space_give(&device->space, address, n_bytes);
    refund(device, pool, sim_space_round(&device->space, n_bytes) / SIM_PAGE_BYTES);
}

/* The first run of n free units; N_UNITS: none. */
static size_t find_gap(const struct sim_slab *slab, size_t n) {
    size_t run = 0;
    if (N_UNITS - slab->n_used < n)
        return N_UNITS;
    for (size_t i = 0; i < N_UNITS; i++) {
        run = slab->is_used[i] ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return N_UNITS;
}

static struct sim_slab **slabs_of(struct sim_context *context, struct sim_pool *pool) {
    return pool ? &pool->slabs : &context->slabs;
}

static struct sim_slab *create(struct sim_context *context, struct sim_pool *pool) {
    struct sim_slab *slab = calloc(1, sizeof *slab);
    if (!slab)
        return NULL;
    slab->base = sim_pages_take(context, pool, SIM_PAGE_BYTES);
    if (!slab->base) {
        free(slab);
        return NULL;
    }
    struct sim_slab **slabs = slabs_of(context, pool);
    slab->next = *slabs;
    *slabs = slab;
    return slab;
}

char *sim_slab_take(struct sim_context *context, struct sim_pool *pool, size_t n_bytes,
                    struct sim_slab **out) {
    size_t n = (n_bytes + UNIT_BYTES - 1) / UNIT_BYTES, first = N_UNITS;
    struct sim_slab *slab = *slabs_of(context, pool);
    while (slab && (first = find_gap(slab, n)) == N_UNITS)
        slab = slab->next;
    if (!slab) {
        slab = create(context, pool);
        first = 0;
    }
    if (!slab)
        return NULL;
    memset(slab->is_used + first, 1, n);
    slab->n_used += n;
    *out = slab;
    return slab->base + first * UNIT_BYTES;
}

void sim_slab_give(struct sim_context *context, struct sim_pool *pool, struct sim_slab *slab,
                   char *address, size_t n_bytes) {
    size_t n = (n_bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    memset(slab->is_used + (size_t)(address - slab->base) / UNIT_BYTES, 0, n);
    slab->n_used -= n;
    if (slab->n_used)
        return;
    struct sim_slab **at = slabs_of(context, pool);
    while (*at != slab)
        at = &(*at)->next;
    *at = slab->next;
    sim_pages_give(context, pool, slab->base, SIM_PAGE_BYTES);
    free(slab);
}
