#include "memory/heap/direct.h"

#include "base/try.h"
#include "memory/heap/growth.h"
#include "memory/state/free_lists.h"
#include "memory/state/heap_state.h"

static void hand_out(const struct cushim_mem_blockref *place, size_t n_bytes,
                     struct cushim_mem_lookup *found) {
    struct cushim_mem_extent *extent = place->extent;
    *found = (struct cushim_mem_lookup){
        .segment = extent->segment,
        .place = *place,
        .cell = cushim_mem_free_lists_meta(place),
        .state = CUSHIM_MEM_LIVE,
        .base = cushim_mem_extent_address(extent) + place->index * extent->block_bytes,
        .asked_bytes = n_bytes,
        .block_bytes = extent->block_bytes,
    };
    atomic_store_explicit(&found->cell->asked_bytes, n_bytes, memory_order_relaxed);
    atomic_store_explicit(&found->cell->state, CUSHIM_MEM_LIVE, memory_order_release);
}

enum cushim_status cushim_mem_direct_take(struct cushim_mem_heap *pool, size_t n_bytes, bool is_cut,
                                          struct cushim_mem_lookup *found) {
    struct cushim_mem_blockref place;
    uint64_t life = atomic_load_explicit(&pool->generation, memory_order_acquire);
    if (!(life & 1) || !cushim_mem_heap_lock_life(pool, life))
        return CUSHIM_STATE;
    bool is_taken =
        is_cut ? cushim_mem_free_lists_take_cut(pool, cushim_mem_sizeclass_of(n_bytes), &place)
               : cushim_mem_free_lists_take(pool, n_bytes, &place);
    if (is_taken)
        hand_out(&place, n_bytes, found);
    pthread_mutex_unlock(&pool->lock);
    return is_taken ? CUSHIM_OK : CUSHIM_NOTFOUND;
}

enum cushim_status cushim_mem_direct_fetch(struct cushim_mem_heap *pool, size_t n_bytes,
                                           struct cushim_mem_lookup *found) {
    struct cushim_mem_blockref place;
    uint64_t life = atomic_load_explicit(&pool->generation, memory_order_acquire);
    if (!(life & 1))
        return CUSHIM_STATE;
    CUSHIM_TRY(cushim_mem_growth_take(pool, life, n_bytes, &place));
    hand_out(&place, n_bytes, found);
    pthread_mutex_unlock(&pool->lock);
    return CUSHIM_OK;
}

void cushim_mem_direct_give(struct cushim_mem_heap *pool, const struct cushim_mem_lookup *found) {
    pthread_mutex_lock(&pool->lock);
    cushim_mem_free_lists_give(pool, &found->place);
    pthread_mutex_unlock(&pool->lock);
}
