#include "memory/heap/direct.h"

#include "base/try.h"
#include "memory/heap/growth.h"
#include "memory/state/free_lists.h"
#include "memory/state/segments.h"
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

enum cushim_status cushim_mem_direct_take(struct cushim_mem_heap *pool, size_t n_bytes,
                                          bool is_pressed, struct cushim_mem_lookup *found) {
    struct cushim_mem_blockref place;
    uint64_t life = atomic_load_explicit(&pool->generation, memory_order_acquire);
    if (!(life & 1) || !cushim_mem_heap_lock_life(pool, life))
        return CUSHIM_STATE;
    bool is_taken = is_pressed ? cushim_mem_free_lists_take_any(pool, n_bytes, &place)
                               : cushim_mem_free_lists_take(pool, n_bytes, &place);
    if (is_taken)
        hand_out(&place, n_bytes, found);
    pthread_mutex_unlock(&pool->lock);
    return is_taken ? CUSHIM_OK : CUSHIM_NOTFOUND;
}

enum cushim_status cushim_mem_direct_fetch(struct cushim_mem_heap *pool, size_t n_bytes,
                                           struct cushim_mem_lookup *found) {
    struct cushim_mem_blockref place = {NULL, 0};
    uint64_t life = atomic_load_explicit(&pool->generation, memory_order_acquire), base;
    size_t segment_bytes;
    bool is_own = cushim_mem_free_lists_is_dedicated(pool, n_bytes);
    CUSHIM_TRY(cushim_mem_growth_fetch(pool, n_bytes, is_own, &segment_bytes, &base));
    if (!(life & 1) || !cushim_mem_heap_lock_life(pool, life)) /* it went with the context */
        return CUSHIM_STATE;
    struct cushim_mem_extent *extent = cushim_mem_segments_enter(pool, base, segment_bytes, is_own);
    bool is_served = extent && is_own;
    if (is_served) {
        place.extent = extent;
        cushim_mem_free_lists_count_taken(pool, extent->block_bytes);
    } else if (extent) { /* fails when host memory for descriptors is out */
        is_served = cushim_mem_free_lists_take(pool, n_bytes, &place);
    }
    if (is_served)
        hand_out(&place, n_bytes, found);
    pthread_mutex_unlock(&pool->lock);
    if (!extent)
        cushim_mem_segments_put_back(pool, base, segment_bytes);
    return is_served ? CUSHIM_OK : CUSHIM_NOMEM;
}

void cushim_mem_direct_give(struct cushim_mem_heap *pool, const struct cushim_mem_lookup *found) {
    pthread_mutex_lock(&pool->lock);
    cushim_mem_free_lists_give(pool, found->segment, &found->place);
    pthread_mutex_unlock(&pool->lock);
}

size_t cushim_mem_direct_trim(struct cushim_mem_heap *pool, size_t keep_bytes) {
    struct cushim_mem_segment *list = NULL;
    pthread_mutex_lock(&pool->lock);
    cushim_mem_free_lists_drain(pool); /* one free slab can keep a whole segment */
    size_t free_bytes = pool->free_segment_bytes;
    if (free_bytes > keep_bytes)
        list = cushim_mem_segments_detach(pool, pool->held_bytes - (free_bytes - keep_bytes));
    pthread_mutex_unlock(&pool->lock);
    size_t n_bytes = list ? cushim_mem_segments_release(pool, list) : 0;
    pthread_mutex_lock(&pool->lock);
    cushim_mem_watermark_note_given(pool, n_bytes);
    pthread_mutex_unlock(&pool->lock);
    return n_bytes;
}
