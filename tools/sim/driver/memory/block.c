#include "block.h"

#include "tools/sim/driver/core/calls.h"
#include "tools/sim/driver/context/context.h"
#include "tools/sim/driver/context/share.h"
#include "tools/sim/driver/core/internal.h"
#include "sim.h"
#include "slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Larger ones have pages of their own. */
enum { SMALL_BYTES = 1 << 20 };

/* Pinned and managed memory: 32 GiB of addresses, for all devices. */
enum { HOST_PAGE_BYTES = 64 << 10, N_HOST_PAGES = 512 << 10 };
static struct sim_space host_space;

static struct sim_block **blocks; /* by address; none overlap */
static size_t n_blocks, cap_blocks;
static unsigned long long last_buffer_id;
static size_t n_kept; /* number of kept blocks */

/* The place of the first block that ends behind an address. */
static size_t place_of(const char *address) {
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (blocks[middle]->address + blocks[middle]->n_bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(struct sim_block *block) {
    if (n_blocks == cap_blocks) {
        size_t cap = cap_blocks ? 2 * cap_blocks : 256;
        struct sim_block **grown = realloc(blocks, cap * sizeof(struct sim_block *));
        if (!grown)
            return false;
        blocks = grown;
        cap_blocks = cap;
    }
    size_t place = place_of(block->address);
    memmove(blocks + place + 1, blocks + place, (n_blocks - place) * sizeof(struct sim_block *));
    blocks[place] = block;
    n_blocks++;
    return true;
}

static struct sim_block *create(enum sim_block_kind kind, struct sim_context *context,
                                size_t n_bytes) {
    struct sim_block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->kind = kind;
    block->context = context ? context->root : NULL;
    block->device = context ? context->device : NULL;
    block->n_bytes = n_bytes;
    block->n_owners = 1;
    block->buffer_id = ++last_buffer_id;
    return block;
}

static bool place_on_device(struct sim_block *block) {
    block->address = block->n_bytes <= SMALL_BYTES
                         ? sim_slab_take(block->context, block->pool, block->n_bytes, &block->slab)
                         : sim_pages_take(block->context, block->pool, block->n_bytes);
    return block->address != NULL;
}

static bool place_on_host(struct sim_block *block) {
    if (!host_space.base && !sim_space_init(&host_space, HOST_PAGE_BYTES, N_HOST_PAGES, false))
        return false;
    block->address = sim_space_take(&host_space, block->n_bytes, 1);
    if (!block->address)
        return false;
    if (sim_space_commit(&host_space, block->address, block->n_bytes))
        return true;
    sim_space_give(&host_space, block->address, block->n_bytes);
    return false;
}

static void unplace(struct sim_block *block) {
    switch (block->kind) {
    case SIM_BLOCK_DEVICE:
    case SIM_BLOCK_ASYNC:
        if (block->slab)
            sim_slab_give(block->context, block->pool, block->slab, block->address, block->n_bytes);
        else
            sim_pages_give(block->context, block->pool, block->address, block->n_bytes);
        break;
    case SIM_BLOCK_HOST:
    case SIM_BLOCK_MANAGED:
        sim_space_decommit(&host_space, block->address, block->n_bytes);
        sim_space_give(&host_space, block->address, block->n_bytes);
        break;
    default:
        break;
    }
}

static CUresult finish(struct sim_block *block, bool is_placed, struct sim_block **out) {
    if (is_placed && insert(block)) {
        *out = block;
        return CUDA_SUCCESS;
    }
    if (is_placed)
        unplace(block);
    free(block);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Release those that no process has open any more. */
static void release_kept(void) {
    for (size_t i = n_blocks; i-- > 0 && n_kept > 0;) {
        if (blocks[i]->is_kept && !blocks[i]->is_held(blocks[i]->owner_data)) {
            n_kept--;
            blocks[i]->is_held = NULL;
            sim_block_release(blocks[i]);
        }
    }
}

static CUresult obtain(enum sim_block_kind kind, struct sim_context *context, struct sim_pool *pool,
                       size_t n_bytes, struct sim_block **out) {
    release_kept();
    struct sim_block *block = create(kind, context, n_bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->pool = pool;
    return finish(block, place_on_device(block), out);
}

CUresult sim_block_obtain(struct sim_context *context, size_t n_bytes, struct sim_block **out) {
    return obtain(SIM_BLOCK_DEVICE, context, NULL, n_bytes, out);
}

CUresult sim_block_obtain_async(struct sim_context *context, struct sim_pool *pool, size_t n_bytes,
                                struct sim_block **out) {
    return obtain(SIM_BLOCK_ASYNC, context, pool, n_bytes, out);
}

CUresult sim_block_obtain_host(enum sim_block_kind kind, struct sim_context *context,
                               size_t n_bytes, unsigned flags, struct sim_block **out) {
    struct sim_block *block = create(kind, context, n_bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->flags = flags;
    return finish(block, place_on_host(block), out);
}

CUresult sim_block_note(enum sim_block_kind kind, struct sim_context *context,
                        struct sim_device *device, void *address, size_t n_bytes,
                        struct sim_block **out) {
    struct sim_block *block = create(kind, context, n_bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->device = device;
    block->address = address;
    return finish(block, true, out);
}

void sim_block_release(struct sim_block *block) {
    if (block->is_held && block->is_held(block->owner_data)) {
        block->is_freed = block->is_kept = true;
        n_kept++;
        return;
    }
    size_t place = place_of(block->address);
    n_blocks--;
    memmove(blocks + place, blocks + place + 1, (n_blocks - place) * sizeof(struct sim_block *));
    unplace(block);
    if (block->end_owner)
        block->end_owner(block->owner_data);
    free(block);
}

struct sim_block *sim_block_find_any(CUdeviceptr address) {
    const char *at = (const char *)(uintptr_t)address;
    size_t place = place_of(at);
    return place < n_blocks && blocks[place]->address <= at ? blocks[place] : NULL;
}

struct sim_block *sim_block_find(CUdeviceptr address) {
    struct sim_block *block = sim_block_find_any(address);
    return block && !block->is_freed && block->kind != SIM_BLOCK_INTERNAL ? block : NULL;
}

struct sim_block *sim_block_next(const struct sim_block *block) {
    size_t place = block ? place_of(block->address) + 1 : 0;
    return place < n_blocks ? blocks[place] : NULL;
}

struct sim_block *sim_block_at(CUdeviceptr address) {
    struct sim_block *block = sim_block_find(address);
    return block && block->address == (char *)(uintptr_t)address ? block : NULL;
}

bool sim_block_overlaps(const void *address, size_t n_bytes) {
    size_t place = place_of(address);
    return place < n_blocks && blocks[place]->address < (const char *)address + n_bytes;
}

static bool lets_in(const struct sim_block *block, const struct sim_device *device) {
    return block->kind != SIM_BLOCK_MAPPED || !device || block->access[device->ordinal];
}

bool sim_block_lets_in(CUdeviceptr address, const struct sim_device *device) {
    const struct sim_block *block = sim_block_find_any(address);
    return !block || lets_in(block, device);
}

/* Is the address in a range of ours, if nothing lives there either? */
static bool is_ours(const char *at) {
    return sim_device_of(at) || (host_space.base && sim_space_has(&host_space, at));
}

static bool is_open(const struct sim_block *block, bool is_written) {
    unsigned all = block->kind == SIM_BLOCK_MAPPED ? 0 : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (int device = 0; device < SIM_MAX_DEVICES; device++)
        all |= block->access[device];
    return is_written ? all == CU_MEM_ACCESS_FLAGS_PROT_READWRITE : all != 0;
}

bool sim_block_is_there(const void *address, size_t n_bytes, bool is_written) {
    const char *at = address, *end = at + n_bytes;
    while (at < end) {
        const struct sim_block *block = sim_block_find_any((CUdeviceptr)(uintptr_t)at);
        if (!block)
            return !is_ours(at);
        if (!is_open(block, is_written))
            return false;
        if (block->kind == SIM_BLOCK_REGISTERED)
            return true; /* a piece of a larger host buffer: the rest is pageable */
        at = block->address + block->n_bytes;
    }
    return true;
}

CUresult sim_block_judge(CUdeviceptr address, size_t n_bytes, const struct sim_device *device,
                         struct sim_block **out) {
    const char *at = (const char *)(uintptr_t)address;
    *out = sim_block_find_any(address);
    if (*out && (*out)->is_freed)
        *out = NULL;
    if (*out) {
        if (!lets_in(*out, device))
            return CUDA_ERROR_INVALID_VALUE;
        size_t n_left = (*out)->n_bytes - (size_t)(at - (*out)->address);
        /* A copy may leave a registered piece of a larger host buffer: the rest is pageable. */
        bool fits = n_bytes <= n_left || (*out)->kind == SIM_BLOCK_REGISTERED;
        if ((*out)->kind == SIM_BLOCK_MAPPED && !fits)
            return sim_block_judge(address + n_left, n_bytes - n_left, device, out);
        return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return is_ours(at) || !at ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void sim_blocks_end_context(struct sim_context *root) {
    for (size_t i = n_blocks; i-- > 0;) {
        if (blocks[i]->context != root)
            continue;
        sim_internal_note(blocks[i]);
        n_kept -= blocks[i]->is_kept;
        blocks[i]->is_held = NULL;
        sim_block_release(blocks[i]);
    }
}

void sim_blocks_of_pool(const struct sim_pool *pool, size_t *n_bytes, size_t *n_found) {
    *n_bytes = *n_found = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        if (blocks[i]->pool == pool) {
            *n_bytes += blocks[i]->n_bytes;
            ++*n_found;
        }
    }
}

bool sim_block_is_host(const struct sim_block *block) {
    return block->kind == SIM_BLOCK_HOST || block->kind == SIM_BLOCK_MANAGED ||
           block->kind == SIM_BLOCK_REGISTERED;
}

/* ---- for tests ---- */

static void count_live(size_t *n_bytes, size_t *n_found) {
    *n_bytes = *n_found = 0;
    pthread_mutex_lock(&sim_lock);
    for (size_t i = 0; i < n_blocks; i++) {
        if (!sim_block_is_host(blocks[i]) && blocks[i]->kind != SIM_BLOCK_IMPORTED &&
            blocks[i]->kind != SIM_BLOCK_INTERNAL && !blocks[i]->is_kept) {
            *n_bytes += blocks[i]->n_bytes;
            ++*n_found;
        }
    }
    pthread_mutex_unlock(&sim_lock);
}

size_t sim_live_bytes(void) {
    size_t n_bytes, n_found;
    count_live(&n_bytes, &n_found);
    return n_bytes;
}

size_t sim_used_bytes(int ordinal) {
    pthread_mutex_lock(&sim_lock);
    size_t n_pages = ordinal < 0 || ordinal >= SIM_PLACES ? 0 : sim_share_used(ordinal);
    pthread_mutex_unlock(&sim_lock);
    return n_pages * SIM_PAGE_BYTES;
}

int sim_allocation_at(const void *address, void **base, size_t *n_bytes) {
    pthread_mutex_lock(&sim_lock);
    const struct sim_block *block = sim_block_find((CUdeviceptr)(uintptr_t)address);
    bool is_found = block && (block->kind == SIM_BLOCK_DEVICE || block->kind == SIM_BLOCK_ASYNC ||
                              block->kind == SIM_BLOCK_MAPPED);
    if (is_found) { /* the range of a device begins on a page */
        *base = block->address - (uintptr_t)block->address % SIM_PAGE_BYTES;
        *n_bytes = sim_space_round(&block->device->space, block->n_bytes);
    }
    pthread_mutex_unlock(&sim_lock);
    return is_found;
}

size_t sim_live_allocations(void) {
    size_t n_bytes, n_found;
    count_live(&n_bytes, &n_found);
    return n_found;
}
